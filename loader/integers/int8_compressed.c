/* int8_compressed.c - the packing "pack-quantized" of compressed-tensors with 8 bits: a word holds four inputs of one
 * output, and the words of an output form a row; zeros are packed along the outputs. Both are stored plus 128.
 * Source: compressed_tensors, compressors/pack_quantized/helpers.py. */
#include "loader/integers/int8_packing.h"

static void read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride)
{
  int64_t row_bytes = yk_round_up_i64(weight->k, 4), n_k = slice->k_end - slice->k_begin;
  for (int64_t n = slice->n_begin; n < slice->n_end; n++, to += stride) {
    const uint8_t *from = (const uint8_t *)weight->qweight + n * row_bytes + slice->k_begin;
    for (int64_t i = 0; i < n_k; i++) to[i] = (int8_t)(from[i] ^ YK_INT8_OFFSET);
  }
}

static void zeros(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  const uint8_t *words = (const uint8_t *)weight->qzeros;
  int64_t n_groups = yk_int8_n_groups(weight), first = groups->output / 4 * n_groups + groups->first;
  for (int64_t i = 0; i < groups->n; i++) to[i] = (float)(words[(first + i) * 4 + groups->output % 4] - YK_INT8_OFFSET);
}

const yk_int8_ops yk_int8_compressed = {.read = read, .scales = yk_int8_scales_by_output, .zeros = zeros};
