/* sliced_kernel.cuh - WNA16 GEMM on 9.0 with a fixed division of K: the main loop, the rings and the epilogue of
 * wgmma_kernel.cuh, for any number of tokens.
 *
 *   grid       at most one thread block per multiprocessor; the tile scheduler (schedule.cuh) assigns whole tiles
 *              round-robin, or one K range of a tile to each thread block
 *   producers  as in wgmma_kernel.cuh
 *   consumers  two or three warpgroups of 64 columns each: the main loop runs once for each slice of K, and the sums of
 *              slices are added in a binary tree (pending_sums.cuh); then the sums of the K ranges of a tile are
 *              exchanged and added as the tree's upper levels
 *
 * Programmatic dependent launch: as in wgmma_kernel.cuh. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SLICED_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SLICED_KERNEL_CUH

#include "kernels/cuda/gemm/dense/pending_sums.cuh"
#include "kernels/cuda/gemm/dense/wgmma_kernel.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_gemm {

/* Panels of a thread block's tile. */
__host__ __device__ constexpr int sliced_panels(int warpgroups)
{
  return warpgroups * WARPGROUP_PANELS;
}

/* Registers per thread: at the start, then of producers and of consumers. */
struct sliced_registers {
  int start, producer, consumer;
};

__host__ __device__ constexpr sliced_registers sliced_registers_of(occupancy taken)
{
  return taken == occupancy::HALF   ? sliced_registers{HALF_REGISTERS, HALF_PRODUCER_REGISTERS, HALF_CONSUMER_REGISTERS}
         : taken == occupancy::MOST ? sliced_registers{96, 40, 112}
                                    : sliced_registers{168, 40, 232};
}

struct sliced_params : wgmma_params {
  int slice_k_tiles;
  bool f32_output;
};

/* Completes the sums of this block's tokens with those of its PEERS - 1 peers. Peer index ^ j has the K range that is
 * number j of the tree as seen from this block: additions are commutative, so every block has the bits of one tree. */
template <int PEERS, int WARPGROUPS, int N>
__device__ __forceinline__ void receive_tree(const sliced_params &p, const tile_peers &peers, int warpgroup,
                                             float (&acc)[1][N / 8][4])
{
  constexpr int N8 = N / 8, AT_ONCE = PEERS == 2 && N8 >= 4 ? 4 : PEERS <= 4 ? 2 : 1;
#pragma unroll
  for (int first = 0; first < N8; first += AT_ONCE) {
    if (first >= peers.own.end || first + AT_ONCE <= peers.own.first) continue;
    uint4 v[PEERS][AT_ONCE];
    uint4 *from[PEERS];
#pragma unroll
    for (int j = 1; j < PEERS; j++)
      from[j] = pieces_of<1, N>(p, peers.first + (peers.index ^ j), WARPGROUPS, warpgroup);
    bool complete;
    do {
      complete = true;
#pragma unroll
      for (int j = 1; j < PEERS; j++) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) v[j][i] = load_relaxed_gpu16(from[j] + (first + i) * 128);
      }
#pragma unroll
      for (int j = 1; j < PEERS; j++) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) complete = complete && (is_written(v[j][i]) || !peers.own.holds(first + i));
      }
    } while (!__all_sync(~0u, complete));
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      if (!peers.own.holds(first + i)) continue;
      float sums[PEERS][4];
#pragma unroll
      for (int e = 0; e < 4; e++) sums[0][e] = acc[0][first + i][e];
#pragma unroll
      for (int j = 1; j < PEERS; j++) {
        const uint4 piece = v[j][i];
        sums[j][0] = __uint_as_float(~piece.x);
        sums[j][1] = __uint_as_float(~piece.y);
        sums[j][2] = __uint_as_float(~piece.z);
        sums[j][3] = __uint_as_float(~piece.w);
        store_relaxed_gpu16(from[j] + (first + i) * 128, 0);
      }
#pragma unroll
      for (int step = 1; step < PEERS; step *= 2) {
#pragma unroll
        for (int j = 0; j < PEERS; j += 2 * step) {
#pragma unroll
          for (int e = 0; e < 4; e++) sums[j][e] += sums[j + step][e];
        }
      }
#pragma unroll
      for (int e = 0; e < 4; e++) acc[0][first + i][e] = sums[0][e];
    }
  }
}

/* Sends to each peer the partial sums of the tokens that the peer finishes, and completes those of this block. */
template <int WARPGROUPS, int N>
__device__ __forceinline__ void exchange_tree(const sliced_params &p, int range, const tile_peers &peers, int warpgroup,
                                              float (&acc)[1][N / 8][4])
{
  uint4 *to = pieces_of<1, N>(p, range, WARPGROUPS, warpgroup);
#pragma unroll
  for (int i = 0; i < N / 8; i++) {
    if (!peers.own.holds(i)) store_inverted_relaxed_gpu16(to + i * 128, acc[0][i]);
  }
  if (peers.own.first == peers.own.end) return;
  if (peers.count == 2)
    receive_tree<2, WARPGROUPS, N>(p, peers, warpgroup, acc);
  else if (peers.count == 4)
    receive_tree<4, WARPGROUPS, N>(p, peers, warpgroup, acc);
  else
    receive_tree<8, WARPGROUPS, N>(p, peers, warpgroup, acc);
}

/* Adds the sums of a tile's K ranges and writes the results of this block's tokens. acc: the sums of this range. */
template <yk_dtype DTYPE, int WARPGROUPS, int N>
__device__ __forceinline__ void finish_sliced_tile(const sliced_params &p, int range, const tile_peers &peers,
                                                   int warpgroup, uint32_t staging, int64_t row0, int token0, int lane,
                                                   float (&acc)[1][N / 8][4])
{
  if (peers.count > 1) exchange_tree<WARPGROUPS, N>(p, range, peers, warpgroup, acc);
  if (p.f32_output)
    write_floats<1, N>(p, row0, token0, peers.own, lane, acc);
  else if (p.activation.is_gated)
    write_output<DTYPE, 1, N, true>(p, staging, row0, token0, peers.own, lane, acc);
  else
    write_output<DTYPE, 1, N, false>(p, staging, row0, token0, peers.own, lane, acc);
}

/* A consumer warp: processes all work tiles of the block. The accumulators of a slice are new variables, since wgmma
 * would be serialised if other instructions wrote their registers. */
template <yk_dtype DTYPE, typename PANEL, int WARPGROUPS, int N>
__device__ __forceinline__ void consume_slices(const sliced_params &p,
                                               const block_shared_memory<PANEL, WARPGROUPS, N> &memory)
{
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  const uint32_t staging = memory.staging(p) + threadIdx.x / 32 * staging_bytes(1, N);
  const int range = tile_scheduler::range_of(p, blockIdx.x);
  tile_ring x = memory.x(p), weights = memory.weights(p);
  work_tile w;
  for (tile_scheduler scheduler(p, blockIdx.x); scheduler.next(p, w);) {
    pending_sums<N / 8, N != 64> pending; /* tiles of 64 tokens lack the registers */
    int tile_m, tile_n;
    tile_coordinates(p, w.tile, tile_m, tile_n);
    tile_peers peers = peers_of(p, range, w, N / 8);
    compute_now(tile_m, tile_n, peers);
    prefetch_partials<WARPGROUPS, 1, N>(p, peers, warpgroup);
    wait_for_previous_kernel(); /* returns at once except for the first tile */
    let_next_kernel_start();
    const int64_t row0 =
        static_cast<int64_t>(tile_m * sliced_panels(WARPGROUPS) + first_panel<1>(warpgroup, warp)) * PANEL_COLUMNS;
#pragma unroll 1
    for (int at = w.first, slice = 0; at < w.last; at += p.slice_k_tiles, slice++) {
      float acc[1][N / 8][4];
      mainloop<DTYPE, PANEL, 1, N, 1>(x, weights, {w.tile, at, at + p.slice_k_tiles}, warpgroup, warp, lane, acc);
      const bool is_last = at + p.slice_k_tiles >= w.last;
      pending.add(slice, is_last, acc[0]);
      if (is_last)
        finish_sliced_tile<DTYPE, WARPGROUPS, N>(p, range, peers, warpgroup, staging, row0, tile_n * N, lane, acc);
    }
  }
}

/* PANEL: a panel_layout without row scales; the others as in sliced_shape. */
template <yk_dtype DTYPE, typename PANEL, int WARPGROUPS, int N, occupancy OCCUPANCY>
__global__ void __maxnreg__(sliced_registers_of(OCCUPANCY).start)
    sliced_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ sliced_params p)
{
#ifdef YK_HAVE_SM90A
  static_assert(!has_row_scales(PANEL::ENCODING), "they would differ by rank");
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[2 * tile_ring::BARRIERS + 1];
  const block_shared_memory<PANEL, WARPGROUPS, N> memory = {shared_address(shared), shared_address(barriers)};
  if (threadIdx.x == WARPGROUPS * 128) {
    prefetch_tensor_map(&map);
    memory.x(p).init(X_WARPS, WARPGROUPS * 4);
    memory.weights(p).init(1, WARPGROUPS * 4);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= (WARPGROUPS + 1) * 128) {
    hold_registers();
    return;
  }
  if (threadIdx.x >= WARPGROUPS * 128) {
    lower_registers<sliced_registers_of(OCCUPANCY).producer>();
    const int warp = threadIdx.x / 32 - WARPGROUPS * 4;
    if (threadIdx.x % 32 == 0) {
      if (warp == 0)
        produce_weights<sliced_panels(WARPGROUPS), PANEL::BYTES, 1>(p, p.panels, memory.weights(p), blockIdx.x, 0);
      else if (warp <= X_WARPS)
        produce_x<N, 1>(&map, p, memory.x(p), blockIdx.x, 0, (warp - 1) * X_BOX_INPUTS, (warp - 1) * N * X_BOX_BYTES);
    }
    __syncwarp();
  } else {
    raise_registers<sliced_registers_of(OCCUPANCY).consumer>();
    consume_slices<DTYPE, PANEL, WARPGROUPS, N>(p, memory);
    if constexpr (OCCUPANCY == occupancy::HALF) release_idle_warps();
  }
#endif
}

} // namespace yk_gemm

#endif
