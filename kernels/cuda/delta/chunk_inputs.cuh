/* chunk_inputs.cuh - the inputs of a chunk: q and k after the convolution, normalised, and the decays, to shared memory
 * and the scratch; v to its place in y. Warp w has rows 8 w to 8 w + 7; a lane has four channels of each of q, k and v,
 * as two neighbouring pairs. */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_INPUTS_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_INPUTS_CUH

#include "kernels/cuda/delta/chunk_shared.cuh"
#include "kernels/cuda/delta/inputs.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_delta {

constexpr int WARP_ROWS = CHUNK / CHUNK_WARPS;
static_assert(WARP_ROWS == yk_cuda::CONV_ROWS, "a warp convolves its rows at once");

__device__ __forceinline__ int first_row_of_warp()
{
  return threadIdx.x / WARP * WARP_ROWS;
}

/* Calls take(i, low, high) for each of the warp's rows: the results of its lane's channels, column + 2 lane and the
 * next, and those 64 behind. channel: of the convolution, as column. */
template <typename T, typename F>
__device__ __forceinline__ void convolve_rows(const params &p, const sequence &s, const chunk_rows &rows,
                                              int64_t column, int32_t channel, F take)
{
  const int lane = threadIdx.x % WARP, first = first_row_of_warp();
  float2 low[WARP_ROWS], high[WARP_ROWS];
  const conv_place at = {channel + 2 * lane, column + 2 * lane}, at_high = {at.channel + 64, at.column + 64};
  yk_cuda::convolve_pair<T, false>(p, s, rows.first + first, p.layout.x_stride, at, low);
  yk_cuda::convolve_pair<T, false>(p, s, rows.first + first, p.layout.x_stride, at_high, high);
#pragma unroll
  for (int i = 0; i < WARP_ROWS; i++) take(first + i, low[i], high[i]);
}

/* q or k of a key head, normalised and scaled. which: 0 for q, 1 for k. */
template <typename T>
__device__ __forceinline__ void make_keys(const params &p, const sequence &s, const chunk_rows &rows, int32_t key,
                                          int which, T (*to)[ROW_STRIDE])
{
  const int lane = threadIdx.x % WARP;
  const int64_t column = which == 0 ? p.layout.q + key * p.layout.qk_step : p.layout.k + key * p.layout.qk_step;
  const int32_t channel = (which * p.layout.n_key_heads + key) * CHUNK_DIM;
  const float scale = which == 0 ? 0.08838834764831845f : 1.0f; /* 1 / sqrt(128) */
  convolve_rows<T>(p, s, rows, column, channel, [&](int i, const float2 &low, const float2 &high) {
    const float squares = low.x * low.x + low.y * low.y + high.x * high.x + high.y * high.y;
    const float factor = scale * rsqrtf(yk_cuda::warp_sum(squares) + NORM_FLOOR);
    const uint32_t pairs[] = {yk_ptx::round_pair<T>(factor * low.x, factor * low.y),
                              yk_ptx::round_pair<T>(factor * high.x, factor * high.y)};
    uint32_t *row = reinterpret_cast<uint32_t *>(to[i]);
    row[lane] = i < rows.n ? pairs[0] : 0;
    row[lane + WARP] = i < rows.n ? pairs[1] : 0;
    if (i >= rows.n) return;
    uint32_t *kept = reinterpret_cast<uint32_t *>(row_scratch::of(p, rows.first + i).template keys<T>(key)) +
                     which * (CHUNK_DIM / 2);
    kept[lane] = pairs[0];
    kept[lane + WARP] = pairs[1];
  });
}

/* v of a value head, to where its results will be. */
template <typename T>
__device__ __forceinline__ void make_values(const params &p, const sequence &s, const chunk_rows &rows, const head &h)
{
  const int lane = threadIdx.x % WARP;
  const int32_t channel = (2 * p.layout.n_key_heads + h.index) * CHUNK_DIM;
  convolve_rows<T>(p, s, rows, h.v, channel, [&](int i, const float2 &low, const float2 &high) {
    if (i >= rows.n) return;
    const int64_t at = ((rows.first + i) * p.n_values + h.index) * CHUNK_DIM;
    uint32_t *to = reinterpret_cast<uint32_t *>(static_cast<T *>(p.y) + at);
    to[lane] = yk_ptx::round_pair<T>(low.x, low.y);
    to[lane + WARP] = yk_ptx::round_pair<T>(high.x, high.y);
  });
}

/* Decays and betas of the chunk's rows, by one warp. */
template <typename T>
__device__ __forceinline__ void make_decays(const params &p, const head &h, const chunk_rows &rows, head_matrix &to)
{
  const int lane = threadIdx.x % WARP;
  float sum = 0.0f, logs[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int i = HALF * half + lane;
    float log_decay = 0.0f, beta = 0.0f;
    if (i < rows.n) {
      const T *x = static_cast<const T *>(p.x) + (rows.first + i) * p.layout.x_stride;
      log_decay = log_decay_of(to_float(x[h.a]), p.rate[h.index], p.dt_bias[h.index]);
      beta = beta_of(to_float(x[h.b]));
    }
    logs[half] = sum + yk_cuda::warp_prefix_sum(log_decay);
    sum = __shfl_sync(ALL_LANES, logs[half], WARP - 1);
    to.beta[i] = beta;
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int i = HALF * half + lane;
    to.log_decay[i] = logs[half];
    if (i < rows.n)
      *row_scratch::of(p, rows.first + i).template decays<T>(h.index) =
          make_float2(expf(logs[half]), expf(sum - logs[half]));
  }
}

} // namespace yk_delta

#endif
