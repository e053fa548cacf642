/* copy_async.cuh - asynchronous copies from global to shared memory. cp.async: each thread issues its own copies (8.0).
 * Bulk and tensor copies: one thread issues a copy of many bytes, the copy engine (TMA) executes it and counts its
 * bytes at an mbarrier (9.0). */
#ifndef YK_KERNELS_CUDA_PTX_COPY_ASYNC_CUH
#define YK_KERNELS_CUDA_PTX_COPY_ASYNC_CUH

#include "kernels/cuda/ptx/mbarrier.cuh"

namespace yk_ptx {

/* ---- cp.async ---------------------------------------------------------------------------------------------------- */

/* Copy 16 bytes; if valid is false, write 16 zero bytes and read nothing. */
__device__ __forceinline__ void cp_async_16(uint32_t to, const void *from, bool valid)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

/* Copy 4 bytes. */
__device__ __forceinline__ void cp_async_4(uint32_t to, const void *from)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/* The thread's copies since its last commit become one group. */
__device__ __forceinline__ void cp_async_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait until all but the N newest groups of this thread have landed. */
template <int N> __device__ __forceinline__ void cp_async_wait()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Count as one of the barrier's expected arrivals once all earlier cp.async of this thread have landed. */
__device__ __forceinline__ void cp_async_arrive(mbarrier barrier)
{
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.address) : "memory");
}

/* ---- The copy engine --------------------------------------------------------------------------------------------- */

/* Copy n_bytes contiguous bytes, a multiple of 16. */
__device__ __forceinline__ void bulk_copy(uint32_t to, const void *from, int n_bytes, mbarrier barrier)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(n_bytes), "r"(barrier.address)
               : "memory");
}

/* bulk_copy with an evict-first policy in the L2 cache: for bytes that are not read again soon. */
__device__ __forceinline__ void bulk_copy_once(uint32_t to, const void *from, int n_bytes, mbarrier barrier)
{
  asm volatile("{\n.reg .b64 policy;\n"
               "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
               "policy;\n}" ::"r"(to),
               "l"(from), "r"(n_bytes), "r"(barrier.address)
               : "memory");
}

/* Prefetch n_bytes contiguous bytes, a multiple of 16, into the L2 cache. */
__device__ __forceinline__ void bulk_prefetch_l2(const void *from, int n_bytes)
{
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(n_bytes) : "memory");
}

/* Copy the box whose first element is (column, row) of a two-dimensional tensor map; elements of the box outside the
 * tensor become zeros. map: a CUtensorMap that is a __grid_constant__ parameter of the kernel. */
__device__ __forceinline__ void tensor_copy(uint32_t to, const void *map, int column, int row, mbarrier barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
               "[%4];" ::"r"(to),
               "l"(map), "r"(column), "r"(row), "r"(barrier.address)
               : "memory");
}

/* tensor_copy with an evict-first policy in the L2 cache, as bulk_copy_once. */
__device__ __forceinline__ void tensor_copy_once(uint32_t to, const void *map, int column, int row, mbarrier barrier)
{
  asm volatile("{\n.reg .b64 policy;\n"
               "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
               "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
               "[%1, {%2, %3}], [%4], policy;\n}" ::"r"(to),
               "l"(map), "r"(column), "r"(row), "r"(barrier.address)
               : "memory");
}

/* Multicast: the same copy into both thread blocks of a cluster of two. In each of them the data goes to the same
 * offset in shared memory, and its bytes are counted by that thread block's barrier at the same offset. */
__device__ __forceinline__ void tensor_copy_to_both(uint32_t to, const void *map, int column, int row, mbarrier barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
               "l"(map), "r"(column), "r"(row), "r"(barrier.address), "h"(static_cast<uint16_t>(3))
               : "memory");
}

/* Prefetch the tensor map into the copy engine's cache. */
__device__ __forceinline__ void prefetch_tensor_map(const void *map)
{
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Order this thread's earlier plain accesses to shared memory before later accesses by the copy engine or wgmma. */
__device__ __forceinline__ void fence_async_shared()
{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Orders plain stores to global memory before reads of them by bulk and tensor copies. Called after the stores, before
 * other threads are signalled; and after this thread has observed the signal of others' stores, before its copies. */
__device__ __forceinline__ void fence_async_global()
{
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

} // namespace yk_ptx

#endif
