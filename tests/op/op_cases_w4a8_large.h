/* op_cases_w4a8_large.h - inputs of 8 bits for the shapes and odd ones of op_cases_linear_large.h, for GPUs. */
#ifndef YK_TESTS_OP_CASES_W4A8_LARGE_H
#define YK_TESTS_OP_CASES_W4A8_LARGE_H

#include "op/op_cases_linear_large.h"
#include "op/op_cases_w4a8.h"

/* Rounds the inputs of a large layer. Each number of rows twice, with the same bits. */
static inline void check_large_w4a8(yk_device *dev, const linear_case *shape, yk_inputs_kind rounding, uint32_t seed,
                                    double sums)
{
  static const int32_t token_counts[] = {128, 130, 200, 257, 300, 1000};
  enum { N_COUNTS = sizeof token_counts / sizeof *token_counts, MOST_OUTPUTS = 8 << 20 /* which bounds the time */ };
  linear_run run = w4a8_run_new(dev, shape, rounding, token_counts[N_COUNTS - 1], seed);
  for (int32_t row = 0; row < run.n_tokens; row++)
    round_inputs(run.x.values + row * run.k_local, run.k_local, rounding);
  void *y = NULL;
  op_ok(dev->ops->alloc(dev, (size_t)(run.n_tokens * run.n_local) * 2, &y, &err));
  for (int i = 0; i < N_COUNTS && token_counts[i] * run.n_local <= MOST_OUTPUTS; i++) {
    const int32_t n_tokens = token_counts[i];
    uint16_t *found = large_forward(dev, &run, n_tokens, y), *again = large_forward(dev, &run, n_tokens, y);
    const double error = large_linear_error(&run, dev->dtype, found, n_tokens, seed + (uint32_t)i);
    if (!(error <= w4a8_tolerance(dev->dtype, shape, sums)))
      fail_msg("%s, %s, k %lld, %lld columns of %d parts, groups of %lld, seed %u, %d rows: error %.3g, tolerance %.3g",
               yk_dtype_name(dev->dtype), rounding_name(rounding), (long long)run.k_local, (long long)run.n_local,
               shape->n_parts, (long long)shape->parts[0].group_local, seed, n_tokens, error,
               w4a8_tolerance(dev->dtype, shape, sums));
    assert_memory_equal(found, again, (size_t)(n_tokens * run.n_local) * 2);
    free(found), free(again);
  }
  dev->ops->free(dev, y);
  linear_run_free(dev, &run);
}

#endif
