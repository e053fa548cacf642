/* chunk_solve.cuh - the triangular matrices of a chunk, in shared memory. With G the sums of log decays:
 *
 *   A_ij = beta_i exp(G_i - G_j) k_i k_j   for i > j            attend_ij = exp(G_i - G_j) q_i k_j   for i >= j
 *   solve = (I + A)^-1 diag(beta)
 *
 * The inverse is computed in float32: of the two diagonal blocks of 32 by forward substitution, a column in each lane's
 * registers; then the block below them, -inverse2 (A21 inverse1). */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_SOLVE_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_SOLVE_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/delta/chunk_shared.cuh"

namespace yk_delta {

/* A and attend from q and k. Warp w has rows 16 (w / 2) to 16 (w / 2) + 15 and 32 columns from 32 (w % 2) on. */
template <typename T> __device__ __forceinline__ void make_triangles(chunk_shared<T> &s)
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / 2 * 16, n = warp % 2 * HALF;
  if (n > m) return; /* above the diagonal */
  float kk[4][4] = {}, qk[4][4] = {};
#pragma unroll
  for (int e = 0; e < CHUNK_DIM; e += 16) {
    uint32_t k[4], q[4];
    load_a(k, s.k, m, e);
    load_a(q, s.q, m, e);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      uint32_t b[4];
      load_b(b, s.k, n + 16 * i, e);
      yk_ptx::mma_m16n8k16<T>(kk[2 * i], k[0], k[1], k[2], k[3], b[0], b[1]);
      yk_ptx::mma_m16n8k16<T>(kk[2 * i + 1], k[0], k[1], k[2], k[3], b[2], b[3]);
      yk_ptx::mma_m16n8k16<T>(qk[2 * i], q[0], q[1], q[2], q[3], b[0], b[1]);
      yk_ptx::mma_m16n8k16<T>(qk[2 * i + 1], q[0], q[1], q[2], q[3], b[2], b[3]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int row = m + lane / 4 + j / 2 * 8, column = n + 8 * i + lane % 4 * 2 + j % 2;
      const float decay = __expf(fminf(s.log_decay[row] - s.log_decay[column], 0.0f));
      s.a[row][column] = row > column ? s.beta[row] * decay * kk[i][j] : 0.0f;
      s.attend[row][column] = yk_cuda::from_float<T>(row >= column ? decay * qk[i][j] : 0.0f);
    }
}

/* One warp inverts the diagonal block of HALF rows from `first` on, in place, and stores it to solve. */
template <typename T> __device__ __forceinline__ void invert_block(chunk_shared<T> &s, int first)
{
  const int column = threadIdx.x % 32;
  const float beta = s.beta[first + column];
  float x[HALF];
#pragma unroll
  for (int i = 0; i < HALF; i++) {
    const float4 *row = reinterpret_cast<const float4 *>(&s.a[first + i][first]);
    float sums[4] = {i == column ? 1.0f : 0.0f};
#pragma unroll
    for (int j = 0; j < i; j += 4) {
      const float4 a = row[j / 4];
      sums[0] = fmaf(-a.x, x[j], sums[0]);
      if (j + 1 < i) sums[1] = fmaf(-a.y, x[j + 1], sums[1]);
      if (j + 2 < i) sums[2] = fmaf(-a.z, x[j + 2], sums[2]);
      if (j + 3 < i) sums[3] = fmaf(-a.w, x[j + 3], sums[3]);
    }
    x[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < HALF; i++) {
    s.a[first + i][first + column] = x[i];
    s.solve[first + i][first + column] = yk_cuda::from_float<T>(x[i] * beta);
  }
}

/* Four columns of a row of the product of two blocks of a: rows r, columns of the right block c .. c+3. */
__device__ __forceinline__ float4 block_product(const float *left, const float (*right)[FLOAT_STRIDE], int column)
{
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int j = 0; j < HALF; j++) {
    const float a = left[j];
    const float4 b = *reinterpret_cast<const float4 *>(&right[j][column]);
    sum.x = fmaf(a, b.x, sum.x), sum.y = fmaf(a, b.y, sum.y);
    sum.z = fmaf(a, b.z, sum.z), sum.w = fmaf(a, b.w, sum.w);
  }
  return sum;
}

/* The block of solve below the diagonal blocks, by all threads; the upper right block of a holds the product between.
 * A barrier must precede and follow. */
template <typename T> __device__ __forceinline__ void invert_below(chunk_shared<T> &s)
{
  const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 4;
  const float4 product = block_product(&s.a[HALF + row][0], s.a, column);
  *reinterpret_cast<float4 *>(&s.a[row][HALF + column]) = product;
  __syncthreads();
  const float4 x = block_product(&s.a[HALF + row][HALF], s.a, HALF + column);
  const float of[] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; i++) s.solve[HALF + row][column + i] = yk_cuda::from_float<T>(-of[i] * s.beta[column + i]);
}

} // namespace yk_delta

#endif
