/* rope_params.cuh - parameters of the kernels of rope.h. */
#ifndef YK_KERNELS_CUDA_ROWS_ROPE_PARAMS_CUH
#define YK_KERNELS_CUDA_ROWS_ROPE_PARAMS_CUH

#include <cstdint>

#include "kernels/device.h"

namespace yk_rows {

struct rope_params {
  void *qkv, *k_cache, *v_cache;
  const void *q_norm_w, *k_norm_w;
  const float *rope;
  yk_kv_format format;
  const float *k_channels, *v_channels; /* as in yk_kv_layer */
  const int32_t *positions, *kv_slots;
  int32_t n_q, n_kv, head_dim;
  int64_t qkv_stride;     /* elements between rows of qkv */
  float eps, per_element; /* per_element: 1 / head_dim */
  /* As in yk_qk_rope_kv_args; rope may then be NULL. */
  bool norms_follow, norms_values;
  yk_kv_columns columns;
};

/* Heads of a row that a warp each processes: of queries, keys and values. */
__host__ __device__ inline int32_t n_heads_of(const rope_params &p)
{
  return p.n_q + (p.columns == YK_KV_COLUMNS_NONE ? 0 : 2 * p.n_kv);
}

/* Whether the kernels without options compute the operation. */
inline bool has_no_options(const rope_params &p)
{
  return p.rope && !p.norms_follow && !p.norms_values && p.columns == YK_KV_COLUMNS_BOTH;
}

/* Address in a cache of T of KV head h of a KV slot. */
template <typename T> __device__ T *cache_at(const rope_params &p, void *cache, int64_t slot, int32_t h)
{
  return static_cast<T *>(cache) +
         ((slot / YK_KV_BLOCK_TOKENS * p.n_kv + h) * YK_KV_BLOCK_TOKENS + slot % YK_KV_BLOCK_TOKENS) * p.head_dim;
}

} // namespace yk_rows

#endif
