/* mixture.h - a mixture of experts as one device operation: the router chooses top_k of many feed-forward networks for
 * each row; some families add a shared expert, which processes every row. Networks without a gate (plain_experts) have
 * up alone where this file has gate and up.
 *
 *   x -> router -> route ---------> slots -> gate and up, activation -> down -> combination: rows, or slots that the
 *   x -> shared expert: gate and up, activation -> down --------------------->  reader of the result combines
 *
 * experts.h defines the parts. For each number of rows the device decides which parts share a kernel, and whether the
 * all-reduce or norm that reads the result also does the combination. The CPU device runs the parts one after the
 * other. */
#ifndef YK_KERNELS_MIXTURE_H
#define YK_KERNELS_MIXTURE_H

#include "base/dtype.h"
#include "kernels/all_reduce.h"
#include "kernels/partial.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_device yk_device;

/* The values that determine the scratch size. A rank without experts has n_local 0 in its route. */
typedef struct yk_mixture_sizes {
  yk_route_spec route;
  int32_t max_rows, hidden;
  int32_t width;        /* this rank's channels of an expert */
  int32_t shared_width; /* this rank's channels of the shared expert */
  int32_t latent;       /* elements of an expert's input and result; 0: hidden */
  bool has_shared;
  bool weighs_inputs;   /* a choice's weight multiplies its expert's input, not the result (experts.h) */
  bool has_shared_gate; /* the router's last output is the logit of the shared expert's gate */
  /* shares_maxima: the ranks share the channels of each expert and down's inputs are quantised per token, so the ranks
   * exchange the largest |x| of these inputs (yk_grouped_args.maxima). shared_in_steps: the ranks share the shared
   * expert's channels and its down multiplies integers, so its down runs in the three steps of yk_linear_sums_args. */
  bool shares_maxima, shared_in_steps;
  yk_dtype dtype;
} yk_mixture_sizes;

/* The layers belong to the caller and outlive the mixture. */
typedef struct yk_mixture_spec {
  yk_mixture_sizes sizes;
  const yk_linear *router;         /* float32 outputs */
  const yk_linear *gate_up, *down; /* is_grouped, one matrix per expert of the rank; or NULL */
  /* hidden -> latent before the experts, latent -> hidden after their combination; NULL if latent is 0 */
  const yk_linear *latent_in, *latent_out;
  const yk_linear *shared_gate_up, *shared_down; /* NULL without a shared expert */
  const float *choice_bias;                      /* device [n_experts] or NULL */
  const float *expert_scales;                    /* device [n_experts] or NULL: see yk_route_args */
  int64_t *counts;                               /* device [n_experts] or NULL: see yk_route_args */
  bool is_first_rank;                            /* if shared_in_steps: this rank scales the sums */
} yk_mixture_spec;

/* Offsets of the parts of a mixture's scratch, in bytes. */
typedef struct yk_mixture_layout {
  int64_t logits, choices, weights, slot_of_choice, starts, row_of_slot, routing, maxima, shared_inner, shared_sums,
      latent, inner, outputs, gate_up_staging, down_staging, end;
} yk_mixture_layout;

/* First member of each device's mixture. */
typedef struct yk_mixture {
  yk_mixture_spec spec;
  yk_mixture_layout at;
} yk_mixture;

/* Phases of a forward, in order. Which phases occur depends on the fusions of the device. */
typedef enum yk_mixture_phase {
  YK_MIXTURE_ROUTING, /* with the norm before the router, if it is pending */
  YK_MIXTURE_SHARED_GATE_UP,
  YK_MIXTURE_SHARED_MAXIMA,
  YK_MIXTURE_SHARED_MAXIMA_EXCHANGE,
  YK_MIXTURE_SHARED_DOWN,
  YK_MIXTURE_SHARED_SUMS_EXCHANGE,
  YK_MIXTURE_SHARED_SCALING,
  YK_MIXTURE_LATENT_IN,
  YK_MIXTURE_GATE_UP, /* experts' gate and up, with everything that the device fuses into that kernel */
  YK_MIXTURE_MAXIMA,
  YK_MIXTURE_MAXIMA_EXCHANGE,
  YK_MIXTURE_DOWN,
  YK_MIXTURE_COMBINATION,
  YK_MIXTURE_LATENT_OUT, /* the combination has the chosen experts alone; the shared expert's rows are added here */
  YK_MIXTURE_N_PHASES
} yk_mixture_phase;

/* Callbacks of the forward's caller. */
typedef struct yk_mixture_host {
  void *user;
  /* Called as each phase begins; an error ends the forward. May be NULL. */
  yk_status (*begin)(void *user, yk_mixture_phase phase, yk_err *err);
  /* all_reduce_i32 of the ranks' communicator (parallel/comm.h). Called in the exchange phases. */
  yk_status (*all_reduce)(void *user, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err);
} yk_mixture_host;

/* Intermediate values of a forward, inside its scratch. They are complete once the forward has ended on the device's
 * stream, and valid until the scratch is used again. With taps the device does not fuse a step whose value would then
 * stay unwritten. */
typedef struct yk_mixture_taps {
  const int32_t *choices, *slot_of_choice; /* [n_rows, top_k] */
  const float *weights;                    /* [n_rows, top_k] */
  const int32_t *starts, *row_of_slot;     /* [n_local + 1], [max_slots] */
  int32_t max_slots;
  const void *inner;        /* act [max_slots, width]: inputs of the experts' down */
  const void *shared_inner; /* act [n_rows, shared_width]: inputs of the shared expert's down; NULL without one */
} yk_mixture_taps;

typedef struct yk_mixture_args {
  yk_normed *x; /* n_rows rows, whose partial is not ADDED; complete afterwards */
  /* rows act [n_rows, hidden] are the caller's and alias neither x nor the scratch; the forward sets the rest */
  yk_partial *y;
  const void *router_x;    /* act [n_rows, hidden] the router's inputs; NULL: x */
  const int32_t *kv_slots; /* device [n_rows], or NULL: see yk_route_args */
  int32_t n_rows;
  void *scratch; /* mixture_scratch_bytes of device memory */
  const yk_mixture_host *host;
  yk_mixture_taps *taps; /* output; may be NULL */
} yk_mixture_args;

#ifdef __cplusplus
}
#endif
#endif
