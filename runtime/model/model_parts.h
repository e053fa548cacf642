/* model_parts.h - what a rank's model is made of. Shared by model_build.c, which fills it, and model.c, which runs it. */
#ifndef YK_MODEL_MODEL_PARTS_H
#define YK_MODEL_MODEL_PARTS_H

#include <stdatomic.h>

#include "model/decode_graph.h"
#include "model/model.h"
#include "parallel/shard.h"

typedef struct yk_layer {
  void *input_norm_w, *post_norm_w; /* act [hidden] */
  void *q_norm_w, *k_norm_w;        /* act [head_dim] or NULL */
  yk_linear *qkv, *o, *gate_up, *down;
  yk_kv_layer kv;
  int32_t window_tokens; /* 0: full attention */
} yk_layer;

/* Activations of one step; rows of max_tokens unless stated. act is the device's activation type. */
typedef struct yk_activations {
  int32_t *words; /* the step's arrays */
  void *residual; /* act [hidden] */
  void *normed;   /* act [hidden] */
  void *qkv;      /* act [(n_q + 2 n_kv) * head_dim] */
  void *attended; /* act [n_q * head_dim] */
  void *partial;  /* act [hidden]: embedding, o and down before their sum over ranks */
  void *ffn;      /* act [ffn_local] */
  void *wanted;   /* act [max_seqs, hidden]: rows whose logits are wanted */
  float *logits;  /* [max_seqs, shard_stride]; rank 0: n_ranks times so much */
} yk_activations;

struct yk_model {
  yk_device *dev; /* not owned */
  yk_comm *comm;  /* not owned */
  int32_t hidden, n_layers, ffn_local;
  int32_t max_wanted; /* rows that the logits buffers hold */
  yk_head_layout heads;
  float eps, embed_scale, residual_scale, attention_scale;
  int32_t shard_stride;                  /* columns of one rank's logits row: the widest shard */
  int32_t shard_first[YK_MAX_RANKS + 1]; /* vocabulary ids of each rank's shard */
  void *embedding;                       /* act [this rank's vocabulary ids, hidden]; NULL where there are none */
  void *final_norm_w;
  yk_linear *lm_head;
  float *rope; /* [max_model_tokens, 2, head_dim / 2] */
  yk_layer *layers;
  yk_activations act;
  yk_decode_graphs *graphs; /* NULL on a device without */
  /* What the rank is at, and whether it may go on: also other threads'. */
  _Atomic(const char *) operation;
  atomic_int layer;   /* -1 outside the layers */
  atomic_int n_begun; /* operations of the step under way; 0 between steps */
  atomic_bool is_stopped;
};

#endif
