/* kv_cache.h - the number formats of the paged KV cache: the activation type, or 8 bits.
 *
 * A page holds K or V of one KV head for one block: [YK_KV_BLOCK_TOKENS, head_dim] of the activation type, or, in 8
 * bits and without padding,
 *
 *   [YK_KV_BLOCK_TOKENS, head_dim] codes, one byte each    [YK_KV_BLOCK_TOKENS] scales, float32, one for each token
 *
 * so one copy loads both, and pages are whole multiples of 16 bytes. Below, x is an element of a token's K or V in one
 * head, rounded to the activation type, d its index in the head, q its code as a number (INT8: -128 to 127; FP8:
 * e4m3fn, at most 448), and t the token's scale.
 *
 *   per token and head   t = max |x| / 127 (FP8: / 448)            q = round(x / t); all zeros if t is 0
 *   static               t = 1, c and o of the checkpoint          q = round(x / c[d] + o[d]), clamped
 *   in both cases        x' = t c[d] (q - o[d])                    c = 1 and o = 0 if the checkpoint has none
 *
 * Rounding is to nearest, ties to even; FP8 saturates. A head with a NaN or an infinity gets t = NaN, so that every row
 * that attends to the token becomes NaN, as with a cache of floats.
 *
 * Attention need not compute x'. With query Q and probabilities p, whose sum is l:
 *
 *   scores   sum_d Q[d] t c[d] (q - o[d]) = t sum_d (Q[d] c[d]) q - t sum_d Q[d] c[d] o[d]
 *   output   sum p t c[d] (q - o[d]) / l  = c[d] (sum (p t) q / l - o[d])          the sums are over tokens
 *
 * With offsets, t is 1, so the last term of the scores is equal for all tokens, and softmax is invariant to it: K's
 * offsets are needed only when writing. K's scales are multiplied into the query once, V's scales and offsets into the
 * output once; a token's scales into its score and its probability. */
#ifndef YK_KERNELS_KV_CACHE_H
#define YK_KERNELS_KV_CACHE_H

#include <stdint.h>

#include "base/dtype.h"
#include "kernels/kv_format.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { YK_KV_BLOCK_TOKENS = 16 };

/* One layer's paged cache on this rank: k and v are [n_blocks, n_kv_heads_local] pages. */
typedef struct yk_kv_layer {
  void *k, *v;
  yk_kv_format format;
  /* Static scales c, then offsets o: f32 [2, n_kv_heads_local, head_dim]. Both NULL: scales per token and head. */
  const float *k_channels, *v_channels;
  /* Staging pages in the activation type, one per block of a layer. Only for 8-bit caches on devices with
   * needs_kv_staging. All layers share them: their content is not kept between calls. */
  void *k_staging, *v_staging;
} yk_kv_layer;

static inline int64_t yk_kv_page_bytes(yk_kv_format format, yk_dtype act, int32_t head_dim)
{
  if (format == YK_KV_ACT) return (int64_t)YK_KV_BLOCK_TOKENS * head_dim * (int64_t)yk_dtype_bytes(act);
  return (int64_t)YK_KV_BLOCK_TOKENS * (head_dim + (int64_t)sizeof(float));
}

#ifdef __cplusplus
}
#endif
#endif
