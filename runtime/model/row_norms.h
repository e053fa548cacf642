/* row_norms.h - norms of the whole rows of q and k (kernels/row_norms.h) in a layer whose heads ranks divide. */
#ifndef YK_MODEL_ROW_NORMS_H
#define YK_MODEL_ROW_NORMS_H

#include "model/rank_loader.h"

struct yk_sublayer_step;

typedef struct yk_row_norms {
  void *q_w, *k_w; /* NULL: the model has no such norms, and run does nothing */
  int32_t first_counted, n_counted;
  int64_t q_size, k_size;
  bool is_used; /* also on a rank without heads, which takes part in the exchange */
} yk_row_norms;

/* yk_row_norms_weight_bytes, yk_row_norms_scratch - bytes of the weights, and of the scratch of a forward of
 *   limits->step.max_tokens rows; 0 without such norms. Read no weights. */
int64_t yk_row_norms_weight_bytes(const yk_rank_source *source, int32_t layer);
int64_t yk_row_norms_scratch(const yk_rank_source *source);

/* yk_row_norms_load - load the weights of the rank's heads. The caller frees q_w and k_w, also after an error.
 *   Errors: those of checkpoint and device. */
yk_status yk_row_norms_load(const yk_rank_loader *loader, int32_t layer, yk_row_norms *out, yk_err *err);

/* yk_row_norms_run - normalise q and k of the rows qkv in place. Every rank calls it. Errors: those of device and
 *   communicator. Thread: the rank's own. */
yk_status yk_row_norms_run(const yk_row_norms *norms, const struct yk_sublayer_step *step, const yk_head_layout *heads,
                           void *qkv, void *scratch, yk_err *err);

#endif
