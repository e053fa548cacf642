/* schedule.cuh - tile scheduler of the wgmma kernel: the output tiles, and their K tiles, of each thread block.
 *
 * An output tile is tile M columns of W by tile N tokens; a K tile is 128 inputs. The first split_tiles output tiles
 * are split along K: their K tiles, one output tile after the other, are one sequence that is cut into k_ranges K
 * ranges, one for each cluster. If the cuts coincide with the ends of tiles, each tile has k_splits ranges (split-K);
 * else a range may end one tile and begin the next one, and both are partial tiles (stream-K). The other tiles are
 * whole and assigned round-robin. Tiles are numbered such that neighbours share tokens: SWIZZLE_TILES_N tiles along N
 * by all along M are a band, so that a wave of blocks finds its weights and x in the L2 cache (thread block
 * swizzle). */
#ifndef YK_KERNELS_CUDA_GEMM_SCHEDULE_CUH
#define YK_KERNELS_CUDA_GEMM_SCHEDULE_CUH

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/common/division.cuh"

namespace yk_gemm {

constexpr int SWIZZLE_TILES_N = 8;

/* The kernel's parameters. Here a cluster is the thread blocks that share tokens by multicast, two with neighbouring
 * tiles M, or a single block. The blocks of a cluster of peers (dense/wgmma_cluster.cuh) count as one each. */
struct wgmma_params {
  const uint8_t *packed;
  const void *bias;
  void *y;
  float *partial; /* [K range][accumulators of a cluster's tile], zero between launches */
  int m, n;
  int k_tiles, panels;
  int tiles_m, tiles_n; /* output tiles of a cluster along columns and tokens */
  int full_bands;       /* bands of SWIZZLE_TILES_N tiles along N; one narrower band may follow */
  yk_cuda::divider by_k_tiles, by_k_splits, by_band_tiles, by_last_width; /* width of the band past the full ones */
  int clusters;                                                           /* clusters of the grid */
  int split_tiles;   /* the first output tiles are split along K ... */
  int k_ranges;      /* ... into this number of K ranges */
  int k_splits;      /* split-K: ranges of each tile. stream-K: 0, and each range has ... */
  int range_k_tiles; /* ... this number of K tiles, ... */
  int longer_ranges; /* ... but the first longer_ranges have one more */
  int x_stages, weight_stages;
  yk_activation activation;
  int peer_groups; /* maximum groups of 8 tokens that each block of a tile finishes, if these blocks are a cluster */
  const float *row_scales; /* NULL for an encoding without */
  int64_t y_stride;        /* elements between rows of float32 results; others are contiguous */
};

/* Ranges of each split tile if all tiles are split equally (split-K); else 0 (stream-K). */
inline int k_splits_of(int split_tiles, int k_ranges)
{
  return split_tiles > 0 && k_ranges % split_tiles == 0 ? k_ranges / split_tiles : 0;
}

/* Sets the division of tiles_m x tiles_n output tiles of k_tiles each among clusters: the first split_tiles (0: none)
 * in k_ranges, at most as many as clusters; the others whole. */
inline void schedule_tiles(wgmma_params &p, int k_tiles, int tiles_m, int tiles_n, int split_tiles, int k_ranges,
                           int clusters)
{
  p.k_tiles = k_tiles;
  p.tiles_m = tiles_m;
  p.tiles_n = tiles_n;
  p.full_bands = tiles_n / SWIZZLE_TILES_N;
  p.k_splits = k_splits_of(split_tiles, k_ranges);
  p.by_k_tiles = yk_cuda::divider::of(k_tiles);
  p.by_k_splits = yk_cuda::divider::of(std::max(p.k_splits, 1));
  p.by_band_tiles = yk_cuda::divider::of(static_cast<int64_t>(SWIZZLE_TILES_N) * tiles_m);
  p.by_last_width = yk_cuda::divider::of(std::max(tiles_n % SWIZZLE_TILES_N, 1));
  p.split_tiles = split_tiles;
  p.k_ranges = k_ranges;
  p.range_k_tiles = k_ranges > 0 ? split_tiles * k_tiles / k_ranges : 0;
  p.longer_ranges = k_ranges > 0 ? split_tiles * k_tiles % k_ranges : 0;
  p.clusters = clusters;
}

/* K tiles [first, last) of one output tile: all of them, or a partial tile. */
struct work_tile {
  int tile, first, last;
};

/* The work tiles of one cluster in order: its K range, then whole tiles. */
struct tile_scheduler {
  int next_k_tile, range_end; /* in the sequence of the split tiles' K tiles */
  int next_whole;

  /* The first K tile of a range, in the sequence of the split tiles' K tiles. */
  __host__ __device__ __forceinline__ static int range_start(const wgmma_params &p, int range)
  {
    if (p.k_splits) {
      int tile = p.by_k_splits.quotient(range), part = range - tile * p.k_splits;
      return tile * p.k_tiles + p.by_k_splits.quotient(part * p.k_tiles);
    }
    return range * p.range_k_tiles + min(range, p.longer_ranges);
  }

  /* The number of a cluster's K range: cluster 0 has the last range; negative if the cluster has none. */
  __host__ __device__ __forceinline__ static int range_of(const wgmma_params &p, int cluster)
  {
    return p.k_ranges - 1 - cluster;
  }

  __host__ __device__ __forceinline__ tile_scheduler(const wgmma_params &p, int cluster)
  {
    int range = range_of(p, cluster);
    next_k_tile = range < 0 ? 0 : range_start(p, range);
    range_end = range < 0 ? 0 : range_start(p, range + 1);
    next_whole = p.split_tiles + cluster;
  }

  /* The cluster's next work tile; returns false if there is none. */
  __host__ __device__ __forceinline__ bool next(const wgmma_params &p, work_tile &w)
  {
    if (next_k_tile < range_end) {
      w.tile = p.by_k_tiles.quotient(next_k_tile);
      w.first = next_k_tile - w.tile * p.k_tiles;
      w.last = min(p.k_tiles, w.first + range_end - next_k_tile);
      next_k_tile += w.last - w.first;
      return true;
    }
    if (next_whole >= p.tiles_m * p.tiles_n) return false;
    w = {next_whole, 0, p.k_tiles};
    next_whole += p.clusters;
    return true;
  }
};

/* Converts an output tile's number to its coordinates along M and N. */
__host__ __device__ __forceinline__ void tile_coordinates(const wgmma_params &p, int tile, int &tile_m, int &tile_n)
{
  int band = p.by_band_tiles.quotient(tile), in_band = tile - band * SWIZZLE_TILES_N * p.tiles_m;
  bool is_full = band < p.full_bands;
  int width = is_full ? SWIZZLE_TILES_N : static_cast<int>(p.by_last_width.by);
  tile_m = is_full ? in_band / SWIZZLE_TILES_N : p.by_last_width.quotient(in_band);
  tile_n = band * SWIZZLE_TILES_N + in_band - tile_m * width;
}

} // namespace yk_gemm

#endif
