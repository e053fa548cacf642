/* model_parts.h - the fields of a rank's model. Shared by model_build.c, which fills them, and model.c, which runs the
 * model. */
#ifndef YK_MODEL_MODEL_PARTS_H
#define YK_MODEL_MODEL_PARTS_H

#include "model/decode_graph.h"
#include "model/layer.h"
#include "model/layer_inputs.h"
#include "parallel/comm.h"

/* Activations of one step; rows of max_tokens unless stated. act is the device's activation type. */
typedef struct yk_activations {
  void *step;                            /* rank_bytes of the largest step's block */
  void *residual;                        /* act [hidden] */
  void *normed;                          /* act [hidden] */
  void *partial;                         /* act [hidden]: embedding, o and down before the sum over ranks */
  void *attention_scratch, *ffn_scratch; /* scratch of the sublayers */
  void *kv_staging;                      /* staging pages of all blocks, as measured; NULL if no layer needs any */
  void *wanted;                          /* act [max_seqs, hidden]: rows whose logits are wanted */
  float *logits;                         /* [max_seqs, shard_stride]; on the first rank of the last stage n_ranks times
                                          * that size. Like the members below, memory of the last stage alone */
  yk_best_logit *bests;                  /* host [max_tokens]: best logits of this rank's share, for the wanted rows of
                                          * a plain step */
  void *hidden;             /* host, act [max_seqs, hidden]: hidden states that steps return; NULL except on the first
                             * rank of a model that makes embeddings */
  yk_best_logit *all_bests; /* [n_ranks, max_tokens]: best logits of all ranks; NULL except on the first rank */
} yk_activations;

struct yk_model {
  yk_device *dev; /* not owned */
  yk_comm *comm;  /* not owned */
  bool is_first_stage, is_last_stage;
  bool batch_invariant; /* see invariance.h */
  int32_t hidden, n_experts;
  int32_t first_layer, n_layers; /* of the stage, like layers below */
  int32_t n_mixtures_before;     /* layers with experts in earlier stages */
  int32_t max_wanted;            /* rows that the logits buffers hold */
  float eps, embed_scale, residual_scale;
  float logit_scale;                     /* factor within final_norm.w */
  float logit_cap;                       /* 0: none */
  int32_t shard_stride;                  /* columns of one rank's logits row, the width of the widest shard */
  int32_t shard_first[YK_MAX_RANKS + 1]; /* first vocabulary id of each rank's shard */
  void *embedding;                       /* act [this rank's vocabulary ids, hidden]; NULL if the rank has none, or
                                          * its stage needs none */
  yk_layer_norm final_norm;              /* w NULL before the last stage */
  yk_linear *lm_head;                    /* NULL: the model only makes embeddings */
  float *rope;                           /* [max_model_tokens, 2, head_dim / 2] */
  float *local_rope;                     /* the same for layers with a window, of their head_dim; NULL: rope */
  yk_layer *layers;                      /* [n_layers] */
  yk_layer_inputs layer_inputs;
  yk_adapted adapted; /* layers that adapters may change */
  yk_model_family family;
  yk_activations act;
  float *rank_0_logits;     /* the first rank's act.logits, mapped for writes of this rank; NULL: logits are gathered */
  yk_decode_layers *decode; /* all layers as one operation of the device; NULL: they run one by one */
  yk_decode_graphs *graphs; /* NULL on a device without graphs */
  yk_step_profile profile;  /* of the last timed step */
  yk_operations operations; /* current operation; other threads read the atomic fields */
};

#endif
