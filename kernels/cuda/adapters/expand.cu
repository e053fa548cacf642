/* expand.cu - the second product of adapters, added to the result of a GEMM: see adapters.h.
 *
 *   grid     chunks of BLOCK_OUTPUTS outputs of a part (of gate and up together); chunks of rows; thread blocks that
 *            share a chunk's tiles
 *   block    all rows of a tile by its outputs: adds the K ranges of A x in shared memory, 16 ranks at a time
 *   warp     32 outputs: outputs.cuh
 *
 * B is read before griddepcontrol.wait, the GEMM's result after. */
#include "kernels/cuda/adapters/adapters.h"

#include "kernels/cuda/adapters/outputs.cuh"
#include "kernels/cuda/adapters/product_ranges.cuh"
#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/parameters.cuh"

using namespace yk_adapters;

namespace {

constexpr int EXPAND_WARPS = 4, EXPAND_THREADS = EXPAND_WARPS * WARP, BLOCK_OUTPUTS = EXPAND_WARPS * YK_ADAPTER_CHUNK;

struct expand_params {
  row_source source;
  output_params out;
  const float *products; /* at the first row */
  int64_t range_floats;  /* between K ranges */
  int n_ranges;
};

/* A x of a tile of ranks, for the rows of a tile, in shared memory: [rows][PARTS][RANKS]. */
template <int ROWS, int PARTS> struct alignas(16) product_tile {
  static constexpr int PITCH = PARTS * RANKS + 4, QUADS = RANKS / 4;
  float at[ROWS * PITCH];

  /* By all threads: adds the K ranges and scales. of_part: the tile of ranks in its part. */
  __device__ __forceinline__ void fill(const expand_params &p, const part_entries<PARTS> &entries, const row_tile &tile,
                                       int first_row, int part, int of_part)
  {
    const int64_t width = static_cast<int64_t>(p.out.n_parts) * p.out.part_tiles * RANKS;
    for (int item = threadIdx.x; item < ROWS * PARTS * QUADS; item += EXPAND_THREADS) {
      const int row = item / (PARTS * QUADS), i = item / QUADS % PARTS, quad = item % QUADS;
      const yk_cuda_adapter_part entry = entries.at[PARTS == 1 || i == 0 ? 0 : PARTS - 1];
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (row < tile.n_rows && entry.rank > 0) {
        const float *from = p.products + (first_row + tile.rows[row]) * width +
                            ((part + i) * p.out.part_tiles + of_part) * RANKS + quad * 4;
#pragma unroll 8
        for (int range = 0; range < p.n_ranges; range++) {
          const float4 v = __ldcg(reinterpret_cast<const float4 *>(from + range * p.range_floats));
          sum.x += v.x;
          sum.y += v.y;
          sum.z += v.z;
          sum.w += v.w;
        }
        sum = make_float4(sum.x * entry.scale, sum.y * entry.scale, sum.z * entry.scale, sum.w * entry.scale);
      }
      *reinterpret_cast<float4 *>(&at[row * PITCH + i * RANKS + quad * 4]) = sum;
    }
  }

  __device__ __forceinline__ float4 load(int row, int i, int quad) const
  {
    return *reinterpret_cast<const float4 *>(&at[row * PITCH + i * RANKS + quad * 4]);
  }
};

/* PARTS: 2 for a gated activation. */
template <typename T, int M_TILES, int PARTS, bool IS_WIDE>
__global__ void __launch_bounds__(EXPAND_THREADS) expand_kernel(const __grid_constant__ expand_params p)
{
  __shared__ row_tile tile;
  __shared__ product_tile<M_TILES * MMA_ROWS, PARTS> products;
  const int part = part_of_block<PARTS>(p.out, blockIdx.x), first_row = blockIdx.y * CHUNK_ROWS;
  outputs_of_lane<M_TILES, PARTS, IS_WIDE> out = {};
  part_entries<PARTS> entries;
  b_block<PARTS> b = {};
  out.place(p.out, part, blockIdx.x, BLOCK_OUTPUTS, threadIdx.x / WARP * YK_ADAPTER_CHUNK);
  const bool has_outputs = out.output / YK_ADAPTER_CHUNK * YK_ADAPTER_CHUNK < p.out.parts[part].n;
  yk_ptx::let_next_kernel_start();
  yk_ptx::read_parameters(p);
  find_tile(tile, p.source, first_row, blockIdx.z);
  entries.load(p.out, tile.n_rows > 0 ? tile.adapter : 0, part);
  if (entries.change() && has_outputs) b.load(p.out, tile.adapter, part, out.output, 0);
  yk_ptx::wait_for_previous_kernel();
  for (int index = blockIdx.z; index < tile.n_tiles;) {
    if (entries.change() || p.out.finishes) {
      sums_of_lane<M_TILES, PARTS> acc = {};
      out.load(p.out, tile, first_row);
      for (int t = 0; entries.change() && t < p.out.part_tiles; t++) {
        if (t > 0) {
          __syncthreads(); /* the previous tile of ranks has been read */
          if (has_outputs) b.load(p.out, tile.adapter, part, out.output, t);
        }
        products.fill(p, entries, tile, first_row, part, t);
        __syncthreads();
        if (has_outputs) multiply<T>(products, b, acc);
      }
      out.template store<T>(p.out, tile, first_row, acc);
    }
    index += gridDim.z;
    if (index >= tile.n_tiles) return; /* a further search would delay the next kernel */
    find_tile(tile, p.source, first_row, index);
    entries.load(p.out, tile.adapter, part);
    if (entries.change() && has_outputs) b.load(p.out, tile.adapter, part, out.output, 0);
  }
}

/* ---- Launch ------------------------------------------------------------------------------------------------------ */

template <typename T, bool IS_WIDE> auto expand_kernel_of(const expand_params &p)
{
  const bool is_few = p.source.tile_rows == FEW_TILE_ROWS;
  constexpr int FEW = FEW_TILE_ROWS / MMA_ROWS, MANY = MANY_TILE_ROWS / MMA_ROWS;
  if (p.out.activation.is_gated) return is_few ? expand_kernel<T, FEW, 2, IS_WIDE> : expand_kernel<T, MANY, 2, IS_WIDE>;
  return is_few ? expand_kernel<T, FEW, 1, IS_WIDE> : expand_kernel<T, MANY, 1, IS_WIDE>;
}

template <typename T> cudaError_t launch_expand(const expand_params &p, bool is_wide, dim3 grid, cudaStream_t stream)
{
  const auto kernel = is_wide ? expand_kernel_of<T, true>(p) : expand_kernel_of<T, false>(p);
  const cudaError_t error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, EXPAND_THREADS, 0, 1}, stream, p);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_expand(const yk_cuda_adapted_rows *rows, const yk_cuda_expand_args *args,
                                             cudaStream_t stream)
{
  const yk_cuda_adapter_layout &layout = *rows->layout;
  expand_params p = {};
  const int n_blocks = fill_parts(p.out, layout, args->activation.is_gated, BLOCK_OUTPUTS);
  if (args->n_rows == 0 || n_blocks == 0) return cudaSuccess;
  const int64_t width = static_cast<int64_t>(layout.n_parts) * layout.part_tiles * RANKS;
  fill_outputs(p.out, *rows, *args);
  p.source = {rows->adapters + args->first_row, static_cast<int>(args->n_rows), args->finishes ? 0 : 1,
              tile_rows_of(rows->n_rows)};
  p.products = rows->products + args->first_row * width;
  p.range_floats = rows->n_rows * width;
  p.n_ranges = product_ranges_of(layout, rows->n_rows).count;
  const bool wide = has_wide_outputs(p.out);
  const dim3 grid(static_cast<unsigned>(n_blocks), static_cast<unsigned>(chunks_of(args->n_rows)),
                  static_cast<unsigned>(tile_slots_of(rows->n_rows, layout.n_adapters)));
  return yk_cuda::with_act_type(rows->dtype,
                                [&](auto type) { return launch_expand<decltype(type)>(p, wide, grid, stream); });
}
