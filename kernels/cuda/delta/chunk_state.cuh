/* chunk_state.cuh - the part of a head's state that a warp keeps in registers along a sequence, and the products of a
 * chunk with it, on tensor cores.
 *
 * A warp has 16 columns of the state S [128, 128], transposed: S^T [16 values, 128 keys] as accumulators of m16n8k16.
 * Accumulators [16, 16] are an A fragment once rounded, so S^T and the other left factors never leave the registers;
 * right factors come from shared memory. With t a row of the chunk:
 *
 *   R^T [16, t] = V^T - exp(G_t) S^T K^T          what the state does not predict of v
 *   U^T [16, t] = R^T solve^T                     the deltas
 *   O^T [16, t] = exp(G_t) S^T Q^T + U^T attend^T
 *   S^T = exp(G_end) S^T + (U^T diag(exp(G_end - G_t))) K
 */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_STATE_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_STATE_CUH

#include "kernels/cuda/delta/chunk_shared.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_delta {

constexpr int HALF_TILES = HALF / 8, KEY_TILES = CHUNK_DIM / 8; /* tiles of eight columns of accumulators */

/* An A fragment of the accumulators of two neighbouring tiles. */
template <typename T>
__device__ __forceinline__ void round_a(uint32_t (&a)[4], const float (&low)[4], const float (&high)[4])
{
  a[0] = yk_ptx::round_pair<T>(low[0], low[1]);
  a[1] = yk_ptx::round_pair<T>(low[2], low[3]);
  a[2] = yk_ptx::round_pair<T>(high[0], high[1]);
  a[3] = yk_ptx::round_pair<T>(high[2], high[3]);
}

/* A left factor [16, CHUNK], as A fragments. */
struct left_factor {
  uint32_t at[CHUNK / 16][4];

  /* Multiplies each column by the factor of its row of the chunk. */
  template <typename T> __device__ __forceinline__ void scale(const float *factors)
  {
#pragma unroll
    for (int i = 0; i < CHUNK / 16; i++)
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
    return make_float2(yk_cuda::to_float(of[0]), yk_cuda::to_float(of[1]));
  }
};

/* c += left matrix^T for rows 16 n to 16 n + 15 of a matrix [CHUNK][CHUNK] of which blocks above the diagonal count as
 * zeros. c: two tiles. */
template <typename T>
__device__ __forceinline__ void add_triangle(float (&low)[4], float (&high)[4], const left_factor &left,
                                             const T (*matrix)[SQUARE_STRIDE], int n)
{
#pragma unroll
  for (int k = 0; k < CHUNK / 16; k++) {
    if (k > n) continue;
    uint32_t b[4];
    load_b(b, matrix, 16 * n, 16 * k);
    const uint32_t(&a)[4] = left.at[k];
    yk_ptx::mma_m16n8k16<T>(low, a[0], a[1], a[2], a[3], b[0], b[1]);
    yk_ptx::mma_m16n8k16<T>(high, a[0], a[1], a[2], a[3], b[2], b[3]);
  }
}

/* left = left matrix^T. Rows from the last on, which need only what stands before them. */
template <typename T>
__device__ __forceinline__ void multiply_triangle(left_factor &left, const T (*matrix)[SQUARE_STRIDE])
{
#pragma unroll
  for (int n = CHUNK / 16 - 1; n >= 0; n--) {
    float low[4] = {}, high[4] = {};
    add_triangle(low, high, left, matrix, n);
    round_a<T>(left.at[n], low, high);
  }
}

template <typename T> struct state_columns {
  float s[KEY_TILES][4];

  /* Element j of tile n: the offset in the head's matrix [key][value]. */
  __device__ static __forceinline__ int offset(int n, int j)
  {
    const int lane = threadIdx.x % 32, value = threadIdx.x / 32 * 16 + lane / 4 + j / 2 * 8;
    return (8 * n + lane % 4 * 2 + j % 2) * CHUNK_DIM + value;
  }

  __device__ __forceinline__ void load(const float *matrix)
  {
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[n][j] = matrix ? matrix[offset(n, j)] : 0.0f;
  }

  __device__ __forceinline__ void store(float *matrix) const
  {
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) matrix[offset(n, j)] = s[n][j];
  }

  /* c = S^T matrix^T for HALF rows of the matrix from `first` on, each column times the factor of its row. */
  __device__ __forceinline__ void read(float (&c)[HALF_TILES][4], const T (*matrix)[ROW_STRIDE], int first,
                                       const float *factors) const
  {
#pragma unroll
    for (int n = 0; n < HALF_TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) c[n][j] = 0.0f;
#pragma unroll
    for (int k = 0; k < CHUNK_DIM / 16; k++) {
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

  /* R^T as a left factor. */
  __device__ __forceinline__ void residual(const chunk_shared<T> &shared, left_factor &out) const
  {
#pragma unroll
    for (int first = 0; first < CHUNK; first += HALF) {
      float c[HALF_TILES][4];
      read(c, shared.k, first, shared.decay);
#pragma unroll
      for (int i = 0; i < HALF / 16; i++) {
        uint32_t
            v[4]; /* of V^T: values + 0, rows + 0; values + 0, rows + 8; values + 8, rows + 0; values + 8, rows + 8 */
        load_b_trans(v, shared.v, threadIdx.x / 32 * 16, first + 16 * i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float2 x = left_factor::unpack<T>(v[j]);
          float(&to)[4] = c[2 * i + j % 2];
          to[j / 2 * 2] = x.x - to[j / 2 * 2];
          to[j / 2 * 2 + 1] = x.y - to[j / 2 * 2 + 1];
        }
        round_a<T>(out.at[first / 16 + i], c[2 * i], c[2 * i + 1]);
      }
    }
  }

  /* O^T, rounded, to the warp's columns of v. */
  __device__ __forceinline__ void attend(const left_factor &u, chunk_shared<T> &shared) const
  {
    const int lane = threadIdx.x % 32, value = threadIdx.x / 32 * 16 + lane % 4 * 2;
#pragma unroll
    for (int first = 0; first < CHUNK; first += HALF) {
      float c[HALF_TILES][4];
      read(c, shared.q, first, shared.decay);
#pragma unroll
      for (int i = 0; i < HALF / 16; i++) add_triangle(c[2 * i], c[2 * i + 1], u, shared.attend, first / 16 + i);
#pragma unroll
      for (int n = 0; n < HALF_TILES; n++)
#pragma unroll
        for (int j = 0; j < 2; j++)
          *reinterpret_cast<uint32_t *>(&shared.v[first + 8 * n + lane / 4][value + 8 * j]) =
              yk_ptx::transpose_8x8(yk_ptx::round_pair<T>(c[n][2 * j], c[n][2 * j + 1]));
    }
  }

  /* S after the chunk. u: the deltas, with the decays to the chunk's end. */
  __device__ __forceinline__ void update(const left_factor &u, const chunk_shared<T> &shared)
  {
    const float decay = shared.decay[CHUNK - 1];
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[n][j] *= decay;
#pragma unroll
    for (int t = 0; t < CHUNK / 16; t++)
#pragma unroll
      for (int n = 0; n < CHUNK_DIM / 16; n++) {
        uint32_t b[4];
        load_b_trans(b, shared.k, 16 * n, 16 * t);
        const uint32_t(&a)[4] = u.at[t];
        yk_ptx::mma_m16n8k16<T>(s[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        yk_ptx::mma_m16n8k16<T>(s[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
  }
};

} // namespace yk_delta

#endif
