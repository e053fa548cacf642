/* model_parts.h - what a rank's model is made of. Shared by model_build.c, which fills it, and model.c, which runs
 * it. */
#ifndef YK_MODEL_MODEL_PARTS_H
#define YK_MODEL_MODEL_PARTS_H

#include "model/decode_graph.h"
#include "model/layer.h"
#include "parallel/comm.h"

/* Activations of one step; rows of max_tokens unless stated. act is the device's activation type. */
typedef struct yk_activations {
  void *step;                            /* rank_bytes of the largest step's block */
  void *residual;                        /* act [hidden] */
  void *normed;                          /* act [hidden] */
  void *partial;                         /* act [hidden]: embedding, o and down before their sum over ranks */
  void *attention_scratch, *ffn_scratch; /* the sublayers' own */
  void *kv_room;                         /* as measured, of all blocks; NULL where no layer wants any */
  void *wanted;                          /* act [max_seqs, hidden]: rows whose logits are wanted */
  float *logits;                         /* [max_seqs, shard_stride]; rank 0: n_ranks times so much */
  yk_best_logit *bests;                  /* host [max_tokens]: of this rank's share, of a plain step's wanted rows */
  yk_best_logit *all_bests;              /* [n_ranks, max_tokens]: of all ranks' shares; NULL but on rank 0 */
} yk_activations;

struct yk_model {
  yk_device *dev; /* not owned */
  yk_comm *comm;  /* not owned */
  int32_t hidden, n_layers, n_experts;
  int32_t max_wanted; /* rows that the logits buffers hold */
  float eps, embed_scale, residual_scale;
  int32_t shard_stride;                  /* columns of one rank's logits row: the widest shard */
  int32_t shard_first[YK_MAX_RANKS + 1]; /* vocabulary ids of each rank's shard */
  void *embedding;                       /* act [this rank's vocabulary ids, hidden]; NULL where there are none */
  yk_layer_norm final_norm;
  yk_linear *lm_head;
  float *rope; /* [max_model_tokens, 2, head_dim / 2] */
  yk_layer *layers;
  yk_activations act;
  float *rank_0_logits;     /* rank 0's act.logits, as this rank writes its share there; NULL: it is gathered */
  yk_decode_graphs *graphs; /* NULL on a device without */
  yk_step_profile profile;  /* of timed steps */
  yk_operations operations; /* what the rank is at: read by other threads too */
};

#endif
