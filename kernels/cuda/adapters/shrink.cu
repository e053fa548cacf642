/* shrink.cu - the first product of adapters, A x: see adapters.h.
 *
 *   grid     K ranges by groups of SHRINK_TILES tiles of ranks; chunks of rows; blocks that share the tiles of a chunk
 *   block    all rows of a tile by the ranks of its group, over a K range; its warps alternate over chunks of 32
 *   columns warp     x_products.cuh
 *
 * The sums of the warps are added in shared memory, in the order of the warps. Sums of K ranges go to memory, and
 * expand.cu adds them. */
#include "kernels/cuda/adapters/adapters.h"

#include "kernels/cuda/adapters/product_ranges.cuh"
#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/adapters/x_products.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/parameters.cuh"

using namespace yk_adapters;

namespace {

constexpr int SHRINK_WARPS = RANGE_WARPS, SHRINK_THREADS = SHRINK_WARPS * WARP, SHRINK_TILES = 2;

struct shrink_params {
  row_source source;
  x_source x;
  float *products;
  int n_tiles, n_groups, range_chunks;
};

/* Adds the warps' sums of 8 rows and writes them. */
__device__ __forceinline__ void store_octet(const shrink_params &p,
                                            const float4 (&sums)[SHRINK_WARPS][SHRINK_TILES * WARP],
                                            const row_tile &tile, int first_row, int octet, int first_tile, int n_tiles,
                                            int range)
{
  const int item = threadIdx.x, lane = item % WARP;
  if (item >= n_tiles * WARP) return;
  const float4 v = sum_of_warps(sums, item);
  const int64_t width = p.n_tiles * YK_ADAPTER_TILE_RANKS;
  const int rank = (first_tile + item / WARP) * YK_ADAPTER_TILE_RANKS + lane / 4;
  const float of_row[2][2] = {{v.x, v.z}, {v.y, v.w}};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int at = octet * OCTET + lane % 4 * 2 + i;
    if (at >= tile.n_rows) continue;
    const int64_t row = static_cast<int64_t>(range) * p.source.n_rows + first_row + tile.rows[at];
    p.products[row * width + rank] = of_row[i][0];
    p.products[row * width + rank + 8] = of_row[i][1];
  }
}

template <typename T, int OCTETS, bool IS_WIDE>
__global__ void __launch_bounds__(SHRINK_THREADS, OCTETS <= 2 ? 3 : 2)
    shrink_kernel(const __grid_constant__ shrink_params p)
{
  __shared__ row_tile tile;
  __shared__ float4 sums[SHRINK_WARPS][SHRINK_TILES * WARP];
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const int range = blockIdx.x / p.n_groups, first_tile = blockIdx.x % p.n_groups * SHRINK_TILES;
  const int n_tiles = min(SHRINK_TILES, p.n_tiles - first_tile), first_row = blockIdx.y * CHUNK_ROWS;
  const int first_chunk = range * p.range_chunks + warp, end_chunk = min((range + 1) * p.range_chunks, p.x.k_chunks);
  a_chunk<SHRINK_TILES> a = {};
  yk_ptx::let_next_kernel_start();
  yk_ptx::read_parameters(p);
  find_tile(tile, p.source, first_row, blockIdx.z);
  if (tile.n_rows > 0 && first_chunk < end_chunk) a.load(p.x, tile.adapter, first_tile, n_tiles, first_chunk);
  yk_ptx::wait_for_previous_kernel();
  for (int index = blockIdx.z; index < tile.n_tiles;) {
    x_sums<OCTETS, SHRINK_TILES> acc = {};
    const int n_octets = (tile.n_rows + OCTET - 1) / OCTET;
#pragma unroll 1
    for (int chunk = first_chunk; chunk < end_chunk; chunk += SHRINK_WARPS) {
      x_chunk<OCTETS> x;
      x.template load<IS_WIDE>(p.x, tile, first_row, chunk);
      const a_chunk<SHRINK_TILES> own = a;
      if (chunk + SHRINK_WARPS < end_chunk) a.load(p.x, tile.adapter, first_tile, n_tiles, chunk + SHRINK_WARPS);
      acc.template add<T>(own, x, n_octets, n_tiles);
    }
#pragma unroll
    for (int i = 0; i < OCTETS; i++) {
      if (i >= n_octets) continue;
      if (i > 0) __syncthreads(); /* the sums of the previous octet have been read */
#pragma unroll
      for (int t = 0; t < SHRINK_TILES; t++) sums[warp][t * WARP + lane] = acc.of(i, t);
      __syncthreads();
      store_octet(p, sums, tile, first_row, i, first_tile, n_tiles, range);
    }
    index += gridDim.z;
    if (index >= tile.n_tiles) return;
    find_tile(tile, p.source, first_row, index); /* find_tile has barriers, so the last octet's sums have been read */
    if (first_chunk < end_chunk) a.load(p.x, tile.adapter, first_tile, n_tiles, first_chunk);
  }
}

template <typename T, bool IS_WIDE> auto shrink_kernel_of(const shrink_params &p)
{
  return p.source.tile_rows == FEW_TILE_ROWS ? shrink_kernel<T, FEW_TILE_ROWS / OCTET, IS_WIDE>
                                             : shrink_kernel<T, MANY_TILE_ROWS / OCTET, IS_WIDE>;
}

template <typename T> cudaError_t launch_shrink(const shrink_params &p, dim3 grid, cudaStream_t stream)
{
  const bool is_wide = p.x.k % 8 == 0 && yk_cuda::is_aligned(p.x.x, 16);
  const auto kernel = is_wide ? shrink_kernel_of<T, true>(p) : shrink_kernel_of<T, false>(p);
  const cudaError_t error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, SHRINK_THREADS, 0, 1}, stream, p);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_shrink(const yk_cuda_adapted_rows *rows, const void *x, cudaStream_t stream)
{
  const yk_cuda_adapter_layout &layout = *rows->layout;
  if (rows->n_rows == 0) return cudaSuccess;
  const product_ranges ranges = product_ranges_of(layout, rows->n_rows);
  shrink_params p = {};
  p.source = {rows->adapters, static_cast<int>(rows->n_rows), 1, tile_rows_of(rows->n_rows)};
  p.x = x_source_of(layout, rows->memory, x);
  p.products = rows->products;
  p.n_tiles = layout.n_parts * layout.part_tiles;
  p.n_groups = (p.n_tiles + SHRINK_TILES - 1) / SHRINK_TILES;
  p.range_chunks = ranges.chunks;
  const dim3 grid(static_cast<unsigned>(ranges.count * p.n_groups), static_cast<unsigned>(chunks_of(rows->n_rows)),
                  static_cast<unsigned>(tile_slots_of(rows->n_rows, layout.n_adapters)));
  return yk_cuda::with_act_type(rows->dtype, [&](auto type) { return launch_shrink<decltype(type)>(p, grid, stream); });
}
