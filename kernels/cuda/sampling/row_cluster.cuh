/* row_cluster.cuh - the cluster of thread blocks that sample one row together: barrier, shared memory of the other
 * thread blocks, and all-gather of small messages.
 *
 * CLUSTER, a template parameter throughout this folder, is the number of thread blocks of the cluster: consecutive ones
 * of the grid. It is 1 on GPUs without clusters, where one thread block samples the row alone. */
#ifndef YK_KERNELS_CUDA_SAMPLING_ROW_CLUSTER_CUH
#define YK_KERNELS_CUDA_SAMPLING_ROW_CLUSTER_CUH

#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_sample {

/* The number of this thread block in its cluster, from 0. */
template <int CLUSTER> __device__ __forceinline__ int rank_in_cluster()
{
  return CLUSTER == 1 ? 0 : static_cast<int>(blockIdx.x % CLUSTER);
}

/* A barrier of all threads of the cluster. All writes of any thread before it, to the shared memory of any thread block
 * or to global memory, are visible to all of them after it. */
template <int CLUSTER> __device__ __forceinline__ void sync_cluster()
{
  if constexpr (CLUSTER == 1) {
    __syncthreads();
  } else {
#if __CUDA_ARCH__ >= 900
    yk_ptx::cluster_sync();
#endif
  }
}

/* The object in the shared memory of thread block `rank` of the cluster that corresponds to *own. */
template <int CLUSTER, typename T> __device__ __forceinline__ T *shared_of_rank(T *own, int rank)
{
  if constexpr (CLUSTER > 1) {
#if __CUDA_ARCH__ >= 900
    return yk_ptx::map_shared_rank(own, rank);
#endif
  }
  return own;
}

/* Receive buffers of all_gather, by sender. There are two, used alternately. A thread block that is one all_gather
 * ahead writes to the buffer that the others do not read; it cannot be two ahead, since it waits for the others in each
 * all_gather. */
template <int CLUSTER, typename Message> struct gather_buffers {
  Message messages[2][CLUSTER];
};

/* Gives every thread block the messages of all, by rank in the cluster. Every thread of the cluster calls it; `mine` is
 * taken from warp 0, all lanes of which must hold the same message. parity: 0 or 1, the buffer of the previous call. */
template <int CLUSTER, typename Message>
__device__ const Message *all_gather(gather_buffers<CLUSTER, Message> &buffers, int &parity, const Message &mine)
{
  parity ^= 1;
  if (threadIdx.x < CLUSTER)
    *shared_of_rank<CLUSTER>(&buffers.messages[parity][rank_in_cluster<CLUSTER>()], threadIdx.x) = mine;
  sync_cluster<CLUSTER>();
  return buffers.messages[parity];
}

} // namespace yk_sample

#endif
