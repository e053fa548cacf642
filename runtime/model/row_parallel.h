/* row_parallel.h - a linear layer that is cut by its inputs (o_proj, down_proj): a rank's result is a part of the sum.
 *
 * Floats need nothing more: what a rank writes is added up by the all-reduce behind the sublayer. Where the device
 * multiplies integers (yk_linear_has_sums), several ranks go in steps, so that they give what one gives:
 *
 *   begin      largest |x| of this rank's inputs == all-reduce: of the whole row
 *   multiply   integer sums of this rank's inputs
 *   end        == all-reduce: integer sums of the whole row; rank 0 scales them, adds the bias and rounds
 *
 * The other ranks write zeros, so that the all-reduce behind the sublayer leaves rank 0's result as it is. */
#ifndef YK_MODEL_ROW_PARALLEL_H
#define YK_MODEL_ROW_PARALLEL_H

#include "model/rank_loader.h"

struct yk_sublayer_step;

typedef struct yk_row_parallel {
  yk_linear *linear;
  bool in_steps;
} yk_row_parallel;

/* x act [n_tokens, k_local] -> y act [n_tokens, n]; scratch bytes as measured, nobody else's until the end. */
typedef struct yk_row_parallel_args {
  const void *x;
  void *y;
  void *scratch;
} yk_row_parallel_args;

/* yk_row_parallel_in_steps - whether ranks go in steps. Alike on all ranks, also on one whose slice is empty. */
bool yk_row_parallel_in_steps(const yk_rank_source *source, const yk_linear_spec *spec);

/* yk_row_parallel_scratch - bytes for a forward of limits->step.max_tokens rows. Looks at no data. */
int64_t yk_row_parallel_scratch(const yk_rank_source *source, const yk_linear_spec *spec);

/* yk_row_parallel_load - Errors: those of yk_rank_load_linear. What was loaded is the caller's, to destroy with the
 *   device's linear_destroy. */
yk_status yk_row_parallel_load(const yk_rank_loader *loader, const yk_linear_spec *spec, yk_row_parallel *out,
                               yk_err *err);

/* begin, multiply, end - one forward: all three in turn, on every rank alike. multiply is one operation, which the
 *   caller begins; the others begin their own. Errors: those of device and communicator. Thread: the rank's. */
yk_status yk_row_parallel_begin(const yk_row_parallel *layer, const struct yk_sublayer_step *step,
                                const yk_row_parallel_args *args, yk_err *err);
yk_status yk_row_parallel_multiply(const yk_row_parallel *layer, const struct yk_sublayer_step *step,
                                   const yk_row_parallel_args *args, yk_err *err);
yk_status yk_row_parallel_end(const yk_row_parallel *layer, const struct yk_sublayer_step *step,
                              const yk_row_parallel_args *args, yk_err *err);

#endif
