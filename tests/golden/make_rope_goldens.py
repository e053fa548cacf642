#!/usr/bin/env python3
"""Write tests/golden/rope_goldens.h: rotary frequencies, cosines and sines computed by transformers in float32.

usage: make_rope_goldens.py [output]      (needs torch and transformers; deterministic)
"""
import math
import pathlib
import sys

import torch
import transformers
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

POSITIONS = [0, 1, 7, 300, 4095, 100000]

FACTORS = {"short_factor": [1.0, 1.05, 1.1, 1.5, 2.0, 2.5, 3.0, 3.5],
           "long_factor": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0]}
# name, head_dim, max_position_embeddings, rope_parameters in a form of config.json
CASES = [
    ("default", 16, 4096, {"rope_type": "default", "rope_theta": 10000.0}),
    ("default_long", 128, 40960, {"rope_type": "default", "rope_theta": 1000000.0}),
    ("default_odd_pairs", 6, 4096, {"rope_type": "default", "rope_theta": 500000.0}),
    ("linear", 16, 4096, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}),
    ("llama3", 128, 131072,
     {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}),
    ("llama3_small", 16, 256,
     {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 32.0, "low_freq_factor": 1.5, "high_freq_factor": 6.0,
      "original_max_position_embeddings": 64}),
    ("yarn", 128, 131072,
     {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}),
    ("yarn_small", 16, 256,
     {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}),
    ("yarn_betas", 32, 8192,
     {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 512,
      "beta_fast": 24.0, "beta_slow": 2.0, "attention_factor": 0.75}),
    ("yarn_mscale", 64, 163840,
     {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096,
      "mscale": 0.707, "mscale_all_dim": 1.0}),
    ("yarn_half_mscale", 16, 1024,
     {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 128,
      "mscale": 0.5}),
    ("yarn_clamped", 8, 150000,
     {"rope_type": "yarn", "rope_theta": 20.0, "factor": 1.5, "original_max_position_embeddings": 100000,
      "beta_fast": 5000.0, "truncate": False}),
    ("yarn_step", 32, 4096,
     {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 1024,
      "beta_fast": 8.0, "beta_slow": 8.0, "truncate": False}),
    ("yarn_exact", 64, 131072,
     {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 4096,
      "truncate": False}),
    ("longrope_short", 16, 400000,
     {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 200000,
      **FACTORS}),
    ("longrope_long", 16, 131072,
     {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 4096,
      **FACTORS}),
    ("longrope_factors", 16, 131072,
     {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 4096, "attention_factor": 1.7,
      "factor": 3.0, "short_factor": 8 * [1.25], "long_factor": 8 * [7.3]}),
]
TYPES = {"default": "YK_ROPE_DEFAULT", "linear": "YK_ROPE_LINEAR", "llama3": "YK_ROPE_LLAMA3", "yarn": "YK_ROPE_YARN",
         "longrope": "YK_ROPE_LONGROPE"}


def c_floats(tensor):
    numbers = [float(v).hex() + "f" for v in tensor.flatten()]
    lines = [", ".join(numbers[i:i + 5]) for i in range(0, len(numbers), 5)]
    return "{" + ",\n   ".join(lines) + "}"


def c_config(p, max_positions):
    fields = {
        "type": TYPES[p["rope_type"]],
        "theta": p["rope_theta"],
        "factor": p.get("factor", 1.0),
        "original_max_positions": p.get("original_max_position_embeddings", max_positions),
        "low_freq_factor": p.get("low_freq_factor", 1.0),
        "high_freq_factor": p.get("high_freq_factor", 4.0),
        "beta_fast": p.get("beta_fast", 32.0),
        "beta_slow": p.get("beta_slow", 1.0),
        "attention_factor": p.get("attention_factor", 0),
        "mscale": p.get("mscale", 0),
        "mscale_all_dim": p.get("mscale_all_dim", 0),
        "truncate": str(p.get("truncate", True)).lower(),
    }
    if p["rope_type"] == "longrope":  # as hf_longrope.c reads it
        fields["factor"] = p.get("factor", max_positions / p["original_max_position_embeddings"])
        fields["attention_factor"] = p.get("attention_factor", math.sqrt(
            1 + math.log(fields["factor"]) / math.log(p["original_max_position_embeddings"])))
        for key in ("short", "long"):
            fields[f"{key}_divisors"] = "{" + ", ".join(f"{value}f" for value in p[f"{key}_factor"]) + "}"
    return "{" + ", ".join(f".{k} = {v}" for k, v in fields.items()) + "}"


def fold(text):
    """Breaks each line that is wider than 120 columns after commas."""
    lines = []
    for line in text.splitlines():
        while len(line) > 120:
            at = line.rindex(", ", 0, 121)
            lines.append(line[:at + 1])
            line = "   " + line[at + 2:]
        lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    here = pathlib.Path(__file__).resolve().parent
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "rope_goldens.h"
    arrays, rows = [], []
    for name, head_dim, max_positions, parameters in CASES:
        config = LlamaConfig(hidden_size=4 * head_dim, num_attention_heads=4, head_dim=head_dim,
                             max_position_embeddings=max_positions, rope_parameters=dict(parameters))
        rope = LlamaRotaryEmbedding(config)
        cos, sin = rope(torch.zeros(1), torch.tensor([POSITIONS]))
        half = head_dim // 2
        # Both halves of transformers' rows are equal: keep one, in the layout of Yoke's table.
        table = torch.stack([cos[0, :, :half], sin[0, :, :half]], dim=1)
        arrays.append(f"static const float {name}_inv_freq[] =\n  {c_floats(rope.inv_freq)};")
        arrays.append(f"static const float {name}_table[] =\n  {c_floats(table)};")
        rows.append(f'  {{"{name}", {head_dim}, {c_config(parameters, max_positions)},\n'
                    f"   {float(rope.attention_scaling).hex()}, {name}_inv_freq, {name}_table}},")
    packages = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    text = f"""/* Made by tests/golden/make_rope_goldens.py with {packages}. */
#ifndef YK_GOLDEN_ROPE_GOLDENS_H
#define YK_GOLDEN_ROPE_GOLDENS_H

#include "loader/hf/hf_config.h"

static const int rope_golden_positions[] = {{{", ".join(map(str, POSITIONS))}}};

/* inv_freq: [head_dim / 2]. table: [positions][2][head_dim / 2], cosines then sines. */
typedef struct rope_golden {{
  const char *name;
  int head_dim;
  yk_rope_config rope;
  double attention_scaling;
  const float *inv_freq, *table;
}} rope_golden;

/* clang-format off */
""" + "\n".join(arrays) + "\n\nstatic const rope_golden rope_goldens[] = {\n" + "\n".join(rows) + "\n};\n\n#endif\n"
    output.write_text(fold(text))


if __name__ == "__main__":
    main()
