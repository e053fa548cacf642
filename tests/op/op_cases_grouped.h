/* op_cases_grouped.h - grouped forwards of experts' layers: each slot equals the result of its row with its matrix
 * alone.
 */
#ifndef YK_TESTS_OP_CASES_GROUPED_H
#define YK_TESTS_OP_CASES_GROUPED_H

#include "op/op_cases_combine.h"
#include "op/op_cases_router.h"

enum { N_GROUPED_MATRICES = 5, N_GROUPED_ROWS = 60 };
enum { NO_ROW = INT32_MAX }; /* row of slots beyond the present ones: its x must not be read */

/* Slots of each matrix: none, one, more than a block of rows, few; rows of a matrix ascend. */
static const int32_t grouped_counts[N_GROUPED_MATRICES] = {0, 1, 50, 0, 7};

/* The weights of runs side by side as a grouped layer, each also as a separate layer. */
typedef struct grouped_layer {
  linear_run runs[N_GROUPED_MATRICES]; /* x of the first run: rows of the grouped forward, unless it has orders */
  yk_linear *linear;
  int32_t *starts; /* device memory */
  void *staging;   /* as much as the device needs */
} grouped_layer;

/* Orders of the inputs of each matrix, the same in all its parts. */
typedef struct grouped_orders {
  int64_t x_size;
  int32_t *columns; /* [N_GROUPED_MATRICES, k_local] */
} grouped_orders;

/* Matrix m has the weights of run m modulo the number of runs. starts: [n_matrices + 1]. orders: NULL allowed, else
 * there are as many matrices as runs. */
static inline grouped_layer grouped_layer_of(yk_device *dev, const linear_case *shape, int32_t n_rows, uint32_t seed,
                                             int n_matrices, const int32_t *starts, int32_t max_slots,
                                             const grouped_orders *orders)
{
  enum { MOST_MATRICES = 256 };
  grouped_layer layer = {.starts = op_send_i32(dev, starts, (size_t)n_matrices + 1)};
  yk_weight_view views[YK_MAX_LINEAR_PARTS][MOST_MATRICES - 1];
  assert_true(n_matrices <= MOST_MATRICES);
  for (int m = 0; m < N_GROUPED_MATRICES; m++) layer.runs[m] = linear_run_new(dev, shape, n_rows, seed + (uint32_t)m);
  yk_linear_spec spec = layer.runs[0].spec;
  spec.n_matrices = n_matrices;
  spec.is_grouped = true;
  spec.max_tokens = max_slots;
  for (int i = 0; i < spec.n_parts; i++) {
    for (int m = 1; m < n_matrices; m++) views[i][m - 1] = layer.runs[m % N_GROUPED_MATRICES].spec.parts[i].weight;
    spec.parts[i].more_weights = views[i];
    if (orders) spec.parts[i].x_size = orders->x_size;
  }
  layer.staging = op_staging_new(dev, &spec);
  for (int i = 0; orders && i < spec.n_parts; i++) spec.parts[i].x_order = orders->columns;
  op_ok(dev->ops->linear_create(dev, &spec, &layer.linear, &err));
  return layer;
}

static inline grouped_layer grouped_layer_in_order(yk_device *dev, const linear_case *shape, int32_t n_rows,
                                                   uint32_t seed, const int32_t starts[N_GROUPED_MATRICES + 1],
                                                   int32_t max_slots, const grouped_orders *orders)
{
  return grouped_layer_of(dev, shape, n_rows, seed, N_GROUPED_MATRICES, starts, max_slots, orders);
}

static inline grouped_layer grouped_layer_new(yk_device *dev, const linear_case *shape, int32_t n_rows, uint32_t seed,
                                              const int32_t starts[N_GROUPED_MATRICES + 1], int32_t max_slots)
{
  return grouped_layer_in_order(dev, shape, n_rows, seed, starts, max_slots, NULL);
}

static inline void grouped_layer_free(yk_device *dev, grouped_layer *layer)
{
  dev->ops->linear_destroy(dev, layer->linear);
  for (int m = 0; m < N_GROUPED_MATRICES; m++) linear_run_free(dev, &layer->runs[m]);
  dev->ops->free(dev, layer->starts);
  dev->ops->free(dev, layer->staging);
}

/* Results of this many slots; elements that no kernel writes stay -7. */
static inline op_array slots_new(yk_device *dev, yk_dtype dtype, size_t n)
{
  op_array y = op_array_new(dev, dtype, n);
  for (size_t i = 0; i < n; i++) y.values[i] = -7.0;
  op_array_send(dev, &y);
  return y;
}

/* A slot equals the result of row number row of x with its matrix alone. */
static inline void check_slot_of(const op_target *target, yk_device *dev, const grouped_layer *layer, const op_array *x,
                                 const op_array *y, int32_t slot, int matrix, int32_t row, double tolerance)
{
  linear_run of_row = layer->runs[matrix];
  of_row.x = *x;
  op_array alone = linear_run_forward(dev, &of_row, row, 1);
  double error = op_error(y->values + slot * of_row.y_stride, alone.values, alone.n);
  if (!(error <= tolerance))
    fail_msg("%s %s slot %d of matrix %d: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dev->dtype), slot,
             matrix, error, tolerance);
  op_array_free(dev, &alone);
}

static inline void check_slot(const op_target *target, yk_device *dev, const grouped_layer *layer, const op_array *y,
                              int32_t slot, int matrix, int32_t row, double tolerance)
{
  check_slot_of(target, dev, layer, &layer->runs[0].x, y, slot, matrix, row, tolerance);
}

/* Columns of x in an order for each matrix: all of them once, up to the number of inputs; then -1. */
static inline grouped_orders grouped_orders_draw(int64_t k, int64_t x_size)
{
  op_random random = {.seed = (uint32_t)(k + x_size)};
  grouped_orders orders = {x_size, calloc((size_t)(N_GROUPED_MATRICES * k), sizeof(int32_t))};
  assert_non_null(orders.columns);
  for (int m = 0; m < N_GROUPED_MATRICES; m++) {
    int32_t *order = orders.columns + m * k;
    for (int64_t i = 0; i < k; i++) order[i] = i < x_size ? (int32_t)(x_size - 1 - i) : -1;
    for (int64_t i = k - 1; i > 0; i--) {
      int64_t other = op_between(&random, 0, (int)i);
      int32_t swap = order[i];
      order[i] = order[other], order[other] = swap;
    }
  }
  return orders;
}

/* Rows of x in the order of a matrix. */
static inline op_array rows_in_order(yk_device *dev, const op_array *x, const grouped_orders *orders, int matrix,
                                     int64_t k)
{
  int64_t n_rows = (int64_t)x->n / orders->x_size;
  op_array ordered = op_array_new(dev, dev->dtype, (size_t)(n_rows * k));
  for (int64_t row = 0; row < n_rows; row++)
    for (int64_t i = 0; i < k; i++) {
      int32_t column = orders->columns[matrix * k + i];
      ordered.values[row * k + i] = column < 0 ? 0.0 : x->values[row * orders->x_size + column];
    }
  op_array_send(dev, &ordered);
  return ordered;
}

/* Each slot equals the result of its row of x with its matrix alone, after the row is put into the matrix's order, if
 * there are orders: bit for bit if rows do not depend on other rows, else within tolerance. The memory of one slot
 * after the last stays unchanged. */
static inline void check_slots(const op_target *target, yk_device *dev, const linear_case *shape, uint32_t seed,
                               const grouped_orders *orders, bool is_gathered, double tolerance)
{
  op_random random = {.seed = 11};
  int32_t starts[N_GROUPED_MATRICES + 1] = {0}, rows[N_GROUPED_ROWS + 1], n_slots = 0;
  for (int m = 0; m < N_GROUPED_MATRICES; m++) {
    for (int32_t i = 0; i < grouped_counts[m]; i++, n_slots++) rows[n_slots] = is_gathered ? i + m : n_slots;
    starts[m + 1] = n_slots;
  }
  rows[n_slots] = NO_ROW;
  grouped_layer layer = grouped_layer_in_order(dev, shape, N_GROUPED_ROWS, seed, starts, n_slots + 1, orders);
  const int64_t k = yk_range_size(shape->parts[0].k_slice), stride = layer.runs[0].y_stride;
  op_array x = layer.runs[0].x;
  if (orders) x = op_array_random(dev, dev->dtype, (size_t)(N_GROUPED_ROWS * orders->x_size), 1.0, &random);
  op_array y = slots_new(dev, shape->f32_output ? YK_F32 : dev->dtype, (size_t)((n_slots + 1) * stride));
  int32_t *dev_rows = op_send_i32(dev, rows, (size_t)(n_slots + 1));
  yk_grouped_args args = {.x = x.dev,
                          .n_rows = N_GROUPED_ROWS,
                          .row_of_slot = is_gathered ? dev_rows : NULL,
                          .starts = layer.starts,
                          .max_slots = n_slots + 1,
                          .y = y.dev,
                          .y_stride = stride,
                          .staging = layer.staging};
  op_ok(op_parts_of(dev).grouped(dev, layer.linear, &args, &err));
  op_array_fetch(dev, &y);
  for (int m = 0; m < N_GROUPED_MATRICES; m++) {
    op_array ordered = orders ? rows_in_order(dev, &x, orders, m, k) : x;
    for (int32_t slot = starts[m]; slot < starts[m + 1]; slot++)
      check_slot_of(target, dev, &layer, &ordered, &y, slot, m, rows[slot], tolerance);
    if (orders) op_array_free(dev, &ordered);
  }
  for (int64_t i = 0; i < stride; i++) assert_true(y.values[n_slots * stride + i] == -7.0);
  yk_err refusal = YK_ERR_INIT;
  args.staging = NULL;
  if (layer.staging) assert_int_equal(op_parts_of(dev).grouped(dev, layer.linear, &args, &refusal), YK_E_INVAL);
  args.max_slots = n_slots + 2;
  assert_int_equal(op_parts_of(dev).grouped(dev, layer.linear, &args, &refusal), YK_E_INVAL);
  args.max_slots = 1;
  assert_int_equal(op_parts_of(dev).grouped(dev, layer.runs[0].linear, &args, &refusal), YK_E_INVAL);
  if (orders) op_array_free(dev, &x);
  grouped_layer_free(dev, &layer);
  dev->ops->free(dev, dev_rows);
  op_array_free(dev, &y);
}

static inline void check_linear_grouped(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                        bool is_gathered, double tolerance)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  check_slots(target, dev, shape, 90, NULL, is_gathered, tolerance);
  dev->ops->destroy(dev);
}

/* Matrices with separate orders of inputs. */
static inline void check_grouped_order(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                       int64_t x_size, bool is_gathered, double tolerance)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  grouped_orders orders = grouped_orders_draw(yk_range_size(shape->parts[0].k_slice), x_size);
  check_slots(target, dev, shape, 70, &orders, is_gathered, tolerance);
  free(orders.columns);
  dev->ops->destroy(dev);
}

/* One row that has a slot in some of the matrices: equal to the result with each matrix alone. */
static inline void check_grouped_row(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                     double tolerance)
{
  enum { N_SLOTS = 3 };
  static const int matrix_of_slot[N_SLOTS] = {1, 3, 4};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const int32_t starts[N_GROUPED_MATRICES + 1] = {0, 0, 1, 1, 2, 3}, rows[N_SLOTS + 1] = {0, 0, 0, NO_ROW};
  grouped_layer layer = grouped_layer_new(dev, shape, 1, 30, starts, N_SLOTS + 1);
  const int64_t n = layer.runs[0].y_stride;
  int32_t *dev_rows = op_send_i32(dev, rows, N_SLOTS + 1);
  op_array y = slots_new(dev, dtype, (size_t)((N_SLOTS + 1) * n));
  const yk_grouped_args args = {.x = layer.runs[0].x.dev,
                                .n_rows = 1,
                                .row_of_slot = dev_rows,
                                .starts = layer.starts,
                                .max_slots = N_SLOTS + 1,
                                .y = y.dev,
                                .y_stride = n,
                                .staging = layer.staging};
  op_ok(op_parts_of(dev).grouped(dev, layer.linear, &args, &err));
  op_array_fetch(dev, &y);
  for (int slot = 0; slot < N_SLOTS; slot++)
    check_slot(target, dev, &layer, &y, slot, matrix_of_slot[slot], 0, tolerance);
  for (int64_t i = N_SLOTS * n; i < (N_SLOTS + 1) * n; i++) assert_true(y.values[i] == -7.0);
  grouped_layer_free(dev, &layer);
  dev->ops->free(dev, dev_rows);
  op_array_free(dev, &y);
  dev->ops->destroy(dev);
}

#endif
