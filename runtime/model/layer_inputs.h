/* layer_inputs.h - embeddings that each layer has of each token (Gemma 4, E2B and E4B): a table, and a projection of
 * the token's embedding, which layer_input.c adds behind the FFN of each layer.
 *
 * A rank has a range of the elements of each layer's embedding, in the table and in the layers' products; every rank
 * projects all of them, which is little, for the norm of the projection. */
#ifndef YK_MODEL_LAYER_INPUTS_H
#define YK_MODEL_LAYER_INPUTS_H

#include "model/layer.h"

typedef struct yk_layer_inputs {
  yk_linear *projection; /* NULL: the model has no such embeddings */
  void *norm_w, *table;  /* act [size], [vocab, n_layers, width]; table NULL if width is 0 */
  void *projected;       /* act [max_tokens, n_layers, size] */
  void *rows;            /* act [max_tokens, n_layers, width] */
  int32_t n_layers, size, first, width;
  float projected_scale, embed_scale;
} yk_layer_inputs;

/* yk_layer_inputs_measure - bytes of the weights; scratch: of projected and rows. All 0 without such embeddings. Reads
 *   no weights. Errors: those of the checkpoint. */
yk_status yk_layer_inputs_measure(const yk_rank_source *source, yk_sublayer_bytes *out, yk_err *err);

/* yk_layer_inputs_load - fill a zeroed object; nothing without such embeddings. After an error too, call
 *   yk_layer_inputs_destroy. embed_scale: rounded as that of embeddings. */
yk_status yk_layer_inputs_load(const yk_rank_loader *loader, yk_layer_inputs *out, yk_err *err);
void yk_layer_inputs_destroy(yk_device *dev, yk_layer_inputs *inputs);

/* yk_layer_inputs_run - the embeddings of a step's rows, from the embeddings of the tokens, act [n_tokens, hidden].
 *   Errors name the operation. Thread: the rank's own. */
yk_status yk_layer_inputs_run(const yk_layer_inputs *inputs, const yk_sublayer_step *step, const void *embedded,
                              yk_err *err);

#endif
