/* format_int8.c - 8-bit integers of every packing (int8_packing.h), for devices as rows of bytes. */
#include "loader/integers/dequantise_codes.h"
#include "loader/integers/format_bytes.h"
#include "loader/integers/int8.h"

static yk_status to_floats(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                           yk_err *err)
{
  static const yk_codes codes = {.read = yk_int8_read, .read_scales = yk_int8_read_scales, .scale = yk_scale_integers};
  return yk_dequantise_codes(&codes, weight, slice, to, stride, err);
}

const yk_loader_format yk_loader_format_int8 = {.is_ready = yk_bytes_are_ready,
                                                .repacked_bytes = yk_bytes_repacked_bytes,
                                                .repack = yk_bytes_repack,
                                                .to_floats = to_floats};
