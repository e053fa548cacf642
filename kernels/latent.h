/* latent.h - the operation of multi-head latent attention (DeepSeek-V2, section 2.1).
 *
 * The weights of kv_b_proj compute the keys and values of all heads from one latent vector c of kv_rank values per
 * token:
 *
 *   k[h] = (K[h] c, r)   nope_dim values from c; then r, rope_dim values, rotated by position and equal for all heads
 *   v[h] = V[h] c        value_dim values
 *
 * so the cache holds only c and r. Attention needs neither k nor v: q . k = (K^T q_nope) . c + q_rope . r, and the
 * weighted sum of v is V times the weighted sum of c. Each head is then a query of kv_rank + rope_dim values over the
 * cache of one KV head, whose values are the first kv_rank elements of its keys. A device may use this form, or compute
 * k and v. */
#ifndef YK_KERNELS_LATENT_H
#define YK_KERNELS_LATENT_H

#include <stdint.h>

#include "kernels/score_growth.h"

#ifdef __cplusplus
extern "C" {
#endif

struct yk_batch;

/* The heads of this rank, which share one cache. rope_dim is even. */
typedef struct yk_latent_layout {
  int32_t n_heads; /* local */
  /* dimensions of a head of q: first the elements without rotary embedding, then those with it */
  int32_t nope_dim, rope_dim;
  int32_t kv_rank, value_dim;
} yk_latent_layout;

/* Elements of one token in the cache. */
static inline int32_t yk_latent_width(const yk_latent_layout *layout)
{
  return layout->kv_rank + layout->rope_dim;
}

/* Elements of one row of q. */
static inline int64_t yk_latent_q_width(const yk_latent_layout *layout)
{
  return (int64_t)layout->n_heads * (layout->nope_dim + layout->rope_dim);
}

/* latent_attention, for rows whose q and latent vectors have been projected:
 *
 *   cache[kv_slots[row]] = rms_norm(c, norm_w), rotary embedding of r; and rotary embedding of each head's rope_dim
 *   elements of q: the first half rotates with the second half. Then
 *   y[row, h] = V[h] sum over tokens of softmax(scale * growth * q . k, causal) c
 *
 * Cache slots after a sequence's last token may have any content. Once the operation has ended on the device's stream,
 * the cache holds the rows' normalised latent vectors, which calibration reads as inputs of kv_b_proj; the contents of
 * q and latent are undefined. */
typedef struct yk_latent_attention_args {
  void *y;      /* act [n_tokens, n_heads, value_dim], which must not alias q */
  void *q;      /* act [n_tokens, n_heads, nope_dim + rope_dim], rows q_stride elements apart */
  void *latent; /* act [n_tokens, kv_rank + rope_dim], rows latent_stride elements apart */
  int64_t q_stride, latent_stride;
  yk_latent_layout layout;
  const void *norm_w; /* act [kv_rank] */
  float norm_eps, scale;
  yk_score_growth growth;
  const float *rope; /* f32 [n_positions, 2, rope_dim / 2], cos then sin */
  const void *kv_up; /* act [n_heads, nope_dim + value_dim, kv_rank]: K[h], then V[h] */
  void *cache;       /* act [n_blocks, YK_KV_BLOCK_TOKENS, kv_rank + rope_dim] */
  /* the device's latent_scratch_bytes for that many rows; reserved for this operation until it has ended */
  void *scratch;
  const struct yk_batch *batch;
} yk_latent_attention_args;

#ifdef __cplusplus
}
#endif
#endif
