/* cpu_row_norms.c - norms of whole rows of q and k: kernels/row_norms.h. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_rows.h"

enum { MIN_ROWS = 4 };

typedef struct row_context {
  yk_cpu_device *cpu;
  const yk_row_norms_args *args;
} row_context;

/* The sum of squares of n_heads heads, in float64. A NaN becomes the positive one: its bits are a positive integer. */
static float sum_squares(const row_context *c, int64_t first, int32_t n_heads, float *f32)
{
  const int32_t head_dim = c->args->heads->head_dim;
  const yk_dtype dtype = c->cpu->base.dtype;
  double sum = 0;
  for (int32_t h = 0; h < n_heads; h++) {
    c->cpu->simd->to_f32(f32, dtype, yk_cpu_at(dtype, c->args->qkv, first + (int64_t)h * head_dim), (size_t)head_dim);
    for (int32_t i = 0; i < head_dim; i++) sum += (double)f32[i] * f32[i];
  }
  return isnan(sum) ? NAN : (float)sum;
}

static void square_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const row_context *c = context;
  const yk_row_norms_args *a = c->args;
  float *f32 = c->cpu->scratch[thread].keys;
  for (int64_t row = begin; row < end; row++) {
    const int64_t q = row * yk_head_layout_width(a->heads);
    const int64_t k = q + (int64_t)(a->heads->n_q_heads + a->first_counted) * a->heads->head_dim;
    const float sums[2] = {fabsf(sum_squares(c, q, a->heads->n_q_heads, f32)),
                           fabsf(sum_squares(c, k, a->n_counted, f32))};
    for (int rank = 0; rank < a->n_ranks; rank++) {
      int32_t *out = a->squares + 2 * ((int64_t)rank * a->n_tokens + row);
      memset(out, 0, sizeof sums);
      if (rank == a->rank) memcpy(out, sums, sizeof sums);
    }
  }
}

/* 1 / root mean square of the whole row of q (part 0) or k (part 1). */
static float scale_of(const yk_row_norms_args *a, int64_t row, int part)
{
  double sum = 0;
  for (int rank = 0; rank < a->n_ranks; rank++) {
    float squares;
    memcpy(&squares, a->squares + 2 * ((int64_t)rank * a->n_tokens + row) + part, sizeof squares);
    sum += (double)squares;
  }
  return 1.0f / sqrtf((float)(sum / (double)(part == 0 ? a->q_size : a->k_size)) + a->eps);
}

/* A head in place: rounded after the scale and after the weights, as other norms. */
static void normalise_head(const yk_cpu_device *cpu, void *head, const void *w, int32_t n, float scale, float *f32)
{
  const yk_dtype dtype = cpu->base.dtype;
  float weights[YK_CPU_MAX_HEAD_DIM];
  cpu->simd->to_f32(f32, dtype, head, (size_t)n);
  for (int32_t i = 0; i < n; i++) f32[i] *= scale;
  cpu->simd->from_f32(head, dtype, f32, (size_t)n);
  cpu->simd->to_f32(f32, dtype, head, (size_t)n);
  cpu->simd->to_f32(weights, dtype, w, (size_t)n);
  for (int32_t i = 0; i < n; i++) f32[i] *= weights[i];
  cpu->simd->from_f32(head, dtype, f32, (size_t)n);
}

static void norm_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const row_context *c = context;
  const yk_row_norms_args *a = c->args;
  const yk_dtype dtype = c->cpu->base.dtype;
  const int32_t n_q = a->heads->n_q_heads, head_dim = a->heads->head_dim;
  for (int64_t row = begin; row < end; row++) {
    const int64_t first = row * yk_head_layout_width(a->heads);
    const float scales[2] = {scale_of(a, row, 0), scale_of(a, row, 1)};
    for (int32_t h = 0; h < n_q + a->heads->n_kv_heads; h++) {
      const void *w = h < n_q ? yk_cpu_at(dtype, a->q_w, (int64_t)h * head_dim)
                              : yk_cpu_at(dtype, a->k_w, (int64_t)(h - n_q) * head_dim);
      normalise_head(c->cpu, yk_cpu_at(dtype, a->qkv, first + (int64_t)h * head_dim), w, head_dim, scales[h >= n_q],
                     c->cpu->scratch[thread].keys);
    }
  }
}

yk_status yk_cpu_row_squares(yk_device *dev, const yk_row_norms_args *args, yk_err *err)
{
  row_context context = {yk_cpu_device_of(dev), args};
  (void)err;
  yk_cpu_pool_run(context.cpu->pool, args->n_tokens, MIN_ROWS, square_rows, &context);
  return YK_OK;
}

yk_status yk_cpu_row_norms(yk_device *dev, const yk_row_norms_args *args, yk_err *err)
{
  row_context context = {yk_cpu_device_of(dev), args};
  (void)err;
  yk_cpu_pool_run(context.cpu->pool, args->n_tokens, MIN_ROWS, norm_rows, &context);
  return YK_OK;
}
