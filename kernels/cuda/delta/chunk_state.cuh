/* chunk_state.cuh - the part of a head's state that a warp keeps in registers along a sequence, 16 columns of S [128,
 * 128] transposed, and the products of a chunk with it (common/chunk_products.cuh). With t a row of the chunk:
 *
 *   R^T [16, t] = V^T - exp(G_t) S^T K^T          the part of v that the state does not predict
 *   U^T [16, t] = R^T solve^T                     the deltas
 *   O^T [16, t] = exp(G_t) S^T Q^T + U^T attend^T
 *   S^T = exp(G_end) S^T + (U^T diag(exp(G_end - G_t))) K
 */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_STATE_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_STATE_CUH

#include "kernels/cuda/delta/chunk_shared.cuh"

namespace yk_delta {

/* left = left matrix^T. Rows are processed from the last to the first, since each depends only on earlier rows. */
template <typename T>
__device__ __forceinline__ void multiply_triangle(left_factor &left, const T (*matrix)[SQUARE_STRIDE])
{
#pragma unroll
  for (int n = CHUNK / 16 - 1; n >= 0; n--) {
    float low[4] = {}, high[4] = {};
    yk_cuda::add_triangle(low, high, left, matrix, n);
    round_a<T>(left.at[n], low, high);
  }
}

template <typename T> struct state_columns : yk_cuda::state_values<T, CHUNK_DIM> {
  using base = yk_cuda::state_values<T, CHUNK_DIM>;
  using base::read;
  using base::s;
  using base::update;

  /* Element j of tile n: the offset in the head's matrix [key][value]. */
  __device__ static __forceinline__ int offset(int n, int j)
  {
    const int lane = threadIdx.x % 32, value = threadIdx.x / 32 * 16 + lane / 4 + j / 2 * 8;
    return (8 * n + lane % 4 * 2 + j % 2) * CHUNK_DIM + value;
  }

  __device__ __forceinline__ void load(const float *matrix)
  {
#pragma unroll
    for (int n = 0; n < base::TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[n][j] = matrix ? matrix[offset(n, j)] : 0.0f;
  }

  __device__ __forceinline__ void store(float *matrix) const
  {
#pragma unroll
    for (int n = 0; n < base::TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j++) matrix[offset(n, j)] = s[n][j];
  }

  /* R^T as a left factor. */
  __device__ __forceinline__ void residual(const walk_inputs<T> &shared, left_factor &out) const
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
  __device__ __forceinline__ void attend(const left_factor &u, walk_inputs<T> &shared) const
  {
#pragma unroll
    for (int first = 0; first < CHUNK; first += HALF) {
      float c[HALF_TILES][4];
      read(c, shared.q, first, shared.decay);
#pragma unroll
      for (int i = 0; i < HALF / 16; i++)
        yk_cuda::add_triangle(c[2 * i], c[2 * i + 1], u, shared.attend, first / 16 + i);
      yk_cuda::store_transposed(c, shared.v, first, threadIdx.x / 32 * 16);
    }
  }
};

} // namespace yk_delta

#endif
