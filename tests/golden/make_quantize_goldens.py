#!/usr/bin/env python3
"""Makes the goldens of quantisation to AWQ's 4-bit integers (kernels/awq_quantize.h), with numpy alone:
quantize/rtn.safetensors.

python3 make_quantize_goldens.py, with numpy, torch and safetensors. Each case NAME has NAME.w (f16, bf16 or f32 [n,
k]), NAME.qweight, NAME.qzeros and NAME.scales; groups follow from the shapes. The arithmetic is written from the
definition in the header, a whole matrix at a time, and compared with AutoAWQ's published formula where both are
equivalent: groups of both signs, whose width is a float16 number.
"""

import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "models"))
import awq_pack  # noqa: E402


def quantize(weight, group):
    """float32 [n, k] -> q [k, n], zeros [k/g, n], scales f16 [k/g, n]."""
    n, k = weight.shape
    groups = weight.reshape(n, k // group, group)
    low, high = np.minimum(groups.min(2), 0), np.maximum(groups.max(2), 0)
    scales = (np.maximum(high - low, np.float32(1e-5)) / np.float32(15)).astype(np.float16)
    wide = scales.astype(np.float32)
    zeros = np.clip(np.rint(-low / wide), 0, 15)
    q = np.clip(np.rint(groups / wide[:, :, None]) + zeros[:, :, None], 0, 15)
    return q.reshape(n, k).T.astype(np.uint8), zeros.T.astype(np.uint8), np.ascontiguousarray(scales.T)


def autoawq(weight, group):
    """Results of AutoAWQ's pseudo_quantize_tensor and WQLinear_GEMM.from_linear for one weight, in float32 except for
    the scale: q [k, n] and zeros [k/g, n]."""
    w = torch.from_numpy(weight).reshape(-1, group)
    width = (w.amax(1, True) - w.amin(1, True)).clamp(min=1e-5)
    scales = (width / 15).half().float()
    zeros = (-torch.round(w.amin(1, True) / scales)).clamp(0, 15)
    pseudo = (torch.clamp(torch.round(w / scales) + zeros, 0, 15) - zeros) * scales
    q = torch.round((pseudo + zeros * scales) / scales)
    n, k = weight.shape
    return q.reshape(n, k).T.numpy().astype(np.uint8), zeros.reshape(n, -1).T.numpy().astype(np.uint8)


def draw(rng, n, k):
    weight = (rng.standard_normal((n, k)) * 0.05).astype(np.float32)
    weight[:, rng.integers(0, k, 3)] *= 8  # outliers
    return weight


def odd(rng, n, k):
    """Difficult rows: zeros, one sign, constants, ties, tiny and large numbers, a single weight."""
    weight = draw(rng, n, k)
    weight[0] = 0
    weight[1] = np.abs(weight[1]) + 0.5
    weight[2] = -np.abs(weight[2]) - 0.25
    weight[3] = 0.75
    weight[4] = rng.integers(-15, 16, k) / 2  # ties: the scale is 1
    weight[4, ::32], weight[4, 1::32] = -7.5, 7.5
    weight[5] *= 1e-6
    weight[6] *= 1e4
    weight[7] = 0
    weight[7, k // 2] = 3
    weight[8] = -weight[4]
    weight[9] *= 1e-4
    return weight


def main():
    rng = np.random.default_rng(7)
    tensors = {}
    cases = [("f16_g32", torch.float16, 32, odd(rng, 32, 192)), ("bf16_g64", torch.bfloat16, 64, draw(rng, 136, 192)),
             ("f32_g128", torch.float32, 128, odd(rng, 16, 256)), ("f16_all", torch.float16, 200, draw(rng, 264, 200)),
             ("f32_all", torch.float32, 304, odd(rng, 24, 304))]
    for name, dtype, group, weight in cases:
        stored = torch.from_numpy(weight).to(dtype)
        exact = stored.float().numpy()
        q, zeros, scales = quantize(exact, group)
        q_public, zeros_public = autoawq(exact, group)
        groups = exact.reshape(exact.shape[0], -1, group)
        both = ((groups.min(2) < 0) & (groups.max(2) > 0)).T
        assert both.mean() > 0.6
        assert (zeros == zeros_public)[both].all(), name
        same = (q == q_public).reshape(-1, group, exact.shape[0]).all(1)
        assert same[both].all(), (name, np.argwhere(~same & both))
        tensors[f"{name}.w"] = stored
        tensors[f"{name}.qweight"] = torch.from_numpy(awq_pack.pack(q))
        tensors[f"{name}.qzeros"] = torch.from_numpy(awq_pack.pack(zeros))
        tensors[f"{name}.scales"] = torch.from_numpy(scales)
    save_file(tensors, str(HERE / "quantize" / "rtn.safetensors"))


if __name__ == "__main__":
    main()
