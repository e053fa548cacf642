/* chunk_solve.cuh - the triangular matrices of a chunk, to the scratch. With G the sums of log decays:
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

/* k k^T and q k^T of all value heads of a key head. Warp w has rows 16 (w / 2) to 16 (w / 2) + 15 and 32 columns from
 * 32 (w % 2) on; those above the diagonal have none. */
struct key_products {
  float kk[HALF / 8][4], qk[HALF / 8][4];

  __device__ static __forceinline__ int row()
  {
    return threadIdx.x / 64 * 16;
  }
  __device__ static __forceinline__ int column()
  {
    return threadIdx.x / 32 % 2 * HALF;
  }

  template <typename T> __device__ __forceinline__ void multiply(const prepare_shared<T> &s)
  {
#pragma unroll
    for (int i = 0; i < HALF / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) kk[i][j] = qk[i][j] = 0.0f;
    if (column() > row()) return;
#pragma unroll
    for (int e = 0; e < CHUNK_DIM; e += 16) {
      uint32_t k[4], q[4];
      load_a(k, s.k, row(), e);
      load_a(q, s.q, row(), e);
#pragma unroll
      for (int i = 0; i < HALF / 16; i++) {
        uint32_t b[4];
        load_b(b, s.k, column() + 16 * i, e);
        yk_ptx::mma_m16n8k16<T>(kk[2 * i], k[0], k[1], k[2], k[3], b[0], b[1]);
        yk_ptx::mma_m16n8k16<T>(kk[2 * i + 1], k[0], k[1], k[2], k[3], b[2], b[3]);
        yk_ptx::mma_m16n8k16<T>(qk[2 * i], q[0], q[1], q[2], q[3], b[0], b[1]);
        yk_ptx::mma_m16n8k16<T>(qk[2 * i + 1], q[0], q[1], q[2], q[3], b[2], b[3]);
      }
    }
  }

  /* A of a value head to shared memory, attend to the scratch. */
  template <typename T>
  __device__ __forceinline__ void store(const params &p, const chunk_rows &rows, int32_t value, head_matrix &to) const
  {
    if (column() > row()) return;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int i = row() + lane / 4 + 8 * half;
      T *kept = row_scratch::of(p, rows.first + i).template matrices<T>(value) + CHUNK;
#pragma unroll
      for (int tile = 0; tile < HALF / 8; tile++) {
        const int j = column() + 8 * tile + lane % 4 * 2;
        const float2 log = *reinterpret_cast<const float2 *>(&to.log_decay[j]);
        const float of_row = to.log_decay[i];
        const float low = __expf(fminf(of_row - log.x, 0.0f)), high = __expf(fminf(of_row - log.y, 0.0f));
        const float *k = &kk[tile][2 * half], *q = &qk[tile][2 * half];
        *reinterpret_cast<float2 *>(&to.a[i][j]) =
            make_float2(i > j ? to.beta[i] * low * k[0] : 0.0f, i > j + 1 ? to.beta[i] * high * k[1] : 0.0f);
        const uint32_t pair = yk_ptx::round_pair<T>(i >= j ? low * q[0] : 0.0f, i >= j + 1 ? high * q[1] : 0.0f);
        if (i < rows.n) *reinterpret_cast<uint32_t *>(kept + j) = pair;
      }
    }
  }
};

/* One warp inverts the diagonal block of HALF rows from `first` on, in place, and stores it to solve. */
template <typename T>
__device__ __forceinline__ void invert_block(const params &p, const chunk_rows &rows, int32_t value, int first,
                                             head_matrix &s)
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
    if (first + i < rows.n)
      row_scratch::of(p, rows.first + first + i).template matrices<T>(value)[first + column] =
          yk_cuda::from_float<T>(x[i] * beta);
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

/* The block of solve below the diagonal blocks, by all threads, in two parts with a barrier before, between and behind:
 * the upper right block of a holds the product between. */
__device__ __forceinline__ void multiply_below(head_matrix &s)
{
  const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 4;
  const float4 product = block_product(&s.a[HALF + row][0], s.a, column);
  *reinterpret_cast<float4 *>(&s.a[row][HALF + column]) = product;
}

template <typename T>
__device__ __forceinline__ void store_below(const params &p, const chunk_rows &rows, int32_t value,
                                            const head_matrix &s)
{
  const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 4;
  if (HALF + row >= rows.n) return;
  const float4 x = block_product(&s.a[HALF + row][HALF], s.a, HALF + column);
  T *to = row_scratch::of(p, rows.first + HALF + row).template matrices<T>(value) + column;
  const float4 beta = *reinterpret_cast<const float4 *>(&s.beta[column]);
  uint2 pairs;
  pairs.x = yk_ptx::round_pair<T>(-x.x * beta.x, -x.y * beta.y);
  pairs.y = yk_ptx::round_pair<T>(-x.z * beta.z, -x.w * beta.w);
  *reinterpret_cast<uint2 *>(to) = pairs;
}

} // namespace yk_delta

#endif
