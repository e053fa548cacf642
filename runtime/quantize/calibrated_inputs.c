#include "quantize/calibrated_inputs.h"

#include <stdlib.h>
#include <string.h>

void yk_calibration_free(yk_calibration *calibration)
{
  for (int32_t i = 0; calibration->inputs && i < calibration->config->n_layers * YK_N_INPUT_KINDS; i++) {
    free(calibration->inputs[i].sums);
    free(calibration->inputs[i].rows);
  }
  for (int32_t i = 0; calibration->choices && i < calibration->config->n_layers; i++) free(calibration->choices[i]);
  free(calibration->inputs);
  free(calibration->choices);
}

int32_t yk_calibrated_expert_rows(const yk_calibration *calibration, int32_t layer, yk_input_kind kind, int32_t expert,
                                  float *to)
{
  const yk_calibrated_input *input = yk_calibrated_input_of(calibration, layer, kind);
  const int32_t *choices = calibration->choices[layer];
  int64_t top_k = calibration->config->experts.top_k;
  int32_t n = 0;
  for (int64_t i = 0; i < calibration->n_rows * top_k; i++) {
    if (choices[i] != expert) continue;
    int64_t row = kind == YK_INPUT_EXPERT_DOWN ? i : i / top_k;
    if (to) memcpy(to + n * input->k, input->rows + row * input->k, (size_t)input->k * sizeof *to);
    n++;
  }
  return n;
}
