/* wgmma_kernel.cuh - WNA16 GEMM of more than 16 tokens on 9.0: one persistent kernel for any number.
 *
 *   grid       at most one thread block per multiprocessor; clusters of two with neighbouring tiles M may share their
 *              tokens by multicast, or clusters of two to eight share a tile, each block with one K range; the tile
 *              scheduler (schedule.cuh) assigns output tiles and K ranges
 *   producers  the last warpgroup. Warp 0: weights, one bulk copy per K tile; warps 1 and 2: a half of x each, by
 *              tensor map with the 128-byte swizzle and zeros past the edges. Single lanes issue the copies, since each
 *              copy costs the issuing warp hundreds of cycles. Weights and x have separate rings of stages
 *   consumers  two or three warpgroups of 64 * WGMMA_M columns each: weights are dequantised in registers (A operand of
 *              wgmma), x is read from shared memory (B operand); then the exchange of partial sums (split_k.cuh,
 *              wgmma_cluster.cuh) and the epilogue (wgmma_epilogue.cuh)
 *
 * Programmatic dependent launch: copies of the first stages' weights are issued before griddepcontrol.wait, since they
 * do not depend on the preceding kernel; x and partial sums are read after the wait. Then the next kernel may start.
 * Every block has a tile, so every block waits. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_KERNEL_CUH

#include <utility>

#include <cuda.h>

#include "kernels/cuda/gemm/dense/wgmma_cluster.cuh"
#include "kernels/cuda/gemm/occupancy.cuh"
#include "kernels/cuda/gemm/stage_producers.cuh"
#include "kernels/cuda/gemm/tiles.h"
#include "kernels/cuda/gemm/wgmma_epilogue.cuh"
#include "kernels/cuda/gemm/wgmma_mainloop.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_gemm {

constexpr int X_WARPS = 2; /* producer warps of x, with a half of each stage's inputs each */
constexpr int X_BOX_INPUTS = TILE_K / X_WARPS;

/* Registers per thread: at the start, then of producers and of consumers. setmaxnreg distributes only the registers
 * that the block started with; a kernel that requests more hangs. */
__host__ __device__ constexpr int start_registers(int warpgroups, occupancy taken)
{
  return taken == occupancy::ALL ? SM_REGISTERS / (128 * (warpgroups + 1)) / 8 * 8 : HALF_REGISTERS;
}

__host__ __device__ constexpr int producer_registers(occupancy taken)
{
  return taken == occupancy::ALL ? 40 : HALF_PRODUCER_REGISTERS;
}

__host__ __device__ constexpr int consumer_registers(int warpgroups, occupancy taken)
{
  if (taken != occupancy::ALL) return HALF_CONSUMER_REGISTERS;
  return warpgroups == 3 ? 152 : 232;
}

/* A consumer warp: processes all work tiles of the block. */
template <yk_dtype DTYPE, yk_dtype RESULT, typename PANEL, int WARPGROUPS, int WGMMA_M, int N, int CLUSTER>
__device__ __forceinline__ void
consume(const wgmma_params &p, const block_shared_memory<PANEL, WARPGROUPS * WGMMA_M, N> &memory, int cluster, int rank)
{
  int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  uint32_t staging = memory.staging(p) + threadIdx.x / 32 * staging_bytes(WGMMA_M, N);
  tile_ring x = memory.x(p), weights = memory.weights(p);
  int range = tile_scheduler::range_of(p, cluster);
  int of_cluster = rank * WARPGROUPS + warpgroup; /* the warpgroup's number among those of its cluster */
  work_tile w;
  for (tile_scheduler scheduler(p, cluster); scheduler.next(p, w);) {
    float acc[WGMMA_M][N / 8][4];
    int tile_m, tile_n;
    tile_coordinates(p, w.tile, tile_m, tile_n);
    tile_peers peers = peers_of(p, range, w, N / 8);
    compute_now(tile_m, tile_n, peers);
    if (p.peer_groups == 0)
      prefetch_partials<WARPGROUPS * CLUSTER, WGMMA_M, N>(p, peers, of_cluster);
    else if (threadIdx.x == 0)
      expect_partials<WARPGROUPS, WGMMA_M>(peers, memory.received_full());
    wait_for_previous_kernel(); /* returns at once except for the first tile */
    let_next_kernel_start();    /* called by consumers, since the producer warps of x are time-critical */
    float2 row_scales[WGMMA_M];
    if constexpr (has_row_scales(PANEL::ENCODING)) {
      int panel =
          (tile_m * CLUSTER + rank) * WARPGROUPS * WGMMA_M * WARPGROUP_PANELS + first_panel<WGMMA_M>(warpgroup, warp);
#pragma unroll
      for (int c = 0; c < WGMMA_M; c++)
        row_scales[c] = load_row_scales(p.row_scales, min(panel + c, p.panels - 1), lane);
    }
    mainloop<DTYPE, PANEL, WGMMA_M, N, CLUSTER>(x, weights, w, warpgroup, warp, lane, acc);
    if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
      for (int c = 0; c < WGMMA_M; c++) scale_rows(row_scales[c], acc[c]);
    }
    if (p.peer_groups > 0)
      exchange_in_cluster<WARPGROUPS, WGMMA_M, N>(p, peers, memory.received(p), memory.received_full(), acc);
    else if (peers.count > 1)
      exchange_partials<WARPGROUPS * CLUSTER, WGMMA_M, N>(p, range, peers, of_cluster, acc);
    if (peers.own.first == peers.own.end) continue;
    int64_t panel = (static_cast<int64_t>(tile_m) * CLUSTER + rank) * WARPGROUPS * WGMMA_M * WARPGROUP_PANELS +
                    first_panel<WGMMA_M>(warpgroup, warp);
    int64_t row0 = panel * PANEL_COLUMNS;
    if constexpr (RESULT == YK_F32)
      write_floats<WGMMA_M, N>(p, row0, tile_n * N, peers.own, lane, acc);
    else if (p.activation.is_gated)
      write_output<DTYPE, WGMMA_M, N, true>(p, staging, row0, tile_n * N, peers.own, lane, acc);
    else
      write_output<DTYPE, WGMMA_M, N, false>(p, staging, row0, tile_n * N, peers.own, lane, acc);
  }
}

/* PANEL: a panel_layout; RESULT: type of y; the others as in wgmma_shape. */
template <yk_dtype DTYPE, yk_dtype RESULT, typename PANEL, int WARPGROUPS, int WGMMA_M, int N, occupancy OCCUPANCY,
          int CLUSTER>
__global__ void __maxnreg__(start_registers(WARPGROUPS, OCCUPANCY))
    wgmma_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ wgmma_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[2 * tile_ring::BARRIERS + 1];
  block_shared_memory<PANEL, WARPGROUPS * WGMMA_M, N> memory = {shared_address(shared), shared_address(barriers)};
  int cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
  if (threadIdx.x == WARPGROUPS * 128) {
    prefetch_tensor_map(&map);
    memory.x(p).init(X_WARPS, WARPGROUPS * 4 * CLUSTER);
    memory.weights(p).init(1, WARPGROUPS * 4);
    mbarrier_init(memory.received_full(), 1);
    fence_mbarrier_init();
  }
  if constexpr (CLUSTER == 1) {
    if (p.peer_groups > 0)
      cluster_sync_relaxed();
    else
      __syncthreads();
  } else {
    cluster_sync();
  }
  if (threadIdx.x >= (WARPGROUPS + 1) * 128) {
    hold_registers();
    return;
  }
  if (threadIdx.x >= WARPGROUPS * 128) {
    lower_registers<producer_registers(OCCUPANCY)>();
    int warp = threadIdx.x / 32 - WARPGROUPS * 4;
    if (threadIdx.x % 32 == 0) {
      if (warp == 0)
        produce_weights<WARPGROUPS * WGMMA_M * WARPGROUP_PANELS, PANEL::BYTES, CLUSTER>(p, p.panels, memory.weights(p),
                                                                                        cluster, rank);
      else if (warp <= X_WARPS)
        produce_x<N, CLUSTER>(&map, p, memory.x(p), cluster, rank, (warp - 1) * X_BOX_INPUTS,
                              (warp - 1) * N * X_BOX_BYTES);
    }
    __syncwarp();
  } else {
    raise_registers<consumer_registers(WARPGROUPS, OCCUPANCY)>();
    consume<DTYPE, RESULT, PANEL, WARPGROUPS, WGMMA_M, N, CLUSTER>(p, memory, cluster, rank);
    if constexpr (OCCUPANCY == occupancy::HALF) release_idle_warps();
  }
  if constexpr (CLUSTER > 1) cluster_sync(); /* the other block may still copy to this one or arrive at its barriers */
#endif
}

} // namespace yk_gemm

#endif
