/* hf_family.c - the families of models: their names, and the classes and model types that mean them. */
#include <string.h>

#include "loader/hf/hf_config.h"
#include "loader/hf/hf_parts.h"

static const char *const family_names[] = {
    [YK_FAMILY_LLAMA] = "llama",
    [YK_FAMILY_MISTRAL] = "mistral",
    [YK_FAMILY_QWEN2] = "qwen2",
    [YK_FAMILY_QWEN3] = "qwen3",
    [YK_FAMILY_MINICPM] = "minicpm",
    [YK_FAMILY_GLM] = "glm",
    [YK_FAMILY_CHATGLM] = "chatglm",
    [YK_FAMILY_MIXTRAL] = "mixtral",
    [YK_FAMILY_QWEN2_MOE] = "qwen2_moe",
    [YK_FAMILY_QWEN3_MOE] = "qwen3_moe",
    [YK_FAMILY_GLM4_MOE] = "glm4_moe",
    [YK_FAMILY_DEEPSEEK_V2] = "deepseek_v2",
    [YK_FAMILY_DEEPSEEK_V3] = "deepseek_v3",
    [YK_FAMILY_QWEN3_NEXT] = "qwen3_next",
    [YK_FAMILY_QWEN3_5] = "qwen3_5",
    [YK_FAMILY_QWEN3_5_MOE] = "qwen3_5_moe",
    [YK_FAMILY_QWEN3_5_VL] = "qwen3_5",
    [YK_FAMILY_QWEN3_5_MOE_VL] = "qwen3_5_moe",
    [YK_FAMILY_SEED_OSS] = "seed_oss",
    [YK_FAMILY_ERNIE4_5] = "ernie4_5",
    [YK_FAMILY_ERNIE4_5_MOE] = "ernie4_5_moe",
    [YK_FAMILY_GRANITE] = "granite",
    [YK_FAMILY_GRANITE_MOE] = "granitemoe",
    [YK_FAMILY_GRANITE_HYBRID] = "granitemoehybrid",
    [YK_FAMILY_HUNYUAN] = "hunyuan_v1_dense",
    [YK_FAMILY_HUNYUAN_MOE] = "hunyuan_v1_moe",
    [YK_FAMILY_PHI3] = "phi3",
    [YK_FAMILY_GLM4_MOE_LITE] = "glm4_moe_lite",
    [YK_FAMILY_KIMI_K25] = "kimi_k25",
    [YK_FAMILY_DEEPSEEK_V32] = "deepseek_v32",
    [YK_FAMILY_GLM_MOE_DSA] = "glm_moe_dsa",
    [YK_FAMILY_GPT_OSS] = "gpt_oss",
    [YK_FAMILY_GEMMA3] = "gemma3_text",
    [YK_FAMILY_GEMMA3_VL] = "gemma3",
    [YK_FAMILY_GEMMA4] = "gemma4_text",
    [YK_FAMILY_GEMMA4_VL] = "gemma4",
    [YK_FAMILY_GLM4] = "glm4",
    [YK_FAMILY_MINIMAX_M2] = "minimax_m2",
    [YK_FAMILY_NEMOTRON_H] = "nemotron_h",
    [YK_FAMILY_MISTRAL3_VL] = "mistral3",
    [YK_FAMILY_MINISTRAL3] = "ministral3",
    [YK_FAMILY_MINISTRAL3_VL] = "mistral3",
    [YK_FAMILY_MISTRAL4] = "mistral4",
    [YK_FAMILY_MISTRAL4_VL] = "mistral3",
    [YK_FAMILY_LLAMA4] = "llama4_text",
    [YK_FAMILY_LLAMA4_VL] = "llama4",
};

/* A class in "architectures" or a "model_type", and its family. */
typedef struct known_name {
  const char *name;
  yk_model_family family;
} known_name;

static const known_name architectures[] = {
    {"LlamaForCausalLM", YK_FAMILY_LLAMA},
    {"LLaMAForCausalLM", YK_FAMILY_LLAMA},
    {"MistralForCausalLM", YK_FAMILY_MISTRAL},
    {"Mistral3ForConditionalGeneration", YK_FAMILY_MISTRAL3_VL},
    {"Ministral3ForCausalLM", YK_FAMILY_MINISTRAL3},
    {"Mistral4ForCausalLM", YK_FAMILY_MISTRAL4},
    {"MiniMaxM2ForCausalLM", YK_FAMILY_MINIMAX_M2},
    {"NemotronHForCausalLM", YK_FAMILY_NEMOTRON_H},
    {"Qwen2ForCausalLM", YK_FAMILY_QWEN2},
    {"Qwen3ForCausalLM", YK_FAMILY_QWEN3},
    {"MiniCPMForCausalLM", YK_FAMILY_MINICPM},
    {"FM9GForCausalLM", YK_FAMILY_MINICPM},
    {"GlmForCausalLM", YK_FAMILY_GLM},
    {"Glm4ForCausalLM", YK_FAMILY_GLM4},
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
    {"Ernie4_5_MoeForCausalLM", YK_FAMILY_ERNIE4_5_MOE},
    {"GraniteForCausalLM", YK_FAMILY_GRANITE},
    {"GraniteMoeForCausalLM", YK_FAMILY_GRANITE_MOE},
    {"GraniteMoeSharedForCausalLM", YK_FAMILY_GRANITE_MOE},
    {"GraniteMoeHybridForCausalLM", YK_FAMILY_GRANITE_HYBRID},
    {"HunYuanDenseV1ForCausalLM", YK_FAMILY_HUNYUAN},
    {"HunYuanMoEV1ForCausalLM", YK_FAMILY_HUNYUAN_MOE},
    {"Phi3ForCausalLM", YK_FAMILY_PHI3},
    {"Glm4MoeLiteForCausalLM", YK_FAMILY_GLM4_MOE_LITE},
    {"KimiK25ForConditionalGeneration", YK_FAMILY_KIMI_K25},
    {"DeepseekV32ForCausalLM", YK_FAMILY_DEEPSEEK_V32},
    {"GlmMoeDsaForCausalLM", YK_FAMILY_GLM_MOE_DSA},
    {"GptOssForCausalLM", YK_FAMILY_GPT_OSS},
    {"Gemma3ForCausalLM", YK_FAMILY_GEMMA3},
    {"Gemma3ForConditionalGeneration", YK_FAMILY_GEMMA3_VL},
    {"Gemma4ForCausalLM", YK_FAMILY_GEMMA4},
    {"Gemma4ForConditionalGeneration", YK_FAMILY_GEMMA4_VL},
    {"Llama4ForCausalLM", YK_FAMILY_LLAMA4},
    {"Llama4ForConditionalGeneration", YK_FAMILY_LLAMA4_VL},
};
static const known_name model_types[] = {
    {"llama", YK_FAMILY_LLAMA},
    {"mistral", YK_FAMILY_MISTRAL},
    {"mistral3", YK_FAMILY_MISTRAL3_VL},
    {"ministral3", YK_FAMILY_MINISTRAL3},
    {"mistral4", YK_FAMILY_MISTRAL4},
    {"minimax_m2", YK_FAMILY_MINIMAX_M2},
    {"nemotron_h", YK_FAMILY_NEMOTRON_H},
    {"llama4_text", YK_FAMILY_LLAMA4},
    {"llama4", YK_FAMILY_LLAMA4_VL},
    {"qwen2", YK_FAMILY_QWEN2},
    {"qwen3", YK_FAMILY_QWEN3},
    {"minicpm", YK_FAMILY_MINICPM},
    {"fm9g", YK_FAMILY_MINICPM},
    {"fm9g7b", YK_FAMILY_MINICPM},
    {"glm", YK_FAMILY_GLM},
    {"glm4", YK_FAMILY_GLM4},
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
    {"ernie4_5_moe", YK_FAMILY_ERNIE4_5_MOE},
    {"granite", YK_FAMILY_GRANITE},
    {"granitemoe", YK_FAMILY_GRANITE_MOE},
    {"granitemoeshared", YK_FAMILY_GRANITE_MOE},
    {"granitemoehybrid", YK_FAMILY_GRANITE_HYBRID},
    {"hunyuan_v1_dense", YK_FAMILY_HUNYUAN},
    {"hunyuan_v1_moe", YK_FAMILY_HUNYUAN_MOE},
    {"phi3", YK_FAMILY_PHI3},
    {"glm4_moe_lite", YK_FAMILY_GLM4_MOE_LITE},
    {"kimi_k25", YK_FAMILY_KIMI_K25},
    {"deepseek_v32", YK_FAMILY_DEEPSEEK_V32},
    {"glm_moe_dsa", YK_FAMILY_GLM_MOE_DSA},
    {"gpt_oss", YK_FAMILY_GPT_OSS},
    {"gemma3_text", YK_FAMILY_GEMMA3},
    {"gemma3", YK_FAMILY_GEMMA3_VL},
    {"gemma4_text", YK_FAMILY_GEMMA4},
    {"gemma4", YK_FAMILY_GEMMA4_VL},
};
/* Short, so that the list fits into a message after the name of a class; loader/README.md has a table of classes. */
static const char supported_architectures[] =
    "Llama, Mistral, Qwen2 to 3.8, DeepSeek-V2 to V3.2, Kimi-K2, ChatGLM, GLM, gpt-oss, MiniMax-M2, Nemotron, "
    "Gemma 3, 4, Seed, Ernie, Granite, Hunyuan, MiniCPM, FM9G, Phi-3";

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

/* A name that the message has no space for ends in dots. */
static yk_status refuse_class(const char *file, const char *name, yk_err *err)
{
  enum { MOST_BYTES = 28 };
  const bool is_cut = strlen(name) > MOST_BYTES;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: unsupported architecture \"%.*s%s\"; supported: %s", file,
                    is_cut ? MOST_BYTES - 3 : MOST_BYTES, name, is_cut ? "..." : "", supported_architectures);
}

static yk_status find_family(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_json classes = yk_json_get(root, "architectures");
  const char *name = NULL, *model_type = NULL;
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
  /* read only if "architectures" is missing: otherwise it has no effect, and --hf-overrides refuses keys that no code
   * reads */
  if (!name) YK_TRY(yk_json_get_str(root, file, "model_type", false, &model_type, err));
  if (!name && model_type) {
    name = model_type;
    const known_name *known = find_name(model_types, sizeof model_types / sizeof *model_types, name);
    if (known) {
      config->family = known->family;
      return YK_OK;
    }
  }
  if (!name) return yk_err_set(err, YK_E_FORMAT, "%s: key \"architectures\" is missing", file);
  return refuse_class(file, name, err);
}

/* Mistral's class of models that read images has text models of several families, which "text_config" names. */
static yk_status choose_mistral_text(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const known_name texts[] = {
      {"mistral", YK_FAMILY_MISTRAL3_VL}, {"ministral3", YK_FAMILY_MINISTRAL3_VL}, {"mistral4", YK_FAMILY_MISTRAL4_VL}};
  const char *type = NULL;
  if (config->family != YK_FAMILY_MISTRAL3_VL) return YK_OK;
  yk_json text = yk_json_get(root, "text_config");
  if (yk_json_is(text, YK_JSON_OBJECT)) YK_TRY(yk_json_get_str(text, file, "model_type", false, &type, err));
  if (!type) return YK_OK; /* the class default is Mistral */
  const known_name *known = find_name(texts, sizeof texts / sizeof *texts, type);
  if (!known)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: text_config: model_type \"%s\" is not supported; supported: mistral, ministral3, mistral4",
                      file, type);
  config->family = known->family;
  return YK_OK;
}

/* The prefix of the text model in the published files of the family. */
static yk_text_place text_place_of(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_QWEN3_5_VL:
  case YK_FAMILY_QWEN3_5_MOE_VL:
  case YK_FAMILY_GEMMA4_VL: return YK_TEXT_IN_MODEL;
  case YK_FAMILY_NEMOTRON_H: return YK_TEXT_IN_BACKBONE;
  case YK_FAMILY_KIMI_K25:
  case YK_FAMILY_GEMMA3_VL:
  case YK_FAMILY_MISTRAL3_VL:
  case YK_FAMILY_MINISTRAL3_VL:
  case YK_FAMILY_MISTRAL4_VL:
  case YK_FAMILY_LLAMA4_VL: return YK_TEXT_OUTSIDE_MODEL;
  default: return YK_TEXT_ALONE;
  }
}

yk_status yk_hf_read_family(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  YK_TRY(find_family(root, file, config, err));
  YK_TRY(choose_mistral_text(root, file, config, err));
  config->text_place = text_place_of(config->family);
  return YK_OK;
}
