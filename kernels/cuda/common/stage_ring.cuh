/* stage_ring.cuh - a ring of stages in shared memory: the pipeline between producer warps, which load data, and
 * consumer warps, which use the data.
 *
 *   producer   wait until the stage is empty -> issue copies that fill the stage -> next stage
 *   consumer   wait until the stage is full  -> read the stage -> arrive at its empty barrier -> next stage
 *
 * A stage has two mbarriers: copies complete at the full one, consumers arrive at the empty one. Each warp keeps its
 * own position in the ring. Both barriers of a stage pass one phase in every round of the ring, so a wait gives the
 * parity of the round. A producer starts with parity 1: in its first round every stage is then empty at once, although
 * no consumer has arrived. */
#ifndef YK_KERNELS_CUDA_COMMON_STAGE_RING_CUH
#define YK_KERNELS_CUDA_COMMON_STAGE_RING_CUH

#include "kernels/cuda/ptx/mbarrier.cuh"

namespace yk_cuda {

/* A stage and the parity of the round, named phase as in mbarrier.cuh's waits. */
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

  /* Advance by n stages; n is at most n_stages. */
  __device__ __forceinline__ void advance_by(int n, int n_stages)
  {
    stage += n;
    if (stage >= n_stages) {
      stage -= n_stages;
      phase ^= 1;
    }
  }
};

/* One warp's view of the ring: n_stages stages of equal size, at most MAX_STAGES. */
template <int MAX_STAGES> struct stage_ring {
  static constexpr int BARRIERS = 2 * MAX_STAGES;

  /* Addresses in shared memory: the stages; MAX_STAGES full barriers and then MAX_STAGES empty ones. */
  uint32_t memory, barriers;
  int n_stages, stage_bytes;
  ring_position at;

  __device__ __forceinline__ stage_ring(uint32_t memory, uint32_t barriers, int n_stages, int stage_bytes)
      : memory(memory), barriers(barriers), n_stages(n_stages), stage_bytes(stage_bytes)
  {
  }
  /* The current stage's memory and barriers. */
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

  /* Called by one thread before any other thread uses the ring. full_arrivals: arrivals, in addition to the bytes of
   * copies, that make a stage full; empty_arrivals: arrivals that make a stage empty. */
  __device__ __forceinline__ void init(int full_arrivals, int empty_arrivals) const
  {
    for (int i = 0; i < n_stages; i++) {
      yk_ptx::mbarrier_init(barriers + i * 8, full_arrivals);
      yk_ptx::mbarrier_init(barriers + (MAX_STAGES + i) * 8, empty_arrivals);
    }
  }

  /* A producer's first round: see the head of this file. */
  __device__ __forceinline__ void start_producing()
  {
    at.phase = 1;
  }
};

} // namespace yk_cuda

#endif
