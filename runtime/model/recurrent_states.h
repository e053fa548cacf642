/* recurrent_states.h - the states of all sequences of one layer: a table on the device, and a table of snapshots in
 * host memory. Every kind of layer with a state per sequence has one; its operation finds a sequence's state as
 * yk_batch (kernels/device.h) says. */
#ifndef YK_MODEL_RECURRENT_STATES_H
#define YK_MODEL_RECURRENT_STATES_H

#include "model/layer.h"

typedef struct yk_recurrent_states {
  void *states;    /* device [max_seqs], of n_bytes each */
  void *snapshots; /* host [n_state_entries]; NULL if there are none */
  int64_t n_bytes; /* of one state; 0 on a rank without a share of the layer */
} yk_recurrent_states;

/* yk_recurrent_states_load - fill zeroed tables. After an error too, call yk_recurrent_states_free. Errors: those of
 *   the device. */
yk_status yk_recurrent_states_load(const yk_rank_loader *loader, int64_t n_bytes, yk_recurrent_states *out,
                                   yk_err *err);

/* yk_recurrent_states_copy - the copy of a sequence's state that a step begins with. Errors: those of the device. */
yk_status yk_recurrent_states_copy(const yk_recurrent_states *states, yk_device *dev, const yk_step_copy *copy,
                                   yk_err *err);
void yk_recurrent_states_free(const yk_recurrent_states *states, yk_device *dev);

#endif
