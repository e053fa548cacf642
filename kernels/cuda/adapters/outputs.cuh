/* outputs.cuh - the second product of adapters, added to the result of a GEMM, for the 32 outputs of a warp: mma.sync
 * (TF32) with rows as rows of the A operand and outputs as columns of four B operands, in an order that leaves each
 * lane with 8 neighbouring outputs of its rows. */
#ifndef YK_KERNELS_CUDA_ADAPTERS_OUTPUTS_CUH
#define YK_KERNELS_CUDA_ADAPTERS_OUTPUTS_CUH

#include "kernels/cuda/adapters/adapters.h"
#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/common/activation.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_adapters {

using yk_cuda::from_float;
using yk_cuda::to_float;
using yk_cuda::vec;

constexpr int WIDE = 8, RANKS = YK_ADAPTER_TILE_RANKS, MMA_ROWS = 16;
constexpr int MMAS = 4; /* matrix instructions for 32 outputs */

struct output_part {
  int64_t n, first_column, b; /* outputs; their first column in rows of y; bytes from an adapter's A */
  int first_block;            /* its first block of outputs among those of all parts */
};

struct output_params {
  output_part parts[YK_MAX_LINEAR_PARTS];
  int n_parts, part_tiles;
  const char *matrices;
  int64_t adapter_bytes;
  const yk_cuda_adapter_part *table; /* [n_adapters, n_parts] */
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

  __device__ __forceinline__ void load(const output_params &p, int adapter, int part, int output, int tile)
  {
    const char *matrices = p.matrices + (adapter - 1) * p.adapter_bytes;
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const int64_t block = static_cast<int64_t>(output / YK_ADAPTER_CHUNK) * p.part_tiles + tile;
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

/* 8 neighbouring elements of 16 bits, of which the first n exist; as words, since a 16-bit variable occupies a whole
 * register. IS_WIDE: all 8 exist and are aligned to 16 bytes. */
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

template <typename T> __device__ __forceinline__ float bias_of(const output_params &p, int64_t output)
{
  if (p.bias_is_f32) return __ldg(static_cast<const float *>(p.bias) + output);
  return to_float(static_cast<const T *>(p.bias)[output]);
}

/* Column of an output of gate (part 0) or up in a row of src. */
template <int PARTS> __device__ __forceinline__ int64_t src_column(const output_params &p, int part, int output)
{
  if (PARTS == 1) return p.parts[part].first_column + output;
  if (p.is_interleaved) return output / WIDE * (2 * WIDE) + part * WIDE;
  return part * p.parts[0].n + output;
}

/* The table's entries of the block's parts for one adapter; ranks of 0 for adapter 0. */
template <int PARTS> struct part_entries {
  yk_cuda_adapter_part at[PARTS];

  __device__ __forceinline__ void load(const output_params &p, int adapter, int part)
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

template <int M_TILES, int PARTS> struct sums_of_lane {
  float at[M_TILES][PARTS][MMAS][4];
};

/* Adds the products of a tile of ranks. products.load(row, i, quad): ranks 4 quad .. 4 quad + 3 of part i. */
template <typename T, int M_TILES, int PARTS, typename PRODUCTS>
__device__ __forceinline__ void multiply(const PRODUCTS &products, const b_block<PARTS> &b,
                                         sums_of_lane<M_TILES, PARTS> &acc)
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

/* Converts the GEMM's results in v (of gate and up if there are two parts) to the layer's outputs, 8 of one row per
 * lane. */
template <typename T, int PARTS>
__device__ __forceinline__ vec<T, WIDE> finish_row(const output_params &p, int part, int output, int n,
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

/* The part that a block of outputs belongs to; 0 for gate and up. */
template <int PARTS> __device__ __forceinline__ int part_of_block(const output_params &p, int block)
{
  int part = 0;
  while (PARTS == 1 && part + 1 < p.n_parts && block >= p.parts[part + 1].first_block) part++;
  return part;
}

/* The lane's outputs, and the rows of src that it adds to. */
template <int M_TILES, int PARTS, bool IS_WIDE> struct outputs_of_lane {
  uint4 src[M_TILES][2][PARTS];
  int part, n; /* n: number of existing outputs */
  int output;  /* the first, of the part */

  /* The outputs of a warp of a block of block_outputs. of_block: the warp's first output in the block. */
  __device__ __forceinline__ void place(const output_params &p, int of_part, int block, int block_outputs,
                                        int of_block = 0)
  {
    part = of_part;
    output = (block - p.parts[part].first_block) * block_outputs + of_block +
             static_cast<int>(threadIdx.x) % WARP % 4 * WIDE;
    n = max(0, min(WIDE, static_cast<int>(p.parts[part].n) - output));
  }

  __device__ __forceinline__ int row_of(int m, int half) const
  {
    return m * MMA_ROWS + half * 8 + static_cast<int>(threadIdx.x) % WARP / 4;
  }

  __device__ __forceinline__ void load(const output_params &p, const row_tile &tile, int first_row)
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
  __device__ __forceinline__ void store(const output_params &p, const row_tile &tile, int first_row,
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

/* ---- Host -------------------------------------------------------------------------------------------------------- */

/* Fills the parts, in blocks of block_outputs; returns the number of blocks. With gates, up has the blocks of gate. */
inline int fill_parts(output_params &p, const yk_cuda_adapter_layout &layout, bool is_gated, int block_outputs)
{
  int64_t first_column = 0, n_blocks = 0;
  p.n_parts = layout.n_parts;
  for (int i = 0; i < layout.n_parts; i++) {
    p.parts[i] = {layout.n[i], first_column, layout.b[i], static_cast<int>(n_blocks)};
    if (is_gated && i > 0) continue;
    first_column += layout.n[i];
    n_blocks += (layout.n[i] + block_outputs - 1) / block_outputs;
  }
  return static_cast<int>(n_blocks);
}

/* Fills the parameters other than the parts. */
inline void fill_outputs(output_params &p, const yk_cuda_adapted_rows &rows, const yk_cuda_expand_args &args)
{
  const yk_cuda_adapter_layout &layout = *rows.layout;
  p.part_tiles = layout.part_tiles;
  p.matrices = static_cast<const char *>(rows.memory) + layout.matrices;
  p.adapter_bytes = layout.adapter_bytes;
  p.table = static_cast<const yk_cuda_adapter_part *>(rows.memory);
  p.src = args.src;
  p.y = args.y;
  p.src_stride = args.src_stride;
  p.y_stride = args.y_stride;
  p.finishes = args.finishes;
  p.is_interleaved = args.is_interleaved;
  p.bias = args.bias;
  p.bias_is_f32 = args.bias_dtype == YK_F32;
  p.activation = args.activation;
}

/* Whether rows of src and y, and the outputs of every part in them, are whole vectors of 8 elements. */
inline bool has_wide_outputs(const output_params &p)
{
  bool yes = yk_cuda::is_aligned(p.src, 16) && yk_cuda::is_aligned(p.y, 16) && p.src_stride % WIDE == 0 &&
             p.y_stride % WIDE == 0;
  for (int i = 0; i < p.n_parts; i++) yes = yes && p.parts[i].n % WIDE == 0;
  return yes;
}

} // namespace yk_adapters

#endif
