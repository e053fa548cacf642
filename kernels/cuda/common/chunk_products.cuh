/* chunk_products.cuh - products of a chunk of up to 64 rows of a recurrent layer with the part of a head's state that a
 * warp keeps in registers, on tensor cores.
 *
 * A warp has 16 values of the state, transposed: S^T [16 values, KEYS] as accumulators of m16n8k16. Accumulators
 * [16, 16] are an A fragment once rounded, so S^T and the other left factors never leave the registers; right factors
 * come from shared memory, whose rows are padded by 16 bytes, so that the eight rows of a matrix of ldmatrix lie in
 * different banks. */
#ifndef YK_KERNELS_CUDA_COMMON_CHUNK_PRODUCTS_CUH
#define YK_KERNELS_CUDA_COMMON_CHUNK_PRODUCTS_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/recurrent_sequence.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_cuda {

constexpr int HALF_CHUNK = STATE_CHUNK / 2, HALF_TILES = HALF_CHUNK / 8; /* tiles of eight columns of accumulators */
constexpr int SQUARE_STRIDE = STATE_CHUNK + 8;                           /* of a matrix [STATE_CHUNK, STATE_CHUNK] */

/* Two B fragments of m16n8k16 of a matrix stored as [n][k]: columns n .. n+15, k .. k+15. b[0], b[1]: of columns
 * n .. n+7; b[2], b[3]: of the others. */
template <typename T, int STRIDE>
__device__ __forceinline__ void load_b(uint32_t (&b)[4], const T (*matrix)[STRIDE], int n, int k)
{
  const int lane = threadIdx.x % 32;
  yk_ptx::ldmatrix_x4(b, yk_ptx::shared_address(&matrix[n + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]));
}

/* The same of a matrix stored as [k][n]. */
template <typename T, int STRIDE>
__device__ __forceinline__ void load_b_trans(uint32_t (&b)[4], const T (*matrix)[STRIDE], int n, int k)
{
  const int lane = threadIdx.x % 32;
  yk_ptx::ldmatrix_x4_trans(b, yk_ptx::shared_address(&matrix[k + lane / 8 % 2 * 8 + lane % 8][n + lane / 16 * 8]));
}

/* An A fragment of m16n8k16 of a matrix stored as [m][k]: rows m .. m+15. */
template <typename T, int STRIDE>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], const T (*matrix)[STRIDE], int m, int k)
{
  const int lane = threadIdx.x % 32;
  yk_ptx::ldmatrix_x4(a, yk_ptx::shared_address(&matrix[m + lane % 16][k + lane / 16 * 8]));
}

/* An A fragment of the accumulators of two neighbouring tiles. */
template <typename T>
__device__ __forceinline__ void round_a(uint32_t (&a)[4], const float (&low)[4], const float (&high)[4])
{
  a[0] = yk_ptx::round_pair<T>(low[0], low[1]);
  a[1] = yk_ptx::round_pair<T>(low[2], low[3]);
  a[2] = yk_ptx::round_pair<T>(high[0], high[1]);
  a[3] = yk_ptx::round_pair<T>(high[2], high[3]);
}

/* A left factor [16, STATE_CHUNK], as A fragments. */
struct left_factor {
  uint32_t at[STATE_CHUNK / 16][4];

  /* Multiplies each column by the factor of its row of the chunk. */
  template <typename T> __device__ __forceinline__ void scale(const float *factors)
  {
#pragma unroll
    for (int i = 0; i < STATE_CHUNK / 16; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const float2 f = *reinterpret_cast<const float2 *>(&factors[16 * i + j / 2 * 8 + threadIdx.x % 4 * 2]);
        const float2 x = unpack<T>(at[i][j]);
        at[i][j] = yk_ptx::round_pair<T>(f.x * x.x, f.y * x.y);
      }
  }

  template <typename T> __device__ static __forceinline__ float2 unpack(uint32_t pair)
  {
    const T *of = reinterpret_cast<const T *>(&pair);
    return make_float2(to_float(of[0]), to_float(of[1]));
  }
};

/* c += left matrix^T for rows 16 n to 16 n + 15 of a matrix [STATE_CHUNK][STATE_CHUNK] of which blocks above the
 * diagonal count as zeros. c: two tiles. */
template <typename T>
__device__ __forceinline__ void add_triangle(float (&low)[4], float (&high)[4], const left_factor &left,
                                             const T (*matrix)[SQUARE_STRIDE], int n)
{
#pragma unroll
  for (int k = 0; k < STATE_CHUNK / 16; k++) {
    if (k > n) continue;
    uint32_t b[4];
    load_b(b, matrix, 16 * n, 16 * k);
    const uint32_t(&a)[4] = left.at[k];
    yk_ptx::mma_m16n8k16<T>(low, a[0], a[1], a[2], a[3], b[0], b[1]);
    yk_ptx::mma_m16n8k16<T>(high, a[0], a[1], a[2], a[3], b[2], b[3]);
  }
}

/* Stores accumulators [16 values, HALF_CHUNK rows], rounded, to the warp's columns, value and following, of rows
 * `first` and following. */
template <typename T, int STRIDE>
__device__ __forceinline__ void store_transposed(const float (&c)[HALF_TILES][4], T (*rows)[STRIDE], int first,
                                                 int value)
{
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < HALF_TILES; n++)
#pragma unroll
    for (int j = 0; j < 2; j++)
      *reinterpret_cast<uint32_t *>(&rows[first + 8 * n + lane / 4][value + lane % 4 * 2 + 8 * j]) =
          yk_ptx::transpose_8x8(yk_ptx::round_pair<T>(c[n][2 * j], c[n][2 * j + 1]));
}

template <typename T, int KEYS> struct state_values {
  static constexpr int TILES = KEYS / 8;
  float s[TILES][4];

  /* c = S^T matrix^T for HALF_CHUNK rows of the matrix from `first` on, each column times the factor of its row. */
  template <int STRIDE>
  __device__ __forceinline__ void read(float (&c)[HALF_TILES][4], const T (*matrix)[STRIDE], int first,
                                       const float *factors) const
  {
#pragma unroll
    for (int n = 0; n < HALF_TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) c[n][j] = 0.0f;
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
      uint32_t a[4];
      round_a<T>(a, s[2 * k], s[2 * k + 1]);
#pragma unroll
      for (int n = 0; n < HALF_TILES; n += 2) {
        uint32_t b[4];
        load_b(b, matrix, first + 8 * n, 16 * k);
        yk_ptx::mma_m16n8k16<T>(c[n], a[0], a[1], a[2], a[3], b[0], b[1]);
        yk_ptx::mma_m16n8k16<T>(c[n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < HALF_TILES; n++) {
      const float2 f = *reinterpret_cast<const float2 *>(&factors[first + 8 * n + threadIdx.x % 4 * 2]);
      c[n][0] *= f.x, c[n][1] *= f.y, c[n][2] *= f.x, c[n][3] *= f.y;
    }
  }

  /* S^T = decay S^T + left matrix. */
  template <int STRIDE>
  __device__ __forceinline__ void update(const left_factor &left, const T (*matrix)[STRIDE], float decay)
  {
#pragma unroll
    for (int n = 0; n < TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[n][j] *= decay;
#pragma unroll
    for (int t = 0; t < STATE_CHUNK / 16; t++)
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        uint32_t b[4];
        load_b_trans(b, matrix, 16 * n, 16 * t);
        const uint32_t(&a)[4] = left.at[t];
        yk_ptx::mma_m16n8k16<T>(s[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        yk_ptx::mma_m16n8k16<T>(s[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
  }
};

} // namespace yk_cuda

#endif
