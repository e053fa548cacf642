/* copy_async.cuh - asynchronous copies from global to shared memory: cp.async by every thread (8.0), bulk and tensor
 * copies by the copy engine (9.0), which one thread asks for and which complete on an mbarrier. */
#ifndef YK_KERNELS_CUDA_PTX_COPY_ASYNC_CUH
#define YK_KERNELS_CUDA_PTX_COPY_ASYNC_CUH

#include "kernels/cuda/ptx/mbarrier.cuh"

namespace yk_ptx {

/* ---- cp.async ---------------------------------------------------------------------------------------------------- */

/* 16 bytes; zeros where valid is false, and then nothing is read. */
__device__ __forceinline__ void cp_async_16(uint32_t to, const void *from, bool valid)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

/* The thread's copies since the last commit are a group. */
__device__ __forceinline__ void cp_async_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until all but the N newest groups of the thread have landed. */
template <int N> __device__ __forceinline__ void cp_async_wait()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* One of the barrier's arrivals, once the thread's earlier cp.async have landed. */
__device__ __forceinline__ void cp_async_arrive(mbarrier barrier)
{
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.address) : "memory");
}

/* ---- The copy engine --------------------------------------------------------------------------------------------- */

/* n_bytes (a multiple of 16) from one address on. */
__device__ __forceinline__ void bulk_copy(uint32_t to, const void *from, int n_bytes, mbarrier barrier)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(n_bytes), "r"(barrier.address)
               : "memory");
}

/* The box at (column, row) of a two-dimensional tensor map; zeros where the box leaves the tensor. map: a CUtensorMap
 * that is a kernel's __grid_constant__ parameter. */
__device__ __forceinline__ void tensor_copy(uint32_t to, const void *map, int column, int row, mbarrier barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
               "[%4];" ::"r"(to),
               "l"(map), "r"(column), "r"(row), "r"(barrier.address)
               : "memory");
}

/* Multicast: into both blocks of a cluster of two, at the same place, each counted by its own barrier. */
__device__ __forceinline__ void tensor_copy_to_both(uint32_t to, const void *map, int column, int row, mbarrier barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
               "l"(map), "r"(column), "r"(row), "r"(barrier.address), "h"(static_cast<uint16_t>(3))
               : "memory");
}

__device__ __forceinline__ void prefetch_tensor_map(const void *map)
{
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Between plain accesses to shared memory and those of the copy engine or wgmma, in either order. */
__device__ __forceinline__ void fence_async_shared()
{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

} // namespace yk_ptx

#endif
