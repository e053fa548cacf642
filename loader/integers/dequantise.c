#include "loader/integers/dequantise.h"

#include "loader/integers/format.h"

yk_status yk_dequantise(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                        yk_err *err)
{
  return yk_loader_format_of(weight->format)->to_floats(weight, slice, to, stride, err);
}
