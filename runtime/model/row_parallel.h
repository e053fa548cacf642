/* row_parallel.h - a linear layer split by its inputs (o_proj, down_proj): a rank's result is a partial sum.
 *
 * For floats, each rank writes its partial sum, and the all-reduce after the sublayer adds them up. If the device
 * multiplies integers (yk_linear_has_sums), several ranks run in steps, so that the result equals that of a single
 * rank:
 *
 *   largest |x| of this rank's inputs == all-reduce: of the whole row
 *   integer sums of this rank's inputs == all-reduce: of the whole row; rank 0 scales them, adds the bias and rounds
 *
 * The other ranks write zeros, so that the all-reduce after the sublayer leaves rank 0's result unchanged.
 *
 * With batch_invariant (invariance.h), several ranks run in a tree:
 *
 *   float32 sums of this rank's slices of K == all-reduce in a tree: of all slices; every rank rounds them
 *
 * The result is then complete: the caller adds no partial results. */
#ifndef YK_MODEL_ROW_PARALLEL_H
#define YK_MODEL_ROW_PARALLEL_H

#include "model/operation.h"
#include "model/rank_loader.h"

struct yk_sublayer_step;

typedef struct yk_row_parallel {
  yk_linear *linear;
  bool in_steps, in_tree;
} yk_row_parallel;

/* x act [n_tokens, k_local] -> y act [n_tokens, n]. scratch: bytes as measured, reserved for this layer
 * meanwhile. */
typedef struct yk_row_parallel_args {
  const void *x;
  void *y;
  void *scratch;
} yk_row_parallel_args;

/* yk_row_parallel_in_steps - whether ranks run in steps. Same result on all ranks, including a rank with an empty
 *   slice. */
bool yk_row_parallel_in_steps(const yk_rank_source *source, const yk_linear_spec *spec);

/* yk_row_parallel_scratch - bytes for a forward of limits->step.max_tokens rows. Reads no weights. */
int64_t yk_row_parallel_scratch(const yk_rank_source *source, const yk_linear_spec *spec);

/* yk_row_parallel_load - load the layer. The caller destroys out->linear with the device's linear_destroy, also after
 *   an error. Errors: those of yk_rank_load_linear. */
yk_status yk_row_parallel_load(const yk_rank_loader *loader, const yk_linear_spec *spec, yk_row_parallel *out,
                               yk_err *err);

/* yk_row_parallel_run - one forward, of every rank; sets step->complete if the result is complete. kind, name: of the
 *   multiplication, for times and errors. If y is the sublayer's result and the device adds results to a residual in
 *   the layer's kernel (linear_fuses), the result is added to step->residual and step->y.state is ADDED.
 *   Errors: those of device and communicator. Thread: the rank's own. */
yk_status yk_row_parallel_run(const yk_row_parallel *layer, struct yk_sublayer_step *step,
                              const yk_row_parallel_args *args, yk_operation_kind kind, const char *name, yk_err *err);

#endif
