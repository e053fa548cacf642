/* grid_barrier.cuh - two barriers of all thread blocks of a launch. All thread blocks run at once: there is at most one
 * per multiprocessor, and a GPU places all thread blocks of a grid before any of the next grid.
 *
 * Each barrier has a counter. Every thread block arrives at the first barrier, waits for its end, and arrives at the
 * second. A thread block that has not yet arrived at the first barrier resets the second counter. The first counter is
 * reset once all have arrived at the second barrier: a launch finds the first counter at 0 and leaves it at 0. */
#ifndef YK_KERNELS_CUDA_LATENT_GRID_BARRIER_CUH
#define YK_KERNELS_CUDA_LATENT_GRID_BARRIER_CUH

#include <cstdint>

#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_latent {

struct grid_barrier {
  uint32_t *counters; /* [2], zeroed before the first launch */
  uint32_t n_blocks;

  /* Called by one thread of the grid, after the wait for the preceding kernel and before its thread block arrives at
   * 0. */
  __device__ void set_second_back() const
  {
    counters[1] = 0;
  }

  /* Called by one thread of a thread block, once all its threads have written the data that others read after the
   * barrier. */
  __device__ void arrive(int number) const
  {
    yk_ptx::increment_release_gpu(counters + number);
  }

  /* Called by any thread, after the wait for the preceding kernel: before that, a counter may still hold the value of
   * the previous launch. */
  __device__ void wait(int number) const
  {
    while (yk_ptx::load_acquire_gpu(counters + number) != n_blocks) {
    }
  }

  /* Called by one thread of the grid, after the second barrier. */
  __device__ void set_first_back() const
  {
    counters[0] = 0;
  }
};

} // namespace yk_latent

#endif
