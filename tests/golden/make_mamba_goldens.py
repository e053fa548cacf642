#!/usr/bin/env python3
"""Write tests/golden/mamba_goldens.h: Mamba2 computed by the public transformers in float32.

usage: make_mamba_goldens.py [output]      (needs torch and transformers; deterministic)

The reference is NemotronHMamba2Mixer. x are its projections of random rows, y what out_proj reads. The class takes the
smallest step from time_step_min.
"""

import pathlib
import sys

import torch
import transformers
from transformers.models.nemotron_h.configuration_nemotron_h import NemotronHConfig
from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHMamba2Mixer

GROUPS, HEADS, HEAD_DIM, STATE, TOKENS, HIDDEN, MIN_STEP = 2, 6, 16, 32, 11, 24, 0.3


@torch.no_grad()
def arrays():
    torch.manual_seed(5)
    config = NemotronHConfig(hidden_size=HIDDEN, mamba_num_heads=HEADS, mamba_head_dim=HEAD_DIM, n_groups=GROUPS,
                             ssm_state_size=STATE, chunk_size=4, time_step_min=MIN_STEP, layer_norm_epsilon=1e-5,
                             layers_block_type=["linear_attention"])
    net = NemotronHMamba2Mixer(config, 0).float().eval()
    for parameter in net.parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 1.3 / parameter[0].numel()**0.5)
    net.conv1d.bias.uniform_(-1, 1)
    net.A_log.copy_(torch.log(torch.linspace(0.05, 3, HEADS)))
    net.D.uniform_(0.5, 1.5)
    net.dt_bias.uniform_(-2, 1)
    net.norm.weight.uniform_(0.5, 1.5)
    rows, read = torch.randn(1, TOKENS, HIDDEN), []
    net.out_proj.register_forward_pre_hook(lambda module, args: read.append(args[0][0]))
    net(rows)
    return {"x": net.in_proj(rows)[0], "conv_w": net.conv1d.weight[:, 0].T, "conv_bias": net.conv1d.bias,
            "rate": net.A_log.exp(), "dt_bias": net.dt_bias, "skip": net.D, "norm_w": net.norm.weight, "y": read[0]}


def main():
    default = pathlib.Path(__file__).resolve().parent / "mamba_goldens.h"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    lines = [f"/* Written by make_mamba_goldens.py with torch {torch.__version__} and transformers "
             f"{transformers.__version__}. */",
             "/* clang-format off */",
             "#ifndef TESTS_GOLDEN_MAMBA_GOLDENS_H", "#define TESTS_GOLDEN_MAMBA_GOLDENS_H", "",
             "enum {", f"  MAMBA_GOLDEN_GROUPS = {GROUPS},", f"  MAMBA_GOLDEN_HEADS = {HEADS},",
             f"  MAMBA_GOLDEN_HEAD_DIM = {HEAD_DIM},", f"  MAMBA_GOLDEN_STATE = {STATE},",
             f"  MAMBA_GOLDEN_TOKENS = {TOKENS}", "};", "",
             f"static const float mamba_golden_min_step = {MIN_STEP}f;", ""]
    for name, tensor in arrays().items():
        numbers = [f"{value:.9g}f" if "." in f"{value:.9g}" or "e" in f"{value:.9g}" else f"{value:.9g}.0f"
                   for value in tensor.flatten().tolist()]
        lines.append(f"static const float mamba_golden_{name}[] = {{")
        lines += ["    " + ", ".join(numbers[i:i + 7]) + "," for i in range(0, len(numbers), 7)]
        lines += ["};", ""]
    out.write_text("\n".join([*lines, "#endif", ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
