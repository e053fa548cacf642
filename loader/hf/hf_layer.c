/* hf_layer.c - settings of a family's layers other than sizes: the activation, biases, norms and attention sinks. */
#include <string.h>

#include "loader/hf/hf_parts.h"
#include "loader/hf/hf_quant_parts.h"

/* gpt-oss: the class ignores hidden_act, which is silu in every file. */
static yk_status read_clamped(yk_json root, const char *file, yk_activation *out, yk_err *err)
{
  *out = (yk_activation){YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 7.0f}; /* the class defaults */
  YK_TRY(yk_json_get_f32(root, file, "swiglu_alpha", false, 1e-6, 1e6, &out->alpha, err));
  return yk_json_get_f32(root, file, "swiglu_limit", false, 1e-6, 1e6, &out->limit, err);
}

/* Names in transformers' ACT2FN. The FFN of every family is gated, except that of Nemotron-H. */
yk_status yk_hf_read_activation(yk_json root, const char *file, yk_model_family family, yk_activation *out, yk_err *err)
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
  if (family == YK_FAMILY_GPT_OSS) return read_clamped(root, file, out, err);
  const char *key = yk_family_is_gemma(family)       ? "hidden_activation"
                    : family == YK_FAMILY_NEMOTRON_H ? "mlp_hidden_act"
                                                     : "hidden_act";
  YK_TRY(yk_json_get_str(root, file, key, false, &name, err));
  *out = (yk_activation)YK_GATED_SILU;
  if (yk_family_is_gemma(family)) out->kind = YK_ACTIVATION_GELU_TANH;
  if (family == YK_FAMILY_NEMOTRON_H) *out = (yk_activation){.kind = YK_ACTIVATION_RELU2};
  if (!name) return YK_OK;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    out->kind = known[i].kind;
    return YK_OK;
  }
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: %s \"%s\" is not supported; supported: silu (swish), gelu, gelu_pytorch_tanh, relu2", file,
                    key, name);
}

/* Whether the class default of attention_bias is true. */
static bool has_attention_bias(yk_model_family family)
{
  return family == YK_FAMILY_GLM || family == YK_FAMILY_GLM4 || family == YK_FAMILY_SEED_OSS ||
         family == YK_FAMILY_GPT_OSS;
}

static yk_status read_seed_biases(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  YK_TRY(yk_json_get_bool(root, file, "attention_out_bias", false, &config->o_bias, err));
  return yk_json_get_bool(root, file, "mlp_bias", false, &config->mlp_bias, err);
}

static yk_status read_ernie_biases(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  YK_TRY(yk_json_get_bool(root, file, "use_bias", false, &config->mlp_bias, err));
  config->qkv_bias = config->o_bias = config->mlp_bias;
  return YK_OK;
}

/* Every family has a case, so that the compiler names a new one without. */
static yk_status read_biases(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  bool attention_bias = has_attention_bias(config->family);
  YK_TRY(yk_json_get_bool(root, file, "attention_bias", false, &attention_bias, err));
  switch (config->family) {
  case YK_FAMILY_MISTRAL:
  case YK_FAMILY_MINIMAX_M2:
  case YK_FAMILY_MISTRAL3_VL:
  case YK_FAMILY_MINISTRAL3:
  case YK_FAMILY_MINISTRAL3_VL:
  case YK_FAMILY_MIXTRAL:
  case YK_FAMILY_PHI3:
  case YK_FAMILY_CHATGLM: return YK_OK; /* hf_chatglm.c */
  case YK_FAMILY_NEMOTRON_H:
  case YK_FAMILY_LLAMA:
  case YK_FAMILY_GRANITE:
    config->qkv_bias = config->o_bias = attention_bias;
    return yk_json_get_bool(root, file, "mlp_bias", false, &config->mlp_bias, err);
  case YK_FAMILY_SEED_OSS: config->qkv_bias = attention_bias; return read_seed_biases(root, file, config, err);
  case YK_FAMILY_ERNIE4_5: return read_ernie_biases(root, file, config, err);
  case YK_FAMILY_ERNIE4_5_MOE: return yk_hf_require_unset(root, file, "use_bias", err);
  case YK_FAMILY_QWEN2: config->qkv_bias = true; return YK_OK;
  case YK_FAMILY_QWEN2_MOE:
    config->qkv_bias = true;
    return yk_json_get_bool(root, file, "qkv_bias", false, &config->qkv_bias, err);
  case YK_FAMILY_GLM:
  case YK_FAMILY_GLM4:
  case YK_FAMILY_GLM4_MOE: config->qkv_bias = attention_bias; return YK_OK;
  case YK_FAMILY_QWEN3:
  case YK_FAMILY_QWEN3_MOE:
  case YK_FAMILY_QWEN3_NEXT:
  case YK_FAMILY_QWEN3_5:
  case YK_FAMILY_QWEN3_5_MOE:
  case YK_FAMILY_QWEN3_5_VL:
  case YK_FAMILY_QWEN3_5_MOE_VL:
  case YK_FAMILY_MINICPM:
  case YK_FAMILY_GRANITE_MOE:
  case YK_FAMILY_GRANITE_HYBRID:
  case YK_FAMILY_HUNYUAN:
  case YK_FAMILY_HUNYUAN_MOE:
  case YK_FAMILY_DEEPSEEK_V2:
  case YK_FAMILY_DEEPSEEK_V3:
  case YK_FAMILY_GLM4_MOE_LITE:
  case YK_FAMILY_KIMI_K25:
  case YK_FAMILY_DEEPSEEK_V32:
  case YK_FAMILY_GLM_MOE_DSA:
  case YK_FAMILY_MISTRAL4:
  case YK_FAMILY_MISTRAL4_VL:
  case YK_FAMILY_GPT_OSS:
  case YK_FAMILY_LLAMA4:
  case YK_FAMILY_LLAMA4_VL:
  case YK_FAMILY_GEMMA3:
  case YK_FAMILY_GEMMA3_VL:
  case YK_FAMILY_GEMMA4:
  case YK_FAMILY_GEMMA4_VL: config->qkv_bias = config->o_bias = attention_bias; return YK_OK;
  }
  return YK_OK;
}

/* Norms of rotated q and k, in every published file; other kinds of attention are refused. */
static yk_status read_hunyuan_norms(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char key[] = "use_qk_norm";
  config->qk_norm = config->qk_norm_follows = true;
  YK_TRY(yk_hf_require_unset(root, file, "use_cla", err));
  YK_TRY(yk_hf_require_unset(root, file, "use_mla", err));
  YK_TRY(yk_json_get_bool(root, file, key, false, &config->qk_norm, err));
  if (config->qk_norm) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s false is not supported for this family; supported: true", file, key);
}

static yk_status read_norms(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  const yk_model_family family = config->family;
  const bool is_gemma3 = yk_family_is_gemma3(family), is_gemma4 = yk_family_is_gemma4(family);
  const bool is_hybrid = yk_family_is_hybrid(family);
  config->result_norms = is_gemma3 || is_gemma4 || family == YK_FAMILY_GLM4;
  config->value_norms = config->layer_scalars = is_gemma4;
  config->row_norms = family == YK_FAMILY_MINIMAX_M2;
  config->norm_offset = is_gemma3 || is_hybrid ? 1 : 0;
  config->qk_norm = is_gemma3 || is_gemma4 || is_hybrid || family == YK_FAMILY_QWEN3 || family == YK_FAMILY_QWEN3_MOE;
  if (yk_family_is_hunyuan(family)) return read_hunyuan_norms(root, file, config, err);
  if (yk_family_is_llama4(family)) config->qk_norm = config->qk_norm_follows = config->qk_norm_is_plain = true;
  if (family != YK_FAMILY_GLM4_MOE && !yk_family_is_llama4(family)) return YK_OK;
  YK_TRY(yk_json_get_bool(root, file, "use_qk_norm", false, &config->qk_norm, err));
  config->qk_norm_follows = config->qk_norm_follows && config->qk_norm;
  return YK_OK;
}

yk_status yk_hf_read_layer_options(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  YK_TRY(read_biases(root, file, config, err));
  YK_TRY(read_norms(root, file, config, err));
  config->attention_sinks = config->family == YK_FAMILY_GPT_OSS;
  config->tie_word_embeddings = config->family == YK_FAMILY_MINICPM || config->family == YK_FAMILY_ERNIE4_5 ||
                                config->family == YK_FAMILY_ERNIE4_5_MOE || yk_family_is_gemma(config->family);
  return yk_json_get_bool(root, file, "tie_word_embeddings", false, &config->tie_word_embeddings, err);
}
