/* thread_block.cuh - the warps of a thread block and the blocks of a cluster: barriers among some of them, and
 * registers that warpgroups trade. */
#ifndef YK_KERNELS_CUDA_PTX_THREAD_BLOCK_CUH
#define YK_KERNELS_CUDA_PTX_THREAD_BLOCK_CUH

#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_ptx {

/* A barrier of n_threads threads of the block, whole warps; id 1 to 15 (0 is __syncthreads). */
__device__ __forceinline__ void named_barrier_sync(int id, int n_threads)
{
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* Counts towards the same barrier without waiting at it. */
__device__ __forceinline__ void named_barrier_arrive(int id, int n_threads)
{
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* True in one lane of a whole warp, the same every time, in a form from which the compiler knows that it is one. */
__device__ __forceinline__ bool elect_one()
{
  uint32_t chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
  return chosen != 0;
}

/* ---- Registers: what one warpgroup gives back another can take --------------------------------------------------- */

template <int N> __device__ __forceinline__ void raise_registers()
{
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ __forceinline__ void lower_registers()
{
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- Clusters ---------------------------------------------------------------------------------------------------- */

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

/* Every thread of every block; what was written before it, in shared memory of any block or in global, is seen after
 * it. */
__device__ __forceinline__ void cluster_sync()
{
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The same without order of memory: after fence_mbarrier_init, which has its own. */
__device__ __forceinline__ void cluster_sync_relaxed()
{
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/* 16 bytes to the same place in the shared memory of the cluster's block `rank`, counted by its barrier at that block's
 * `barrier`. */
__device__ __forceinline__ void store_async_remote16(uint32_t address, uint32_t barrier, uint32_t rank, float4 v)
{
  asm volatile("{\n"
               ".reg .b32 remote, counter;\n"
               "mapa.shared::cluster.u32 remote, %0, %2;\n"
               "mapa.shared::cluster.u32 counter, %1, %2;\n"
               "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [remote], {%3,%4,%5,%6}, [counter];\n"
               "}" ::"r"(address),
               "r"(barrier), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

} // namespace yk_ptx

#endif
