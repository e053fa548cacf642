/* mma_warps.cuh - warp specialisation of the small-batch kernel, in the order of warps: eight consumers, four
 * producers, and in a second half four idle warps that hold registers (occupancy.cuh). */
#ifndef YK_KERNELS_CUDA_GEMM_MMA_WARPS_CUH
#define YK_KERNELS_CUDA_GEMM_MMA_WARPS_CUH

#include <cuda.h>

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/occupancy.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"

namespace yk_gemm {

/* Twelve or sixteen consumer warps would have too few registers each for the large tiles. */
constexpr int CONSUMER_WARPS = 8, PRODUCER_WARPS = 4;
static_assert((CONSUMER_WARPS + PRODUCER_WARPS) * 32 == HALF_THREADS[0], "all but the idle warps");
constexpr int CONSUMERS_BARRIER = 1; /* named barrier of the consumer warps */

__device__ __forceinline__ void sync_consumers()
{
  named_barrier_sync(CONSUMERS_BARRIER, CONSUMER_WARPS * 32);
}

/* Panels are divided evenly among the clusters: `each` per cluster, the first `longer` clusters one more. */
struct panel_split {
  int each, longer;
};

inline panel_split split_panels(int64_t panels, int64_t clusters)
{
  return {static_cast<int>(panels / clusters), static_cast<int>(panels % clusters)};
}

/* The work of one block: K tiles [first_k_tile, first_k_tile + k_tiles) of panels [panel, panel_end). A cluster is one
 * block, or two that split K. */
struct block_work {
  int panel, panel_end, first_k_tile, k_tiles;
  uint32_t rank, n_ranks; /* within the cluster */

  /* Returns how many of `count` items of the output tile this block adds and writes. count: even if two blocks share
   * the tile. */
  __device__ __forceinline__ int own_part(int count) const
  {
    return n_ranks == 2 ? count / 2 : count;
  }
};

/* k_tiles: of the GEMM. Avoids an integer division by a variable, which would delay the block's first copy of
 * weights. */
__device__ __forceinline__ block_work work_of_block(const panel_split &split, int k_tiles)
{
  block_work w;
  w.rank = cluster_rank();
  w.n_ranks = cluster_size();
  int cluster = static_cast<int>(w.n_ranks == 2 ? blockIdx.x / 2 : blockIdx.x);
  w.panel = cluster * split.each + min(cluster, split.longer);
  w.panel_end = w.panel + split.each + (cluster < split.longer ? 1 : 0);
  w.first_k_tile = w.rank == 1 ? k_tiles / 2 : 0;
  w.k_tiles = w.n_ranks == 1 ? k_tiles : w.rank == 1 ? k_tiles - k_tiles / 2 : k_tiles / 2;
  return w;
}

/* Called by all threads: one thread calls init_barriers, one lets the next kernel start unless next_is_late; on return
 * the barriers of all blocks of the cluster can be used. */
template <typename INIT>
__device__ __forceinline__ void begin_block(const CUtensorMap *map, bool next_is_late, INIT init_barriers)
{
  if (threadIdx.x == CONSUMER_WARPS * 32) {
    prefetch_tensor_map(map);
    init_barriers();
  }
  if (threadIdx.x == 0 && !next_is_late) let_next_kernel_start();
  if (cluster_size() == 1)
    __syncthreads();
  else
    cluster_sync_relaxed();
}

/* After begin_block, each warp takes its role: consumer warps, with CONSUMER_REGISTERS per thread, call consume(); one
 * lane of each producer warp calls produce(number); idle warps wait. The last call of the kernel. */
template <int CONSUMER_REGISTERS, typename PRODUCE, typename CONSUME>
__device__ __forceinline__ void run_warps(PRODUCE produce, CONSUME consume)
{
  int producer = static_cast<int>(threadIdx.x / 32) - CONSUMER_WARPS;
  if (producer >= PRODUCER_WARPS) {
    hold_registers();
  } else if (producer >= 0) {
    lower_registers<HALF_PRODUCER_REGISTERS>();
    if (threadIdx.x % 32 == 0) produce(producer);
  } else {
    raise_registers<CONSUMER_REGISTERS>();
    consume();
    release_idle_warps();
  }
}

} // namespace yk_gemm

#endif
