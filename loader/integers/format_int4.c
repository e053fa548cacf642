/* format_int4.c - 4-bit integers of every packing (int4_packing.h), for devices in AWQ's "gemm" order. */
#include "loader/integers/dequantise_codes.h"
#include "loader/integers/format.h"
#include "loader/integers/int4.h"

static size_t repacked_bytes(const yk_slice_source *source)
{
  return yk_int4_repacked_bytes(source->weight, &source->slice, source->order);
}

static yk_status repack(const yk_slice_source *source, yk_cpu_pool *pool, void *buffer, yk_repacked_slice *out,
                        yk_err *err)
{
  const yk_weight_slice *slice = &source->slice;
  yk_int4_repacked repacked;
  YK_TRY(yk_int4_repack(source->weight, slice, source->order, pool, buffer, &repacked, err));
  int64_t k = repacked.first_k, n = repacked.first_n;
  *out = (yk_repacked_slice){repacked.weight,
                             {slice->k_begin - k, slice->k_end - k, slice->n_begin - n, slice->n_end - n}};
  return YK_OK;
}

static yk_status to_floats(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                           yk_err *err)
{
  static const yk_codes integers = {
      .read = yk_int4_read, .read_scales = yk_int4_read_scales, .scale = yk_scale_integers};
  return yk_dequantise_codes(&integers, weight, slice, to, stride, err);
}

const yk_loader_format yk_loader_format_int4 = {.is_ready = yk_int4_is_ready,
                                                .check_ready = yk_int4_check_scales,
                                                .repacked_bytes = repacked_bytes,
                                                .repack = repack,
                                                .to_floats = to_floats};
