#include "kernels/cpu/cpu_states.h"

#include <string.h>

/* Copies n floats from offset `at` of the state before the step, which may overlap `to`; zeros if there is no such
 * state. */
static void copy_before(const yk_cpu_states *states, int32_t seq, int64_t at, int64_t n, float *to)
{
  const size_t n_bytes = (size_t)n * sizeof *to;
  if (states->batch->state_loads[seq] == YK_STATE_ZERO)
    memset(to, 0, n_bytes);
  else
    memmove(to, yk_cpu_state_before(states, seq) + at, n_bytes);
}

float *yk_cpu_state_begin(const yk_cpu_states *states, int32_t seq, int64_t at, int64_t n)
{
  float *after = yk_cpu_state_after(states, seq) + at;
  if (states->batch->state_loads[seq] != YK_STATE_KEEP) copy_before(states, seq, at, n, after);
  return after;
}

void yk_cpu_state_save(const yk_cpu_save *save, int64_t row, int64_t at, int64_t n, const float *state)
{
  if (save->to && row == save->after_row) memcpy(save->to + at, state, (size_t)n * sizeof *state);
}

/* Writes the window before row `end` of the batch to `to`: inputs of the sequence's rows in this step, and older inputs
 * from the state before the step. Each input moves towards the front, in ascending order, so `to` may be the window of
 * the state before. */
static void store(const yk_cpu_window *w, int32_t seq, int64_t end, float *to)
{
  const int64_t n = w->n_channels, first = w->states.batch->row_starts[seq];
  for (int t = 0; t < w->n_inputs; t++) {
    const int64_t row = end - w->n_inputs + t;
    if (row >= first)
      w->gather(w->user, row, to + t * n);
    else
      copy_before(&w->states, seq, w->offset + (row - first + w->n_inputs) * n, n, to + t * n);
  }
}

/* The snapshot is stored first: both calls read the state before, and the second call may overwrite it. */
void yk_cpu_window_store(const yk_cpu_window *window, int32_t seq)
{
  const yk_cpu_states *states = &window->states;
  const yk_cpu_save save = yk_cpu_save_of(states, seq);
  if (save.to) store(window, seq, save.after_row + 1, save.to + window->offset);
  store(window, seq, states->batch->row_starts[seq + 1], yk_cpu_state_after(states, seq) + window->offset);
}
