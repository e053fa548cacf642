#include "loader/int4.h"

#include <inttypes.h>
#include <math.h>

#include "loader/int4_packing.h"

enum { LINE_K = 8, ZERO_OF_NONE = 8, ALIGNMENT = 64, MAX_ZERO = 15 };

static const yk_int4_ops *const packings[YK_N_INT4_PACKINGS] = {[YK_INT4_AWQ_GEMM] = &yk_int4_awq_gemm,
                                                                [YK_INT4_AWQ_GEMV] = &yk_int4_awq_gemv,
                                                                [YK_INT4_AWQ_GEMV_FAST] = &yk_int4_awq_gemv_fast,
                                                                [YK_INT4_GPTQ] = &yk_int4_gptq,
                                                                [YK_INT4_COMPRESSED] = &yk_int4_compressed};

bool yk_int4_is_ready(const yk_weight_view *weight)
{
  return weight->packing == YK_INT4_AWQ_GEMM && weight->qzeros;
}

/* ---- What of a weight a slice needs ------------------------------------------------------------------------------ */

/* Rows of inputs are written from k_begin, rounded down to a line, to k_end. Groups are whole, but for a slice within a
 * single one, whose group is then the slice. */
typedef struct extent {
  int64_t first_k, k, group;     /* of the repacked weight */
  int64_t first_group, n_groups; /* of the checkpoint's */
  int64_t first_n, n, n_there;   /* outputs, rounded up to whole words; how many of them the weight has */
  int64_t first_line, n_lines;   /* written lines of the checkpoint's weight */
  size_t zeros_at, scales_at, n_bytes;
} extent;

static extent extent_of(const yk_weight_view *weight, const yk_int4_slice *slice)
{
  int64_t group = weight->group;
  extent e = {.first_group = slice->k_begin / group, .first_n = slice->n_begin / 8 * 8};
  e.n_groups = yk_ceil_div_i64(slice->k_end, group) - e.first_group;
  e.first_line = slice->k_begin / LINE_K;
  e.n_lines = yk_ceil_div_i64(slice->k_end, LINE_K) - e.first_line;
  if (e.n_groups == 1) {
    e.first_k = e.first_line * LINE_K;
    e.k = e.group = e.n_lines * LINE_K;
  } else {
    e.first_k = e.first_group * group;
    e.k = e.n_groups * group;
    e.group = group;
  }
  e.n = yk_round_up_i64(slice->n_end - e.first_n, 8);
  e.n_there = yk_min_i64(e.n, weight->n - e.first_n);
  int64_t row_bytes = e.n / 2;
  e.zeros_at = (size_t)yk_round_up_i64(e.k * row_bytes, ALIGNMENT);
  e.scales_at = e.zeros_at + (size_t)yk_round_up_i64(e.n_groups * row_bytes, ALIGNMENT);
  e.n_bytes = e.scales_at + (size_t)(e.n_groups * e.n) * yk_dtype_bytes(weight->dtype);
  return e;
}

size_t yk_int4_repacked_bytes(const yk_weight_view *weight, const yk_int4_slice *slice)
{
  return extent_of(weight, slice).n_bytes;
}

/* ---- Integers ---------------------------------------------------------------------------------------------------- */

/* Nibble j of word i with nibble i of word j, for all words of a block's line at once: ever smaller off-diagonal blocks
 * change places. The loops over words are what compilers make vectors of. */
static inline void swap_nibbles(uint32_t *restrict a, uint32_t *restrict b, int shift, uint32_t mask)
{
  for (int word = 0; word < YK_INT4_BLOCK_WORDS; word++) {
    uint32_t difference = (a[word] >> shift ^ b[word]) & mask;
    b[word] ^= difference;
    a[word] ^= difference << shift;
  }
}

static inline void transpose_nibbles(uint32_t w[8][YK_INT4_BLOCK_WORDS])
{
  for (int i = 0; i < 4; i++) swap_nibbles(w[i], w[i + 4], 16, 0x0000FFFFu);
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) swap_nibbles(w[i + j], w[i + j + 2], 8, 0x00FF00FFu);
  for (int i = 0; i < 8; i += 2) swap_nibbles(w[i], w[i + 1], 4, 0x0F0F0F0Fu);
}

/* words [k, n/8] of the repacked weight. */
static void repack_words(const yk_weight_view *weight, const extent *e, uint32_t *words)
{
  const yk_int4_ops *ops = packings[weight->packing];
  int64_t first_row = e->first_line * LINE_K - e->first_k, row_words = e->n / 8;
  for (int64_t line = 0; line < e->n_lines; line += YK_INT4_BLOCK_LINES)
    for (int64_t word = 0; word < row_words; word += YK_INT4_BLOCK_WORDS) {
      yk_int4_lines in;
      const yk_int4_block block = {.line = e->first_line + line,
                                   .word = e->first_n / 8 + word,
                                   .n_lines = (int)yk_min_i64(YK_INT4_BLOCK_LINES, e->n_lines - line),
                                   .n_words = (int)yk_min_i64(YK_INT4_BLOCK_WORDS, row_words - word)};
      ops->read(weight, &block, in);
      for (int i = 0; i < block.n_lines; i++) {
        transpose_nibbles(in[i]);
        uint32_t *to = words + (first_row + (line + i) * LINE_K) * row_words + word;
        for (int r = 0; r < LINE_K; r++) memcpy(to + r * row_words, in[i][r], (size_t)block.n_words * 4);
      }
    }
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

static const char *name_of(const yk_weight_view *weight)
{
  return weight->tensor ? weight->tensor : "a 4-bit weight";
}

static bool is_finite(yk_dtype dtype, uint32_t element)
{
  switch (dtype) {
  case YK_F16: return (element & 0x7C00u) != 0x7C00u;
  case YK_BF16: return (element & 0x7F80u) != 0x7F80u;
  default: return (element & 0x7F800000u) != 0x7F800000u;
  }
}

/* One group's scales, checked, and copied where to is not NULL. */
static yk_status take_scales(const yk_weight_view *weight, const extent *e, int64_t group, char *to, yk_err *err)
{
  const yk_int4_ops *ops = packings[weight->packing];
  size_t element_bytes = yk_dtype_bytes(weight->dtype);
  for (int64_t i = 0; i < e->n_there; i++) {
    uint32_t element = 0;
    size_t at = (size_t)ops->scale_at(weight, group, e->first_n + i) * element_bytes;
    memcpy(&element, (const char *)weight->scales + at, element_bytes);
    if (!is_finite(weight->dtype, element))
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: its scale of group %" PRId64 ", output %" PRId64 ": expected a finite number, found %g",
                        name_of(weight), group, e->first_n + i, (double)yk_dtype_load(weight->dtype, &element, 0));
    if (to) memcpy(to + (size_t)i * element_bytes, &element, element_bytes);
  }
  if (to) memset(to + (size_t)e->n_there * element_bytes, 0, (size_t)(e->n - e->n_there) * element_bytes);
  return YK_OK;
}

yk_status yk_int4_check_scales(const yk_weight_view *weight, const yk_int4_slice *slice, yk_err *err)
{
  const extent e = extent_of(weight, slice);
  for (int64_t i = 0; i < e.n_groups; i++) YK_TRY(take_scales(weight, &e, e.first_group + i, NULL, err));
  return YK_OK;
}

/* ---- Zero points ------------------------------------------------------------------------------------------------- */

/* A zero of 16: all q of the group and output, as far as the slice goes, less one. */
static yk_status lower_column(const yk_weight_view *weight, const yk_int4_slice *slice, const extent *e, int64_t group,
                              int64_t column, uint32_t *words, yk_err *err)
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  int shift = 4 * nibble_of_column[column % 8];
  int64_t k_begin = yk_max_i64(slice->k_begin, group * weight->group);
  int64_t k_end = yk_min_i64(slice->k_end, (group + 1) * weight->group);
  for (int64_t k = k_begin; k < k_end; k++) {
    uint32_t *word = words + (k - e->first_k) * (e->n / 8) + column / 8;
    if ((*word >> shift & 0xFu) == 0)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: group %" PRId64 ", output %" PRId64 " has zero point 16 and, at input %" PRId64
                        ", the integer 0, which is not supported; supported: zero points 0 to 15, or 16 without "
                        "integers of 0",
                        name_of(weight), group, e->first_n + column, k);
    *word -= 1u << shift;
  }
  return YK_OK;
}

static yk_status take_zeros(const yk_weight_view *weight, const yk_int4_slice *slice, const extent *e, int64_t group,
                            uint32_t *words, uint32_t *to, yk_err *err)
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  memset(to, 0, (size_t)e->n / 2);
  for (int64_t i = 0; i < e->n_there; i++) {
    int zero = weight->qzeros ? packings[weight->packing]->zero(weight, group, e->first_n + i) : ZERO_OF_NONE;
    if (zero == YK_INT4_NO_ZERO)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: its zero point of group %" PRId64 ", output %" PRId64
                        ": expected a whole number from 0 to 15 times the scale",
                        name_of(weight), group, e->first_n + i);
    if (zero > MAX_ZERO) {
      YK_TRY(lower_column(weight, slice, e, group, i, words, err));
      zero = MAX_ZERO;
    }
    to[i / 8] |= (uint32_t)zero << 4 * nibble_of_column[i % 8];
  }
  return YK_OK;
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

yk_status yk_int4_repack(const yk_weight_view *weight, const yk_int4_slice *slice, void *buffer, yk_int4_repacked *out,
                         yk_err *err)
{
  const extent e = extent_of(weight, slice);
  char *base = buffer, *scales = base + e.scales_at;
  uint32_t *words = buffer, *zeros = (uint32_t *)(void *)(base + e.zeros_at);
  repack_words(weight, &e, words);
  for (int64_t i = 0; i < e.n_groups; i++) {
    char *to = scales + (size_t)(i * e.n) * yk_dtype_bytes(weight->dtype);
    YK_TRY(take_scales(weight, &e, e.first_group + i, to, err));
    YK_TRY(take_zeros(weight, slice, &e, e.first_group + i, words, zeros + i * e.n / 8, err));
  }
  *out = (yk_int4_repacked){.weight = *weight, .first_k = e.first_k, .first_n = e.first_n};
  yk_weight_view *view = &out->weight;
  view->packing = YK_INT4_AWQ_GEMM;
  view->k = e.k;
  view->n = e.n;
  view->group = e.group;
  view->qweight = words;
  view->qzeros = zeros;
  view->scales = scales;
  view->zeros_less_one = false;
  if (view->bias) view->bias = (const char *)view->bias + (size_t)e.first_n * yk_dtype_bytes(view->bias_dtype);
  return YK_OK;
}
