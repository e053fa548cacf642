#include "engine/machine/settings.h"

const char *yk_settings_kv_cache_dtype(const yk_settings *settings)
{
  bool is_static = settings->limits.kv_is_static;
  switch (settings->limits.kv_format) {
  case YK_KV_INT8: return is_static ? "int8" : "int8_per_token_head";
  case YK_KV_FP8: return is_static ? "fp8" : "fp8_per_token_head";
  default: return yk_dtype_name(settings->dtype);
  }
}
