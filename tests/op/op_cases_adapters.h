/* op_cases_adapters.h - low-rank adapters of linear layers, against float64, and in the company of other rows. */
#ifndef YK_TESTS_OP_CASES_ADAPTERS_H
#define YK_TESTS_OP_CASES_ADAPTERS_H

#include "op/op_cases_linear.h"

enum { ADAPTERS_MOST = 11 };

typedef struct adapter_case {
  linear_case layer;
  int32_t n_adapters, rank; /* rank: the largest; adapter 2 changes no first part, adapter 3 has rank 1 */
} adapter_case;

static const adapter_case adapter_cases[] = {
    {{.parts = {{512, 256, 128, YK_F16, {0, 512}, {64, 192}, 128, true}, /* q, k, v in one GEMM */
                {512, 128, 128, YK_F16, {0, 512}, {0, 64}, 128, false},
                {512, 128, 128, YK_F16, {0, 512}, {64, 128}, 128, true}},
      .n_parts = 3},
     3,
     16},
    {{.parts = {{2048, 160, 128, YK_F16, {0, 2048}, {0, 160}, 128, false}}, .n_parts = 1}, 11, 8}, /* K ranges */
    {{.parts = {{512, 96, 128, YK_F16, {128, 416}, {0, 96}, 32, true}}, .n_parts = 1, .y_pad = 5}, 3, 40},
    {{.parts = {{130, 67, 0, YK_BF16, {9, 130}, {5, 66}, 0, true}}, .n_parts = 1, .y_pad = 3}, 4, 64},
    {{.parts = {{96, 48, 32, YK_F16, {0, 96}, {0, 48}, 32, true}, /* formats mixed, an odd slice, one empty */
                {96, 16, 0, YK_F16, {0, 96}, {0, 16}, 0, true},
                {96, 16, 32, YK_F16, {0, 96}, {8, 8}, 32, false},
                {96, 16, 32, YK_F16, {0, 96}, {4, 15}, 32, true}},
      .n_parts = 4,
      .y_pad = 4},
     3,
     5},
    {{.parts = {{256, 352, 64, YK_F16, {0, 256}, {8, 328}, 64, true},
                {256, 352, 64, YK_F16, {0, 256}, {8, 328}, 64, true}},
      .n_parts = 2,
      .activation = YK_GATED_SILU},
     3,
     16},
    {{.parts = {{128, 88, 64, YK_F16, {0, 128}, {8, 52}, 64, true}, {128, 50, 0, YK_BF16, {0, 128}, {6, 50}, 0, true}},
      .n_parts = 2, /* multiplied as 16 bits */
      .activation = YK_GATED_SILU,
      .y_pad = 1},
     4,
     20},
    {{.parts = {{256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, true, true},
                {256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, false, true}},
      .n_parts = 2, /* integers of 8 bits */
      .activation = {YK_ACTIVATION_GELU_TANH, true, 0.0f, 0.0f}},
     3,
     16},
    {{.parts = {{256, 64, 128, YK_F16, {0, 256}, {0, 64}, 128, true}},
      .n_parts = 1,
      .activation = {YK_ACTIVATION_RELU2, false, 0.0f, 0.0f},
      .y_pad = 8},
     3,
     16},
    {{.parts = {{70, 33, 0, YK_F32, {1, 70}, {1, 33}, 0, true}},
      .n_parts = 1,
      .activation = {YK_ACTIVATION_SILU, false, 0.0f, 0.0f}},
     3,
     3},
    {{.parts = {{64, 4160, 64, YK_F16, {0, 64}, {0, 4160}, 64, true}, /* more outputs than warps, groups of ranks */
                {64, 96, 64, YK_F16, {0, 64}, {0, 96}, 64, false}},
      .n_parts = 2},
     3,
     50},
    {{.parts = {{64, 4128, 64, YK_F16, {0, 64}, {0, 4128}, 64, true},
                {64, 4128, 64, YK_F16, {0, 64}, {0, 4128}, 64, false}},
      .n_parts = 2,
      .activation = YK_GATED_SILU},
     3,
     33},
    {{.parts = {{96, 64, 32, YK_F16, {0, 96}, {0, 64}, 32, true}, /* more ranks than one launch takes */
                {96, 64, 32, YK_F16, {0, 96}, {0, 64}, 32, true},
                {96, 64, 32, YK_F16, {0, 96}, {0, 64}, 32, true},
                {96, 64, 32, YK_F16, {0, 96}, {0, 64}, 32, true}},
      .n_parts = 4},
     3,
     64},
};
enum { N_ADAPTER_CASES = sizeof adapter_cases / sizeof *adapter_cases };

/* Matrices whose elements the device's type holds exactly. */
typedef struct adapter_run {
  const adapter_case *adapted;
  linear_run layer;
  float *a[ADAPTERS_MOST][YK_MAX_LINEAR_PARTS], *b[ADAPTERS_MOST][YK_MAX_LINEAR_PARTS];
  int32_t rank[ADAPTERS_MOST][YK_MAX_LINEAR_PARTS];
  int32_t *adapters; /* [n_tokens] of each row */
} adapter_run;

static inline float adapter_scale(int adapter)
{
  return 0.5f + 0.25f * (float)adapter;
}

static inline float *random_matrix(yk_dtype dtype, int64_t n, double sigma, op_random *random)
{
  float *values = calloc((size_t)n + 1, sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < n; i++) {
    uint32_t element = 0;
    yk_dtype_store(dtype, &element, 0, (float)(sigma * op_normal(random)));
    values[i] = yk_dtype_load(dtype, &element, 0);
  }
  return values;
}

/* pattern 0: every row another adapter than the one before; 1: runs of 13 rows; 2: one adapter in the last row alone;
 * 3: the same adapter in all rows. */
static inline void assign_adapters(adapter_run *run, int pattern)
{
  const int32_t n = run->adapted->n_adapters, n_tokens = run->layer.n_tokens;
  for (int32_t i = 0; i < n_tokens; i++)
    run->adapters[i] = pattern == 0   ? i * 7 % (n + 1)
                       : pattern == 1 ? i / 13 % (n + 1)
                       : pattern == 2 ? (i == n_tokens - 1) * n
                                      : 1;
}

static inline void adapt(yk_device *dev, adapter_run *run, op_random *random)
{
  const linear_run *layer = &run->layer;
  for (int i = 0; i < run->adapted->n_adapters; i++) {
    yk_linear_adapter parts[YK_MAX_LINEAR_PARTS];
    for (int p = 0; p < layer->spec.n_parts; p++) {
      const int64_t n = yk_range_size(layer->spec.parts[p].n);
      const int32_t rank = i == 1 && p == 0 ? 0 : i == 2 ? 1 : run->adapted->rank;
      run->rank[i][p] = rank;
      run->a[i][p] = random_matrix(dev->dtype, rank * layer->k_local, 1.0 / sqrt((double)layer->k_local + 1.0), random);
      run->b[i][p] = random_matrix(dev->dtype, rank * n, 1e-3 / sqrt((double)rank + 1.0), random);
      parts[p] =
          (yk_linear_adapter){.a = run->a[i][p], .b = run->b[i][p], .rank = rank, .scale = 1e3f * adapter_scale(i)};
    }
    op_ok(dev->ops->linear_adapt(dev, run->layer.linear, i + 1, parts, &err));
  }
}

static inline adapter_run adapter_run_new(yk_device *dev, const adapter_case *adapted, int32_t n_tokens, uint32_t seed)
{
  op_random random = {.seed = seed + 1000};
  adapter_run run = {.adapted = adapted, .layer = linear_run_new(dev, &adapted->layer, n_tokens, seed)};
  yk_linear_spec *spec = &run.layer.spec;
  const int64_t bytes = dev->ops->linear_bytes(spec);
  dev->ops->linear_destroy(dev, run.layer.linear);
  spec->n_adapters = adapted->n_adapters;
  spec->adapter_rank = adapted->rank;
  assert_true(dev->ops->linear_bytes(spec) > bytes);
  op_ok(dev->ops->linear_create(dev, spec, &run.layer.linear, &err));
  run.adapters = calloc((size_t)n_tokens, sizeof *run.adapters);
  assert_non_null(run.adapters);
  adapt(dev, &run, &random);
  return run;
}

static inline void adapter_run_free(yk_device *dev, adapter_run *run)
{
  for (int i = 0; i < run->adapted->n_adapters; i++)
    for (int p = 0; p < run->layer.spec.n_parts; p++) {
      free(run->a[i][p]);
      free(run->b[i][p]);
    }
  free(run->adapters);
  linear_run_free(dev, &run->layer);
}

/* A forward of all rows with these adapters [n_tokens]; NULL: none. */
static inline op_array adapter_run_forward(yk_device *dev, const adapter_run *run, const int32_t *adapters)
{
  const linear_run *layer = &run->layer;
  op_array y = op_array_new(dev, dev->dtype, (size_t)(layer->n_tokens * layer->y_stride));
  for (size_t i = 0; i < y.n; i++) y.values[i] = -7.0;
  op_array_send(dev, &y);
  int32_t *of_rows = adapters ? op_send_i32(dev, adapters, (size_t)layer->n_tokens) : NULL;
  const yk_linear_args args = {
      .x = layer->x.dev, .y = y.dev, .n_tokens = layer->n_tokens, .y_stride = layer->y_stride, .adapters = of_rows};
  op_ok(dev->ops->linear_forward(dev, layer->linear, &args, &err));
  op_array_fetch(dev, &y);
  dev->ops->free(dev, of_rows);
  for (int32_t row = 0; row < layer->n_tokens; row++)
    for (int64_t i = layer->n_local; i < layer->y_stride; i++) assert_true(y.values[row * layer->y_stride + i] == -7.0);
  return y;
}

/* A x of one adapter and part, in float64, for one row. */
static inline void adapter_products(const adapter_run *run, int i, int p, const double *x, double *products)
{
  const int64_t k = run->layer.k_local;
  for (int32_t r = 0; r < run->rank[i][p]; r++) {
    products[r] = 0.0;
    for (int64_t c = 0; c < k; c++) products[r] += x[c] * (double)run->a[i][p][r * k + c];
    products[r] *= 1e3 * (double)adapter_scale(i);
  }
}

/* The summand of adapter i + 1 in output n of part p. */
static inline double adapter_output(const adapter_run *run, int i, int p, const double *products, int64_t n,
                                    double *magnitude)
{
  const int64_t width = yk_range_size(run->layer.spec.parts[p].n);
  double sum = 0.0;
  for (int32_t r = 0; r < run->rank[i][p]; r++) {
    const double product = products[r] * (double)run->b[i][p][r * width + n];
    sum += product;
    *magnitude += fabs(product);
  }
  return sum;
}

/* As linear_run_expect, with adapter number adapter in a row. */
static inline void adapter_expect_row(const adapter_run *run, double *const *w, int32_t row, int32_t adapter,
                                      double *out, double *magnitude)
{
  const linear_run *layer = &run->layer;
  const linear_part_case *parts = layer->shape->parts;
  const double *x = layer->x.values + row * layer->k_local;
  const bool is_gated = layer->shape->activation.is_gated;
  double products[YK_MAX_LINEAR_PARTS][64] = {{0}}, unused = 0.0;
  for (int p = 0; adapter > 0 && p < layer->spec.n_parts; p++) adapter_products(run, adapter - 1, p, x, products[p]);
  for (int p = 0, at = 0; p < (is_gated ? 1 : layer->spec.n_parts); p++)
    for (int64_t n = 0; n < yk_range_size(parts[p].n_slice); n++, at++) {
      double v[2] = {0.0, 1.0};
      for (int i = 0; i < (is_gated ? 2 : 1); i++) {
        double *size = layer->shape->activation.kind == YK_ACTIVATION_NONE ? &magnitude[at] : &unused;
        v[i] = part_output(&layer->weights[p + i], &parts[p + i], w[p + i] + n * layer->k_local, x, n, OP_RIGHT, size);
        if (adapter > 0) v[i] += adapter_output(run, adapter - 1, p + i, products[p + i], n, size);
      }
      out[at] = op_activated(&layer->shape->activation, v[0], v[1]);
    }
}

/* The error of y where each row has its adapter plus shift, modulo their number and none: 0 compares the right ones. */
static inline double adapter_error(const adapter_run *run, const op_array *y, int32_t shift)
{
  const linear_run *layer = &run->layer;
  double *w[YK_MAX_LINEAR_PARTS], *expected = calloc(y->n + 1, sizeof *expected),
                                  *magnitudes = calloc(y->n + 1, sizeof *magnitudes);
  assert_non_null(expected);
  assert_non_null(magnitudes);
  for (size_t i = 0; i < y->n; i++) expected[i] = -7.0;
  for (int p = 0; p < layer->spec.n_parts; p++)
    w[p] = part_weights(&layer->weights[p], &layer->shape->parts[p], OP_RIGHT);
  for (int32_t row = 0; row < layer->n_tokens; row++)
    adapter_expect_row(run, w, row, (run->adapters[row] + shift) % (run->adapted->n_adapters + 1),
                       expected + row * layer->y_stride, magnitudes + row * layer->y_stride);
  const double error = linear_run_error(y, expected, magnitudes, layer->k_local);
  for (int p = 0; p < layer->spec.n_parts; p++) free(w[p]);
  free(expected);
  free(magnitudes);
  return error;
}

static inline void expect_same_rows(const adapter_run *run, int32_t adapter, const op_array *y, const op_array *other)
{
  const size_t bytes = (size_t)run->layer.y_stride * yk_dtype_bytes(y->dtype);
  for (int32_t row = 0; row < run->layer.n_tokens; row++)
    if (run->adapters[row] == adapter)
      assert_memory_equal((char *)y->bytes + (size_t)row * bytes, (char *)other->bytes + (size_t)row * bytes, bytes);
}

/* A row's bits do not depend on the adapters of other rows. A row without an adapter has the bits of a step without
 * adapters; with keeps_bits, this also holds for layers with an activation. */
static inline void check_adapted_company(yk_device *dev, adapter_run *run, const op_array *y, bool keeps_bits)
{
  int32_t *same = calloc((size_t)run->layer.n_tokens, sizeof *same);
  assert_non_null(same);
  for (int32_t adapter = 0; each_case(adapter, adapter <= run->adapted->n_adapters); adapter++) {
    for (int32_t i = 0; i < run->layer.n_tokens; i++) same[i] = adapter;
    op_array other = adapter_run_forward(dev, run, same);
    expect_same_rows(run, adapter, y, &other);
    op_array_free(dev, &other);
  }
  if (keeps_bits || run->layer.shape->activation.kind == YK_ACTIVATION_NONE) {
    op_array other = adapter_run_forward(dev, run, NULL);
    expect_same_rows(run, 0, y, &other);
    op_array_free(dev, &other);
  }
  free(same);
}

/* tolerance_of: the largest normalised error of a layer. */
static inline void check_adapters(const op_target *target, yk_dtype dtype, int32_t n_tokens, bool keeps_bits,
                                  double (*tolerance_of)(yk_dtype dtype, const linear_case *shape))
{
  for (int c = 0; each_case(c, c < N_ADAPTER_CASES); c++) {
    const double tolerance = tolerance_of(dtype, &adapter_cases[c].layer);
    yk_device *dev = op_device_new(target, dtype, 2, 16);
    adapter_run run = adapter_run_new(dev, &adapter_cases[c], n_tokens, 40 + (uint32_t)c);
    for (int pattern = 0; each_case(pattern, pattern < 4); pattern++) {
      assign_adapters(&run, pattern);
      op_array y = adapter_run_forward(dev, &run, run.adapters);
      const double error = adapter_error(&run, &y, 0);
      if (!(error <= tolerance))
        fail_msg("%s %s case %d, pattern %d, %d tokens: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dtype),
                 c, pattern, n_tokens, error, tolerance);
      if (pattern == 3) assert_true(adapter_error(&run, &y, 1) > 4.0 * tolerance); /* another adapter is seen */
      if (pattern == 0) check_adapted_company(dev, &run, &y, keeps_bits);
      op_array_free(dev, &y);
    }
    adapter_run_free(dev, &run);
    dev->ops->destroy(dev);
  }
}

/* An adapter that replaces another adapter keeps no values of the replaced adapter. */
static inline void check_adapter_replaced(const op_target *target, yk_dtype dtype)
{
  const adapter_case *adapted = &adapter_cases[0];
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  adapter_run run = adapter_run_new(dev, adapted, 20, 3);
  for (int i = 0; i < 20; i++) run.adapters[i] = 3;
  op_array expected = adapter_run_forward(dev, &run, run.adapters);
  yk_linear_adapter parts[3];
  for (int p = 0; p < 3; p++)
    parts[p] = (yk_linear_adapter){
        .a = run.a[2][p], .b = run.b[2][p], .rank = run.rank[2][p], .scale = 1e3f * adapter_scale(2)};
  op_ok(dev->ops->linear_adapt(dev, run.layer.linear, 1, parts, &err));
  for (int i = 0; i < 20; i++) run.adapters[i] = 1;
  op_array y = adapter_run_forward(dev, &run, run.adapters);
  assert_memory_equal(y.bytes, expected.bytes, y.n * yk_dtype_bytes(dtype));
  op_array_free(dev, &expected);
  op_array_free(dev, &y);
  adapter_run_free(dev, &run);
  dev->ops->destroy(dev);
}

/* The last of the steps of a row-parallel layer with integers, on a rank whose share is zeros: only products remain. */
static inline void check_adapted_sums(const op_target *target, yk_dtype dtype)
{
  static const adapter_case adapted = {
      {.parts = {{256, 72, 256, YK_F32, {0, 256}, {0, 72}, 256, false, true, .inputs = YK_INPUTS_PER_TOKEN}},
       .n_parts = 1},
      3,
      16};
  enum { N_TOKENS = 30 };
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  adapter_run run = adapter_run_new(dev, &adapted, N_TOKENS, 5);
  assign_adapters(&run, 0);
  memset(run.layer.weights[0].scales, 0, 72 * sizeof(double)); /* the expected results are products alone */
  op_array y = op_array_new(dev, dtype, N_TOKENS * 72);
  int32_t *of_rows = op_send_i32(dev, run.adapters, N_TOKENS);
  const yk_linear_sums_args args = {
      .x = run.layer.x.dev, .y = y.dev, .is_zeros = true, .n_tokens = N_TOKENS, .adapters = of_rows};
  op_ok(dev->ops->linear_scale(dev, run.layer.linear, &args, &err));
  op_array_fetch(dev, &y);
  assert_true(adapter_error(&run, &y, 0) <= 2.0 * op_unit_roundoff(dtype) + 0x1p-10);
  dev->ops->free(dev, of_rows);
  op_array_free(dev, &y);
  adapter_run_free(dev, &run);
  dev->ops->destroy(dev);
}

static inline void check_adapter_refusals(const op_target *target, yk_dtype dtype)
{
  yk_device *dev = op_device_new(target, dtype, 1, 16);
  adapter_run run = adapter_run_new(dev, &adapter_cases[2], 4, 1);
  yk_linear *linear = run.layer.linear;
  yk_linear_adapter part = {.a = run.a[0][0], .b = run.b[0][0], .rank = adapter_cases[2].rank + 1, .scale = 1.0f};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(dev->ops->linear_adapt(dev, linear, 1, &part, &err), YK_E_INVAL);
  yk_err_clear(&err);
  part.rank = 0;
  assert_int_equal(dev->ops->linear_adapt(dev, linear, adapter_cases[2].n_adapters + 1, &part, &err), YK_E_INVAL);
  yk_err_clear(&err);
  assert_int_equal(dev->ops->linear_adapt(dev, linear, 0, &part, &err), YK_E_INVAL);
  adapter_run_free(dev, &run);
  dev->ops->destroy(dev);
}

#endif
