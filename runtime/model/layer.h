/* layer.h - what a transformer layer is made of: an attention and a feed-forward network (FFN), each of a kind.
 *
 * Both are sublayers of one shape: they read the normalised hidden rows and write this rank's partial result, which the
 * layer then adds up over ranks (model.c). A new kind is a file with a yk_sublayer_kind, and a line in layer.c that
 * says which layers of which configuration are of it. */
#ifndef YK_MODEL_LAYER_H
#define YK_MODEL_LAYER_H

#include "kernels/device.h"
#include "model/operation.h"
#include "model/rank_loader.h"
#include "parallel/comm.h"

/* Bytes that a sublayer takes on its rank's device. */
typedef struct yk_sublayer_bytes {
  int64_t weights;
  int64_t experts;           /* of weights: what a mixture's routed experts take */
  int32_t n_unkept;          /* weights among them: see yk_repack_n_unkept */
  int32_t n_float_inputs;    /* and yk_repack_n_float_inputs */
  int64_t kv_per_block;      /* of this layer's cache; an FFN has none */
  int64_t kv_room_per_block; /* of the room beside the caches, which all layers share: see yk_kv_layer */
  int64_t
      scratch; /* of a forward of limits->step.max_tokens rows; all layers' sublayers of one role use the same memory */
} yk_sublayer_bytes;

typedef struct yk_layer_bytes {
  int64_t norms;
  yk_sublayer_bytes attention, ffn;
} yk_layer_bytes;

/* What a forward works on. */
typedef struct yk_sublayer_step {
  yk_device *dev;
  yk_comm *comm;
  yk_operations *operations;
  int32_t layer;
  int32_t hidden;
  float norm_eps;
  const float *rope; /* f32 device [max_model_tokens, 2, head_dim / 2], cos then sin */
  const yk_batch *batch;
  yk_normed x;   /* of n_tokens rows; a sublayer whose first operation does no norm begins with yk_sublayer_normalise */
  yk_partial y;  /* state ROWS, rows act [n_tokens, hidden], which do not alias x or scratch: the sublayer's result */
  void *scratch; /* bytes as measured */
  void *kv_room; /* likewise, times the number of blocks; NULL where none was wanted */
} yk_sublayer_step;

typedef struct yk_sublayer yk_sublayer; /* one layer's, of its kind's own layout */

typedef struct yk_sublayer_kind {
  const char *name;
  yk_reader reader; /* what reads x first */
  /* Reads no weights. Errors: those of the checkpoint. */
  yk_status (*measure)(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err);
  /* *out is the caller's to destroy, also where loading fails half-way. Errors: of checkpoint and device. */
  yk_status (*load)(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err);
  /* Asynchronous on the device's stream. Errors name the operation. */
  yk_status (*forward)(const yk_sublayer *sublayer, yk_sublayer_step *step, yk_err *err);
  /* Of a mixture of experts, on rank 0: rows [n_experts] that each expert of the model was chosen for since the start.
   * NULL for other kinds. Errors: the device's. */
  yk_status (*read_expert_rows)(const yk_sublayer *sublayer, yk_device *dev, int64_t *rows, yk_err *err);
  void (*destroy)(yk_device *dev, yk_sublayer *sublayer);
} yk_sublayer_kind;

/* The kinds there are. */
extern const yk_sublayer_kind yk_attention_grouped; /* attention_grouped.c */
extern const yk_sublayer_kind yk_attention_latent;  /* attention_latent.c */
extern const yk_sublayer_kind yk_ffn_dense;         /* ffn_dense.c */
extern const yk_sublayer_kind yk_ffn_experts;       /* ffn_experts.c */

/* A norm behind an all-reduce, and what reads its rows. */
typedef struct yk_layer_norm {
  void *w; /* act [hidden] */
  yk_reader reader;
} yk_layer_norm;

typedef struct yk_layer {
  yk_layer_norm input_norm, post_norm;
  const yk_sublayer_kind *attention_kind, *ffn_kind;
  yk_sublayer *attention, *ffn;
} yk_layer;

/* yk_layer_measure - norms and both sublayers. Reads no weights. Errors: those of the checkpoint. */
yk_status yk_layer_measure(const yk_rank_source *source, int32_t layer, yk_layer_bytes *out, yk_err *err);

/* yk_layer_load - fill a zeroed layer. What was loaded before an error is for yk_layer_destroy. */
yk_status yk_layer_load(const yk_rank_loader *loader, int32_t layer, yk_layer *out, yk_err *err);
void yk_layer_destroy(yk_device *dev, yk_layer *layer);

/* yk_sublayer_normalise - the norm that step->x is still waiting for, if any. Errors name the operation. */
yk_status yk_sublayer_normalise(yk_sublayer_step *step, yk_err *err);

#endif
