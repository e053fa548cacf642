/* rope_many.cuh - the operation of rope.h for many rows, where the bytes in flight determine the speed: 16 lanes have a
 * head of 128 elements, or 32 lanes have a head of 256, each lane two pieces of 8 bytes, and a warp loads all its heads
 * of a row before it rotates the first. Cosines and sines, which all heads of a row share, are read once per warp.
 * Results have the bits of the kernel for few rows. */
#ifndef YK_KERNELS_CUDA_ROWS_ROPE_MANY_CUH
#define YK_KERNELS_CUDA_ROWS_ROPE_MANY_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/rows/launch.cuh"
#include "kernels/cuda/rows/rope_params.cuh"

namespace yk_rows {

/* up to this number of rows, rope.cu's kernel is used, which has more warps per row */
constexpr int MANY_ROWS = 256;
constexpr int MANY_PASSES = 4;      /* heads of which a lane has a part */
constexpr int MANY_MOST_WARPS = 16; /* maximum of a thread block, which has one row */

/* Lanes per head; lane l has elements 4 l to 4 l + 3 of either half. */
__host__ __device__ constexpr int many_lanes(int head_dim)
{
  return head_dim / 8;
}

template <typename T> struct head_part {
  yk_cuda::vec<T, 4> low, high;
};

template <int HD, typename T> __device__ __forceinline__ head_part<T> load_part(const T *head, int lane)
{
  using V = yk_cuda::vec<T, 4>;
  return {reinterpret_cast<const V *>(head)[lane], reinterpret_cast<const V *>(head + HD / 2)[lane]};
}

template <int HD, typename T> __device__ __forceinline__ void store_part(const head_part<T> &x, T *head, int lane)
{
  using V = yk_cuda::vec<T, 4>;
  reinterpret_cast<V *>(head)[lane] = x.low;
  reinterpret_cast<V *>(head + HD / 2)[lane] = x.high;
}

/* The head's sum of squares, added in the order of rope_kernel's warp, where lane i has only pairs i and, of heads of
 * 256, i + 32. Here a lane has pairs 2 l and 2 l + 1, which are added last; lanes 16 .. 31 continue the sums of lanes
 * 0 .. 15. */
template <int HD, typename T> __device__ __forceinline__ float sum_of_squares(const head_part<T> &x, int lane)
{
  using namespace yk_cuda;
  constexpr int SUMS = 16; /* lanes that add up a head's sums */
  float sums[2] = {};
#pragma unroll
  for (int first = 0; first < many_lanes(HD); first += SUMS) {
    const bool is_mine = lane / SUMS * SUMS == first;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float low = to_float(x.low.at[i]), high = to_float(x.high.at[i]);
      const float sum = sums[i / 2] + (low * low + high * high);
      if (is_mine) sums[i / 2] = sum;
    }
    if constexpr (many_lanes(HD) > SUMS) {
      for (int j = 0; j < 2; j++) sums[j] = __shfl_sync(ALL_LANES, sums[j], first + lane % SUMS);
    }
  }
#pragma unroll
  for (int offset = SUMS / 2; offset > 0; offset /= 2) {
    sums[0] += __shfl_xor_sync(ALL_LANES, sums[0], offset);
    sums[1] += __shfl_xor_sync(ALL_LANES, sums[1], offset);
  }
  return sums[0] + sums[1];
}

/* Norm, if has_norm (norm: its weights; factor: of the head), then rotation. */
template <typename T>
__device__ __forceinline__ void rotate_part(head_part<T> &x, const head_part<T> &norm, bool has_norm, float factor,
                                            const yk_cuda::vec<float, 4> &cosine, const yk_cuda::vec<float, 4> &sine)
{
  using namespace yk_cuda;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float low = to_float(x.low.at[i]), high = to_float(x.high.at[i]);
    if (has_norm) {
      low = rounded<T>(rounded<T>(low * factor) * to_float(norm.low.at[i]));
      high = rounded<T>(rounded<T>(high * factor) * to_float(norm.high.at[i]));
    }
    x.low.at[i] = from_float<T>(low * cosine.at[i] - high * sine.at[i]);
    x.high.at[i] = from_float<T>(high * cosine.at[i] + low * sine.at[i]);
  }
}

/* One thread block per row. Before the wait the kernel reads the same data as rope_kernel. */
template <typename T, int HD>
__global__ void __launch_bounds__(MANY_MOST_WARPS *yk_cuda::WARP)
    rope_many_kernel(const __grid_constant__ rope_params p)
{
  using namespace yk_cuda;
  const int64_t row = blockIdx.x;
  constexpr int LANES = many_lanes(HD), AT_ONCE = WARP / LANES; /* AT_ONCE: heads that a warp loads together */
  const int lane = threadIdx.x % LANES, n_heads = p.n_q + 2 * p.n_kv, step = blockDim.x / LANES;
  yk_ptx::let_next_kernel_start();
  const int64_t slot = p.kv_slots[row];
  const float *rope = p.rope + static_cast<int64_t>(p.positions[row]) * HD;
  const auto cosine = reinterpret_cast<const vec<float, 4> *>(rope)[lane],
             sine = reinterpret_cast<const vec<float, 4> *>(rope + HD / 2)[lane];
  const bool has_norm = p.q_norm_w != nullptr;
  head_part<T> q_norm = {}, k_norm = {};
  if (has_norm) {
    q_norm = load_part<HD>(static_cast<const T *>(p.q_norm_w), lane);
    k_norm = load_part<HD>(static_cast<const T *>(p.k_norm_w), lane);
  }
  yk_ptx::wait_for_previous_kernel();
  if (slot < 0) return; /* padding row */
  T *const heads = static_cast<T *>(p.qkv) + row * p.qkv_stride;
  for (int first = threadIdx.x / LANES; first - first % AT_ONCE < n_heads; first += MANY_PASSES * step) {
    head_part<T> x[MANY_PASSES] = {};
#pragma unroll
    for (int i = 0; i < MANY_PASSES; i++)
      if (first + i * step < n_heads) x[i] = load_part<HD>(heads + (first + i * step) * HD, lane);
#pragma unroll
    for (int i = 0; i < MANY_PASSES; i++) {
      const int h = first + i * step, kv_head = h < p.n_q + p.n_kv ? h - p.n_q : h - p.n_q - p.n_kv;
      const bool is_query = h < p.n_q, is_value = h >= p.n_q + p.n_kv;
      const float factor = has_norm ? rsqrtf(sum_of_squares<HD>(x[i], lane) * p.per_element + p.eps) : 1.0f;
      if (h >= n_heads) continue;
      if (is_query)
        rotate_part(x[i], q_norm, has_norm, factor, cosine, sine);
      else if (!is_value)
        rotate_part(x[i], k_norm, has_norm, factor, cosine, sine);
      T *to = is_query ? heads + h * HD : cache_at<T>(p, is_value ? p.v_cache : p.k_cache, slot, kv_head);
      store_part<HD>(x[i], to, lane);
    }
  }
}

inline bool rope_many_takes(const rope_params &p, int32_t n_rows)
{
  return has_no_options(p) && n_rows > MANY_ROWS && (p.head_dim == 128 || p.head_dim == 256) && p.format == YK_KV_ACT &&
         (p.q_norm_w != nullptr) == (p.k_norm_w != nullptr);
}

template <typename T, int HD> cudaError_t launch_rope_many_of(const rope_params &p, int32_t n_rows, cudaStream_t stream)
{
  constexpr int WARP_HEADS = MANY_PASSES * yk_cuda::WARP / many_lanes(HD);
  const int32_t n_heads = p.n_q + 2 * p.n_kv;
  const int warps = std::min((n_heads + WARP_HEADS - 1) / WARP_HEADS, MANY_MOST_WARPS);
  return launch_with_max_shared_memory(rope_many_kernel<T, HD>, n_rows, warps * yk_cuda::WARP, 0, stream, p);
}

template <typename T> cudaError_t launch_rope_many(const rope_params &p, int32_t n_rows, cudaStream_t stream)
{
  return p.head_dim == 128 ? launch_rope_many_of<T, 128>(p, n_rows, stream)
                           : launch_rope_many_of<T, 256>(p, n_rows, stream);
}

} // namespace yk_rows

#endif
