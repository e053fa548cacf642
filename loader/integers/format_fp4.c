/* format_fp4.c - 4-bit floats of every packing (int8_packing.h), for devices as rows of bytes with a code in each. */
#include "base/float8.h"
#include "loader/integers/dequantise_codes.h"
#include "loader/integers/format_bytes.h"
#include "loader/integers/int8.h"

static void scale_codes(const int8_t *restrict codes, int64_t n, float scale, float zero, float *restrict to)
{
  (void)zero;
  for (int64_t i = 0; i < n; i++) to[i] = scale * yk_e2m1_to_f32((uint8_t)codes[i]);
}

static yk_status to_floats(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                           yk_err *err)
{
  static const yk_codes codes = {.read = yk_int8_read, .read_scales = yk_int8_read_scales, .scale = scale_codes};
  return yk_dequantise_codes(&codes, weight, slice, to, stride, err);
}

const yk_loader_format yk_loader_format_fp4 = {.is_ready = yk_bytes_are_ready,
                                               .repacked_bytes = yk_bytes_repacked_bytes,
                                               .repack = yk_bytes_repack,
                                               .to_floats = to_floats};
