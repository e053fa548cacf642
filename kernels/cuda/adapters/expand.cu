/* expand.cu - the second product of adapters, added to the result of a GEMM: see adapters.h.
 *
 *   grid     chunks of BLOCK_OUTPUTS outputs of a part (of gate and up together); chunks of rows; thread blocks that
 *            share a chunk's tiles
 *   block    all rows of a tile by its outputs: adds the K ranges of A x in shared memory, 16 ranks at a time
 *   warp     mma.sync (TF32) with rows as rows of the A operand and 32 outputs as columns of four B operands, in an
 *            order that leaves each lane with 8 neighbouring outputs of its rows
 *
 * B is read before griddepcontrol.wait, and the GEMM's result right after. */
#include "kernels/cuda/adapters/adapters.h"

#include "kernels/cuda/adapters/product_ranges.cuh"
#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/common/activation.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/parameters.cuh"

using namespace yk_adapters;
using yk_cuda::from_float;
using yk_cuda::to_float;
using yk_cuda::vec;

namespace {

constexpr int WARPS = 4, THREADS = WARPS * WARP, BLOCK_OUTPUTS = WARPS * YK_ADAPTER_CHUNK, WIDE = 8;
constexpr int RANKS = YK_ADAPTER_TILE_RANKS, MMA_ROWS = 16, MMAS = 4; /* matrix instructions for 32 outputs */

struct expand_part {
  int64_t n, first_column, b; /* outputs; their first column in rows of y; bytes from an adapter's A */
  int first_block;            /* thread block along x */
};

struct expand_params {
  row_source source;
  expand_part parts[YK_MAX_LINEAR_PARTS];
  int n_parts, part_tiles;
  const char *matrices;
  int64_t adapter_bytes;
  const yk_cuda_adapter_part *table; /* [n_adapters, n_parts] */
  const float *products;             /* at the first row */
  int64_t range_floats;              /* between K ranges */
  int n_ranges;
  const void *src;
  void *y;
  int64_t src_stride, y_stride;
  bool finishes, is_interleaved;
  const void *bias;
  bool bias_is_f32;
  yk_activation activation;
};

/* The elements of B that a lane multiplies with: a tile of ranks by 32 outputs, of the block's parts. */
template <int PARTS> struct b_block {
  uint4 v[PARTS][2];

  __device__ __forceinline__ void load(const expand_params &p, int adapter, int part, int64_t output, int tile)
  {
    const char *matrices = p.matrices + (adapter - 1) * p.adapter_bytes;
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const int64_t block = output / YK_ADAPTER_CHUNK * p.part_tiles + tile;
      const char *b = matrices + p.parts[part + i].b + block * YK_ADAPTER_BLOCK * YK_ADAPTER_ELEMENT_BYTES;
      const uint4 *from = reinterpret_cast<const uint4 *>(b) + threadIdx.x % WARP * 2;
      v[i][0] = __ldg(from);
      v[i][1] = __ldg(from + 1);
    }
  }
};

/* Two elements of T as operands of TF32, which holds them exactly. */
template <typename T> __device__ __forceinline__ void unpack(uint32_t word, uint32_t &low, uint32_t &high)
{
  const vec<T, 2> pair = *reinterpret_cast<const vec<T, 2> *>(&word);
  low = __float_as_uint(to_float(pair.at[0]));
  high = __float_as_uint(to_float(pair.at[1]));
}

/* 8 neighbouring elements of 16 bits, of which n are there; as words, since an element takes a register of its own.
 * IS_WIDE: all 8 are there, at a multiple of 16 bytes. */
template <bool IS_WIDE> __device__ __forceinline__ uint4 load_wide(const void *array, int64_t at, int n)
{
  const uint16_t *from = static_cast<const uint16_t *>(array) + at;
  if constexpr (IS_WIDE) {
    return n > 0 ? __ldcg(reinterpret_cast<const uint4 *>(from)) : make_uint4(0, 0, 0, 0);
  } else {
    uint32_t words[WIDE / 2];
#pragma unroll
    for (int i = 0; i < WIDE / 2; i++) {
      const uint32_t low = 2 * i < n ? __ldcg(from + 2 * i) : 0, high = 2 * i + 1 < n ? __ldcg(from + 2 * i + 1) : 0;
      words[i] = low | high << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
}

template <bool IS_WIDE, typename T>
__device__ __forceinline__ void store_wide(void *array, int64_t at, int n, const vec<T, WIDE> &v)
{
  T *to = static_cast<T *>(array) + at;
  if constexpr (IS_WIDE) {
    *reinterpret_cast<vec<T, WIDE> *>(to) = v;
  } else {
#pragma unroll
    for (int i = 0; i < WIDE; i++)
      if (i < n) to[i] = v.at[i];
  }
}

template <typename T> __device__ __forceinline__ float bias_of(const expand_params &p, int64_t output)
{
  if (p.bias_is_f32) return __ldg(static_cast<const float *>(p.bias) + output);
  return to_float(static_cast<const T *>(p.bias)[output]);
}

/* Where an output of gate (part 0) or up lies in a row of src. */
template <int PARTS> __device__ __forceinline__ int64_t src_column(const expand_params &p, int part, int64_t output)
{
  if (PARTS == 1) return p.parts[part].first_column + output;
  if (p.is_interleaved) return output / WIDE * (2 * WIDE) + part * WIDE;
  return part * p.parts[0].n + output;
}

/* The table's entries of the block's parts for one adapter; ranks of 0 for adapter 0. */
template <int PARTS> struct part_entries {
  yk_cuda_adapter_part at[PARTS];

  __device__ __forceinline__ void load(const expand_params &p, int adapter, int part)
  {
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      at[i] = {};
      if (adapter > 0) at[i] = p.table[(adapter - 1) * p.n_parts + part + i];
    }
  }

  __device__ __forceinline__ bool change() const
  {
    return at[0].rank > 0 || at[PARTS - 1].rank > 0;
  }
};

/* A x of a tile of ranks, for the rows of a tile, in shared memory: [rows][PARTS][RANKS]. */
template <int ROWS, int PARTS> struct alignas(16) product_tile {
  static constexpr int PITCH = PARTS * RANKS + 4, QUADS = RANKS / 4;
  float at[ROWS * PITCH];

  /* By all threads: adds the K ranges and scales. of_part: the tile of ranks in its part. */
  __device__ __forceinline__ void fill(const expand_params &p, const part_entries<PARTS> &entries, const row_tile &tile,
                                       int first_row, int part, int of_part)
  {
    const int64_t width = static_cast<int64_t>(p.n_parts) * p.part_tiles * RANKS;
    for (int item = threadIdx.x; item < ROWS * PARTS * QUADS; item += THREADS) {
      const int row = item / (PARTS * QUADS), i = item / QUADS % PARTS, quad = item % QUADS;
      const yk_cuda_adapter_part entry = entries.at[PARTS == 1 || i == 0 ? 0 : PARTS - 1];
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (row < tile.n_rows && entry.rank > 0) {
        const float *from = p.products + (first_row + tile.rows[row]) * width +
                            ((part + i) * p.part_tiles + of_part) * RANKS + quad * 4;
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

template <int M_TILES, int PARTS> struct sums_of_lane {
  float at[M_TILES][PARTS][MMAS][4];
};

template <typename T, int M_TILES, int PARTS>
__device__ __forceinline__ void multiply(const product_tile<M_TILES * MMA_ROWS, PARTS> &products,
                                         const b_block<PARTS> &b, sums_of_lane<M_TILES, PARTS> &acc)
{
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int m = 0; m < M_TILES; m++) {
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const float4 low = products.load(m * MMA_ROWS + lane / 4, i, lane % 4);
      const float4 high = products.load(m * MMA_ROWS + lane / 4 + 8, i, lane % 4);
      const uint32_t a[2][4] = {{yk_ptx::round_to_tf32(low.x), yk_ptx::round_to_tf32(high.x),
                                 yk_ptx::round_to_tf32(low.y), yk_ptx::round_to_tf32(high.y)},
                                {yk_ptx::round_to_tf32(low.z), yk_ptx::round_to_tf32(high.z),
                                 yk_ptx::round_to_tf32(low.w), yk_ptx::round_to_tf32(high.w)}};
#pragma unroll
      for (int j = 0; j < MMAS; j++) {
        const uint4 &words = b.v[i][j / 2];
#pragma unroll
        for (int step = 0; step < 2; step++) {
          uint32_t b0, b1;
          unpack<T>(j % 2 == 0 ? (step == 0 ? words.x : words.y) : (step == 0 ? words.z : words.w), b0, b1);
          yk_ptx::mma_m16n8k8_tf32(acc.at[m][i][j], a[step], b0, b1);
        }
      }
    }
  }
}

/* The lane's 8 outputs of one row: those of the GEMM in v, of gate and up with two parts, become the layer's. */
template <typename T, int PARTS>
__device__ __forceinline__ vec<T, WIDE> finish_row(const expand_params &p, int part, int64_t output, int n,
                                                   const uint4 (&src)[PARTS], const float (&product)[PARTS][WIDE])
{
  float v[PARTS][WIDE];
  vec<T, WIDE> y;
#pragma unroll
  for (int i = 0; i < PARTS; i++) {
    const vec<T, WIDE> elements = *reinterpret_cast<const vec<T, WIDE> *>(&src[i]);
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      v[i][e] = to_float(elements.at[e]);
      if (p.bias && e < n) v[i][e] += bias_of<T>(p, (part + i) * p.parts[0].n + output + e);
      v[i][e] += product[i][e];
    }
  }
  if (p.finishes) {
    if constexpr (PARTS == 2) {
      yk_cuda::gate_pairs(p.activation, v[0], v[1]);
    } else {
#pragma unroll 1
      for (int e = 0; e < WIDE; e++) v[0][e] = yk_cuda::activated(p.activation, v[0][e]);
    }
  }
#pragma unroll
  for (int e = 0; e < WIDE; e++) y.at[e] = from_float<T>(v[0][e]);
  return y;
}

/* The lane's outputs, and the rows of src that it adds to. */
template <int M_TILES, int PARTS, bool IS_WIDE> struct outputs_of_lane {
  uint4 src[M_TILES][2][PARTS];
  int part, n; /* n: outputs that are there */
  int64_t output;

  __device__ __forceinline__ int row_of(int m, int half) const
  {
    return m * MMA_ROWS + half * 8 + static_cast<int>(threadIdx.x) % WARP / 4;
  }

  __device__ __forceinline__ void load(const expand_params &p, const row_tile &tile, int first_row)
  {
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int at = row_of(m, half);
        if (at >= tile.n_rows || n == 0) continue;
#pragma unroll
        for (int i = 0; i < PARTS; i++)
          src[m][half][i] = load_wide<IS_WIDE>(
              p.src, (first_row + tile.rows[at]) * p.src_stride + src_column<PARTS>(p, PARTS == 1 ? part : i, output),
              n);
      }
    }
  }

  template <typename T>
  __device__ __forceinline__ void store(const expand_params &p, const row_tile &tile, int first_row,
                                        const sums_of_lane<M_TILES, PARTS> &acc) const
  {
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int at = row_of(m, half);
        float product[PARTS][WIDE];
        if (at >= tile.n_rows || n == 0) continue;
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
#pragma unroll
          for (int e = 0; e < WIDE; e++) product[i][e] = acc.at[m][i][e / 2][half * 2 + e % 2];
        }
        store_wide<IS_WIDE, T>(p.y, (first_row + tile.rows[at]) * p.y_stride + p.parts[part].first_column + output, n,
                               finish_row<T, PARTS>(p, part, output, n, src[m][half], product));
      }
    }
  }
};

__device__ __forceinline__ int part_of_block(const expand_params &p)
{
  int part = 0;
  while (part + 1 < p.n_parts && static_cast<int>(blockIdx.x) >= p.parts[part + 1].first_block) part++;
  return part;
}

/* PARTS: 2 for a gated activation. */
template <typename T, int M_TILES, int PARTS, bool IS_WIDE>
__global__ void __launch_bounds__(THREADS) expand_kernel(const __grid_constant__ expand_params p)
{
  __shared__ row_tile tile;
  __shared__ product_tile<M_TILES * MMA_ROWS, PARTS> products;
  const int part = PARTS == 1 ? part_of_block(p) : 0, first_row = blockIdx.y * CHUNK_ROWS, lane = threadIdx.x % WARP;
  const int64_t of_warp = static_cast<int64_t>(blockIdx.x - p.parts[part].first_block) * BLOCK_OUTPUTS +
                          threadIdx.x / WARP * YK_ADAPTER_CHUNK;
  const bool has_outputs = of_warp < p.parts[part].n;
  outputs_of_lane<M_TILES, PARTS, IS_WIDE> out = {};
  part_entries<PARTS> entries;
  b_block<PARTS> b = {};
  out.part = part;
  out.output = of_warp + lane % 4 * WIDE;
  out.n = static_cast<int>(max(static_cast<int64_t>(0), min(static_cast<int64_t>(WIDE), p.parts[part].n - out.output)));
  yk_ptx::let_next_kernel_start();
  yk_ptx::read_parameters(p);
  find_tile(tile, p.source, first_row, blockIdx.z);
  entries.load(p, tile.n_rows > 0 ? tile.adapter : 0, part);
  if (entries.change() && has_outputs) b.load(p, tile.adapter, part, of_warp, 0);
  yk_ptx::wait_for_previous_kernel();
  for (int index = blockIdx.z; index < tile.n_tiles;) {
    if (entries.change() || p.finishes) {
      sums_of_lane<M_TILES, PARTS> acc = {};
      out.load(p, tile, first_row);
      for (int t = 0; entries.change() && t < p.part_tiles; t++) {
        if (t > 0) {
          __syncthreads(); /* the tile of ranks before has been read */
          if (has_outputs) b.load(p, tile.adapter, part, of_warp, t);
        }
        products.fill(p, entries, tile, first_row, part, t);
        __syncthreads();
        if (has_outputs) multiply<T>(products, b, acc);
      }
      out.template store<T>(p, tile, first_row, acc);
    }
    index += gridDim.z;
    if (index >= tile.n_tiles) return; /* without another search, which would delay the next kernel */
    find_tile(tile, p.source, first_row, index);
    entries.load(p, tile.adapter, part);
    if (entries.change() && has_outputs) b.load(p, tile.adapter, part, of_warp, 0);
  }
}

/* ---- Launch ------------------------------------------------------------------------------------------------------ */

/* Fills the parts; returns the number of thread blocks along x. With gates, up has the blocks of gate. */
unsigned fill_parts(expand_params &p, const yk_cuda_adapter_layout &layout, bool is_gated)
{
  int64_t first_column = 0, n_blocks = 0;
  p.n_parts = layout.n_parts;
  for (int i = 0; i < layout.n_parts; i++) {
    p.parts[i] = {layout.n[i], first_column, layout.b[i], static_cast<int>(n_blocks)};
    if (is_gated && i > 0) continue;
    first_column += layout.n[i];
    n_blocks += (layout.n[i] + BLOCK_OUTPUTS - 1) / BLOCK_OUTPUTS;
  }
  return static_cast<unsigned>(n_blocks);
}

/* Whether rows of src and y, and the outputs of every part in them, are whole vectors of 8 elements. */
bool is_wide(const expand_params &p, const yk_cuda_expand_args &args)
{
  bool yes = yk_cuda::is_aligned(args.src, 16) && yk_cuda::is_aligned(args.y, 16) && args.src_stride % WIDE == 0 &&
             args.y_stride % WIDE == 0;
  for (int i = 0; i < p.n_parts; i++) yes = yes && p.parts[i].n % WIDE == 0;
  return yes;
}

template <typename T, bool IS_WIDE> auto kernel_of(const expand_params &p)
{
  const bool is_few = p.source.tile_rows == FEW_TILE_ROWS;
  constexpr int FEW = FEW_TILE_ROWS / MMA_ROWS, MANY = MANY_TILE_ROWS / MMA_ROWS;
  if (p.activation.is_gated) return is_few ? expand_kernel<T, FEW, 2, IS_WIDE> : expand_kernel<T, MANY, 2, IS_WIDE>;
  return is_few ? expand_kernel<T, FEW, 1, IS_WIDE> : expand_kernel<T, MANY, 1, IS_WIDE>;
}

template <typename T> cudaError_t launch(const expand_params &p, bool is_wide, dim3 grid, cudaStream_t stream)
{
  const auto kernel = is_wide ? kernel_of<T, true>(p) : kernel_of<T, false>(p);
  const cudaError_t error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, THREADS, 0, 1}, stream, p);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_expand(const yk_cuda_adapted_rows *rows, const yk_cuda_expand_args *args,
                                             cudaStream_t stream)
{
  const yk_cuda_adapter_layout &layout = *rows->layout;
  const bool is_gated = args->activation.is_gated;
  expand_params p = {};
  const unsigned n_blocks = fill_parts(p, layout, is_gated);
  if (args->n_rows == 0 || n_blocks == 0) return cudaSuccess;
  const int64_t width = static_cast<int64_t>(layout.n_parts) * layout.part_tiles * RANKS;
  p.source = {rows->adapters + args->first_row, static_cast<int>(args->n_rows), args->finishes ? 0 : 1,
              tile_rows_of(rows->n_rows)};
  p.part_tiles = layout.part_tiles;
  p.matrices = static_cast<const char *>(rows->memory) + layout.matrices;
  p.adapter_bytes = layout.adapter_bytes;
  p.table = static_cast<const yk_cuda_adapter_part *>(rows->memory);
  p.products = rows->products + args->first_row * width;
  p.range_floats = rows->n_rows * width;
  p.n_ranges = product_ranges_of(layout, rows->n_rows).count;
  p.src = args->src;
  p.y = args->y;
  p.src_stride = args->src_stride;
  p.y_stride = args->y_stride;
  p.finishes = args->finishes;
  p.is_interleaved = args->is_interleaved;
  p.bias = args->bias;
  p.bias_is_f32 = args->bias_dtype == YK_F32;
  p.activation = args->activation;
  const bool wide = is_wide(p, *args);
  const dim3 grid(n_blocks, static_cast<unsigned>(chunks_of(args->n_rows)),
                  static_cast<unsigned>(tile_slots_of(rows->n_rows, layout.n_adapters)));
  return yk_cuda::with_act_type(rows->dtype, [&](auto type) { return launch<decltype(type)>(p, wide, grid, stream); });
}
