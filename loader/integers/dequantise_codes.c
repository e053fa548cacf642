#include "loader/integers/dequantise_codes.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { TILE = 128 }; /* inputs, and outputs, read at once */

void yk_scale_integers(const int8_t *restrict q, int64_t n, float scale, float zero, float *restrict to)
{
  for (int64_t i = 0; i < n; i++) to[i] = scale * ((float)q[i] - zero);
}

/* Scales one output of a tile whose groups are consecutive. */
static yk_status scale_row(const yk_codes *codes, const yk_weight_view *weight, const yk_weight_slice *tile, int64_t n,
                           const int8_t *q, float *to, yk_err *err)
{
  float scales[TILE], zeros[TILE];
  YK_TRY(codes->read_scales(weight, tile, n, scales, zeros, err));
  int64_t group = tile->k_begin / weight->group;
  for (int64_t k = tile->k_begin, i = 0; k < tile->k_end; i++, group++) {
    int64_t end = yk_min_i64((group + 1) * weight->group, tile->k_end);
    int64_t at = k - tile->k_begin;
    codes->scale(q + at, end - k, scales[i], zeros[i], to + at);
    k = end;
  }
  return YK_OK;
}

/* Whether g_idx gives the group of each input; otherwise groups are runs of neighbouring inputs. */
static bool is_indexed(const yk_weight_view *weight)
{
  return weight->act_order && weight->g_idx;
}

/* Act order: the number of scales and zeros over all groups of an output. */
static int64_t numbers_of_output(const yk_weight_view *weight)
{
  return is_indexed(weight) ? 2 * (weight->k / weight->group) : 0;
}

/* numbers: scales, then zeros, for each output of the tile. */
static yk_status read_numbers(const yk_codes *codes, const yk_weight_view *weight, const yk_weight_slice *tile,
                              float *numbers, yk_err *err)
{
  const yk_weight_slice all = {.k_end = weight->k};
  int64_t n_groups = weight->k / weight->group;
  for (int64_t n = tile->n_begin; n < tile->n_end; n++, numbers += 2 * n_groups)
    YK_TRY(codes->read_scales(weight, &all, n, numbers, numbers + n_groups, err));
  return YK_OK;
}

/* scale_row if g_idx gives the group of each input. */
static void scale_row_by_index(const yk_weight_view *weight, const yk_weight_slice *tile, const float *numbers,
                               const int8_t *q, float *to)
{
  const float *zeros = numbers + weight->k / weight->group;
  const char *g_idx = (const char *)weight->g_idx + tile->k_begin * (int64_t)sizeof(int32_t);
  for (int64_t i = 0; i < tile->k_end - tile->k_begin; i++) {
    int32_t group; /* data in files may be unaligned */
    memcpy(&group, g_idx + i * (int64_t)sizeof group, sizeof group);
    to[i] = numbers[group] * ((float)q[i] - zeros[group]);
  }
}

static yk_status dequantise_tile(const yk_codes *codes, const yk_weight_view *weight, const yk_weight_slice *tile,
                                 const float *numbers, float *to, int64_t stride, yk_err *err)
{
  int8_t q[TILE][TILE]; /* a tile, output by output */
  YK_TRY(codes->read(weight, tile, q[0], TILE, err));
  for (int64_t n = tile->n_begin; n < tile->n_end; n++, to += stride, numbers += numbers_of_output(weight))
    if (is_indexed(weight))
      scale_row_by_index(weight, tile, numbers, q[n - tile->n_begin], to);
    else
      YK_TRY(scale_row(codes, weight, tile, n, q[n - tile->n_begin], to, err));
  return YK_OK;
}

/* numbers: space for the outputs of a tile. */
static yk_status dequantise_tiles(const yk_codes *codes, const yk_weight_view *weight, const yk_weight_slice *slice,
                                  float *numbers, float *to, int64_t stride, yk_err *err)
{
  yk_weight_slice tile;
  for (tile.n_begin = slice->n_begin; tile.n_begin < slice->n_end; tile.n_begin = tile.n_end) {
    tile.n_end = yk_min_i64(yk_round_up_i64(tile.n_begin + 1, TILE), slice->n_end);
    if (is_indexed(weight)) YK_TRY(read_numbers(codes, weight, &tile, numbers, err));
    for (tile.k_begin = slice->k_begin; tile.k_begin < slice->k_end; tile.k_begin = tile.k_end) {
      tile.k_end = yk_min_i64(yk_round_up_i64(tile.k_begin + 1, TILE), slice->k_end);
      float *at = to + (tile.n_begin - slice->n_begin) * stride + (tile.k_begin - slice->k_begin);
      YK_TRY(dequantise_tile(codes, weight, &tile, numbers, at, stride, err));
    }
  }
  return YK_OK;
}

yk_status yk_dequantise_codes(const yk_codes *codes, const yk_weight_view *weight, const yk_weight_slice *slice,
                              float *to, int64_t stride, yk_err *err)
{
  float *numbers = NULL;
  if (is_indexed(weight)) {
    int64_t n_outputs = yk_min_i64(TILE, slice->n_end - slice->n_begin);
    numbers = malloc((size_t)(n_outputs * numbers_of_output(weight)) * sizeof *numbers);
    if (!numbers) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of a weight's groups");
  }
  yk_status status = dequantise_tiles(codes, weight, slice, numbers, to, stride, err);
  free(numbers);
  return status;
}
