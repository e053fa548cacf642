/* chunk_inputs.cuh - the inputs of a chunk to shared memory: q, k and v after the convolution, q and k normalised, and
 * the decays. Warp w has rows 8 w to 8 w + 7; a lane has four channels of each of q, k and v, as two neighbouring
 * pairs. */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_INPUTS_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_INPUTS_CUH

#include "kernels/cuda/delta/chunk_shared.cuh"
#include "kernels/cuda/delta/inputs.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_delta {

constexpr int WARP_ROWS = CHUNK / CHUNK_WARPS, GROUP_ROWS = yk_cuda::CONV_ROWS; /* a warp takes GROUP_ROWS at once */

/* The warp's rows of q, k or v, to shared memory; those from n_rows of the chunk on are zeros. column and channel: the
 * head's first. scale: of the norm; 0: none. */
template <typename T>
__device__ __forceinline__ void make_rows(const params &p, const sequence &s, int64_t first_row, int n_rows,
                                          int64_t column, int32_t channel, float scale, T (*to)[ROW_STRIDE])
{
  const int lane = threadIdx.x % WARP;
#pragma unroll 1
  for (int first = threadIdx.x / WARP * WARP_ROWS, end = first + WARP_ROWS; first < end; first += GROUP_ROWS) {
    float2 low[GROUP_ROWS], high[GROUP_ROWS];
    const conv_place at = {channel + 2 * lane, column + 2 * lane}, at_high = {at.channel + 64, at.column + 64};
    yk_cuda::convolve_pair<T, false>(p, s, first_row + first, p.layout.x_stride, at, low);
    yk_cuda::convolve_pair<T, false>(p, s, first_row + first, p.layout.x_stride, at_high, high);
#pragma unroll
    for (int i = 0; i < GROUP_ROWS; i++) {
      const bool is_row = first + i < n_rows;
      float factor = 1.0f;
      if (scale > 0.0f) {
        const float squares = low[i].x * low[i].x + low[i].y * low[i].y + high[i].x * high[i].x + high[i].y * high[i].y;
        factor = scale * rsqrtf(yk_cuda::warp_sum(squares) + NORM_FLOOR);
      }
      uint32_t *row = reinterpret_cast<uint32_t *>(to[first + i]);
      row[lane] = is_row ? yk_ptx::round_pair<T>(factor * low[i].x, factor * low[i].y) : 0;
      row[lane + WARP] = is_row ? yk_ptx::round_pair<T>(factor * high[i].x, factor * high[i].y) : 0;
    }
  }
}

/* Decays and betas of the chunk's rows, by one warp. */
template <typename T>
__device__ __forceinline__ void make_decays(const params &p, const head &h, int64_t first_row, int n_rows,
                                            chunk_shared<T> &s)
{
  const int lane = threadIdx.x % WARP;
  float sum = 0.0f, logs[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int i = HALF * half + lane;
    float log_decay = 0.0f, beta = 0.0f;
    if (i < n_rows) {
      const T *x = static_cast<const T *>(p.x) + (first_row + i) * p.layout.x_stride;
      log_decay = log_decay_of(to_float(x[h.a]), p.rate[h.index], p.dt_bias[h.index]);
      beta = beta_of(to_float(x[h.b]));
    }
    logs[half] = sum + yk_cuda::warp_prefix_sum(log_decay);
    sum = __shfl_sync(ALL_LANES, logs[half], WARP - 1);
    s.beta[i] = beta;
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int i = HALF * half + lane;
    s.log_decay[i] = logs[half];
    s.decay[i] = expf(logs[half]);
    s.decay_to_end[i] = expf(sum - logs[half]);
  }
}

/* All inputs of rows first_row and following, without a barrier behind. */
template <typename T>
__device__ void make_chunk(const params &p, const sequence &seq, const head &h, int64_t first_row, int n_rows,
                           chunk_shared<T> &s)
{
  const int warp = threadIdx.x / WARP;
  const int32_t n_keys = p.layout.n_key_heads;
  const float scale = 0.08838834764831845f; /* 1 / sqrt(128) */
  make_rows(p, seq, first_row, n_rows, h.q, h.key * CHUNK_DIM, scale, s.q);
  make_rows(p, seq, first_row, n_rows, h.k, (n_keys + h.key) * CHUNK_DIM, 1.0f, s.k);
  make_rows(p, seq, first_row, n_rows, h.v, (2 * n_keys + h.index) * CHUNK_DIM, 0.0f, s.v);
  if (warp == CHUNK_WARPS - 1) make_decays(p, h, first_row, n_rows, s);
}

/* Stores the inputs of the convolution before row `end` to a state: those of v, and those of q and k if with_keys. */
template <typename T>
__device__ void store_window(const params &p, const sequence &s, const head &h, int64_t end, float *state,
                             bool with_keys)
{
  for (int i = 2 * threadIdx.x; i < 3 * CHUNK_DIM; i += 2 * CHUNK_THREADS) {
    const int of = i / CHUNK_DIM, element = i % CHUNK_DIM;
    if (of < 2 && !with_keys) continue;
    const int64_t column = (of == 0 ? h.q : of == 1 ? h.k : h.v) + element;
    const int32_t head_index = of < 2 ? of * p.layout.n_key_heads + h.key : 2 * p.layout.n_key_heads + h.index;
    const conv_place at = {head_index * CHUNK_DIM + element, column};
    yk_cuda::store_window_pair<T>(p, s, end, p.layout.x_stride, at, state);
  }
}

} // namespace yk_delta

#endif
