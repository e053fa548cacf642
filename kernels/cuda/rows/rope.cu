/* rope.cu - norm and rotation of heads, and the write to the paged cache: see rope.h. */
#include "kernels/cuda/rows/rope.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/kv_codes.cuh"
#include "kernels/cuda/rows/launch.cuh"
#include "kernels/cuda/rows/rope_many.cuh"
#include "kernels/cuda/rows/rope_params.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int ROPE_WARPS = 8; /* warps per thread block; a warp processes one head */

/* Pairs of a head's first half per lane: PAIRS of the kernel. */
constexpr int pairs_of_lane(int head_dim)
{
  return (head_dim / 4 + WARP - 1) / WARP;
}

/* Values with which a lane norms and rotates its pairs. Entry i belongs to pair i * WARP + lane of the head's first
 * half (low) or second half (high). PAIRS: maximum number of pairs of each half of a head in a lane. */
template <typename T, int PAIRS> struct rotation {
  vec<T, 2> norm_low[PAIRS], norm_high[PAIRS]; /* weights of the norm; unused without a norm */
  vec<float, 2> cosine[PAIRS], sine[PAIRS];
};

/* rope: the row's cosines and sines. NULL if OPTIONS and heads do not rotate. */
template <int PAIRS, bool OPTIONS, typename T>
__device__ rotation<T, PAIRS> load_rotation(const rope_params &p, const T *norm_w, const float *rope)
{
  rotation<T, PAIRS> r = {};
  const int lane = threadIdx.x % WARP, n_pairs = p.head_dim / 4, half = p.head_dim / 2;
  for (int i = 0; i < PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    if (!OPTIONS || rope) {
      r.cosine[i] = reinterpret_cast<const vec<float, 2> *>(rope)[pair];
      r.sine[i] = reinterpret_cast<const vec<float, 2> *>(rope + half)[pair];
    }
    if (!norm_w) continue;
    r.norm_low[i] = reinterpret_cast<const vec<T, 2> *>(norm_w)[pair];
    r.norm_high[i] = reinterpret_cast<const vec<T, 2> *>(norm_w + half)[pair];
  }
  return r;
}

/* A head in a warp's registers; entry i as in rotation. Entries past the head's last pair are 0. */
template <typename T, int PAIRS> struct head_pairs {
  vec<T, 2> low[PAIRS], high[PAIRS];
};

template <int PAIRS, typename T> __device__ head_pairs<T, PAIRS> load_head(const rope_params &p, const T *head)
{
  using V = vec<T, 2>;
  head_pairs<T, PAIRS> x = {};
  const int lane = threadIdx.x % WARP, n_pairs = p.head_dim / 4, half = p.head_dim / 2;
  for (int i = 0; i < PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    x.low[i] = reinterpret_cast<const V *>(head)[pair];
    x.high[i] = reinterpret_cast<const V *>(head + half)[pair];
  }
  return x;
}

template <typename T, int PAIRS> __device__ void store_head(const rope_params &p, const head_pairs<T, PAIRS> &x, T *to)
{
  using V = vec<T, 2>;
  const int lane = threadIdx.x % WARP, n_pairs = p.head_dim / 4, half = p.head_dim / 2;
  for (int i = 0; i < PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    reinterpret_cast<V *>(to)[pair] = x.low[i];
    reinterpret_cast<V *>(to + half)[pair] = x.high[i];
  }
}

/* One warp processes one head: RMSNorm if has_norm, rotation of first half with second half. Entries past the head's
 * last pair stay 0. */
template <typename T, int PAIRS>
__device__ void norm_and_rotate(const rope_params &p, head_pairs<T, PAIRS> &head, bool has_norm,
                                const rotation<T, PAIRS> &r)
{
  const int lane = threadIdx.x % WARP, n_pairs = p.head_dim / 4;
  float low[PAIRS][2], high[PAIRS][2], squares = 0.0f;
  for (int i = 0; i < PAIRS; i++) {
    for (int j = 0; j < 2; j++) {
      low[i][j] = to_float(head.low[i].at[j]);
      high[i][j] = to_float(head.high[i].at[j]);
      squares += low[i][j] * low[i][j] + high[i][j] * high[i][j];
    }
  }
  float factor = 1.0f;
  if (has_norm) factor = rsqrtf(warp_sum(squares) * p.per_element + p.eps);
  for (int i = 0; i < PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    for (int j = 0; j < 2; j++) {
      float x = low[i][j], y = high[i][j];
      if (has_norm) {
        x = rounded<T>(rounded<T>(x * factor) * to_float(r.norm_low[i].at[j]));
        y = rounded<T>(rounded<T>(y * factor) * to_float(r.norm_high[i].at[j]));
      }
      const float c = r.cosine[i].at[j], s = r.sine[i].at[j];
      head.low[i].at[j] = from_float<T>(x * c - y * s);
      head.high[i].at[j] = from_float<T>(y * c + x * s);
    }
  }
}

/* RMSNorm of a head, without weights if r is NULL; entries past the head's last pair stay 0. The results have the bits
 * of norm_and_rotate, as those of rotate_head do. */
template <typename T, int PAIRS>
__device__ void norm_head(const rope_params &p, head_pairs<T, PAIRS> &head, const rotation<T, PAIRS> *r)
{
  float squares = 0.0f;
  for (int i = 0; i < PAIRS; i++) {
    for (int j = 0; j < 2; j++) {
      const float low = to_float(head.low[i].at[j]), high = to_float(head.high[i].at[j]);
      squares += low * low + high * high;
    }
  }
  const float factor = rsqrtf(warp_sum(squares) * p.per_element + p.eps);
  for (int i = 0; i < PAIRS; i++) {
    for (int j = 0; j < 2; j++) {
      const float low = rounded<T>(to_float(head.low[i].at[j]) * factor);
      const float high = rounded<T>(to_float(head.high[i].at[j]) * factor);
      head.low[i].at[j] = from_float<T>(r ? low * to_float(r->norm_low[i].at[j]) : low);
      head.high[i].at[j] = from_float<T>(r ? high * to_float(r->norm_high[i].at[j]) : high);
    }
  }
}

template <typename T, int PAIRS> __device__ void rotate_head(head_pairs<T, PAIRS> &head, const rotation<T, PAIRS> &r)
{
  for (int i = 0; i < PAIRS; i++) {
    for (int j = 0; j < 2; j++) {
      const float x = to_float(head.low[i].at[j]), y = to_float(head.high[i].at[j]);
      head.low[i].at[j] = from_float<T>(x * r.cosine[i].at[j] - y * r.sine[i].at[j]);
      head.high[i].at[j] = from_float<T>(y * r.cosine[i].at[j] + x * r.sine[i].at[j]);
    }
  }
}

/* Norms and rotation of a head with the operation's options. */
template <typename T, int PAIRS>
__device__ void process_with_options(const rope_params &p, head_pairs<T, PAIRS> &x, bool is_value, bool has_norm,
                                     const rotation<T, PAIRS> &r)
{
  if (is_value) {
    if (p.norms_values) norm_head<T, PAIRS>(p, x, nullptr);
    return;
  }
  if (has_norm && !p.norms_follow) norm_head(p, x, &r);
  if (p.rope) rotate_head(x, r);
  if (has_norm && p.norms_follow) norm_head(p, x, &r);
}

/* Two neighbouring elements as codes: divided by the token's scale, or by the channels'. */
__device__ __forceinline__ uint16_t encode_pair(const rope_params &p, float a, float b, float scale,
                                                const float *channels, int32_t d)
{
  if (!channels) return scale > 0.0f ? kv_encode_2(p.format, a / scale, b / scale) : 0;
  const float *offsets = channels + static_cast<int64_t>(p.n_kv) * p.head_dim;
  return kv_encode_2(p.format, a / channels[d] + offsets[d], b / channels[d + 1] + offsets[d + 1]);
}

/* One warp quantises one head of a token and writes it to an 8-bit cache (kernels/kv_cache.h). channels: the cache's
 * static scales and offsets, or NULL. */
template <typename T, int PAIRS>
__device__ void store_codes(const rope_params &p, const head_pairs<T, PAIRS> &x, void *cache, const float *channels,
                            int64_t slot, int32_t h)
{
  const int lane = threadIdx.x % WARP, n_pairs = p.head_dim / 4, half = p.head_dim / 2;
  const int token = static_cast<int>(slot % YK_KV_BLOCK_TOKENS);
  char *page = static_cast<char *>(cache) +
               (slot / YK_KV_BLOCK_TOKENS * p.n_kv + h) * YK_KV_BLOCK_TOKENS * kv_token_bytes(p.head_dim);
  float largest = 0.0f;
  bool finite = true;
  for (int i = 0; i < PAIRS; i++) {
    for (int j = 0; j < 2; j++) {
      const float low = fabsf(to_float(x.low[i].at[j])), high = fabsf(to_float(x.high[i].at[j]));
      largest = fmaxf(largest, fmaxf(low, high));
      finite = finite && low < INFINITY && high < INFINITY;
    }
  }
  finite = __all_sync(~0u, finite);
  for (int offset = WARP / 2; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
  const float scale = !finite ? NAN : channels ? 1.0f : largest / kv_code_max(p.format);
  if (channels) channels += static_cast<int64_t>(h) * p.head_dim;
  if (lane == 0) reinterpret_cast<float *>(page + YK_KV_BLOCK_TOKENS * p.head_dim)[token] = scale;
  char *codes = page + token * p.head_dim;
  for (int i = 0; i < PAIRS; i++) {
    const int pair = i * WARP + lane;
    if (pair >= n_pairs) continue;
    reinterpret_cast<uint16_t *>(codes)[pair] =
        encode_pair(p, to_float(x.low[i].at[0]), to_float(x.low[i].at[1]), scale, channels, 2 * pair);
    reinterpret_cast<uint16_t *>(codes + half)[pair] =
        encode_pair(p, to_float(x.high[i].at[0]), to_float(x.high[i].at[1]), scale, channels, half + 2 * pair);
  }
}

/* One warp per head; rope.h describes the data flow. Before the wait the kernel reads only data that no kernel of the
 * step writes: positions, KV slots, norm weights, cosines and sines. OPTIONS: see has_no_options. */
template <typename T, int PAIRS, bool IN_8_BITS, bool OPTIONS>
__global__ void __launch_bounds__(ROPE_WARPS *WARP) rope_kernel(const rope_params p)
{
  const int64_t row = blockIdx.x;
  const int32_t h = blockIdx.y * ROPE_WARPS + threadIdx.x / WARP;
  const bool is_query = h < p.n_q, is_value = h >= p.n_q + p.n_kv;
  const T *norm_w = static_cast<const T *>(is_query ? p.q_norm_w : p.k_norm_w);
  let_next_kernel_start();
  const int64_t slot = p.kv_slots[row];
  const float *angles = p.rope + static_cast<int64_t>(p.positions[row]) * p.head_dim;
  rotation<T, PAIRS> r;
  if (!is_value) r = load_rotation<PAIRS, OPTIONS>(p, norm_w, OPTIONS && !p.rope ? nullptr : angles);
  wait_for_previous_kernel();
  if (h >= (OPTIONS ? n_heads_of(p) : p.n_q + 2 * p.n_kv) || slot < 0) return; /* no such head; padding row */
  /* without columns of values, the projected keys are the values: no warp changes them */
  const int32_t column = OPTIONS && is_value && p.columns == YK_KV_COLUMNS_KEYS ? h - p.n_kv : h;
  T *head = static_cast<T *>(p.qkv) + row * p.qkv_stride + column * p.head_dim;
  head_pairs<T, PAIRS> x = load_head<PAIRS>(p, head);
  if constexpr (OPTIONS)
    process_with_options(p, x, is_value, norm_w != nullptr, r);
  else if (!is_value)
    norm_and_rotate(p, x, norm_w != nullptr, r);
  const int32_t kv_head = is_value ? h - p.n_q - p.n_kv : h - p.n_q;
  void *cache = is_value ? p.v_cache : p.k_cache;
  if (is_query)
    store_head(p, x, head);
  else if (IN_8_BITS)
    store_codes(p, x, cache, is_value ? p.v_channels : p.k_channels, slot, kv_head);
  else
    store_head(p, x, cache_at<T>(p, cache, slot, kv_head));
}

template <typename T, int PAIRS, bool OPTIONS>
cudaError_t launch_rope(const rope_params &p, int32_t n_rows, cudaStream_t stream)
{
  const dim3 grid(n_rows, (n_heads_of(p) + ROPE_WARPS - 1) / ROPE_WARPS);
  const auto kernel =
      p.format == YK_KV_ACT ? rope_kernel<T, PAIRS, false, OPTIONS> : rope_kernel<T, PAIRS, true, OPTIONS>;
  return launch_with_max_shared_memory(kernel, grid, ROPE_WARPS * WARP, 0, stream, p);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_qk_rope_kv(yk_dtype dtype, const yk_qk_rope_kv_args *args, cudaStream_t stream)
{
  rope_params p = {};
  p.qkv = args->qkv;
  p.k_cache = args->kv.k;
  p.v_cache = args->kv.v;
  p.format = args->kv.format;
  p.k_channels = args->kv.k_channels;
  p.v_channels = args->kv.v_channels;
  p.q_norm_w = args->q_norm_w;
  p.k_norm_w = args->k_norm_w;
  p.rope = args->rope;
  p.positions = args->batch->positions;
  p.kv_slots = args->batch->kv_slots;
  p.n_q = args->heads.n_q_heads;
  p.n_kv = args->heads.n_kv_heads;
  p.head_dim = args->heads.head_dim;
  p.qkv_stride = yk_head_layout_width(&args->heads);
  p.eps = args->norm_eps;
  p.per_element = 1.0f / static_cast<float>(p.head_dim);
  p.norms_follow = args->norms_follow;
  p.norms_values = args->norms_values;
  p.columns = args->heads.kv_columns;
  const int32_t n_rows = args->batch->n_tokens;
  if (n_rows == 0 || n_heads_of(p) == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (rope_many_takes(p, n_rows)) return launch_rope_many<T>(p, n_rows, stream);
    constexpr int FEW = pairs_of_lane(128), SOME = pairs_of_lane(256), MOST = pairs_of_lane(YK_CUDA_MAX_HEAD_DIM);
    const int pairs = pairs_of_lane(p.head_dim);
    const bool is_plain = has_no_options(p);
    if (pairs <= FEW)
      return is_plain ? launch_rope<T, FEW, false>(p, n_rows, stream) : launch_rope<T, FEW, true>(p, n_rows, stream);
    if (pairs <= SOME)
      return is_plain ? launch_rope<T, SOME, false>(p, n_rows, stream) : launch_rope<T, SOME, true>(p, n_rows, stream);
    return launch_rope<T, MOST, true>(p, n_rows, stream);
  });
}
