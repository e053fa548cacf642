/* w4a16_work.cuh - what a block of the Hopper kernel works on, and the rings of stages that feed it. */
#ifndef YK_KERNELS_CUDA_W4A16_WORK_CUH
#define YK_KERNELS_CUDA_W4A16_WORK_CUH

#include <cuda.h>

#include "kernels/cuda/divider.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/w4a16_internal.cuh"

namespace w4a16 {

constexpr int MAX_STAGES = 12;      /* of each ring */
constexpr int TILE_UNITS = 4;       /* of the 64 columns of one wgmma, one a warp */
constexpr int BAND_TOKEN_TILES = 8; /* token tiles that share a sweep over the columns, for the L2 cache */

struct wgmma_params {
  const uint8_t *packed;
  const void *bias;
  void *y;
  float *partial; /* [range][columns of a tile x N], zero between launches */
  int m, n;
  int k_tiles, units;
  int row_tiles, token_tiles; /* work tiles along columns and tokens */
  int full_bands;             /* of BAND_TOKEN_TILES token tiles; there may be one more */
  yk_cuda::divider by_k_tiles, by_cuts, by_band_tiles;
  yk_cuda::divider by_last_width; /* token tiles of the band past the full ones */
  int clusters;                   /* of the grid */
  int split_tiles;                /* the first tiles are cut along K ... */
  int split_blocks;               /* ... into so many ranges ... */
  int cuts;                       /* of each tile, or 0 where ranges ignore the tiles' ends: then each has ... */
  int range_units;                /* ... so many K tiles, */
  int longer_ranges;              /* the first so many one more */
  int x_stages, weight_stages;
  bool gate_up;
};

/* Of each of the split tiles, where all are cut alike; else 0. */
inline int cuts_of(int split_tiles, int split_blocks)
{
  return split_tiles > 0 && split_blocks % split_tiles == 0 ? split_blocks / split_tiles : 0;
}

/* How row_tiles x token_tiles work tiles of k_tiles each are divided among clusters: the first split_tiles are cut into
 * split_blocks ranges, the rest are dealt out whole. */
inline void divide_tiles(wgmma_params &p, int k_tiles, int row_tiles, int token_tiles, int split_tiles,
                         int split_blocks, int clusters)
{
  p.k_tiles = k_tiles;
  p.row_tiles = row_tiles;
  p.token_tiles = token_tiles;
  p.full_bands = token_tiles / BAND_TOKEN_TILES;
  p.cuts = cuts_of(split_tiles, split_blocks);
  p.by_k_tiles = yk_cuda::divider::of(k_tiles);
  p.by_cuts = yk_cuda::divider::of(std::max(p.cuts, 1));
  p.by_band_tiles = yk_cuda::divider::of(static_cast<int64_t>(BAND_TOKEN_TILES) * row_tiles);
  p.by_last_width = yk_cuda::divider::of(std::max(token_tiles % BAND_TOKEN_TILES, 1));
  p.split_tiles = split_tiles;
  p.split_blocks = split_blocks;
  p.range_units = split_blocks > 0 ? split_tiles * k_tiles / split_blocks : 0;
  p.longer_ranges = split_blocks > 0 ? split_tiles * k_tiles % split_blocks : 0;
  p.clusters = clusters;
}

/* A run of K tiles [first, last) of one work tile. */
struct work {
  int tile, first, last;
};

/* The runs of one block in order: its range of the split tiles, then whole tiles. */
struct work_list {
  int unit, unit_end, whole;

  __host__ __device__ __forceinline__ static int range_start(const wgmma_params &p, int range)
  {
    if (p.cuts) {
      int tile = p.by_cuts.quotient(range), part = range - tile * p.cuts;
      return tile * p.k_tiles + p.by_cuts.quotient(part * p.k_tiles);
    }
    return range * p.range_units + min(range, p.longer_ranges);
  }

  __host__ __device__ __forceinline__ static int split_range(const wgmma_params &p, int cluster)
  {
    return p.split_blocks - 1 - cluster;
  }

  __host__ __device__ __forceinline__ work_list(const wgmma_params &p, int cluster)
  {
    int range = split_range(p, cluster);
    unit = range < 0 ? 0 : range_start(p, range);
    unit_end = range < 0 ? 0 : range_start(p, range + 1);
    whole = p.split_tiles + cluster;
  }

  __host__ __device__ __forceinline__ bool next(const wgmma_params &p, work &w)
  {
    if (unit < unit_end) {
      w.tile = p.by_k_tiles.quotient(unit);
      w.first = unit - w.tile * p.k_tiles;
      w.last = min(p.k_tiles, w.first + unit_end - unit);
      unit += w.last - w.first;
      return true;
    }
    if (whole >= p.row_tiles * p.token_tiles) return false;
    w = {whole, 0, p.k_tiles};
    whole += p.clusters;
    return true;
  }
};

__host__ __device__ __forceinline__ void place_of_tile(const wgmma_params &p, int tile, int &row_tile, int &token_tile)
{
  int band = p.by_band_tiles.quotient(tile), in_band = tile - band * BAND_TOKEN_TILES * p.row_tiles;
  bool is_full = band < p.full_bands;
  int width = is_full ? BAND_TOKEN_TILES : static_cast<int>(p.by_last_width.by);
  row_tile = is_full ? in_band / BAND_TOKEN_TILES : p.by_last_width.quotient(in_band);
  token_tile = band * BAND_TOKEN_TILES + in_band - row_tile * width;
}

using tile_ring = yk_cuda::stage_ring<MAX_STAGES>;

/* One arrival of the warp at its own block's barrier, or at that of each block of its cluster. */
template <int CLUSTER> __device__ __forceinline__ void barrier_release(uint32_t barrier, int lane)
{
  if constexpr (CLUSTER == 1) {
    if (lane == 0) mbarrier_arrive(barrier);
  } else if (lane < CLUSTER) {
    mbarrier_arrive_remote(barrier, lane);
  }
}

/* Bytes of 128 inputs of N tokens, and of 64 R columns. */
__host__ __device__ constexpr int x_stage_bytes(int tokens)
{
  return tokens * TILE_K * 2;
}

__host__ __device__ constexpr int weight_stage_bytes(int groups, int units)
{
  return units * unit_bytes_of(groups);
}

/* Shared memory of a block: x in 1024-byte swizzle atoms, weights, staging of results. Weights do not depend on the kernel
 * before and come from further away, so that they have stages of their own, and more of them. */
template <int GROUPS, int R, int N> struct block_memory {
  static constexpr int X_BYTES = x_stage_bytes(N), WEIGHT_BYTES = weight_stage_bytes(GROUPS, R *TILE_UNITS);
  uint32_t memory, barriers;

  __device__ __forceinline__ tile_ring x(const wgmma_params &p) const
  {
    return tile_ring(memory, barriers, p.x_stages, X_BYTES);
  }
  __device__ __forceinline__ tile_ring weights(const wgmma_params &p) const
  {
    return tile_ring(memory + p.x_stages * X_BYTES, barriers + tile_ring::BARRIERS * 8, p.weight_stages, WEIGHT_BYTES);
  }
  __device__ __forceinline__ uint32_t staging(const wgmma_params &p) const
  {
    return memory + p.x_stages * X_BYTES + p.weight_stages * WEIGHT_BYTES;
  }
};

} // namespace w4a16

#endif
