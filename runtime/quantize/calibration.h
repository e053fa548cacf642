/* calibration.h - record the inputs of a model's linear layers while the model reads a text. */
#ifndef YK_QUANTIZE_CALIBRATION_H
#define YK_QUANTIZE_CALIBRATION_H

#include "quantize/calibrated_inputs.h"
#include "quantize/run.h"

/* yk_calibration_limits - the limits that the rank's device must support. */
yk_device_limits yk_calibration_limits(const yk_checkpoint *checkpoint);

/* yk_calibration_check - whether every layer has the linear layers that calibration observes. Call it before any other
 *   work.
 *   Errors: YK_E_FORMAT, YK_E_UNSUPPORTED. */
yk_status yk_calibration_check(const yk_checkpoint *checkpoint, yk_err *err);

/* yk_calibrate - one pass of the 16-bit model over the text's first tokens, 512 at a time, on the rank's device, with
 *   the device's activations. Free with yk_calibration_free, also after an error.
 *   Errors: those of tokenizer, checkpoint and model; YK_E_INVAL (a text of fewer than 16 tokens), YK_E_CANCELLED. */
yk_status yk_calibrate(const yk_quantize_rank *rank, yk_calibration *out, yk_err *err);

#endif
