#include "loader/integers/int8_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

yk_status yk_int8_inputs_begin(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err)
{
  view->inputs = (yk_inputs){.kind = scheme->inputs};
  if (scheme->inputs == YK_INPUTS_FLOAT || view->k <= YK_MAX_QUANTISED_INPUTS) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %" PRId64 " inputs of 8 bits are not supported; supported: up to %d",
                    module, view->k, (int)YK_MAX_QUANTISED_INPUTS);
}

/* Find a tensor of one element, with or without a dimension. */
static yk_status require_one(const yk_shards *shards, const char *module, yk_tensor_wish wish, yk_dtype *dtype,
                             const yk_tensor **out, yk_err *err)
{
  const yk_tensor *tensor = yk_tensors_find(shards, module, wish.suffix, NULL);
  wish.n_dims = tensor && tensor->n_dims == 0 ? 0 : 1;
  wish.shape[0] = 1;
  return yk_tensors_require(shards, module, &wish, dtype, out, err);
}

yk_status yk_int8_inputs_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                              yk_weight_view *view, yk_err *err)
{
  static const char input_zero_name[] = "input_zero_point";
  const yk_tensor *scale, *zero;
  yk_dtype dtype = YK_F32;
  uint32_t element = 0; /* data in files may be unaligned */
  int8_t integer;
  if (scheme->inputs != YK_INPUTS_STATIC) return YK_OK;
  YK_TRY(require_one(shards, module, (yk_tensor_wish){.suffix = "input_scale", .kind = YK_TENSORS_FLOAT}, &dtype,
                     &scale, err));
  memcpy(&element, scale->data, yk_dtype_bytes(dtype));
  view->inputs.scale = yk_dtype_load(dtype, &element, 0);
  if (!(view->inputs.scale > 0.0f) || !isfinite(view->inputs.scale))
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected a finite number above 0, found %g",
                      yk_shards_source(shards), scale->name, (double)view->inputs.scale);
  if (!scheme->has_input_zeros) return yk_tensors_require_symmetric(shards, module, input_zero_name, err);
  YK_TRY(require_one(shards, module, (yk_tensor_wish){.suffix = input_zero_name, .kind = YK_TENSORS_I8}, NULL, &zero,
                     err));
  memcpy(&integer, zero->data, sizeof integer);
  view->inputs.zero = integer;
  return YK_OK;
}
