/* cluster_barrier.cuh - a barrier of all threads of a cluster in two parts, between which a thread does work that does
 * not depend on other thread blocks. */
#ifndef YK_KERNELS_CUDA_PTX_CLUSTER_BARRIER_CUH
#define YK_KERNELS_CUDA_PTX_CLUSTER_BARRIER_CUH

namespace yk_ptx {

/* Called by all threads, once for every cluster_wait. Does not order memory accesses: use a preceding fence, such as
 * fence_mbarrier_init. */
__device__ __forceinline__ void cluster_arrive_relaxed()
{
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/* Waits until all threads of the cluster have arrived. */
__device__ __forceinline__ void cluster_wait()
{
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

} // namespace yk_ptx

#endif
