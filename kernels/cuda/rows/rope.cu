/* rope.cu - norm and rotation of heads, and the write to the paged cache: see rope.h. */
#include "kernels/cuda/rows/rope.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

struct rope_params {
  void *qkv, *k_cache, *v_cache;
  const void *q_norm_w, *k_norm_w;
  const float *rope;
  const int32_t *positions, *kv_slots;
  int32_t n_q, n_kv, head_dim;
  float eps, per_element; /* per_element: 1 / head_dim */
};

constexpr int ROPE_WARPS = 8;                                   /* of a thread block; a warp processes one head */
constexpr int ROPE_PAIRS = YK_CUDA_MAX_HEAD_DIM / 2 / 2 / WARP; /* of each half of a head, at most, in a lane */

/* The index in a cache of the first element of KV head h at a KV slot. */
__device__ int64_t cache_index(const rope_params &p, int64_t slot, int32_t h)
{
  return ((slot / YK_KV_BLOCK_TOKENS * p.n_kv + h) * YK_KV_BLOCK_TOKENS + slot % YK_KV_BLOCK_TOKENS) * p.head_dim;
}

/* What a lane needs to norm and rotate its pairs. Entry i belongs to pair i * WARP + lane of the head's first half
 * (low) or second half (high). */
template <typename T> struct rotation {
  vec<T, 2> norm_low[ROPE_PAIRS], norm_high[ROPE_PAIRS]; /* weights of the norm; unused where there is none */
  vec<float, 2> cosine[ROPE_PAIRS], sine[ROPE_PAIRS];
};

template <typename T> __device__ rotation<T> load_rotation(const rope_params &p, const T *norm_w, const float *rope)
{
  rotation<T> r = {};
  const int lane = threadIdx.x % WARP, n_pairs = p.head_dim / 4, half = p.head_dim / 2;
  for (int i = 0; i < ROPE_PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    r.cosine[i] = reinterpret_cast<const vec<float, 2> *>(rope)[pair];
    r.sine[i] = reinterpret_cast<const vec<float, 2> *>(rope + half)[pair];
    if (!norm_w) continue;
    r.norm_low[i] = reinterpret_cast<const vec<T, 2> *>(norm_w)[pair];
    r.norm_high[i] = reinterpret_cast<const vec<T, 2> *>(norm_w + half)[pair];
  }
  return r;
}

/* One warp processes one head: RMSNorm where has_norm, rotation of first half with second half, store at `to`. */
template <typename T>
__device__ void norm_and_rotate(const rope_params &p, const T *head, T *to, bool has_norm, const rotation<T> &r)
{
  using V = vec<T, 2>;
  const int lane = threadIdx.x % WARP, n_pairs = p.head_dim / 4, half = p.head_dim / 2;
  float low[ROPE_PAIRS][2], high[ROPE_PAIRS][2], squares = 0.0f;
  for (int i = 0; i < ROPE_PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    const V a = reinterpret_cast<const V *>(head)[pair], b = reinterpret_cast<const V *>(head + half)[pair];
    for (int j = 0; j < 2; j++) {
      low[i][j] = to_float(a.at[j]);
      high[i][j] = to_float(b.at[j]);
      squares += low[i][j] * low[i][j] + high[i][j] * high[i][j];
    }
  }
  float factor = 1.0f;
  if (has_norm) factor = rsqrtf(warp_sum(squares) * p.per_element + p.eps);
  for (int i = 0; i < ROPE_PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    V a, b;
    for (int j = 0; j < 2; j++) {
      float x = low[i][j], y = high[i][j];
      if (has_norm) {
        x = rounded<T>(rounded<T>(x * factor) * to_float(r.norm_low[i].at[j]));
        y = rounded<T>(rounded<T>(y * factor) * to_float(r.norm_high[i].at[j]));
      }
      const float c = r.cosine[i].at[j], s = r.sine[i].at[j];
      a.at[j] = from_float<T>(x * c - y * s);
      b.at[j] = from_float<T>(y * c + x * s);
    }
    reinterpret_cast<V *>(to)[pair] = a;
    reinterpret_cast<V *>(to + half)[pair] = b;
  }
}

/* One warp for each head; rope.h has the picture. Before the wait the kernel reads only what no kernel of the step
 * writes: positions, KV slots, norm weights, cosines and sines. */
template <typename T> __global__ void __launch_bounds__(ROPE_WARPS *WARP) rope_kernel(const rope_params p)
{
  using V = vec<T, 2>;
  const int64_t row = blockIdx.x;
  const int32_t h = blockIdx.y * ROPE_WARPS + threadIdx.x / WARP;
  const bool is_query = h < p.n_q, is_value = h >= p.n_q + p.n_kv;
  const T *norm_w = static_cast<const T *>(is_query ? p.q_norm_w : p.k_norm_w);
  let_next_kernel_start();
  const int64_t slot = p.kv_slots[row];
  rotation<T> r;
  if (!is_value) r = load_rotation<T>(p, norm_w, p.rope + static_cast<int64_t>(p.positions[row]) * p.head_dim);
  wait_for_previous_kernel();
  if (h >= p.n_q + 2 * p.n_kv || slot < 0) return; /* no such head; padding row */
  T *head = static_cast<T *>(p.qkv) + (row * (p.n_q + 2 * p.n_kv) + h) * p.head_dim;
  if (is_query) {
    norm_and_rotate<T>(p, head, head, norm_w != nullptr, r);
  } else if (!is_value) {
    T *to = static_cast<T *>(p.k_cache) + cache_index(p, slot, h - p.n_q);
    norm_and_rotate<T>(p, head, to, norm_w != nullptr, r);
  } else {
    T *to = static_cast<T *>(p.v_cache) + cache_index(p, slot, h - p.n_q - p.n_kv);
    for (int i = threadIdx.x % WARP; i < p.head_dim / 2; i += WARP)
      reinterpret_cast<V *>(to)[i] = reinterpret_cast<const V *>(head)[i];
  }
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_qk_rope_kv(yk_dtype dtype, const yk_qk_rope_kv_args *args, cudaStream_t stream)
{
  rope_params p = {};
  p.qkv = args->qkv;
  p.k_cache = args->kv.k;
  p.v_cache = args->kv.v;
  p.q_norm_w = args->q_norm_w;
  p.k_norm_w = args->k_norm_w;
  p.rope = args->rope;
  p.positions = args->batch->positions;
  p.kv_slots = args->batch->kv_slots;
  p.n_q = args->heads.n_q_heads;
  p.n_kv = args->heads.n_kv_heads;
  p.head_dim = args->heads.head_dim;
  p.eps = args->norm_eps;
  p.per_element = 1.0f / static_cast<float>(p.head_dim);
  const int32_t n_heads = p.n_q + 2 * p.n_kv;
  if (args->batch->n_tokens == 0 || n_heads == 0) return cudaSuccess;
  const dim3 grid(args->batch->n_tokens, (n_heads + ROPE_WARPS - 1) / ROPE_WARPS);
  return with_act_type(dtype, [&](auto type) {
    return launch_with_max_shared_memory(rope_kernel<decltype(type)>, grid, ROPE_WARPS * WARP, 0, stream, p);
  });
}
