#include "loader/remarks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/integers/quant_tensors.h"
#include "loader/kv_scales.h"
#include "loader/model/quant_rules.h"
#include "loader/model/weight_modules.h"
#include "loader/quant_method.h"

enum { NAME_BYTES = YK_WEIGHT_NAME_BYTES + 16 };

typedef struct checkpoint_view {
  const yk_model_config *config;
  const yk_shards *shards;
  const yk_log *log;
} checkpoint_view;

/* ---- Contradictions ---------------------------------------------------------------------------------------------- */

/* A remark about linear layers: the number of layers that it applies to, and the first of them. */
typedef struct oddity {
  int n;
  char first[YK_WEIGHT_NAME_BYTES];
} oddity;

static void note(oddity *odd, const char *module)
{
  if (odd->n++ == 0) snprintf(odd->first, sizeof odd->first, "%s", module);
}

/* Tensors decide a layer's format; each kind of contradiction to the configuration gives one warning. */
static yk_status warn_contradictions(const checkpoint_view *c, yk_err *err)
{
  const yk_model_config *config = c->config;
  oddity plain = {0}, excluded = {0}, inputs[] = {{0}, {0}}, blank = {0}; /* inputs: of 4 bits, of 8 bits */
  for (int layer = 0; layer < config->n_layers; layer++) {
    for (yk_weight_role role = YK_ROLE_Q; role < YK_N_ROLES; role++) {
      char module[YK_WEIGHT_NAME_BYTES];
      if (!yk_weight_is_linear(role) || yk_weight_is_float(role) || !yk_weight_is_in_layer(config, role, layer))
        continue;
      const yk_weight_module parts = yk_weight_module_of(config, role, layer);
      if (parts.first_n > 0) continue;             /* already checked under the same name */
      yk_weight_name(config, role, layer, module); /* for experts, the name of the first expert */
      const yk_quant_scheme *scheme;
      YK_TRY(yk_quant_scheme_of(&config->quant, module, &scheme, err));
      bool quantised = yk_quant_suffix(c->shards, module) != NULL;
      const yk_tensor *g_idx = yk_tensors_find(c->shards, module, "g_idx", NULL);
      if (config->quant.method != YK_QUANT_NONE) {
        if (quantised && !scheme) note(&excluded, module);
        if (scheme && !quantised && yk_tensors_find(c->shards, module, "weight", NULL)) note(&plain, module);
        if (scheme && quantised && scheme->input_bits > 0) note(&inputs[scheme->input_bits / 8], module);
      }
      bool has_groups = scheme && scheme->group_size > 0 && scheme->group_size < parts.k;
      if (g_idx && has_groups && !scheme->act_order && yk_quant_is_blank(g_idx, scheme->packing)) note(&blank, module);
    }
  }
  if (plain.n)
    yk_log_write(c->log, YK_LOG_WARN,
                 "%s (%d linear layers in all) is not quantised, although quantization_config does not exclude it",
                 plain.first, plain.n);
  if (excluded.n)
    yk_log_write(c->log, YK_LOG_WARN,
                 "%s (%d linear layers in all) is quantised, although quantization_config excludes it", excluded.first,
                 excluded.n);
  if (blank.n)
    yk_log_write(c->log, YK_LOG_WARN,
                 "%s.g_idx (%d in all) is zeros, and desc_act is false: groups are of neighbouring inputs", blank.first,
                 blank.n);
  for (int i = 0; i < 2; i++)
    if (inputs[i].n)
      yk_log_write(
          c->log, YK_LOG_INFO,
          "activations of %d layers stay 16 bits, though quantization_config rounds them to %d-bit floats; the "
          "first is %s",
          inputs[i].n, i ? 8 : 4, inputs[i].first);
  return YK_OK;
}

/* Inputs that the checkpoint rounds to 8 bits after adding a norm's offset: the offset is folded into the bias. */
static yk_status report_offsets(const checkpoint_view *c, yk_err *err)
{
  static const yk_weight_role readers[] = {YK_ROLE_Q, YK_ROLE_K, YK_ROLE_V, YK_ROLE_GATE, YK_ROLE_UP};
  const yk_model_config *config = c->config;
  oddity offsets = {0};
  for (int layer = 0; yk_quant_method_row_of(config->quant.method)->find_norm && layer < config->n_layers; layer++) {
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
      char module[YK_WEIGHT_NAME_BYTES];
      const yk_quant_scheme *scheme;
      yk_norm_tensors norm;
      yk_weight_role before = i < 3 ? YK_ROLE_ATTENTION_NORM : YK_ROLE_FFN_NORM;
      yk_weight_name(config, readers[i], layer, module);
      YK_TRY(yk_quant_scheme_of(&config->quant, module, &scheme, err));
      YK_TRY(yk_msmodelslim_norm_of(config, c->shards, before, layer, &norm, err));
      if (!yk_weight_is_in_layer(config, readers[i], layer)) continue;
      bool is_first = yk_weight_module_of(config, readers[i], layer).first_n == 0;
      if (norm.offset && scheme && scheme->inputs != YK_INPUTS_FLOAT && is_first) note(&offsets, module);
    }
  }
  if (offsets.n)
    yk_log_write(
        c->log, YK_LOG_INFO,
        "inputs of %d layers stay floats, though the checkpoint rounds them to 8 bits: the norm before them has an "
        "offset, which is kept exactly; the first is %s",
        offsets.n, offsets.first);
  return YK_OK;
}

/* ---- Unused tensors ---------------------------------------------------------------------------------------------- */

/* In order of priority: a tensor counts as the first kind that fits. */
typedef enum stray_kind {
  STRAY_TABLE,
  STRAY_INDEXER,
  STRAY_KEYS,
  STRAY_PARTS, /* kinds up to here are normal in a family and logged as INFO */
  STRAY_TOWER,
  STRAY_PREDICTION,
  STRAY_LAYER,
  STRAY_G_IDX,
  STRAY_BIAS,
  STRAY_EXPERT,
  STRAY_LORA,
  STRAY_OTHER,
  N_STRAY_KINDS
} stray_kind;

static const char *const stray_texts[N_STRAY_KINDS] = {
    [STRAY_TABLE] = "of rotary frequencies (inv_freq), which the configuration gives",
    [STRAY_KEYS] = "of keys and values of layers that read those of another layer",
    [STRAY_PARTS] =
        "of parts that the text model does not use: vision and audio towers, layers that predict further tokens (mtp)",
    [STRAY_TOWER] = "of a vision or audio tower: the model reads text alone",
    [STRAY_PREDICTION] = "of layers that predict further tokens (mtp)",
    [STRAY_LAYER] = "of layers beyond num_hidden_layers",
    [STRAY_G_IDX] = "of group indices (g_idx), which the format does not have",
    [STRAY_BIAS] = "of biases that are not zero, but that the model's configuration does not have",
    [STRAY_EXPERT] = "of experts, which the architecture does not have",
    [STRAY_LORA] = "of LoRA adapters, which are not applied: merge them into the weights",
    [STRAY_INDEXER] = "of the indexer of sparse attention: dense attention replaces it, for at most index_topk tokens",
    [STRAY_OTHER] = "that the model has no use for",
};

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static bool has_any(const char *name, const char *const *parts, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (strstr(name, parts[i])) return true;
  return false;
}

static stray_kind kind_of(const yk_model_config *config, const char *name)
{
  static const char *const towers[] = {"visual.", "vision_", "vision.",      "audio_",
                                       "audio.",  "image_",  "multi_modal_", "mm_"};
  static const char *const predictions[] = {"mtp.", "mtp_", ".eh_proj.", ".enorm.", ".hnorm."};
  static const char *const keys[] = {".k_proj.", ".v_proj.", ".k_norm.", ".v_norm."};
  int32_t layer = yk_weight_layer(config, name);
  if (ends_with(name, "rotary_emb.inv_freq") || ends_with(name, "rotary_pos_emb.inv_freq")) return STRAY_TABLE;
  bool is_part = has_any(name, towers, sizeof towers / sizeof *towers) ||
                 has_any(name, predictions, sizeof predictions / sizeof *predictions);
  if (layer < 0 && is_part && yk_family_has_parts(config->family)) return STRAY_PARTS; /* every such model has them */
  if (layer < 0 && has_any(name, towers, sizeof towers / sizeof *towers)) return STRAY_TOWER;
  if (layer < config->n_layers && has_any(name, predictions, sizeof predictions / sizeof *predictions))
    return STRAY_PREDICTION;
  if (layer >= config->n_layers) return STRAY_LAYER;
  if (strstr(name, ".self_attn.indexer.")) return STRAY_INDEXER;
  if (layer >= 0 && yk_model_config_kv_layer(config, layer) != layer && has_any(name, keys, sizeof keys / sizeof *keys))
    return STRAY_KEYS;
  if (ends_with(name, ".g_idx")) return STRAY_G_IDX;
  if (ends_with(name, ".bias")) return STRAY_BIAS;
  if (strstr(name, "experts.")) return STRAY_EXPERT;
  if (strstr(name, "lora_")) return STRAY_LORA;
  return STRAY_OTHER;
}

static void mark(const checkpoint_view *c, const char *module, const char *suffix, bool *used)
{
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%s.%s", module, suffix);
  size_t position = yk_shards_position(c->shards, name);
  if (position < yk_shards_count(c->shards)) used[position] = true;
}

static void mark_all(const checkpoint_view *c, const char *module, const char *const *suffixes, size_t n, bool *used)
{
  for (size_t i = 0; i < n; i++)
    if (suffixes[i]) mark(c, module, suffixes[i], used);
}

/* Mark 8-bit weights, and the scales and zeros of weights and inputs that accompany them. */
static void mark_8_bits(const checkpoint_view *c, const char *module, bool *used)
{
  static const char *const suffixes[] = {
      "weight",           "weight_scale",  "weight_scale_inv",  "input_scale", "input_offset", "input_zero_point",
      "activation_scale", "weight_offset", "weight_zero_point", "quant_bias",  "deq_scale",    "weight_scale_2"};
  mark_all(c, module, suffixes, sizeof suffixes / sizeof *suffixes, used);
}

/* Marks only the tensors that the layer's format reads, so that others, such as a scale of a float weight, are
 * reported. */
static yk_status mark_weight(const checkpoint_view *c, const char *module, bool *used, yk_err *err)
{
  const char *suffix = yk_quant_suffix(c->shards, module);
  const yk_quant_scheme *scheme;
  if (!suffix) {
    mark(c, module, "weight", used);
    return YK_OK;
  }
  if (strcmp(suffix, "weight") == 0) {
    mark_8_bits(c, module, used);
    return YK_OK;
  }
  YK_TRY(yk_quant_scheme_of(&c->config->quant, module, &scheme, err));
  const yk_packing_names *names = &yk_packing_row_of((scheme ? scheme : &c->config->quant.scheme)->packing)->names;
  const char *const suffixes[] = {names->weight,
                                  names->zeros,
                                  names->scales,
                                  names->g_idx,
                                  names->shape,
                                  names->global_scale,
                                  names->global_scale ? "input_global_scale" : NULL};
  mark_all(c, module, suffixes, sizeof suffixes / sizeof *suffixes, used);
  return YK_OK;
}

/* Some tools write a zero bias that the model does not add. Such a bias has no effect and is not reported. */
static yk_status mark_linear(const checkpoint_view *c, yk_weight_role role, int layer, int expert, bool *used,
                             yk_err *err)
{
  char module[YK_WEIGHT_NAME_BYTES];
  yk_weight_name_of_expert(c->config, role, layer, expert, module);
  const yk_tensor *bias = yk_tensors_find(c->shards, module, "bias", NULL);
  if (bias && (yk_weight_module_of(c->config, role, layer).has_bias || yk_tensors_is_zero(bias)))
    mark(c, module, "bias", used);
  return mark_weight(c, module, used, err);
}

/* msmodelslim may write two norms, one of which each layer reads. */
static void mark_norm(const checkpoint_view *c, yk_weight_role role, int layer, bool *used)
{
  static const char *const suffixes[] = {"weight", "bias", "module.weight", "module.bias"};
  char module[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(c->config, role, layer, module);
  if (yk_weight_is_bare(role)) {
    size_t position = yk_shards_position(c->shards, module);
    if (position < yk_shards_count(c->shards)) used[position] = true;
    return;
  }
  size_t n = yk_quant_method_row_of(c->config->quant.method)->find_norm ? sizeof suffixes / sizeof *suffixes : 1;
  for (size_t i = 0; i < n; i++) mark(c, module, suffixes[i], used);
}

/* An engine option decides whether the scales are used. */
static void mark_kv_scales(const checkpoint_view *c, yk_weight_role role, int layer, bool *used)
{
  yk_kv_scale_names names;
  if (c->config->quant.kv_format == YK_KV_ACT) return;
  if (yk_kv_scale_names_of(c->config, role, layer, &names, NULL) != YK_OK) return;
  mark(c, names.module, names.scale, used);
  if (names.offset) mark(c, names.module, names.offset, used);
}

static yk_status mark_used(const checkpoint_view *c, bool *used, yk_err *err)
{
  mark_norm(c, YK_ROLE_EMBEDDING, 0, used); /* a weight without companions, like norms */
  mark_norm(c, YK_ROLE_FINAL_NORM, 0, used);
  if (c->config->layer_input_size > 0) {
    mark_norm(c, YK_ROLE_LAYER_EMBEDDING, 0, used);
    mark_norm(c, YK_ROLE_LAYER_INPUTS_NORM, 0, used);
    YK_TRY(mark_linear(c, YK_ROLE_LAYER_INPUTS, 0, 0, used, err));
  }
  YK_TRY(mark_linear(c, YK_ROLE_LM_HEAD, 0, 0, used, err)); /* files may contain it even if it is tied */
  for (int layer = 0; layer < c->config->n_layers; layer++)
    for (yk_weight_role role = YK_ROLE_ATTENTION_NORM; role < YK_N_ROLES; role++) {
      if (!yk_weight_is_in_layer(c->config, role, layer)) continue;
      if (role == YK_ROLE_K || role == YK_ROLE_V) mark_kv_scales(c, role, layer, used);
      if (!yk_weight_is_linear(role)) mark_norm(c, role, layer, used);
      for (int i = 0; yk_weight_is_linear(role) && i < yk_weight_count(c->config, role, layer); i++)
        YK_TRY(mark_linear(c, role, layer, i, used, err));
    }
  return YK_OK;
}

static yk_status warn_strays(const checkpoint_view *c, yk_err *err)
{
  size_t n_of_kind[N_STRAY_KINDS] = {0}, n_tensors = yk_shards_count(c->shards);
  const char *first[N_STRAY_KINDS] = {0};
  bool *used = calloc(n_tensors + 1, sizeof *used);
  if (!used) return yk_err_set(err, YK_E_NOMEM, "no memory to look through %zu tensors", n_tensors);
  yk_status status = mark_used(c, used, err);
  for (size_t i = 0; i < n_tensors; i++) {
    const char *name = yk_shards_at(c->shards, i)->name;
    if (used[i]) continue;
    stray_kind kind = kind_of(c->config, name);
    if (n_of_kind[kind]++ == 0) first[kind] = name;
  }
  for (int kind = 0; kind < N_STRAY_KINDS; kind++)
    if (n_of_kind[kind] && status == YK_OK)
      yk_log_write(c->log, kind <= STRAY_PARTS ? YK_LOG_INFO : YK_LOG_WARN, "ignored: %zu tensor%s %s; the first is %s",
                   n_of_kind[kind], n_of_kind[kind] == 1 ? "" : "s", stray_texts[kind], first[kind]);
  free(used);
  return status;
}

yk_status yk_remarks_write(const yk_model_config *config, const yk_shards *shards, const yk_log *log, yk_err *err)
{
  const checkpoint_view view = {config, shards, log};
  YK_TRY(warn_contradictions(&view, err));
  YK_TRY(report_offsets(&view, err));
  return warn_strays(&view, err);
}
