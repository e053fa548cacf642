#!/usr/bin/env python3
"""Write tests/golden/activation_goldens.h: activations of FFNs computed by torch and transformers in float64.

usage: make_activation_goldens.py [output]      (needs torch and transformers; deterministic)

Gated: f(gate) * up. Clamped SwiGLU is the function of GptOssExperts, whose alpha and limit are the module's attributes.
"""
import pathlib
import sys

import torch
import transformers
from transformers import GptOssConfig
from transformers.activations import ACT2FN
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

GATES = [-1000.0, -100.0, -20.0, -9.5, -7.25, -5.0, -3.0, -1.0, -0.5, -0.001, 0.0, 1e-4, 0.25, 0.75, 1.0, 2.5, 4.0,
         6.75, 7.5, 30.0, 500.0]
UPS = [3.0, -0.5, -8.0, 9.0]

# Name of the kind, the function of its gate.
PLAIN = [("SILU", ACT2FN["silu"]), ("GELU_TANH", ACT2FN["gelu_pytorch_tanh"]), ("GELU_ERF", ACT2FN["gelu"]),
         ("RELU2", ACT2FN["relu2"])]


def clamped_swiglu(gate, up):
    """(y, alpha, limit) by the code of GptOssExperts._apply_gate, on a stand-in for the module."""
    config = GptOssConfig()
    alpha, limit = (torch.tensor(value, dtype=torch.float32).item()  # as on a device
                    for value in (config.swiglu_alpha, config.swiglu_limit))
    module = type("Experts", (), {"alpha": alpha, "limit": limit})()
    both = torch.stack((gate, up), dim=-1).flatten()  # interleaved, as in the checkpoint
    return GptOssExperts._apply_gate(module, both), alpha, limit


def rows():
    for up in UPS:
        gates, ups = torch.tensor(GATES, dtype=torch.float64), torch.full((len(GATES),), up, dtype=torch.float64)
        for name, function in PLAIN:
            for gate, y in zip(GATES, function(gates), strict=True):
                yield name, 0.0, 0.0, gate, up, y.item() * up
        y, alpha, limit = clamped_swiglu(gates, ups)
        for gate, value in zip(GATES, y.tolist(), strict=True):
            yield "CLAMPED_SWIGLU", alpha, limit, gate, up, value


def main():
    default = pathlib.Path(__file__).resolve().parent / "activation_goldens.h"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    lines = [f"/* Written by make_activation_goldens.py with torch {torch.__version__} and transformers "
             f"{transformers.__version__}. */",
             "#ifndef TESTS_GOLDEN_ACTIVATION_GOLDENS_H", "#define TESTS_GOLDEN_ACTIVATION_GOLDENS_H", "",
             '#include "kernels/activation.h"', "", "typedef struct activation_golden {", "  yk_activation activation;",
             "  double gate, up, y;", "} activation_golden;", "",
             "static const activation_golden activation_goldens[] = {"]
    lines += [f"    {{{{YK_ACTIVATION_{name}, true, {alpha!r}f, {limit!r}f}}, {gate!r}, {up!r}, {y!r}}},"
              for name, alpha, limit, gate, up, y in rows()]
    out.write_text("\n".join([*lines, "};", "", "#endif", ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
