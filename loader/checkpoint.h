/* checkpoint.h - a Hugging Face directory or a KuiperLLama file: validated configuration and views of the weights.
 *
 * Opening reads the configuration and every safetensors header, but no weights: those stay in the mapped files and are
 * paged in when a view is read. (Exception: biases that the model does not use are read, because a non-zero bias is
 * worth a warning.) A tensor may be in any shard; names decide. Tensors that the model does not use are ignored, with
 * one warning per kind (layers past num_hidden_layers, g_idx, experts, LoRA, others).
 *
 *   yk_checkpoint *checkpoint;
 *   YK_TRY(yk_checkpoint_open(dir, &log, &checkpoint, err));
 *   const yk_model_config *config = yk_checkpoint_config(checkpoint);
 *   char name[YK_WEIGHT_NAME_BYTES];
 *   yk_weight_name(config, YK_ROLE_DOWN, 3, name);
 *   yk_weight_module m = yk_weight_module_of(config, YK_ROLE_DOWN, 3);
 *   yk_weight_view down;
 *   YK_TRY(yk_checkpoint_linear(checkpoint, name, m.k, m.n, m.has_bias, &down, err));
 *
 * Thread: after open the object is constant; any thread may read it. Views are valid until close. */
#ifndef YK_LOADER_CHECKPOINT_H
#define YK_LOADER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "kernels/weight.h"
#include "loader/hf/hf_config.h"
#include "loader/model/weight_modules.h"

typedef struct yk_checkpoint yk_checkpoint;

/* A one-dimensional weight (norms), or one that is read as such. */
typedef struct yk_vector_view {
  int64_t n;
  yk_dtype dtype;
  const void *data; /* [n], possibly unaligned */
} yk_vector_view;

/* yk_checkpoint_open - open a directory (configuration, index and headers) or a KuiperLLama file (kuiper_layout.h),
 *   named directly or the only such file in a directory without safetensors files.
 *   Warnings (a layer whose format contradicts modules_to_not_convert, a bias that the model does not use, tensors
 *   missing from the index or unused) go to log, which may be NULL. An lm_head that differs from the embedding is used
 *   although tie_word_embeddings is true, and the configuration then says false.
 *   Errors: YK_E_IO, YK_E_FORMAT, YK_E_UNSUPPORTED, YK_E_NOMEM; messages name file and tensor. An unsupported
 *   configuration is reported before any error in the weights. A directory that contains only PyTorch .bin, GGUF or
 *   other weights, or a GGUF file given as path, is YK_E_UNSUPPORTED, and the message describes the conversion. */
yk_status yk_checkpoint_open(const char *path, const yk_log *log, yk_checkpoint **out, yk_err *err);

/* yk_checkpoint_open_changed - yk_checkpoint_open with a changed configuration (changes NULL: unchanged). A KuiperLLama
 *   file accepts no changes: YK_E_UNSUPPORTED. */
yk_status yk_checkpoint_open_changed(const char *path, const yk_config_changes *changes, const yk_log *log,
                                     yk_checkpoint **out, yk_err *err);

/* yk_checkpoint_open_for_sizes - yk_checkpoint_open_changed for planning: if the directory has no weights of any
 *   format, the configuration alone decides the format and type of each weight: quantised, except for lm_head and the
 *   modules that the configuration excludes, or the model's dtype. The data of such views is NULL. */
yk_status yk_checkpoint_open_for_sizes(const char *path, const yk_config_changes *changes, const yk_log *log,
                                       yk_checkpoint **out, yk_err *err);

/* yk_checkpoint_has_weights - false if formats are assumed because the directory has no weights. */
bool yk_checkpoint_has_weights(const yk_checkpoint *checkpoint);

/* yk_checkpoint_bytes - bytes of all tensors in the files, used by the model or not. */
int64_t yk_checkpoint_bytes(const yk_checkpoint *checkpoint);

/* yk_checkpoint_settle - returns status; but YK_E_IO, with err naming the file, if a file was truncated or could not be
 *   read since it was opened: its views then read as zeros. Call it after reading views, before their values are used
 *   or written. NULL is allowed. */
yk_status yk_checkpoint_settle(const yk_checkpoint *checkpoint, yk_status status, yk_err *err);

/* yk_checkpoint_close - unmap all files; views become invalid. NULL is allowed. */
void yk_checkpoint_close(yk_checkpoint *checkpoint);

/* yk_checkpoint_config_text - the model's config.json, malloc'd; the caller frees it. For a directory its own
 *   config.json; for a KuiperLLama file the config.json in its folder, or one built from the header.
 *   tie_word_embeddings is false if the files have a separate head. path: as opened. Errors: YK_E_IO, YK_E_FORMAT,
 *   YK_E_NOMEM. */
yk_status yk_checkpoint_config_text(const yk_checkpoint *checkpoint, const char *path, char **text, yk_err *err);

const yk_model_config *yk_checkpoint_config(const yk_checkpoint *checkpoint);

/* yk_checkpoint_linear - the weight of one linear layer with k inputs and n outputs.
 *   module: its name, without a suffix. The format follows from the tensors present: module.qweight or .weight_packed
 *   with companions (packed as configured), or module.weight: floats, or 8 bits with their scale. Both or neither is an
 *   error.
 *   has_bias: module.bias must exist; otherwise it is not used.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found: dtype, shape, missing tensor, g_idx out of range, k
 *   not a multiple of the group, n not a multiple of the packing's unit; YK_E_UNSUPPORTED for quantised tensors in a
 *   checkpoint whose configuration names no quantisation. *out is unchanged on error. */
yk_status yk_checkpoint_linear(const yk_checkpoint *checkpoint, const char *module, int64_t k, int64_t n, bool has_bias,
                               yk_weight_view *out, yk_err *err);

/* yk_checkpoint_matrix - module.weight as float16, bfloat16 or float32 [n_rows, n_columns] (the embedding), as a plain
 *   weight of k = n_columns inputs and n = n_rows outputs, the form of a tied lm_head. Errors as above. */
yk_status yk_checkpoint_matrix(const yk_checkpoint *checkpoint, const char *module, int64_t n_rows, int64_t n_columns,
                               yk_weight_view *out, yk_err *err);

/* yk_checkpoint_vector - the vector of a role, as float16, bfloat16 or float32 [n]: for a norm, the weights that suit
 *   the layers that read it; for a router, the correction of its choice (e_score_correction_bias), one number per
 *   expert; for a convolution, the YK_DELTA_TAPS or YK_MAMBA_TAPS weights of each channel. layer is ignored for the
 *   final norm. Errors: as above; YK_E_FORMAT for a NaN in a correction;
 *   YK_E_UNSUPPORTED if layers need different weights of one norm, or if the final norm has an offset (offsets of
 *   layers' norms: yk_checkpoint_find). */
yk_status yk_checkpoint_vector(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t n,
                               yk_vector_view *out, yk_err *err);

/* yk_checkpoint_add_offset - if the norm before a linear role has an offset, store it in the role's weight as x_offset.
 *   The layer's inputs are then floats, because inputs with the offset added cannot be rounded as the checkpoint
 *   specifies. Errors: as above. */
yk_status yk_checkpoint_add_offset(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer,
                                   yk_weight_view *weight, yk_err *err);

/* The weight of one place in the model: a role, layer and expert. */
typedef struct yk_found_weight {
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_module module;
  yk_weight_view view; /* view of the whole module, including the offset of the norm before the place, if any */
  bool may_have_order; /* the configuration allows an order of inputs other than by groups, whether or not this weight
                        * has such an order */
} yk_found_weight;

/* yk_checkpoint_find - the weight of a linear role, or of the embedding, for which the module has k = hidden size.
 *   Errors: those of yk_checkpoint_linear, yk_checkpoint_matrix and yk_checkpoint_add_offset. */
yk_status yk_checkpoint_find(const yk_checkpoint *checkpoint, const yk_weight_place *place, yk_found_weight *out,
                             yk_err *err);

/* yk_checkpoint_kv_channels - the static scales and offsets of K's or V's (role) channels first .. first + n - 1 in a
 *   layer's KV cache, if config's quant.kv_format has them. f32 [n] each; kernels/kv_cache.h has the formula.
 *   Errors: YK_E_FORMAT naming file and tensor; YK_E_UNSUPPORTED. Both arrays are undefined on error. */
yk_status yk_checkpoint_kv_channels(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t first,
                                    int64_t n, float *scales, float *offsets, yk_err *err);

/* yk_checkpoint_prefetch - hint to the operating system that a view's tensors will be read soon. Never fails. */
void yk_checkpoint_prefetch(const yk_weight_view *weight);

#endif
