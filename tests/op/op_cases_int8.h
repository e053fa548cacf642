/* op_cases_int8.h - a weight format for tests only: int8 weights with a float32 scale for each output, multiplied with
 * int8 activations that have a float32 scale for each row (W8A8). A layer of float32 output keeps float activations.
 * The devices' table rows for it are in test_op_cpu_format.c and test_op_cuda_format.c; this file has its checkpoint
 * bytes, its definition in float64, and the cases that both run. */
#ifndef YK_TESTS_OP_CASES_INT8_H
#define YK_TESTS_OP_CASES_INT8_H

#include "each_case.h"
#include "op/op_cases_linear.h"

/* yk_weight_format of the test. view.qweight: int8 [n, k]; view.scales: f32 [n]; view.dtype: YK_F32. */
#define WEIGHT_INT8 ((yk_weight_format)100)

enum { INT8_MATRICES = 2 };

typedef struct int8_weight {
  yk_weight_view view;
  int8_t *quants;
  float *scales, *bias;
} int8_weight;

typedef struct int8_part_case {
  int64_t n;
  yk_range n_slice;
  bool use_bias;
} int8_part_case;

typedef struct int8_case {
  int64_t k;
  yk_range k_slice;
  int8_part_case parts[YK_MAX_LINEAR_PARTS];
  int n_parts;
  yk_activation activation;
  bool f32_output;
  int64_t y_pad;
} int8_case;

typedef enum int8_fault {
  INT8_RIGHT,
  INT8_FLOAT_INPUTS, /* unquantised activations: the definition for layers with float32 output, else a fault */
  INT8_NO_ROW_SCALE, /* every row has the scale of row 0 */
  INT8_MATRIX_0      /* ignores the requested matrix */
} int8_fault;

static const int8_case int8_cases[] = {
    {.k = 96, .k_slice = {0, 96}, .parts = {{40, {0, 40}, false}}, .n_parts = 1},
    {.k = 160, .k_slice = {32, 144}, .parts = {{40, {3, 30}, true}}, .n_parts = 1, .y_pad = 3}, /* a row-parallel cut */
    {.k = 64,
     .k_slice = {0, 64},
     .parts = {{48, {0, 48}, true}, {16, {0, 16}, false}, {16, {8, 16}, true}}, /* q, k, v */
     .n_parts = 3},
    {.k = 128,
     .k_slice = {0, 128},
     .parts = {{88, {8, 56}, true}, {88, {8, 56}, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.k = 64, .k_slice = {16, 16}, .parts = {{16, {0, 16}, true}}, .n_parts = 1}, /* empty k */
    {.k = 64, .k_slice = {0, 64}, .parts = {{72, {8, 72}, false}}, .n_parts = 1, .f32_output = true, .y_pad = 1},
};
enum { N_INT8_CASES = sizeof int8_cases / sizeof *int8_cases };

static inline int8_weight int8_weight_new(int64_t k, int64_t n, op_random *random)
{
  int8_weight weight = {.quants = calloc((size_t)(k * n), 1),
                        .scales = calloc((size_t)n, sizeof(float)),
                        .bias = calloc((size_t)n, sizeof(float))};
  assert_true(weight.quants && weight.scales && weight.bias);
  for (int64_t i = 0; i < k * n; i++) weight.quants[i] = (int8_t)op_between(random, -127, 127);
  for (int64_t i = 0; i < n; i++) {
    weight.scales[i] = (float)((0.5 + op_uniform(random)) / (127.0 * sqrt((double)k)));
    weight.bias[i] = (float)(0.5 * op_normal(random));
  }
  weight.view = (yk_weight_view){.format = WEIGHT_INT8,
                                 .k = k,
                                 .n = n,
                                 .dtype = YK_F32,
                                 .qweight = weight.quants,
                                 .scales = weight.scales,
                                 .bias = weight.bias,
                                 .bias_dtype = YK_F32};
  return weight;
}

/* A case on a device: two matrices of every part, and inputs whose rows differ in size. */
typedef struct int8_run {
  const int8_case *shape;
  int8_weight weights[INT8_MATRICES][YK_MAX_LINEAR_PARTS];
  yk_linear *linear;
  op_array x;
  int32_t n_tokens;
  int64_t k, n, y_stride;
} int8_run;

static inline yk_linear_spec int8_spec_of(const int8_run *run, yk_weight_view more[YK_MAX_LINEAR_PARTS])
{
  const int8_case *shape = run->shape;
  yk_linear_spec spec = {.n_parts = shape->n_parts,
                         .n_matrices = INT8_MATRICES,
                         .activation = shape->activation,
                         .f32_output = shape->f32_output,
                         .max_tokens = run->n_tokens};
  for (int i = 0; i < shape->n_parts; i++) {
    more[i] = run->weights[1][i].view;
    spec.parts[i] = (yk_linear_part){.weight = run->weights[0][i].view,
                                     .more_weights = &more[i],
                                     .k = shape->k_slice,
                                     .n = shape->parts[i].n_slice,
                                     .use_bias = shape->parts[i].use_bias};
  }
  return spec;
}

static inline int8_run int8_run_new(yk_device *dev, const int8_case *shape, int32_t n_tokens, uint32_t seed)
{
  op_random random = {.seed = seed};
  int8_run run = {.shape = shape, .n_tokens = n_tokens, .k = yk_range_size(shape->k_slice)};
  for (int m = 0; m < INT8_MATRICES; m++)
    for (int i = 0; i < shape->n_parts; i++) run.weights[m][i] = int8_weight_new(shape->k, shape->parts[i].n, &random);
  yk_weight_view more[YK_MAX_LINEAR_PARTS];
  yk_linear_spec spec = int8_spec_of(&run, more);
  run.n = columns_written(&spec);
  run.y_stride = run.n + shape->y_pad;
  assert_true(dev->ops->linear_bytes(&spec) >= 0);
  op_ok(dev->ops->linear_create(dev, &spec, &run.linear, &err));
  run.x = op_array_new(dev, dev->dtype, (size_t)(n_tokens * run.k));
  for (int32_t row = 0; row < n_tokens; row++)
    for (int64_t k = 0; k < run.k; k++) run.x.values[row * run.k + k] = (1.0 + row % 5) * op_normal(&random);
  op_array_send(dev, &run.x);
  return run;
}

static inline void int8_run_free(yk_device *dev, int8_run *run)
{
  dev->ops->linear_destroy(dev, run->linear);
  for (int m = 0; m < INT8_MATRICES; m++)
    for (int i = 0; i < run->shape->n_parts; i++) {
      free(run->weights[m][i].quants);
      free(run->weights[m][i].scales);
      free(run->weights[m][i].bias);
    }
  op_array_free(dev, &run->x);
}

static inline op_array int8_run_forward(yk_device *dev, const int8_run *run, int32_t matrix, int32_t first, int32_t n)
{
  op_array y = op_array_new(dev, run->shape->f32_output ? YK_F32 : dev->dtype, (size_t)(n * run->y_stride));
  for (size_t i = 0; i < y.n; i++) y.values[i] = -7.0;
  op_array_send(dev, &y);
  yk_linear_args args = {.x = (char *)run->x.dev + (size_t)(first * run->k) * yk_dtype_bytes(dev->dtype),
                         .y = y.dev,
                         .n_tokens = n,
                         .matrix = matrix,
                         .y_stride = run->y_stride};
  op_ok(dev->ops->linear_forward(dev, run->linear, &args, &err));
  op_array_fetch(dev, &y);
  return y;
}

/* The scale of a row of activations maps its largest value to 127. */
static inline float int8_row_scale(const double *x, int64_t k)
{
  float largest = 0.0f;
  for (int64_t i = 0; i < k; i++) largest = fmaxf(largest, fabsf((float)x[i]));
  return largest > 0.0f ? largest / 127.0f : 1.0f;
}

/* Column i of a part's slice for row x, by its definition. */
static inline double int8_part_output(const int8_run *run, int32_t matrix, int part, int32_t row, int64_t i,
                                      int8_fault fault)
{
  const int8_case *shape = run->shape;
  const int8_weight *weight = &run->weights[fault == INT8_MATRIX_0 ? 0 : matrix][part];
  const double *x = run->x.values + row * run->k;
  int64_t n = shape->parts[part].n_slice.begin + i;
  float scale = int8_row_scale(x, run->k);
  double sum = 0.0;
  for (int64_t k = 0; k < run->k; k++) {
    double q = fault == INT8_FLOAT_INPUTS ? x[k] : (double)nearbyintf((float)x[k] / scale);
    sum += q * weight->quants[n * shape->k + shape->k_slice.begin + k];
  }
  if (fault == INT8_NO_ROW_SCALE) scale = int8_row_scale(run->x.values, run->k);
  if (fault != INT8_FLOAT_INPUTS) sum *= (double)scale;
  return sum * (double)weight->scales[n] + (shape->parts[part].use_bias ? (double)weight->bias[n] : 0.0);
}

static inline double *int8_run_expect(const int8_run *run, int32_t matrix, int8_fault fault)
{
  double *y = calloc((size_t)(run->n_tokens * run->y_stride) + 1, sizeof *y);
  assert_non_null(y);
  for (int32_t row = 0; row < run->n_tokens; row++) {
    double *out = y + row * run->y_stride;
    for (int64_t i = run->n; i < run->y_stride; i++) out[i] = -7.0;
    for (int p = 0; p < run->shape->n_parts; p++)
      for (int64_t i = 0; i < yk_range_size(run->shape->parts[p].n_slice); i++) {
        double value = int8_part_output(run, matrix, p, row, i, fault);
        if (!run->shape->activation.is_gated)
          *out++ = value;
        else if (p == 0)
          out[i] = value / (1.0 + exp(-value));
        else
          out[i] *= value;
      }
  }
  return y;
}

/* Error of a case against a definition, for one of the matrices. */
static inline double int8_error(const op_target *target, yk_dtype dtype, const int8_case *shape, int32_t n_tokens,
                                int32_t matrix, int8_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  int8_run run = int8_run_new(dev, shape, n_tokens, 31);
  op_array y = int8_run_forward(dev, &run, matrix, 0, n_tokens);
  double *expected = int8_run_expect(&run, matrix, fault);
  double error = op_error(y.values, expected, y.n);
  free(expected);
  op_array_free(dev, &y);
  int8_run_free(dev, &run);
  dev->ops->destroy(dev);
  return error;
}

/* The int8 definition within a rounding of y; the float definition within the error of int8 activations. Layers of
 * float32 output are not quantised: floats within float_tolerance. */
static inline void check_int8_cases(const op_target *target, yk_dtype dtype, double float_tolerance)
{
  static const int32_t token_counts[] = {1, 7, 60};
  for (int c = 0; c < N_INT8_CASES; c++)
    for (int t = 0; t < 3; t++)
      for (int32_t m = 0; m < INT8_MATRICES; m++) {
        const int8_case *shape = &int8_cases[c];
        double exact = int8_error(target, dtype, shape, token_counts[t], m, INT8_RIGHT);
        double floats = int8_error(target, dtype, shape, token_counts[t], m, INT8_FLOAT_INPUTS);
        double tolerance = op_unit_roundoff(dtype) + 1e-5;
        if (shape->f32_output ? floats > float_tolerance : exact > tolerance || floats > 0.1)
          fail_msg("%s %s case %d, %d tokens, matrix %d: error %.3g, of floats %.3g", target->name,
                   yk_dtype_name(dtype), c, token_counts[t], m, exact, floats);
      }
}

/* The comparison must detect each planted fault. */
static inline void check_int8_faults(const op_target *target, yk_dtype dtype)
{
  static const int8_fault faults[] = {INT8_NO_ROW_SCALE, INT8_MATRIX_0};
  for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++) {
    double error = int8_error(target, dtype, &int8_cases[2], 7, 1, faults[i]);
    if (error < 0.1) fail_msg("fault %d passes: error %.3g", (int)faults[i], error);
  }
  double quantised = int8_error(target, dtype, &int8_cases[0], 7, 0, INT8_FLOAT_INPUTS);
  assert_true(quantised > 4.0 * op_unit_roundoff(YK_F16)); /* int8 activations differ from floats */
}

/* Columns of an int8 part next to a part of another format equal those of each alone, bit for bit. */
static inline void check_int8_layers_with_awq(const op_target *target, yk_dtype dtype)
{
  static const linear_case awq_case = {.parts = {{96, 40, 32, YK_F16, {0, 96}, {0, 40}, 32, true}}, .n_parts = 1};
  enum { N_TOKENS = 9, N_EACH = 40, N_BOTH = 2 * N_EACH };
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  linear_run awq = linear_run_new(dev, &awq_case, N_TOKENS, 5);
  int8_run int8 = int8_run_new(dev, &int8_cases[0], N_TOKENS, 6);
  yk_weight_view more[YK_MAX_LINEAR_PARTS];
  yk_linear_spec spec = int8_spec_of(&int8, more);
  spec.n_parts = 2;
  spec.n_matrices = 1;
  spec.parts[1] = awq.spec.parts[0];
  int8_run both = int8;
  both.y_stride = N_BOTH;
  op_ok(dev->ops->linear_create(dev, &spec, &both.linear, &err));
  void *awq_x = awq.x.dev;
  awq.x.dev = int8.x.dev; /* the same inputs for all */
  op_array y_awq = linear_run_forward(dev, &awq, 0, N_TOKENS);
  op_array y_int8 = int8_run_forward(dev, &int8, 0, 0, N_TOKENS);
  op_array y_both = int8_run_forward(dev, &both, 0, 0, N_TOKENS);
  for (int row = 0; row < N_TOKENS; row++)
    for (int i = 0; i < N_EACH; i++) {
      assert_true(y_both.values[row * N_BOTH + i] == y_int8.values[row * N_EACH + i]);
      assert_true(y_both.values[row * N_BOTH + N_EACH + i] == y_awq.values[row * N_EACH + i]);
    }
  awq.x.dev = awq_x;
  dev->ops->linear_destroy(dev, both.linear);
  op_array_free(dev, &y_awq);
  op_array_free(dev, &y_int8);
  op_array_free(dev, &y_both);
  linear_run_free(dev, &awq);
  int8_run_free(dev, &int8);
  dev->ops->destroy(dev);
}

/* Refusals of the table's rows: a check's reason, and the name of a part that no row supports. */
static inline void check_int8_refusals(const op_target *target, yk_dtype dtype)
{
  yk_device *dev = op_device_new(target, dtype, 1, 16);
  int8_run run = int8_run_new(dev, &int8_cases[0], 2, 1);
  for (int i = 0; i < 2; i++) {
    yk_weight_view more[YK_MAX_LINEAR_PARTS];
    yk_linear_spec spec = int8_spec_of(&run, more);
    yk_linear *linear = NULL;
    yk_err err = YK_ERR_INIT;
    if (i == 0) spec.parts[0].weight.dtype = more[0].dtype = YK_F16;
    if (i == 1) spec.parts[0].weight.format = more[0].format = (yk_weight_format)101;
    assert_int_equal(dev->ops->linear_create(dev, &spec, &linear, &err), YK_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "linear part 0"));
    assert_null(linear);
  }
  int8_run_free(dev, &run);
  dev->ops->destroy(dev);
}

#endif
