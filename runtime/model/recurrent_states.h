/* recurrent_states.h - the states of all sequences of one layer on one rank, and snapshots of them: two tables in the
 * device's memory. Every kind of layer with a state per sequence has both; its operation finds a sequence's rows
 * through seq_slots, state_loads and state_saves of yk_batch (kernels/device.h). */
#ifndef YK_MODEL_RECURRENT_STATES_H
#define YK_MODEL_RECURRENT_STATES_H

#include "model/layer.h"

typedef struct yk_recurrent_states {
  void *states;    /* device [max_seqs, n_bytes] */
  void *snapshots; /* device [n_state_entries, n_bytes]; NULL if there are no entries */
  int64_t n_bytes; /* of one state; 0 on a rank without a share of the layer */
} yk_recurrent_states;

/* yk_recurrent_states_load - allocates both tables, in a zeroed *out, for the loader's limits. After an error too, call
 *   yk_recurrent_states_free. Errors: those of the device. */
yk_status yk_recurrent_states_load(const yk_rank_loader *loader, int64_t n_bytes, yk_recurrent_states *out,
                                   yk_err *err);

/* yk_recurrent_states_copy - copies a state between slots, as copy requires before the step's layers run; no effect if
 *   copy->from_slot is negative or the rank has no share. Errors: those of the device. Thread: the rank's own. */
yk_status yk_recurrent_states_copy(const yk_recurrent_states *states, yk_device *dev, const yk_step_copy *copy,
                                   yk_err *err);
void yk_recurrent_states_free(const yk_recurrent_states *states, yk_device *dev);

#endif
