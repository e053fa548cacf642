#include "loader/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/model_path.h"
#include "kernels/gated_delta.h"
#include "kernels/mamba.h"
#include "loader/bare_names.h"
#include "loader/foreign/kuiper_config.h"
#include "loader/fused_experts.h"
#include "loader/hf/json_edit.h"
#include "loader/hybrid_names.h"
#include "loader/integers/quant_tensors.h"
#include "loader/kv_scales.h"
#include "loader/model/quant_rules.h"
#include "loader/own_head.h"
#include "loader/quant_method.h"
#include "loader/remarks.h"
#include "loader/safetensors/dir.h"
#include "loader/safetensors/other_formats.h"
#include "loader/safetensors/shards.h"
#include "loader/safetensors/tensors.h"
#include "loader/text_names.h"

struct yk_checkpoint {
  yk_model_config config;
  yk_kuiper *kuiper; /* the weights' file unless it is a safetensors file; shards are views into it */
  yk_shards *shards; /* NULL if there are no weights and only sizes are needed */
  bool is_untied;    /* the files have a separate head, although the configuration ties it */
};

static yk_status require_floats(const yk_checkpoint *checkpoint, const char *module, const yk_tensor_wish *wish,
                                yk_dtype *dtype, const void **data, yk_err *err)
{
  const yk_tensor *tensor;
  YK_TRY(yk_tensors_require(checkpoint->shards, module, wish, dtype, &tensor, err));
  *data = tensor->data;
  return YK_OK;
}

yk_status yk_checkpoint_matrix(const yk_checkpoint *checkpoint, const char *module, int64_t n_rows, int64_t n_columns,
                               yk_weight_view *out, yk_err *err)
{
  yk_weight_view view = {.format = YK_WEIGHT_PLAIN, .k = n_columns, .n = n_rows, .dtype = checkpoint->config.dtype};
  const yk_tensor_wish wish = {"weight", YK_TENSORS_FLOAT, 2, {n_rows, n_columns}};
  const yk_tensor *tensor;
  if (checkpoint->shards) {
    YK_TRY(yk_tensors_require(checkpoint->shards, module, &wish, &view.dtype, &tensor, err));
    view.plain = tensor->data;
    view.plain_stride = tensor->column_stride;
    view.tensor = tensor->name;
  }
  *out = view;
  return YK_OK;
}

/* The configuration's format for a layer whose weights are missing. lm_head stays unquantised, unless the targets of
 * compressed-tensors include it. */
static yk_status assume_linear(const yk_checkpoint *checkpoint, const char *module, yk_weight_view *view, yk_err *err)
{
  const yk_model_config *config = &checkpoint->config;
  const yk_quant_scheme *scheme;
  char lm_head[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(config, YK_ROLE_LM_HEAD, 0, lm_head);
  view->dtype = view->bias_dtype = config->dtype;
  view->format = YK_WEIGHT_PLAIN;
  YK_TRY(yk_quant_scheme_of(&config->quant, module, &scheme, err));
  if (!scheme || (strcmp(module, lm_head) == 0 && !config->quant.only_named)) return YK_OK;
  return yk_quant_method_row_of(config->quant.method)->begin(module, scheme, view, err);
}

/* The tensors decide whether a layer is quantised, the configuration how. */
static yk_status read_quantised(const yk_checkpoint *checkpoint, const char *module, const char *suffix,
                                yk_weight_view *view, yk_err *err)
{
  const yk_quant_config *quant = &checkpoint->config.quant;
  const char *source = yk_shards_source(checkpoint->shards);
  const yk_quant_scheme *scheme;
  if (quant->method == YK_QUANT_NONE)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: tensor %s.%s is quantised, but config.json has no quantization_config", source, module,
                      suffix);
  YK_TRY(yk_quant_scheme_of_quantised(quant, module, &scheme, err));
  if (!scheme && quant->only_named)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s.%s is quantised, but no group of quantization_config names it",
                      source, module, suffix);
  if (!scheme) scheme = &quant->scheme; /* reported as a remark elsewhere */
  const char *expected = yk_packing_row_of(scheme->packing)->names.weight;
  if (strcmp(suffix, expected) != 0)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: %s: quantization_config's method has tensors %s.%s: expected that, found %s.%s", source,
                      module, module, expected, module, suffix);
  return yk_quant_method_row_of(quant->method)->read(checkpoint->shards, module, scheme, view, err);
}

static yk_status read_bias(const yk_checkpoint *checkpoint, const char *module, yk_weight_view *view, yk_err *err)
{
  const yk_tensor_wish bias = {"bias", YK_TENSORS_FLOAT, 1, {view->n, 0}};
  return require_floats(checkpoint, module, &bias, &view->bias_dtype, &view->bias, err);
}

/* The description names every tensor, so no format is detected. */
static yk_status read_described(const yk_checkpoint *checkpoint, const char *module, bool has_bias,
                                yk_weight_view *view, yk_err *err)
{
  const yk_quant_scheme *scheme;
  const yk_quant_config *quant = &checkpoint->config.quant;
  YK_TRY(yk_quant_scheme_of(quant, module, &scheme, err));
  if (scheme)
    YK_TRY(yk_quant_method_row_of(quant->method)->read(checkpoint->shards, module, scheme, view, err));
  else
    YK_TRY(yk_checkpoint_matrix(checkpoint, module, view->n, view->k, view, err));
  return has_bias && !view->product_bias ? read_bias(checkpoint, module, view, err) : YK_OK;
}

yk_status yk_checkpoint_linear(const yk_checkpoint *checkpoint, const char *module, int64_t k, int64_t n, bool has_bias,
                               yk_weight_view *out, yk_err *err)
{
  yk_weight_view view = {.k = k, .n = n};
  if (!checkpoint->shards) {
    YK_TRY(assume_linear(checkpoint, module, &view, err));
    *out = view;
    return YK_OK;
  }
  if (yk_quant_method_row_of(checkpoint->config.quant.method)->is_described) {
    YK_TRY(read_described(checkpoint, module, has_bias, &view, err));
    *out = view;
    return YK_OK;
  }
  const char *quantised = yk_quant_suffix(checkpoint->shards, module);
  bool plain = yk_tensors_find(checkpoint->shards, module, "weight", NULL) != NULL;
  if (quantised && strcmp(quantised, "weight") == 0) plain = false;
  const char *source = yk_shards_source(checkpoint->shards);
  if (quantised && plain)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected one of %s.weight and %s.%s, found both", source, module, module,
                      quantised);
  if (!quantised && !plain)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: tensor %s.weight (or a quantised one) is missing, expected [%" PRId64 ", %" PRId64 "]",
                      source, module, n, k);
  if (quantised)
    YK_TRY(read_quantised(checkpoint, module, quantised, &view, err));
  else
    YK_TRY(yk_checkpoint_matrix(checkpoint, module, n, k, &view, err));
  if (has_bias) YK_TRY(read_bias(checkpoint, module, &view, err));
  *out = view;
  return YK_OK;
}

static yk_status find_norm(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, yk_norm_tensors *out,
                           yk_err *err)
{
  bool may_differ = role == YK_ROLE_ATTENTION_NORM || role == YK_ROLE_FFN_NORM || role == YK_ROLE_FINAL_NORM;
  *out = (yk_norm_tensors){"weight", NULL};
  const yk_quant_method_row *method = yk_quant_method_row_of(checkpoint->config.quant.method);
  if (!may_differ || !checkpoint->shards || !method->find_norm) return YK_OK;
  return method->find_norm(&checkpoint->config, checkpoint->shards, role, layer, out, err);
}

static yk_status read_norm(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t n,
                           yk_vector_view *out, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_norm_tensors norm;
  yk_vector_view view = {.n = n, .dtype = checkpoint->config.dtype};
  yk_weight_name(&checkpoint->config, role, layer, name);
  YK_TRY(find_norm(checkpoint, role, layer, &norm, err));
  if (norm.offset && role == YK_ROLE_FINAL_NORM)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: tensor %s.%s: an offset of this norm is not supported; supported: offsets of layers' norms",
                      yk_shards_source(checkpoint->shards), name, norm.offset);
  const yk_tensor_wish wish = {norm.weight, YK_TENSORS_FLOAT, 1, {n, 0}};
  if (checkpoint->shards) YK_TRY(require_floats(checkpoint, name, &wish, &view.dtype, &view.data, err));
  *out = view;
  return YK_OK;
}

/* The correction of a choice is no part of a weight: a NaN would choose experts without ever appearing in a result. */
static yk_status refuse_nan(const yk_vector_view *view, const char *name, yk_err *err)
{
  const size_t element_bytes = yk_dtype_bytes(view->dtype);
  for (int64_t i = 0; i < view->n; i++) {
    uint32_t element = 0; /* the source may be unaligned */
    memcpy(&element, (const char *)view->data + (size_t)i * element_bytes, element_bytes);
    if (isnan(yk_dtype_load(view->dtype, &element, 0)))
      return yk_err_set(err, YK_E_FORMAT, "tensor %s: expected numbers, found NaN at %" PRId64, name, i);
  }
  return YK_OK;
}

/* The shape of a parameter's tensor. */
static yk_tensor_wish wish_of(const yk_checkpoint *checkpoint, yk_weight_role role, int64_t n)
{
  if (role == YK_ROLE_DELTA_CONV)
    return (yk_tensor_wish){"weight", YK_TENSORS_FLOAT, 3, {n / YK_DELTA_TAPS, 1, YK_DELTA_TAPS}};
  if (role == YK_ROLE_MAMBA_CONV)
    return (yk_tensor_wish){"weight", YK_TENSORS_FLOAT, 3, {n / YK_MAMBA_TAPS, 1, YK_MAMBA_TAPS}};
  if (role == YK_ROLE_CHOICE_BIAS && checkpoint->config.family == YK_FAMILY_ERNIE4_5_MOE)
    return (yk_tensor_wish){"weight", YK_TENSORS_FLOAT, 2, {1, n}};
  return (yk_tensor_wish){"weight", YK_TENSORS_FLOAT, 1, {n, 0}};
}

/* A vector of a gated delta net or of Mamba2, attention sinks, or the correction of a router's choice. Some are tensors
 * without a suffix, whose last name is then the suffix. */
static yk_status read_parameter(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t n,
                                yk_vector_view *out, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_vector_view view = {.n = n, .dtype = YK_F32};
  yk_tensor_wish wish = wish_of(checkpoint, role, n);
  yk_weight_name(&checkpoint->config, role, layer, name);
  char *last = yk_weight_is_bare(role) ? strrchr(name, '.') : NULL;
  if (last) {
    *last = 0;
    wish.suffix = last + 1;
  }
  if (checkpoint->shards) YK_TRY(require_floats(checkpoint, name, &wish, &view.dtype, &view.data, err));
  if (last) *last = '.';
  if (checkpoint->shards && role == YK_ROLE_CHOICE_BIAS) YK_TRY(refuse_nan(&view, name, err));
  *out = view;
  return YK_OK;
}

yk_status yk_checkpoint_vector(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t n,
                               yk_vector_view *out, yk_err *err)
{
  if (yk_weight_is_bare(role) || role == YK_ROLE_DELTA_CONV || role == YK_ROLE_MAMBA_CONV)
    return read_parameter(checkpoint, role, layer, n, out, err);
  return read_norm(checkpoint, role, layer, n, out, err);
}

static bool reads_ffn_norm(yk_weight_role role)
{
  switch (role) {
  case YK_ROLE_GATE:
  case YK_ROLE_UP:
  case YK_ROLE_ROUTER:
  case YK_ROLE_SHARED_SCORE:
  case YK_ROLE_SHARED_GATE:
  case YK_ROLE_SHARED_UP:
  case YK_ROLE_EXPERT_GATE:
  case YK_ROLE_EXPERT_UP: return true;
  default: return false;
  }
}

yk_status yk_checkpoint_add_offset(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer,
                                   yk_weight_view *weight, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_norm_tensors norm;
  bool after_attention_norm = role == YK_ROLE_Q || role == YK_ROLE_K || role == YK_ROLE_V;
  yk_weight_role before = after_attention_norm ? YK_ROLE_ATTENTION_NORM : YK_ROLE_FFN_NORM;
  if (!after_attention_norm && !reads_ffn_norm(role)) return YK_OK;
  YK_TRY(find_norm(checkpoint, before, layer, &norm, err));
  if (!norm.offset) return YK_OK;
  yk_weight_name(&checkpoint->config, before, layer, name);
  const yk_tensor_wish wish = {norm.offset, YK_TENSORS_FLOAT, 1, {weight->k, 0}};
  YK_TRY(require_floats(checkpoint, name, &wish, &weight->x_offset_dtype, &weight->x_offset, err));
  weight->folds_bias = true;
  weight->inputs.kind = YK_INPUTS_FLOAT;
  return YK_OK;
}

/* If matching the name takes too many steps, the result is false: yk_checkpoint_linear has refused the name already. */
static bool may_have_order(const yk_model_config *config, const char *module)
{
  const yk_quant_scheme *scheme;
  yk_err refusal = YK_ERR_INIT;
  return yk_quant_scheme_of(&config->quant, module, &scheme, &refusal) == YK_OK && scheme && scheme->act_order;
}

yk_status yk_checkpoint_find(const yk_checkpoint *checkpoint, const yk_weight_place *place, yk_found_weight *out,
                             yk_err *err)
{
  const yk_model_config *config = &checkpoint->config;
  yk_weight_module *module = &out->module;
  yk_weight_name_of_expert(config, place->role, place->layer, place->expert, out->name);
  out->may_have_order = false;
  if (place->role == YK_ROLE_EMBEDDING || place->role == YK_ROLE_LAYER_EMBEDDING) {
    const int64_t width =
        place->role == YK_ROLE_EMBEDDING ? config->hidden_size : (int64_t)config->n_layers * config->layer_input_size;
    *module = (yk_weight_module){.k = width, .n = config->vocab_size, .n_own = config->vocab_size};
    return yk_checkpoint_matrix(checkpoint, out->name, module->n, module->k, &out->view, err);
  }
  *module = yk_weight_module_of(config, place->role, place->layer);
  if (yk_weight_is_float(place->role)) {
    YK_TRY(yk_checkpoint_matrix(checkpoint, out->name, module->n, module->k, &out->view, err));
    if (module->has_bias && checkpoint->shards) YK_TRY(read_bias(checkpoint, out->name, &out->view, err));
  } else {
    YK_TRY(yk_checkpoint_linear(checkpoint, out->name, module->k, module->n, module->has_bias, &out->view, err));
    out->may_have_order = may_have_order(config, out->name);
  }
  return yk_checkpoint_add_offset(checkpoint, place->role, place->layer, &out->view, err);
}

yk_status yk_checkpoint_kv_channels(const yk_checkpoint *checkpoint, yk_weight_role role, int32_t layer, int64_t first,
                                    int64_t n, float *scales, float *offsets, yk_err *err)
{
  return yk_kv_scales_read(&checkpoint->config, checkpoint->shards, role, layer, first, n, scales, offsets, err);
}

const yk_model_config *yk_checkpoint_config(const yk_checkpoint *checkpoint)
{
  return &checkpoint->config;
}

/* Takes ownership of *text and replaces it. */
static yk_status untie(char **text, yk_err *err)
{
  static const char name[] = "config.json";
  yk_json_doc *config, *edited;
  yk_strbuf changes = YK_STRBUF_INIT;
  yk_status status = yk_json_parse(name, *text, strlen(*text), NULL, &config, err);
  free(*text);
  YK_TRY(status);
  yk_strbuf_append_str(&changes, "{\"tie_word_embeddings\": false}");
  status = yk_json_edit(name, yk_json_root(config), &changes, NULL, &edited, err);
  yk_json_free(config);
  YK_TRY(status);
  *text = yk_json_to_text(yk_json_root(edited));
  yk_json_free(edited);
  return *text ? YK_OK : yk_err_set(err, YK_E_NOMEM, "%s: no memory", name);
}

yk_status yk_checkpoint_config_text(const yk_checkpoint *checkpoint, const char *path, char **text, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES];
  size_t n_bytes;
  YK_TRY(yk_model_path_dir(path, dir, err));
  if (checkpoint->kuiper) return yk_kuiper_config_text(checkpoint->kuiper, dir, text, err);
  YK_TRY(yk_dir_read(dir, "config.json", true, text, &n_bytes, err));
  return checkpoint->is_untied ? untie(text, err) : YK_OK;
}

bool yk_checkpoint_has_weights(const yk_checkpoint *checkpoint)
{
  return checkpoint->shards != NULL;
}

/* Unsupported configurations are reported before missing files, because they explain more. Without a configuration the
 * format of the weights is reported. */
static yk_status read_config(const char *dir, const yk_config_changes *changes, const yk_log *log,
                             yk_checkpoint *checkpoint, yk_err *err)
{
  YK_TRY(yk_other_formats_check_path(dir, err));
  if (!yk_dir_has(dir, "config.json")) YK_TRY(yk_other_formats_check_dir(dir, err));
  return yk_model_config_load(dir, changes, log, &checkpoint->config, err);
}

/* A head in the files that differs from the embedding is used, as in transformers. */
static void choose_head(const yk_log *log, yk_checkpoint *checkpoint)
{
  yk_model_config *config = &checkpoint->config;
  char embedding[YK_WEIGHT_NAME_BYTES], head[YK_WEIGHT_NAME_BYTES];
  if (!config->tie_word_embeddings) return;
  yk_weight_name(config, YK_ROLE_EMBEDDING, 0, embedding);
  yk_weight_name(config, YK_ROLE_LM_HEAD, 0, head);
  yk_head found = yk_head_of(checkpoint->shards, embedding, head);
  checkpoint->is_untied = found == YK_HEAD_OWN;
  config->tie_word_embeddings = found != YK_HEAD_OWN;
  if (found == YK_HEAD_OWN)
    yk_log_write(log, YK_LOG_DEBUG, "%s is not %s: it is used, though tie_word_embeddings is true", head, embedding);
  if (found == YK_HEAD_SAME) yk_log_write(log, YK_LOG_DEBUG, "ignored: %s.weight, which is %s.weight", head, embedding);
}

static yk_status read_weights(const char *dir, const yk_log *log, yk_checkpoint *checkpoint, yk_err *err)
{
  YK_TRY(yk_shards_open(dir, log, &checkpoint->shards, err));
  yk_text_names_choose(checkpoint->shards, &checkpoint->config);
  YK_TRY(yk_bare_names_extend(checkpoint->shards, &checkpoint->config, err));
  YK_TRY(yk_hybrid_names_choose(checkpoint->shards, &checkpoint->config, err));
  YK_TRY(yk_fused_experts_split(&checkpoint->config, checkpoint->shards, err));
  const yk_quant_method_row *method = yk_quant_method_row_of(checkpoint->config.quant.method);
  if (method->check_files) YK_TRY(method->check_files(dir, checkpoint->shards, log, err));
  choose_head(log, checkpoint);
  return yk_remarks_write(&checkpoint->config, checkpoint->shards, log, err);
}

static yk_status read_kuiper(const char *path, const yk_log *log, yk_checkpoint *checkpoint, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES];
  YK_TRY(yk_model_path_dir(path, dir, err));
  YK_TRY(yk_kuiper_open(path, &checkpoint->kuiper, err));
  YK_TRY(yk_kuiper_config_load(checkpoint->kuiper, dir, log, &checkpoint->config, err));
  YK_TRY(yk_kuiper_shards(checkpoint->kuiper, &checkpoint->shards, err));
  return yk_remarks_write(&checkpoint->config, checkpoint->shards, log, err);
}

static yk_status read_dir(const char *dir, const yk_config_changes *changes, const yk_log *log, bool weights_may_lack,
                          yk_checkpoint *checkpoint, yk_err *err)
{
  char found[256];
  YK_TRY(read_config(dir, changes, log, checkpoint, err));
  bool lacks = weights_may_lack && !yk_dir_find_suffix(dir, ".safetensors", found);
  return lacks ? yk_other_formats_check_dir(dir, err) : read_weights(dir, log, checkpoint, err);
}

static bool changes_anything(const yk_config_changes *changes)
{
  return changes && (changes->config || changes->generation || changes->generation_dir || changes->has_plain_sampling);
}

static yk_status open_path(const char *path, const yk_config_changes *changes, const yk_log *log, bool weights_may_lack,
                           yk_checkpoint **out, yk_err *err)
{
  char kuiper_path[YK_PATH_BYTES];
  YK_TRY(yk_kuiper_find(path, kuiper_path, err));
  if (kuiper_path[0] && changes_anything(changes))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: a KuiperLLama file takes no changes of its configuration: put a config.json and a "
                      "generation_config.json into its folder instead",
                      kuiper_path);
  yk_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
  if (!checkpoint) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  yk_status status = kuiper_path[0] ? read_kuiper(kuiper_path, log, checkpoint, err)
                                    : read_dir(path, changes, log, weights_may_lack, checkpoint, err);
  status = yk_checkpoint_settle(checkpoint, status, err);
  if (status != YK_OK) {
    yk_checkpoint_close(checkpoint);
    return status;
  }
  *out = checkpoint;
  return YK_OK;
}

yk_status yk_checkpoint_open(const char *path, const yk_log *log, yk_checkpoint **out, yk_err *err)
{
  return open_path(path, NULL, log, false, out, err);
}

yk_status yk_checkpoint_open_changed(const char *path, const yk_config_changes *changes, const yk_log *log,
                                     yk_checkpoint **out, yk_err *err)
{
  return open_path(path, changes, log, false, out, err);
}

yk_status yk_checkpoint_open_for_sizes(const char *path, const yk_config_changes *changes, const yk_log *log,
                                       yk_checkpoint **out, yk_err *err)
{
  return open_path(path, changes, log, true, out, err);
}

yk_status yk_checkpoint_settle(const yk_checkpoint *checkpoint, yk_status status, yk_err *err)
{
  if (!checkpoint) return status;
  status = yk_shards_settle(checkpoint->shards, status, err);
  return checkpoint->kuiper ? yk_kuiper_settle(checkpoint->kuiper, status, err) : status;
}

void yk_checkpoint_close(yk_checkpoint *checkpoint)
{
  if (!checkpoint) return;
  yk_model_config_free(&checkpoint->config);
  yk_shards_close(checkpoint->shards);
  yk_kuiper_close(checkpoint->kuiper);
  free(checkpoint);
}

int64_t yk_checkpoint_bytes(const yk_checkpoint *checkpoint)
{
  int64_t n_bytes = 0;
  for (size_t i = 0; i < yk_shards_count(checkpoint->shards); i++)
    n_bytes += (int64_t)yk_shards_at(checkpoint->shards, i)->n_bytes;
  return n_bytes;
}

static void prefetch(const void *data, int64_t n_bytes)
{
  if (!data || n_bytes <= 0) return;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = (uintptr_t)data / page * page, end = (uintptr_t)data + (uintptr_t)n_bytes;
  madvise((void *)begin, end - begin, MADV_WILLNEED);
}

void yk_checkpoint_prefetch(const yk_weight_view *weight)
{
  if (!yk_weight_is_quantised(weight->format)) {
    prefetch(weight->plain, weight->k * weight->n * (int64_t)yk_dtype_bytes(weight->dtype));
    return;
  }
  const yk_packing_sizes sizes = yk_packing_bytes(weight);
  prefetch(weight->qweight, sizes.weight);
  prefetch(weight->qzeros, sizes.zeros);
  prefetch(weight->scales, sizes.scales);
}
