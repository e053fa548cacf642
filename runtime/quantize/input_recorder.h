/* input_recorder.h - record the inputs of a model's linear layers while the model reads a text.
 *
 * Sums and rows are computed on the model's device (awq_observe) and fetched once the text is read. The inputs of
 * experts' down projections are fetched window by window, because only the host can assign the rows to experts: for
 * each kept token the rows of all its choices. */
#ifndef YK_QUANTIZE_INPUT_RECORDER_H
#define YK_QUANTIZE_INPUT_RECORDER_H

#include "quantize/calibrated_inputs.h"
#include "quantize/observer.h"
#include "quantize/run.h"

/* Host memory. */
typedef struct yk_host_buffer {
  void *memory;
  size_t n_bytes;
} yk_host_buffer;

typedef struct yk_input_recorder {
  yk_observer observer;
  const yk_quantize_rank *rank;
  yk_calibration *calibration;
  const yk_linear **linears; /* [n_layers, YK_N_INPUT_KINDS] */
  int32_t n_seen;            /* tokens of earlier windows; the caller updates the count */
  int32_t layer;             /* layer of the linear layer that ran last */
  yk_host_buffer x, choices, slots;
} yk_input_recorder;

/* yk_input_recorder_begin - allocate the calibration's inputs and observe the rank's device from now on, for a model
 *   created after this call. Free with yk_input_recorder_free, also after an error.
 *   Errors: YK_E_NOMEM, YK_E_CAPACITY. */
yk_status yk_input_recorder_begin(const yk_quantize_rank *rank, yk_calibration *calibration, yk_input_recorder *out,
                                  yk_err *err);

/* yk_input_recorder_finish - fetch the recorded data. Errors: YK_E_NOMEM, YK_E_DEVICE. */
yk_status yk_input_recorder_finish(yk_input_recorder *recorder, yk_err *err);
void yk_input_recorder_free(yk_input_recorder *recorder);

#endif
