/* causal_convolution.cuh - the depthwise causal convolution before a recurrent layer: each channel reads its own last
 * four inputs, and the result passes SiLU. PARAMS are a kernel's parameters: x, conv_w [CONV_TAPS, n_channels] with the
 * newest input last, and window_at, the offset of the last inputs [CONV_WINDOW, n_channels] in a state. */
#ifndef YK_KERNELS_CUDA_COMMON_CAUSAL_CONVOLUTION_CUH
#define YK_KERNELS_CUDA_COMMON_CAUSAL_CONVOLUTION_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/recurrent_sequence.cuh"

namespace yk_cuda {

constexpr int CONV_TAPS = 4, CONV_WINDOW = CONV_TAPS - 1;

__device__ __forceinline__ float silu(float x)
{
  return __fdividef(x, 1.0f + __expf(-x));
}

/* log(1 + exp(x)), which is x above 20, as in PyTorch. */
__device__ __forceinline__ float softplus(float x)
{
  return x > 20.0f ? x : log1pf(expf(x));
}

/* ---- Row by row -------------------------------------------------------------------------------------------------- */

/* Position of a channel: its number among the rank's channels, -1 for none, and its column of x. */
struct conv_place {
  int32_t channel;
  int64_t column;
};

/* Channels shared out among THREADS threads: thread t has number t, t + THREADS and so on of a thread block's channels.
 * A thread keeps the last inputs and the weights of its channels in registers, and alone reads and writes them. */
template <int THREADS, int ROUNDS, bool HAS_BIAS> struct thread_convolution {
  float inputs[ROUNDS][CONV_WINDOW]; /* oldest first */
  float taps[ROUNDS][CONV_TAPS];
  float bias[HAS_BIAS ? ROUNDS : 1];
  int64_t column[ROUNDS];
  int32_t channel[ROUNDS];

  /* place: the conv_place of a number. before: the state that the sequence begins with, or NULL. */
  template <typename PARAMS, typename F> __device__ void begin(const PARAMS &p, const float *before, F place)
  {
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
      const conv_place at = place(static_cast<int>(threadIdx.x) + i * THREADS);
      channel[i] = at.channel, column[i] = at.column;
      if (channel[i] < 0) continue;
#pragma unroll
      for (int t = 0; t < CONV_TAPS; t++) taps[i][t] = p.conv_w[t * p.n_channels + channel[i]];
      if constexpr (HAS_BIAS) bias[i] = p.conv_bias ? p.conv_bias[channel[i]] : 0.0f;
#pragma unroll
      for (int t = 0; t < CONV_WINDOW; t++)
        inputs[i][t] = before ? before[p.window_at + t * p.n_channels + channel[i]] : 0.0f;
    }
  }

  /* to [numbers], in shared memory: the results of a row. Returns the square of the thread's value in round 0. */
  template <typename T> __device__ __forceinline__ float advance(const T *x, float *to)
  {
    float first = 0.0f;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
      if (channel[i] < 0) continue;
      const float newest = to_float(x[column[i]]);
      float sum = HAS_BIAS ? fmaf(taps[i][0], inputs[i][0], bias[i]) : taps[i][0] * inputs[i][0];
#pragma unroll
      for (int t = 1; t < CONV_WINDOW; t++) sum += taps[i][t] * inputs[i][t];
      sum = silu(sum + taps[i][CONV_WINDOW] * newest);
#pragma unroll
      for (int t = 1; t < CONV_WINDOW; t++) inputs[i][t - 1] = inputs[i][t];
      inputs[i][CONV_WINDOW - 1] = newest;
      to[threadIdx.x + i * THREADS] = sum;
      if (i == 0) first = sum;
    }
    return first * first;
  }

  /* Stores the last inputs of the numbers that `has` accepts to a state. */
  template <typename PARAMS, typename F> __device__ void store(const PARAMS &p, float *state, F has) const
  {
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
      if (channel[i] < 0 || !has(static_cast<int>(threadIdx.x) + i * THREADS)) continue;
#pragma unroll
      for (int t = 0; t < CONV_WINDOW; t++) state[p.window_at + t * p.n_channels + channel[i]] = inputs[i][t];
    }
  }
};

/* ---- Several rows at once ---------------------------------------------------------------------------------------- */

constexpr int CONV_ROWS = 8; /* rows that a thread computes at once */

/* Two neighbouring inputs of a row of x, which may precede the step. at: of the first. */
template <typename T, typename PARAMS>
__device__ __forceinline__ float2 input_pair(const PARAMS &p, const recurrent_sequence &s, int64_t row,
                                             int64_t x_stride, const conv_place &at)
{
  if (row >= s.row) {
    const T *x = static_cast<const T *>(p.x) + row * x_stride + at.column;
    const auto pair = *reinterpret_cast<const vec<T, 2> *>(x);
    return make_float2(to_float(pair.at[0]), to_float(pair.at[1]));
  }
  if (!s.before) return make_float2(0.0f, 0.0f);
  return *reinterpret_cast<const float2 *>(s.before + p.window_at + (row - s.row + CONV_WINDOW) * p.n_channels +
                                           at.channel);
}

/* Results of CONV_ROWS rows from `row` on, of two neighbouring channels. bias: of these. */
template <typename T, bool HAS_BIAS, typename PARAMS>
__device__ __forceinline__ void convolve_pair(const PARAMS &p, const recurrent_sequence &s, int64_t row,
                                              int64_t x_stride, const conv_place &at, float2 (&to)[CONV_ROWS])
{
  float2 taps[CONV_TAPS], x[CONV_ROWS + CONV_WINDOW];
#pragma unroll
  for (int t = 0; t < CONV_TAPS; t++)
    taps[t] = *reinterpret_cast<const float2 *>(p.conv_w + t * p.n_channels + at.channel);
  float2 bias = {};
  if constexpr (HAS_BIAS)
    if (p.conv_bias) bias = *reinterpret_cast<const float2 *>(p.conv_bias + at.channel);
  if (row - CONV_WINDOW >= s.row && row + CONV_ROWS <= s.end) { /* no branch between the loads */
    const T *from = static_cast<const T *>(p.x) + (row - CONV_WINDOW) * x_stride + at.column;
    vec<T, 2> pairs[CONV_ROWS + CONV_WINDOW];
#pragma unroll
    for (int i = 0; i < CONV_ROWS + CONV_WINDOW; i++)
      pairs[i] = *reinterpret_cast<const vec<T, 2> *>(from + i * x_stride);
#pragma unroll
    for (int i = 0; i < CONV_ROWS + CONV_WINDOW; i++)
      x[i] = make_float2(to_float(pairs[i].at[0]), to_float(pairs[i].at[1]));
  } else {
#pragma unroll
    for (int i = 0; i < CONV_ROWS + CONV_WINDOW; i++) {
      const int64_t from = row + i - CONV_WINDOW;
      x[i] = from < s.end ? input_pair<T>(p, s, from, x_stride, at) : make_float2(0.0f, 0.0f);
    }
  }
#pragma unroll
  for (int i = 0; i < CONV_ROWS; i++) {
    float2 sum = make_float2(taps[0].x * x[i].x, taps[0].y * x[i].y);
    if constexpr (HAS_BIAS) sum = make_float2(fmaf(taps[0].x, x[i].x, bias.x), fmaf(taps[0].y, x[i].y, bias.y));
#pragma unroll
    for (int t = 1; t < CONV_TAPS; t++) {
      sum.x = fmaf(taps[t].x, x[i + t].x, sum.x);
      sum.y = fmaf(taps[t].y, x[i + t].y, sum.y);
    }
    to[i] = make_float2(silu(sum.x), silu(sum.y));
  }
}

/* Stores the last inputs before row `end` of two neighbouring channels to a state. */
template <typename T, typename PARAMS>
__device__ __forceinline__ void store_window_pair(const PARAMS &p, const recurrent_sequence &s, int64_t end,
                                                  int64_t x_stride, const conv_place &at, float *state)
{
#pragma unroll
  for (int t = 0; t < CONV_WINDOW; t++)
    *reinterpret_cast<float2 *>(state + p.window_at + t * p.n_channels + at.channel) =
        input_pair<T>(p, s, end - CONV_WINDOW + t, x_stride, at);
}

} // namespace yk_cuda

#endif
