/* single_token_ring.cuh - a warp's ring of weight stages: which bytes each copy loads, and when the copy is issued.
 * Copies are in the order of the warp's work. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_RING_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_RING_CUH

#include "kernels/cuda/moe/single_token_work.cuh"

namespace yk_moe {

/* n / by for counts of units, in far fewer instructions than integer division. Exact while n is below a million: n +
 * 0.5 is at least 0.5 away from a multiple of by, which exceeds the error of the approximation. */
__device__ __forceinline__ int quotient_of_units(int n, int by)
{
  return static_cast<int>(__fdividef(static_cast<float>(n) + 0.5f, static_cast<float>(by)));
}

/* A warp's ring of stages. Each lane holds the description of one of 32 units and issues that unit's copy. */
template <typename PANEL> struct single_token_ring {
  static constexpr int STAGE_BYTES = SINGLE_TOKEN_GROUP * PANEL::BYTES;
  const single_token_params &p;
  const single_token_work &w;
  const int *matrices; /* matrices of the slots */
  uint32_t memory, full;
  int first = 0; /* the unit of lane 0 */
  /* The lane's unit. Gate and up: the slot, -1 for the shared expert; the offset within the matrix; the number of
   * panels n, and n_next further panels in the next slot's matrix. Down: the first K tile, the panel, and the number n
   * of K tiles. */
  int slot_or_tile, offset_or_panel, n, n_next;
  int issued = 0, done = 0; /* units */
  int issue_stage = 0;
  ring_position at;

  __device__ __forceinline__ void describe()
  {
    int i = first + static_cast<int>(threadIdx.x % WARP);
    n = n_next = slot_or_tile = offset_or_panel = 0;
    if (i < w.n_gate_up) {
      const int group = quotient_of_units(i, w.n_k_tiles), tile = w.k_tile + i - group * w.n_k_tiles;
      const int shared_groups = (w.n_shared + SINGLE_TOKEN_GROUP - 1) / SINGLE_TOKEN_GROUP;
      const bool is_shared = group < shared_groups;
      const int before = (is_shared ? group : group - shared_groups) * SINGLE_TOKEN_GROUP;
      int panel = before + (is_shared ? w.shared_panel : w.expert_panel), panels = p.gate_up.shared_panels;
      n = min(SINGLE_TOKEN_GROUP, (is_shared ? w.n_shared : w.n_expert) - before);
      slot_or_tile = -1;
      if (!is_shared) {
        panels = p.gate_up.n_panels;
        slot_or_tile = p.by_panels.quotient(panel);
        panel -= slot_or_tile * panels;
        n_next = max(panel + n - panels, 0);
        n -= n_next;
      }
      offset_or_panel = (tile * panels + panel) * PANEL::BYTES;
    } else if (i < w.n_units) {
      const int groups = (w.n_down_tiles + SINGLE_TOKEN_GROUP - 1) / SINGLE_TOKEN_GROUP,
                panel = quotient_of_units(i - w.n_gate_up, groups);
      const int before = (i - w.n_gate_up - panel * groups) * SINGLE_TOKEN_GROUP;
      slot_or_tile = w.down_tile + before;
      offset_or_panel = w.down_panel + panel;
      n = min(SINGLE_TOKEN_GROUP, w.n_down_tiles - before);
    }
  }

  /* Called by the lane of the next unit. */
  __device__ __forceinline__ void issue(bool is_gate_up, int stage) const
  {
    uint32_t to = memory + stage * STAGE_BYTES;
    const uint32_t barrier = full + stage * 8;
    mbarrier_arrive_expect(barrier, (n + n_next) * PANEL::BYTES);
    if (is_gate_up) {
      const uint8_t *from =
          slot_or_tile < 0 ? p.gate_up.shared : p.gate_up.weights + matrices[slot_or_tile] * p.gate_up.matrix_bytes;
      bulk_copy_once(to, from + offset_or_panel, n * PANEL::BYTES, barrier);
      if (n_next == 0) return;
      from = p.gate_up.weights + matrices[slot_or_tile + 1] * p.gate_up.matrix_bytes;
      const int next_offset = offset_or_panel + (n - p.gate_up.n_panels) * PANEL::BYTES;
      bulk_copy_once(to + n * PANEL::BYTES, from + next_offset, n_next * PANEL::BYTES, barrier);
      return;
    }
#pragma unroll 1
    for (int tile = slot_or_tile; tile < slot_or_tile + n; tile++, to += PANEL::BYTES) {
      const int slot = min(p.by_down_tiles.quotient(tile), w.n_slots);
      const uint8_t *from = slot < w.n_slots ? p.down.weights + matrices[slot] * p.down.matrix_bytes : p.down.shared;
      const int panel = (tile - slot * p.down.k_tiles) * p.down.n_panels + offset_or_panel;
      bulk_copy_once(to, from + static_cast<int64_t>(panel) * PANEL::BYTES, PANEL::BYTES, barrier);
    }
  }

  /* Issues units up to `end`, which are gate and up's and fit in the ring: each lane issues its own unit, into the
   * stage of the same number. */
  __device__ __forceinline__ void begin(int end)
  {
    const int lane = threadIdx.x % WARP;
    if (lane >= issued && lane < end) issue(true, lane);
    issued = max(issued, end);
    issue_stage = issued == p.stages ? 0 : issued;
  }

  __device__ __forceinline__ void issue_next()
  {
    if (issued == w.n_units || issued - done == p.stages) return;
    if (issued == first + WARP) {
      first += WARP;
      describe();
    }
    if (static_cast<int>(threadIdx.x % WARP) == issued - first) issue(issued < w.n_gate_up, issue_stage);
    issued++;
    issue_stage = issue_stage + 1 == p.stages ? 0 : issue_stage + 1;
  }

  __device__ __forceinline__ uint32_t wait() const
  {
    mbarrier_wait_asm_loop(full + at.stage * 8, at.phase);
    return memory + at.stage * STAGE_BYTES;
  }

  /* Called by all lanes once a unit is consumed. */
  __device__ __forceinline__ void next()
  {
    __syncwarp();
    done++;
    at.advance(p.stages);
    issue_next();
  }
};

} // namespace yk_moe

#endif
