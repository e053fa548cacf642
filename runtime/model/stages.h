/* stages.h - the division of a model's layers among pipeline stages. Pure arithmetic. */
#ifndef YK_MODEL_STAGES_H
#define YK_MODEL_STAGES_H

#include <stdint.h>

#include "base/status.h"

/* Bytes of weights, by which the stages are balanced. */
typedef struct yk_stage_weights {
  const int64_t *layers; /* [n_layers] */
  int32_t n_layers;
  int64_t before, after; /* of the first stage besides its layers: the embedding; of the last: final norm and lm_head */
} yk_stage_weights;

/* yk_stages_divide - contiguous layers for each stage, at least one: stage s has layers first[s] .. first[s + 1] - 1.
 *   The largest stage is as small as possible; among such divisions the stages are as even as possible, and of equally
 *   good ones the earlier stages have more layers.
 *   first [n_stages + 1]. Errors: YK_E_INVAL for more stages than layers, YK_E_NOMEM. */
yk_status yk_stages_divide(const yk_stage_weights *weights, int n_stages, int32_t *first, yk_err *err);

#endif
