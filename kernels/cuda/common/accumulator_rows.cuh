/* accumulator_rows.cuh - rows of the accumulator fragments of mma.sync and wgmma for attention: the online softmax,
 * probabilities as the A operand of the next product, and stores of result rows.
 *
 * d[N][4] is N tiles of 8 columns. Lane (g, t) = (lane / 4, lane % 4) of a warp holds columns 2 t and 2 t + 1 of row g
 * (e = 0) and of row g + 8 (e = 1) of tile i: d[i][2 e] and d[i][2 e + 1]. The four lanes of a row are a quad. */
#ifndef YK_KERNELS_CUDA_COMMON_ACCUMULATOR_ROWS_CUH
#define YK_KERNELS_CUDA_COMMON_ACCUMULATOR_ROWS_CUH

#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_cuda {

/* The maximum, and the sum, over the lanes of a quad, returned in each lane. */
__device__ __forceinline__ float quad_max(float x)
{
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float quad_sum(float x)
{
  x += __shfl_xor_sync(~0u, x, 1);
  x += __shfl_xor_sync(~0u, x, 2);
  return x;
}

/* The largest of the lane's columns of a row, and of `from`. */
template <int N> __device__ __forceinline__ float row_max(const float (&d)[N][4], int e, float from)
{
#pragma unroll
  for (int i = 0; i < N; i++) from = fmaxf(from, fmaxf(d[i][2 * e], d[i][2 * e + 1]));
  return from;
}

/* The value subtracted from scores times scale_log2 before the exponential: the row's largest score so far times
 * scale_log2; 0 if that is minus infinity (no visible token so far), since its difference from itself would be NaN. */
__device__ __forceinline__ float softmax_shift(float largest, float scale_log2)
{
  return largest == -INFINITY ? 0.0f : largest * scale_log2;
}

/* Turns scores of row e into unnormalised probabilities 2^(score scale_log2 - shift). Returns the sum of the lane's
 * own. */
template <int N>
__device__ __forceinline__ float exponentiate_row(float (&score)[N][4], int e, float scale_log2, float shift)
{
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; i++) {
#pragma unroll
    for (int c = 0; c < 2; c++) {
      score[i][2 * e + c] = yk_ptx::exp2_approx(score[i][2 * e + c] * scale_log2 - shift);
      sum += score[i][2 * e + c];
    }
  }
  return sum;
}

/* One step of the online softmax: scores of both rows become unnormalised probabilities, relative to the largest score
 * so far.
 *   scale_log2  the factor of each row's scores
 *   m           each row's largest score so far; updated
 *   l           the lane's own sums of probabilities so far; rescaled and updated
 *   rescale     the factor for sums that earlier probabilities were added to */
template <int N>
__device__ __forceinline__ void online_softmax(float (&score)[N][4], const float (&scale_log2)[2], float (&m)[2],
                                               float (&l)[2], float (&rescale)[2])
{
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const float top = quad_max(row_max(score, e, m[e])), shift = softmax_shift(top, scale_log2[e]);
    rescale[e] = yk_ptx::exp2_approx(m[e] * scale_log2[e] - shift);
    m[e] = top;
    const float sum = exponentiate_row(score, e, scale_log2[e], shift);
    l[e] = l[e] * rescale[e] + sum;
  }
}

/* Multiplies both rows by a factor each. */
template <int N> __device__ __forceinline__ void scale_rows(float (&d)[N][4], const float (&factor)[2])
{
#pragma unroll
  for (int i = 0; i < N; i++) {
#pragma unroll
    for (int e = 0; e < 4; e++) d[i][e] *= factor[e / 2];
  }
}

/* The accumulators rounded to T, as A fragments of m16n8k16: a[i] has columns 16 i to 16 i + 15 for its K. */
template <typename T, int N>
__device__ __forceinline__ void round_to_operand(const float (&d)[N][4], uint32_t (&a)[N / 2][4])
{
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    a[i][0] = yk_ptx::round_pair<T>(d[2 * i][0], d[2 * i][1]);
    a[i][1] = yk_ptx::round_pair<T>(d[2 * i][2], d[2 * i][3]);
    a[i][2] = yk_ptx::round_pair<T>(d[2 * i + 1][0], d[2 * i + 1][1]);
    a[i][3] = yk_ptx::round_pair<T>(d[2 * i + 1][2], d[2 * i + 1][3]);
  }
}

/* Before: lane t of a quad has word t of four tiles of columns; after: lane t has all four words of tile t. */
__device__ __forceinline__ void transpose_quad(uint32_t (&words)[4])
{
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
    const bool upper = threadIdx.x & bit;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (j & bit) continue;
      const uint32_t other = __shfl_xor_sync(~0u, upper ? words[j] : words[j | bit], bit);
      words[j] = upper ? other : words[j];
      words[j | bit] = upper ? words[j | bit] : other;
    }
  }
}

/* Writes row e times a factor, rounded to T, to y [8 N], 16-byte aligned; with four tiles of columns, 16 bytes per
 * lane. exists: whether y is written at all. Called by all lanes of the warp, since it shuffles. */
template <typename T, int N>
__device__ __forceinline__ void store_row(T *y, const float (&d)[N][4], int e, float factor, bool exists)
{
  const unsigned t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < N / 4; i++) {
    uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      words[j] = yk_ptx::round_pair<T>(d[4 * i + j][2 * e] * factor, d[4 * i + j][2 * e + 1] * factor);
    transpose_quad(words);
    if (exists) yk_ptx::store_global16(y + 32 * i + 8 * t, make_uint4(words[0], words[1], words[2], words[3]));
  }
#pragma unroll
  for (int i = N / 4 * 4; i < N; i++) {
    if (exists)
      *reinterpret_cast<uint32_t *>(y + 8 * i + 2 * t) =
          yk_ptx::round_pair<T>(d[i][2 * e] * factor, d[i][2 * e + 1] * factor);
  }
}

} // namespace yk_cuda

#endif
