/* allreduce_p2p_slots.cuh - device code: slots, and how packets go from GPU to GPU. See allreduce_p2p.h for the
 * protocol.
 *
 * Why three sets of slots suffice: a thread block's launch i ends only after all packets of launch i from the other
 * ranks have arrived, so a rank can be at most one launch ahead of another. While a rank fills set (i + 1) % 3, others
 * may still read set i % 3, and clear set (i - 1) % 3 = (i + 2) % 3. That set is filled again by launch i + 2 at the
 * earliest: after every rank has ended launch i. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_SLOTS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_SLOTS_CUH

#include "kernels/cuda/ptx/global_memory.cuh"
#include "parallel/allreduce_p2p.cuh"

namespace yk_p2p_kernels {

/* The flag is in the data: a packet has arrived when none of its words is ABSENT. */
__device__ __forceinline__ bool has_arrived(uint4 v)
{
  return v.x != ABSENT && v.y != ABSENT && v.z != ABSENT && v.w != ABSENT;
}

/* Words that would read as ABSENT as zeros. */
__device__ __forceinline__ uint4 sendable(uint4 v)
{
  return make_uint4(v.x == ABSENT ? 0 : v.x, v.y == ABSENT ? 0 : v.y, v.z == ABSENT ? 0 : v.z, v.w == ABSENT ? 0 : v.w);
}

__device__ __forceinline__ uint64_t nanoseconds()
{
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

/* One launch as one thread block sees it. */
struct block_view {
  const launch_args &a;
  uint32_t n_launches, n_used_before;
  int set;
  bool stopped;

  __device__ explicit block_view(const launch_args &args) : a(args)
  {
    const block_state s = a.state[blockIdx.x];
    n_launches = s.n_launches;
    n_used_before = s.n_packets_used;
    set = static_cast<int>(n_launches % N_SETS);
    stopped = __syncthreads_or(*static_cast<volatile int32_t *>(a.stopped)) != 0;
  }

  /* The first packet of the slots on of_rank's device that rank source fills for this thread block. */
  __device__ __forceinline__ uint4 *slot(const slots &s, int of_rank, int in_set, int source) const
  {
    return s.of_rank[of_rank] +
           ((static_cast<int64_t>(blockIdx.x) * N_SETS + in_set) * a.n_ranks + source) * s.capacity;
  }

  /* Clear the slots that the previous launch has read; the launch after the next one uses them again. */
  __device__ void clear(const slots &s) const
  {
    const uint4 absent = make_uint4(ABSENT, ABSENT, ABSENT, ABSENT);
    for (int source = 0; source < a.n_ranks; source++) {
      uint4 *dst = slot(s, a.rank, (set + N_SETS - 1) % N_SETS, source);
      for (uint32_t i = threadIdx.x; source != a.rank && i < n_used_before; i += blockDim.x) dst[i] = absent;
    }
  }

  /* Every thread of the thread block calls this after its last read of a slot. */
  __device__ void end(uint32_t n_packets_used) const
  {
    __syncthreads();
    if (threadIdx.x == 0) a.state[blockIdx.x] = {n_launches + 1, n_packets_used};
  }

  __device__ void fail(int32_t why, int32_t missing)
  {
    stopped = true;
    if (atomicCAS(a.stopped, 0, why) != 0) return;
    a.flags->rank[a.rank].missing = missing;
    a.flags->rank[a.rank].n_launches = n_launches;
    __threadfence_system();
    a.flags->rank[a.rank].failed = why;
  }

  /* Wait until everything has arrived for all lanes of the warp. ready() reads the slots and returns a rank that is
   * missing, or -1. The lanes leave the loop together: the compiler keeps row counters once for a warp, and parts of a
   * warp that leave one by one each advance them. */
  template <typename F> __device__ __forceinline__ void wait(uint64_t timeout_ns, F ready)
  {
    uint64_t began = 0;
    for (int n = 1; !stopped; n++) {
      const int missing = ready();
      if (__all_sync(~0u, missing < 0)) return;
      if (n % POLLS_PER_CHECK != 0) continue;
      const uint64_t now = nanoseconds();
      if (began == 0) began = now;
      if (*static_cast<volatile int32_t *>(a.stopped) != 0)
        stopped = true;
      else if (a.flags->rank[a.rank].aborted)
        fail(2, -1);
      else if (missing >= 0 && now - began > timeout_ns)
        fail(1, missing);
      stopped = __any_sync(~0u, stopped);
    }
  }
};

/* The j-th rank after this one, going round; j < n_ranks. */
__device__ __forceinline__ int peer_at(const launch_args &a, int j)
{
  const int rank = a.rank + j;
  return rank < a.n_ranks ? rank : rank - a.n_ranks;
}

} // namespace yk_p2p_kernels

#endif
