/* calibrated_inputs.h - the inputs of a model's linear layers, recorded while the model read a text. */
#ifndef YK_QUANTIZE_CALIBRATED_INPUTS_H
#define YK_QUANTIZE_CALIBRATED_INPUTS_H

#include "quantize/input_kinds.h"

/* Inputs of one kind in one layer, over all tokens of the text. In host memory, except while the text is being read. */
typedef struct yk_calibrated_input {
  int64_t k;    /* 0: the layer has no such inputs */
  double *sums; /* [k] of |x| over all tokens; NULL for EXPERT_DOWN */
  float *rows;  /* [n_rows, k] of kept tokens; EXPERT_DOWN [n_rows, top_k, k] */
  double *device_sums;
  float *device_rows; /* device copies of sums and rows; NULL once the text is read */
} yk_calibrated_input;

typedef struct yk_calibration {
  const yk_model_config *config;
  int32_t n_tokens;
  int32_t n_rows;              /* kept tokens, equally spaced; at most YK_CALIBRATION_ROWS */
  yk_calibrated_input *inputs; /* [n_layers, YK_N_INPUT_KINDS] */
  int32_t **choices;           /* [n_layers] -> [n_rows, top_k] experts of each kept token; NULL without experts */
} yk_calibration;

void yk_calibration_free(yk_calibration *calibration);

/* yk_calibrated_input_of - the inputs of a kind in a layer. */
static inline yk_calibrated_input *yk_calibrated_input_of(const yk_calibration *calibration, int32_t layer,
                                                          yk_input_kind kind)
{
  return &calibration->inputs[(size_t)layer * YK_N_INPUT_KINDS + kind];
}

/* yk_calibrated_expert_rows - copies the kept rows of the tokens that chose an expert, as the expert's linear layers of
 *   a kind (GATE_UP or EXPERT_DOWN) read them, to `to` [n_rows, k]; NULL: only counts them. Returns the number of
 *   rows. */
int32_t yk_calibrated_expert_rows(const yk_calibration *calibration, int32_t layer, yk_input_kind kind, int32_t expert,
                                  float *to);

#endif
