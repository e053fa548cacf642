/* wgmma_cluster.cuh - split-K with a cluster of the thread blocks that share an output tile (peers): partial sums go
 * directly into the shared memory of the block that adds them.
 *
 * Each block finishes an equal part of the tile's tokens, as with partial sums in global memory (split_k.cuh): to its
 * own sums it adds the peers', in the order of K ranges. It has separate memory for each peer, so that a peer may send
 * without a handshake; one mbarrier counts the received bytes. A cluster has one tile per launch, so both are used
 * once. A block that receives nothing may end while peers still work: no block sends to it. The network between
 * multiprocessors is slow: the time of the exchange is proportional to its bytes.
 *
 * A piece is a lane's accumulator fragment of 16 columns by 8 tokens, 16 bytes; a group is 8 tokens. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_CLUSTER_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_CLUSTER_CUH

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/split_k.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_gemm {

constexpr int CLUSTER_CONSUMERS_BARRIER = 1; /* named barrier of the consumer warpgroups */

/* Bytes of a row of pieces: one per consumer thread. */
__host__ __device__ constexpr int row_of_pieces_bytes(int warpgroups)
{
  return warpgroups * 128 * 16;
}

/* The peer that finishes a group of 8 tokens, of n8s groups in total, and the group's number among those that this peer
 * finishes. Groups are enumerated in order, without a division by the number of peers; owner is that of peers_of. */
struct group_owner {
  int owner = 0, number = -1;

  __host__ __device__ __forceinline__ void next(int group, int n8s, int peers)
  {
    const int before = owner;
    owner = ((group + 1) * peers - 1) / n8s;
    number = owner == before ? number + 1 : 0;
  }
};

/* Maximum number of groups of 8 tokens that a peer finishes. */
__host__ __device__ constexpr int peer_groups_of(int tokens, int peers)
{
  return (tokens / 8 + peers - 1) / peers;
}

/* Shared memory for partial sums that a block receives from its peers. */
__host__ __device__ constexpr int received_bytes(int warpgroups, int wgmma_m, int tokens, int peers)
{
  return (peers - 1) * peer_groups_of(tokens, peers) * wgmma_m * row_of_pieces_bytes(warpgroups);
}

/* Index, in owner's memory for received sums, of the first group from peer `sender`: counted in groups, of WGMMA_M rows
 * of pieces each. */
__host__ __device__ __forceinline__ int first_received_group(int sender, int owner, int peer_groups)
{
  return (sender - (sender > owner ? 1 : 0)) * peer_groups;
}

/* Sets the number of bytes that the peers will send this block, at its barrier received_full. Called by one thread,
 * once. */
template <int WARPGROUPS, int WGMMA_M>
__device__ __forceinline__ void expect_partials(const tile_peers &peers, uint32_t received_full)
{
  mbarrier_arrive_expect(received_full, (peers.count - 1) * (peers.own.end - peers.own.first) * WGMMA_M *
                                            row_of_pieces_bytes(WARPGROUPS));
}

/* Sends to each peer the partial sums of the tokens that the peer finishes, and completes the sums of this block's
 * tokens. Blocks of a cluster have K ranges in falling order: peer i is the block of rank peers.count - 1 - i.
 *   received, received_full   addresses in shared memory, the same in every block of the cluster */
template <int WARPGROUPS, int WGMMA_M, int N>
__device__ __forceinline__ void exchange_in_cluster(const wgmma_params &p, const tile_peers &peers, uint32_t received,
                                                    uint32_t received_full, float (&acc)[WGMMA_M][N / 8][4])
{
  constexpr int N8 = N / 8, ROW = row_of_pieces_bytes(WARPGROUPS);
  const uint32_t mine = received + threadIdx.x * 16;
  group_owner to;
#pragma unroll
  for (int n8 = 0; n8 < N8; n8++) {
    to.next(n8, N8, peers.count);
    if (to.owner == peers.index) continue;
    const int group = first_received_group(peers.index, to.owner, p.peer_groups) + to.number;
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++) {
      const float(&v)[4] = acc[c][n8];
      store_async_remote16(mine + (group * WGMMA_M + c) * ROW, received_full, peers.count - 1 - to.owner,
                           make_float4(v[0], v[1], v[2], v[3]));
    }
  }
  /* all warps have read x: the staging buffer overwrites it */
  named_barrier_sync(CLUSTER_CONSUMERS_BARRIER, WARPGROUPS * 128);
  if (peers.own.first == peers.own.end) return;
  mbarrier_wait_asm_loop(received_full, 0);
  for (int other = 0; other < peers.count; other++) {
    if (other == peers.index) continue;
    const int group = first_received_group(other, peers.index, p.peer_groups) - peers.own.first;
#pragma unroll
    for (int n8 = 0; n8 < N8; n8++) {
      if (!peers.own.holds(n8)) continue;
#pragma unroll
      for (int c = 0; c < WGMMA_M; c++) {
        const uint4 v = load_shared16(mine + ((group + n8) * WGMMA_M + c) * ROW);
        float(&s)[4] = acc[c][n8];
        s[0] += __uint_as_float(v.x);
        s[1] += __uint_as_float(v.y);
        s[2] += __uint_as_float(v.z);
        s[3] += __uint_as_float(v.w);
      }
    }
  }
}

} // namespace yk_gemm

#endif
