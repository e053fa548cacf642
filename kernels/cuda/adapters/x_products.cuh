/* x_products.cuh - the first product of adapters, A x, of one warp: mma.sync with ranks as rows of the A operand and 8
 * rows of x as columns of the B operand. Lanes load 16 contiguous bytes of both, so both operands have the columns in
 * the same permuted order. */
#ifndef YK_KERNELS_CUDA_ADAPTERS_X_PRODUCTS_CUH
#define YK_KERNELS_CUDA_ADAPTERS_X_PRODUCTS_CUH

#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/layout/adapters.h"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_adapters {

constexpr int OCTET = 8; /* rows of x per matrix instruction */

/* Both operands. */
struct x_source {
  const char *a; /* of adapter 1 */
  int64_t adapter_bytes, k;
  const void *x; /* [rows, k] of 16-bit elements */
  int k_chunks;
};

inline x_source x_source_of(const yk_cuda_adapter_layout &layout, const void *memory, const void *x)
{
  return {static_cast<const char *>(memory) + layout.matrices, layout.adapter_bytes, layout.k, x,
          static_cast<int>(layout.k_chunks)};
}

/* 8 neighbouring elements of x, zeros past the end of the row. IS_WIDE: rows of x are whole 16-byte vectors. */
template <bool IS_WIDE> __device__ __forceinline__ uint4 load_x(const x_source &p, int64_t row, int64_t column)
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

/* A lane's elements of x in one chunk of columns, of a tile's rows; zeros for rows that the tile does not have. */
template <int OCTETS> struct x_chunk {
  uint4 of_octet[OCTETS];

  template <bool IS_WIDE>
  __device__ __forceinline__ void load(const x_source &p, const row_tile &tile, int first_row, int chunk)
  {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < OCTETS; i++) {
      const int at = i * OCTET + lane / 4;
      of_octet[i] = make_uint4(0, 0, 0, 0);
      if (at < tile.n_rows)
        of_octet[i] = load_x<IS_WIDE>(p, first_row + tile.rows[at], chunk * YK_ADAPTER_CHUNK + lane % 4 * 8);
    }
  }
};

/* A lane's elements of A in one chunk of columns, of a group of up to TILES tiles of ranks. */
template <int TILES> struct a_chunk {
  uint4 low[TILES], high[TILES]; /* ranks g and g + 8 */

  __device__ __forceinline__ void load(const x_source &p, int adapter, int first_tile, int n_tiles, int chunk)
  {
    constexpr int BLOCK_VECTORS = YK_ADAPTER_BLOCK * YK_ADAPTER_ELEMENT_BYTES / sizeof(uint4);
    const uint4 *from = reinterpret_cast<const uint4 *>(p.a + (adapter - 1) * p.adapter_bytes) +
                        (static_cast<int64_t>(first_tile) * p.k_chunks + chunk) * BLOCK_VECTORS +
                        threadIdx.x % WARP * 2;
#pragma unroll
    for (int i = 0; i < TILES; i++, from += static_cast<int64_t>(p.k_chunks) * BLOCK_VECTORS) {
      if (i >= n_tiles) continue;
      low[i] = __ldg(from);
      high[i] = __ldg(from + 1);
    }
  }
};

/* A lane's sums: ranks lane / 4 (x, y) and lane / 4 + 8 (z, w) of each tile, for rows lane % 4 * 2 (x, z) and the next
 * one (y, w) of each octet. */
template <int OCTETS, int TILES> struct x_sums {
  float at[OCTETS][TILES][4];

  template <typename T>
  __device__ __forceinline__ void add(const a_chunk<TILES> &a, const x_chunk<OCTETS> &x, int n_octets, int n_tiles)
  {
#pragma unroll
    for (int i = 0; i < OCTETS; i++) {
      if (i >= n_octets) continue;
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        if (t >= n_tiles) continue;
        const uint4 &low = a.low[t], &high = a.high[t], &v = x.of_octet[i];
        yk_ptx::mma_m16n8k16<T>(at[i][t], low.x, high.x, low.y, high.y, v.x, v.y);
        yk_ptx::mma_m16n8k16<T>(at[i][t], low.z, high.z, low.w, high.w, v.z, v.w);
      }
    }
  }

  __device__ __forceinline__ float4 of(int octet, int tile) const
  {
    const float(&v)[4] = at[octet][tile];
    return make_float4(v[0], v[1], v[2], v[3]);
  }
};

__device__ __forceinline__ void add_to(float4 &sum, const float4 &v)
{
  sum.x += v.x;
  sum.y += v.y;
  sum.z += v.z;
  sum.w += v.w;
}

/* Adds the warps' sums [WARPS][items] of one item, in the order of the warps. */
template <int WARPS, int ITEMS>
__device__ __forceinline__ float4 sum_of_warps(const float4 (&sums)[WARPS][ITEMS], int item)
{
  float4 v = sums[0][item];
#pragma unroll
  for (int warp = 1; warp < WARPS; warp++) add_to(v, sums[warp][item]);
  return v;
}

} // namespace yk_adapters

#endif
