/* normed.c - conversion of a pending norm (partial.h) to an add_norm (device.h). */
#include "kernels/device.h"

yk_add_norm_args yk_normed_add_norm(const yk_normed *normed)
{
  return (yk_add_norm_args){.y = normed->rows,
                            .residual = normed->residual,
                            .partials = {normed->partial.rows},
                            .n_partials = 1,
                            .result_w = normed->result_w,
                            .w = normed->w,
                            .n_rows = normed->n_rows,
                            .hidden = normed->hidden,
                            .alpha = normed->alpha,
                            .gain = normed->gain,
                            .eps = normed->eps,
                            .combine = yk_partial_slots(&normed->partial)};
}
