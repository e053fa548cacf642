/* layer_inputs.h - the separate embeddings of a token for each layer (Gemma 4, E2B and E4B): a row of a table plus a
 * projection of the token's embedding (layer_inputs in kernels/device.h). layer_input.c applies them after each FFN.
 *
 * A rank has the elements first .. first + width - 1 of each layer's embedding, in the table and in layer_input.c. The
 * projection is small and its norm needs all elements, so every rank computes the whole projection. */
#ifndef YK_MODEL_LAYER_INPUTS_H
#define YK_MODEL_LAYER_INPUTS_H

#include "model/layer.h"

typedef struct yk_layer_inputs {
  yk_linear *projection; /* NULL: the model has no such embeddings */
  void *norm_w, *table;  /* act [size], [vocab, n_layers, width]; table NULL if width is 0 */
  void *projected;       /* act [max_tokens, n_layers, size] */
  void *rows;            /* act [max_tokens, n_layers, width]: the embeddings of the step's rows */
  void *embedded;        /* act [max_tokens, hidden]: the tokens' embeddings, which the first stage has in
                                         * the residual; NULL there, and without embeddings of layers */
  int32_t n_layers, size, first, width; /* n_layers: of the stage */
  float projected_scale, embed_scale;
} yk_layer_inputs;

/* yk_layer_inputs_measure - weights: bytes of projection, norm and table; scratch: bytes of projected, rows and
 *   embedded. All 0 without such embeddings. Reads no weights. Errors: those of the checkpoint. Thread: any. */
yk_status yk_layer_inputs_measure(const yk_rank_source *source, yk_sublayer_bytes *out, yk_err *err);

/* yk_layer_inputs_load - fills a zeroed *out; no effect without such embeddings. embed_scale is sqrt(size), rounded to
 *   act. After an error too, call yk_layer_inputs_destroy. Errors: those of checkpoint and device, YK_E_NOMEM. */
yk_status yk_layer_inputs_load(const yk_rank_loader *loader, yk_layer_inputs *out, yk_err *err);
void yk_layer_inputs_destroy(yk_device *dev, yk_layer_inputs *inputs);

/* yk_layer_inputs_run - writes inputs->rows for the rows of step->batch. embedded: act [n_tokens, hidden], the tokens'
 *   embeddings, complete on this rank. Errors name the operation. Thread: the rank's own. */
yk_status yk_layer_inputs_run(const yk_layer_inputs *inputs, const yk_sublayer_step *step, const void *embedded,
                              yk_err *err);

#endif
