/* mixture_calls.h - derives the arguments of a mixture's parts (experts.h) from those of its forward: the common part
 * of the devices' implementations. */
#ifndef YK_KERNELS_MIXTURE_CALLS_H
#define YK_KERNELS_MIXTURE_CALLS_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_mixture_lay_out - the layout of the scratch. staging bytes: for grouped forwards of max_rows rows. Thread: any. */
yk_mixture_layout yk_mixture_lay_out(const yk_mixture_sizes *sizes, int64_t gate_up_staging_bytes,
                                     int64_t down_staging_bytes);

/* The arguments of every part of one forward. */
typedef struct yk_mixture_calls {
  yk_route_args route; /* norm is NULL: args->x has the state of the norm */
  yk_linear_args shared_gate_up, shared_down;
  yk_linear_args latent_in, latent_out; /* of latent experts: before gate_up, and after sum */
  yk_weigh_args weigh;                  /* with weighs_inputs: writes the rows that gate_up reads */
  yk_grouped_args gate_up, down;
  yk_linear_sums_args maxima; /* maxima of down's inputs */
  int64_t n_maxima;           /* elements of their all-reduce */
  yk_combine_args sum;        /* of latent experts: rows [n_rows, latent], without the shared expert */
} yk_mixture_calls;

/* yk_mixture_calls_of - the arguments of every part of a forward, which point into the mixture's scratch. */
yk_mixture_calls yk_mixture_calls_of(const yk_mixture *mixture, const yk_mixture_args *args);

/* yk_mixture_taps_fill - fills args->taps, unless NULL. */
void yk_mixture_taps_fill(const yk_mixture *mixture, const yk_mixture_args *args);

/* yk_mixture_begin - calls the host's begin. */
static inline yk_status yk_mixture_begin(const yk_mixture_args *args, yk_mixture_phase phase, yk_err *err)
{
  return args->host->begin ? args->host->begin(args->host->user, phase, err) : YK_OK;
}

/* The device's own linear operations, without any wrapper table around the device. */
typedef struct yk_mixture_linear_ops {
  yk_status (*forward)(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err);
  yk_status (*maxima)(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
  yk_status (*sums)(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
  yk_status (*scale)(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
} yk_mixture_linear_ops;

/* yk_mixture_share_maxima - computes the largest |x| of each slot's row over all ranks, for calls->down.maxima. */
yk_status yk_mixture_share_maxima(yk_device *dev, const yk_mixture_linear_ops *ops, const yk_mixture *mixture,
                                  const yk_mixture_args *args, const yk_mixture_calls *calls, yk_err *err);

/* yk_mixture_run_shared - runs the shared expert in separate operations, into args->y->rows; in steps if ranks share
 *   the scale of its rows. */
yk_status yk_mixture_run_shared(yk_device *dev, const yk_mixture_linear_ops *ops, const yk_mixture *mixture,
                                const yk_mixture_args *args, const yk_mixture_calls *calls, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
