#!/usr/bin/env python3
"""Write tests/golden/class_defaults.h: values of transformers' configuration classes for keys that a file lacks.

usage: make_class_defaults.py [output]      (needs transformers; deterministic)
"""
import pathlib
import sys

import transformers

# model_type and class of the model; the class of the configuration is found by model_type.
FAMILIES = [
    ("llama", "LlamaForCausalLM"), ("mistral", "MistralForCausalLM"), ("qwen2", "Qwen2ForCausalLM"),
    ("qwen3", "Qwen3ForCausalLM"), ("glm", "GlmForCausalLM"), ("mixtral", "MixtralForCausalLM"),
    ("qwen2_moe", "Qwen2MoeForCausalLM"), ("qwen3_moe", "Qwen3MoeForCausalLM"), ("glm4_moe", "Glm4MoeForCausalLM"),
    ("deepseek_v2", "DeepseekV2ForCausalLM"), ("deepseek_v3", "DeepseekV3ForCausalLM"),
    ("qwen3_next", "Qwen3NextForCausalLM"), ("qwen3_5_text", "Qwen3_5ForCausalLM"),
    ("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"), ("seed_oss", "SeedOssForCausalLM"),
    ("ernie4_5", "Ernie4_5ForCausalLM"), ("ernie4_5_moe", "Ernie4_5_MoeForCausalLM"),
    ("granite", "GraniteForCausalLM"), ("granitemoe", "GraniteMoeForCausalLM"),
    ("granitemoeshared", "GraniteMoeSharedForCausalLM"), ("phi3", "Phi3ForCausalLM"),
    ("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM"),
    ("glm4_moe_lite", "Glm4MoeLiteForCausalLM"), ("deepseek_v32", "DeepseekV32ForCausalLM"),
    ("glm_moe_dsa", "GlmMoeDsaForCausalLM"), ("gpt_oss", "GptOssForCausalLM"), ("gemma3_text", "Gemma3ForCausalLM"),
    ("glm4", "Glm4ForCausalLM"), ("ministral3", "Ministral3ForCausalLM"), ("mistral4", "Mistral4ForCausalLM"),
    ("llama4_text", "Llama4ForCausalLM"),
]


def ids(value):
    given = value if isinstance(value, list) else [] if value is None else [value]
    return given + [-1] * (3 - len(given))


def row(model_type, name):
    config = transformers.CONFIG_MAPPING[model_type]()
    rope = config.rope_parameters
    local = rope.get("sliding_attention", {}).get("rope_theta", 0)
    rope = rope.get("full_attention", rope)
    is_default = rope["rope_type"] == "default"
    eos = ", ".join(str(i) for i in ids(config.eos_token_id))
    bos = -1 if config.bos_token_id is None else config.bos_token_id
    return (f'  {{"{name}", {config.rms_norm_eps!r}, {rope["rope_theta"]:g}, {local:g}, '
            f'YK_ROPE_{rope["rope_type"].upper()}, {float(rope.get("factor", 1))!r}, '
            f'{0 if is_default else rope["original_max_position_embeddings"]}, '
            f'{str(rope.get("truncate", True)).lower()}, {rope.get("partial_rotary_factor", 1.0)!r}, '
            f'{str(config.tie_word_embeddings).lower()}, {bos}, {{{eos}}}}},\n')


def main():
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "class_defaults.h")
    text = f"""/* Made by tests/golden/make_class_defaults.py with transformers {transformers.__version__}. */
#ifndef YK_GOLDEN_CLASS_DEFAULTS_H
#define YK_GOLDEN_CLASS_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/hf/hf_config.h"

typedef struct class_defaults {{
  const char *name;
  double rms_norm_eps, rope_theta, local_theta; /* local_theta 0: no layer type has a base of its own */
  yk_rope_type rope_type;
  double rope_factor, rope_original; /* original 0: not used */
  bool rope_truncate;
  double rotary_share;
  bool ties_embeddings;
  int32_t bos, eos[3]; /* -1: none */
}} class_defaults;

/* clang-format off */
static const class_defaults golden_class_defaults[] = {{
{"".join(row(*family) for family in FAMILIES)}}};
/* clang-format on */

#endif
"""
    output.write_text(text)


main()
