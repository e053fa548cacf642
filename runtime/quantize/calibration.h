/* calibration.h - what a model's linear layers read while it reads a text. */
#ifndef YK_QUANTIZE_CALIBRATION_H
#define YK_QUANTIZE_CALIBRATION_H

#include "quantize/run.h"

/* The linear layers that read the same rows. */
typedef enum yk_input_kind {
  YK_INPUT_QKV,
  YK_INPUT_O,
  YK_INPUT_GATE_UP,
  YK_INPUT_DOWN,
  YK_N_INPUT_KINDS
} yk_input_kind;

/* What they read, over all tokens of the text. */
typedef struct yk_calibrated_input {
  int64_t k;
  double *sums;        /* [k] of |x| */
  double *device_sums; /* the same, of the device; NULL once sums are there */
  float *rows;         /* of the device: [n_rows, k] of tokens at equal distances */
  int32_t n_rows;      /* at most YOKE_CALIBRATION_ROWS */
} yk_calibrated_input;

typedef struct yk_calibration {
  int32_t n_layers, n_tokens;
  yk_calibrated_input *inputs; /* [n_layers, YK_N_INPUT_KINDS] */
} yk_calibration;

/* yk_calibration_limits - what the rank's device must hold at once. */
yk_device_limits yk_calibration_limits(const yk_checkpoint *checkpoint);

/* yk_calibration_check - whether every layer has the linear layers that are looked at, before anything is done.
 *   Errors: YK_E_FORMAT, YK_E_UNSUPPORTED. */
yk_status yk_calibration_check(const yk_checkpoint *checkpoint, yk_err *err);

/* yk_calibrate - one pass of the 16-bit model over the text's first tokens, 512 at a time, on the rank's device, with
 *   the device's activations. Free with yk_calibration_free, also after an error.
 *   Errors: those of tokenizer, checkpoint and model; YK_E_INVAL (a text of fewer than 16 tokens), YK_E_CANCELLED. */
yk_status yk_calibrate(const yk_quantize_rank *rank, yk_calibration *out, yk_err *err);
void yk_calibration_free(const yk_quantize_rank *rank, yk_calibration *calibration);

/* yk_calibrated_input_of - of a layer. */
static inline yk_calibrated_input *yk_calibrated_input_of(const yk_calibration *calibration, int32_t layer,
                                                          yk_input_kind kind)
{
  return &calibration->inputs[(size_t)layer * YK_N_INPUT_KINDS + kind];
}

#endif
