/* invariance.h - batch invariance (yk_model_limits.batch_invariant): logits have the same bits for any other sequences
 * of a step, any division of a sequence into steps, and 1, 2, 4 or 8 ranks.
 *
 * Rows are independent in every operation of a device; sums over K and over ranks are one tree. A column-parallel layer
 * divides its K, which every rank has whole, into slices. A row-parallel layer divides the K of all ranks; a rank's
 * partial result is the float32 sum of its slices, a node of the tree, and the communicator adds the upper levels
 * (all_reduce_tree). The sum is rounded before the residual add, which, like the norm, is then the operation of a
 * single rank (row_parallel.h). */
#ifndef YK_MODEL_INVARIANCE_H
#define YK_MODEL_INVARIANCE_H

#include "model/rank_specs.h"
#include "parallel/comm.h"

/* yk_invariance_check - YK_OK, or what of a model, or of the limits, cannot be batch-invariant on n_ranks ranks that
 *   split each layer. Errors: YK_E_UNSUPPORTED. Thread: any. */
yk_status yk_invariance_check(const yk_model_config *config, const yk_model_limits *limits, int n_ranks, yk_err *err);

/* yk_invariance_column, yk_invariance_head, yk_invariance_row - set the slices of K of a column-parallel layer, of
 *   lm_head, or of a row-parallel layer with a single part, whose parts are set; no effect without batch_invariant.
 *   Errors: YK_E_UNSUPPORTED, naming the weights that cannot be divided. */
yk_status yk_invariance_column(const yk_rank_source *source, yk_linear_spec *spec, yk_err *err);
yk_status yk_invariance_head(const yk_rank_source *source, yk_linear_spec *spec, yk_err *err);
yk_status yk_invariance_row(const yk_rank_source *source, yk_linear_spec *spec, yk_err *err);

/* yk_invariance_check_comm - whether the ranks of a communicator can add in a tree, if they must.
 *   Errors: YK_E_UNSUPPORTED. Thread: the rank's own. */
yk_status yk_invariance_check_comm(const yk_rank_source *source, yk_comm *comm, yk_err *err);

/* yk_invariance_has_tree - whether row-parallel layers have float32 results, which all_reduce_tree adds. */
static inline bool yk_invariance_has_tree(const yk_rank_source *source)
{
  return source->limits->batch_invariant && source->share.n_ranks > 1;
}

#endif
