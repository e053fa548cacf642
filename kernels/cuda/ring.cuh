/* ring.cuh - a ring of stages in shared memory: the pipeline between warps that produce data and warps that consume
 * them.
 *
 *   producer   wait until the stage is empty -> have copies fill it -> next stage
 *   consumer   wait until the stage is full  -> read it -> arrive at its empty barrier -> next stage
 *
 * A stage has two mbarriers: its copies complete on the full one, its readers arrive at the empty one. Each warp
 * keeps its own position. In every round a stage's barriers pass one phase, so a wait names the parity of the round.
 * A producer starts one parity ahead: its first round finds all stages empty without anybody having said so. */
#ifndef YK_KERNELS_CUDA_RING_CUH
#define YK_KERNELS_CUDA_RING_CUH

#include "kernels/cuda/ptx/mbarrier.cuh"

namespace yk_cuda {

/* A stage and the parity of the round. */
struct ring_position {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void advance(int n_stages)
  {
    if (++stage == n_stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  /* By n stages, at most n_stages. */
  __device__ __forceinline__ void advance_by(int n, int n_stages)
  {
    stage += n;
    if (stage >= n_stages) {
      stage -= n_stages;
      phase ^= 1;
    }
  }
};

/* The ring as one warp sees it, with stages of equal size and up to MAX_STAGES of them. */
template <int MAX_STAGES> struct stage_ring {
  static constexpr int BARRIERS = 2 * MAX_STAGES;

  uint32_t memory, barriers; /* addresses in shared memory; barriers: MAX_STAGES full ones, then as many empty ones */
  int n_stages, stage_bytes;
  ring_position at;

  __device__ __forceinline__ stage_ring(uint32_t memory, uint32_t barriers, int n_stages, int stage_bytes)
      : memory(memory), barriers(barriers), n_stages(n_stages), stage_bytes(stage_bytes)
  {
  }
  __device__ __forceinline__ uint32_t data() const
  {
    return memory + at.stage * stage_bytes;
  }
  __device__ __forceinline__ uint32_t full() const
  {
    return barriers + at.stage * 8;
  }
  __device__ __forceinline__ uint32_t empty() const
  {
    return barriers + (MAX_STAGES + at.stage) * 8;
  }
  __device__ __forceinline__ void advance()
  {
    at.advance(n_stages);
  }

  /* By one thread, before any other uses the ring. full: arrivals that fill a stage, beside the bytes of its copies;
   * empty: arrivals that empty the stage. */
  __device__ __forceinline__ void init(int full_arrivals, int empty_arrivals) const
  {
    for (int i = 0; i < n_stages; i++) {
      yk_ptx::mbarrier_init(barriers + i * 8, full_arrivals);
      yk_ptx::mbarrier_init(barriers + (MAX_STAGES + i) * 8, empty_arrivals);
    }
  }

  __device__ __forceinline__ void start_producing()
  {
    at.phase = 1;
  }
};

} // namespace yk_cuda

#endif
