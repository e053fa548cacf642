#!/usr/bin/env python3
"""Write tests/golden/delta_goldens.h: gated delta nets computed by the public transformers in float32.

usage: make_delta_goldens.py [output]      (needs torch and transformers; deterministic)

The reference is Qwen3_5GatedDeltaNet. x are its projections of random rows, y what out_proj reads.
"""

import pathlib
import sys

import torch
import transformers
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet

KEYS, VALUES, KEY_DIM, VALUE_DIM, TOKENS, HIDDEN = 2, 6, 16, 32, 11, 24


@torch.no_grad()
def arrays():
    torch.manual_seed(5)
    config = Qwen3_5TextConfig(hidden_size=HIDDEN, linear_num_key_heads=KEYS, linear_num_value_heads=VALUES,
                               linear_key_head_dim=KEY_DIM, linear_value_head_dim=VALUE_DIM, num_hidden_layers=1)
    net = Qwen3_5GatedDeltaNet(config, 0).float().eval()
    for parameter in net.parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 1.3 / parameter[0].numel()**0.5)
    net.A_log.copy_(torch.log(torch.linspace(0.05, 3, VALUES)))
    net.dt_bias.uniform_(-2, 1)
    net.norm.weight.uniform_(0.5, 1.5)
    rows, read = torch.randn(1, TOKENS, HIDDEN), []
    net.out_proj.register_forward_pre_hook(lambda module, args: read.append(args[0][0]))
    net(rows)
    x = torch.cat([layer(rows)[0] for layer in (net.in_proj_qkv, net.in_proj_z, net.in_proj_b, net.in_proj_a)], -1)
    return {"x": x, "conv_w": net.conv1d.weight[:, 0].T, "rate": net.A_log.exp(), "dt_bias": net.dt_bias,
            "norm_w": net.norm.weight, "y": read[0]}


def main():
    default = pathlib.Path(__file__).resolve().parent / "delta_goldens.h"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    lines = [f"/* Written by make_delta_goldens.py with torch {torch.__version__} and transformers "
             f"{transformers.__version__}. */",
             "/* clang-format off */",
             "#ifndef TESTS_GOLDEN_DELTA_GOLDENS_H", "#define TESTS_GOLDEN_DELTA_GOLDENS_H", "",
             "enum {", f"  DELTA_GOLDEN_KEYS = {KEYS},", f"  DELTA_GOLDEN_VALUES = {VALUES},",
             f"  DELTA_GOLDEN_KEY_DIM = {KEY_DIM},", f"  DELTA_GOLDEN_VALUE_DIM = {VALUE_DIM},",
             f"  DELTA_GOLDEN_TOKENS = {TOKENS}", "};", ""]
    for name, tensor in arrays().items():
        numbers = [f"{value:.9g}f" if "." in f"{value:.9g}" or "e" in f"{value:.9g}" else f"{value:.9g}.0f"
                   for value in tensor.flatten().tolist()]
        lines.append(f"static const float delta_golden_{name}[] = {{")
        lines += ["    " + ", ".join(numbers[i:i + 7]) + "," for i in range(0, len(numbers), 7)]
        lines += ["};", ""]
    out.write_text("\n".join([*lines, "#endif", ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
