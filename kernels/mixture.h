/* mixture.h - a mixture of experts as one operation of a device: each row passes top_k of many gated feed-forward
 * networks, which the router chooses, and a shared one where the family has that.
 *
 *   x -> router -> route ---------> slots -> gate and up, SiLU * up -> down --> combination: rows, or slots that the
 *   x -> shared expert: gate and up, SiLU * up -> down ---------------------->  reader of the result combines
 *
 * experts.h defines the parts. A device decides for each number of rows which of them share a kernel, and whether the
 * combination is left to the all-reduce or norm that reads the result; the CPU device composes all parts. */
#ifndef YK_KERNELS_MIXTURE_H
#define YK_KERNELS_MIXTURE_H

#include "base/dtype.h"
#include "kernels/all_reduce.h"
#include "kernels/partial.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_device yk_device;

/* What decides the scratch. A rank without experts has n_local 0 in its route. */
typedef struct yk_mixture_sizes {
  yk_route_spec route;
  int32_t max_rows, hidden;
  int32_t width;        /* this rank's channels of an expert */
  int32_t shared_width; /* and of the shared expert */
  bool has_shared;
  bool has_shared_gate; /* the router's last output is the logit of the shared expert's factor */
  /* Ranks cut experts, or the shared expert, whose inputs are quantised per token: they exchange the largest |x| of
   * down's inputs, as yk_linear_sums_args says. */
  bool shares_maxima, shared_in_steps;
  yk_dtype dtype;
} yk_mixture_sizes;

/* The layers are the caller's, and outlive the mixture. */
typedef struct yk_mixture_spec {
  yk_mixture_sizes sizes;
  const yk_linear *router;                       /* float32 outputs */
  const yk_linear *gate_up, *down;               /* is_grouped, a matrix for each of the rank's experts; or NULL */
  const yk_linear *shared_gate_up, *shared_down; /* NULL without a shared expert */
  const float *choice_bias;                      /* device [n_experts] or NULL */
  int64_t *counts;                               /* device [n_experts] or NULL: see yk_route_args */
  bool is_first_rank;                            /* of shared_in_steps: the rank that scales the sums */
} yk_mixture_spec;

/* Where the parts of a mixture's scratch lie, in bytes. */
typedef struct yk_mixture_layout {
  int64_t logits, choices, weights, slot_of_choice, starts, row_of_slot, routing, maxima, shared_inner, shared_sums,
      inner, outputs, gate_up_staging, down_staging, end;
} yk_mixture_layout;

/* A device's own mixture begins with this. */
typedef struct yk_mixture {
  yk_mixture_spec spec;
  yk_mixture_layout at;
} yk_mixture;

/* What a forward is at. Which phases there are depends on the fusions of the device; their order is this one. */
typedef enum yk_mixture_phase {
  YK_MIXTURE_ROUTING, /* with the norm in front, where that is pending */
  YK_MIXTURE_SHARED_GATE_UP,
  YK_MIXTURE_SHARED_MAXIMA,
  YK_MIXTURE_SHARED_MAXIMA_EXCHANGE,
  YK_MIXTURE_SHARED_DOWN,
  YK_MIXTURE_SHARED_SUMS_EXCHANGE,
  YK_MIXTURE_SHARED_SCALING,
  YK_MIXTURE_GATE_UP, /* of the experts, and all that the kernel does beside */
  YK_MIXTURE_MAXIMA,
  YK_MIXTURE_MAXIMA_EXCHANGE,
  YK_MIXTURE_DOWN,
  YK_MIXTURE_COMBINATION,
  YK_MIXTURE_N_PHASES
} yk_mixture_phase;

/* Whoever runs a forward. */
typedef struct yk_mixture_host {
  void *user;
  /* Called as each phase begins; an error ends the forward. NULL: nobody follows the phases. */
  yk_status (*begin)(void *user, yk_mixture_phase phase, yk_err *err);
  /* all_reduce_i32 of the ranks' communicator (parallel/comm.h), in the phases of an exchange. */
  yk_status (*all_reduce)(void *user, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err);
} yk_mixture_host;

/* Values inside a forward, in its scratch: complete once the forward has ended on the device's stream, until the
 * scratch is used again. A forward with taps fuses nothing that would leave one of them unwritten. */
typedef struct yk_mixture_taps {
  const int32_t *choices, *slot_of_choice; /* [n_rows, top_k] */
  const float *weights;                    /* [n_rows, top_k] */
  const int32_t *starts, *row_of_slot;     /* [n_local + 1], [max_slots] */
  int32_t max_slots;
  const void *inner;        /* act [max_slots, width]: inputs of the experts' down */
  const void *shared_inner; /* act [n_rows, shared_width]: inputs of the shared expert's down; NULL without one */
} yk_mixture_taps;

typedef struct yk_mixture_args {
  yk_normed *x;            /* of n_rows rows; complete afterwards */
  yk_partial *y;           /* rows act [n_rows, hidden], which alias neither x nor the scratch; the rest is filled */
  const int32_t *kv_slots; /* device [n_rows], or NULL: see yk_route_args */
  int32_t n_rows;
  void *scratch; /* mixture_scratch_bytes of device memory */
  const yk_mixture_host *host;
  yk_mixture_taps *taps; /* filled; NULL: not wanted */
} yk_mixture_args;

#ifdef __cplusplus
}
#endif
#endif
