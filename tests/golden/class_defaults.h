/* Made by tests/golden/make_class_defaults.py with transformers 5.24.0. */
#ifndef YK_GOLDEN_CLASS_DEFAULTS_H
#define YK_GOLDEN_CLASS_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/hf/hf_config.h"

typedef struct class_defaults {
  const char *name;
  double rms_norm_eps, rope_theta, local_theta; /* local_theta 0: no layer type has a separate base */
  yk_rope_type rope_type;
  double rope_factor, rope_original; /* original 0: not used */
  bool rope_truncate;
  double rotary_share;
  bool ties_embeddings;
  int32_t bos, eos[3]; /* -1: none */
} class_defaults;

/* clang-format off */
static const class_defaults golden_class_defaults[] = {
  {"LlamaForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"MistralForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"Qwen2ForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, -1, {-1, -1, -1}},
  {"Qwen3ForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, -1, {-1, -1, -1}},
  {"GlmForCausalLM", 1.5625e-07, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 0.5, false, -1, {151329, 151336, 151338}},
  {"MixtralForCausalLM", 1e-05, 1e+06, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"Qwen2MoeForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, -1, {-1, -1, -1}},
  {"Qwen3MoeForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, -1, {-1, -1, -1}},
  {"Glm4MoeForCausalLM", 1e-05, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 0.5, false, -1, {-1, -1, -1}},
  {"DeepseekV2ForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"DeepseekV3ForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 0, {1, -1, -1}},
  {"Qwen3NextForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 0.25, false, -1, {-1, -1, -1}},
  {"Qwen3_5ForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 0.25, false, -1, {-1, -1, -1}},
  {"Qwen3_5MoeForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 0.25, false, -1, {-1, -1, -1}},
  {"SeedOssForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 0, {2, -1, -1}},
  {"Ernie4_5ForCausalLM", 1e-05, 500000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, true, 1, {2, -1, -1}},
  {"Ernie4_5_MoeForCausalLM", 1e-05, 500000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, true, 1, {2, -1, -1}},
  {"GraniteForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"GraniteMoeForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"GraniteMoeSharedForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"Phi3ForCausalLM", 1e-05, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {32000, -1, -1}},
  {"HunYuanDenseV1ForCausalLM", 1e-05, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
  {"Glm4MoeLiteForCausalLM", 1e-05, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 0, {1, -1, -1}},
  {"DeepseekV32ForCausalLM", 1e-06, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 0, {1, -1, -1}},
  {"GlmMoeDsaForCausalLM", 1e-05, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 0, {1, -1, -1}},
  {"GptOssForCausalLM", 1e-05, 150000, 0, YK_ROPE_YARN, 32.0, 4096, false, 1.0, false, -1, {-1, -1, -1}},
  {"Gemma3ForCausalLM", 1e-06, 1e+06, 10000, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, true, 2, {1, -1, -1}},
  {"Glm4ForCausalLM", 1.5625e-07, 10000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 0.5, false, -1, {151329, 151336, 151338}},
  {"Ministral3ForCausalLM", 1e-05, 1e+06, 0, YK_ROPE_YARN, 16.0, 16384, true, 1.0, false, 1, {2, -1, -1}},
  {"Mistral4ForCausalLM", 1e-06, 10000, 0, YK_ROPE_YARN, 128.0, 8192, true, 0.5, false, 1, {2, -1, -1}},
  {"Llama4ForCausalLM", 1e-05, 500000, 0, YK_ROPE_DEFAULT, 1.0, 0, true, 1.0, false, 1, {2, -1, -1}},
};
/* clang-format on */

#endif
