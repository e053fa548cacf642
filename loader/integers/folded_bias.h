/* folded_bias.h - folds terms that a checkpoint adds before or inside a product into the bias after the product.
 *
 *   (x + b) W^T                                     =  x W^T + b W^T                 b: an offset of the norm before
 *   (sum of x_q q + quant_bias) s                   =  sum of (x_q - z) q s + (quant_bias + z sum of q) s
 *
 * where x_q are static inputs with zero z, and s is the scale of products. */
#ifndef YK_LOADER_FOLDED_BIAS_H
#define YK_LOADER_FOLDED_BIAS_H

#include "base/status.h"
#include "kernels/weight.h"

/* yk_folded_bias - biases of outputs [n_begin, n_end) of a checkpoint's weight with folds_bias, including its own bias,
 *   to [n_end - n_begin]; all inputs are read. Sums are exact integers, or in double precision.
 *   Errors: YK_E_NOMEM; those of yk_dequantise; YK_E_FORMAT naming the tensor of a bias that is not finite.
 *   Thread: any. */
yk_status yk_folded_bias(const yk_weight_view *weight, int64_t n_begin, int64_t n_end, float *to, yk_err *err);

#endif
