/* op_cases_linear.h - the linear layer against float64, for every weight format, slice, part list and epilogue. */
#ifndef YK_TESTS_OP_CASES_LINEAR_H
#define YK_TESTS_OP_CASES_LINEAR_H

#include "each_case.h"
#include "op/op_linear_weight.h"

typedef struct linear_case {
  linear_part_case parts[YK_MAX_LINEAR_PARTS];
  int n_parts;
  yk_activation activation;
  bool f32_output;
  int64_t y_pad;    /* columns of y beyond those written */
  int k_slices;     /* as in yk_linear_spec */
  bool is_resident; /* the first part's weight is on the device already */
} linear_case;

/* A case on a device: spec, weights, inputs. */
typedef struct linear_run {
  const linear_case *shape;
  linear_weight weights[YK_MAX_LINEAR_PARTS];
  yk_linear_spec spec;
  yk_linear *linear;
  op_array x, resident;
  int32_t n_tokens, matrix; /* the matrix of linear that forwards use */
  int64_t k_local, n_local, y_stride;
} linear_run;

/* Columns that a forward writes. */
static inline int64_t columns_written(const yk_linear_spec *spec)
{
  int64_t n = 0;
  for (int i = 0; i < spec->n_parts; i++) n += yk_range_size(spec->parts[i].n);
  return spec->activation.is_gated ? n / 2 : n;
}

static inline linear_run linear_run_new(yk_device *dev, const linear_case *shape, int32_t n_tokens, uint32_t seed)
{
  op_random random = {.seed = seed};
  linear_run run = {.shape = shape, .n_tokens = n_tokens};
  run.spec = (yk_linear_spec){.n_parts = shape->n_parts,
                              .n_matrices = 1,
                              .activation = shape->activation,
                              .f32_output = shape->f32_output,
                              .max_tokens = n_tokens,
                              .k_slices = shape->k_slices};
  for (int i = 0; i < shape->n_parts; i++) {
    const linear_part_case *part = &shape->parts[i];
    run.weights[i] = linear_weight_new(part, &random);
    run.spec.parts[i] = (yk_linear_part){.weight = run.weights[i].view,
                                         .k = part->k_slice,
                                         .n = part->n_slice,
                                         .group_local = part->group_local,
                                         .use_bias = part->use_bias};
  }
  if (shape->n_parts > 0 && shape->is_resident) {
    const linear_part_case *part = &shape->parts[0];
    assert_non_null(run.weights[0].plain);
    double *slice = run.weights[0].plain + part->n_slice.begin * part->k;
    run.resident = op_array_new(dev, dev->dtype, (size_t)(yk_range_size(part->n_slice) * part->k));
    memcpy(run.resident.values, slice, run.resident.n * sizeof(double));
    op_array_send(dev, &run.resident); /* rounds: the device's weights are the rounded ones */
    memcpy(slice, run.resident.values, run.resident.n * sizeof(double));
    run.spec.parts[0].is_resident = true;
    run.spec.parts[0].resident = run.resident.dev;
    assert_int_equal(dev->ops->linear_bytes(&run.spec), 0); /* no second copy */
  }
  run.k_local = yk_range_size(shape->parts[0].k_slice);
  run.n_local = columns_written(&run.spec);
  run.y_stride = run.n_local + shape->y_pad;
  assert_true(dev->ops->linear_bytes(&run.spec) >= 0);
  op_ok(dev->ops->linear_create(dev, &run.spec, &run.linear, &err));
  run.x = op_array_random(dev, dev->dtype, (size_t)(n_tokens * run.k_local), 1.0, &random);
  return run;
}

static inline void linear_run_free(yk_device *dev, linear_run *run)
{
  dev->ops->linear_destroy(dev, run->linear);
  for (int i = 0; i < run->shape->n_parts; i++) linear_weight_free(&run->weights[i]);
  op_array_free(dev, &run->x);
  op_array_free(dev, &run->resident);
}

/* Rows first .. first + n - 1 of the case in one forward; columns that must not change hold -7 before and after. */
static inline op_array linear_run_forward(yk_device *dev, const linear_run *run, int32_t first, int32_t n)
{
  op_array y = op_array_new(dev, run->shape->f32_output ? YK_F32 : dev->dtype, (size_t)(n * run->y_stride));
  for (size_t i = 0; i < y.n; i++) y.values[i] = -7.0;
  op_array_send(dev, &y);
  size_t x_bytes = (size_t)(first * run->k_local) * yk_dtype_bytes(dev->dtype);
  yk_linear_args args = {
      .x = (char *)run->x.dev + x_bytes, .y = y.dev, .n_tokens = n, .matrix = run->matrix, .y_stride = run->y_stride};
  op_ok(dev->ops->linear_forward(dev, run->linear, &args, &err));
  op_array_fetch(dev, &y);
  for (int32_t row = 0; row < n; row++)
    for (int64_t i = run->n_local; i < run->y_stride; i++) assert_true(y.values[row * run->y_stride + i] == -7.0);
  return y;
}

/* Outputs of a case by definition: an item is a column. */
typedef struct linear_reference {
  const linear_run *run;
  op_fault fault;
  const int32_t *rows; /* [n_rows]; NULL: 0 to n_rows - 1 */
  int64_t n_rows, first_column, column_step, stride;
  double *y;          /* [n_rows, stride], of which the first columns are written */
  double *magnitudes; /* the same, zero before: the sum of the summands' absolute values, but 0 after an epilogue */
} linear_reference;

/* The part of a column, which becomes the column's number in this part. */
static inline int part_of_column(const linear_case *shape, int64_t *column)
{
  int p = 0;
  while (!shape->activation.is_gated && *column >= yk_range_size(shape->parts[p].n_slice))
    *column -= yk_range_size(shape->parts[p++].n_slice);
  return p;
}

static inline void linear_reference_columns(void *context, int thread, int64_t begin, int64_t end)
{
  const linear_reference *r = context;
  const linear_case *shape = r->run->shape;
  const int64_t k = r->run->k_local;
  const bool is_gated = shape->activation.is_gated;
  (void)thread;
  double *w = calloc((size_t)(2 * k) + 1, sizeof *w);
  if (!w) abort();
  for (int64_t item = begin; item < end; item++) {
    int64_t column = r->first_column + item * r->column_step;
    const int p = part_of_column(shape, &column), n_parts = is_gated ? 2 : 1;
    for (int i = 0; i < n_parts; i++)
      part_column(&r->run->weights[p + i], &shape->parts[p + i], column, r->fault, w + i * k);
    for (int64_t row = 0; row < r->n_rows; row++) {
      const double *x = r->run->x.values + (r->rows ? r->rows[row] : row) * k;
      double v[2] = {0.0, 1.0}, unused = 0.0, *magnitude = is_gated ? &unused : r->magnitudes + row * r->stride + item;
      for (int i = 0; i < n_parts; i++)
        v[i] = part_output(&r->run->weights[p + i], &shape->parts[p + i], w + i * k, x, column, r->fault, magnitude);
      const bool swaps = is_gated && r->fault == OP_GATE_UP_SWAPPED;
      r->y[row * r->stride + item] = op_activated(&shape->activation, v[swaps], v[!swaps]);
    }
  }
  free(w);
}

static inline void linear_reference_fill(linear_reference *r, int64_t n_columns)
{
  op_for_each(n_columns, (double)(n_columns * r->n_rows * r->run->k_local), linear_reference_columns, r);
}

/* [n_tokens, y_stride] of the same case by definition; padding as on the device. magnitudes [n_tokens, y_stride], zero
 * before: as in linear_reference. */
static inline double *linear_run_expect(const linear_run *run, op_fault fault, double *magnitudes)
{
  double *y = calloc((size_t)(run->n_tokens * run->y_stride) + 1, sizeof *y);
  assert_non_null(y);
  linear_reference reference = {
      .run = run, .fault = fault, .n_rows = run->n_tokens, .column_step = 1, .stride = run->y_stride, .y = y};
  reference.magnitudes = magnitudes;
  linear_reference_fill(&reference, run->n_local);
  for (int32_t row = 0; row < run->n_tokens; row++)
    for (int64_t i = run->n_local; i < run->y_stride; i++) y[row * run->y_stride + i] = -7.0;
  return y;
}

/* One rounding to the output's type, and float32 sums over k before it. */
static inline double linear_tolerance(yk_dtype dtype, int64_t k)
{
  return op_unit_roundoff(dtype) + 0x1p-23 * sqrt((double)k + 4.0) * 2.0;
}

/* Like op_error, but no output counts as smaller than the expected size of a sum of its k products with random signs.
 * An output that cancels to nearly nothing keeps the error of its products, and among few outputs no larger one
 * compensates. */
static inline double linear_run_error(const op_array *y, const double *expected, const double *magnitudes, int64_t k)
{
  double squares = 0.0, worst = 0.0;
  for (size_t i = 0; i < y->n; i++) squares += expected[i] * expected[i];
  double rms = y->n ? sqrt(squares / (double)y->n) : 0.0;
  for (size_t i = 0; i < y->n; i++) {
    double size = fabs(expected[i]) + fmax(rms, magnitudes[i] / sqrt((double)k + 1.0));
    double difference = fabs(y->values[i] - expected[i]);
    double error = difference == 0.0 ? 0.0 : difference / size;
    if (!(error <= worst)) worst = error == error ? error : INFINITY;
  }
  return worst;
}

static inline double linear_error_on(yk_device *dev, const linear_case *shape, int32_t n_tokens, uint32_t seed,
                                     op_fault fault)
{
  linear_run run = linear_run_new(dev, shape, n_tokens, seed);
  op_array y = linear_run_forward(dev, &run, 0, n_tokens);
  double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
  assert_non_null(magnitudes);
  double *expected = linear_run_expect(&run, fault, magnitudes);
  double error = linear_run_error(&y, expected, magnitudes, run.k_local);
  free(expected);
  free(magnitudes);
  op_array_free(dev, &y);
  linear_run_free(dev, &run);
  return error;
}

/* The same on a separate device. */
static inline double linear_error(const op_target *target, yk_dtype dtype, const linear_case *shape, int32_t n_tokens,
                                  uint32_t seed, op_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  double error = linear_error_on(dev, shape, n_tokens, seed, fault);
  dev->ops->destroy(dev);
  return error;
}

/* Shapes of past faults. k and n of the weight; group; dtype; slices; local group; bias. */
static const linear_case linear_cases[] = {
    {.parts = {{256, 64, 128, YK_F16, {0, 256}, {0, 64}, 128, false}}, .n_parts = 1},
    {.parts = {{96, 40, 96, YK_BF16, {0, 96}, {0, 40}, 96, true}}, .n_parts = 1},    /* one group */
    {.parts = {{128, 40, 32, YK_F16, {0, 128}, {3, 29}, 32, true}}, .n_parts = 1},   /* inside words */
    {.parts = {{128, 16, 32, YK_F16, {0, 128}, {7, 8}, 32, true}}, .n_parts = 1},    /* one column */
    {.parts = {{256, 48, 128, YK_F16, {24, 168}, {8, 48}, 8, false}}, .n_parts = 1}, /* cut inside groups */
    {.parts = {{256, 48, 128, YK_F16, {96, 224}, {0, 48}, 32, false}}, .n_parts = 1},
    {.parts = {{20, 24, 20, YK_F16, {0, 20}, {0, 24}, 20, true}}, .n_parts = 1},    /* k not whole words */
    {.parts = {{60, 24, 12, YK_F16, {12, 60}, {0, 24}, 12, false}}, .n_parts = 1},  /* groups across words */
    {.parts = {{128, 32, 64, YK_F16, {64, 84}, {0, 32}, 20, false}}, .n_parts = 1}, /* all of a short slice */
    {.parts = {{64, 32, 32, YK_F16, {32, 32}, {0, 32}, 32, false}}, .n_parts = 1},  /* empty k */
    {.parts = {{64, 32, 32, YK_F16, {0, 64}, {5, 5}, 32, false}}, .n_parts = 1},    /* empty n */
    {.parts = {{130, 67, 0, YK_F16, {0, 130}, {0, 67}, 0, true}}, .n_parts = 1, .y_pad = 3},
    {.parts = {{130, 67, 0, YK_BF16, {9, 130}, {5, 66}, 0, false}}, .n_parts = 1},
    {.parts = {{70, 33, 0, YK_F32, {1, 70}, {1, 33}, 0, true}}, .n_parts = 1},
    {.parts = {{64, 1003, 0, YK_F16, {0, 64}, {501, 1003}, 0, false}}, .n_parts = 1, .f32_output = true, .y_pad = 5},
    {.parts = {{96, 48, 32, YK_F16, {0, 96}, {0, 48}, 32, true}, /* q, k, v: formats mixed, an odd slice, biases */
               {96, 16, 0, YK_F16, {0, 96}, {0, 16}, 0, true},
               {96, 16, 32, YK_F16, {0, 96}, {4, 15}, 32, true}},
     .n_parts = 3,
     .y_pad = 4},
    {.parts = {{96, 48, 32, YK_F16, {0, 96}, {0, 40}, 32, false}, /* a rank without KV heads */
               {96, 16, 32, YK_F16, {0, 96}, {8, 8}, 32, false},
               {96, 16, 32, YK_F16, {0, 96}, {8, 8}, 32, false}},
     .n_parts = 3},
    {.parts = {{128, 88, 64, YK_F16, {0, 128}, {8, 52}, 64, false},
               {128, 88, 64, YK_F16, {0, 128}, {8, 52}, 64, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU,
     .y_pad = 1},
    {.parts = {{128, 88, 64, YK_F16, {0, 128}, {8, 52}, 64, true}, {128, 50, 0, YK_BF16, {0, 128}, {6, 50}, 0, true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{48, 40, 0, YK_F16, {0, 48}, {0, 40}, 0, false}, {48, 40, 0, YK_F16, {0, 48}, {0, 40}, 0, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{1024, 72, 128, YK_F16, {0, 1024}, {0, 72}, 128, false}}, .n_parts = 1},
    {.parts = {{64, 1003, 0, YK_F16, {0, 64}, {501, 1003}, 0, false}}, /* a tied lm_head */
     .n_parts = 1,
     .f32_output = true,
     .y_pad = 5,
     .is_resident = true},
};
enum { N_LINEAR_CASES = sizeof linear_cases / sizeof *linear_cases };

static inline void check_linear_table(const op_target *target)
{
  static const int32_t token_counts[] = {1, 2, 7, 40};
  for (size_t d = 0; d < 3; d++)
    for (int c = 0; c < N_LINEAR_CASES; c++)
      for (size_t t = 0; t < 4; t++) {
        const linear_case *shape = &linear_cases[c];
        double error = linear_error(target, op_dtypes[d], shape, token_counts[t], 100 + (uint32_t)c, OP_RIGHT);
        yk_dtype out = shape->f32_output ? YK_F32 : op_dtypes[d];
        double tolerance = linear_tolerance(out, yk_range_size(shape->parts[0].k_slice));
        if (error > tolerance)
          fail_msg("%s %s case %d, %d tokens: error %.3g, tolerance %.3g", target->name, yk_dtype_name(op_dtypes[d]), c,
                   token_counts[t], error, tolerance);
      }
}

/* A random slice of a random weight. A cut inside a group gets the largest local group that divides both ends. */
static inline linear_part_case random_part(op_random *random, int64_t k, yk_range k_slice)
{
  static const int64_t groups[] = {0, 8, 16, 32, 64, 128};
  linear_part_case part = {.k = k, .n = 8 * op_between(random, 1, 12), .k_slice = k_slice};
  part.group = groups[op_between(random, 0, 5)];
  part.dtype = op_dtypes[op_between(random, 0, 1)];
  if (part.group && k % part.group) part.group = k;
  part.n_slice.begin = op_between(random, 0, part.n - 1);
  part.n_slice.end = op_between(random, part.n_slice.begin + 1, part.n);
  part.group_local = part.group;
  while (part.group_local > 1 && (k_slice.begin % part.group_local || k_slice.end % part.group_local))
    part.group_local = part.group_local % 2 ? 1 : part.group_local / 2;
  part.use_bias = op_uniform(random) < 0.5;
  return part;
}

static inline void check_linear_random(const op_target *target, int n_cases)
{
  for (int i = 0; i < n_cases; i++) {
    op_random random = {.seed = 7000 + (uint32_t)i};
    linear_case shape = {.n_parts = (int)op_between(&random, 1, 3), .y_pad = op_between(&random, 0, 3)};
    int64_t k = op_uniform(&random) < 0.2 ? op_between(&random, 9, 90) : 8 * op_between(&random, 1, 48);
    yk_range k_slice = {op_between(&random, 0, k / 8) * 4, 0};
    k_slice.end = op_between(&random, k_slice.begin + 1, k);
    if (op_uniform(&random) < 0.7) k_slice.end = k;
    for (int p = 0; p < shape.n_parts; p++) shape.parts[p] = random_part(&random, k, k_slice);
    yk_dtype dtype = op_dtypes[i % 3];
    int32_t n_tokens = (int32_t)op_between(&random, 1, 40);
    double error = linear_error(target, dtype, &shape, n_tokens, 500 + (uint32_t)i, OP_RIGHT);
    double tolerance = linear_tolerance(dtype, yk_range_size(k_slice));
    if (error > tolerance)
      fail_msg("%s %s random case %d, %d tokens, k [%lld, %lld): error %.3g, tolerance %.3g", target->name,
               yk_dtype_name(dtype), i, n_tokens, (long long)k_slice.begin, (long long)k_slice.end, error, tolerance);
  }
}

/* The comparison must detect each planted fault, at ten times the tolerance. */
static inline void check_linear_faults(const op_target *target)
{
  static const struct {
    op_fault fault;
    int shape;
  } faults[] = {{OP_NIBBLE_ORDER, 0}, {OP_NO_SCALE, 0},    {OP_ZERO_PLUS_ONE, 0},
                {OP_NIBBLE_ORDER, 2}, {OP_GROUP_SHIFT, 4}, {OP_GROUP_SHIFT, 5},
                {OP_NO_BIAS, 2},      {OP_NO_BIAS, 11},    {OP_GATE_UP_SWAPPED, 17}};
  for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++)
    for (size_t d = 0; d < 3; d++) {
      const linear_case *shape = &linear_cases[faults[i].shape];
      double tolerance = linear_tolerance(op_dtypes[d], yk_range_size(shape->parts[0].k_slice));
      double error = linear_error(target, op_dtypes[d], shape, 3, 9, faults[i].fault);
      if (error < 10.0 * tolerance)
        fail_msg("fault %d in case %d passes: error %.3g, tolerance %.3g", (int)faults[i].fault, faults[i].shape, error,
                 tolerance);
    }
}

/* Same bits for a row alone, in a batch, on one thread and on three. */
static inline void check_linear_batches(const op_target *target, yk_dtype dtype, const linear_case *shape)
{
  enum { N_TOKENS = 150 }; /* more than one block of rows */
  yk_device *one = op_device_new(target, dtype, 1, 16), *three = op_device_new(target, dtype, 3, 16);
  linear_run run = linear_run_new(one, shape, N_TOKENS, 77);
  linear_run run3 = linear_run_new(three, shape, N_TOKENS, 77);
  op_array batch = linear_run_forward(one, &run, 0, N_TOKENS);
  op_array batch3 = linear_run_forward(three, &run3, 0, N_TOKENS);
  size_t row_bytes = (size_t)run.y_stride * yk_dtype_bytes(batch.dtype);
  assert_memory_equal(batch.bytes, batch3.bytes, row_bytes * N_TOKENS);
  static const int32_t firsts[] = {0, 1, 5, 13, 47, 48, 95, 149}, lengths[] = {1, 2, 3, 8, 1, 50, 11, 1};
  for (size_t i = 0; each_case(i, i < sizeof firsts / sizeof *firsts); i++) {
    op_array some = linear_run_forward(three, &run3, firsts[i], lengths[i]);
    assert_memory_equal(some.bytes, (char *)batch.bytes + (size_t)firsts[i] * row_bytes,
                        (size_t)lengths[i] * row_bytes);
    op_array_free(three, &some);
  }
  op_array_free(one, &batch);
  op_array_free(three, &batch3);
  linear_run_free(one, &run);
  linear_run_free(three, &run3);
  one->ops->destroy(one);
  three->ops->destroy(three);
}

static inline void check_linear_batch_invariance(const op_target *target)
{
  static const int shapes[] = {2, 4, 6, 7, 11, 15, 17, 18, 20};
  for (size_t s = 0; each_case(s, s < sizeof shapes / sizeof *shapes); s++)
    for (size_t d = 0; d < 3; d++) check_linear_batches(target, op_dtypes[d], &linear_cases[shapes[s]]);
}

/* Layers of slices of K: several parts, an activation, biases, a slice of a group's inputs, float32 results. */
static const linear_case sliced_cases[] = {
    {.parts = {{1024, 64, 128, YK_F16, {0, 1024}, {0, 64}, 128, true}}, .n_parts = 1, .k_slices = 8},
    {.parts = {{512, 96, 64, YK_F16, {0, 512}, {16, 64}, 64, true},
               {512, 32, 64, YK_F16, {0, 512}, {0, 32}, 64, false}},
     .n_parts = 2,
     .k_slices = 4},
    {.parts = {{512, 48, 512, YK_F16, {0, 512}, {0, 48}, 512, true},
               {512, 48, 32, YK_F16, {0, 512}, {0, 48}, 32, true}},
     .n_parts = 2,
     .k_slices = 2},
    {.parts = {{256, 64, 64, YK_F16, {0, 256}, {0, 48}, 64, false}, {256, 64, 64, YK_F16, {0, 256}, {8, 56}, 64, true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU,
     .k_slices = 2},
    {.parts = {{1024, 64, 0, YK_F16, {512, 1024}, {0, 60}, 0, true}}, .n_parts = 1, .k_slices = 4, .y_pad = 4},
    {.parts = {{2048, 64, 128, YK_F16, {1024, 2048}, {0, 64}, 128, false}},
     .n_parts = 1,
     .k_slices = 4,
     .f32_output = true},
    {.parts = {{96, 40, 0, YK_F16, {0, 96}, {0, 40}, 0, false}}, .n_parts = 1, .k_slices = 1, .f32_output = true},
    {.parts = {{640, 96, 128, YK_F16, {0, 640}, {0, 96}, 128, true},
               {640, 96, 128, YK_F16, {0, 640}, {0, 96}, 128, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU,
     .k_slices = 1},
};

/* The layer of one rank of two, in shape's format: half of the inputs and of the slices. */
static inline linear_case half_of_slices(const linear_case *shape, int half)
{
  linear_case rank = *shape;
  yk_range *k = &rank.parts[0].k_slice;
  const int64_t n = yk_range_size(*k) / 2;
  *k = (yk_range){k->begin + half * n, k->begin + half * n + n};
  rank.k_slices /= 2;
  return rank;
}

/* The float32 sums of two ranks with half of the slices each add up to those of one rank, bit for bit. */
static inline void check_linear_halves(const op_target *target, yk_dtype dtype, const linear_case *shape)
{
  enum { N_TOKENS = 20 };
  yk_device *dev = op_device_new(target, dtype, 2, N_TOKENS);
  linear_run whole = linear_run_new(dev, shape, N_TOKENS, 78);
  op_array y = linear_run_forward(dev, &whole, 0, N_TOKENS), of_half[2];
  for (int half = 0; half < 2; half++) {
    const linear_case of_rank = half_of_slices(shape, half);
    linear_run run = linear_run_new(dev, &of_rank, N_TOKENS, 78);
    for (int64_t i = 0; i < N_TOKENS * run.k_local; i++)
      run.x.values[i] = whole.x.values[i / run.k_local * whole.k_local + half * run.k_local + i % run.k_local];
    op_array_send(dev, &run.x);
    of_half[half] = linear_run_forward(dev, &run, 0, N_TOKENS);
    linear_run_free(dev, &run);
  }
  for (size_t i = 0; i < y.n; i++)
    assert_true((float)y.values[i] == (float)of_half[0].values[i] + (float)of_half[1].values[i]);
  for (int half = 0; half < 2; half++) op_array_free(dev, &of_half[half]);
  op_array_free(dev, &y);
  linear_run_free(dev, &whole);
  dev->ops->destroy(dev);
}

/* A layer of several matrices equals separate layers bit for bit, and takes the same memory. */
static inline void check_linear_matrices(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                         int32_t n_tokens)
{
  enum { N_MATRICES = 3 };
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  linear_run runs[N_MATRICES];
  for (int m = 0; m < N_MATRICES; m++) runs[m] = linear_run_new(dev, shape, n_tokens, 60 + (uint32_t)m);
  yk_weight_view more[YK_MAX_LINEAR_PARTS][N_MATRICES - 1];
  yk_linear_spec spec = runs[0].spec;
  spec.n_matrices = N_MATRICES;
  for (int i = 0; i < spec.n_parts; i++) {
    for (int m = 1; m < N_MATRICES; m++) more[i][m - 1] = runs[m].spec.parts[i].weight;
    spec.parts[i].more_weights = more[i];
  }
  assert_int_equal(dev->ops->linear_bytes(&spec), N_MATRICES * dev->ops->linear_bytes(&runs[0].spec));
  yk_linear *all = NULL;
  op_ok(dev->ops->linear_create(dev, &spec, &all, &err));
  for (int32_t m = 0; m < N_MATRICES; m++) {
    linear_run of_matrix = runs[m];
    of_matrix.linear = all;
    of_matrix.matrix = m;
    op_array expected = linear_run_forward(dev, &runs[m], 0, n_tokens);
    op_array found = linear_run_forward(dev, &of_matrix, 0, n_tokens);
    assert_memory_equal(found.bytes, expected.bytes, found.n * yk_dtype_bytes(found.dtype));
    op_array_free(dev, &expected);
    op_array_free(dev, &found);
  }
  for (int32_t m = -1; m <= N_MATRICES; m += N_MATRICES + 1) {
    yk_err err = YK_ERR_INIT;
    yk_linear_args args = {.x = runs[0].x.dev, .n_tokens = 0, .matrix = m, .y_stride = runs[0].y_stride};
    assert_int_equal(dev->ops->linear_forward(dev, all, &args, &err), YK_E_INVAL);
  }
  dev->ops->linear_destroy(dev, all);
  for (int m = 0; m < N_MATRICES; m++) linear_run_free(dev, &runs[m]);
  dev->ops->destroy(dev);
}

/* The part's weight in the form of a 16-bit checkpoint: dtype [n, k], which the caller frees. */
static inline void *dequantised_part(const linear_weight *weight, const linear_part_case *part, yk_dtype dtype,
                                     yk_linear_part *out)
{
  void *plain = calloc((size_t)(part->k * part->n + 1), yk_dtype_bytes(dtype));
  assert_non_null(plain);
  for (int64_t n = 0; n < part->n; n++)
    for (int64_t k = 0; k < part->k; k++)
      yk_dtype_store(dtype, plain, (size_t)(n * part->k + k), (float)weight_value(weight, part, k, n, OP_RIGHT));
  out->weight.format = YK_WEIGHT_PLAIN;
  out->weight.group = out->group_local = 0;
  out->weight.dtype = dtype;
  out->weight.plain = plain;
  return plain;
}

/* AWQ parts that are loaded as 16 bits equal the rounded weights in a plain layer, bit for bit, and take the same
 * memory. */
static inline void check_linear_as_16_bits(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                           int32_t n_tokens)
{
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  linear_run run = linear_run_new(dev, shape, n_tokens, 81), runs[2] = {run, run};
  void *plain[YK_MAX_LINEAR_PARTS] = {NULL};
  for (int i = 0; i < shape->n_parts; i++) {
    runs[0].spec.parts[i].as_16_bits = true;
    if (shape->parts[i].group)
      plain[i] =
          dequantised_part(&run.weights[i], &shape->parts[i], dtype == YK_F32 ? YK_F16 : dtype, &runs[1].spec.parts[i]);
  }
  assert_int_equal(dev->ops->linear_bytes(&runs[0].spec), dev->ops->linear_bytes(&runs[1].spec));
  op_array y[2];
  for (int i = 0; i < 2; i++) {
    op_ok(dev->ops->linear_create(dev, &runs[i].spec, &runs[i].linear, &err));
    y[i] = linear_run_forward(dev, &runs[i], 0, n_tokens);
    dev->ops->linear_destroy(dev, runs[i].linear);
  }
  assert_memory_equal(y[0].bytes, y[1].bytes, y[0].n * yk_dtype_bytes(y[0].dtype));
  for (int i = 0; i < 2; i++) op_array_free(dev, &y[i]);
  for (int i = 0; i < YK_MAX_LINEAR_PARTS; i++) free(plain[i]);
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

/* Specs that contradict themselves are refused, by name. */
static inline void check_linear_refusals(const op_target *target)
{
  yk_device *dev = op_device_new(target, YK_F16, 1, 16);
  linear_run run = linear_run_new(dev, &linear_cases[4], 2, 1);
  yk_linear *linear = NULL;
  for (int i = 0; each_case(i, i < 12); i++) {
    yk_linear_spec spec = run.spec;
    yk_weight_view more = spec.parts[0].weight;
    yk_err err = YK_ERR_INIT;
    if (i == 0) spec.parts[0].k.end = spec.parts[0].weight.k + 8;
    if (i == 1) spec.parts[0].n.begin = -1;
    if (i == 2) spec.parts[0].group_local = 64; /* crosses a group's end */
    if (i == 3) spec.parts[0].group_local = 0;
    if (i == 4) spec.n_parts = 0;
    if (i == 5) spec.activation = (yk_activation)YK_GATED_SILU;
    if (i == 6) spec.n_matrices = 0;
    if (i == 7) spec.n_matrices = 2, more.n -= 8; /* a matrix of another shape */
    if (i == 8) spec.n_matrices = 2, spec.parts[0].use_bias = true, more.bias = NULL;
    if (i == 9) spec.parts[0].weight.format = (yk_weight_format)99;
    if (i == 10) spec.activation.kind = (yk_activation_kind)99;
    if (i == 11) spec.activation = (yk_activation){YK_ACTIVATION_CLAMPED_SWIGLU, false, 1.0f, 7.0f};
    spec.parts[0].more_weights = &more;
    yk_status expected = i == 9 ? YK_E_UNSUPPORTED : YK_E_INVAL;
    assert_int_equal(dev->ops->linear_create(dev, &spec, &linear, &err), expected);
    assert_true(err.message[0] != '\0');
    assert_null(linear);
  }
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

#endif
