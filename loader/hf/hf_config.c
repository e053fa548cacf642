#include "loader/hf/hf_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/hf/hf_parts.h"
#include "loader/hf/hf_quant_parts.h"
#include "loader/model/quant_rules.h"
#include "loader/safetensors/dir.h"

static const char file[] = "config.json";
static const char generation_file[] = "generation_config.json", modules_file[] = "modules.json";
static const char *const quantize_files[] = {"quantize_config.json", "quant_config.json", "hf_quant_config.json"};

static const char *const family_names[] = {"llama",       "mistral",     "qwen2",         "qwen3",      "minicpm",
                                           "glm",         "chatglm",     "mixtral",       "qwen2_moe",  "qwen3_moe",
                                           "glm4_moe",    "deepseek_v2", "deepseek_v3",   "qwen3_next", "qwen3_5",
                                           "qwen3_5_moe", "qwen3_5",     "qwen3_5_moe",   "seed_oss",   "ernie4_5",
                                           "granite",     "phi3",        "glm4_moe_lite", "kimi_k25",   "deepseek_v32",
                                           "glm_moe_dsa", "gpt_oss",     "gemma3_text",   "gemma3"};

/* A class in "architectures" or a "model_type", and its family. */
typedef struct known_name {
  const char *name;
  yk_model_family family;
} known_name;

static const known_name architectures[] = {
    {"LlamaForCausalLM", YK_FAMILY_LLAMA},
    {"LLaMAForCausalLM", YK_FAMILY_LLAMA},
    {"MistralForCausalLM", YK_FAMILY_MISTRAL},
    {"Qwen2ForCausalLM", YK_FAMILY_QWEN2},
    {"Qwen3ForCausalLM", YK_FAMILY_QWEN3},
    {"MiniCPMForCausalLM", YK_FAMILY_MINICPM},
    {"FM9GForCausalLM", YK_FAMILY_MINICPM},
    {"GlmForCausalLM", YK_FAMILY_GLM},
    {"ChatGLMModel", YK_FAMILY_CHATGLM},
    {"ChatGLMForConditionalGeneration", YK_FAMILY_CHATGLM},
    {"MixtralForCausalLM", YK_FAMILY_MIXTRAL},
    {"Qwen2MoeForCausalLM", YK_FAMILY_QWEN2_MOE},
    {"Qwen3MoeForCausalLM", YK_FAMILY_QWEN3_MOE},
    {"Glm4MoeForCausalLM", YK_FAMILY_GLM4_MOE},
    {"DeepseekV2ForCausalLM", YK_FAMILY_DEEPSEEK_V2},
    {"DeepseekV3ForCausalLM", YK_FAMILY_DEEPSEEK_V3},
    {"Qwen3NextForCausalLM", YK_FAMILY_QWEN3_NEXT},
    {"Qwen3_5ForCausalLM", YK_FAMILY_QWEN3_5},
    {"Qwen3_5MoeForCausalLM", YK_FAMILY_QWEN3_5_MOE},
    {"Qwen3_5ForConditionalGeneration", YK_FAMILY_QWEN3_5_VL},
    {"Qwen3_5MoeForConditionalGeneration", YK_FAMILY_QWEN3_5_MOE_VL},
    {"SeedOssForCausalLM", YK_FAMILY_SEED_OSS},
    {"Ernie4_5ForCausalLM", YK_FAMILY_ERNIE4_5},
    {"Ernie4_5_ForCausalLM", YK_FAMILY_ERNIE4_5},
    {"GraniteForCausalLM", YK_FAMILY_GRANITE},
    {"Phi3ForCausalLM", YK_FAMILY_PHI3},
    {"Glm4MoeLiteForCausalLM", YK_FAMILY_GLM4_MOE_LITE},
    {"KimiK25ForConditionalGeneration", YK_FAMILY_KIMI_K25},
    {"DeepseekV32ForCausalLM", YK_FAMILY_DEEPSEEK_V32},
    {"GlmMoeDsaForCausalLM", YK_FAMILY_GLM_MOE_DSA},
    {"GptOssForCausalLM", YK_FAMILY_GPT_OSS},
    {"Gemma3ForCausalLM", YK_FAMILY_GEMMA3},
    {"Gemma3ForConditionalGeneration", YK_FAMILY_GEMMA3_VL},
};
static const known_name model_types[] = {
    {"llama", YK_FAMILY_LLAMA},
    {"mistral", YK_FAMILY_MISTRAL},
    {"qwen2", YK_FAMILY_QWEN2},
    {"qwen3", YK_FAMILY_QWEN3},
    {"minicpm", YK_FAMILY_MINICPM},
    {"fm9g", YK_FAMILY_MINICPM},
    {"fm9g7b", YK_FAMILY_MINICPM},
    {"glm", YK_FAMILY_GLM},
    {"chatglm", YK_FAMILY_CHATGLM},
    {"mixtral", YK_FAMILY_MIXTRAL},
    {"qwen2_moe", YK_FAMILY_QWEN2_MOE},
    {"qwen3_moe", YK_FAMILY_QWEN3_MOE},
    {"glm4_moe", YK_FAMILY_GLM4_MOE},
    {"deepseek_v2", YK_FAMILY_DEEPSEEK_V2},
    {"deepseek_v3", YK_FAMILY_DEEPSEEK_V3},
    {"kimi_k2", YK_FAMILY_DEEPSEEK_V3},
    {"qwen3_next", YK_FAMILY_QWEN3_NEXT},
    {"qwen3_5_text", YK_FAMILY_QWEN3_5},
    {"qwen3_5_moe_text", YK_FAMILY_QWEN3_5_MOE},
    {"qwen3_5", YK_FAMILY_QWEN3_5_VL},
    {"qwen3_5_moe", YK_FAMILY_QWEN3_5_MOE_VL},
    {"seed_oss", YK_FAMILY_SEED_OSS},
    {"ernie4_5", YK_FAMILY_ERNIE4_5},
    {"granite", YK_FAMILY_GRANITE},
    {"phi3", YK_FAMILY_PHI3},
    {"glm4_moe_lite", YK_FAMILY_GLM4_MOE_LITE},
    {"kimi_k25", YK_FAMILY_KIMI_K25},
    {"deepseek_v32", YK_FAMILY_DEEPSEEK_V32},
    {"glm_moe_dsa", YK_FAMILY_GLM_MOE_DSA},
    {"gpt_oss", YK_FAMILY_GPT_OSS},
    {"gemma3_text", YK_FAMILY_GEMMA3},
    {"gemma3", YK_FAMILY_GEMMA3_VL},
};
/* Short enough for a message; the table of families in loader/README.md has the classes. */
static const char supported_architectures[] =
    "Llama, Mistral, Mixtral, Qwen2 to 3.8, DeepSeek-V2 to V3.2, Kimi-K2, ChatGLM, GLM-4 (Glm) to 5, gpt-oss, Gemma 3, "
    "Seed-OSS, Ernie 4.5, Granite, MiniCPM, FM9G, Phi-3";

static const known_name *find_name(const known_name *table, size_t n, const char *name)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}

const char *yk_model_family_name(yk_model_family family)
{
  return family_names[family];
}

/* The first known class of "architectures"; without that key, "model_type". */
static yk_status read_family(yk_json root, yk_model_config *config, yk_err *err)
{
  yk_json classes = yk_json_get(root, "architectures");
  const char *name = NULL, *model_type;
  YK_TRY(yk_json_get_str(root, file, "model_type", false, &model_type, err));
  if (yk_json_is_given(classes) && !yk_json_is(classes, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"architectures\": expected an array of strings, found %s", file,
                      yk_json_type_name(classes));
  for (size_t i = 0; i < yk_json_size(classes); i++) {
    name = yk_json_string(yk_json_at(classes, i));
    if (!name) return yk_err_set(err, YK_E_FORMAT, "%s: key \"architectures\": expected an array of strings", file);
    const known_name *known = find_name(architectures, sizeof architectures / sizeof *architectures, name);
    if (!known) continue;
    config->family = known->family;
    return YK_OK;
  }
  if (!name && model_type) {
    name = model_type;
    const known_name *known = find_name(model_types, sizeof model_types / sizeof *model_types, name);
    if (known) {
      config->family = known->family;
      return YK_OK;
    }
  }
  if (!name) return yk_err_set(err, YK_E_FORMAT, "%s: key \"architectures\" is missing", file);
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: architecture \"%s\" is not supported; supported: %s", file, name,
                    supported_architectures);
}

/* If the key is missing, Llama, MiniCPM, Granite and Phi-3 have one KV head per query head. The class defaults of other
 * families fit a single model only, so the key is required there. null means one KV head per query head in every
 * family. */
static yk_status read_kv_heads(yk_json root, yk_model_config *config, yk_err *err)
{
  static const char key[] = "num_key_value_heads";
  bool required = config->family != YK_FAMILY_LLAMA && config->family != YK_FAMILY_MINICPM &&
                  config->family != YK_FAMILY_GRANITE && config->family != YK_FAMILY_PHI3 &&
                  !yk_json_is(yk_json_get(root, key), YK_JSON_NULL);
  config->n_kv_heads = config->n_heads;
  if (config->family == YK_FAMILY_GEMMA3_VL && !yk_json_get(root, key).doc) {
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
  return family == YK_FAMILY_QWEN3 || family == YK_FAMILY_GLM || family == YK_FAMILY_SEED_OSS ||
         family == YK_FAMILY_ERNIE4_5;
}

static yk_status read_head_dim(yk_json root, yk_model_config *config, yk_err *err)
{
  yk_json value = yk_json_get(root, "head_dim");
  bool given = yk_json_is_given(value);
  bool is_gemma3 = config->family == YK_FAMILY_GEMMA3 || config->family == YK_FAMILY_GEMMA3_VL;
  if (!value.doc && (yk_family_is_hybrid(config->family) || is_gemma3)) {
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

static bool is_latent(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_DEEPSEEK_V2:
  case YK_FAMILY_DEEPSEEK_V3:
  case YK_FAMILY_GLM4_MOE_LITE:
  case YK_FAMILY_KIMI_K25:
  case YK_FAMILY_DEEPSEEK_V32:
  case YK_FAMILY_GLM_MOE_DSA: return true;
  default: return false;
  }
}

/* The class default of rms_norm_eps. */
static float default_eps(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_GLM: return 1.5625e-7f;
  case YK_FAMILY_MIXTRAL:
  case YK_FAMILY_GLM4_MOE:
  case YK_FAMILY_ERNIE4_5:
  case YK_FAMILY_PHI3:
  case YK_FAMILY_GLM4_MOE_LITE:
  case YK_FAMILY_GLM_MOE_DSA:
  case YK_FAMILY_GPT_OSS: return 1e-5f;
  default: return 1e-6f;
  }
}

static yk_status read_heads(yk_json root, yk_model_config *config, yk_err *err)
{
  if (is_latent(config->family)) return yk_hf_read_latent(root, file, config, err);
  YK_TRY(read_kv_heads(root, config, err));
  return read_head_dim(root, config, err);
}

/* Where every layer has experts, the key may be missing. */
static yk_status read_ffn_size(yk_json root, yk_model_config *config, yk_err *err)
{
  const bool has_experts = config->family == YK_FAMILY_QWEN3_5_MOE || config->family == YK_FAMILY_QWEN3_5_MOE_VL;
  if (has_experts)
    YK_TRY(yk_json_get_i32(root, file, "moe_intermediate_size", true, 1, YK_MAX_FFN, &config->ffn_size, err));
  return yk_json_get_i32(root, file, "intermediate_size", !has_experts, 1, YK_MAX_FFN, &config->ffn_size, err);
}

static bool is_gemma(yk_model_family family)
{
  return family == YK_FAMILY_GEMMA3 || family == YK_FAMILY_GEMMA3_VL;
}

/* Files of models that also read images lack the keys with the class's default. */
static yk_status read_sizes(yk_json root, yk_model_config *config, yk_err *err)
{
  const bool is_required = config->family != YK_FAMILY_GEMMA3_VL;
  config->vocab_size = 262208;
  config->n_heads = 8;
  config->max_position_embeddings = 131072;
  YK_TRY(yk_json_get_i32(root, file, "vocab_size", is_required, 1, YK_MAX_VOCAB, &config->vocab_size, err));
  YK_TRY(yk_json_get_i32(root, file, "hidden_size", true, 1, YK_MAX_HIDDEN, &config->hidden_size, err));
  YK_TRY(read_ffn_size(root, config, err));
  YK_TRY(yk_json_get_i32(root, file, "num_hidden_layers", true, 1, YK_MAX_LAYERS, &config->n_layers, err));
  YK_TRY(yk_json_get_i32(root, file, "num_attention_heads", is_required, 1, YK_MAX_HEADS, &config->n_heads, err));
  YK_TRY(read_heads(root, config, err));
  YK_TRY(yk_json_get_i32(root, file, "max_position_embeddings", is_required, 1, YK_MAX_POSITIONS,
                         &config->max_position_embeddings, err));
  config->rms_norm_eps = default_eps(config->family);
  return yk_json_get_f32(root, file, "rms_norm_eps", false, 1e-20, 1, &config->rms_norm_eps, err);
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

/* gpt-oss: the class ignores hidden_act, which is silu in every file. */
static yk_status read_clamped(yk_json root, yk_activation *out, yk_err *err)
{
  *out = (yk_activation){YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 7.0f}; /* the class defaults */
  YK_TRY(yk_json_get_f32(root, file, "swiglu_alpha", false, 1e-6, 1e6, &out->alpha, err));
  return yk_json_get_f32(root, file, "swiglu_limit", false, 1e-6, 1e6, &out->limit, err);
}

/* Names in transformers' ACT2FN. The FFN of every family is gated. */
static yk_status read_activation(yk_json root, yk_model_family family, yk_activation *out, yk_err *err)
{
  static const struct {
    const char *name;
    yk_activation_kind kind;
  } known[] = {{"silu", YK_ACTIVATION_SILU},
               {"swish", YK_ACTIVATION_SILU},
               {"gelu", YK_ACTIVATION_GELU_ERF},
               {"gelu_pytorch_tanh", YK_ACTIVATION_GELU_TANH},
               {"relu2", YK_ACTIVATION_RELU2}};
  const char *name;
  if (family == YK_FAMILY_GPT_OSS) return read_clamped(root, out, err);
  YK_TRY(yk_json_get_str(root, file, is_gemma(family) ? "hidden_activation" : "hidden_act", false, &name, err));
  *out = (yk_activation)YK_GATED_SILU;
  if (is_gemma(family)) out->kind = YK_ACTIVATION_GELU_TANH;
  if (!name) return YK_OK;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    out->kind = known[i].kind;
    return YK_OK;
  }
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: hidden_act \"%s\" is not supported; supported: silu (swish), gelu, gelu_pytorch_tanh, relu2",
                    file, name);
}

/* Set which linear layers have a bias, and whether q and k are normalised: fixed by the family or read from the
 * file. */
static yk_status read_layer_options(yk_json root, yk_model_config *config, yk_err *err)
{
  bool attention_bias =
      config->family == YK_FAMILY_GLM || config->family == YK_FAMILY_SEED_OSS || config->family == YK_FAMILY_GPT_OSS;
  YK_TRY(yk_json_get_bool(root, file, "attention_bias", false, &attention_bias, err));
  switch (config->family) {
  case YK_FAMILY_LLAMA:
  case YK_FAMILY_GRANITE:
    config->qkv_bias = config->o_bias = attention_bias;
    YK_TRY(yk_json_get_bool(root, file, "mlp_bias", false, &config->mlp_bias, err));
    break;
  case YK_FAMILY_MISTRAL:
  case YK_FAMILY_PHI3: break;
  case YK_FAMILY_SEED_OSS:
    config->qkv_bias = attention_bias;
    YK_TRY(yk_json_get_bool(root, file, "attention_out_bias", false, &config->o_bias, err));
    YK_TRY(yk_json_get_bool(root, file, "mlp_bias", false, &config->mlp_bias, err));
    break;
  case YK_FAMILY_ERNIE4_5:
    YK_TRY(yk_json_get_bool(root, file, "use_bias", false, &config->mlp_bias, err));
    config->qkv_bias = config->o_bias = config->mlp_bias;
    break;
  case YK_FAMILY_QWEN2: config->qkv_bias = true; break;
  case YK_FAMILY_QWEN3:
    config->qkv_bias = config->o_bias = attention_bias;
    config->qk_norm = true;
    break;
  case YK_FAMILY_MINICPM: config->qkv_bias = config->o_bias = attention_bias; break;
  case YK_FAMILY_GLM: config->qkv_bias = attention_bias; break;
  case YK_FAMILY_CHATGLM: /* hf_chatglm.c */
  case YK_FAMILY_MIXTRAL: break;
  case YK_FAMILY_QWEN2_MOE:
    config->qkv_bias = true;
    YK_TRY(yk_json_get_bool(root, file, "qkv_bias", false, &config->qkv_bias, err));
    break;
  case YK_FAMILY_QWEN3_MOE:
    config->qkv_bias = config->o_bias = attention_bias;
    config->qk_norm = true;
    break;
  case YK_FAMILY_GLM4_MOE:
    config->qkv_bias = attention_bias;
    YK_TRY(yk_json_get_bool(root, file, "use_qk_norm", false, &config->qk_norm, err));
    break;
  case YK_FAMILY_DEEPSEEK_V2:
  case YK_FAMILY_DEEPSEEK_V3:
  case YK_FAMILY_GLM4_MOE_LITE:
  case YK_FAMILY_KIMI_K25:
  case YK_FAMILY_DEEPSEEK_V32:
  case YK_FAMILY_GLM_MOE_DSA: config->qkv_bias = config->o_bias = attention_bias; break;
  case YK_FAMILY_GPT_OSS:
    config->qkv_bias = config->o_bias = attention_bias;
    config->attention_sinks = true;
    break;
  case YK_FAMILY_GEMMA3:
  case YK_FAMILY_GEMMA3_VL:
    config->qkv_bias = config->o_bias = attention_bias;
    config->qk_norm = config->result_norms = true;
    config->norm_offset = 1;
    break;
  case YK_FAMILY_QWEN3_NEXT:
  case YK_FAMILY_QWEN3_5:
  case YK_FAMILY_QWEN3_5_MOE:
  case YK_FAMILY_QWEN3_5_VL:
  case YK_FAMILY_QWEN3_5_MOE_VL:
    config->qkv_bias = config->o_bias = attention_bias;
    config->qk_norm = true;
    config->norm_offset = 1;
    break;
  }
  config->tie_word_embeddings =
      config->family == YK_FAMILY_MINICPM || config->family == YK_FAMILY_ERNIE4_5 || is_gemma(config->family);
  return yk_json_get_bool(root, file, "tie_word_embeddings", false, &config->tie_word_embeddings, err);
}

/* Read Granite's four factors: the defaults of its class are 1. */
static yk_status read_granite_scales(yk_json root, yk_model_config *config, yk_err *err)
{
  double divisor = 1;
  config->attention_scale = 1;
  YK_TRY(yk_json_get_f32(root, file, "embedding_multiplier", false, 1e-6, 1e6, &config->embed_scale, err));
  YK_TRY(yk_json_get_f32(root, file, "residual_multiplier", false, 1e-6, 1e6, &config->residual_scale, err));
  YK_TRY(yk_json_get_f32(root, file, "attention_multiplier", false, 1e-6, 1e6, &config->attention_scale, err));
  YK_TRY(yk_json_get_f64(root, file, "logits_scaling", false, 1e-6, 1e6, &divisor, err));
  config->logit_scale = (float)(1 / divisor);
  return YK_OK;
}

/* Read Gemma's scale of scores, and refuse caps. The embedding's factor is the root of its size. */
static yk_status read_gemma_scales(yk_json root, yk_model_config *config, yk_err *err)
{
  static const char *const unset[] = {"attn_logit_softcapping", "final_logit_softcapping",
                                      "use_bidirectional_attention"};
  double scalar = 256; /* the class default */
  for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) YK_TRY(yk_hf_require_unset(root, file, unset[i], err));
  YK_TRY(yk_json_get_f64(root, file, "query_pre_attn_scalar", false, 1e-6, 1e9, &scalar, err));
  config->attention_scale = (float)(1 / sqrt(scalar));
  config->embed_scale = (float)sqrt(config->hidden_size);
  config->rounds_embed_scale = true;
  return YK_OK;
}

/* Read MiniCPM's three scales. The defaults of its class match no trained model, so the keys are required, except for
 * fm9g7b, a plain Llama without these keys. */
static yk_status read_scales(yk_json root, yk_model_config *config, yk_err *err)
{
  config->embed_scale = config->residual_scale = config->logit_scale = 1;
  if (is_gemma(config->family)) return read_gemma_scales(root, config, err);
  if (config->family == YK_FAMILY_GRANITE) return read_granite_scales(root, config, err);
  if (config->family != YK_FAMILY_MINICPM) return YK_OK;
  int64_t n_experts = 0;
  YK_TRY(yk_json_get_i64(root, file, "num_experts", false, 0, INT32_MAX, &n_experts, err));
  if (n_experts > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: num_experts %lld is not supported for this family; supported: 0",
                      file, (long long)n_experts);
  const char *model_type;
  YK_TRY(yk_json_get_str(root, file, "model_type", false, &model_type, err));
  bool required = !model_type || strcmp(model_type, "fm9g7b") != 0;
  double layers_root = sqrt(config->n_layers), scale_depth = layers_root, dim_model_base = config->hidden_size;
  YK_TRY(yk_json_get_f32(root, file, "scale_emb", required, 1e-6, 1e6, &config->embed_scale, err));
  YK_TRY(yk_json_get_f64(root, file, "scale_depth", required, 1e-6, 1e6, &scale_depth, err));
  YK_TRY(yk_json_get_f64(root, file, "dim_model_base", required, 1, YK_MAX_HIDDEN, &dim_model_base, err));
  config->residual_scale = (float)(scale_depth / layers_root);
  config->logit_scale = (float)(dim_model_base / config->hidden_size);
  return YK_OK;
}

/* Read the keys that all families except ChatGLM have. */
static yk_status read_common(yk_json root, yk_model_config *config, yk_err *err)
{
  YK_TRY(read_sizes(root, config, err));
  YK_TRY(read_activation(root, config->family, &config->activation, err));
  YK_TRY(read_layer_options(root, config, err));
  YK_TRY(read_scales(root, config, err));
  YK_TRY(yk_hf_read_experts(root, file, config, err));
  YK_TRY(yk_hf_read_delta(root, file, config, err));
  return yk_hf_read_rope(root, file, config, err);
}

typedef struct documents {
  yk_json_doc *root, *generation, *quantize, *description, *modules, *pooling; /* NULL: no such file */
  const char *description_file;
  bool dense_beyond_index;
} documents;

/* Sparse attention reads the index_topk tokens that its indexer prefers: dense attention is the same up to so many
 * tokens, which therefore are the longest context, unless the caller wants dense attention beyond. */
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

/* The keys of the language model: those of "text_config" if the model also reads images. */
static yk_status find_text(yk_json root, const yk_model_config *config, yk_json *text, yk_err *err)
{
  static const char key[] = "text_config";
  *text = root;
  yk_json value = yk_json_get(root, key);
  bool may_be_inside = yk_family_is_hybrid(config->family) || config->family == YK_FAMILY_KIMI_K25 ||
                       config->family == YK_FAMILY_GEMMA3_VL;
  if (!may_be_inside || !yk_json_is_given(value)) return YK_OK;
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
  YK_TRY(read_family(root, config, err));
  yk_json text;
  YK_TRY(find_text(root, config, &text, err));
  YK_TRY(yk_hf_read_quant(root, yk_json_root(d->quantize), quantize_files[0], &config->quant, err));
  if (config->quant.method == YK_QUANT_NONE && text.node != root.node)
    YK_TRY(yk_hf_read_quant(text, YK_JSON_NONE, quantize_files[0], &config->quant, err));
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
  yk_hf_read_pooling(root, yk_json_root(d->modules), yk_json_root(d->pooling), config->hidden_size, &config->pooling);
  return yk_hf_read_generation(text, file, yk_json_root(d->generation), generation_file, log, config, err);
}

static yk_status parse_optional(const char *name, const char *text, size_t n_bytes, yk_json_doc **out, yk_err *err)
{
  *out = NULL;
  return text ? yk_json_parse(name, text, n_bytes, NULL, out, err) : YK_OK;
}

yk_status yk_model_config_parse(const yk_config_texts *texts, const yk_log *log, yk_model_config *out, yk_err *err)
{
  documents d = {.description_file = texts->description_file, .dense_beyond_index = texts->dense_beyond_index};
  yk_model_config config = {.activation = YK_GATED_SILU};
  yk_status status = yk_json_parse(file, texts->config, texts->config_bytes, NULL, &d.root, err);
  if (status == YK_OK)
    status = parse_optional(generation_file, texts->generation, texts->generation_bytes, &d.generation, err);
  if (status == YK_OK)
    status = parse_optional(quantize_files[0], texts->quantize, texts->quantize_bytes, &d.quantize, err);
  if (status == YK_OK)
    status = parse_optional(texts->description_file, texts->description, texts->description_bytes, &d.description, err);
  if (status == YK_OK) status = parse_optional(modules_file, texts->modules, texts->modules_bytes, &d.modules, err);
  if (status == YK_OK) status = parse_optional(modules_file, texts->pooling, texts->pooling_bytes, &d.pooling, err);
  if (status == YK_OK) status = read_all(&d, log, &config, err);
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

/* Read msmodelslim's description of quantised tensors; name is empty if there is none. */
static yk_status read_description(const char *dir, char name[256], char **text, size_t *n_bytes, yk_err *err)
{
  char last[256];
  int n = yk_dir_find_all(dir, YK_DESCRIPTION_PREFIX, YK_DESCRIPTION_SUFFIX, name, last);
  if (n > 1)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: expected one file " YK_DESCRIPTION_PREFIX "*" YK_DESCRIPTION_SUFFIX ", found %s and %s", dir,
                      name, last);
  return n == 1 ? yk_dir_read(dir, name, true, text, n_bytes, err) : YK_OK;
}

static yk_status read_generation(const char *dir, const yk_config_changes *changes, char **text, size_t *n_bytes,
                                 yk_err *err)
{
  const char *other = changes ? changes->generation_dir : NULL;
  YK_TRY(yk_dir_read(other ? other : dir, generation_file, other != NULL, text, n_bytes, err));
  return changes ? yk_config_changes_apply_generation(changes, text, n_bytes, err) : YK_OK;
}

/* The texts of modules.json and of the configuration that it names; each is NULL if there is no such file. */
static yk_status read_modules(const char *dir, char **modules, char **pooling, yk_config_texts *texts, yk_err *err)
{
  char folder[YK_POOLING_FOLDER_BYTES], name[YK_POOLING_FOLDER_BYTES + sizeof "/config.json"];
  yk_json_doc *parsed;
  YK_TRY(yk_dir_read(dir, modules_file, false, modules, &texts->modules_bytes, err));
  if (!*modules) return YK_OK;
  YK_TRY(yk_json_parse(modules_file, *modules, texts->modules_bytes, NULL, &parsed, err));
  bool is_found = yk_hf_find_pooling(yk_json_root(parsed), folder);
  yk_json_free(parsed);
  if (!is_found) return YK_OK;
  snprintf(name, sizeof name, "%s/config.json", folder);
  return yk_dir_read(dir, name, false, pooling, &texts->pooling_bytes, err);
}

yk_status yk_model_config_load(const char *dir, const yk_config_changes *changes, const yk_log *log,
                               yk_model_config *out, yk_err *err)
{
  char *config = NULL, *generation = NULL, *quantize = NULL, *description = NULL, description_name[256] = "";
  char *modules = NULL, *pooling = NULL;
  yk_config_texts texts = {.description_file = description_name,
                           .dense_beyond_index = changes && changes->dense_beyond_index};
  yk_status status = yk_dir_read(dir, file, true, &config, &texts.config_bytes, err);
  if (status == YK_OK) status = read_generation(dir, changes, &generation, &texts.generation_bytes, err);
  if (status == YK_OK && changes) status = yk_config_changes_apply_config(changes, &config, &texts.config_bytes, err);
  for (int i = 0; i < 3 && status == YK_OK && !quantize; i++)
    status = yk_dir_read(dir, quantize_files[i], false, &quantize, &texts.quantize_bytes, err);
  if (status == YK_OK) status = read_description(dir, description_name, &description, &texts.description_bytes, err);
  if (status == YK_OK) status = read_modules(dir, &modules, &pooling, &texts, err);
  texts.config = config;
  texts.generation = generation;
  texts.quantize = quantize;
  texts.description = description;
  texts.modules = modules;
  texts.pooling = pooling;
  if (status == YK_OK) status = yk_model_config_parse(&texts, log, out, err);
  free(config);
  free(generation);
  free(quantize);
  free(description);
  free(modules);
  free(pooling);
  return status;
}

void yk_model_config_free(yk_model_config *config)
{
  yk_quant_rules_free(config->quant.rules);
  config->quant.rules = NULL;
}
