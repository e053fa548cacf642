/* rank_loader.h - loads one rank's slices of the checkpoint to its device. */
#ifndef YK_MODEL_RANK_LOADER_H
#define YK_MODEL_RANK_LOADER_H

#include "kernels/device.h"
#include "model/adapted.h"
#include "model/rank_specs.h"
#include "model/repack.h"

typedef struct yk_rank_loader {
  yk_rank_source source;
  yk_device *dev;
  void (*on_bytes)(void *user, int64_t n_bytes); /* weight bytes just loaded; may be NULL */
  void *user;
  yk_adapted *adapted;           /* layers that adapters may change; the model's */
  const struct yk_layer *layers; /* [layers of the stage]; those before the layer that is being loaded are complete */
  yk_rank_buffer *repacked;      /* memory for weights that devices take in another form; the caller frees it */
} yk_rank_loader;

/* yk_rank_alloc - zeroed device memory; *out stays NULL if n_bytes is 0. Errors: YK_E_CAPACITY. */
yk_status yk_rank_alloc(const yk_rank_loader *loader, size_t n_bytes, void **out, yk_err *err);

/* yk_rank_load_vector - a norm's n weights, plus the model's norm_offset, times scale, as act [n].
 *   Errors: of checkpoint and device. */
yk_status yk_rank_load_vector(const yk_rank_loader *loader, yk_weight_role role, int32_t layer, int64_t n, float scale,
                              void **out, yk_err *err);

/* yk_rank_load_norm - a norm's weights from a view, plus the model's norm_offset, as act [view->n]; *out stays NULL if
 *   n is 0. Errors: those of the device. */
yk_status yk_rank_load_norm(const yk_rank_loader *loader, const yk_vector_view *view, void **out, yk_err *err);

/* yk_rank_load_head_norm - the norm of q's or k's heads, as act [head_dim] in the device's order of a head's elements
 *   (rope.h); ones with qk_norm_is_plain, whose norms have no weights in the checkpoint. Errors: as above. */
yk_status yk_rank_load_head_norm(const yk_rank_loader *loader, yk_weight_role role, int32_t layer, void **out,
                                 yk_err *err);

/* yk_rank_load_floats - a vector as float32 [view->n] on the device. Errors: YK_E_NOMEM, those of the device. */
yk_status yk_rank_load_floats(const yk_rank_loader *loader, const yk_vector_view *view, float **out, yk_err *err);

/* yk_rank_upload_floats - n floats to device memory; *out stays NULL if n is 0. Errors: those of the device. */
yk_status yk_rank_upload_floats(const yk_rank_loader *loader, const float *floats, int64_t n, float **out, yk_err *err);

/* yk_rank_load_embedding - the rows of the rank's vocabulary ids as act [share.vocab, hidden]; NULL if the rank has
 *   none. */
yk_status yk_rank_load_embedding(const yk_rank_loader *loader, void **out, yk_err *err);

/* yk_rank_load_layer_embedding - the table of the separate embeddings of the stage's layers, cut to the elements
 *   share.layer_input, as act [vocab, layers of the stage, size of layer_input]; *out stays NULL if the range is empty.
 *   Errors: those of the checkpoint and the device, YK_E_NOMEM. */
yk_status yk_rank_load_layer_embedding(const yk_rank_loader *loader, void **out, yk_err *err);

/* yk_rank_load_linear - a linear layer in the device's own form, after its parts are repacked.
 *   Errors: those of linear_create and yk_repack_layer. */
yk_status yk_rank_load_linear(const yk_rank_loader *loader, const yk_linear_spec *spec, yk_linear **out, yk_err *err);

/* yk_rank_load_matrix - a part's slice as act [size of n, size of k] in device memory, dequantised if necessary; NULL
 *   if the slice is empty. For operations that multiply with the matrix themselves. Orders are not applied.
 *   Errors: those of alloc, upload and yk_repack. */
yk_status yk_rank_load_matrix(const yk_rank_loader *loader, const yk_linear_part *part, void **out, yk_err *err);

#endif
