#include "loader/dequantise.h"

#include "base/checked.h"
#include "base/float8.h"
#include "loader/int8.h"

enum { TILE = 128 }; /* inputs, and outputs, that are read at once */

/* The bytes of a tile, an output after the other. */
typedef int8_t tile_bytes[TILE][TILE];

static void scale_integers(const int8_t *restrict q, int64_t n, float scale, float zero, float *restrict to)
{
  for (int64_t i = 0; i < n; i++) to[i] = scale * ((float)q[i] - zero);
}

static void scale_floats(const int8_t *restrict codes, int64_t n, float scale, float *restrict to)
{
  for (int64_t i = 0; i < n; i++) to[i] = scale * yk_e4m3_to_f32((uint8_t)codes[i]);
}

/* One output of a tile, whose inputs lie in groups[0] and those that follow. */
static yk_status scale_row(const yk_weight_view *weight, const yk_weight_slice *tile, int64_t n, const int8_t *q,
                           float *to, yk_err *err)
{
  float scales[TILE], zeros[TILE];
  YK_TRY(yk_int8_read_scales(weight, tile, n, scales, zeros, err));
  int64_t group = tile->k_begin / weight->group;
  for (int64_t k = tile->k_begin, i = 0; k < tile->k_end; i++, group++) {
    int64_t end = yk_min_i64((group + 1) * weight->group, tile->k_end);
    int64_t at = k - tile->k_begin;
    if (weight->format == YK_WEIGHT_FP8)
      scale_floats(q + at, end - k, scales[i], to + at);
    else
      scale_integers(q + at, end - k, scales[i], zeros[i], to + at);
    k = end;
  }
  return YK_OK;
}

static yk_status dequantise_tile(const yk_weight_view *weight, const yk_weight_slice *tile, float *to, int64_t stride,
                                 yk_err *err)
{
  tile_bytes q;
  YK_TRY(yk_int8_read(weight, tile, q[0], TILE, err));
  for (int64_t n = tile->n_begin; n < tile->n_end; n++, to += stride)
    YK_TRY(scale_row(weight, tile, n, q[n - tile->n_begin], to, err));
  return YK_OK;
}

yk_status yk_dequantise(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                        yk_err *err)
{
  if (weight->format != YK_WEIGHT_INT8 && weight->format != YK_WEIGHT_FP8)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected 8-bit weights to dequantise, found weight format %d",
                      weight->tensor ? weight->tensor : "a weight", (int)weight->format);
  yk_weight_slice tile;
  for (tile.k_begin = slice->k_begin; tile.k_begin < slice->k_end; tile.k_begin = tile.k_end) {
    tile.k_end = yk_min_i64(yk_round_up_i64(tile.k_begin + 1, TILE), slice->k_end);
    for (tile.n_begin = slice->n_begin; tile.n_begin < slice->n_end; tile.n_begin = tile.n_end) {
      tile.n_end = yk_min_i64(yk_round_up_i64(tile.n_begin + 1, TILE), slice->n_end);
      float *at = to + (tile.n_begin - slice->n_begin) * stride + (tile.k_begin - slice->k_begin);
      YK_TRY(dequantise_tile(weight, &tile, at, stride, err));
    }
  }
  return YK_OK;
}
