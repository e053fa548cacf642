/* allreduce_p2p_slots.cuh - device code: slots, and the transfer of packets between GPUs. See allreduce_p2p.h for the
 * protocol.
 *
 * The thread that has read a packet empties its slot at once. Two sets of slots suffice: a thread block's launch i ends
 * only after all packets of launch i from the other ranks have arrived, so a rank can be at most one launch ahead of
 * another. While a rank fills set (i + 1) % 2, others may still read and empty set i % 2. Launch i + 2 fills that set
 * again, after every rank has ended launch i. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_SLOTS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_SLOTS_CUH

#include "kernels/cuda/ptx/clock.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "parallel/p2p/allreduce_p2p_params.cuh"

namespace yk_p2p_kernels {

/* The data serve as the flag: a packet has arrived once none of its words is ABSENT. */
__device__ __forceinline__ bool has_arrived(uint4 v)
{
  return v.x != ABSENT && v.y != ABSENT && v.z != ABSENT && v.w != ABSENT;
}

/* The packet in the form that is sent: with zero in place of every word that would read as ABSENT. */
__device__ __forceinline__ uint4 sendable(uint4 v)
{
  return make_uint4(v.x == ABSENT ? 0 : v.x, v.y == ABSENT ? 0 : v.y, v.z == ABSENT ? 0 : v.z, v.w == ABSENT ? 0 : v.w);
}

/* Called by the thread that has read the packet in the slot. */
__device__ __forceinline__ void empty_slot(uint4 *slot)
{
  yk_ptx::store_global16(slot, make_uint4(ABSENT, ABSENT, ABSENT, ABSENT));
}

/* Reads a word of each 64 bytes of the parameters that the kernel needs after griddepcontrol.wait. Parameters are in
 * constant memory, where the first read of 64 bytes goes to the L2 cache: before the wait this costs nothing. */
__device__ __forceinline__ void fetch_parameters(const launch_args &a)
{
  yk_ptx::read_now(a.n_ranks);
  yk_ptx::read_now(a.first.of_rank[YK_P2P_MAX_RANKS - 1]);
  yk_ptx::read_now(a.second.of_rank[YK_P2P_MAX_RANKS - 1]);
  yk_ptx::read_now(a.timeout_ns);
  yk_ptx::read_now(a.combine.slots);
  yk_ptx::read_now(a.combine.hidden);
}

/* One launch from the view of one thread block. */
struct block_view {
  const launch_args &a;
  uint32_t n_launches;
  int set;
  bool stopped; /* no thread waits any more; equal in all threads from count_launch on */

  /* Called once the previous kernel has ended. */
  __device__ explicit block_view(const launch_args &args) : a(args)
  {
    n_launches = a.n_launches[blockIdx.x];
    set = static_cast<int>(n_launches % N_SETS);
    stopped = *static_cast<volatile int32_t *>(a.stopped) != 0;
  }

  /* The first packet of the slots on of_rank's device that rank source fills for this thread block. */
  __device__ __forceinline__ uint4 *slot(const slots &s, int of_rank, int source) const
  {
    return s.of_rank[of_rank] + ((static_cast<int64_t>(blockIdx.x) * N_SETS + set) * a.n_ranks + source) * s.capacity;
  }

  /* Counts the launch and makes `stopped` equal in all threads of the thread block. A barrier of the thread block,
   * before the first wait. */
  __device__ __forceinline__ void count_launch()
  {
    stopped = __syncthreads_or(stopped) != 0;
    if (threadIdx.x == 0) a.n_launches[blockIdx.x] = n_launches + 1;
  }

  /* Records a failure, only the first of this device, and stops. why: as host_flags.failed. */
  __device__ void fail(int32_t why, int32_t missing)
  {
    stopped = true;
    if (atomicCAS(a.stopped, 0, why) != 0) return;
    a.flags->rank[a.rank].missing = missing;
    __threadfence_system();
    a.flags->rank[a.rank].failed = why;
  }

  /* Waits until everything has arrived for all lanes of the warp, or the exchange stops. ready() reads the slots and
   * returns a rank whose packet is missing, or -1. The lanes leave the loop together: the compiler keeps row counters
   * in uniform registers, one for the warp, which parts of a warp that leave separately would each advance. */
  template <typename F> __device__ __forceinline__ void wait(uint64_t timeout_ns, F ready)
  {
    uint64_t began = 0;
    for (int n = 1; !stopped; n++) {
      const int missing = ready();
      if (__all_sync(~0u, missing < 0)) return;
      if (n % POLLS_PER_CHECK != 0) continue;
      const uint64_t now = yk_ptx::nanoseconds();
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

/* The j-th rank after this rank, cyclically; j < n_ranks. */
__device__ __forceinline__ int peer_at(const launch_args &a, int j)
{
  const int rank = a.rank + j;
  return rank < a.n_ranks ? rank : rank - a.n_ranks;
}

} // namespace yk_p2p_kernels

#endif
