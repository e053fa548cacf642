/* w4a16_roles.cuh - what the warps of a block do, in the products of few tokens on Hopper: eight multiply, four fetch, and
 * in one of the two turns four more hold registers (w4a16_internal.cuh). */
#ifndef YK_KERNELS_CUDA_W4A16_ROLES_CUH
#define YK_KERNELS_CUDA_W4A16_ROLES_CUH

#include "kernels/cuda/w4a16_internal.cuh"

namespace w4a16 {

constexpr int MULTIPLIERS = 8, PRODUCERS = 4; /* warps, in this order */
static_assert((MULTIPLIERS + PRODUCERS) * 32 == TURN_THREADS[0], "those who work");

__device__ __forceinline__ void sync_multipliers()
{
  asm volatile("bar.sync 1, %0;" ::"n"(MULTIPLIERS * 32) : "memory");
}

__device__ __forceinline__ uint32_t cluster_rank()
{
  uint32_t v;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
  return v;
}

__device__ __forceinline__ uint32_t cluster_size()
{
  uint32_t v;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v));
  return v;
}

/* The whole block: one thread calls init_barriers, the next product is let in, and the barriers of all blocks of the cluster
 * are ready. */
template <typename INIT> __device__ __forceinline__ void begin_block(const CUtensorMap *map, INIT init_barriers)
{
  if (threadIdx.x == MULTIPLIERS * 32) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
    init_barriers();
  }
  if (threadIdx.x == 0) let_next_kernel_start();
  if (cluster_size() == 1)
    __syncthreads();
  else
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/* Then each warp does its part: the multipliers, with so many registers, multiply(); one lane of each other produce(number).
 * The last call of the kernel. */
template <int REGISTERS, typename PRODUCE, typename MULTIPLY>
__device__ __forceinline__ void divide_work(PRODUCE produce, MULTIPLY multiply)
{
  int producer = static_cast<int>(threadIdx.x / 32) - MULTIPLIERS;
  if (producer >= PRODUCERS) {
    hold_registers();
  } else if (producer >= 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(TURN_PRODUCER_REGISTERS));
    if (threadIdx.x % 32 == 0) produce(producer);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    multiply();
    release_holders();
  }
}

} // namespace w4a16

#endif
