/* int8_gptq.c - GPTQ's packing with 8 bits: a word holds four inputs of one output, and the words of four inputs form a
 * row. Zeros are bytes [groups, n]; version 1 stores zero - 1, so a zero of 256 is possible, and 0 is not.
 * Source: qlinear modules of auto_gptq and gptqmodel, pack(). */
#include "loader/integers/int8_packing.h"

enum { WORD_K = 4, TILE_WORDS = 64, TILE_K = WORD_K * TILE_WORDS, TILE_N = 16, CHUNK_N = 256 };

/* Read n_words words of a tile, output by output. Whole cache lines are read. */
static void read_tile(const yk_weight_view *weight, int64_t word, int n_words, int64_t n, int n_outputs,
                      uint32_t to[TILE_N][TILE_WORDS])
{
  const uint32_t flip = 0x80808080u;
  const char *from = (const char *)weight->qweight + (word * weight->n + n) * 4;
  for (int w = 0; w < n_words; w++, from += weight->n * 4) {
    uint32_t row[TILE_N];
    __builtin_prefetch(from + TILE_WORDS * weight->n * 4 + (TILE_N * 4 - 1)); /* the next tile along the inputs */
    if (n_outputs == TILE_N)
      memcpy(row, from, sizeof row); /* constant size, so that the compiler inlines the copy */
    else
      memcpy(row, from, (size_t)n_outputs * 4);
    for (int i = 0; i < n_outputs; i++) to[i][w] = row[i] ^ flip;
  }
}

/* Write inputs [k, k_end), at most a tile, of outputs [n, n_end) to `to`, whose element 0 is (n, k). */
static void read_tiles(const yk_weight_view *weight, int64_t k, int64_t k_end, int64_t n, int64_t n_end, int8_t *to,
                       int64_t stride)
{
  uint32_t tile[TILE_N][TILE_WORDS];
  int64_t word = k / WORD_K;
  int n_words = (int)(yk_ceil_div_i64(k_end, WORD_K) - word);
  size_t n_bytes = (size_t)(k_end - k);
  for (; n < n_end; n += TILE_N) {
    int n_outputs = (int)yk_min_i64(TILE_N, n_end - n);
    read_tile(weight, word, n_words, n, n_outputs, tile);
    for (int i = 0; i < n_outputs; i++, to += stride)
      if (n_bytes == TILE_K)
        memcpy(to, tile[i], TILE_K);
      else
        memcpy(to, (const char *)tile[i] + k % WORD_K, n_bytes);
  }
}

/* Each chunk of CHUNK_N outputs is processed over all inputs: few pages are written alternately, and enough is read
 * from each page. */
static void read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride)
{
  for (int64_t n = slice->n_begin; n < slice->n_end; n += CHUNK_N) {
    int64_t n_end = yk_min_i64(n + CHUNK_N, slice->n_end);
    int8_t *rows = to + (n - slice->n_begin) * stride;
    for (int64_t k = slice->k_begin, k_end; k < slice->k_end; k = k_end) {
      k_end = yk_min_i64(yk_round_up_i64(k + 1, TILE_K), slice->k_end);
      read_tiles(weight, k, k_end, n, n_end, rows + (k - slice->k_begin), stride);
    }
  }
}

static void scales(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  int64_t first = groups->first * weight->n + groups->output;
  yk_int8_floats(weight->dtype, weight->scales, first, weight->n, groups->n, to);
}

static void zeros(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  const uint8_t *from = (const uint8_t *)weight->qzeros + groups->first * weight->n + groups->output;
  int less = YK_INT8_OFFSET - (weight->zeros_less_one ? 1 : 0);
  for (int64_t i = 0; i < groups->n; i++, from += weight->n) to[i] = (float)(*from - less);
}

const yk_int8_ops yk_int8_gptq = {.read = read, .scales = scales, .zeros = zeros};
