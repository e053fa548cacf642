/* cpu_states.h - the recurrent states of a layer's sequences on the CPU device, for every operation with such states:
 * the state that a sequence begins a step with ("before"), the state that it ends the step with ("after"), and the
 * snapshot to save in between. yk_batch (kernels/device.h) has the indices. */
#ifndef YK_KERNELS_CPU_STATES_H
#define YK_KERNELS_CPU_STATES_H

#include "kernels/device.h"

/* A layer's tables: states [max_seqs, n_floats], snapshots [n_state_entries, n_floats] or NULL. */
typedef struct yk_cpu_states {
  float *states, *snapshots;
  int64_t n_floats;
  const yk_batch *batch;
} yk_cpu_states;

/* The snapshot of a sequence to save in the step. */
typedef struct yk_cpu_save {
  float *to;         /* [n_floats]; NULL: none */
  int64_t after_row; /* row of the batch whose state is saved; -1: none */
} yk_cpu_save;

/* yk_cpu_state_before - the state that a sequence begins the step with, [n_floats]; NULL: all zeros. Not for padding
 * sequences, as all below. Thread: any. */
static inline const float *yk_cpu_state_before(const yk_cpu_states *s, int32_t seq)
{
  const int32_t load = s->batch->state_loads[seq];
  if (load == YK_STATE_ZERO) return NULL;
  return load == YK_STATE_KEEP ? s->states + s->batch->seq_slots[seq] * s->n_floats : s->snapshots + load * s->n_floats;
}

/* yk_cpu_state_after - memory for the state that a sequence ends the step with, [n_floats]; may be the memory of the
 * state before. Thread: any. */
static inline float *yk_cpu_state_after(const yk_cpu_states *s, int32_t seq)
{
  return s->states + s->batch->seq_slots[seq] * s->n_floats;
}

/* yk_cpu_save_of - the snapshot to save within the step, if any, and its destination. Thread: any. */
static inline yk_cpu_save yk_cpu_save_of(const yk_cpu_states *s, int32_t seq)
{
  const yk_batch *batch = s->batch;
  const int32_t entry = batch->state_saves[seq];
  if (entry < 0) return (yk_cpu_save){NULL, -1};
  return (yk_cpu_save){s->snapshots + entry * s->n_floats, batch->row_starts[seq] + batch->state_save_rows[seq] - 1};
}

/* yk_cpu_state_begin - copies n floats from offset `at` of the state before to the same offset of the state after, or
 *   sets them to zeros without a state before. Returns that part of the state after. Thread: any, one per part. */
float *yk_cpu_state_begin(const yk_cpu_states *states, int32_t seq, int64_t at, int64_t n);

/* yk_cpu_state_save - copies n floats of the state after `row`, at offset `at` within the state, to the snapshot, if
 *   that row's state is saved. Thread: any, one per part. */
void yk_cpu_state_save(const yk_cpu_save *save, int64_t row, int64_t at, int64_t n, const float *state);

/* The window of a causal convolution: the last n_inputs inputs of every channel, which are a part of each state. */
typedef struct yk_cpu_window {
  yk_cpu_states states;
  int64_t offset; /* floats before the window [n_inputs, n_channels], oldest first, within a state */
  int64_t n_channels;
  int n_inputs;
  void (*gather)(const void *user, int64_t row, float *to); /* writes a row's inputs of all channels to `to` */
  const void *user;
} yk_cpu_window;

/* yk_cpu_window_store - writes the window after a sequence's last row of the step to the state after, and the window
 *   after the saved row to the snapshot to save. May overwrite the window of the state before, so call it when nothing
 *   in the step reads that window any more. Thread: any, one per sequence. */
void yk_cpu_window_store(const yk_cpu_window *window, int32_t seq);

#endif
