/* recurrent_sequence.cuh - a sequence of a step in kernels of recurrent layers: its rows, where its state comes from
 * and goes to, and where its chunks end. PARAMS are a kernel's parameters: the arrays of yk_batch under their names,
 * the tables states and snapshots, state_floats of a state, and min_chunk_rows. */
#ifndef YK_KERNELS_CUDA_COMMON_RECURRENT_SEQUENCE_CUH
#define YK_KERNELS_CUDA_COMMON_RECURRENT_SEQUENCE_CUH

#include <cstdint>

#include "kernels/device.h"

namespace yk_cuda {

constexpr int STATE_CHUNK = YK_STATE_SAVE_TOKENS; /* rows of a whole chunk */

/* Sets the arrays of a step in a kernel's parameters. */
template <typename PARAMS> void take_batch(PARAMS &p, const yk_batch &b)
{
  p.n_tokens = b.n_tokens;
  p.seq_of_row = b.seq_of_row;
  p.row_starts = b.row_starts;
  p.kv_tokens = b.kv_tokens;
  p.seq_slots = b.seq_slots;
  p.state_loads = b.state_loads;
  p.state_saves = b.state_saves;
  p.state_save_rows = b.state_save_rows;
}

struct recurrent_sequence {
  int64_t row, end;
  const float *before; /* or NULL: zeros */
  float *after;
  float *snapshot;  /* or NULL */
  int64_t save_end; /* the snapshot is of the state after the row before this one */

  template <typename PARAMS> __device__ bool is_long(const PARAMS &p) const
  {
    return end - row >= p.min_chunk_rows;
  }

  /* Reads only arrays of the step. A padding sequence has no rows. */
  template <typename PARAMS> __device__ static recurrent_sequence of(const PARAMS &p, int32_t seq)
  {
    recurrent_sequence s = {};
    const int32_t slot = p.seq_slots[seq], load = p.state_loads[seq], save = p.state_saves[seq];
    const int32_t row = p.row_starts[seq], end = p.row_starts[seq + 1], save_rows = p.state_save_rows[seq];
    if (slot < 0) return s; /* after all loads, so that none waits for another */
    s.row = row;
    s.end = end;
    s.after = p.states + slot * p.state_floats;
    if (load != YK_STATE_ZERO) s.before = load == YK_STATE_KEEP ? s.after : p.snapshots + load * p.state_floats;
    if (save < 0) return s;
    s.snapshot = p.snapshots + save * p.state_floats;
    s.save_end = row + save_rows;
    return s;
  }

  /* The row after a chunk that begins at row `first`. position: of that row in the sequence. */
  __device__ __forceinline__ int64_t chunk_end(int64_t first, int64_t position) const
  {
    int64_t chunk = first + STATE_CHUNK - position % STATE_CHUNK;
    if (snapshot && save_end > first && save_end < chunk) chunk = save_end;
    return chunk < end ? chunk : end;
  }
};

/* Counts this thread block among the n that read the same inputs before one of them overwrites these; returns whether
 * all n have. One thread calls this function, after a barrier that follows the thread block's reads. counter: 0 before
 * and after. */
__device__ __forceinline__ bool is_last_reader(uint32_t *counter, uint32_t n)
{
  __threadfence();
  return atomicInc(counter, n - 1) == n - 1;
}

} // namespace yk_cuda

#endif
