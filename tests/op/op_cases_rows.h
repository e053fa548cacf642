/* op_cases_rows.h - embedding, norms, gather: each row-wise operation against float64. */
#ifndef YK_TESTS_OP_CASES_ROWS_H
#define YK_TESTS_OP_CASES_ROWS_H

#include "each_case.h"
#include "op/op_reference.h"

static const int32_t row_hiddens[] = {1, 16, 20, 80, 256, 260, 1024, 2051};
static const int32_t row_counts[] = {1, 3, 40};

static inline void expect_below(const op_target *target, const char *op, yk_dtype dtype, int32_t rows, int32_t hidden,
                                double error, double tolerance)
{
  if (!(error <= tolerance))
    fail_msg("%s %s %s, %d rows of %d: error %.3g, tolerance %.3g", target->name, op, yk_dtype_name(dtype), rows,
             hidden, error, tolerance);
}

enum { OP_VOCAB = 37 };

/* A table of the ids first_id .. first_id + n_ids - 1: rows of other ids, and cleared rows, become zeros. One
 * rounding. */
static inline void check_embed(const op_target *target, yk_dtype dtype, int32_t rows, int32_t hidden, int32_t first_id,
                               int32_t n_ids)
{
  op_random random = {.seed = (uint32_t)(hidden * 100 + rows + first_id)};
  yk_device *dev = op_device_new(target, dtype, 3, OP_VOCAB);
  op_array table = op_array_random(dev, dtype, (size_t)(n_ids * hidden), 1.0, &random);
  op_array y = op_array_new(dev, dtype, (size_t)(rows * hidden)), expected = op_array_new(dev, dtype, y.n);
  op_array cleared = op_array_new(dev, dtype, y.n);
  int32_t ids[64];
  for (int32_t i = 0; i < rows; i++) ids[i] = (int32_t)op_between(&random, 0, OP_VOCAB - 1);
  ids[0] = OP_VOCAB - 1;
  int32_t *dev_ids = op_send_i32(dev, ids, (size_t)rows);
  static const float scales[] = {1.0f, 12.0f, 0.3f};
  for (int s = 0; s < 3; s++) {
    for (size_t i = 0; i < y.n; i++) cleared.values[i] = 1.0;
    op_array_send(dev, &cleared);
    for (size_t i = 0; i < y.n; i++) {
      int32_t id = ids[i / (size_t)hidden] - first_id, column = (int32_t)(i % (size_t)hidden);
      expected.values[i] = id >= 0 && id < n_ids ? table.values[id * hidden + column] * scales[s] : 0.0;
    }
    yk_embed_args embed = {.y = y.dev,
                           .cleared = s == 0 ? NULL : cleared.dev,
                           .table = n_ids > 0 ? table.dev : NULL,
                           .token_ids = dev_ids,
                           .first_id = first_id,
                           .n_ids = n_ids,
                           .n_tokens = rows,
                           .hidden = hidden,
                           .scale = scales[s]};
    op_ok(dev->ops->embed(dev, &embed, &err));
    op_array_fetch(dev, &y);
    double tolerance = s == 0 ? 0.0 : op_unit_roundoff(dtype) + 0x1p-23;
    expect_below(target, "embed", dtype, rows, hidden, op_error(y.values, expected.values, y.n), tolerance);
    op_array_fetch(dev, &cleared);
    for (size_t i = 0; i < y.n && s > 0; i++) assert_true(cleared.values[i] == 0.0);
  }
  dev->ops->free(dev, dev_ids);
  op_array_free(dev, &table);
  op_array_free(dev, &y);
  op_array_free(dev, &expected);
  op_array_free(dev, &cleared);
  dev->ops->destroy(dev);
}

/* gather_rows copies. */
static inline void check_gather(const op_target *target, yk_dtype dtype, int32_t rows, int32_t hidden)
{
  op_random random = {.seed = (uint32_t)(hidden * 100 + rows)};
  yk_device *dev = op_device_new(target, dtype, 3, OP_VOCAB);
  op_array x = op_array_random(dev, dtype, (size_t)(OP_VOCAB * hidden), 1.0, &random);
  op_array y = op_array_new(dev, dtype, (size_t)(rows * hidden)), expected = op_array_new(dev, dtype, y.n);
  int32_t chosen[64];
  for (int32_t i = 0; i < rows; i++) chosen[i] = (int32_t)op_between(&random, 0, OP_VOCAB - 1);
  chosen[0] = OP_VOCAB - 1;
  int32_t *dev_rows = op_send_i32(dev, chosen, (size_t)rows);
  yk_gather_rows_args gather = {y.dev, x.dev, dev_rows, rows, hidden};
  op_ok(dev->ops->gather_rows(dev, &gather, &err));
  op_array_fetch(dev, &y);
  for (size_t i = 0; i < y.n; i++)
    expected.values[i] = x.values[chosen[i / (size_t)hidden] * hidden + (int32_t)(i % (size_t)hidden)];
  expect_below(target, "gather_rows", dtype, rows, hidden, op_error(y.values, expected.values, y.n), 0.0);
  dev->ops->free(dev, dev_rows);
  op_array_free(dev, &x);
  op_array_free(dev, &y);
  op_array_free(dev, &expected);
  dev->ops->destroy(dev);
}

/* Two roundings by definition; near a tie the inner one may differ, and the outer one then scales the difference. */
static inline double norm_tolerance(yk_dtype dtype)
{
  return 3.1 * op_unit_roundoff(dtype) + 0x1p-20;
}

static inline double rms_norm_error(const op_target *target, yk_dtype dtype, int32_t rows, int32_t hidden,
                                    bool in_place, op_fault fault)
{
  op_random random = {.seed = (uint32_t)(hidden * 10 + rows)};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  int32_t x_stride = in_place ? hidden : hidden + 8 * (rows - 1);
  op_array x = op_array_random(dev, dtype, (size_t)(rows * x_stride), 0.05, &random);
  op_array w = op_array_random(dev, dtype, (size_t)hidden, 1.5, &random);
  op_array y = op_array_new(dev, dtype, (size_t)(rows * hidden));
  double *expected = calloc(y.n, sizeof *expected);
  const float eps = 1e-3f; /* large compared with mean(x^2), so that omitting it is detected */
  for (int32_t row = 0; row < rows; row++)
    op_ref_rms_norm(dtype, expected + row * hidden, x.values + row * x_stride, w.values, hidden, (double)eps, fault);
  yk_rms_norm_args args = {in_place ? x.dev : y.dev, x.dev, w.dev, x_stride, rows, hidden, eps};
  op_ok(dev->ops->rms_norm(dev, &args, &err));
  op_array *result = in_place ? &x : &y;
  op_array_fetch(dev, result);
  double error = op_error(result->values, expected, y.n);
  free(expected);
  op_array_free(dev, &x);
  op_array_free(dev, &w);
  op_array_free(dev, &y);
  dev->ops->destroy(dev);
  return error;
}

/* Outputs of add_norm, residual and y, compared separately. */
typedef struct add_norm_errors {
  double residual, y;
} add_norm_errors;

static inline add_norm_errors add_norm_error(const op_target *target, yk_dtype dtype, int32_t rows, int32_t hidden,
                                             int32_t n_partials, bool with_norm, float gain, op_fault fault)
{
  op_random random = {.seed = (uint32_t)(hidden * 10 + rows + n_partials)};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  size_t n = (size_t)(rows * hidden);
  op_array residual = op_array_random(dev, dtype, n, 1.0, &random),
           w = op_array_random(dev, dtype, (size_t)hidden, 1.5, &random);
  op_array y = op_array_random(dev, dtype, n, 1.0, &random), partials[8];
  double *sum = calloc(n, sizeof *sum), *normed = calloc(n, sizeof *normed);
  yk_add_norm_args args = {.y = y.dev,
                           .residual = residual.dev,
                           .n_partials = n_partials,
                           .w = with_norm ? w.dev : NULL,
                           .n_rows = rows,
                           .hidden = hidden,
                           .alpha = 0.7f,
                           .gain = gain,
                           .eps = 1e-6f};
  for (int32_t p = 0; p < n_partials; p++) {
    partials[p] = op_array_random(dev, dtype, n, 1.0, &random);
    args.partials[p] = partials[p].dev;
    for (size_t i = 0; i < n; i++)
      sum[i] += fault == OP_LOST_PARTIAL && p == n_partials - 1 ? 0.0 : partials[p].values[i];
  }
  for (size_t i = 0; i < n; i++)
    sum[i] = (gain == 0 ? 1.0 : (double)gain) * ((fault == OP_NO_RESIDUAL ? 0.0 : residual.values[i]) +
                                                 (fault == OP_NO_ALPHA ? 1.0 : (double)0.7f) * sum[i]);
  memcpy(normed, y.values, n * sizeof *normed); /* untouched without a norm */
  op_ok(dev->ops->add_norm(dev, &args, &err));
  op_array_fetch(dev, &residual);
  op_array_fetch(dev, &y);
  /* The norm reads the stored residual: the reference uses the device's residual, so that the two errors are measured
   * separately. */
  for (int32_t row = 0; with_norm && row < rows; row++)
    op_ref_rms_norm(dtype, normed + row * hidden, residual.values + row * hidden, w.values, hidden, 1e-6, fault);
  add_norm_errors errors = {op_error(residual.values, sum, n), op_error(y.values, normed, n)};
  for (int32_t p = 0; p < n_partials; p++) op_array_free(dev, &partials[p]);
  free(sum);
  free(normed);
  op_array_free(dev, &residual);
  op_array_free(dev, &w);
  op_array_free(dev, &y);
  dev->ops->destroy(dev);
  return errors;
}

static inline void check_rows(const op_target *target)
{
  for (size_t d = 0; d < 3; d++)
    for (size_t h = 0; each_case(h, h < sizeof row_hiddens / sizeof *row_hiddens); h++)
      for (size_t r = 0; each_case(r, r < sizeof row_counts / sizeof *row_counts); r++) {
        yk_dtype dtype = op_dtypes[d];
        int32_t hidden = row_hiddens[h], rows = row_counts[r];
        check_embed(target, dtype, rows, hidden, 0, OP_VOCAB);
        check_embed(target, dtype, rows, hidden, 8, 16);
        check_embed(target, dtype, rows, hidden, OP_VOCAB, 0);
        check_gather(target, dtype, rows, hidden);
        for (int in_place = 0; in_place < 2; in_place++)
          expect_below(target, "rms_norm", dtype, rows, hidden,
                       rms_norm_error(target, dtype, rows, hidden, in_place, OP_RIGHT), norm_tolerance(dtype));
        for (int32_t n_partials = 1; n_partials <= 8; n_partials += 3) {
          add_norm_errors errors =
              add_norm_error(target, dtype, rows, hidden, n_partials, n_partials != 4, 0, OP_RIGHT);
          expect_below(target, "add_norm residual", dtype, rows, hidden, errors.residual,
                       op_unit_roundoff(dtype) + 0x1p-21);
          expect_below(target, "add_norm", dtype, rows, hidden, errors.y,
                       n_partials == 4 ? 0.0 : norm_tolerance(dtype));
        }
      }
}

/* On devices with residual_gain. */
static inline void check_residual_gain(const op_target *target)
{
  for (size_t d = 0; d < op_n_dtypes(target); d++) {
    const yk_dtype dtype = op_dtypes[d];
    add_norm_errors errors = add_norm_error(target, dtype, 5, 80, 3, true, -0.4f, OP_RIGHT);
    expect_below(target, "add_norm residual with a gain", dtype, 5, 80, errors.residual,
                 op_unit_roundoff(dtype) + 0x1p-21);
    expect_below(target, "add_norm with a gain", dtype, 5, 80, errors.y, norm_tolerance(dtype));
  }
}

/* Largest error of residual and y with a norm of the sum. The reference rounds the sum, and its norm twice. */
static inline add_norm_errors result_norm_error(const op_target *target, yk_dtype dtype, int32_t rows, int32_t hidden,
                                                int32_t n_partials, bool with_norm, float gain, op_fault fault)
{
  op_random random = {.seed = (uint32_t)(hidden * 10 + rows + n_partials)};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  size_t n = (size_t)(rows * hidden);
  op_array residual = op_array_random(dev, dtype, n, 1.0, &random), partials[8];
  op_array w = op_array_random(dev, dtype, (size_t)hidden, 1.5, &random),
           result_w = op_array_random(dev, dtype, (size_t)hidden, 1.5, &random);
  op_array y = op_array_new(dev, dtype, n), sum = op_array_new(dev, dtype, n), normed = op_array_new(dev, dtype, n);
  double *expected = calloc(n, sizeof *expected);
  yk_add_norm_args args = {.y = y.dev,
                           .residual = residual.dev,
                           .n_partials = n_partials,
                           .result_w = result_w.dev,
                           .w = with_norm ? w.dev : NULL,
                           .n_rows = rows,
                           .hidden = hidden,
                           .alpha = 0.7f,
                           .gain = gain,
                           .eps = 1e-3f};
  for (int32_t p = 0; p < n_partials; p++) {
    partials[p] = op_array_random(dev, dtype, n, 0.05, &random);
    args.partials[p] = partials[p].dev;
    for (size_t i = 0; i < n; i++) sum.values[i] += partials[p].values[i];
  }
  op_array_send(dev, &sum);
  for (int32_t row = 0; row < rows; row++)
    op_ref_rms_norm(dtype, normed.values + row * hidden, sum.values + row * hidden, result_w.values, hidden,
                    (double)1e-3f, fault);
  op_array_send(dev, &normed);
  for (size_t i = 0; i < n; i++)
    expected[i] = (gain == 0 ? 1.0 : (double)gain) * (residual.values[i] + (double)0.7f * normed.values[i]);
  op_ok(dev->ops->add_norm(dev, &args, &err));
  op_array_fetch(dev, &residual);
  op_array_fetch(dev, &y);
  for (int32_t row = 0; with_norm && row < rows; row++)
    op_ref_rms_norm(dtype, normed.values + row * hidden, residual.values + row * hidden, w.values, hidden,
                    (double)1e-3f, OP_RIGHT);
  add_norm_errors errors = {op_error(residual.values, expected, n),
                            with_norm ? op_error(y.values, normed.values, n) : 0.0};
  for (int32_t p = 0; p < n_partials; p++) op_array_free(dev, &partials[p]);
  op_array *arrays[] = {&residual, &w, &result_w, &y, &sum, &normed};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) op_array_free(dev, arrays[i]);
  free(expected);
  dev->ops->destroy(dev);
  return errors;
}

/* Where the device and the reference round the sum, and twice its norm, to different neighbours; then once. */
static inline double result_norm_tolerance(yk_dtype dtype)
{
  return 7.0 * op_unit_roundoff(dtype) + 0x1p-19;
}

/* On devices with result_norms and residual_gain: rows in registers, in shared memory, and of single elements. */
static inline void check_result_norms(const op_target *target)
{
  static const int32_t hiddens[] = {16, 20, 260, 2051, 4096, 5376};
  for (size_t d = 0; each_case(d, d < op_n_dtypes(target)); d++) {
    const yk_dtype dtype = op_dtypes[d];
    for (size_t h = 0; each_case(h, h < sizeof hiddens / sizeof *hiddens); h++)
      for (int32_t i = 1; i <= 3; i++) {
        add_norm_errors errors =
            result_norm_error(target, dtype, 2 * i, hiddens[h], i, i != 2, i == 3 ? -0.4f : 0, OP_RIGHT);
        expect_below(target, "add_norm residual with a norm of the sum", dtype, 2 * i, hiddens[h], errors.residual,
                     result_norm_tolerance(dtype));
        expect_below(target, "add_norm with a norm of the sum", dtype, 2 * i, hiddens[h], errors.y,
                     norm_tolerance(dtype));
      }
    assert_true(result_norm_error(target, dtype, 3, 80, 2, true, 0, OP_NO_NORM_WEIGHT).residual >
                5.0 * result_norm_tolerance(dtype));
  }
}

/* On devices with layer_inputs: a rank with the elements 3 .. 10 of 12, in two layers; then multiply by the second
 * layer's embeddings. */
static inline void check_layer_inputs(const op_target *target)
{
  enum { ROWS = 5, LAYERS = 2, SIZE = 12, FIRST = 3, WIDTH = 8, IDS = 9 };
  static const int32_t ids[ROWS] = {8, 0, 3, 3, 5};
  for (size_t d = 0; d < op_n_dtypes(target); d++) {
    const yk_dtype dtype = op_dtypes[d];
    op_random random = {.seed = 11};
    yk_device *dev = op_device_new(target, dtype, 3, 16);
    op_array projected = op_array_random(dev, dtype, ROWS * LAYERS * SIZE, 2.0, &random);
    op_array w = op_array_random(dev, dtype, SIZE, 1.5, &random);
    op_array table = op_array_random(dev, dtype, IDS * LAYERS * WIDTH, 1.0, &random);
    op_array y = op_array_new(dev, dtype, ROWS * LAYERS * WIDTH),
             gates = op_array_random(dev, dtype, ROWS * WIDTH, 1.0, &random);
    double *expected = calloc(y.n, sizeof *expected), *products = calloc(gates.n, sizeof *products);
    for (int part = 0; part < ROWS * LAYERS; part++) {
      const double *x = projected.values + part * SIZE;
      double squares = 0;
      for (int i = 0; i < SIZE; i++) squares += 0.25 * x[i] * x[i];
      for (int i = 0; i < WIDTH; i++) {
        const double normed = 0.5 * x[FIRST + i] / sqrt(squares / SIZE + 1e-3) * w.values[FIRST + i];
        const int64_t at = (ids[part / LAYERS] * LAYERS + part % LAYERS) * WIDTH + i;
        expected[part * WIDTH + i] = (normed + 4 * table.values[at]) / sqrt(2);
      }
    }
    int32_t *token_ids = op_send_i32(dev, ids, ROWS);
    const yk_layer_inputs_args args = {y.dev, projected.dev, w.dev, table.dev, token_ids, ROWS, LAYERS,
                                       SIZE,  FIRST,         WIDTH, 0.5f,      4.0f,      1e-3f};
    op_ok(dev->ops->layer_inputs(dev, &args, &err));
    op_array_fetch(dev, &y);
    expect_below(target, "layer_inputs", dtype, ROWS, SIZE, op_error(y.values, expected, y.n),
                 op_unit_roundoff(dtype) + 0x1p-20);
    for (size_t i = 0; i < gates.n; i++)
      products[i] = gates.values[i] * y.values[i / WIDTH * LAYERS * WIDTH + WIDTH + i % WIDTH];
    const yk_multiply_args second = {gates.dev, (char *)y.dev + WIDTH * yk_dtype_bytes(dtype), LAYERS * WIDTH, ROWS,
                                     WIDTH};
    op_ok(dev->ops->multiply(dev, &second, &err));
    op_array_fetch(dev, &gates);
    expect_below(target, "multiply", dtype, ROWS, WIDTH, op_error(gates.values, products, gates.n),
                 op_unit_roundoff(dtype) + 0x1p-21);
    free(expected);
    free(products);
    dev->ops->free(dev, token_ids);
    op_array_free(dev, &projected);
    op_array_free(dev, &w);
    op_array_free(dev, &table);
    op_array_free(dev, &y);
    op_array_free(dev, &gates);
    dev->ops->destroy(dev);
  }
}

/* Two ranks' parts of the same rows: 6 query heads, of which two read a KV head; both ranks hold KV head 1. */
typedef struct row_norms_case {
  int32_t rows, head_dim;
  op_array q_w, k_w;   /* of all heads */
  double *q, *k;       /* [rows, heads, head_dim] of all heads */
  op_array qkv[2];     /* of each rank */
  int32_t *squares[2]; /* device */
} row_norms_case;

enum { ROW_NORMS_Q = 6, ROW_NORMS_KV = 3, ROW_NORMS_OWN_Q = 3, ROW_NORMS_OWN_KV = 2 };

static inline yk_row_norms_args row_norms_args_of(row_norms_case *c, int rank, const yk_head_layout *heads)
{
  const size_t head_bytes = (size_t)c->head_dim * yk_dtype_bytes(c->q_w.dtype);
  return (yk_row_norms_args){.qkv = c->qkv[rank].dev,
                             .heads = heads,
                             .first_counted = rank,
                             .n_counted = ROW_NORMS_OWN_KV - rank,
                             .n_tokens = c->rows,
                             .rank = rank,
                             .n_ranks = 2,
                             .squares = c->squares[rank],
                             .q_w = (char *)c->q_w.dev + (size_t)(rank * ROW_NORMS_OWN_Q) * head_bytes,
                             .k_w = (char *)c->k_w.dev + (size_t)rank * head_bytes,
                             .q_size = (int64_t)ROW_NORMS_Q * c->head_dim,
                             .k_size = (int64_t)ROW_NORMS_KV * c->head_dim,
                             .eps = 1e-3f};
}

static inline row_norms_case row_norms_case_new(yk_device *dev, int32_t rows, int32_t head_dim)
{
  row_norms_case c = {.rows = rows, .head_dim = head_dim};
  op_random random = {.seed = 21};
  const size_t n = (size_t)head_dim, width = (ROW_NORMS_OWN_Q + 2 * ROW_NORMS_OWN_KV) * n;
  op_array q = op_array_random(dev, dev->dtype, (size_t)rows * ROW_NORMS_Q * n, 0.05, &random);
  op_array k = op_array_random(dev, dev->dtype, (size_t)rows * ROW_NORMS_KV * n, 0.05, &random);
  c.q_w = op_array_random(dev, dev->dtype, ROW_NORMS_Q * n, 1.5, &random);
  c.k_w = op_array_random(dev, dev->dtype, ROW_NORMS_KV * n, 1.5, &random);
  for (int rank = 0; rank < 2; rank++) {
    c.qkv[rank] = op_array_random(dev, dev->dtype, (size_t)rows * width, 1.0, &random);
    for (size_t row = 0; row < (size_t)rows; row++) {
      double *to = c.qkv[rank].values + row * width;
      memcpy(to, q.values + (row * ROW_NORMS_Q + (size_t)(rank * ROW_NORMS_OWN_Q)) * n,
             ROW_NORMS_OWN_Q * n * sizeof *to);
      memcpy(to + ROW_NORMS_OWN_Q * n, k.values + (row * ROW_NORMS_KV + (size_t)rank) * n,
             ROW_NORMS_OWN_KV * n * sizeof *to);
    }
    op_array_send(dev, &c.qkv[rank]);
    op_ok(dev->ops->alloc(dev, (size_t)rows * 4 * sizeof(int32_t), (void **)&c.squares[rank], &err));
  }
  c.q = calloc(q.n, sizeof *c.q);
  c.k = calloc(k.n, sizeof *c.k);
  memcpy(c.q, q.values, q.n * sizeof *c.q);
  memcpy(c.k, k.values, k.n * sizeof *c.k);
  op_array_free(dev, &q);
  op_array_free(dev, &k);
  return c;
}

/* Both ranks' squares, and their maximum on both, as the ranks' all-reduce makes it. heads: of each rank. */
static inline void exchange_squares(yk_device *dev, row_norms_case *c, const yk_head_layout *heads)
{
  const size_t n = (size_t)c->rows * 4, n_bytes = n * sizeof(int32_t);
  int32_t *squares[2];
  for (int rank = 0; rank < 2; rank++) {
    const yk_row_norms_args args = row_norms_args_of(c, rank, &heads[rank]);
    squares[rank] = malloc(n_bytes);
    assert_non_null(squares[rank]);
    op_ok(dev->ops->row_squares(dev, &args, &err));
    op_ok(dev->ops->download(dev, squares[rank], c->squares[rank], n_bytes, &err));
  }
  for (size_t i = 0; i < n; i++) {
    const bool is_of_1 = i >= (size_t)c->rows * 2;
    assert_true(squares[is_of_1][i] > 0 && squares[!is_of_1][i] == 0);
    squares[0][i] = squares[is_of_1][i];
  }
  for (int rank = 0; rank < 2; rank++) op_ok(dev->ops->upload(dev, c->squares[rank], squares[0], n_bytes, &err));
  free(squares[0]);
  free(squares[1]);
}

/* Expected rows of a rank; values as the device has them, since they must not change. */
static inline void expect_row_norms(const row_norms_case *c, int rank, double *expected)
{
  const int32_t n = c->head_dim, width = (ROW_NORMS_OWN_Q + 2 * ROW_NORMS_OWN_KV) * n;
  double *normed = calloc((size_t)(ROW_NORMS_Q * n), sizeof *normed);
  assert_non_null(normed);
  memcpy(expected, c->qkv[rank].values, c->qkv[rank].n * sizeof *expected);
  for (int32_t row = 0; row < c->rows; row++) {
    double *to = expected + row * width;
    op_ref_rms_norm(c->q_w.dtype, normed, c->q + row * ROW_NORMS_Q * n, c->q_w.values, ROW_NORMS_Q * n, (double)1e-3f,
                    OP_RIGHT);
    memcpy(to, normed + rank * ROW_NORMS_OWN_Q * n, (size_t)(ROW_NORMS_OWN_Q * n) * sizeof *to);
    op_ref_rms_norm(c->q_w.dtype, normed, c->k + row * ROW_NORMS_KV * n, c->k_w.values, ROW_NORMS_KV * n, (double)1e-3f,
                    OP_RIGHT);
    memcpy(to + ROW_NORMS_OWN_Q * n, normed + rank * n, (size_t)(ROW_NORMS_OWN_KV * n) * sizeof *to);
  }
  free(normed);
}

/* On devices with row_norms: heads whose rows are whole vectors of 16 bytes, and others. */
static inline void check_row_norms(const op_target *target)
{
  static const int32_t head_dims[] = {20, 16, 128};
  for (size_t d = 0; each_case(d, d < op_n_dtypes(target)); d++)
    for (size_t h = 0; each_case(h, h < sizeof head_dims / sizeof *head_dims); h++) {
      yk_device *dev = op_device_new(target, op_dtypes[d], 3, 16);
      row_norms_case c = row_norms_case_new(dev, 5, head_dims[h]);
      const yk_head_layout heads[2] = {{.n_q_heads = 3, .n_kv_heads = 2, .head_dim = c.head_dim, .q_per_kv = 2},
                                       {.n_q_heads = 3,
                                        .n_kv_heads = 2,
                                        .head_dim = c.head_dim,
                                        .q_per_kv = 2,
                                        .q_head_first = 3,
                                        .kv_head_first = 1}};
      exchange_squares(dev, &c, heads);
      for (int rank = 0; rank < 2; rank++) {
        const yk_row_norms_args args = row_norms_args_of(&c, rank, &heads[rank]);
        double *expected = calloc(c.qkv[rank].n, sizeof *expected);
        assert_non_null(expected);
        expect_row_norms(&c, rank, expected);
        op_ok(dev->ops->row_norms(dev, &args, &err));
        op_array_fetch(dev, &c.qkv[rank]);
        expect_below(target, "row_norms", op_dtypes[d], c.rows, c.head_dim,
                     op_error(c.qkv[rank].values, expected, c.qkv[rank].n), norm_tolerance(op_dtypes[d]));
        free(expected);
        dev->ops->free(dev, c.squares[rank]);
        op_array_free(dev, &c.qkv[rank]);
      }
      free(c.q);
      free(c.k);
      op_array_free(dev, &c.q_w);
      op_array_free(dev, &c.k_w);
      dev->ops->destroy(dev);
    }
}

/* On devices with logit_caps: columns after the first n, and infinite logits, remain unchanged. */
static inline void check_logit_cap(const op_target *target)
{
  enum { N = 1500, STRIDE = 1504, ROWS = 2 };
  op_random random = {.seed = 7};
  yk_device *dev = op_device_new(target, YK_F16, 3, 16);
  op_array logits = op_array_random(dev, YK_F32, ROWS * STRIDE, 60.0, &random);
  logits.values[3] = (double)INFINITY;
  op_array_send(dev, &logits);
  double *expected = calloc(logits.n, sizeof *expected);
  for (size_t i = 0; i < logits.n; i++) {
    bool stays = i % STRIDE >= N || isinf(logits.values[i]);
    expected[i] = stays ? logits.values[i] : 30 * tanh(logits.values[i] / 30);
  }
  const yk_cap_logits_args args = {.logits = logits.dev, .n_rows = ROWS, .n = N, .stride = STRIDE, .cap = 30};
  op_ok(dev->ops->cap_logits(dev, &args, &err));
  op_array_fetch(dev, &logits);
  assert_true(logits.values[3] == (double)INFINITY);
  logits.values[3] = expected[3] = 0;
  expect_below(target, "cap_logits", YK_F32, ROWS, N, op_error(logits.values, expected, logits.n), 0x1p-21);
  free(expected);
  op_array_free(dev, &logits);
  dev->ops->destroy(dev);
}

static inline void check_row_faults(const op_target *target)
{
  for (size_t d = 0; d < op_n_dtypes(target); d++) {
    yk_dtype dtype = op_dtypes[d];
    double norm = 5.0 * norm_tolerance(dtype), sum = 5.0 * op_unit_roundoff(dtype);
    assert_true(rms_norm_error(target, dtype, 3, 80, false, OP_NO_NORM_WEIGHT) > norm);
    assert_true(rms_norm_error(target, dtype, 3, 80, false, OP_NO_EPS) > norm);
    assert_true(add_norm_error(target, dtype, 3, 80, 4, true, 0, OP_NO_RESIDUAL).residual > sum);
    assert_true(add_norm_error(target, dtype, 3, 80, 4, true, 0, OP_NO_ALPHA).residual > sum);
    assert_true(add_norm_error(target, dtype, 3, 80, 4, true, 0, OP_LOST_PARTIAL).residual > sum);
    assert_true(add_norm_error(target, dtype, 3, 80, 4, true, 0, OP_NO_NORM_WEIGHT).y > norm);
  }
}

/* Memory: zeroed, aligned (checked by op_array_new), copied both ways and within the device, and known in size. */
static inline void check_memory(const op_target *target)
{
  yk_device *dev = op_device_new(target, YK_F16, 1, 16);
  static const size_t sizes[] = {0, 1, 255, 4096, 5000001};
  for (size_t i = 0; each_case(i, i < sizeof sizes / sizeof *sizes); i++) {
    void *ptr = NULL, *copy = NULL;
    char *host = malloc(sizes[i] + 1);
    op_ok(dev->ops->alloc(dev, sizes[i], &ptr, &err));
    op_ok(dev->ops->alloc(dev, sizes[i], &copy, &err));
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % 256, 0);
    memset(host, 1, sizes[i] + 1);
    op_ok(dev->ops->download(dev, host, ptr, sizes[i], &err));
    for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(host[j], 0);
    for (size_t j = 0; j < sizes[i]; j++) host[j] = (char)(j * 31);
    op_ok(dev->ops->upload(dev, ptr, host, sizes[i], &err));
    op_ok(dev->ops->copy(dev, copy, ptr, sizes[i], &err));
    for (int copied = 0; copied < 2; copied++) {
      memset(host, 1, sizes[i]);
      op_ok(dev->ops->download(dev, host, copied ? copy : ptr, sizes[i], &err));
      for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(host[j], (char)(j * 31));
    }
    dev->ops->free(dev, ptr);
    dev->ops->free(dev, copy);
    free(host);
  }
  op_ok(dev->ops->sync(dev, &err));
  void *ptr = NULL;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(dev->ops->alloc(dev, SIZE_MAX / 2, &ptr, &err), YK_E_CAPACITY);
  assert_null(ptr);
  dev->ops->free(dev, NULL);
  dev->ops->destroy(dev);
}

#endif
