/* types.h - arguments of the decode kernel: see decode.h. */
#ifndef YK_KERNELS_CUDA_DECODE_TYPES_H
#define YK_KERNELS_CUDA_DECODE_TYPES_H

#include <stdint.h>

#include "kernels/cuda/gemm/types.h"
#include "kernels/decode_layers.h"

/* The GEMMs of a layer, in the order in which they run. */
typedef enum yk_decode_gemm {
  YK_DECODE_QKV,
  YK_DECODE_O,
  YK_DECODE_GATE_UP,
  YK_DECODE_DOWN,
  YK_DECODE_N_GEMMS
} yk_decode_gemm;

/* One layer, all in device memory. */
typedef struct yk_decode_weights {
  const void *packed[YK_DECODE_N_GEMMS];  /* from yk_gemm_pack, of INT4 with one group in each K tile */
  const void *bias[YK_DECODE_N_GEMMS];    /* act, one for each column of the weights, or NULL */
  const void *input_norm_w, *post_norm_w; /* act [hidden] */
  const void *q_norm_w, *k_norm_w;        /* act [head_dim], or NULL */
  void *k, *v;                            /* the layer's cache in the activation type */
} yk_decode_weights;

/* The common shape of all layers. */
typedef struct yk_decode_shape {
  yk_dtype dtype; /* activations */
  int32_t n_layers, hidden, ffn;
  int32_t n_q_heads, n_kv_heads, head_dim; /* of the rank, as ffn */
  int32_t rank, n_ranks;                   /* at most YK_DECODE_MOST_RANKS */
  yk_activation activation;                /* gated */
  float norm_eps, attention_scale, alpha;
} yk_decode_shape;

/* One step. All pointers are to device memory. */
typedef struct yk_decode_call {
  const yk_decode_weights *layers; /* [n_layers] */
  const float *rope;               /* [n_positions, 2, head_dim / 2], cos then sin */
  const void *final_norm_w;        /* act [hidden], or NULL */
  void *residual, *y;              /* act [hidden]; y is written if final_norm_w is not NULL */
  const int32_t *position, *kv_slot, *kv_tokens, *block_table; /* of the row and its sequence, as in yk_batch */
  /* exchange of each rank: yk_decode_exchange_bytes, zeroed once; every launch leaves it ready for the next launch. All
   * ranks launch together, each in its own stream. */
  void *exchange[YK_DECODE_MOST_RANKS];
  int64_t *stamps;   /* of yk_decode_layers_args */
  yk_peer_wait wait; /* for several ranks; a launch that ends without the others has undefined results */
} yk_decode_call;

#endif
