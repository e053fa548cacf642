/* small_batch_fusions.cuh - operations that the small-batch kernel may fuse with a GEMM of few tokens, so that no
 * kernel of one thread block a row stands between two GEMMs: RMSNorm of x before the GEMM (yk_gemm_call.norm_w), or the
 * addition of the results to y (yk_gemm_call.adds). Both round as rms_norm and add_norm do (kernels/device.h). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_FUSIONS_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_FUSIONS_CUH

#include <cstring>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/gemm/mma_epilogue.cuh"
#include "kernels/cuda/gemm/mma_warps.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_gemm {

/* ---- RMSNorm of x ------------------------------------------------------------------------------------------------ */

/* Every thread block normalises all rows of x in shared memory, where they stay. A consumer warp has one row, or a part
 * of one. */
struct row_norm {
  const void *w; /* [k] */
  const void *x; /* [m, k] */
  float eps, per_input;
  int vectors;   /* of a row: k / NORM_VECTOR */
  int row_warps; /* consumer warps of a row */
};

constexpr int NORM_VECTOR = 8, NORM_VECTOR_BYTES = 16; /* elements of a vector */
/* Most rows with a norm or a sum, and most inputs of all rows with a norm. With more, a thread block takes longer than
 * a separate kernel of norms, which also adds. */
constexpr int NORM_TOKENS = 2, NORM_INPUTS = 8192;

/* Consumer warps of each of m rows. */
__host__ __device__ constexpr int norm_row_warps(int64_t m)
{
  return m == 1 ? CONSUMER_WARPS : CONSUMER_WARPS / NORM_TOKENS;
}

inline bool can_normalise(int64_t m, int64_t k)
{
  return m <= NORM_TOKENS && k % TILE_K == 0 && m * k <= NORM_INPUTS;
}

/* Bytes of the rows of x and then of w. */
__host__ __device__ constexpr int64_t norm_bytes(int64_t m, int64_t k)
{
  return (m + 1) * k * 2;
}

/* Offset of the row that a lane addresses for ldmatrix. A row in shared memory has 128 bytes for each half of a K tile,
 * swizzled as multiply_k_tile expects. Lanes past the last row repeat row 0: their products are dropped. */
__device__ __forceinline__ uint32_t lane_of_normed_x(int lane, int m, int row_bytes)
{
  const int row = lane % 8 < m ? lane % 8 : 0;
  return row * row_bytes + ((lane / 8) ^ row) * 16;
}

/* Adds the squares of a vector's elements. */
template <typename T> __device__ __forceinline__ void add_squares(uint4 words, float &sum)
{
  const auto &v = *reinterpret_cast<const yk_cuda::vec<T, NORM_VECTOR> *>(&words);
#pragma unroll
  for (int i = 0; i < NORM_VECTOR; i++) sum += yk_cuda::to_float(v.at[i]) * yk_cuda::to_float(v.at[i]);
}

template <typename T> __device__ __forceinline__ uint4 normalised(uint4 words, uint4 weights, float factor)
{
  using V = yk_cuda::vec<T, NORM_VECTOR>;
  const V &v = *reinterpret_cast<const V *>(&words), &w = *reinterpret_cast<const V *>(&weights);
  uint4 result;
  V &y = *reinterpret_cast<V *>(&result);
#pragma unroll
  for (int i = 0; i < NORM_VECTOR; i++)
    y.at[i] =
        yk_cuda::from_float<T>(yk_cuda::rounded<T>(yk_cuda::to_float(v.at[i]) * factor) * yk_cuda::to_float(w.at[i]));
  return result;
}

/* Waits for the previous kernel, then writes the normalised rows to address x. Called by all consumer warps. A thread's
 * first two vectors of a row stay in registers, the others in shared memory.
 *
 * A first pass over the weights in place of x, before the wait, loads the instructions into the cache: they run once,
 * and fetching them would take longer than running them. The loops are not unrolled for the same reason.
 *   sums   [2][CONSUMER_WARPS] in shared memory */
template <yk_dtype DTYPE> __device__ __forceinline__ void normalise_x(const row_norm &n, int m, uint32_t x, float *sums)
{
  using T = element<DTYPE>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_bytes = n.vectors * NORM_VECTOR_BYTES;
  const int row = warp / n.row_warps, first = warp % n.row_warps * 32 + lane, step = n.row_warps * 32;
  const int end = row < m ? n.vectors : 0, second = first + step;
  const uint32_t to = x + row * row_bytes, weights = x + m * row_bytes;
  const uint4 *w = static_cast<const uint4 *>(n.w);
  const auto at = [&](int i) { return to + i / 8 * 128 + ((i % 8) ^ row) * NORM_VECTOR_BYTES; };
  const uint4 none = make_uint4(0, 0, 0, 0);
  const uint4 first_w = first < end ? __ldg(w + first) : none, second_w = second < end ? __ldg(w + second) : none;
  if (row == 0) {
#pragma unroll 1
    for (int i = second + step; i < end; i += step) cp_async_16(weights + i * NORM_VECTOR_BYTES, w + i, true);
  }
#pragma unroll 1
  for (int pass = 0; pass < 2; pass++) {
    const uint4 *from = w;
    if (pass == 1) {
      wait_for_previous_kernel();
      from = static_cast<const uint4 *>(n.x) + static_cast<int64_t>(row) * n.vectors;
    }
    const uint4 first_v = first < end ? __ldcg(from + first) : none;
    const uint4 second_v = second < end ? __ldcg(from + second) : none;
#pragma unroll 1
    for (int i = second + step; i < end; i += step) cp_async_16(at(i), from + i, true);
    cp_async_commit();
    float squares = 0.0f, second_squares = 0.0f;
    add_squares<T>(first_v, squares);
    add_squares<T>(second_v, second_squares);
    cp_async_wait<0>();
#pragma unroll 1
    for (int i = second + step; i < end; i += step) add_squares<T>(load_shared16(at(i)), squares);
    squares = yk_cuda::warp_sum(squares + second_squares);
    if (lane == 0) sums[pass * CONSUMER_WARPS + warp] = squares;
    sync_consumers();
    float of_row = 0.0f;
#pragma unroll
    for (int i = 0; i < CONSUMER_WARPS; i++)
      if (i < n.row_warps) of_row += sums[pass * CONSUMER_WARPS + row * n.row_warps + i];
    const float factor = rsqrtf(of_row * n.per_input + n.eps);
    if (first < end) store_shared16(at(first), normalised<T>(first_v, first_w, factor));
    if (second < end) store_shared16(at(second), normalised<T>(second_v, second_w, factor));
#pragma unroll 1
    for (int i = second + step; i < end; i += step) {
      const uint32_t address = at(i);
      store_shared16(address,
                     normalised<T>(load_shared16(address), load_shared16(weights + i * NORM_VECTOR_BYTES), factor));
    }
  }
  sync_consumers();
}

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

/* The elements of y to which the results of one lane's accumulator fragment are added: tokens token (x) and token + 1
 * (y), rows row (lower half) and row + 8 of the panel. Elements past m or n are 0. From the L2 cache: the L1 cache
 * may hold the elements as the multiprocessor read them for an earlier kernel. */
__device__ __forceinline__ uint2 load_addends(const output &out, int panel, int row, int token)
{
  const int column = panel * PANEL_COLUMNS + row;
  uint32_t of_token[2] = {};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint16_t *from = static_cast<const uint16_t *>(out.y) + static_cast<int64_t>(token + i) * out.n + column;
    if (token + i >= out.m) break;
    if (column < out.n) of_token[i] = __ldcg(from);
    if (column + 8 < out.n) of_token[i] |= static_cast<uint32_t>(__ldcg(from + 8)) << 16;
  }
  return make_uint2(of_token[0], of_token[1]);
}

/* y = addend + alpha * (v + bias), rounded, where v + bias is rounded first. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void store_sum(const output &out, float alpha, int panel, int row, int token, float4 v,
                                          uint2 addends)
{
  using T = element<DTYPE>;
  const float lower[2] = {v.x, v.y}, upper[2] = {v.z, v.w};
  const uint32_t of_token[2] = {addends.x, addends.y};
  const int column = panel * PANEL_COLUMNS + row;
  const auto store = [&](T *to, uint32_t addend, float result) {
    const uint16_t bits = static_cast<uint16_t>(addend);
    T before;
    memcpy(&before, &bits, sizeof before);
    *to = yk_cuda::from_float<T>(yk_cuda::to_float(before) + alpha * yk_cuda::rounded<T>(result));
  };
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (token + i >= out.m) return;
    T *to = static_cast<T *>(out.y) + static_cast<int64_t>(token + i) * out.n + column;
    if (column < out.n) store(to, of_token[i] & 0xffff, lower[i] + bias_of<DTYPE>(out, column));
    if (column + 8 < out.n) store(to + 8, of_token[i] >> 16, upper[i] + bias_of<DTYPE>(out, column + 8));
  }
}

} // namespace yk_gemm

#endif
