/* op_cases_linear_fused.h - linear layers with a norm of their inputs, and with a sum into their outputs, as one
 * forward where the device's linear_fuses allows that, else as separate operations, against float64. */
#ifndef YK_TESTS_OP_CASES_LINEAR_FUSED_H
#define YK_TESTS_OP_CASES_LINEAR_FUSED_H

#include "op/op_cases_linear_large.h"
#include "op/op_reference.h"

/* Both take part: few K tiles and many, one column panel and several tiles, groups of every size, several parts. */
static const large_linear fused_linears[] = {
    {4096, 3072, 128, 128, 0, 0, false, true},     {4096, 1536, 64, 64, 0, 512, false, true},
    {128, 64, 128, 128, 0, 0, false, false},       {1024, 2048, 32, 32, 0, 0, false, false},
    {4096, 4096, 128, 128, 0, 0, true, true},      {2560, 352, 32, 32, 0, 0, true, false},
    {5120, 1000, 128, 128, 0, 0, false, false},    {1408, 2048, 128, 128, 1408, 0, false, false},
    {12288, 1024, 128, 128, 0, 0, false, false},   {2400, 1000, 32, 32, 0, 0, false, false},
    {16384, 264, 16384, 16384, 0, 0, false, true},
};
enum { N_FUSED_LINEARS = sizeof fused_linears / sizeof *fused_linears };

typedef struct fused_count {
  int norms, sums; /* forwards that the device fused */
} fused_count;

static inline bool fuses(yk_device *dev, const yk_linear *linear, const yk_linear_args *args)
{
  return dev->ops->linear_fuses && dev->ops->linear_fuses(dev, linear, args);
}

/* Reports a wrong result of n_tokens rows. */
static inline void check_fused_error(yk_dtype dtype, const linear_run *run, op_array *y, const double *expected,
                                     const double *magnitudes, double tolerance, const char *what)
{
  const double error = linear_run_error(y, expected, magnitudes, run->k_local);
  if (!(error <= tolerance))
    fail_msg("%s, %s, k %lld, %lld columns of %d parts, groups of %lld, %d rows: error %.3g, tolerance %.3g", what,
             yk_dtype_name(dtype), (long long)run->k_local, (long long)run->n_local, run->shape->n_parts,
             (long long)run->shape->parts[0].group_local, run->n_tokens, error, tolerance);
}

/* y = layer(rms_norm(x, w)). x keeps its bits. */
static inline void check_linear_norm(yk_device *dev, linear_run *run, op_random *random, fused_count *count)
{
  const float eps = 1e-5f;
  const size_t k = (size_t)run->k_local;
  op_array w = op_array_random(dev, dev->dtype, k, 1.0, random);
  op_array y = op_array_new(dev, dev->dtype, (size_t)(run->n_tokens * run->n_local));
  op_array x = op_array_new(dev, dev->dtype, run->x.n); /* first the device's normalised rows, then a copy of x */
  yk_linear_args args = {.x = run->x.dev,
                         .y = y.dev,
                         .n_tokens = run->n_tokens,
                         .y_stride = run->n_local,
                         .norm_w = w.dev,
                         .norm_eps = eps};
  const bool is_fused = fuses(dev, run->linear, &args);
  if (!is_fused) {
    const yk_rms_norm_args norm = {.y = x.dev,
                                   .x = run->x.dev,
                                   .w = w.dev,
                                   .x_stride = run->k_local,
                                   .n_rows = run->n_tokens,
                                   .hidden = (int32_t)k,
                                   .eps = eps};
    op_ok(dev->ops->rms_norm(dev, &norm, &err));
    args.x = x.dev;
    args.norm_w = NULL;
  }
  op_ok(dev->ops->linear_forward(dev, run->linear, &args, &err));
  op_array_fetch(dev, &y);
  memcpy(x.values, run->x.values, x.n * sizeof(double));
  op_array_fetch(dev, &run->x);
  assert_memory_equal(run->x.values, x.values, x.n * sizeof(double));
  for (int32_t row = 0; row < run->n_tokens; row++)
    op_ref_rms_norm(dev->dtype, run->x.values + (size_t)row * k, x.values + (size_t)row * k, w.values, (int)k,
                    (double)eps, OP_RIGHT);
  op_array_send(dev, &run->x); /* rounds the reference's x */
  double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
  assert_non_null(magnitudes);
  double *expected = linear_run_expect(run, OP_RIGHT, magnitudes);
  check_fused_error(dev->dtype, run, &y, expected, magnitudes, 1.5 * large_linear_tolerance(dev->dtype, run->shape),
                    is_fused ? "norm in the layer" : "norm before the layer");
  count->norms += is_fused;
  memcpy(run->x.values, x.values, x.n * sizeof(double));
  op_array_send(dev, &run->x);
  free(expected), free(magnitudes);
  op_array_free(dev, &w), op_array_free(dev, &y), op_array_free(dev, &x);
}

/* y += alpha * layer(x). */
static inline void check_linear_sum(yk_device *dev, linear_run *run, op_random *random, fused_count *count)
{
  const float alpha = 0.75f;
  op_array y = op_array_random(dev, dev->dtype, (size_t)(run->n_tokens * run->n_local), 3.0, random);
  op_array result = op_array_new(dev, dev->dtype, y.n), before = op_array_new(dev, dev->dtype, y.n);
  memcpy(before.values, y.values, y.n * sizeof(double));
  yk_linear_args args = {
      .x = run->x.dev, .y = y.dev, .n_tokens = run->n_tokens, .y_stride = run->n_local, .adds = true, .alpha = alpha};
  const bool is_fused = fuses(dev, run->linear, &args);
  if (!is_fused) {
    args.adds = false;
    args.y = result.dev;
  }
  op_ok(dev->ops->linear_forward(dev, run->linear, &args, &err));
  if (!is_fused) {
    const yk_add_norm_args sum = {.residual = y.dev,
                                  .partials = {result.dev},
                                  .n_partials = 1,
                                  .n_rows = run->n_tokens,
                                  .hidden = (int32_t)run->n_local,
                                  .alpha = alpha};
    op_ok(dev->ops->add_norm(dev, &sum, &err));
  }
  op_array_fetch(dev, &y);
  double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
  assert_non_null(magnitudes);
  double *expected = linear_run_expect(run, OP_RIGHT, magnitudes);
  for (size_t i = 0; i < y.n; i++) expected[i] = before.values[i] + (double)alpha * expected[i];
  const double tolerance = large_linear_tolerance(dev->dtype, run->shape) + 2.0 * op_unit_roundoff(dev->dtype);
  check_fused_error(dev->dtype, run, &y, expected, magnitudes, tolerance,
                    is_fused ? "sum in the layer" : "sum after the layer");
  count->sums += is_fused;
  free(expected), free(magnitudes);
  op_array_free(dev, &y), op_array_free(dev, &result), op_array_free(dev, &before);
}

static inline void check_fused_linear(const op_target *target, yk_dtype dtype, const linear_case *shape, uint32_t seed,
                                      fused_count *count)
{
  enum { MOST_ROWS = 8 };
  static const int32_t row_counts[] = {1, 2, 3, 4, 5, MOST_ROWS};
  op_random random = {.seed = seed};
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  linear_run run = linear_run_new(dev, shape, MOST_ROWS, seed);
  for (size_t i = 0; i < run.x.n; i += 97) run.x.values[i] *= 30.0; /* outliers, as residuals have */
  op_array_send(dev, &run.x);
  for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
    run.n_tokens = row_counts[i];
    if (shape->activation.kind == YK_ACTIVATION_NONE) check_linear_sum(dev, &run, &random, count);
    check_linear_norm(dev, &run, &random, count);
  }
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

/* All shapes of at most max_weights weights, both types of activations alternately. */
static inline fused_count check_fused_linears(const op_target *target, large_format format, int64_t max_weights)
{
  fused_count count = {0};
  for (int c = 0; each_case(c, c < N_FUSED_LINEARS); c++) {
    const large_linear *sizes = &fused_linears[c];
    if (sizes->k * sizes->n > max_weights) continue;
    const linear_case shape = large_linear_case(sizes, format, c);
    check_fused_linear(target, op_dtypes[(c + (int)format) % 2], &shape, 800 + (uint32_t)c, &count);
  }
  return count;
}

#endif
