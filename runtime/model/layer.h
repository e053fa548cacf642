/* layer.h - the parts of a transformer layer: an attention and a feed-forward network (FFN), each of a kind, or in some
 * families one of the two alone.
 *
 * Both are sublayers with one interface: they read the normalised hidden rows and write this rank's partial result,
 * which the layer then sums over ranks (model.c). A new kind is a file with a yk_sublayer_kind, and a line in layer.c
 * that selects the kind from the configuration and the layer's index. */
#ifndef YK_MODEL_LAYER_H
#define YK_MODEL_LAYER_H

#include "kernels/device.h"
#include "model/operation.h"
#include "model/rank_loader.h"
#include "model/step_arrays.h"
#include "parallel/comm.h"

/* Bytes that a sublayer takes on its rank's device. */
typedef struct yk_sublayer_bytes {
  int64_t weights;
  int64_t experts;              /* part of weights: the routed experts of a mixture */
  int32_t n_unkept;             /* weights in a format that the device does not keep: see yk_repack_n_unkept */
  int32_t n_float_inputs;       /* weights with float inputs: see yk_repack_n_float_inputs */
  int64_t kv_per_block;         /* this layer's cache; 0 for an FFN */
  int64_t state_per_seq;        /* this layer's recurrent state of one sequence, and that of one snapshot; 0: none */
  int64_t kv_staging_per_block; /* staging pages for 8-bit caches, shared by all layers: see yk_kv_layer */
  int64_t shared;  /* memory of the device's linear layers that all layers share: see yk_repack_shared_bytes */
  int64_t scratch; /* for limits->step.max_tokens rows; sublayers of one role share the memory, over all layers */
} yk_sublayer_bytes;

typedef struct yk_layer_bytes {
  int64_t norms;
  yk_sublayer_bytes attention, ffn; /* ffn includes layer_input.c */
} yk_layer_bytes;

/* Inputs and outputs of a sublayer's forward. */
typedef struct yk_sublayer_step {
  yk_device *dev;
  yk_comm *comm;
  yk_operations *operations;
  int32_t layer;
  int32_t hidden;
  float norm_eps;
  const float *rope;       /* f32 device [max_model_tokens, 2, head_dim / 2], cos then sin */
  const float *local_rope; /* the same for layers with a window, with their head_dim; NULL: they use rope */
  const yk_batch *batch;
  yk_normed x; /* n_tokens rows; if the first operation does not normalise, call yk_sublayer_normalise before */
  const struct yk_layer_inputs *layer_inputs; /* embeddings of the step's rows (layer_inputs.h) */
  const void *router_x;                       /* act [n_tokens, hidden]: inputs of a mixture's router; NULL: x */
  /* act [n_tokens, hidden]: set in place of y by a forward whose result is already the sum over all ranks. NULL: y. The
   * caller resets it to NULL. */
  void *complete;
  yk_partial y; /* the result; state ROWS, rows act [n_tokens, hidden]; must not alias x or scratch */
  /* act [n_tokens, hidden]: the residual to which alpha times y will be added, with nothing in between, so that the
   * last layer of a sublayer may do so and set y.state to ADDED (row_parallel.h). NULL: y is needed itself. */
  void *residual;
  float alpha;
  void *scratch;    /* bytes as measured */
  void *kv_staging; /* staging pages: kv_staging_per_block times the number of blocks; NULL if no layer needs any */
} yk_sublayer_step;

typedef struct yk_sublayer yk_sublayer; /* one layer; each kind defines its own layout */

typedef struct yk_sublayer_kind {
  const char *name;
  yk_reader reader; /* the first reader of x */
  /* Reads no weights. Errors: those of the checkpoint. */
  yk_status (*measure)(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err);
  /* The caller destroys *out, also after an error. Errors: those of checkpoint and device. */
  yk_status (*load)(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err);
  /* Asynchronous on the device's stream. Errors name the operation. */
  yk_status (*forward)(const yk_sublayer *sublayer, yk_sublayer_step *step, yk_err *err);
  /* Does one of a step's copies of sequences' memory, on a device with `copy`. Required for attention kinds, NULL for
   * kinds of FFN. */
  yk_status (*copy)(const yk_sublayer *sublayer, yk_device *dev, const yk_step_copy *copy, yk_err *err);
  /* For a mixture of experts, on rank 0: rows [n_experts], how many rows chose each expert of the model since the
   * start. NULL for other kinds. Errors: those of the device. */
  yk_status (*read_expert_rows)(const yk_sublayer *sublayer, yk_device *dev, int64_t *rows, yk_err *err);
  /* Fills the sublayer's part of the operation of all layers (kernels/decode_layers.h): its members of *layer, and the
   * members of *spec that must be equal in all layers. False: that operation cannot express the sublayer. NULL: nor any
   * other of this kind. */
  bool (*describe)(const yk_sublayer *sublayer, yk_decode_layer *layer, yk_decode_layers_spec *spec);
  void (*destroy)(yk_device *dev, yk_sublayer *sublayer);
} yk_sublayer_kind;

extern const yk_sublayer_kind yk_attention_grouped; /* attention_grouped.c */
extern const yk_sublayer_kind yk_attention_latent;  /* attention_latent.c */
extern const yk_sublayer_kind yk_attention_delta;   /* attention_delta.c */
extern const yk_sublayer_kind yk_attention_mamba;   /* attention_mamba.c */
extern const yk_sublayer_kind yk_ffn_dense;         /* ffn_dense.c */
extern const yk_sublayer_kind yk_ffn_experts;       /* ffn_experts.c */
extern const yk_sublayer_kind yk_ffn_branches;      /* ffn_branches.c */
extern const yk_sublayer_kind yk_layer_input;       /* layer_input.c, after the FFN */

typedef struct yk_layer yk_layer;

/* A norm after an all-reduce, and the reader of the normalised rows. */
typedef struct yk_layer_norm {
  void *w; /* act [hidden] */
  yk_reader reader;
} yk_layer_norm;

struct yk_layer {
  yk_layer_norm input_norm, post_norm; /* before the first sublayer, and before the second, if there are two */
  void *attention_result_w, *ffn_result_w, *input_result_w; /* norms of the sublayers' results: act [hidden] or NULL */
  const yk_sublayer_kind *attention_kind, *ffn_kind;        /* one may be NULL: the layer lacks that sublayer */
  yk_sublayer *attention, *ffn;
  yk_sublayer *input; /* of the kind yk_layer_input; NULL: the layer has no embeddings */
  float gain;         /* factor on the residual after the layer's last sublayer; 0: none */
};

/* yk_layer_measure - bytes of the norms and both sublayers. Reads no weights. Errors: those of the checkpoint. */
yk_status yk_layer_measure(const yk_rank_source *source, int32_t layer, yk_layer_bytes *out, yk_err *err);

/* yk_layer_load - fill a zeroed layer. After an error too, call yk_layer_destroy. */
yk_status yk_layer_load(const yk_rank_loader *loader, int32_t layer, yk_layer *out, yk_err *err);
void yk_layer_destroy(yk_device *dev, yk_layer *layer);

/* yk_sublayer_normalise - run the pending norm of step->x, if any. Errors name the operation. */
yk_status yk_sublayer_normalise(yk_sublayer_step *step, yk_err *err);

/* yk_sublayer_normalise_for - the same, if args, whose x is step->x and which no other operation reads, do not get the
 *   norm as part of the linear layer (linear_fuses). Errors name the operation. */
yk_status yk_sublayer_normalise_for(yk_sublayer_step *step, const yk_linear *linear, yk_linear_args *args, yk_err *err);

#endif
