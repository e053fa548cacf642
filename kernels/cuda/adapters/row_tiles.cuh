/* row_tiles.cuh - tiles of rows with the same adapter, among a step's rows.
 *
 * A step's rows are divided into chunks of 64. A chunk's tiles are its rows by ascending adapter, at most tile_rows of
 * an adapter in a tile. The tiles of a chunk are distributed round-robin over its thread blocks, and each thread block
 * finds its tiles itself: the adapters of rows are part of the step's description, so a tile is found before
 * griddepcontrol.wait. */
#ifndef YK_KERNELS_CUDA_ADAPTERS_ROW_TILES_CUH
#define YK_KERNELS_CUDA_ADAPTERS_ROW_TILES_CUH

#include <algorithm>
#include <climits>
#include <cstdint>

#include <cuda_runtime.h>

namespace yk_adapters {

constexpr int CHUNK_ROWS = 64, WARP = 32;

/* A tile in shared memory. */
struct row_tile {
  int adapter; /* 0: rows without an adapter */
  int n_rows;  /* 0: the chunk has no such tile */
  int n_tiles; /* of the chunk */
  uint8_t rows[CHUNK_ROWS];
};

/* The step's rows. */
struct row_source {
  const int32_t *adapters; /* [n_rows] */
  int n_rows;
  int least_adapter; /* 0, or 1 to leave out rows without an adapter */
  int tile_rows;     /* a power of two, at most CHUNK_ROWS: a division would double the time of find_tile */
};

/* Number of chunks of rows, and thread blocks that share the tiles of each chunk, in a step of n_rows: with few rows,
 * one thread block per tile is needed to fill the GPU. */
inline int chunks_of(int64_t n_rows)
{
  return static_cast<int>((n_rows + CHUNK_ROWS - 1) / CHUNK_ROWS);
}

inline int tile_slots_of(int64_t n_rows, int n_adapters)
{
  if (chunks_of(n_rows) > 8) return 2;
  return static_cast<int>(std::min<int64_t>({8, n_rows, n_adapters + 4}));
}

/* Called by all threads: tile number index of the chunk's tiles. Its barriers separate the use of the previous tile
 * from the use of this tile. */
__device__ __forceinline__ void find_tile(row_tile &tile, const row_source &source, int first_row, int index)
{
  __syncthreads();
  if (threadIdx.x < WARP) {
    const int lane = threadIdx.x, n = source.n_rows - first_row, shift = __ffs(source.tile_rows) - 1;
    int own[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
      own[i] = lane + i * WARP < n ? __ldg(source.adapters + first_row + lane + i * WARP) : INT_MAX;
    int adapter = source.least_adapter - 1, n_tiles = 0, found = INT_MAX, first = 0, count = 0;
    unsigned holders[2] = {};
    while (true) { /* ends at INT_MAX, which is larger than every adapter */
      int next = INT_MAX;
#pragma unroll
      for (int i = 0; i < 2; i++)
        if (own[i] > adapter) next = min(next, own[i]);
      adapter = __reduce_min_sync(~0u, next);
      if (adapter == INT_MAX) break;
      const unsigned low = __ballot_sync(~0u, own[0] == adapter), high = __ballot_sync(~0u, own[1] == adapter);
      const int n_rows = __popc(low) + __popc(high), tiles = (n_rows + source.tile_rows - 1) >> shift;
      if (index >= n_tiles && index < n_tiles + tiles) {
        found = adapter;
        first = (index - n_tiles) << shift;
        count = n_rows;
        holders[0] = low;
        holders[1] = high;
      }
      n_tiles += tiles;
    }
    int before = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int at = before + __popc(holders[i] & ((1u << lane) - 1)) - first;
      if (count > 0 && own[i] == found && at >= 0 && at < source.tile_rows)
        tile.rows[at] = static_cast<uint8_t>(lane + i * WARP);
      before += __popc(holders[i]);
    }
    if (lane == 0) {
      tile.adapter = found;
      tile.n_rows = min(count - first, source.tile_rows);
      tile.n_tiles = n_tiles;
    }
  }
  __syncthreads();
}

} // namespace yk_adapters

#endif
