/* decode_layers.h - all layers of a dense model with grouped-query attention as one operation, for a decode step of one
 * row. Several ranks run the operation together: each has its share of heads and FFN channels, and the results of o and
 * down are the sums of all ranks' results, added in rank order in float32.
 *
 * For each layer, in this order, with rms_norm, qk_rope_kv and attention as in device.h and linear layers as in
 * linear.h:
 *   x = rms_norm(residual, input_norm_w);  qkv = qkv(x);  q, k = norms and rotation;  k and v into the cache
 *   residual += alpha * o(attention(q, cache))
 *   x = rms_norm(residual, post_norm_w)
 *   residual += alpha * down(gate_up(x))
 * and after the last layer y = rms_norm(residual, final_norm_w). Residuals and the cached k and v are rounded to act.
 * Other values between these steps may stay unrounded, or be rounded in groups: each of 128 neighbouring inputs of a
 * linear layer then has an error of at most 2^-13 of the largest of them, for the smaller ones more than that of
 * act. */
#ifndef YK_KERNELS_DECODE_LAYERS_H
#define YK_KERNELS_DECODE_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/activation.h"
#include "kernels/kv_cache.h"
#include "kernels/linear.h"
#include "kernels/peer_wait.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_decode_layers yk_decode_layers; /* a device's prepared form of the layers */

/* One layer. All pointers are to device memory, or to layers of the device, and outlive the prepared form. */
typedef struct yk_decode_layer {
  const void *input_norm_w, *post_norm_w; /* act [hidden] */
  const yk_linear *qkv;                   /* [hidden] to q heads, k heads, v heads */
  const yk_linear *o;                     /* [n_q_heads * head_dim] to [hidden] */
  const yk_linear *gate_up;               /* [hidden] to [ffn], with its gated activation */
  const yk_linear *down;                  /* [ffn] to [hidden] */
  const void *q_norm_w, *k_norm_w;        /* act [head_dim], or both NULL */
  yk_kv_layer kv;
} yk_decode_layer;

enum {
  YK_DECODE_MOST_RANKS = 8,
  YK_DECODE_N_TRAITS = 4 /* of a prepared form: not negative, defined by the device */
};

typedef struct yk_decode_layers_spec {
  int32_t rank, n_ranks;         /* of the group; 1: the operation needs no yk_decode_peers */
  const yk_decode_layer *layers; /* [n_layers]; not read after create */
  int32_t n_layers;
  int32_t hidden;
  int32_t n_q_heads, n_kv_heads, head_dim; /* q head h reads KV head h / (n_q_heads / n_kv_heads) */
  float norm_eps;
  float attention_scale;    /* of q k^T */
  float alpha;              /* factor of the sublayers' results */
  const float *rope;        /* f32 device [n_positions, 2, head_dim / 2], cos then sin */
  const void *final_norm_w; /* act [hidden], or NULL: y is not written */
} yk_decode_layers_spec;

/* The memory through which ranks exchange results. */
typedef struct yk_decode_peers {
  void *exchange[YK_DECODE_MOST_RANKS]; /* of each rank (decode_layers_exchange), as this rank's device addresses it */
  yk_peer_wait wait;
} yk_decode_peers;

/* The parts of a layer, in the order in which they run. A GEMM begins when its input is complete. A sum, also that of a
 * single rank, begins when the rank's own result is complete, and ends when the next norm is. */
typedef enum yk_decode_part {
  YK_DECODE_PART_QKV,
  YK_DECODE_PART_ATTENTION,
  YK_DECODE_PART_O,
  YK_DECODE_PART_SUM_OF_O,
  YK_DECODE_PART_GATE_UP,
  YK_DECODE_PART_DOWN,
  YK_DECODE_PART_SUM_OF_DOWN,
  YK_DECODE_N_PARTS
} yk_decode_part;

/* residual act [hidden], in place; y act [hidden]. The row is that of batch, which has one row of one sequence.
 * stamps: int64 device [n_layers, YK_DECODE_N_PARTS], or NULL; filled with the time at which each part of each layer
 * began on this rank, on the clock of timestamp (device.h). */
typedef struct yk_decode_layers_args {
  void *residual, *y;
  const struct yk_batch *batch;
  int64_t *stamps;
} yk_decode_layers_args;

#ifdef __cplusplus
}
#endif
#endif
