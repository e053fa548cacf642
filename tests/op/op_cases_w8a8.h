/* op_cases_w8a8.h - layers whose inputs are quantised to 8 bits, against their definition in exact integers; ranks that
 * share a layer give the same bits as one rank. */
#ifndef YK_TESTS_OP_CASES_W8A8_H
#define YK_TESTS_OP_CASES_W8A8_H

#include "base/checked.h"
#include "each_case.h"
#include "op/op_harness.h"

typedef struct w8a8_case {
  int64_t k, n[YK_MAX_LINEAR_PARTS];
  int n_parts;
  yk_inputs inputs[YK_MAX_LINEAR_PARTS];
  yk_activation activation;
  bool use_bias, f32_output;
  int32_t n_tokens; /* 0: the number of w8a8_cases */
} w8a8_case;

#define PER_TOKEN                                                                                                      \
  {                                                                                                                    \
    YK_INPUTS_PER_TOKEN, 0.0f, 0                                                                                       \
  }
#define STATIC(s, z)                                                                                                   \
  {                                                                                                                    \
    YK_INPUTS_STATIC, s, z                                                                                             \
  }
#define N_W8A8_CASES (sizeof w8a8_cases / sizeof *w8a8_cases)
enum { N_TOKENS = 51 }; /* a whole block of rows of the CPU device and a few more */

static const w8a8_case w8a8_cases[] = {
    {.k = 100, .n = {37}, .n_parts = 1, .inputs = {PER_TOKEN}, .use_bias = true},
    {.k = 321, .n = {16}, .n_parts = 1, .inputs = {STATIC(0.03f, 0)}},
    {.k = 192, .n = {24}, .n_parts = 1, .inputs = {STATIC(0.021f, -37)}, .use_bias = true},
    {.k = 64,
     .n = {24, 8, 9}, /* q, k, v */
     .n_parts = 3,
     .inputs = {STATIC(0.02f, 11), STATIC(0.02f, 11), STATIC(0.031f, 11)},
     .use_bias = true},
    {.k = 72, .n = {40, 40}, .n_parts = 2, .inputs = {PER_TOKEN, STATIC(0.04f, 127)}, .activation = YK_GATED_SILU},
    {.k = 128, .n = {66}, .n_parts = 1, .inputs = {PER_TOKEN}, .f32_output = true},
};

/* Part i's weight, and the layer's inputs. */
typedef struct w8a8_weight {
  int8_t *quants;
  float *scales, *bias;
  yk_weight_view view;
} w8a8_weight;

typedef struct w8a8_run {
  const w8a8_case *shape;
  int32_t n_tokens;
  w8a8_weight weights[YK_MAX_LINEAR_PARTS];
  op_array x;
  int64_t n; /* columns written */
} w8a8_run;

static inline w8a8_weight w8a8_weight_new(int64_t k, int64_t n, const yk_inputs *inputs, op_random *random)
{
  w8a8_weight w = {.quants = malloc((size_t)(k * n)),
                   .scales = calloc((size_t)n, sizeof(float)),
                   .bias = calloc((size_t)n, sizeof(float))};
  op_integers_draw(random, -128, 127, w.quants, k * n);
  for (int64_t i = 0; i < n; i++) {
    w.scales[i] = (float)((0.5 + op_uniform(random)) / (127.0 * sqrt((double)k)));
    w.bias[i] = (float)(0.5 * op_normal(random));
  }
  w.view = (yk_weight_view){.format = YK_WEIGHT_INT8,
                            .packing = YK_PACKING_ROWS,
                            .k = k,
                            .n = n,
                            .group = k,
                            .dtype = YK_F32,
                            .qweight = w.quants,
                            .scales = w.scales,
                            .inputs = *inputs,
                            .bias = w.bias,
                            .bias_dtype = YK_F32};
  return w;
}

static inline int32_t w8a8_tokens(const w8a8_case *shape)
{
  return shape->n_tokens ? shape->n_tokens : N_TOKENS;
}

static inline w8a8_run w8a8_run_new(yk_device *dev, const w8a8_case *shape)
{
  op_random random = {.seed = 17};
  w8a8_run run = {.shape = shape,
                  .n_tokens = w8a8_tokens(shape),
                  .x = op_array_new(dev, dev->dtype, (size_t)(w8a8_tokens(shape) * shape->k))};
  for (int i = 0; i < shape->n_parts; i++) {
    run.weights[i] = w8a8_weight_new(shape->k, shape->n[i], &shape->inputs[i], &random);
    if (i == 0 || !shape->activation.is_gated) run.n += shape->n[i];
  }
  for (int32_t row = 0; row < run.n_tokens; row++) /* row 3 is zeros */
    for (int64_t k = 0; k < shape->k; k++)
      run.x.values[row * shape->k + k] = row == 3 ? 0.0 : (1.0 + row % 5) * op_normal(&random);
  op_array_send(dev, &run.x);
  return run;
}

static inline void w8a8_run_free(yk_device *dev, w8a8_run *run)
{
  for (int i = 0; i < run->shape->n_parts; i++) {
    free(run->weights[i].quants);
    free(run->weights[i].scales);
    free(run->weights[i].bias);
  }
  op_array_free(dev, &run->x);
}

/* The layer of inputs k. */
static inline yk_linear *w8a8_linear_new(yk_device *dev, const w8a8_run *run, yk_range k, bool use_bias)
{
  const w8a8_case *shape = run->shape;
  yk_linear_spec spec = {.n_parts = shape->n_parts,
                         .n_matrices = 1,
                         .activation = shape->activation,
                         .f32_output = shape->f32_output,
                         .max_tokens = run->n_tokens};
  for (int i = 0; i < shape->n_parts; i++)
    spec.parts[i] = (yk_linear_part){.weight = run->weights[i].view,
                                     .k = k,
                                     .n = {0, shape->n[i]},
                                     .group_local = yk_range_size(k),
                                     .use_bias = use_bias};
  yk_linear *linear = NULL;
  op_ok(dev->ops->linear_create(dev, &spec, &linear, &err));
  return linear;
}

static inline op_array w8a8_forward(yk_device *dev, const w8a8_run *run, int32_t first, int32_t n_tokens)
{
  yk_linear *linear = w8a8_linear_new(dev, run, (yk_range){0, run->shape->k}, run->shape->use_bias);
  op_array y = op_array_new(dev, run->shape->f32_output ? YK_F32 : dev->dtype, (size_t)(n_tokens * run->n));
  yk_linear_args args = {.x = (char *)run->x.dev + (size_t)(first * run->shape->k) * yk_dtype_bytes(dev->dtype),
                         .y = y.dev,
                         .n_tokens = n_tokens,
                         .y_stride = run->n};
  op_ok(dev->ops->linear_forward(dev, linear, &args, &err));
  op_array_fetch(dev, &y);
  dev->ops->linear_destroy(dev, linear);
  return y;
}

/* ---- The definition ---------------------------------------------------------------------------------------------- */

typedef enum w8a8_fault { W8A8_RIGHT, W8A8_NO_ZERO, W8A8_INPUTS_AS_FLOATS, W8A8_FIRST_PARTS_INPUTS } w8a8_fault;

static inline double w8a8_row_scale(const w8a8_run *run, int32_t row, const yk_inputs *inputs)
{
  float largest = 0.0f;
  for (int64_t k = 0; k < run->shape->k; k++)
    largest = fmaxf(largest, fabsf((float)run->x.values[row * run->shape->k + k]));
  return inputs->kind == YK_INPUTS_STATIC ? (double)inputs->scale : (double)(largest / 127.0f);
}

/* A part's quantised inputs: to [k], in units of the row's scale. */
static inline void w8a8_row(const w8a8_run *run, int part, int32_t row, double scale, w8a8_fault fault, double *to)
{
  const w8a8_case *shape = run->shape;
  double zero = shape->inputs[fault == W8A8_FIRST_PARTS_INPUTS ? 0 : part].zero;
  for (int64_t k = 0; k < shape->k; k++) {
    double x = run->x.values[row * shape->k + k];
    double q = scale > 0 ? (double)nearbyintf((float)x / (float)scale) + zero : 0.0;
    q = q < -128.0 ? -128.0 : q > 127.0 ? 127.0 : q;
    to[k] = fault == W8A8_INPUTS_AS_FLOATS ? x / (scale > 0 ? scale : 1.0) : q - (fault == W8A8_NO_ZERO ? 0.0 : zero);
  }
}

static inline double w8a8_part_output(const w8a8_run *run, int part, int64_t n, double scale, const double *x)
{
  const w8a8_weight *w = &run->weights[part];
  const int8_t *quants = w->quants + n * run->shape->k;
  double sum = 0.0;
  for (int64_t k = 0; k < run->shape->k; k++) sum += x[k] * quants[k];
  return sum * scale * (double)w->scales[n] + (run->shape->use_bias ? (double)w->bias[n] : 0.0);
}

/* The definition of a run's rows: an item is a row of rows. */
typedef struct w8a8_reference {
  const w8a8_run *run;
  w8a8_fault fault;
  const int32_t *rows; /* NULL: row i is row i of the run */
  double *y;           /* [n_rows, n] */
} w8a8_reference;

static inline void w8a8_define_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const w8a8_reference *r = context;
  const w8a8_case *shape = r->run->shape;
  (void)thread;
  double *x = calloc((size_t)shape->k, sizeof *x);
  if (!x) abort();
  for (int64_t i = begin; i < end; i++) {
    const int32_t row = r->rows ? r->rows[i] : (int32_t)i;
    double *out = r->y + i * r->run->n;
    for (int p = 0; p < shape->n_parts; p++) {
      double scale = w8a8_row_scale(r->run, row, &shape->inputs[r->fault == W8A8_FIRST_PARTS_INPUTS ? 0 : p]);
      w8a8_row(r->run, p, row, scale, r->fault, x);
      for (int64_t n = 0; n < shape->n[p]; n++) {
        double value = w8a8_part_output(r->run, p, n, scale, x);
        if (!shape->activation.is_gated)
          *out++ = value;
        else if (p == 0)
          out[n] = value / (1.0 + exp(-value));
        else
          out[n] *= value;
      }
    }
  }
  free(x);
}

/* The error of all rows, or of some if there is much to compute. */
static inline double w8a8_error(const op_target *target, yk_dtype dtype, const w8a8_case *shape, w8a8_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  w8a8_run run = w8a8_run_new(dev, shape);
  op_array y = w8a8_forward(dev, &run, 0, run.n_tokens);
  int32_t rows[OP_SOME_ROWS], n_rows = run.n_tokens;
  const bool are_some = (double)run.n_tokens * (double)run.n * (double)shape->k > 1 << 28;
  if (are_some) n_rows = op_some_rows(run.n_tokens, rows);
  double *found = calloc((size_t)(n_rows * run.n), sizeof *found);
  w8a8_reference reference = {&run, fault, are_some ? rows : NULL, calloc((size_t)(n_rows * run.n), sizeof(double))};
  assert_true(found && reference.y);
  for (int32_t i = 0; i < n_rows; i++)
    memcpy(found + i * run.n, y.values + (are_some ? rows[i] : i) * run.n, (size_t)run.n * sizeof(double));
  op_for_each(n_rows, (double)n_rows * (double)run.n * (double)shape->k, w8a8_define_rows, &reference);
  double error = op_error(found, reference.y, (size_t)(n_rows * run.n));
  free(found);
  free(reference.y);
  op_array_free(dev, &y);
  w8a8_run_free(dev, &run);
  dev->ops->destroy(dev);
  return error;
}

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

static inline void check_w8a8_cases(const op_target *target, const yk_dtype *dtypes, size_t n_dtypes,
                                    const w8a8_case *cases, size_t n_cases)
{
  for (size_t d = 0; d < n_dtypes; d++)
    for (size_t i = 0; i < n_cases; i++) {
      double error = w8a8_error(target, dtypes[d], &cases[i], W8A8_RIGHT);
      if (error > op_unit_roundoff(dtypes[d]) + 1e-6)
        fail_msg("%s %s case %zu: error %.3g", target->name, yk_dtype_name(dtypes[d]), i, error);
    }
}

static inline void check_w8a8_faults(const op_target *target, yk_dtype dtype)
{
  assert_true(w8a8_error(target, dtype, &w8a8_cases[0], W8A8_INPUTS_AS_FLOATS) > 1e-3);
  assert_true(w8a8_error(target, dtype, &w8a8_cases[2], W8A8_NO_ZERO) > 0.1);
  assert_true(w8a8_error(target, dtype, &w8a8_cases[3], W8A8_FIRST_PARTS_INPUTS) > 1e-2);
}

static inline void check_w8a8_batches(const op_target *target)
{
  yk_device *dev = op_device_new(target, YK_BF16, 3, 16);
  w8a8_run run = w8a8_run_new(dev, &w8a8_cases[0]);
  size_t row_bytes = (size_t)run.n * 2;
  op_array batch = w8a8_forward(dev, &run, 0, run.n_tokens);
  for (int32_t row = 0; row < run.n_tokens; row++) {
    op_array alone = w8a8_forward(dev, &run, row, 1);
    assert_memory_equal(alone.bytes, (char *)batch.bytes + (size_t)row * row_bytes, row_bytes);
    op_array_free(dev, &alone);
  }
  op_array_free(dev, &batch);
  w8a8_run_free(dev, &run);
  dev->ops->destroy(dev);
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

enum { MAX_RANKS = 4 };

/* Inputs [cuts[rank], cuts[rank + 1]) are a rank's: odd shards, and an empty one. */
typedef struct w8a8_sharing {
  int n_ranks;
  int64_t cuts[MAX_RANKS + 1];
} w8a8_sharing;

typedef struct w8a8_rank {
  yk_linear *linear;
  op_array x, y;
  yk_linear_sums_args args;
} w8a8_rank;

static inline w8a8_rank w8a8_rank_new(yk_device *dev, const w8a8_run *run, yk_range k, bool is_first)
{
  int64_t n_k = yk_range_size(k);
  w8a8_rank rank = {.linear = w8a8_linear_new(dev, run, k, is_first && run->shape->use_bias),
                    .x = op_array_new(dev, dev->dtype, (size_t)(N_TOKENS * n_k)),
                    .y = op_array_new(dev, dev->dtype, (size_t)(N_TOKENS * run->n))};
  for (int32_t row = 0; row < N_TOKENS; row++)
    for (int64_t i = 0; i < n_k; i++) rank.x.values[row * n_k + i] = run->x.values[row * run->shape->k + k.begin + i];
  op_array_send(dev, &rank.x);
  int32_t *zeros = calloc((size_t)(N_TOKENS * run->n), sizeof *zeros);
  rank.args = (yk_linear_sums_args){.x = rank.x.dev,
                                    .maxima = op_send_i32(dev, zeros, N_TOKENS),
                                    .sums = op_send_i32(dev, zeros, (size_t)(N_TOKENS * run->n)),
                                    .y = rank.y.dev,
                                    .is_zeros = !is_first,
                                    .n_tokens = N_TOKENS};
  free(zeros);
  return rank;
}

static inline void w8a8_rank_free(yk_device *dev, w8a8_rank *rank)
{
  dev->ops->linear_destroy(dev, rank->linear);
  op_array_free(dev, &rank->x);
  op_array_free(dev, &rank->y);
  dev->ops->free(dev, rank->args.maxima);
  dev->ops->free(dev, rank->args.sums);
}

/* The steps of runtime/model/row_parallel.c, on one device. own_maxima: a fault. */
static inline void w8a8_run_ranks(yk_device *dev, w8a8_rank *ranks, int n_ranks, int64_t n, bool own_maxima)
{
  size_t n_sums = (size_t)(N_TOKENS * n);
  int32_t largest[N_TOKENS] = {0}, maxima[N_TOKENS];
  int32_t *total = calloc(n_sums, sizeof *total), *sums = calloc(n_sums, sizeof *sums);
  for (int r = 0; r < n_ranks; r++) {
    op_ok(dev->ops->linear_maxima(dev, ranks[r].linear, &ranks[r].args, &err));
    op_ok(dev->ops->download(dev, maxima, ranks[r].args.maxima, sizeof maxima, &err));
    for (int i = 0; i < N_TOKENS; i++) largest[i] = (int32_t)yk_max_i64(largest[i], maxima[i]);
  }
  for (int r = 0; r < n_ranks; r++) {
    if (!own_maxima) op_ok(dev->ops->upload(dev, ranks[r].args.maxima, largest, sizeof largest, &err));
    op_ok(dev->ops->linear_sums(dev, ranks[r].linear, &ranks[r].args, &err));
    op_ok(dev->ops->download(dev, sums, ranks[r].args.sums, n_sums * sizeof *sums, &err));
    for (size_t i = 0; i < n_sums; i++) total[i] += sums[i];
  }
  for (int r = 0; r < n_ranks; r++) {
    op_ok(dev->ops->upload(dev, ranks[r].args.sums, total, n_sums * sizeof *total, &err));
    op_ok(dev->ops->linear_scale(dev, ranks[r].linear, &ranks[r].args, &err));
    op_array_fetch(dev, &ranks[r].y);
  }
  free(total);
  free(sums);
}

/* Whether rank 0 writes the bits of a forward on one rank, and the others write zeros. */
static inline bool w8a8_ranks_agree(const op_target *target, yk_dtype dtype, const w8a8_case *shape,
                                    const w8a8_sharing *cut, bool own_maxima)
{
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  w8a8_run run = w8a8_run_new(dev, shape);
  run.x.values[7 * shape->k + 5] = NAN;
  run.x.values[9 * shape->k + 90] = -INFINITY;
  op_array_send(dev, &run.x);
  op_array whole = w8a8_forward(dev, &run, 0, N_TOKENS);
  for (int64_t i = 0; i < N_TOKENS * run.n; i++)
    assert_true(isnan(whole.values[i]) == (i / run.n == 7 || i / run.n == 9));
  w8a8_rank ranks[MAX_RANKS];
  for (int r = 0; r < cut->n_ranks; r++)
    ranks[r] = w8a8_rank_new(dev, &run, (yk_range){cut->cuts[r], cut->cuts[r + 1]}, r == 0);
  w8a8_run_ranks(dev, ranks, cut->n_ranks, run.n, own_maxima);
  bool agree = memcmp(ranks[0].y.bytes, whole.bytes, whole.n * yk_dtype_bytes(dtype)) == 0;
  for (int r = 0; r < cut->n_ranks; r++) {
    for (size_t i = 0; r > 0 && i < ranks[r].y.n; i++) agree = agree && ranks[r].y.values[i] == 0.0;
    w8a8_rank_free(dev, &ranks[r]);
  }
  op_array_free(dev, &whole);
  w8a8_run_free(dev, &run);
  dev->ops->destroy(dev);
  return agree;
}

static const w8a8_sharing w8a8_sharings[] = {
    {1, {0, 100}}, {2, {0, 51, 100}}, {3, {0, 1, 64, 100}}, {4, {0, 37, 90, 100, 100}}};

static inline void check_w8a8_ranks(const op_target *target, const yk_dtype *dtypes, size_t n_dtypes)
{
  static const yk_inputs kinds[] = {PER_TOKEN, STATIC(0.03f, 0), STATIC(0.02f, -7)};
  for (size_t d = 0; d < n_dtypes; d++)
    for (size_t i = 0; each_case(i, i < sizeof kinds / sizeof *kinds); i++) {
      w8a8_case shape = w8a8_cases[0];
      shape.inputs[0] = kinds[i];
      for (size_t s = 0; each_case(s, s < sizeof w8a8_sharings / sizeof *w8a8_sharings); s++)
        if (!w8a8_ranks_agree(target, dtypes[d], &shape, &w8a8_sharings[s], false))
          fail_msg("%s %s, inputs %zu: %d ranks give other bits than one", target->name, yk_dtype_name(dtypes[d]), i,
                   w8a8_sharings[s].n_ranks);
    }
  assert_false(
      w8a8_ranks_agree(target, dtypes[0], &w8a8_cases[0], &w8a8_sharings[1], true)); /* the comparison detects it */
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

static inline void check_w8a8_refusals(const op_target *target, yk_dtype dtype)
{
  yk_device *dev = op_device_new(target, dtype, 1, 16);
  w8a8_run run = w8a8_run_new(dev, &w8a8_cases[0]);
  for (int i = 0; i < 2; i++) {
    yk_err err = YK_ERR_INIT;
    yk_linear *linear = NULL;
    yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 1};
    spec.parts[0] = (yk_linear_part){.weight = run.weights[0].view, .k = {0, 100}, .n = {0, 37}, .group_local = 100};
    if (i == 0) spec.parts[0].weight.has_zeros = true;
    if (i == 1) spec.parts[0].weight.group = spec.parts[0].group_local = 50;
    assert_int_equal(dev->ops->linear_create(dev, &spec, &linear, &err), YK_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "linear part 0: 8-bit inputs need"));
    assert_null(linear);
  }
  yk_err err = YK_ERR_INIT;
  yk_linear *linear = NULL;
  yk_weight_view other = run.weights[0].view;
  yk_linear_spec two = {.n_parts = 1, .n_matrices = 2, .max_tokens = 1};
  other.inputs = (yk_inputs)STATIC(0.5f, 0);
  two.parts[0] = (yk_linear_part){
      .weight = run.weights[0].view, .more_weights = &other, .k = {0, 100}, .n = {0, 37}, .group_local = 100};
  assert_int_equal(dev->ops->linear_create(dev, &two, &linear, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "linear part 0: expected matrix 1 as matrix 0"));
  w8a8_run_free(dev, &run);
  dev->ops->destroy(dev);
}

#endif
