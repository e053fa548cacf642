/* grid_barrier.cuh - two meetings of all thread blocks of a launch. All of them run at once: there is one for each
 * multiprocessor at most, and a GPU places all thread blocks of a grid before any of the next one.
 *
 * A counter for each meeting. Every thread block arrives at the first meeting, hears of its end, and arrives at the
 * second. The second counter is set back by one that has not yet arrived at the first meeting, the first counter once
 * all have arrived at the second: a launch finds the first counter at 0 and leaves it so. */
#ifndef YK_KERNELS_CUDA_LATENT_GRID_BARRIER_CUH
#define YK_KERNELS_CUDA_LATENT_GRID_BARRIER_CUH

#include <cstdint>

#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_latent {

struct grid_barrier {
  uint32_t *counters; /* [2], zeroed before the first launch */
  uint32_t n_blocks;

  /* By one thread of the grid, after the wait for the kernel in front and before its thread block arrives at 0. */
  __device__ void set_second_back() const
  {
    counters[1] = 0;
  }

  /* By one thread of a thread block, once all its threads have written what others read after the meeting. */
  __device__ void arrive(int meeting) const
  {
    yk_ptx::increment_release_gpu(counters + meeting);
  }

  /* By any thread, after the wait for the kernel in front: before, a counter may be that of the launch before. */
  __device__ void wait(int meeting) const
  {
    while (yk_ptx::load_acquire_gpu(counters + meeting) != n_blocks) {
    }
  }

  /* By one thread of the grid, after the second meeting. */
  __device__ void set_first_back() const
  {
    counters[0] = 0;
  }
};

} // namespace yk_latent

#endif
