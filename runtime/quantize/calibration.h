/* calibration.h - what a model's linear layers read while it reads a text. */
#ifndef YK_QUANTIZE_CALIBRATION_H
#define YK_QUANTIZE_CALIBRATION_H

#include "loader/checkpoint.h"
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
  double *sums;   /* [k] of |x| */
  float *rows;    /* [n_rows, k] of tokens at equal distances */
  int32_t n_rows; /* at most YOKE_CALIBRATION_ROWS */
} yk_calibrated_input;

typedef struct yk_calibration {
  int32_t n_layers, n_tokens;
  yk_calibrated_input *inputs; /* [n_layers, YK_N_INPUT_KINDS] */
} yk_calibration;

/* yk_calibrate - one pass of the 16-bit model over the text's first tokens, 512 at a time, with float32 activations on
 *   the CPU. Free with yk_calibration_free, also after an error.
 *   Errors: those of tokenizer, checkpoint and model; YK_E_INVAL (a text of fewer than 16 tokens), YK_E_CANCELLED. */
yk_status yk_calibrate(const yk_quantize_run *run, const yk_checkpoint *checkpoint, yk_calibration *out, yk_err *err);
void yk_calibration_free(yk_calibration *calibration);

/* yk_calibrated_input_of - of a layer. */
static inline yk_calibrated_input *yk_calibrated_input_of(const yk_calibration *calibration, int32_t layer,
                                                          yk_input_kind kind)
{
  return &calibration->inputs[(size_t)layer * YK_N_INPUT_KINDS + kind];
}

#endif
