/* split_k.cuh - split-K and stream-K: partial sums of the thread blocks (peers) that share an output tile go through
 * global memory and are added in a fixed order.
 *
 * Each K range has a separate part of the workspace, ordered by thread, in pieces of four accumulators: a lane's
 * fragment of 16 columns by 8 tokens. The data serve as the flag: accumulators are sent with all bits inverted, and 0
 * means "not written yet", since no arithmetic produces the NaN whose bits are all ones. The thread that has read a
 * piece writes the zeros back for the next launch. Peers may wait for each other because all run at once: a grid never
 * has more blocks than fit, and the GPU places all blocks of a grid before any block of the next grid, also of other
 * streams. */
#ifndef YK_KERNELS_CUDA_GEMM_SPLIT_K_CUH
#define YK_KERNELS_CUDA_GEMM_SPLIT_K_CUH

#include "kernels/cuda/gemm/schedule.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/registers.cuh"

namespace yk_gemm {

__device__ __forceinline__ bool is_written(uint4 piece)
{
  return piece.x && piece.y && piece.z && piece.w;
}

/* Address of this thread's pieces of a K range, 128 pieces apart. warpgroups: consumer warpgroups of a cluster;
 * warpgroup: number of this one among them. */
template <int WGMMA_M, int N>
__device__ __forceinline__ uint4 *pieces_of(const wgmma_params &p, int range, int warpgroups, int warpgroup)
{
  int64_t at = static_cast<int64_t>(range) * warpgroups + warpgroup;
  return reinterpret_cast<uint4 *>(p.partial) + at * (WGMMA_M * N / 8) * 128 + threadIdx.x % 128;
}

/* Groups [first, end) of a tile's groups of 8 tokens. */
struct n8_range {
  int first, end;

  __host__ __device__ __forceinline__ bool holds(int n8) const
  {
    return n8 >= first && n8 < end;
  }
};

/* The K ranges of an output tile, and the tokens of it that this block finishes. */
struct tile_peers {
  int first, count; /* ranges that have K tiles of this tile */
  int index;        /* index of this block's range among them */
  n8_range own;     /* tokens that this block finishes */
};

/* Forces the computation of these before the main loop, where cycles are free, instead of at their use after it. */
__device__ __forceinline__ void compute_now(int &tile_m, int &tile_n, tile_peers &peers)
{
  yk_ptx::keep_in_registers(tile_m, tile_n, peers.first, peers.count, peers.index, peers.own.first, peers.own.end);
}

/* Split-K: each peer finishes an equal part of the tokens. Stream-K: the block that has the tile's first K tiles
 * finishes all of them; its peers process this tile before any other, so their partial sums have arrived by then. A
 * whole tile has one peer. n8s: groups of 8 tokens of a tile. */
__host__ __device__ __forceinline__ tile_peers peers_of(const wgmma_params &p, int range, const work_tile &w, int n8s)
{
  if (w.last - w.first == p.k_tiles) return {range, 1, 0, {0, n8s}};
  if (p.k_splits) {
    int first = w.tile * p.k_splits, index = range - first;
    n8_range own = {p.by_k_splits.quotient(index * n8s), p.by_k_splits.quotient((index + 1) * n8s)};
    return {first, p.k_splits, index, own};
  }
  int first = range, end = range + 1, tile_start = w.tile * p.k_tiles;
  while (tile_scheduler::range_start(p, first) > tile_start) first--;
  while (end < p.k_ranges && tile_scheduler::range_start(p, end) < tile_start + p.k_tiles) end++;
  return {first, end - first, range - first, {0, range == first ? n8s : 0}};
}

/* The K range of another peer: other counts from 0 to peers.count - 2. */
__device__ __forceinline__ int range_of_other(const tile_peers &peers, int other)
{
  return peers.first + other + (other >= peers.index ? 1 : 0);
}

/* Prefetches into the L2 cache the memory that the peers will write: other kernels of the layer have evicted it, and a
 * read from device memory waits behind the next GEMM's weights. */
template <int WARPGROUPS, int WGMMA_M, int N>
__device__ __forceinline__ void prefetch_partials(const wgmma_params &p, const tile_peers &peers, int warpgroup)
{
  for (int i = 0; i < peers.count - 1; i++) {
    const uint4 *from = pieces_of<WGMMA_M, N>(p, range_of_other(peers, i), WARPGROUPS, warpgroup);
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++) {
      for (int n8 = peers.own.first; n8 < peers.own.end; n8++) prefetch_l2(from + (c * (N / 8) + n8) * 128);
    }
  }
}

/* Adds the peers' partial sums of the tokens that this block finishes, in the order of K ranges.
 *   BATCH   pieces of a range that are read together
 *   AHEAD   ranges whose pieces are read together
 * All lanes of a warp leave a polling loop together (__all_sync): otherwise the compiler keeps the addresses of the
 * next tile's main loop separately for each lane, and the main loop is slower. */
template <int WARPGROUPS, int WGMMA_M, int N, int BATCH, int AHEAD>
__device__ __forceinline__ void receive_partials(const wgmma_params &p, const tile_peers &peers, int warpgroup,
                                                 float (&acc)[WGMMA_M][N / 8][4])
{
  constexpr int N8 = N / 8, PIECES = WGMMA_M * N8;
  for (int other = 0; other < peers.count - 1; other += AHEAD) {
    uint4 *from[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
      from[a] = pieces_of<WGMMA_M, N>(p, range_of_other(peers, min(other + a, peers.count - 2)), WARPGROUPS, warpgroup);
    /* Polls the piece that is written last, so that waiting takes no bandwidth from blocks that still work. */
    const uint4 *last = from[AHEAD - 1] + ((WGMMA_M - 1) * N8 + peers.own.end - 1) * 128;
    while (other == 0 && !__all_sync(~0u, is_written(load_relaxed_gpu16(last)))) continue;
#pragma unroll
    for (int i0 = 0; i0 < PIECES; i0 += BATCH) {
      if (i0 % N8 >= peers.own.end || (BATCH < N8 && i0 % N8 + BATCH <= peers.own.first)) continue;
      /* Includes pieces of other blocks' tokens: they are added to accumulators that are not read any more. */
      uint4 v[AHEAD][BATCH];
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          v[i / BATCH][i % BATCH] = load_relaxed_gpu16(from[i / BATCH] + (i0 + i % BATCH) * 128);
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          complete = complete && (is_written(v[i / BATCH][i % BATCH]) || !peers.own.holds((i0 + i % BATCH) % N8));
      } while (!__all_sync(~0u, complete));
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if (other + a >= peers.count - 1) break;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
          float(&s)[4] = acc[(i0 + i) / N8][(i0 + i) % N8];
          s[0] += __uint_as_float(~v[a][i].x);
          s[1] += __uint_as_float(~v[a][i].y);
          s[2] += __uint_as_float(~v[a][i].z);
          s[3] += __uint_as_float(~v[a][i].w);
          if (peers.own.holds((i0 + i) % N8)) store_relaxed_gpu16(from[a] + (i0 + i) * 128, 0);
        }
      }
    }
  }
}

/* Sends to each peer the partial sums of the tokens that the peer finishes, and completes the sums of this block's
 * tokens. */
template <int WARPGROUPS, int WGMMA_M, int N>
__device__ __forceinline__ void exchange_partials(const wgmma_params &p, int range, const tile_peers &peers,
                                                  int warpgroup, float (&acc)[WGMMA_M][N / 8][4])
{
  constexpr int N8 = N / 8, PIECES = WGMMA_M * N8;
  uint4 *to = pieces_of<WGMMA_M, N>(p, range, WARPGROUPS, warpgroup);
#pragma unroll
  for (int i = 0; i < PIECES; i++) {
    if (!peers.own.holds(i % N8)) store_inverted_relaxed_gpu16(to + i * 128, acc[i / N8][i % N8]);
  }
  if (peers.own.first == peers.own.end) return;
  /* About eight pieces are read together: from several ranges if each has few for this block, else from one or two. */
  constexpr int FEW = N8 < 8 ? 1 : N8 / 4, FEW_AHEAD = FEW == 1 ? 4 : 8 / FEW;
  constexpr int MANY = PIECES < 8 ? PIECES : WGMMA_M == 1 ? 8 : 4, MANY_AHEAD = PIECES < 8 ? 8 / PIECES : 1;
  if (WGMMA_M == 1 && N8 <= 16 && peers.own.end - peers.own.first <= FEW)
    receive_partials<WARPGROUPS, WGMMA_M, N, FEW, FEW_AHEAD>(p, peers, warpgroup, acc);
  else
    receive_partials<WARPGROUPS, WGMMA_M, N, MANY, MANY_AHEAD>(p, peers, warpgroup, acc);
}

} // namespace yk_gemm

#endif
