/* experts.h - the parts of a mixture of experts (mixture.h): which experts a row passes, the products with the experts'
 * matrices, and the weighted sum of the results. Devices have them inside their mixture_forward; only tests and
 * benchmarks call a part by itself.
 *
 *   x -> router's logits -> route -> row_of_slot, starts -> grouped forward of gate and up
 *                             |                              -> grouped forward of down -> slots
 *                             +-> weights, slot_of_choice -> combine <------------------+
 *
 * A choice is one expert of one row: a row makes top_k of them, by falling score. A slot is a choice of one of this
 * rank's experts: slots are numbered expert by expert, those of one expert by rising row, so that an expert's rows lie
 * side by side. How many slots an expert has is known to the device alone: nothing here waits for the host, and counts
 * of rows and slots that the host gives are upper bounds, so that all of it can be recorded as a graph. */
#ifndef YK_KERNELS_EXPERTS_H
#define YK_KERNELS_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/expert_choice.h"
#include "kernels/linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a row chooses. In float32:
 *   score[e]   softmax over all experts, or sigmoid, of the logits
 *   choice[e]  score[e] + bias[e], or score[e] without a bias
 *   groups     n_groups ranges of n_experts / n_groups experts each; the top_groups with the largest group score stay,
 *              and experts of other groups cannot be chosen. n_groups 1: all stay
 *   chosen     the top_k experts that stay, by falling choice[e]
 *   weight     score[e], without the bias; divided by the sum of the row's weights plus 1e-20 if normalise; times scale
 * Ties, of groups too: lower index first. A row that has a logit which is a NaN or an infinity chooses experts 0 ..
 * top_k - 1 with NaN weights, so that it fails alone. */
typedef struct yk_route_spec {
  int32_t n_experts; /* 1 .. YK_MAX_EXPERTS, of the whole model */
  int32_t top_k;     /* 1 .. YK_MAX_TOP_K, at most the experts of top_groups groups */
  yk_expert_scoring scoring;
  int32_t n_groups, top_groups; /* n_groups divides n_experts, at most YK_MAX_EXPERT_GROUPS; top_groups at most it */
  yk_expert_group_score group_score;
  bool normalise;
  float scale;
  int32_t first_local, n_local; /* this rank's experts: first_local .. first_local + n_local - 1; n_local may be 0 */
} yk_route_spec;

/* yk_route_max_slots - slots of n_tokens rows at most: a row's choices are distinct. */
static inline int64_t yk_route_max_slots(const yk_route_spec *spec, int64_t n_tokens)
{
  return n_tokens * (spec->top_k < spec->n_local ? spec->top_k : spec->n_local);
}

enum { YK_ROUTE_BLOCK_ROWS = 32 };

/* yk_route_scratch_bytes - scratch of a route of n_tokens rows: rows of each of the rank's experts in each block of
 *   YK_ROUTE_BLOCK_ROWS rows. */
static inline int64_t yk_route_scratch_bytes(const yk_route_spec *spec, int64_t n_tokens)
{
  return (n_tokens + YK_ROUTE_BLOCK_ROWS - 1) / YK_ROUTE_BLOCK_ROWS * (spec->n_local + 1) * (int64_t)sizeof(int32_t);
}

/* route: all arrays are device memory. Rows whose kv_slots entry is negative are padding of a recorded step: they
 * choose nothing (choices and slot_of_choice -1, weights 0), cost no expert's weights and are not counted. */
typedef struct yk_route_args {
  const yk_route_spec *spec;
  const struct yk_add_norm_args *norm; /* add_norm (device.h) of y = x, which comes first; NULL: x is complete */
  const yk_linear *router; /* of float32 outputs: logits become x times it first; NULL: logits are complete */
  const void *x;           /* act [n_tokens, k] of the router */
  float *logits;           /* [n_tokens, logits_stride], of which n_experts are read */
  int64_t logits_stride;
  const float *bias;       /* [n_experts] or NULL: correction of the choice alone */
  const int32_t *kv_slots; /* [n_tokens], or NULL: no row is padding */
  int32_t n_tokens;        /* rows */
  int32_t *choices;        /* [n_tokens, top_k] experts by falling score */
  float *weights;          /* [n_tokens, top_k] */
  int32_t *starts;         /* [n_local + 1] first slot of each of the rank's experts; the last: slots in all */
  int32_t *row_of_slot;    /* [yk_route_max_slots], written up to starts[n_local] */
  int32_t *slot_of_choice; /* [n_tokens, top_k], -1: another rank's expert */
  int64_t *counts;         /* [n_experts] or NULL: the rows of each expert of the model are added */
  void *scratch;           /* yk_route_scratch_bytes, nobody else's until the end */
} yk_route_args;

/* grouped forward: y[slot] = x[row_of_slot[slot]] times matrix m, for the slots starts[m] .. starts[m + 1] - 1 of each
 * matrix m of a linear layer (linear.h), with bias and epilogue as in a forward. How many slots a matrix has is known
 * to the device alone: the call waits for nobody, and reads no weights of matrices without slots. Slots at
 * starts[n_matrices] and beyond are neither read nor written. A row's result depends neither on the slot nor on the
 * other rows where the device says that of linear_forward. y must alias neither x nor the arrays. */
typedef struct yk_grouped_args {
  const void *x; /* act [n_rows, x_size or k_local] */
  int32_t n_rows;
  const int32_t *row_of_slot; /* device [max_slots], or NULL: the row of a slot is the slot, and n_rows is max_slots */
  const int32_t *starts;      /* device [n_matrices + 1], rising from 0 to at most max_slots */
  int32_t max_slots;          /* at most the layer's max_tokens */
  /* device [max_slots], of inputs that are quantised per token where x is a part of each row: the results of
   * linear_maxima for the whole row of each slot. y is then a partial result. NULL: x is the whole rows. */
  const int32_t *maxima;
  void *y; /* [max_slots, y_stride] act (or f32) */
  int64_t y_stride;
  void *staging; /* device memory for rows on their way to the GEMM, as much as the device wants, else NULL */
} yk_grouped_args;

/* yk_grouped_check - an experts' layer, and slots within its max_tokens. Errors: YK_E_INVAL. Thread: any. */
yk_status yk_grouped_check(const yk_grouped_args *args, bool is_grouped, int32_t max_tokens, yk_err *err);

/* combine: y[row] = sum over j = 0 .. top_k - 1, in that order, of weights[row, j] * slots[slot_of_choice[row, j]],
 * then + shared[row] * sigmoid(shared_gate[row]), all in float32 and rounded once. Choices at slot -1 add nothing. The
 * result is the rank's PARTIAL one. Arrays are device memory; y may be shared, and must not be slots. */
typedef struct yk_combine_args {
  void *y;              /* act [n_tokens, hidden] */
  const void *slots;    /* act [*, hidden]: the outputs of the rank's experts; not read where no choice has a slot */
  const float *weights; /* [n_tokens, top_k] */
  const int32_t *slot_of_choice; /* [n_tokens, top_k] */
  const void *shared;            /* act [n_tokens, hidden], this rank's part of the shared expert; or NULL: none */
  const float *shared_gate; /* [n_tokens, shared_gate_stride], of which the first is read; or NULL: a factor of 1 */
  int64_t shared_gate_stride;
  int32_t n_tokens, top_k, hidden;
  /* weights and slot_of_choice were complete before the last operation ahead could begin: a device that overlaps
   * operations may read them while that operation runs. */
  bool choices_are_settled;
} yk_combine_args;

#ifdef __cplusplus
}
#endif
#endif
