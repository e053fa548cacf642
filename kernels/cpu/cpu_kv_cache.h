/* cpu_kv_cache.h - pages of the KV cache of the CPU device: storing heads, and reading them as float32. */
#ifndef YK_KERNELS_CPU_KV_CACHE_H
#define YK_KERNELS_CPU_KV_CACHE_H

#include "kernels/cpu/cpu_device.h"

/* One side of a layer's cache, K or V. */
typedef struct yk_cpu_kv_side {
  char *pages;
  const float *channels; /* f32 [2, n_kv_heads, head_dim], or NULL */
  yk_kv_format format;
  int32_t n_kv_heads, head_dim;
  int64_t page_bytes;
} yk_cpu_kv_side;

/* yk_cpu_kv_keys, yk_cpu_kv_values - K or V of a layer's cache. act: the device's type of activations. */
yk_cpu_kv_side yk_cpu_kv_keys(const yk_kv_layer *kv, const yk_head_layout *heads, yk_dtype act);
yk_cpu_kv_side yk_cpu_kv_values(const yk_kv_layer *kv, const yk_head_layout *heads, yk_dtype act);

/* yk_cpu_kv_store - stores one head of a token, act [head_dim], at a KV slot. f32: scratch for a head. */
void yk_cpu_kv_store(const yk_cpu_device *cpu, const yk_cpu_kv_side *side, int64_t slot, int32_t kv_head,
                     const void *head, float *f32);

/* yk_cpu_kv_load - reads the first n_tokens of a block's page as f32 [n_tokens, head_dim]. */
void yk_cpu_kv_load(const yk_cpu_device *cpu, const yk_cpu_kv_side *side, int64_t block, int32_t kv_head,
                    int32_t n_tokens, float *out);

#endif
