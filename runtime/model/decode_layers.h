/* decode_layers.h - the layers of a rank's model as one operation of its device (kernels/decode_layers.h). */
#ifndef YK_MODEL_DECODE_LAYERS_H
#define YK_MODEL_DECODE_LAYERS_H

#include "model/model.h"

/* yk_decode_layers_load - sets model->decode, whose layers and buffers are complete; it stays NULL if the device lacks
 *   the operation or a kernel for these layers, and if the operation cannot express the model: adapters, a layer of
 *   another kind, norms of results, gains, embeddings of layers, layers of different shapes, several ranks whose
 *   communicator has no peer_wait. n_adapters: of the model's limits. Errors: YK_E_NOMEM, those of the device. Thread:
 *   the rank's own. */
yk_status yk_decode_layers_load(yk_model *model, int32_t n_adapters, yk_err *err);

/* yk_decode_layers_connect - opens the memories of a group's ranks to each other's kernels. model->decode becomes NULL
 *   on all ranks if it is NULL on one, if the communicator cannot open the memories or end kernels that wait for each
 *   other, and if the ranks' forms differ. Every rank of the group calls this function once, before its first step.
 *   Errors: those of the communicator and the device. Thread: the rank's own. */
yk_status yk_decode_layers_connect(yk_model *model, yk_err *err);

/* yk_decode_layers_unload - before the layers are destroyed; model->decode may be NULL. */
void yk_decode_layers_unload(yk_model *model);

#endif
