/* cuda_rows.cu - the row-wise operations: embedding, norms, rotary embedding with the write to the cache, gather.
 *
 * Arithmetic is float32; a value is rounded where device.h says that it is stored. A row's result depends on the row
 * alone, and sums are taken in a fixed order. */
#include <algorithm>

#include "kernels/cuda/cuda_kernels.cuh"

using namespace yk_cuda;

namespace {

constexpr int WIDE = 8; /* elements of act in 16 bytes */

/* Threads for a row of n vectors: whole warps, no more than there is work for. */
int row_threads(int32_t n)
{
  return std::clamp((n + WARP - 1) / WARP * WARP, WARP, 1024);
}

/* ---- Embedding --------------------------------------------------------------------------------------------------- */

template <typename T, int N> __global__ void embed_kernel(const yk_embed_args p)
{
  using V = vec<T, N>;
  const int64_t row = blockIdx.x, n = p.hidden / N, id = static_cast<int64_t>(p.token_ids[row]) - p.first_id;
  const bool is_here = id >= 0 && id < p.n_ids;
  const V *from = static_cast<const V *>(p.table) + id * n;
  V *to = static_cast<V *>(p.y) + row * n, *cleared = static_cast<V *>(p.cleared) + row * n;
  for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
    V v = {};
    if (p.cleared) cleared[i] = v;
    if (is_here) v = from[i];
    for (int j = 0; j < N; j++) v.at[j] = from_float<T>(to_float(v.at[j]) * p.scale);
    to[i] = v;
  }
}

/* ---- Norms ------------------------------------------------------------------------------------------------------- */

struct norm_params {
  void *y;
  const void *x;  /* rms_norm: the input */
  void *residual; /* add_norm: what is added to and normed */
  const void *partials[YK_MAX_RANKS];
  int32_t n_partials;
  const void *w; /* NULL: no norm */
  int32_t hidden;
  float alpha, eps, per_element; /* per_element: 1 / hidden */
};

/* residual + alpha * (partials in order) of one vector, stored and returned as stored. */
template <typename T, int N> __device__ vec<T, N> add_partials(const norm_params &p, int64_t at)
{
  using V = vec<T, N>;
  float sum[N] = {};
  V r = static_cast<V *>(p.residual)[at];
  for (int32_t i = 0; i < p.n_partials; i++) {
    V v = static_cast<const V *>(p.partials[i])[at];
    for (int j = 0; j < N; j++) sum[j] += to_float(v.at[j]);
  }
  for (int j = 0; j < N; j++) r.at[j] = from_float<T>(to_float(r.at[j]) + p.alpha * sum[j]);
  static_cast<V *>(p.residual)[at] = r;
  return r;
}

/* One row a block. The row waits in shared memory for its norm, rounded as it is stored. The parameters are a grid
 * constant: indexing partials would otherwise copy them to every thread's local memory. Weights do not depend on the
 * kernel before, so a thread's first ones are read while that still runs. */
template <typename T, int N, bool ADDS> __global__ void norm_kernel(const __grid_constant__ norm_params p)
{
  using V = vec<T, N>;
  extern __shared__ uint4 row_bytes[];
  __shared__ float sums[WARP];
  V *row = reinterpret_cast<V *>(row_bytes);
  const V *weights = static_cast<const V *>(p.w);
  const int32_t n = p.hidden / N, own = threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * n;
  float squares = 0.0f;
  V own_weights = {};
  if (weights && own < n) own_weights = weights[own];
  let_next_kernel_start();
  wait_for_previous_kernel();
  for (int32_t i = own; i < n; i += blockDim.x) {
    V v;
    if constexpr (ADDS)
      v = add_partials<T, N>(p, first + i);
    else
      v = static_cast<const V *>(p.x)[first + i];
    for (int j = 0; j < N; j++) squares += to_float(v.at[j]) * to_float(v.at[j]);
    row[i] = v;
  }
  if (!weights) return;
  const float factor = rsqrtf(block_sum(squares, sums) * p.per_element + p.eps);
  for (int32_t i = own; i < n; i += blockDim.x) { /* each thread reads what it wrote */
    V v = row[i], w = i == own ? own_weights : weights[i];
    for (int j = 0; j < N; j++) v.at[j] = from_float<T>(rounded<T>(to_float(v.at[j]) * factor) * to_float(w.at[j]));
    static_cast<V *>(p.y)[first + i] = v;
  }
}

template <bool ADDS>
cudaError_t launch_norm(yk_dtype dtype, const norm_params &p, int32_t n_rows, bool is_wide, cudaStream_t stream)
{
  if (n_rows == 0 || p.hidden == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    const size_t row_bytes = p.hidden * sizeof(T);
    return is_wide
               ? launch_between_products(norm_kernel<T, WIDE, ADDS>, n_rows, row_threads(p.hidden / WIDE), row_bytes,
                                         stream, p)
               : launch_between_products(norm_kernel<T, 1, ADDS>, n_rows, row_threads(p.hidden), row_bytes, stream, p);
  });
}

/* ---- Rotary embedding and cache ---------------------------------------------------------------------------------- */

struct rope_params {
  void *qkv, *k_cache, *v_cache;
  const void *q_norm_w, *k_norm_w;
  const float *rope;
  const int32_t *positions, *kv_slots;
  int32_t n_q, n_kv, head_dim;
  float eps, per_element; /* per_element: 1 / head_dim */
};

constexpr int ROPE_WARPS = 8;                                   /* heads a block takes */
constexpr int ROPE_PAIRS = YK_CUDA_MAX_HEAD_DIM / 2 / 2 / WARP; /* pairs of each half that a lane holds */

/* Where head h of the cache's slot begins. */
__device__ int64_t cache_index(const rope_params &p, int64_t slot, int32_t h)
{
  return ((slot / YK_KV_BLOCK_TOKENS * p.n_kv + h) * YK_KV_BLOCK_TOKENS + slot % YK_KV_BLOCK_TOKENS) * p.head_dim;
}

/* What a lane needs to turn a head: it holds pairs of neighbours of the first half and their partners of the second. */
template <typename T> struct rotation {
  vec<T, 2> norm_low[ROPE_PAIRS], norm_high[ROPE_PAIRS]; /* weights of the norm, if there is one */
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

/* One head by one warp: RMSNorm where has_norm, rotation of the halves, then to `to`. */
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

/* The step's positions and slots were there before its first kernel, and weights and table always: what they lead to is
 * read while the kernel before still runs. */
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
  if (h >= p.n_q + 2 * p.n_kv || slot < 0) return; /* no head; padding */
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

/* ---- Gather ------------------------------------------------------------------------------------------------------ */

template <typename V> __global__ void gather_kernel(V *y, const V *x, const int32_t *rows, int32_t n)
{
  const int64_t row = blockIdx.x;
  for (int32_t i = threadIdx.x; i < n; i += blockDim.x) y[row * n + i] = x[static_cast<int64_t>(rows[row]) * n + i];
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_embed(yk_dtype dtype, const yk_embed_args *args, cudaStream_t stream)
{
  if (args->n_tokens == 0) return cudaSuccess;
  const bool is_wide = args->hidden % WIDE == 0 && is_aligned(args->y, 16) && is_aligned(args->cleared, 16) &&
                       is_aligned(args->table, 16);
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (is_wide)
      embed_kernel<T, WIDE><<<args->n_tokens, row_threads(args->hidden / WIDE), 0, stream>>>(*args);
    else
      embed_kernel<T, 1><<<args->n_tokens, row_threads(args->hidden), 0, stream>>>(*args);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_rms_norm(yk_dtype dtype, const yk_rms_norm_args *args, cudaStream_t stream)
{
  norm_params p = {};
  p.y = args->y;
  p.x = args->x;
  p.w = args->w;
  p.hidden = args->hidden;
  p.per_element = 1.0f / static_cast<float>(args->hidden);
  p.eps = args->eps;
  const bool is_wide = p.hidden % WIDE == 0 && is_aligned(p.y, 16) && is_aligned(p.x, 16) && is_aligned(p.w, 16);
  return launch_norm<false>(dtype, p, args->n_rows, is_wide, stream);
}

extern "C" cudaError_t yk_cuda_launch_add_norm(yk_dtype dtype, const yk_add_norm_args *args, cudaStream_t stream)
{
  norm_params p = {};
  p.y = args->y;
  p.residual = args->residual;
  p.n_partials = args->n_partials;
  p.w = args->w;
  p.hidden = args->hidden;
  p.per_element = 1.0f / static_cast<float>(args->hidden);
  p.alpha = args->alpha;
  p.eps = args->eps;
  bool is_wide = p.hidden % WIDE == 0 && is_aligned(p.y, 16) && is_aligned(p.residual, 16) && is_aligned(p.w, 16);
  for (int32_t i = 0; i < p.n_partials; i++) {
    p.partials[i] = args->partials[i];
    is_wide = is_wide && is_aligned(p.partials[i], 16);
  }
  return launch_norm<true>(dtype, p, args->n_rows, is_wide, stream);
}

extern "C" cudaError_t yk_cuda_launch_gather_rows(const yk_gather_rows_args *args, cudaStream_t stream)
{
  if (args->n_rows == 0) return cudaSuccess;
  if (args->hidden % WIDE == 0 && is_aligned(args->y, 16) && is_aligned(args->x, 16)) {
    const int32_t n = args->hidden / WIDE;
    gather_kernel<<<args->n_rows, row_threads(n), 0, stream>>>(static_cast<uint4 *>(args->y),
                                                               static_cast<const uint4 *>(args->x), args->rows, n);
  } else {
    gather_kernel<<<args->n_rows, row_threads(args->hidden), 0, stream>>>(
        static_cast<uint16_t *>(args->y), static_cast<const uint16_t *>(args->x), args->rows, args->hidden);
  }
  return cudaGetLastError();
}

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
    return launch_between_products(rope_kernel<decltype(type)>, grid, ROPE_WARPS * WARP, 0, stream, p);
  });
}
