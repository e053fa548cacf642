/* octet_outputs.cuh - the second product of adapters as in outputs.cuh, for octets of rows: outputs are rows of two A
 * operands of mma.sync (TF32), an octet of rows is the B operand, so that a tile of up to 8 rows wastes no products. A
 * lane then has 4 outputs of two rows; lanes exchange values in pairs, so that each has 8 neighbouring outputs of one
 * row. */
#ifndef YK_KERNELS_CUDA_ADAPTERS_OCTET_OUTPUTS_CUH
#define YK_KERNELS_CUDA_ADAPTERS_OCTET_OUTPUTS_CUH

#include "kernels/cuda/adapters/outputs.cuh"
#include "kernels/cuda/adapters/x_products.cuh"

namespace yk_adapters {

constexpr int OPERANDS = 2; /* A operands of 32 outputs */

/* A lane's sums for an octet of rows: at[i][m][2 j] and at[i][m][2 j + 1] belong to its output 2 m + j of part i, in
 * the order of B's layout, for rows lane % 4 * 2 and the next one. */
template <int PARTS> struct octet_sums {
  float at[PARTS][OPERANDS][4];

  /* The lane's row of the octet, after the exchange. */
  static __device__ __forceinline__ int row()
  {
    const int lane = static_cast<int>(threadIdx.x) % WARP;
    return lane % 4 * 2 + lane / 4 % 2;
  }

  /* The lane's 8 outputs of that row. Called by all lanes: lane and lane ^ 4 have every other output of both rows. */
  __device__ __forceinline__ void exchange(float (&to)[PARTS][WIDE]) const
  {
    const bool is_odd = threadIdx.x / 4 % 2 == 1;
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
#pragma unroll
      for (int j = 0; j < WIDE / 2; j++) {
        const float *v = &at[i][j / 2][j % 2 * 2];
        const float own = is_odd ? v[1] : v[0], other = __shfl_xor_sync(~0u, is_odd ? v[0] : v[1], 4);
        to[i][2 * j] = is_odd ? other : own;
        to[i][2 * j + 1] = is_odd ? own : other;
      }
    }
  }
};

/* Adds the products of a tile of ranks for an octet of rows. products.load(row, i, quad): ranks 4 quad .. 4 quad + 3 of
 * part i. */
template <typename T, int PARTS, typename PRODUCTS>
__device__ __forceinline__ void multiply(const PRODUCTS &products, const b_block<PARTS> &b, int octet,
                                         octet_sums<PARTS> &acc)
{
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int i = 0; i < PARTS; i++) {
    const float4 v = products.load(octet * OCTET + lane / 4, i, lane % 4);
    const uint32_t x[2][2] = {{yk_ptx::round_to_tf32(v.x), yk_ptx::round_to_tf32(v.y)},
                              {yk_ptx::round_to_tf32(v.z), yk_ptx::round_to_tf32(v.w)}};
#pragma unroll
    for (int m = 0; m < OPERANDS; m++) {
      const uint4 &words = b.v[i][m];
#pragma unroll
      for (int step = 0; step < 2; step++) {
        uint32_t a[4];
        unpack<T>(step == 0 ? words.x : words.y, a[0], a[2]);
        unpack<T>(step == 0 ? words.z : words.w, a[1], a[3]);
        yk_ptx::mma_m16n8k8_tf32(acc.at[i][m], a, x[step][0], x[step][1]);
      }
    }
  }
}

/* The GEMM's results of a lane's outputs; n: number of existing ones, 0 if there is no row. */
struct octet_source {
  const uint16_t *at; /* of gate, if there are two parts */
  int n;

  template <int PARTS, bool IS_WIDE>
  __device__ __forceinline__ void load(const output_params &p, uint4 (&src)[PARTS]) const
  {
    const int64_t up = p.is_interleaved ? WIDE : p.parts[0].n;
#pragma unroll
    for (int i = 0; i < PARTS; i++)
      if (n > 0) src[i] = load_wide<IS_WIDE>(at, i * up, n);
  }
};

/* A lane's 8 outputs of one row of an octet. */
template <int PARTS, bool IS_WIDE> struct octet_outputs {
  int part, n; /* n: number of existing outputs */
  int output;  /* the first, of the part */

  /* The outputs of a warp of a block of 32 outputs. */
  __device__ __forceinline__ void place(const output_params &p, int block)
  {
    part = part_of_block<PARTS>(p, block);
    output = (block - p.parts[part].first_block) * YK_ADAPTER_CHUNK + static_cast<int>(threadIdx.x) % WARP / 8 * WIDE;
    n = max(0, min(WIDE, static_cast<int>(p.parts[part].n) - output));
  }

  /* The GEMM's results. octet: of the tile, whose rows are those of the step. */
  __device__ __forceinline__ octet_source source(const output_params &p, const row_tile &tile, int octet) const
  {
    const int at = octet * OCTET + octet_sums<PARTS>::row();
    if (at >= tile.n_rows || n == 0) return {};
    const int64_t first = tile.rows[at] * p.src_stride + src_column<PARTS>(p, PARTS == 1 ? part : 0, output);
    return {static_cast<const uint16_t *>(p.src) + first, n};
  }

  template <typename T>
  __device__ __forceinline__ void store(const output_params &p, const row_tile &tile, int octet,
                                        const uint4 (&src)[PARTS], const float (&product)[PARTS][WIDE]) const
  {
    const int at = octet * OCTET + octet_sums<PARTS>::row();
    if (at >= tile.n_rows || n == 0) return;
    store_wide<IS_WIDE, T>(p.y, tile.rows[at] * p.y_stride + p.parts[part].first_column + output, n,
                           finish_row<T, PARTS>(p, part, output, n, src, product));
  }
};

/* Products of several octets, in shared memory: [octets][vectors of a lane][lanes]. For one warp. */
template <int PARTS, int N> struct held_products {
  static constexpr int VECTORS = PARTS * WIDE / 4;
  float4 of_octet[N][VECTORS][WARP];

  __device__ __forceinline__ void store(int i, const float (&v)[PARTS][WIDE])
  {
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
      const float *from = &v[j / 2][j % 2 * 4];
      of_octet[i][j][threadIdx.x % WARP] = make_float4(from[0], from[1], from[2], from[3]);
    }
  }

  __device__ __forceinline__ void load(int i, float (&v)[PARTS][WIDE]) const
  {
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
      const float4 from = of_octet[i][j][threadIdx.x % WARP];
      float *to = &v[j / 2][j % 2 * 4];
      to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
    }
  }
};

} // namespace yk_adapters

#endif
