/* shrink.cu - the first product of adapters, A x: see adapters.h.
 *
 *   grid     K ranges by groups of GROUP_TILES tiles of ranks; chunks of rows; thread blocks that share a chunk's tiles
 *   block    all rows of a tile by the ranks of its group, over a K range; its warps take chunks of 32 columns in turns
 *   warp     mma.sync with ranks as rows of the A operand and 8 rows of x as columns of the B operand; lanes load 16
 *            contiguous bytes of both, so columns of x are in another order than in memory, in both operands alike
 *
 * The sums of the warps are added in shared memory, in the order of the warps. Sums of K ranges go to memory, and
 * expand.cu adds them. */
#include "kernels/cuda/adapters/adapters.h"

#include "kernels/cuda/adapters/product_ranges.cuh"
#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/parameters.cuh"

using namespace yk_adapters;

namespace {

constexpr int WARPS = RANGE_WARPS, THREADS = WARPS * WARP, GROUP_TILES = 2, OCTET = 8;

struct shrink_params {
  row_source source;
  const char *a; /* of adapter 1 */
  int64_t adapter_bytes, k;
  const void *x;
  float *products;
  int n_tiles, n_groups, k_chunks, range_chunks;
};

/* 8 neighbouring elements of x, zeros past the end of the row. IS_WIDE: rows of x are whole 16-byte vectors. */
template <bool IS_WIDE> __device__ __forceinline__ uint4 load_x(const shrink_params &p, int64_t row, int64_t column)
{
  const uint16_t *from = static_cast<const uint16_t *>(p.x) + row * p.k + column;
  if constexpr (IS_WIDE) {
    return column < p.k ? __ldcg(reinterpret_cast<const uint4 *>(from)) : make_uint4(0, 0, 0, 0);
  } else {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t low = column + 2 * i < p.k ? __ldcg(from + 2 * i) : 0;
      const uint32_t high = column + 2 * i + 1 < p.k ? __ldcg(from + 2 * i + 1) : 0;
      words[i] = low | high << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/* A lane's elements of A in one chunk of columns, of all tiles of the group. */
struct a_chunk {
  uint4 low[GROUP_TILES], high[GROUP_TILES]; /* ranks g and g + 8 */

  __device__ __forceinline__ void load(const shrink_params &p, int adapter, int first_tile, int n_tiles, int chunk)
  {
    const char *matrices = p.a + (adapter - 1) * p.adapter_bytes;
#pragma unroll
    for (int i = 0; i < GROUP_TILES; i++) {
      if (i >= n_tiles) continue;
      const int64_t block = static_cast<int64_t>(first_tile + i) * p.k_chunks + chunk;
      const uint4 *from =
          reinterpret_cast<const uint4 *>(matrices + block * YK_ADAPTER_BLOCK * YK_ADAPTER_ELEMENT_BYTES) +
          threadIdx.x % WARP * 2;
      low[i] = __ldg(from);
      high[i] = __ldg(from + 1);
    }
  }
};

template <typename T>
__device__ __forceinline__ void multiply(float (&acc)[4], const uint4 &low, const uint4 &high, const uint4 &x)
{
  yk_ptx::mma_m16n8k16<T>(acc, low.x, high.x, low.y, high.y, x.x, x.y);
  yk_ptx::mma_m16n8k16<T>(acc, low.z, high.z, low.w, high.w, x.z, x.w);
}

/* Adds the warps' sums of 8 rows and writes them. */
__device__ __forceinline__ void store_octet(const shrink_params &p, const float4 (&sums)[WARPS][GROUP_TILES * WARP],
                                            const row_tile &tile, int first_row, int octet, int first_tile, int n_tiles,
                                            int range)
{
  const int item = threadIdx.x, lane = item % WARP;
  if (item >= n_tiles * WARP) return;
  float4 v = sums[0][item];
#pragma unroll
  for (int warp = 1; warp < WARPS; warp++) {
    const float4 other = sums[warp][item];
    v.x += other.x;
    v.y += other.y;
    v.z += other.z;
    v.w += other.w;
  }
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
__global__ void __launch_bounds__(THREADS, OCTETS <= 2 ? 3 : 2) shrink_kernel(const __grid_constant__ shrink_params p)
{
  __shared__ row_tile tile;
  __shared__ float4 sums[WARPS][GROUP_TILES * WARP];
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const int range = blockIdx.x / p.n_groups, first_tile = blockIdx.x % p.n_groups * GROUP_TILES;
  const int n_tiles = min(GROUP_TILES, p.n_tiles - first_tile), first_row = blockIdx.y * CHUNK_ROWS;
  const int first_chunk = range * p.range_chunks + warp, end_chunk = min((range + 1) * p.range_chunks, p.k_chunks);
  a_chunk a = {};
  yk_ptx::let_next_kernel_start();
  yk_ptx::read_parameters(p);
  find_tile(tile, p.source, first_row, blockIdx.z);
  if (tile.n_rows > 0 && first_chunk < end_chunk) a.load(p, tile.adapter, first_tile, n_tiles, first_chunk);
  yk_ptx::wait_for_previous_kernel();
  for (int index = blockIdx.z; index < tile.n_tiles;) {
    float acc[OCTETS][GROUP_TILES][4] = {};
    const int n_octets = (tile.n_rows + OCTET - 1) / OCTET;
#pragma unroll 1
    for (int chunk = first_chunk; chunk < end_chunk; chunk += WARPS) {
      uint4 x[OCTETS];
#pragma unroll
      for (int i = 0; i < OCTETS; i++) {
        const int at = i * OCTET + lane / 4;
        x[i] = make_uint4(0, 0, 0, 0);
        if (at < tile.n_rows)
          x[i] = load_x<IS_WIDE>(p, first_row + tile.rows[at], chunk * YK_ADAPTER_CHUNK + lane % 4 * 8);
      }
      const a_chunk own = a;
      if (chunk + WARPS < end_chunk) a.load(p, tile.adapter, first_tile, n_tiles, chunk + WARPS);
#pragma unroll
      for (int i = 0; i < OCTETS; i++) {
        if (i >= n_octets) continue;
#pragma unroll
        for (int t = 0; t < GROUP_TILES; t++)
          if (t < n_tiles) multiply<T>(acc[i][t], own.low[t], own.high[t], x[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < OCTETS; i++) {
      if (i >= n_octets) continue;
      if (i > 0) __syncthreads(); /* the sums of the octet before have been read */
#pragma unroll
      for (int t = 0; t < GROUP_TILES; t++)
        sums[warp][t * WARP + lane] = make_float4(acc[i][t][0], acc[i][t][1], acc[i][t][2], acc[i][t][3]);
      __syncthreads();
      store_octet(p, sums, tile, first_row, i, first_tile, n_tiles, range);
    }
    index += gridDim.z;
    if (index >= tile.n_tiles) return;
    find_tile(tile, p.source, first_row, index); /* its barriers: the last octet's sums have been read */
    if (first_chunk < end_chunk) a.load(p, tile.adapter, first_tile, n_tiles, first_chunk);
  }
}

template <typename T, bool IS_WIDE> auto kernel_of(const shrink_params &p)
{
  return p.source.tile_rows == FEW_TILE_ROWS ? shrink_kernel<T, FEW_TILE_ROWS / OCTET, IS_WIDE>
                                             : shrink_kernel<T, MANY_TILE_ROWS / OCTET, IS_WIDE>;
}

template <typename T> cudaError_t launch(const shrink_params &p, dim3 grid, cudaStream_t stream)
{
  const bool is_wide = p.k % 8 == 0 && yk_cuda::is_aligned(p.x, 16);
  const auto kernel = is_wide ? kernel_of<T, true>(p) : kernel_of<T, false>(p);
  const cudaError_t error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, THREADS, 0, 1}, stream, p);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_shrink(const yk_cuda_adapted_rows *rows, const void *x, cudaStream_t stream)
{
  const yk_cuda_adapter_layout &layout = *rows->layout;
  if (rows->n_rows == 0) return cudaSuccess;
  const product_ranges ranges = product_ranges_of(layout, rows->n_rows);
  shrink_params p = {};
  p.source = {rows->adapters, static_cast<int>(rows->n_rows), 1, tile_rows_of(rows->n_rows)};
  p.a = static_cast<const char *>(rows->memory) + layout.matrices;
  p.adapter_bytes = layout.adapter_bytes;
  p.k = layout.k;
  p.x = x;
  p.products = rows->products;
  p.n_tiles = layout.n_parts * layout.part_tiles;
  p.n_groups = (p.n_tiles + GROUP_TILES - 1) / GROUP_TILES;
  p.k_chunks = static_cast<int>(layout.k_chunks);
  p.range_chunks = ranges.chunks;
  const dim3 grid(static_cast<unsigned>(ranges.count * p.n_groups), static_cast<unsigned>(chunks_of(rows->n_rows)),
                  static_cast<unsigned>(tile_slots_of(rows->n_rows, layout.n_adapters)));
  return yk_cuda::with_act_type(rows->dtype, [&](auto type) { return launch<decltype(type)>(p, grid, stream); });
}

extern "C" int64_t yk_cuda_adapter_product_floats(const yk_cuda_adapter_layout *layout, int64_t max_rows)
{
  const int64_t row_ranges = std::max<int64_t>(max_rows, std::min(max_rows * MOST_RANGES, MOST_ROW_RANGES));
  return row_ranges * layout->n_parts * layout->part_tiles * YK_ADAPTER_TILE_RANKS;
}
