#include "loader/hf/hf_config.h"

#include <string.h>

#include "loader/hf/hf_parts.h"
#include "loader/model/quant_rules.h"

static const char file[] = "config.json";
static const char generation_file[] = "generation_config.json", modules_file[] = "modules.json";

/* Whether the family's published files omit each key whose value is the class's default. */
static bool has_optional_sizes(yk_model_family family)
{
  return family == YK_FAMILY_GEMMA3_VL || yk_family_is_gemma4(family);
}

/* If the key is missing, Llama, MiniCPM, Granite and Phi-3 have one KV head per query head. The class defaults of other
 * families fit a single model only, so the key is required there. null means one KV head per query head in every
 * family. */
static yk_status read_kv_heads(yk_json root, yk_model_config *config, yk_err *err)
{
  static const char key[] = "num_key_value_heads";
  bool required = config->family != YK_FAMILY_LLAMA && config->family != YK_FAMILY_MINICPM &&
                  !yk_family_is_granite(config->family) && !yk_family_is_hunyuan(config->family) &&
                  config->family != YK_FAMILY_PHI3 && !yk_json_is(yk_json_get(root, key), YK_JSON_NULL);
  config->n_kv_heads = config->n_heads;
  if (has_optional_sizes(config->family) && !yk_json_get(root, key).doc) {
    required = false;
    config->n_kv_heads = 4; /* the class default */
  }
  YK_TRY(yk_json_get_i32(root, file, key, required, 1, config->n_heads, &config->n_kv_heads, err));
  if (config->n_heads % config->n_kv_heads != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: num_attention_heads %d: expected a multiple of num_key_value_heads %d",
                      file, config->n_heads, config->n_kv_heads);
  return YK_OK;
}

static bool has_heads_of_128(yk_model_family family)
{
  return family == YK_FAMILY_QWEN3 || family == YK_FAMILY_GLM || family == YK_FAMILY_GLM4 ||
         yk_family_is_ministral3(family) || family == YK_FAMILY_MINIMAX_M2 || family == YK_FAMILY_NEMOTRON_H ||
         family == YK_FAMILY_SEED_OSS || family == YK_FAMILY_ERNIE4_5 || yk_family_is_llama4(family);
}

static yk_status read_head_dim(yk_json root, yk_model_config *config, yk_err *err)
{
  yk_json value = yk_json_get(root, "head_dim");
  bool given = yk_json_is_given(value);
  if (!value.doc && (yk_family_is_hybrid(config->family) || yk_family_is_gemma(config->family))) {
    config->head_dim = 256;
  } else if (!value.doc && config->family == YK_FAMILY_GPT_OSS) {
    config->head_dim = 64;
  } else if (!value.doc && has_heads_of_128(config->family)) {
    config->head_dim = 128; /* the class default */
  } else if (!given) {
    if (config->hidden_size % config->n_heads != 0)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: hidden_size %d: expected a multiple of num_attention_heads %d, or a key \"head_dim\"",
                        file, config->hidden_size, config->n_heads);
    config->head_dim = config->hidden_size / config->n_heads;
  }
  YK_TRY(yk_json_get_i32(root, file, "head_dim", false, 2, YK_MAX_HEAD_DIM, &config->head_dim, err));
  if (config->head_dim % 2 != 0 || config->head_dim < 2 || config->head_dim > YK_MAX_HEAD_DIM)
    return yk_err_set(err, YK_E_FORMAT, "%s: head_dim: expected an even number from 2 to %d, found %d", file,
                      YK_MAX_HEAD_DIM, config->head_dim);
  return YK_OK;
}

/* The class default of rms_norm_eps. */
static float default_eps(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_GLM:
  case YK_FAMILY_GLM4: return 1.5625e-7f;
  case YK_FAMILY_MIXTRAL:
  case YK_FAMILY_GLM4_MOE:
  case YK_FAMILY_ERNIE4_5:
  case YK_FAMILY_ERNIE4_5_MOE:
  case YK_FAMILY_HUNYUAN:
  case YK_FAMILY_HUNYUAN_MOE:
  case YK_FAMILY_PHI3:
  case YK_FAMILY_GLM4_MOE_LITE:
  case YK_FAMILY_GLM_MOE_DSA:
  case YK_FAMILY_MINISTRAL3:
  case YK_FAMILY_MINISTRAL3_VL:
  case YK_FAMILY_NEMOTRON_H:
  case YK_FAMILY_LLAMA4:
  case YK_FAMILY_LLAMA4_VL:
  case YK_FAMILY_GPT_OSS: return 1e-5f;
  default: return 1e-6f;
  }
}

static yk_status read_heads(yk_json root, yk_model_config *config, yk_err *err)
{
  if (yk_family_is_latent(config->family)) return yk_hf_read_latent(root, file, config, err);
  YK_TRY(read_kv_heads(root, config, err));
  YK_TRY(read_head_dim(root, config, err));
  return yk_family_is_gemma4(config->family) ? yk_hf_read_gemma4_widths(root, file, config, err) : YK_OK;
}

/* The channels of the dense FFN. The key may be missing if no layer is dense; Llama 4 requires its key. */
static yk_status read_ffn_size(yk_json root, yk_model_config *config, yk_err *err)
{
  if (yk_family_is_llama4(config->family)) /* intermediate_size is that of experts */
    return yk_json_get_i32(root, file, "intermediate_size_mlp", true, 1, YK_MAX_FFN, &config->ffn_size, err);
  if (config->family == YK_FAMILY_GRANITE_HYBRID) return yk_hf_read_granite_ffn_size(root, file, config, err);
  const bool lacks_dense = config->family == YK_FAMILY_NEMOTRON_H && !yk_hf_has_dense_blocks(config);
  const bool has_experts = config->family == YK_FAMILY_QWEN3_5_MOE || config->family == YK_FAMILY_QWEN3_5_MOE_VL;
  if (has_experts)
    YK_TRY(yk_json_get_i32(root, file, "moe_intermediate_size", true, 1, YK_MAX_FFN, &config->ffn_size, err));
  return yk_json_get_i32(root, file, "intermediate_size", !has_experts && !lacks_dense, 1, YK_MAX_FFN,
                         &config->ffn_size, err);
}

static yk_status read_layer_count(yk_json root, yk_model_config *config, yk_err *err)
{
  if (config->family == YK_FAMILY_NEMOTRON_H) return yk_hf_read_blocks(root, file, config, err);
  return yk_json_get_i32(root, file, "num_hidden_layers", true, 1, YK_MAX_LAYERS, &config->n_layers, err);
}

static yk_status read_sizes(yk_json root, yk_model_config *config, yk_err *err)
{
  const bool is_required = !has_optional_sizes(config->family);
  config->vocab_size = yk_family_is_gemma4(config->family) ? 262144 : 262208;
  config->n_heads = 8;
  config->max_position_embeddings = 131072;
  YK_TRY(yk_json_get_i32(root, file, "vocab_size", is_required, 1, YK_MAX_VOCAB, &config->vocab_size, err));
  YK_TRY(yk_json_get_i32(root, file, "hidden_size", true, 1, YK_MAX_HIDDEN, &config->hidden_size, err));
  YK_TRY(read_layer_count(root, config, err));
  YK_TRY(read_ffn_size(root, config, err));
  YK_TRY(yk_json_get_i32(root, file, "num_attention_heads", is_required, 1, YK_MAX_HEADS, &config->n_heads, err));
  YK_TRY(read_heads(root, config, err));
  YK_TRY(yk_json_get_i32(root, file, "max_position_embeddings", is_required, 1, YK_MAX_POSITIONS,
                         &config->max_position_embeddings, err));
  config->rms_norm_eps = default_eps(config->family);
  const char *eps = config->family == YK_FAMILY_NEMOTRON_H ? "layer_norm_epsilon" : "rms_norm_eps";
  return yk_json_get_f32(root, file, eps, false, 1e-20, 1, &config->rms_norm_eps, err);
}

/* text: the keys of the language model, which have priority. */
static yk_status read_dtype(yk_json text, yk_json root, yk_model_config *config, yk_err *err)
{
  static const char *const keys[] = {"dtype", "torch_dtype"};
  config->dtype = YK_F16;
  for (int i = 0; i < 4; i++) {
    const char *name, *key = keys[i % 2];
    YK_TRY(yk_json_get_str(i < 2 ? text : root, file, key, false, &name, err));
    if (!name) continue;
    if (strncmp(name, "torch.", 6) == 0) name += 6;
    if (strcmp(name, "auto") == 0) continue;
    if (strcmp(name, "half") == 0) return YK_OK;
    for (yk_dtype dtype = YK_F16; dtype <= YK_F32; dtype++) {
      if (strcmp(name, yk_dtype_name(dtype)) != 0) continue;
      config->dtype = dtype;
      return YK_OK;
    }
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: %s \"%s\" is not supported; supported: float16 (half), bfloat16, float32, auto", file, key,
                      name);
  }
  return YK_OK;
}

/* Read the keys that all families except ChatGLM have. */
static yk_status read_common(yk_json root, yk_model_config *config, yk_err *err)
{
  YK_TRY(read_sizes(root, config, err));
  YK_TRY(yk_hf_read_activation(root, file, config->family, &config->activation, err));
  YK_TRY(yk_hf_read_layer_options(root, file, config, err));
  YK_TRY(yk_hf_read_scales(root, file, config, err));
  YK_TRY(yk_hf_read_experts(root, file, config, err));
  YK_TRY(yk_hf_read_delta(root, file, config, err));
  YK_TRY(yk_hf_read_granite_layers(root, file, config, err));
  YK_TRY(yk_hf_read_mamba(root, file, config, err));
  return yk_hf_read_rope(root, file, config, err);
}

typedef struct documents {
  yk_json_doc *root, *generation, *quantize, *description, *modules, *pooling; /* NULL: no such file */
  const char *quantize_file, *description_file;
  bool dense_beyond_index;
} documents;

/* Sparse attention reads the index_topk tokens that its indexer selects. Dense attention gives the same result up to
 * index_topk tokens, which is therefore the longest context, unless the caller requests dense attention beyond it. */
static yk_status limit_to_index(yk_json root, bool dense_beyond, const yk_log *log, yk_model_config *config,
                                yk_err *err)
{
  static const char key[] = "index_topk";
  if (config->family != YK_FAMILY_DEEPSEEK_V32 && config->family != YK_FAMILY_GLM_MOE_DSA) return YK_OK;
  int32_t n = 2048; /* the class default */
  YK_TRY(yk_json_get_i32(root, file, key, false, 1, YK_MAX_POSITIONS, &n, err));
  if (n >= config->max_model_tokens) return YK_OK;
  if (dense_beyond) {
    yk_log_write(log, YK_LOG_WARN,
                 "attention is dense beyond %d tokens (%s), where the model's is sparse: answers then differ from the "
                 "model's",
                 n, key);
    return YK_OK;
  }
  config->max_model_tokens = n;
  yk_log_write(log, YK_LOG_INFO,
               "the longest context is %d tokens (%s): up to there dense attention gives the same results as the "
               "model's sparse attention; --dense-attention-beyond-index permits more",
               n, key);
  return YK_OK;
}

/* The keys of the language model: the members of "text_config" if the model also reads images. */
static yk_status find_text(yk_json root, const yk_model_config *config, yk_json *text, yk_err *err)
{
  static const char key[] = "text_config";
  *text = root;
  if (!yk_family_has_parts(config->family)) return YK_OK;
  yk_json value = yk_json_get(root, key);
  if (!yk_json_is_given(value)) return YK_OK;
  if (!yk_json_is(value, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an object, found %s", file, key,
                      yk_json_type_name(value));
  *text = value;
  return YK_OK;
}

static yk_status read_all(const documents *d, const yk_log *log, yk_model_config *config, yk_err *err)
{
  yk_json root = yk_json_root(d->root);
  if (!yk_json_is(root, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", file, yk_json_type_name(root));
  YK_TRY(yk_hf_read_family(root, file, config, err));
  yk_json text;
  YK_TRY(find_text(root, config, &text, err));
  YK_TRY(yk_hf_read_quant(root, yk_json_root(d->quantize), d->quantize_file, &config->quant, err));
  if (config->quant.method == YK_QUANT_NONE && text.node != root.node)
    YK_TRY(yk_hf_read_quant(text, YK_JSON_NONE, NULL, &config->quant, err));
  if (config->quant.method == YK_QUANT_NONE && d->description)
    YK_TRY(yk_hf_read_msmodelslim(yk_json_root(d->description), d->description_file, &config->quant, err));
  if (config->family == YK_FAMILY_CHATGLM)
    YK_TRY(yk_hf_read_chatglm(root, file, config, err));
  else
    YK_TRY(read_common(text, config, err));
  YK_TRY(limit_to_index(text, d->dense_beyond_index, log, config, err));
  if (text.node != root.node)
    YK_TRY(yk_json_get_bool(root, file, "tie_word_embeddings", false, &config->tie_word_embeddings, err));
  YK_TRY(read_dtype(text, root, config, err));
  YK_TRY(yk_hf_read_windows(text, file, config, err));
  YK_TRY(yk_hf_read_gemma4_layers(text, file, config, err));
  yk_hf_read_pooling(root, yk_json_root(d->modules), yk_json_root(d->pooling), config->hidden_size, &config->pooling);
  return yk_hf_read_generation(root, text, file, yk_json_root(d->generation), generation_file, log, config, err);
}

static yk_status parse_optional(const char *name, const char *text, size_t n_bytes, yk_json_doc **out, yk_err *err)
{
  *out = NULL;
  return text ? yk_json_parse(name, text, n_bytes, NULL, out, err) : YK_OK;
}

/* The configuration of the module that pools; modules.json, which is read, names its folder. */
static yk_status parse_pooling(const yk_config_texts *texts, documents *d, yk_err *err)
{
  char name[YK_POOLING_FILE_BYTES];
  yk_hf_name_pooling_file(yk_json_root(d->modules), name);
  return parse_optional(name, texts->pooling, texts->pooling_bytes, &d->pooling, err);
}

yk_status yk_model_config_parse(const yk_config_texts *texts, const yk_log *log, yk_model_config *out, yk_err *err)
{
  documents d = {.quantize_file = texts->quantize_file,
                 .description_file = texts->description_file,
                 .dense_beyond_index = texts->dense_beyond_index};
  yk_model_config config = {.activation = YK_GATED_SILU};
  yk_status status = yk_json_parse(file, texts->config, texts->config_bytes, NULL, &d.root, err);
  if (status == YK_OK)
    status = parse_optional(generation_file, texts->generation, texts->generation_bytes, &d.generation, err);
  if (status == YK_OK)
    status = parse_optional(texts->quantize_file, texts->quantize, texts->quantize_bytes, &d.quantize, err);
  if (status == YK_OK)
    status = parse_optional(texts->description_file, texts->description, texts->description_bytes, &d.description, err);
  if (status == YK_OK) status = parse_optional(modules_file, texts->modules, texts->modules_bytes, &d.modules, err);
  if (status == YK_OK) status = parse_pooling(texts, &d, err);
  if (status == YK_OK && texts->changes) status = yk_json_watch(d.root, err);
  if (status == YK_OK && texts->changes) status = yk_json_watch(d.generation, err);
  if (status == YK_OK) status = read_all(&d, log, &config, err);
  if (status == YK_OK && texts->changes)
    status = yk_config_changes_check(texts->changes, yk_json_root(d.root), yk_json_root(d.generation), err);
  yk_json_free(d.root);
  yk_json_free(d.generation);
  yk_json_free(d.quantize);
  yk_json_free(d.description);
  yk_json_free(d.modules);
  yk_json_free(d.pooling);
  if (status == YK_OK)
    *out = config;
  else
    yk_model_config_free(&config);
  return status;
}

void yk_model_config_free(yk_model_config *config)
{
  yk_quant_rules_free(config->quant.rules);
  config->quant.rules = NULL;
}
