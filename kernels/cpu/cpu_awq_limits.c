/* cpu_awq_limits.c - the best limit of a group of weights: see kernels/awq_quantize.h. */
#include <math.h>

#include "kernels/cpu/awq_rounding.h"
#include "kernels/cpu/cpu_awq.h"

/* ---- Products of inputs ------------------------------------------------------------------------------------------ */

typedef struct gram_task {
  const float *rows, *k_scales;
  int64_t n_rows, k, group;
  float *grams;
} gram_task;

static void add_product(float *sums, const float *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) sums[i * n + j] += x[i] * x[j];
}

static void find_grams(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const gram_task *t = context;
  int64_t n = t->group;
  for (int64_t group = begin; group < end; group++) {
    float *sums = t->grams + group * n * n, x[YK_AWQ_MAX_LIMITED_GROUP];
    memset(sums, 0, (size_t)(n * n) * sizeof *sums);
    for (int64_t row = 0; row < t->n_rows; row++) {
      memcpy(x, t->rows + row * t->k + group * n, (size_t)n * sizeof *x);
      if (t->k_scales)
        for (int64_t i = 0; i < n; i++) x[i] /= t->k_scales[group * n + i];
      add_product(sums, x, n);
    }
    for (int64_t i = 0; i < n * n; i++) sums[i] /= (float)t->n_rows;
  }
}

void yk_awq_grams(yk_cpu_pool *pool, const float *rows, int64_t n_rows, int64_t k, int64_t group, const float *k_scales,
                  float *grams)
{
  gram_task task = {rows, k_scales, n_rows, k, group, grams};
  yk_cpu_pool_run(pool, k / group, 1, find_grams, &task);
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

typedef struct limit_task {
  const yk_cpu_simd *simd;
  const yk_awq_floats *weight;
  const float *grams;
  float *limits;
  _Atomic int64_t first_bad;
} limit_task;

static float greatest(const float *w, int64_t n)
{
  float most = 0.0f;
  for (int64_t i = 0; i < n; i++) most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
  return most;
}

/* The mean square of the change of the group's part of the output when its weights w are clamped and rounded. */
static float loss_of(const limit_task *t, const float *w, float limit, const float *gram, bool *is_sound)
{
  float cut[YK_AWQ_MAX_LIMITED_GROUP], change[YK_AWQ_MAX_LIMITED_GROUP], dots[YK_AWQ_MAX_LIMITED_GROUP];
  int n = (int)t->weight->group;
  yk_awq_range range = {0};
  yk_awq_group group;
  memcpy(cut, w, (size_t)n * sizeof *cut);
  yk_awq_cut(cut, n, limit);
  yk_awq_range_add(&range, cut, n);
  *is_sound = yk_awq_group_of(&range, &group);
  yk_awq_values(&group, cut, n, change);
  for (int i = 0; i < n; i++) change[i] -= w[i];
  t->simd->dot_rows(dots, change, gram, n, (size_t)n);
  float loss = 0.0f;
  for (int i = 0; i < n; i++) loss += change[i] * dots[i];
  return loss;
}

static void find_limit(limit_task *t, int64_t row, int64_t group)
{
  const yk_awq_floats *weight = t->weight;
  int64_t n = weight->group, n_groups = weight->k / n, begin = group * n;
  const float *gram = t->grams + group * n * n;
  float w[YK_AWQ_MAX_LIMITED_GROUP], best_loss = INFINITY;
  for (int64_t k = begin; k < begin + n; k += YK_AWQ_CHUNK)
    yk_awq_read(t->simd, weight, row, k, yk_awq_chunk(k, begin + n), w + (k - begin));
  float most = greatest(w, n), *best = &t->limits[row * n_groups + group];
  *best = most;
  for (int i = 0; i < YK_AWQ_LIMITS; i++) {
    float limit = most * (1.0f - (float)i / YK_AWQ_GRID);
    bool is_sound;
    float loss = loss_of(t, w, limit, gram, &is_sound);
    if (i == 0 && !is_sound) {
      yk_awq_note_bad(&t->first_bad, row * n_groups + group);
      return;
    }
    if (loss < best_loss) {
      best_loss = loss;
      *best = limit;
    }
  }
}

static void find_limits(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  limit_task *t = context;
  int64_t n_groups = t->weight->k / t->weight->group;
  /* all outputs of one group, so that its products of inputs stay in the cache */
  for (int64_t group = 0; group < n_groups; group++)
    for (int64_t row = begin; row < end; row++) find_limit(t, row, group);
}

int64_t yk_awq_find_limits(yk_cpu_pool *pool, const yk_awq_floats *weight, const float *grams, float *limits)
{
  limit_task t = {
      .simd = yk_cpu_simd_best(), .weight = weight, .grams = grams, .limits = limits, .first_bad = INT64_MAX};
  yk_cpu_pool_run(pool, weight->n, 1, find_limits, &t);
  return yk_awq_first_bad(&t.first_bad);
}
