/* experts.h - the parts of a mixture of experts (mixture.h): the choice of experts for each row, the products with the
 * experts' matrices, and the weighted sum of the results. Devices run them inside mixture_forward; only tests and
 * benchmarks call a part alone.
 *
 *   x -> router's logits -> route -> row_of_slot, starts -> grouped forward of gate and up
 *                             |                              -> grouped forward of down -> slots
 *                             +-> weights, slot_of_choice -> combine <------------------+
 *
 * With yk_mixture_sizes.weighs_inputs (Llama 4), the weight of a choice multiplies the input of its expert, not the
 * result: weigh writes a weighted row for each slot, gate and up read these rows, and combine adds unweighted results.
 *
 * A choice is one expert of one row: each row makes top_k choices, by falling score. A slot is a choice whose expert
 * belongs to this rank. Slots are numbered by expert, then by row, so that the rows of one expert are contiguous. Only
 * the device has the number of slots per expert: no operation here waits for the host, and the host's counts of rows
 * and slots are upper bounds, so a graph can record all of them. */
#ifndef YK_KERNELS_EXPERTS_H
#define YK_KERNELS_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/expert_choice.h"
#include "kernels/linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a row chooses its experts. In float32:
 *   score[e]   softmax over all experts, or sigmoid, of the logits
 *   choice[e]  score[e] + bias[e], or score[e] without a bias
 *   groups     n_groups ranges of n_experts / n_groups experts each; only the top_groups groups with the largest group
 *              score remain, and experts of the other groups cannot be chosen. n_groups 1: all remain
 *   chosen     the top_k remaining experts, by falling choice[e]
 *   weight     score[e], without the bias; divided by the sum of the row's weights plus 1e-20 if normalise; times
 *              scale, and times expert_scales[e] if given
 * Ties, between groups too: lower index first. A row with a NaN or infinite logit chooses experts 0 .. top_k - 1 with
 * NaN weights, so that only this row fails. */
typedef struct yk_route_spec {
  int32_t n_experts; /* 1 .. YK_MAX_EXPERTS, of the whole model */
  int32_t top_k;     /* 1 .. YK_MAX_TOP_K, and at most the number of experts in top_groups groups */
  yk_expert_scoring scoring;
  int32_t n_groups, top_groups; /* n_groups divides n_experts, at most YK_MAX_EXPERT_GROUPS; top_groups <= n_groups */
  yk_expert_group_score group_score;
  bool normalise;
  float scale;
  int32_t first_local, n_local; /* this rank's experts: first_local .. first_local + n_local - 1; n_local may be 0 */
} yk_route_spec;

/* yk_route_max_slots - upper bound of the slots of n_tokens rows: the choices of a row are distinct. */
static inline int64_t yk_route_max_slots(const yk_route_spec *spec, int64_t n_tokens)
{
  return n_tokens * (spec->top_k < spec->n_local ? spec->top_k : spec->n_local);
}

enum { YK_ROUTE_BLOCK_ROWS = 32 };

/* yk_route_scratch_bytes - scratch of a route of n_tokens rows: for each block of YK_ROUTE_BLOCK_ROWS rows, the number
 *   of rows per expert of the rank. */
static inline int64_t yk_route_scratch_bytes(const yk_route_spec *spec, int64_t n_tokens)
{
  return (n_tokens + YK_ROUTE_BLOCK_ROWS - 1) / YK_ROUTE_BLOCK_ROWS * (spec->n_local + 1) * (int64_t)sizeof(int32_t);
}

/* route: all arrays are device memory. A row with a negative kv_slots entry is padding of a recorded step: the row
 * chooses no expert (choices and slot_of_choice -1, weights 0), loads no expert weights and is not counted. */
typedef struct yk_route_args {
  const yk_route_spec *spec;
  const struct yk_add_norm_args *norm; /* norm to run first, with y = x (add_norm, device.h); NULL: x is complete */
  const yk_linear *router; /* float32 outputs: logits = x times router, computed first; NULL: logits are complete */
  const void *x;           /* act [n_tokens, k] of the router */
  float *logits;           /* [n_tokens, logits_stride], of which n_experts are read */
  int64_t logits_stride;
  const float *bias;          /* [n_experts] or NULL: added for the choice only, not to the weights */
  const float *expert_scales; /* [n_experts] factors on weights; NULL: none */
  const int32_t *kv_slots;    /* [n_tokens], or NULL: no row is padding */
  int32_t n_tokens;           /* rows */
  int32_t *choices;           /* [n_tokens, top_k] experts by falling score */
  float *weights;             /* [n_tokens, top_k] */
  /* [n_local + 1] first slot of each of the rank's experts; the last entry is the number of slots */
  int32_t *starts;
  int32_t *row_of_slot;    /* [yk_route_max_slots], written up to starts[n_local] */
  int32_t *slot_of_choice; /* [n_tokens, top_k]; -1: the expert belongs to another rank */
  int64_t *counts;         /* [n_experts] or NULL: the number of rows of each expert of the model is added */
  void *scratch;           /* yk_route_scratch_bytes, reserved for this operation until it has ended */
} yk_route_args;

/* grouped forward: y[slot] = x[row_of_slot[slot]] times matrix m, for the slots starts[m] .. starts[m + 1] - 1 of each
 * matrix m of a linear layer (linear.h), with bias and epilogue as in a forward. Only the device has the number of
 * slots per matrix: the call does not wait for the host, and reads no weights of matrices without slots. Slots from
 * starts[n_matrices] on are neither read nor written. If linear_forward of the device gives a row the same bits in any
 * batch, so does the grouped forward, in any slot. y must alias neither x nor the arrays. */
typedef struct yk_grouped_args {
  const void *x; /* act [n_rows, x_size or k_local] */
  int32_t n_rows;
  const int32_t *row_of_slot; /* device [max_slots], or NULL: the row of a slot is the slot, and n_rows is max_slots */
  const int32_t *starts;      /* device [n_matrices + 1], rising from 0 to at most max_slots */
  int32_t max_slots;          /* <= the layer's max_tokens */
  /* Device [max_slots], for inputs that are quantised per token if x holds only a part of each row: the results of
   * linear_maxima over the whole row of each slot. y is then a partial result. NULL: x holds whole rows. */
  const int32_t *maxima;
  void *y; /* [max_slots, y_stride] act (or f32) */
  int64_t y_stride;
  void *staging; /* device memory for rows gathered before the GEMM, of the size that the device requires; else NULL */
} yk_grouped_args;

/* yk_grouped_check - the layer must be grouped, and the slots within max_tokens. Errors: YK_E_INVAL. Thread: any. */
yk_status yk_grouped_check(const yk_grouped_args *args, bool is_grouped, int32_t max_tokens, yk_err *err);

/* weigh: y[slot_of_choice[row, j]] = weights[row, j] * x[row] for each choice with a slot, in float32 and rounded once.
 * All arrays are device memory; y must not alias x. */
typedef struct yk_weigh_args {
  void *y;                       /* act [*, hidden] */
  const void *x;                 /* act [n_tokens, hidden] */
  const float *weights;          /* [n_tokens, top_k] */
  const int32_t *slot_of_choice; /* [n_tokens, top_k]; -1: none */
  int32_t n_tokens, top_k, hidden;
} yk_weigh_args;

/* combine: y[row] = sum over j = 0 .. top_k - 1, in that order, of weights[row, j] * slots[slot_of_choice[row, j]],
 * then + shared[row] * sigmoid(shared_gate[row]), all in float32 and rounded once. Choices with slot -1 add nothing.
 * The result is this rank's PARTIAL result. All arrays are device memory; y may alias shared, but not slots. */
typedef struct yk_combine_args {
  void *y;              /* act [n_tokens, hidden] */
  const void *slots;    /* act [*, hidden]: the outputs of the rank's experts; not read if no choice has a slot */
  const float *weights; /* [n_tokens, top_k], or NULL: all are 1 */
  const int32_t *slot_of_choice; /* [n_tokens, top_k] */
  const void *shared;            /* act [n_tokens, hidden], this rank's part of the shared expert; or NULL: none */
  const float *shared_gate;      /* [n_tokens, shared_gate_stride], one value read per row; or NULL: a factor of 1 */
  int64_t shared_gate_stride;
  int32_t n_tokens, top_k, hidden;
  /* weights and slot_of_choice were complete before the preceding operation could begin: a device that overlaps
   * operations may read them while that operation runs. */
  bool choices_are_settled;
} yk_combine_args;

#ifdef __cplusplus
}
#endif
#endif
