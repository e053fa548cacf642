/* awq_scales.h - activation-aware quantisation of the layers that Yoke's model runs.
 *
 * AWQ: Activation-aware Weight Quantization, Lin et al., 2023 (arXiv 2306.00978), and its public code AutoAWQ
 * (awq/quantize/quantizer.py, scale.py). Inputs with a large mean magnitude matter more: input channel i of the layers
 * that read x is multiplied by s_i before rounding, and the layer or norm that writes x divides by s_i, so the model
 * computes the same function. s = m^a, where m_i is the mean of |x_i| over a text's tokens (at least 1e-4 after the
 * power), divided by sqrt(max s * min s). a is the value of 0, 1/20, ... 19/20 with which rounding changes the layers'
 * outputs least, in the mean square over sampled tokens. Then the weights of each group are clipped at the limits that
 * are best for the group's part of the output (kernels/awq_quantize.h), except for q and k, because clipping harms
 * their product, and for groups of more than 1024.
 *
 * x is scaled if all its readers are quantised, except readers that are floats in every format, and if its writer, when
 * it is a linear layer, is quantised too (input_kinds.h has the table). The inputs of o are scaled only if no two query
 * heads share values. q, k and the layers that produce them (q_a, q_b) are not clipped.
 *
 * A norm divided by s is rounded to its type; s is then recomputed as the quotient of the old norm and the new norm, so
 * that this rounding costs nothing. If a router or the score of a shared expert reads x too, its weights are multiplied
 * by s and stay 16 bits: s is then a power of two, so that both products are exact and every token goes to the same
 * experts with the same weights as before.
 *
 * An expert's own layers are searched with the kept tokens that chose the expert. An expert that no kept token chose
 * has no scales for down and no limits; the number of such experts is logged. */
#ifndef YK_QUANTIZE_AWQ_SCALES_H
#define YK_QUANTIZE_AWQ_SCALES_H

#include "quantize/run.h"

/* yk_awq_scales_check - whether this method supports a model; dir: named in messages. Errors: YK_E_UNSUPPORTED,
 *   YK_E_FORMAT (a layer is missing). */
yk_status yk_awq_scales_check(const yk_checkpoint *checkpoint, const char *dir, yk_err *err);

/* yk_awq_scales_create - run the model over the calibration text on the rank's device and keep the inputs of its
 *   layers. Scales are searched, on the same device, when a layer first needs them. rank must outlive *out.
 *   Errors: those of loading a checkpoint, YK_E_INVAL (a text of fewer than 16 tokens), YK_E_CANCELLED. */
yk_status yk_awq_scales_create(const yk_quantize_rank *rank, yk_awq_scales **out, yk_err *err);
void yk_awq_scales_free(yk_awq_scales *scales); /* NULL is allowed */

/* yk_awq_scales_apply - add scales and limits to a quantised layer's weight, which must be accessible to the device.
 *   scales owns them; they are valid until the next call. Errors: YK_E_FORMAT (weights that cannot be quantised),
 *   YK_E_CANCELLED, YK_E_NOMEM, YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_awq_scales_apply(yk_awq_scales *scales, const char *module, yk_awq_floats *weight, yk_err *err);

/* yk_awq_scales_fold - apply scaling to an unquantised tensor of a module (NULL: of none): a norm, a bias, the weight
 *   of a router. *out: the tensor's elements, owned by scales and valid until the next call; NULL: the tensor is
 *   unchanged. Errors as above. */
yk_status yk_awq_scales_fold(yk_awq_scales *scales, const yk_tensor *tensor, const char *module, const void **out,
                             yk_err *err);

#endif
