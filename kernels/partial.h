/* partial.h - the two values that pass between the sublayers of a model and the all-reduces around them: a rank's
 * partial result, and normalised rows. Their states let a device fuse two operations: the operation that reads a
 * value may run the last step of the operation before, and a result may already be part of the residual. */
#ifndef YK_KERNELS_PARTIAL_H
#define YK_KERNELS_PARTIAL_H

#include "kernels/experts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yk_partial_state {
  YK_PARTIAL_ROWS, /* rows are complete */
  /* rows are still to be combined from slots; an operation that combines and adds them may leave rows unwritten */
  YK_PARTIAL_SLOTS,
  YK_PARTIAL_ADDED /* the residual already contains the result; rows are undefined */
} yk_partial_state;

typedef struct yk_partial {
  yk_partial_state state;
  void *rows;            /* act [n_rows, hidden] */
  yk_combine_args slots; /* in state SLOTS: a combination of n_rows rows, whose y is rows */
} yk_partial;

/* yk_partial_slots - the pending combination, or NULL. */
static inline const yk_combine_args *yk_partial_slots(const yk_partial *partial)
{
  return partial->state == YK_PARTIAL_SLOTS ? &partial->slots : NULL;
}

typedef enum yk_normed_state {
  YK_NORMED_ROWS, /* rows are complete */
  /* rows are the y of a pending add_norm of the members below (device.h); if partial is ADDED, of a pending rms_norm of
   * residual, unless w is NULL */
  YK_NORMED_PENDING
} yk_normed_state;

/* Normalised rows, the input of a sublayer. */
typedef struct yk_normed {
  yk_normed_state state;
  void *rows; /* act [n_rows, hidden] */
  yk_partial partial;
  void *residual;
  const void *result_w, *w;
  int32_t n_rows, hidden;
  float alpha, gain, eps;
} yk_normed;

#ifdef __cplusplus
}
#endif
#endif
