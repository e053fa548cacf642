#include "engine/machine/settings.h"

#include "loader/model/quant_rules.h"

const char *yk_settings_kv_cache_dtype(const yk_settings *settings)
{
  bool is_static = settings->limits.kv_is_static;
  switch (settings->limits.kv_format) {
  case YK_KV_INT8: return is_static ? "int8" : "int8_per_token_head";
  case YK_KV_FP8: return is_static ? "fp8" : "fp8_per_token_head";
  default: return yk_dtype_name(settings->dtype);
  }
}

const char *yk_settings_activations(const yk_settings *settings, const yk_quant_config *quant)
{
  switch (settings->limits.rounding) {
  case YK_ROUNDING_NONE: return "dtype";
  case YK_ROUNDING_OF_CHECKPOINT: return yk_quant_may_have_inputs(quant, YK_INPUTS_FP8) ? "fp8" : "int8";
  case YK_ROUNDING_FP8: return "fp8";
  case YK_ROUNDING_INT8: return "int8";
  }
  return "dtype";
}
