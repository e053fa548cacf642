/* cuda_sample_team.cuh - the blocks that sample one row together: a cluster where the GPU has clusters, else one
 * alone. */
#ifndef YK_KERNELS_CUDA_CUDA_SAMPLE_TEAM_CUH
#define YK_KERNELS_CUDA_CUDA_SAMPLE_TEAM_CUH

#include <cstdint>

namespace yk_cuda {

/* TEAM: blocks, consecutive ones of the grid. */
template <int TEAM> __device__ __forceinline__ int team_rank()
{
  return TEAM == 1 ? 0 : static_cast<int>(blockIdx.x % TEAM);
}

/* Every thread of the team; what was written before it, in shared memory of any block or in global, is seen after
 * it. */
template <int TEAM> __device__ __forceinline__ void team_sync()
{
  if constexpr (TEAM == 1) {
    __syncthreads();
  } else {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  }
}

/* The same object in the shared memory of the team's block `rank`. */
template <int TEAM, typename T> __device__ __forceinline__ T *of_rank(T *own, int rank)
{
  if constexpr (TEAM > 1) {
#if __CUDA_ARCH__ >= 900
    uint64_t address;
    asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(own), "r"(rank));
    return reinterpret_cast<T *>(address);
#endif
  }
  return own;
}

/* Places for what the blocks of a team tell each other. Two, in turn: whoever is ahead by one message overwrites
 * nothing that another still reads. */
template <int TEAM, typename Message> struct team_inbox {
  Message messages[2][TEAM];
};

/* Every block's message to all; warp 0 has it in every lane. Returns them by rank, to every thread. turn: 0 or 1,
 * changed by every call. */
template <int TEAM, typename Message>
__device__ const Message *exchange(team_inbox<TEAM, Message> &inbox, int &turn, const Message &mine)
{
  turn ^= 1;
  if (threadIdx.x < TEAM) *of_rank<TEAM>(&inbox.messages[turn][team_rank<TEAM>()], threadIdx.x) = mine;
  team_sync<TEAM>();
  return inbox.messages[turn];
}

} // namespace yk_cuda

#endif
