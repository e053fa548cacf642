/* awq_scales.h - activation-aware quantising of the layers that Yoke's model runs.
 *
 * AWQ: Activation-aware Weight Quantization, Lin et al., 2023 (arXiv 2306.00978), and its public code AutoAWQ
 * (awq/quantize/quantizer.py, scale.py). Inputs that are large in the mean matter more: input channel i of the layers
 * that read x is multiplied by s_i before rounding, and what writes x divides by s_i, so that the model computes what
 * it did before. s = m^a, m_i the mean of |x_i| over a text's tokens (at least 1e-4 after the power), divided by
 * sqrt(max s * min s); a of 0, 1/20, ... 19/20 is the one with which rounding changes the layers' outputs least, in the
 * mean square over sampled tokens. Then each group of weights is cut where that is best for its part of the output
 * (kernels/awq_quantize.h), but for q and k, whose product cutting hurts, and groups of more than 1024.
 *
 * x is scaled where all that read it are quantised, but for those that are floats in every format, and a linear layer
 * that writes it is quantised too (input_kinds.h has the table); what o reads only where each query head has values of
 * its own. q, k and what they are made of (q_a, q_b) are not cut.
 *
 * A norm that is divided by s is rounded to its type; s is then the quotient of the old norm and the new one, so that
 * rounding costs nothing. Where a router or the score of a shared expert reads x too, its weights are multiplied by s
 * and stay 16 bits: s then is a power of two, so that both are exact and every token goes to the experts to which it
 * went before, with the same weights.
 *
 * An expert's own layers are searched with the kept tokens that chose it. One that none of them chose has no scales for
 * down and no limits; how many there are of those is told to the log. */
#ifndef YK_QUANTIZE_AWQ_SCALES_H
#define YK_QUANTIZE_AWQ_SCALES_H

#include "quantize/run.h"

/* yk_awq_scales_check - whether this is done for a model; dir: named in messages. Errors: YK_E_UNSUPPORTED,
 *   YK_E_FORMAT (a layer is not there). */
yk_status yk_awq_scales_check(const yk_checkpoint *checkpoint, const char *dir, yk_err *err);

/* yk_awq_scales_create - run the model over the calibration text on the rank's device and keep what its layers read.
 *   Scales are searched, on the same device, when a layer is asked for. rank must outlive it.
 *   Errors: those of loading a checkpoint, YK_E_INVAL (a text of fewer than 16 tokens), YK_E_CANCELLED. */
yk_status yk_awq_scales_create(const yk_quantize_rank *rank, yk_awq_scales **out, yk_err *err);
void yk_awq_scales_free(yk_awq_scales *scales); /* NULL is allowed */

/* yk_awq_scales_apply - a quantised layer's weight, which the device sees, with its scales and limits, which are the
 *   object's and hold until the next call. Errors: YK_E_FORMAT (weights that cannot be quantised), YK_E_CANCELLED,
 *   YK_E_NOMEM, YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_awq_scales_apply(yk_awq_scales *scales, const char *module, yk_awq_floats *weight, yk_err *err);

/* yk_awq_scales_fold - a tensor that is not quantised, of a module (NULL: of none), as scaling leaves it: a norm, a
 *   bias, the weight of a router. *out: the tensor's elements, the object's, until the next call; NULL: it stays as it
 *   is. Errors as above. */
yk_status yk_awq_scales_fold(yk_awq_scales *scales, const yk_tensor *tensor, const char *module, const void **out,
                             yk_err *err);

#endif
