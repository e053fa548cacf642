/* thread_block.cuh - warps of one thread block, and thread blocks of one cluster: barriers among them, register
 * reallocation between warpgroups, and the shared memory of other thread blocks of the cluster. */
#ifndef YK_KERNELS_CUDA_PTX_THREAD_BLOCK_CUH
#define YK_KERNELS_CUDA_PTX_THREAD_BLOCK_CUH

#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_ptx {

/* A barrier of n_threads threads of the thread block, in whole warps. id: 1 to 15; barrier 0 is __syncthreads. */
__device__ __forceinline__ void named_barrier_sync(int id, int n_threads)
{
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* Arrive at the same barrier without waiting for the others. */
__device__ __forceinline__ void named_barrier_arrive(int id, int n_threads)
{
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* The same barrier as named_barrier_sync. Returns whether `mine` is true in any of its threads. */
__device__ __forceinline__ bool named_barrier_or(int id, int n_threads, bool mine)
{
  int any;
  asm volatile("{\n"
               ".reg .pred p, q;\n"
               "setp.ne.s32 p, %1, 0;\n"
               "barrier.cta.red.or.pred q, %2, %3, p;\n"
               "selp.s32 %0, 1, 0, q;\n"
               "}"
               : "=r"(any)
               : "r"(static_cast<int>(mine)), "r"(id), "r"(n_threads)
               : "memory");
  return any != 0;
}

/* True in exactly one lane of a whole warp, the same lane every time. Unlike with a comparison of lane numbers, the
 * compiler can prove that a branch on the result has one active lane (9.0). */
__device__ __forceinline__ bool elect_one()
{
  uint32_t chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
  return chosen != 0;
}

/* ---- Registers --------------------------------------------------------------------------------------------------- */

/* A warpgroup that lowers its number of registers per thread to N returns the difference to the thread block's pool. A
 * warpgroup that raises its number waits until the pool has enough. All warps of the warpgroup call it (sm_90a). */
template <int N> __device__ __forceinline__ void raise_registers()
{
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ __forceinline__ void lower_registers()
{
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- Clusters ---------------------------------------------------------------------------------------------------- */

/* The number of this thread block in its cluster, from 0. */
__device__ __forceinline__ uint32_t cluster_rank()
{
  uint32_t v;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
  return v;
}

/* Thread blocks of the cluster. */
__device__ __forceinline__ uint32_t cluster_size()
{
  uint32_t v;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v));
  return v;
}

/* A barrier of all threads of the cluster. Everything that any of them wrote before it, in the shared memory of any
 * thread block or in global memory, is visible to all of them after it. */
__device__ __forceinline__ void cluster_sync()
{
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The same barrier without memory ordering, for use after fence_mbarrier_init, which provides the required order. */
__device__ __forceinline__ void cluster_sync_relaxed()
{
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/* Store 16 bytes at offset `address` in the shared memory of thread block `rank` of the cluster. The bytes are counted
 * by that thread block's mbarrier at offset `barrier`. */
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

/* The object in the shared memory of thread block `rank` of the cluster that corresponds to this thread block's
 * *own. */
template <typename T> __device__ __forceinline__ T *map_shared_rank(T *own, int rank)
{
  uint64_t address;
  asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(own), "r"(rank));
  return reinterpret_cast<T *>(address);
}

} // namespace yk_ptx

#endif
