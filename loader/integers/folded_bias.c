#include "loader/integers/folded_bias.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "loader/integers/dequantise.h"
#include "loader/integers/int8.h"

enum { BLOCK_K = 256, BLOCK_N = 128 }; /* inputs and outputs read at once */

typedef struct scratch {
  double sums[BLOCK_N]; /* one per output of the block */
  float offsets[BLOCK_K];
  float floats[BLOCK_N * BLOCK_K];
  int8_t bytes[BLOCK_N * BLOCK_K];
} scratch;

static float float_at(yk_dtype dtype, const void *elements, int64_t i)
{
  uint32_t element = 0; /* data in files may be unaligned */
  size_t n_bytes = yk_dtype_bytes(dtype);
  memcpy(&element, (const char *)elements + (size_t)i * n_bytes, n_bytes);
  return yk_dtype_load(dtype, &element, 0);
}

/* Add b W^T for a block. */
static yk_status add_offsets(const yk_weight_view *weight, const yk_weight_slice *block, scratch *s, yk_err *err)
{
  int64_t n_k = block->k_end - block->k_begin;
  if (!weight->x_offset) return YK_OK;
  YK_TRY(yk_dequantise(weight, block, s->floats, BLOCK_K, err));
  for (int64_t k = 0; k < n_k; k++)
    s->offsets[k] = float_at(weight->x_offset_dtype, weight->x_offset, block->k_begin + k);
  for (int64_t n = 0; n < block->n_end - block->n_begin; n++)
    for (int64_t k = 0; k < n_k; k++) s->sums[n] += (double)s->offsets[k] * (double)s->floats[n * BLOCK_K + k];
  return YK_OK;
}

/* Add z times the sum of q for output n, and quant_bias. */
static yk_status add_products(const yk_weight_view *weight, int64_t n, scratch *s, double *to, yk_err *err)
{
  int64_t sum = 0;
  int32_t bias;
  float scale;
  if (!weight->product_bias) return YK_OK;
  const yk_weight_slice whole = {0, weight->k, n, n + 1};
  YK_TRY(yk_int8_read_scales(weight, &whole, n, &scale, NULL, err));
  for (int64_t first = 0; weight->inputs.zero != 0 && first < weight->k; first += BLOCK_N * BLOCK_K) {
    const yk_weight_slice part = {first, yk_min_i64(first + BLOCK_N * BLOCK_K, weight->k), n, n + 1};
    YK_TRY(yk_int8_read(weight, &part, s->bytes, part.k_end - part.k_begin, err));
    for (int64_t k = 0; k < part.k_end - part.k_begin; k++) sum += s->bytes[k];
  }
  memcpy(&bias, (const char *)weight->product_bias + n * 4, sizeof bias);
  *to += (double)(bias + weight->inputs.zero * sum) * (double)scale * (double)weight->inputs.scale;
  return YK_OK;
}

static yk_status fold_block(const yk_weight_view *weight, int64_t n_begin, int64_t n_end, scratch *s, float *to,
                            yk_err *err)
{
  memset(s->sums, 0, sizeof s->sums);
  for (int64_t k = 0; weight->x_offset && k < weight->k; k += BLOCK_K) {
    const yk_weight_slice block = {k, yk_min_i64(k + BLOCK_K, weight->k), n_begin, n_end};
    YK_TRY(add_offsets(weight, &block, s, err));
  }
  for (int64_t n = n_begin; n < n_end; n++) {
    double *sum = &s->sums[n - n_begin];
    YK_TRY(add_products(weight, n, s, sum, err));
    if (weight->bias) *sum += (double)float_at(weight->bias_dtype, weight->bias, n);
    to[n - n_begin] = (float)*sum;
    if (!isfinite(to[n - n_begin]))
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: the bias of output %" PRId64
                        ", including the terms folded into it: expected a finite number, "
                        "found %g",
                        weight->tensor ? weight->tensor : "a weight", n, *sum);
  }
  return YK_OK;
}

yk_status yk_folded_bias(const yk_weight_view *weight, int64_t n_begin, int64_t n_end, float *to, yk_err *err)
{
  scratch *s = malloc(sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes to fold biases in", sizeof *s);
  yk_status status = YK_OK;
  for (int64_t n = n_begin, end; status == YK_OK && n < n_end; n = end) {
    end = yk_min_i64(n + BLOCK_N, n_end);
    status = fold_block(weight, n, end, s, to + (n - n_begin), err);
  }
  free(s);
  return status;
}
