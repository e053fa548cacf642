/* product_ranges.cuh - constants that shrink.cu and expand.cu share: rows of a tile, and the K ranges of the product A
 * x. */
#ifndef YK_KERNELS_CUDA_ADAPTERS_PRODUCT_RANGES_CUH
#define YK_KERNELS_CUDA_ADAPTERS_PRODUCT_RANGES_CUH

#include <algorithm>

#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/layout/adapters.h"

namespace yk_adapters {

/* Warps of a thread block of shrink.cu: a range shorter than a chunk for each warp would leave warps idle. */
constexpr int RANGE_WARPS = 8;

/* Rows of a tile for steps of up to FEW_ROWS rows, most of which are decode steps, and for larger ones. */
constexpr int FEW_ROWS = 512, FEW_TILE_ROWS = 16, MANY_TILE_ROWS = 32;

/* Ranges times chunks of rows, unless there is one range: with more chunks of rows, the chunks fill the GPU. */
constexpr int64_t MOST_RANGE_CHUNKS = YK_ADAPTER_ROW_RANGES / CHUNK_ROWS;

struct product_ranges {
  int count;
  int chunks; /* of 32 columns, in every range but the last ones */
};

inline product_ranges product_ranges_of(const yk_cuda_adapter_layout &layout, int64_t n_rows)
{
  const int64_t most = std::clamp<int64_t>(MOST_RANGE_CHUNKS / chunks_of(n_rows), 1, YK_ADAPTER_RANGES);
  const int64_t wanted = std::clamp<int64_t>(layout.k_chunks / RANGE_WARPS, 1, most);
  const int64_t chunks = (layout.k_chunks + wanted - 1) / wanted;
  return {static_cast<int>((layout.k_chunks + chunks - 1) / chunks), static_cast<int>(chunks)};
}

inline int tile_rows_of(int64_t n_rows)
{
  return n_rows <= FEW_ROWS ? FEW_TILE_ROWS : MANY_TILE_ROWS;
}

} // namespace yk_adapters

#endif
