#include "loader/safetensors/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TENSOR_NAME_BYTES = 256, SHAPE_TEXT_BYTES = 64 };

const yk_tensor *yk_tensors_find(const yk_shards *shards, const char *module, const char *suffix, const char **file)
{
  char name[TENSOR_NAME_BYTES];
  int n = snprintf(name, sizeof name, "%s.%s", module, suffix);
  return n > 0 && n < (int)sizeof name ? yk_shards_find(shards, name, file) : NULL;
}

static void format_shape(const int64_t *shape, int32_t n_dims, char out[SHAPE_TEXT_BYTES])
{
  size_t used = (size_t)snprintf(out, SHAPE_TEXT_BYTES, "[");
  for (int32_t i = 0; i < n_dims && used < SHAPE_TEXT_BYTES; i++)
    used += (size_t)snprintf(out + used, SHAPE_TEXT_BYTES - used, "%s%" PRId64, i ? ", " : "", shape[i]);
  if (used < SHAPE_TEXT_BYTES) snprintf(out + used, SHAPE_TEXT_BYTES - used, "]");
}

static bool is_of_kind(yk_tensor_dtype dtype, yk_tensor_kind kind, yk_dtype *float_dtype)
{
  switch (kind) {
  case YK_TENSORS_I8: return dtype == YK_TENSOR_I8;
  case YK_TENSORS_U8: return dtype == YK_TENSOR_U8 || dtype == YK_TENSOR_F8_E8M0;
  case YK_TENSORS_I16: return dtype == YK_TENSOR_I16;
  case YK_TENSORS_I32: return dtype == YK_TENSOR_I32;
  case YK_TENSORS_I64: return dtype == YK_TENSOR_I64;
  case YK_TENSORS_FP8: return dtype == YK_TENSOR_F8_E4M3;
  case YK_TENSORS_FLOAT: break;
  }
  switch (dtype) {
  case YK_TENSOR_F16: *float_dtype = YK_F16; return true;
  case YK_TENSOR_BF16: *float_dtype = YK_BF16; return true;
  case YK_TENSOR_F32: *float_dtype = YK_F32; return true;
  default: return false;
  }
}

yk_status yk_tensors_require(const yk_shards *shards, const char *module, const yk_tensor_wish *wish,
                             yk_dtype *float_dtype, const yk_tensor **out, yk_err *err)
{
  static const char *const kinds[] = {[YK_TENSORS_FLOAT] = "F16, BF16 or F32",
                                      [YK_TENSORS_I8] = "I8",
                                      [YK_TENSORS_U8] = "U8 or F8_E8M0",
                                      [YK_TENSORS_I16] = "I16",
                                      [YK_TENSORS_I32] = "I32",
                                      [YK_TENSORS_I64] = "I64",
                                      [YK_TENSORS_FP8] = "F8_E4M3"};
  char expected[SHAPE_TEXT_BYTES], found[SHAPE_TEXT_BYTES];
  const char *file;
  format_shape(wish->shape, wish->n_dims, expected);
  const yk_tensor *tensor = yk_tensors_find(shards, module, wish->suffix, &file);
  if (!tensor)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s.%s is missing, expected %s %s", yk_shards_source(shards), module,
                      wish->suffix, kinds[wish->kind], expected);
  bool shape_fits = tensor->n_dims == wish->n_dims &&
                    memcmp(tensor->shape, wish->shape, (size_t)wish->n_dims * sizeof *wish->shape) == 0;
  if (!is_of_kind(tensor->dtype, wish->kind, float_dtype) || !shape_fits) {
    format_shape(tensor->shape, tensor->n_dims, found);
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected %s %s, found %s %s", file, tensor->name,
                      kinds[wish->kind], expected, yk_tensor_dtype_name(tensor->dtype), found);
  }
  *out = tensor;
  return YK_OK;
}

bool yk_tensors_is_zero(const yk_tensor *tensor)
{
  const uint8_t *bytes = tensor->data;
  for (uint64_t i = 0; i < tensor->n_bytes; i++)
    if (bytes[i]) return false;
  return true;
}

yk_status yk_tensors_require_symmetric(const yk_shards *shards, const char *module, const char *suffix, yk_err *err)
{
  const char *file;
  const yk_tensor *zeros = yk_tensors_find(shards, module, suffix, &file);
  if (!zeros || yk_tensors_is_zero(zeros)) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: tensor %s: expected none, or zeros, as quantization_config is symmetric, found others", file,
                    zeros->name);
}
