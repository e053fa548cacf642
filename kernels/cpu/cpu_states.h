/* cpu_states.h - the recurrent states of a layer's sequences on the CPU device, for every operation that keeps one:
 * which state a sequence begins with, and where it goes. */
#ifndef YK_KERNELS_CPU_STATES_H
#define YK_KERNELS_CPU_STATES_H

#include "kernels/device.h"

/* A layer's table of states and of snapshots: rows of n_floats. */
typedef struct yk_cpu_states {
  float *states, *snapshots;
  int64_t n_floats;
  const yk_batch *batch;
} yk_cpu_states;

/* A snapshot to save, and the row of the step after which. */
typedef struct yk_cpu_save {
  float *to; /* or NULL */
  int64_t after_row;
} yk_cpu_save;

/* yk_cpu_state_before - the state that a sequence begins the step with, or NULL for zeros. Thread: any. */
static inline const float *yk_cpu_state_before(const yk_cpu_states *s, int32_t seq)
{
  const int32_t load = s->batch->state_loads[seq];
  if (load == YK_STATE_ZERO) return NULL;
  return load == YK_STATE_KEEP ? s->states + s->batch->seq_slots[seq] * s->n_floats : s->snapshots + load * s->n_floats;
}

/* yk_cpu_state_after - the state that a sequence ends the step with; it may be the one before. Thread: any. */
static inline float *yk_cpu_state_after(const yk_cpu_states *s, int32_t seq)
{
  return s->states + s->batch->seq_slots[seq] * s->n_floats;
}

/* yk_cpu_save_of - the snapshot of a sequence to save in the step. Thread: any. */
static inline yk_cpu_save yk_cpu_save_of(const yk_cpu_states *s, int32_t seq)
{
  const yk_batch *batch = s->batch;
  const int32_t entry = batch->state_saves[seq];
  if (entry < 0) return (yk_cpu_save){NULL, -1};
  return (yk_cpu_save){s->snapshots + entry * s->n_floats, batch->row_starts[seq] + batch->state_save_rows[seq] - 1};
}

/* yk_cpu_state_begin - part of the state after := that part of the state before; n floats from `at` on. */
float *yk_cpu_state_begin(const yk_cpu_states *states, int32_t seq, int64_t at, int64_t n);

/* The window of a causal convolution: the last inputs of every channel, as a part of the states. */
typedef struct yk_cpu_window {
  yk_cpu_states states;
  int64_t offset; /* of the inputs [n_inputs, n_channels], oldest first, in a state */
  int64_t n_channels;
  int n_inputs;
  void (*gather)(const void *user, int64_t row, float *to); /* a row's inputs of all channels */
  const void *user;
} yk_cpu_window;

/* yk_cpu_window_store - the inputs after a sequence's last row of the step, in its state and in the snapshot to save.
 *   Call it when every part of the step has read the inputs before. Thread: any, one per sequence. */
void yk_cpu_window_store(const yk_cpu_window *window, int32_t seq);

#endif
