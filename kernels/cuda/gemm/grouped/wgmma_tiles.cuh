/* wgmma_tiles.cuh - output tiles of the grouped wgmma kernel: their sizes, and their sequence in the order of the
 * work. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_TILES_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_TILES_CUH

#include "kernels/cuda/gemm/grouped/params.cuh"
#include "kernels/cuda/gemm/grouped/row_tile_order.cuh"
#include "kernels/cuda/gemm/grouped/tile_queue.cuh"
#include "kernels/cuda/gemm/grouped/tiles.h"
#include "kernels/cuda/gemm/grouped/wgmma_mainloops.cuh"

namespace yk_gemm {

constexpr int GROUPED_M64 = GROUPED_WARPGROUPS * GROUPED_WGMMA_M;
constexpr int GROUPED_TILE_PANELS = GROUPED_M64 * WARPGROUP_PANELS;
constexpr int GROUPED_CONSUMER_WARPS = 4 * GROUPED_WARPGROUPS;

/* Whether the first row tiles of the first matrices are assigned statically to blocks: with few rows. A block may then
 * have a tile of few rows before one of more. */
__host__ __device__ constexpr bool deals_tiles(int tile_n)
{
  return tile_n <= 16;
}

/* The number of widths of instructions that multiply a tile N, and the number of the narrowest that holds the given
 * rows: 0 is the widest. */
__host__ __device__ constexpr int n_widths(int tile_n)
{
  int widths = 0;
  for (int n = tile_n; n > 0; n = fewer_rows(tile_n, n)) widths++;
  return widths;
}

template <int N> __device__ __forceinline__ int width_of(int rows)
{
  int width = -1;
#pragma unroll
  for (int n = N; n > 0; n = fewer_rows(N, n)) width += rows > 0 && rows <= n;
  return width;
}

/* Called by all threads. Excludes the statically assigned row tile of a matrix; a part of the shared expert's weight
 * has all rows of its x. */
template <int N>
__device__ __forceinline__ void order_grouped_tiles(const grouped_params &p, const row_tile_order &order)
{
  const auto slots_of = [&](int m) {
    if (m >= p.call.n_matrices) return int2{0, p.call.shared_expert.n_rows};
    const int32_t *starts = p.call.starts + m;
    return int2{__ldcg(starts) + (m < p.n_dealt ? N : 0), __ldcg(starts + 1)};
  };
  order_row_tiles<N, n_widths(N)>(order, p.call.n_matrices + p.shared_expert_parts, slots_of, width_of<N>);
}

/* Output tiles in the order of the work. Statically assigned tiles have negative numbers. */
template <int N> struct grouped_tiles {
  const row_tile_order &order;

  __device__ __forceinline__ int n_dealt(const grouped_params &p) const
  {
    return p.n_dealt * p.tiles_m;
  }
  __device__ __forceinline__ int n_tiles(const grouped_params &p) const
  {
    return n_dealt(p) + order.size->y * p.tiles_m;
  }

  /* Tile number `at`; rows are 0 after the last tile, and for a statically assigned tile without rows. */
  __device__ __forceinline__ grouped_tile tile(const grouped_params &p, int at) const
  {
    if (at < 0) return dealt(p, at + n_dealt(p));
    const int number = p.by_tiles_m.quotient(at);
    if (number >= order.size->y) return {};
    const int m = order.map[number];
    const ordered_matrix of = order.matrices[m];
    const unsigned whole = of.rows() / N;
    unsigned tile_m = at - number * p.tiles_m, tile = whole;
    if (number < order.size->x) {
      const unsigned in_matrix = at - of.first_tile * p.tiles_m;
      tile_m = in_matrix / whole;
      tile = in_matrix - tile_m * whole;
    }
    const int first_slot = of.first_slot + static_cast<int>(tile) * N, matrix = min(m, p.call.n_matrices);
    const int part = m - matrix; /* part of the shared expert's weight */
    return {matrix, first_slot, min(N, of.end_slot - first_slot),
            (part * p.tiles_m + static_cast<int>(tile_m)) * GROUPED_TILE_PANELS};
  }

private:
  __device__ __forceinline__ grouped_tile dealt(const grouped_params &p, int number) const
  {
    const int matrix = p.by_tiles_m.quotient(number), first_slot = order.matrices[matrix].first_slot - N;
    return {matrix, first_slot, min(N, order.matrices[matrix].end_slot - first_slot),
            (number - matrix * p.tiles_m) * GROUPED_TILE_PANELS};
  }
};

} // namespace yk_gemm

#endif
