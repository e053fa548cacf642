/* op_cases_combine.h - the combination of experts, alone and within add_norm, against its definition in
 * kernels/experts.h. */
#ifndef YK_TESTS_OP_CASES_COMBINE_H
#define YK_TESTS_OP_CASES_COMBINE_H

#include "each_case.h"
#include "op/op_parts.h"

typedef struct combine_case {
  int32_t n_tokens, hidden, top_k;
  bool has_shared, has_gate, is_in_place, is_unweighted;
} combine_case;

static const combine_case combine_cases[] = {
    {7, 260, 3, false, false, false, false},
    {40, 64, 8, true, false, true, false},
    {3, 20, 2, true, true, false, false},
    {1, 2051, 1, true, true, true, false},
    {33, 1024, 6, false, false, false, false},
    {1100, 72, 3, false, false, false, false}, /* enough that thread blocks have several */
    {900, 40, 8, true, true, false, false},
    {65600, 8, 1, true, false, false, false}, /* more than a grid has along y */
    {2, 7168, 8, true, false, false, false},
    {3, 8328, 6, true, true, false, false},
    {5, 60, 17, true, true, false, false},
    {33, 4096, 2, true, false, false, false},
    {1, 2048, 8, false, false, false, false},
    {7, 2056, 6, true, true, false, false},
    {6, 1032, 2, true, false, true, true},
    {200, 2048, 1, true, false, false, true}};

/* Residual and norm of the sum of a residual and a combination. is_there: the combination has been computed; else the
 * norm's operation computes it. */
static inline op_array norm_of_combination(yk_device *dev, yk_dtype dtype, const yk_combine_args *combine,
                                           bool is_there)
{
  op_random random = {.seed = 3};
  size_t n = (size_t)combine->n_tokens * (size_t)combine->hidden;
  op_array w = op_array_random(dev, dtype, (size_t)combine->hidden, 1.5, &random);
  op_array both = op_array_random(dev, dtype, 2 * n, 1.0, &random);
  const yk_add_norm_args args = {.y = (char *)both.dev + n * yk_dtype_bytes(dtype),
                                 .residual = both.dev,
                                 .partials = {combine->y},
                                 .n_partials = 1,
                                 .w = w.dev,
                                 .n_rows = combine->n_tokens,
                                 .hidden = combine->hidden,
                                 .alpha = 0.7f,
                                 .eps = 1e-6f,
                                 .combine = is_there ? NULL : combine};
  op_ok(dev->ops->add_norm(dev, &args, &err));
  op_array_fetch(dev, &both);
  op_array_free(dev, &w);
  return both;
}

static inline void check_combine(const op_target *target, yk_dtype dtype, const combine_case *c)
{
  enum { GATE_STRIDE = 5 };
  if (op_is_left_out((int64_t)c->n_tokens * c->top_k * c->hidden)) return;
  op_random random = {.seed = (uint32_t)(c->hidden + c->top_k)};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const int32_t n_slots = c->n_tokens * c->top_k;
  const size_t n = (size_t)(c->n_tokens * c->hidden);
  op_array slots = op_array_random(dev, dtype, (size_t)(n_slots * c->hidden), 1.0, &random);
  op_array weights = op_array_random(dev, YK_F32, (size_t)n_slots, 0.5, &random);
  op_array shared = op_array_random(dev, dtype, n, 1.0, &random), y = op_array_new(dev, dtype, n);
  op_array gate = op_array_random(dev, YK_F32, (size_t)(c->n_tokens * GATE_STRIDE), 2.0, &random);
  int32_t *slot_of_choice = calloc((size_t)n_slots, sizeof *slot_of_choice);
  double *expected = calloc(n, sizeof *expected);
  assert_non_null(slot_of_choice);
  assert_non_null(expected);
  for (int32_t i = 0; i < n_slots; i++) slot_of_choice[i] = i % 3 == 1 ? -1 : n_slots - 1 - i;
  for (size_t i = 0; i < n; i++) {
    int32_t row = (int32_t)i / c->hidden, column = (int32_t)i % c->hidden;
    double factor = c->has_gate ? 1.0 / (1.0 + exp(-gate.values[row * GATE_STRIDE])) : 1.0;
    for (int32_t j = row * c->top_k; j < (row + 1) * c->top_k; j++)
      if (slot_of_choice[j] >= 0)
        expected[i] +=
            (c->is_unweighted ? 1.0 : weights.values[j]) * slots.values[slot_of_choice[j] * c->hidden + column];
    if (c->has_shared) expected[i] += factor * shared.values[i];
  }
  int32_t *dev_slots = op_send_i32(dev, slot_of_choice, (size_t)n_slots);
  op_array *result = c->is_in_place ? &shared : &y;
  const yk_combine_args args = {.y = result->dev,
                                .slots = slots.dev,
                                .weights = c->is_unweighted ? NULL : weights.dev,
                                .slot_of_choice = dev_slots,
                                .shared = c->has_shared ? shared.dev : NULL,
                                .shared_gate = c->has_gate ? gate.dev : NULL,
                                .shared_gate_stride = GATE_STRIDE,
                                .n_tokens = c->n_tokens,
                                .top_k = c->top_k,
                                .hidden = c->hidden};
  op_array together = norm_of_combination(dev, dtype, &args, false);
  op_array_send(dev, &shared);
  op_ok(op_parts_of(dev).combine(dev, &args, &err));
  op_array apart = norm_of_combination(dev, dtype, &args, true);
  assert_memory_equal(together.bytes, apart.bytes, 2 * n * yk_dtype_bytes(dtype));
  op_array_fetch(dev, result);
  double error = op_error(result->values, expected, n), tolerance = op_unit_roundoff(dtype) + 0x1p-20;
  if (!(error <= tolerance))
    fail_msg("%s combine %s, %d rows of %d: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dtype),
             c->n_tokens, c->hidden, error, tolerance);
  free(slot_of_choice);
  free(expected);
  dev->ops->free(dev, dev_slots);
  op_array_free(dev, &slots), op_array_free(dev, &weights), op_array_free(dev, &shared);
  op_array_free(dev, &gate), op_array_free(dev, &y);
  op_array_free(dev, &together), op_array_free(dev, &apart);
  dev->ops->destroy(dev);
}

static inline void check_combines(const op_target *target, size_t n_dtypes)
{
  for (size_t d = 0; d < n_dtypes; d++)
    for (size_t i = 0; each_case(i, i < sizeof combine_cases / sizeof *combine_cases); i++)
      check_combine(target, op_dtypes[d], &combine_cases[i]);
}

#endif
