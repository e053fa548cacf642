/* checkpoint.h - a Hugging Face directory, or a KuiperLLama file: validated configuration and views of its weights.
 *
 * Opening reads the configuration and every safetensors header, not the weights: those stay in the mapped files and are
 * paged in by whoever reads a view. (But for biases that the model has no use for: one that is not zero is worth a
 * warning.) One tensor may lie in any shard; names decide. Tensors that the model has no use for are ignored, with one
 * warning for each kind of them (layers past num_hidden_layers, g_idx, experts, LoRA, others).
 *
 *   yk_checkpoint *checkpoint;
 *   YK_TRY(yk_checkpoint_open(dir, &log, &checkpoint, err));
 *   const yk_model_config *config = yk_checkpoint_config(checkpoint);
 *   char name[YK_WEIGHT_NAME_BYTES];
 *   yk_weight_name(config->family, YK_ROLE_DOWN, 3, name);
 *   yk_weight_module m = yk_weight_module_of(config, YK_ROLE_DOWN);
 *   yk_weight_view down;
 *   YK_TRY(yk_checkpoint_linear(checkpoint, name, m.k, m.n, m.has_bias, &down, err));
 *
 * Thread: after open the object is constant; any thread may read it. Views live until close. */
#ifndef YK_LOADER_CHECKPOINT_H
#define YK_LOADER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "kernels/weight.h"
#include "loader/hf/hf_config.h"
#include "loader/model/weight_names.h"

typedef struct yk_checkpoint yk_checkpoint;

/* A one-dimensional weight (norms). */
typedef struct yk_vector_view {
  int64_t n;
  yk_dtype dtype;
  const void *data; /* [n], maybe unaligned */
} yk_vector_view;

/* yk_checkpoint_open - configuration, index and headers of a directory; or a KuiperLLama file (kuiper_layout.h), named
 *   or the only one in a directory without safetensors files.
 *   Warnings (a layer whose format contradicts modules_to_not_convert, a bias that the model does not use, tensors
 *   missing from the index or without a use) go to log, which may be NULL. An lm_head that differs from the embedding
 *   is used although tie_word_embeddings is true, and the configuration then says false.
 *   Errors: YK_E_IO, YK_E_FORMAT, YK_E_UNSUPPORTED, YK_E_NOMEM; messages name file and tensor. A configuration that is
 *   not supported comes before anything about weights. A directory that holds only PyTorch .bin, GGUF or other weights,
 *   or a GGUF file in its place, is YK_E_UNSUPPORTED, and the message says how to convert them. */
yk_status yk_checkpoint_open(const char *path, const yk_log *log, yk_checkpoint **out, yk_err *err);

/* yk_checkpoint_open_changed - the same with the configuration changed (NULL: not). A KuiperLLama file takes no
 *   changes: YK_E_UNSUPPORTED. */
yk_status yk_checkpoint_open_changed(const char *path, const yk_config_changes *changes, const yk_log *log,
                                     yk_checkpoint **out, yk_err *err);

/* yk_checkpoint_open_for_sizes - as yk_checkpoint_open_changed, but where the directory holds no weights of any format
 *   the configuration alone decides the format and type of each: quantised but for lm_head and what it leaves out, or
 *   the model's dtype. The data of such views is NULL. */
yk_status yk_checkpoint_open_for_sizes(const char *path, const yk_config_changes *changes, const yk_log *log,
                                       yk_checkpoint **out, yk_err *err);

/* yk_checkpoint_has_weights - false where formats are assumed. */
bool yk_checkpoint_has_weights(const yk_checkpoint *checkpoint);

/* yk_checkpoint_bytes - of all tensors in its files, whether or not the model uses them. */
int64_t yk_checkpoint_bytes(const yk_checkpoint *checkpoint);

/* yk_checkpoint_settle - status; but YK_E_IO, with err naming the file, where a file was cut short or could not be read
 *   since it was opened: its views then read as zeros. Call it when views have been read, before their values are used
 *   or written. NULL is allowed. */
yk_status yk_checkpoint_settle(const yk_checkpoint *checkpoint, yk_status status, yk_err *err);

/* yk_checkpoint_close - unmap everything; views are then gone. NULL is allowed. */
void yk_checkpoint_close(yk_checkpoint *checkpoint);

/* yk_checkpoint_config_text - the model's config.json, malloc'd and the caller's: the directory's, or for a
 *   KuiperLLama file the one beside it or made of its header; with tie_word_embeddings false where the files have a
 *   head of their own. path: as it was opened. Errors: YK_E_IO, YK_E_FORMAT, YK_E_NOMEM. */
yk_status yk_checkpoint_config_text(const yk_checkpoint *checkpoint, const char *path, char **text, yk_err *err);

const yk_model_config *yk_checkpoint_config(const yk_checkpoint *checkpoint);

/* yk_checkpoint_linear - the weight of one linear layer with k inputs and n outputs.
 *   module: its name, without a suffix. Which tensors exist decides the format: module.qweight or .weight_packed with
 *   what belongs to it (packed as the configuration says), or module.weight: floats, or 8 bits with their scale. Both
 *   or neither is an error.
 *   has_bias: module.bias must exist; otherwise it is not used.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found: dtype, shape, missing tensor, g_idx out of range,
 *   k not a multiple of the group, n not a multiple of what the packing packs; YK_E_UNSUPPORTED for quantised tensors
 *   in a checkpoint whose configuration names no quantisation. *out is untouched on error. */
yk_status yk_checkpoint_linear(const yk_checkpoint *checkpoint, const char *module, int64_t k, int64_t n, bool has_bias,
                               yk_weight_view *out, yk_err *err);

/* yk_checkpoint_matrix - module.weight as float16, bfloat16 or float32 [n_rows, n_columns] (the embedding), as a plain
 *   weight of k = n_columns inputs and n = n_rows outputs, which is what a tied lm_head is. Errors as above. */
yk_status yk_checkpoint_matrix(const yk_checkpoint *checkpoint, const char *module, int64_t n_rows, int64_t n_columns,
                               yk_weight_view *out, yk_err *err);

/* yk_checkpoint_vector - the vector that belongs to a role, as float16, bfloat16 or float32 [n]: the weights of a norm
 *   that the layers that read it want; of a router the correction of its choice (e_score_correction_bias), a number for
 *   each of n experts. layer is ignored for the final norm. Errors: as above; YK_E_FORMAT for a NaN in a correction;
 *   YK_E_UNSUPPORTED where layers want different weights of one norm, or for an offset of the final norm (offsets of
 *   layers' norms: yk_checkpoint_find). */
yk_status yk_checkpoint_vector(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t n,
                               yk_vector_view *out, yk_err *err);

/* yk_checkpoint_add_offset - where the norm before a linear role has an offset: into the role's weight, as x_offset.
 *   Its inputs are then floats: with the offset in them they cannot be rounded as the checkpoint wants it. Errors: as
 *   above. */
yk_status yk_checkpoint_add_offset(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer,
                                   yk_weight_view *weight, yk_err *err);

/* The weight of a place in the model. */
typedef struct yk_found_weight {
  char name[YK_WEIGHT_NAME_BYTES]; /* of its module */
  yk_weight_module module;
  yk_weight_view view; /* of the whole module; with the offset of the norm before the place, where there is one */
  bool may_have_order; /* the configuration lets inputs be in another order than groups, whether or not this weight's
                          are */
} yk_found_weight;

/* yk_checkpoint_find - the weight of a linear role, or of the embedding, whose module then has k = hidden size.
 *   Errors: those of yk_checkpoint_linear, yk_checkpoint_matrix and yk_checkpoint_add_offset. */
yk_status yk_checkpoint_find(const yk_checkpoint *checkpoint, const yk_weight_place *place, yk_found_weight *out,
                             yk_err *err);

/* yk_checkpoint_kv_channels - the static scales and offsets of a layer's KV cache, of K's or V's (role) channels first
 *   .. first + n - 1: what config's quant.kv_format says there are. f32 [n] each; kernels/kv_cache.h has the formula.
 *   Errors: YK_E_FORMAT naming file and tensor; YK_E_UNSUPPORTED. Both are undefined on error. */
yk_status yk_checkpoint_kv_channels(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t first,
                                    int64_t n, float *scales, float *offsets, yk_err *err);

/* yk_checkpoint_prefetch - tell the operating system that a view's tensors will be read soon. A hint: never fails. */
void yk_checkpoint_prefetch(const yk_weight_view *weight);

#endif
