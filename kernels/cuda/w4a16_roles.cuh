/* w4a16_roles.cuh - what the warps of a block do, in the products of few tokens on Hopper: eight multiply, four fetch, and
 * in one of the two turns four more hold registers (w4a16_internal.cuh). */
#ifndef YK_KERNELS_CUDA_W4A16_ROLES_CUH
#define YK_KERNELS_CUDA_W4A16_ROLES_CUH

#include <cuda.h>

#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/w4a16_internal.cuh"

namespace w4a16 {

constexpr int MULTIPLIERS = 8, PRODUCERS = 4; /* warps, in this order */
static_assert((MULTIPLIERS + PRODUCERS) * 32 == TURN_THREADS[0], "those who work");

__device__ __forceinline__ void sync_multipliers()
{
  named_barrier_sync(1, MULTIPLIERS * 32);
}

/* Clusters have one block or two. Units are dealt out evenly: so many to each cluster, the first ones one more. */
struct cluster_units {
  int each, longer;
};

inline cluster_units deal_units(int64_t units, int64_t clusters)
{
  return {static_cast<int>(units / clusters), static_cast<int>(units % clusters)};
}

/* What a block works on: K tiles [first, first + tiles) of units [unit, unit_end). Without a division, which would delay its
 * first request for weights. */
struct block_work {
  int unit, unit_end, first, tiles;
  uint32_t rank, n_ranks; /* within the cluster */

  /* This block's part of so many things that the cluster's blocks share. */
  __device__ __forceinline__ int share_of(int count) const
  {
    return n_ranks == 2 ? count / 2 : count;
  }
};

__device__ __forceinline__ block_work work_of_block(const cluster_units &units, int k_tiles)
{
  block_work w;
  w.rank = cluster_rank();
  w.n_ranks = cluster_size();
  int cluster = static_cast<int>(w.n_ranks == 2 ? blockIdx.x / 2 : blockIdx.x);
  w.unit = cluster * units.each + min(cluster, units.longer);
  w.unit_end = w.unit + units.each + (cluster < units.longer ? 1 : 0);
  w.first = w.rank == 1 ? k_tiles / 2 : 0;
  w.tiles = w.n_ranks == 1 ? k_tiles : w.rank == 1 ? k_tiles - k_tiles / 2 : k_tiles / 2;
  return w;
}

/* The whole block: one thread calls init_barriers, the next product is let in, and the barriers of all blocks of the cluster
 * are ready. */
template <typename INIT> __device__ __forceinline__ void begin_block(const CUtensorMap *map, INIT init_barriers)
{
  if (threadIdx.x == MULTIPLIERS * 32) {
    prefetch_tensor_map(map);
    init_barriers();
  }
  if (threadIdx.x == 0) let_next_kernel_start();
  if (cluster_size() == 1)
    __syncthreads();
  else
    cluster_sync_relaxed();
}

/* Then each warp does its part: the multipliers, with so many registers, multiply(); one lane of each other produce(number).
 * The last call of the kernel. */
template <int REGISTERS, typename PRODUCE, typename MULTIPLY>
__device__ __forceinline__ void divide_work(PRODUCE produce, MULTIPLY multiply)
{
  int producer = static_cast<int>(threadIdx.x / 32) - MULTIPLIERS;
  if (producer >= PRODUCERS) {
    hold_registers();
  } else if (producer >= 0) {
    lower_registers<TURN_PRODUCER_REGISTERS>();
    if (threadIdx.x % 32 == 0) produce(producer);
  } else {
    raise_registers<REGISTERS>();
    multiply();
    release_holders();
  }
}

} // namespace w4a16

#endif
