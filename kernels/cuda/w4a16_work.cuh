/* w4a16_work.cuh - what a block of the Hopper kernel works on, and the ring of stages that feeds it. */
#ifndef YK_KERNELS_CUDA_W4A16_WORK_CUH
#define YK_KERNELS_CUDA_W4A16_WORK_CUH

#include <cuda.h>

#include "kernels/cuda/w4a16_internal.cuh"

namespace w4a16 {

constexpr int FEW_TOKENS = 32; /* up to here mma.sync, weights scaled by group in float32 */
constexpr int MAX_STAGES = 12;
constexpr int TILE_UNITS = 4;       /* of the 64 columns of one wgmma, one a warp */
constexpr int BAND_TOKEN_TILES = 8; /* token tiles that share a sweep over the columns, for the L2 cache */

struct wgmma_params {
  const uint8_t *packed;
  const void *bias;
  void *y;
  float *partial; /* [range][columns of a tile x N], zero between launches */
  int m, n;
  int k_tiles, units, unit_bytes;
  int row_tiles, token_tiles; /* work tiles along columns and tokens */
  int clusters;               /* of the grid */
  int split_tiles;            /* the first tiles are cut along K ... */
  int split_blocks;           /* ... into so many ranges ... */
  int cuts;                   /* of each tile, or 0 where ranges ignore the tiles' ends: then each has ... */
  int range_units;            /* ... so many K tiles, */
  int longer_ranges;          /* the first so many one more */
  int stages;
  bool gate_up;
};

/* A run of K tiles [first, last) of one work tile. */
struct work {
  int tile, first, last;
};

/* The runs of one block in order: its range of the split tiles, then whole tiles. */
struct work_list {
  int unit, unit_end, whole;

  __device__ __forceinline__ static int range_start(const wgmma_params &p, int range)
  {
    if (p.cuts) return range / p.cuts * p.k_tiles + range % p.cuts * p.k_tiles / p.cuts;
    return range * p.range_units + min(range, p.longer_ranges);
  }

  __device__ __forceinline__ static int split_range(const wgmma_params &p, int cluster)
  {
    return p.split_blocks - 1 - cluster;
  }

  __device__ __forceinline__ work_list(const wgmma_params &p, int cluster)
  {
    int range = split_range(p, cluster);
    unit = range < 0 ? 0 : range_start(p, range);
    unit_end = range < 0 ? 0 : range_start(p, range + 1);
    whole = p.split_tiles + cluster;
  }

  __device__ __forceinline__ bool next(const wgmma_params &p, work &w)
  {
    if (unit < unit_end) {
      w.tile = unit / p.k_tiles;
      w.first = unit % p.k_tiles;
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

__device__ __forceinline__ void place_of_tile(const wgmma_params &p, int tile, int &row_tile, int &token_tile)
{
  int band = tile / (BAND_TOKEN_TILES * p.row_tiles), in_band = tile % (BAND_TOKEN_TILES * p.row_tiles);
  int width = min(BAND_TOKEN_TILES, p.token_tiles - band * BAND_TOKEN_TILES);
  row_tile = in_band / width;
  token_tile = band * BAND_TOKEN_TILES + in_band % width;
}

/* Shared memory of one block: x of all stages (1024-byte swizzle atoms), weights of all stages, staging of results.
 * R times 64 columns and N tokens a stage. */
template <int R, int N> struct ring {
  static constexpr int X_BYTES = N * TILE_K * 2;
  uint32_t memory, barriers;
  int stage = 0, phase = 0;

  __device__ __forceinline__ uint32_t x() const
  {
    return memory + stage * X_BYTES;
  }
  __device__ __forceinline__ uint32_t weights(const wgmma_params &p) const
  {
    return memory + p.stages * X_BYTES + stage * R * TILE_UNITS * p.unit_bytes;
  }
  __device__ __forceinline__ uint32_t staging(const wgmma_params &p) const
  {
    return memory + p.stages * (X_BYTES + R * TILE_UNITS * p.unit_bytes);
  }
  __device__ __forceinline__ uint32_t full() const
  {
    return barriers + stage * 8;
  }
  __device__ __forceinline__ uint32_t empty() const
  {
    return barriers + (MAX_STAGES + stage) * 8;
  }
  __device__ __forceinline__ void advance(const wgmma_params &p)
  {
    if (++stage == p.stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

} // namespace w4a16

#endif
