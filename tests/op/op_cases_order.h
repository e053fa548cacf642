/* op_cases_order.h - layers whose parts have separate orders of inputs: each part equals the part alone on rows of x
 * that were put into that order before. */
#ifndef YK_TESTS_OP_CASES_ORDER_H
#define YK_TESTS_OP_CASES_ORDER_H

#include "base/checked.h"
#include "op/op_cases_linear.h"

enum { X_SIZE = 96, MAX_K = 160, N_PARTS = 3 };

/* The parts' orders: the same letter is the same order, 0 none. */
typedef struct order_case {
  linear_part_case parts[N_PARTS];
  char orders[N_PARTS + 1];
  int n_parts;
  yk_activation activation;
} order_case;

static const order_case order_cases[] = {
    {{{X_SIZE, 48, 32, YK_F16, {0, X_SIZE}, {0, 48}, 32, true, false, false, false, false, YK_INPUTS_FLOAT}},
     "a",
     1,
     YK_NO_ACTIVATION},
    {{{MAX_K, 48, 16, YK_F16, {0, MAX_K}, {5, 43}, 16, true, false, false, false, false, YK_INPUTS_FLOAT}},
     "a",
     1,
     YK_NO_ACTIVATION}, /* with padding */
    {{{64, 24, 16, YK_F16, {0, 64}, {0, 24}, 16, false, false, false, false, false, YK_INPUTS_FLOAT}},
     "a",
     1,
     YK_NO_ACTIVATION}, /* unused columns */
    {{{X_SIZE, 40, 32, YK_F16, {0, X_SIZE}, {0, 40}, 32, true, false, false, false, false, YK_INPUTS_FLOAT},
      {X_SIZE, 16, 32, YK_BF16, {0, X_SIZE}, {0, 16}, 32, false, false, false, false, false, YK_INPUTS_FLOAT},
      {X_SIZE, 16, 32, YK_F16, {0, X_SIZE}, {8, 16}, 32, true, false, false, false, false, YK_INPUTS_FLOAT}},
     "aa0",
     3,
     YK_NO_ACTIVATION},
    {{{MAX_K, 40, 16, YK_F16, {0, MAX_K}, {0, 40}, 16, false, false, false, false, false, YK_INPUTS_FLOAT},
      {X_SIZE, 33, 0, YK_F16, {0, X_SIZE}, {0, 33}, 0, true, false, false, false, false, YK_INPUTS_FLOAT},
      {64, 16, 64, YK_F16, {0, 64}, {0, 16}, 64, true, false, false, false, false, YK_INPUTS_FLOAT}},
     "a0b",
     3,
     YK_NO_ACTIVATION},
    {{{X_SIZE, 72, 32, YK_F16, {0, X_SIZE}, {0, 72}, 32, true, false, false, false, false, YK_INPUTS_FLOAT},
      {MAX_K, 72, 16, YK_F16, {0, MAX_K}, {0, 72}, 16, true, false, false, false, false, YK_INPUTS_FLOAT}},
     "ab",
     2,
     YK_GATED_SILU},
    {{{MAX_K, 40, 32, YK_F16, {0, MAX_K}, {0, 40}, 32, true, true, true, false, false, YK_INPUTS_FLOAT},
      {X_SIZE, 16, 32, YK_F16, {0, X_SIZE}, {0, 16}, 32, true, true, true, false, false, YK_INPUTS_FLOAT},
      {X_SIZE, 16, 32, YK_F16, {0, X_SIZE}, {0, 16}, 32, false, false, false, false, false, YK_INPUTS_FLOAT}},
     "abb",
     3,
     YK_NO_ACTIVATION}, /* of 8 bits */
    {{{X_SIZE, 24, 0, YK_F16, {0, X_SIZE}, {0, 24}, 0, false, false, false, false, false, YK_INPUTS_FLOAT}},
     "a",
     1,
     YK_NO_ACTIVATION},
    {{{X_SIZE, 24, 32, YK_F16, {32, 32}, {0, 24}, 32, true, false, false, false, false, YK_INPUTS_FLOAT}},
     "a",
     1,
     YK_NO_ACTIVATION}, /* of no inputs */
};
enum { N_ORDER_CASES = sizeof order_cases / sizeof *order_cases };

/* Every spread-th column of x in an order selected by its letter; after the columns, some -1. */
static inline void draw_order(char letter, int64_t k, int64_t spread, int32_t *order)
{
  op_random random = {.seed = (uint32_t)letter};
  for (int64_t i = 0; i < k; i++) order[i] = i < X_SIZE ? (int32_t)((i + 1) * spread - 1) : -1;
  for (int64_t i = k - 1; i > 0; i--) {
    int64_t other = op_between(&random, 0, (int)i);
    int32_t swap = order[i];
    order[i] = order[other], order[other] = swap;
  }
}

/* Rows of x in an order, as a run's own x. */
static inline void put_in_order(yk_device *dev, linear_run *run, const op_array *x, const int32_t *order)
{
  int64_t x_size = (int64_t)x->n / run->n_tokens;
  for (int32_t row = 0; row < run->n_tokens; row++)
    for (int64_t i = 0; i < run->k_local; i++) {
      int64_t column = order ? order[i] : i;
      run->x.values[row * run->k_local + i] = column < 0 ? 0.0 : x->values[row * x_size + column];
    }
  op_array_send(dev, &run->x);
}

/* The activation of float32 gates and ups. */
static inline void expect_epilogue(const yk_activation *activation, op_array *gate, const op_array *up)
{
  for (size_t i = 0; i < gate->n; i++) gate->values[i] = op_activated(activation, gate->values[i], up->values[i]);
}

static inline void check_columns(const op_array *y, int64_t y_stride, int64_t first, const op_array *part,
                                 double tolerance)
{
  int64_t n_tokens = (int64_t)y->n / y_stride, n = n_tokens ? (int64_t)part->n / n_tokens : 0;
  for (int64_t row = 0; row < n_tokens; row++)
    for (int64_t i = 0; i < n; i++) {
      double found = y->values[row * y_stride + first + i], expected = part->values[row * n + i];
      assert_true(fabs(found - expected) <= tolerance * (1.0 + fabs(expected)));
    }
}

/* are_apart: whether each part of a layer has separate memory, and so has its order. spread: 1, or the factor by which
 * x has more columns, if all parts have orders. */
static inline void check_order_case(const op_target *target, const order_case *c, yk_dtype dtype, int32_t n_tokens,
                                    int64_t spread, bool are_apart, double tolerance)
{
  const int64_t x_size = spread * X_SIZE;
  op_random random = {.seed = 7};
  yk_device *dev = op_device_new(target, dtype, 2, 64);
  op_array x = op_array_random(dev, dev->dtype, (size_t)(n_tokens * x_size), 1.0, &random), alone[N_PARTS];
  linear_case shapes[N_PARTS] = {0};
  linear_run runs[N_PARTS], all = {.n_tokens = n_tokens, .k_local = x_size, .shape = &shapes[0]};
  int32_t orders[N_PARTS][MAX_K];
  all.spec =
      (yk_linear_spec){.n_parts = c->n_parts, .n_matrices = 1, .activation = c->activation, .max_tokens = n_tokens};
  int64_t plain_bytes = 0, order_bytes = 0;
  for (int p = 0; p < c->n_parts; p++) {
    shapes[p] = (linear_case){.parts = {c->parts[p]}, .n_parts = 1};
    runs[p] = linear_run_new(dev, &shapes[p], n_tokens, 30 + (uint32_t)p);
    all.spec.parts[p] = runs[p].spec.parts[0];
    plain_bytes += dev->ops->linear_bytes(&runs[p].spec);
    bool has_order = c->orders[p] != '0';
    draw_order(c->orders[p], runs[p].k_local, spread, orders[p]);
    if (has_order) {
      all.spec.parts[p].x_size = x_size;
      order_bytes += yk_round_up_i64(4 * runs[p].k_local, 256);
    }
    put_in_order(dev, &runs[p], &x, has_order ? orders[p] : NULL);
    alone[p] = linear_run_forward(dev, &runs[p], 0, n_tokens);
  }
  if (are_apart) /* before the orders are known */
    assert_int_equal(dev->ops->linear_bytes(&all.spec), plain_bytes + order_bytes);
  for (int p = 0; p < c->n_parts; p++)
    if (c->orders[p] != '0') all.spec.parts[p].x_order = orders[p];
  all.n_local = all.y_stride = columns_written(&all.spec);
  all.x = x;
  op_ok(dev->ops->linear_create(dev, &all.spec, &all.linear, &err));
  op_array y = linear_run_forward(dev, &all, 0, n_tokens);
  if (c->activation.is_gated) expect_epilogue(&c->activation, &alone[0], &alone[1]);
  int64_t first = 0;
  for (int p = 0; p < (c->activation.is_gated ? 1 : c->n_parts); first += runs[p++].n_local)
    check_columns(&y, all.y_stride, first, &alone[p], tolerance);
  dev->ops->linear_destroy(dev, all.linear);
  for (int p = 0; p < c->n_parts; p++) {
    op_array_free(dev, &alone[p]);
    linear_run_free(dev, &runs[p]);
  }
  op_array_free(dev, &x);
  op_array_free(dev, &y);
  dev->ops->destroy(dev);
}

#endif
