#!/usr/bin/env python3
"""Makes tiny random checkpoints with 8-bit float weights (e4m3fn), and goldens of `transformers`.

Each case becomes families/format_NAME/, as make_family_goldens.py describes it. Codes are written by the tools:

  fp8*               FineGrainedFP8HfQuantizer.create_quantized_param of transformers 4.57 (blocks; partial blocks are
                     padded with zeros before and cut after); with one scale for a tensor, as vLLM reads it
                     (model_executor/layers/quantization/fp8.py): weight_scale and input_scale without dimensions
  compressed_fp8*    compressed_tensors/compressors/naive_quantized/base.py of compressed_tensors 0.20.0, scales by its
                     calculate_qparams

The reference is float32 with code * scale of the codes and scales in the file. Run as make_format_goldens.py.
"""

import math
import os
import sys
from types import SimpleNamespace

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_format_goldens as formats  # noqa: E402


def draw(spec, config, rng):
    """Tensors of the file by name, and float32 weights of the quantised modules."""
    tensors, dense = families.draw_checkpoint({**spec, "scale_dtype": spec["dtype"]}, config, rng), {}
    for layer in range(config["num_hidden_layers"]):
        for name, k, n, _ in families.projections(config):
            module = f"model.layers.{layer}.{name}"
            if any(part in module for part in spec["skip"]):
                continue
            # Outputs and inputs of different sizes, so that no scale equals its neighbour.
            sizes = np.exp(0.4 * rng.standard_normal((n, 1)) + 0.4 * rng.standard_normal((1, k)))
            weight = rng.standard_normal((n, k)) * sizes * (families.GAINS[name.split(".")[1]] / math.sqrt(k))
            pack = next((p for part, p in spec["override"].items() if part in module), spec["pack"])
            del tensors[module + ".weight"]
            packed, meant = pack(torch.from_numpy(weight.astype(np.float32)))
            dense[module + ".weight"] = meant.numpy()
            tensors.update({f"{module}.{key}": value.detach().contiguous() for key, value in packed.items()})
    return tensors, dense


def case(name, pack, quantization, override=None, dtype="bfloat16", skip=(), **config):
    """pack: float32 weight [N, K] -> (tensors of a module, the float32 weight that they represent). override: {part of
    a module's name: pack}."""
    spec = formats.case(name, None, pack, quantization, override=override, dtype=dtype, skip=skip, **config)
    return {**spec, "draw": draw}


def spread(scale, rows, columns, shape):
    """Scales of blocks, expanded to elements."""
    return scale.float().repeat_interleave(rows, 0)[:shape[0]].repeat_interleave(columns, 1)[:, :shape[1]]


def pack_blocks(rows, columns):
    """transformers' own quantisation, of a weight padded to whole blocks."""
    def pack(weight):
        quantizer = formats.tool("transformers.quantizers.quantizer_finegrained_fp8")
        linear = formats.tool("transformers.integrations.finegrained_fp8").FP8Linear
        n, k = weight.shape
        grid = -(-n // rows), -(-k // columns)
        whole = max(grid[0], 2) * rows, max(grid[1], 2) * columns  # scales of a single row or column lose a dimension
        padded = torch.nn.functional.pad(weight, (0, whole[1] - k, 0, whole[0] - n))
        model = torch.nn.Module()
        model.layer = linear(padded.shape[1], padded.shape[0], block_size=(rows, columns), device="cpu")
        holder = quantizer.FineGrainedFP8HfQuantizer(SimpleNamespace(weight_block_size=(rows, columns)))
        holder.pre_quantized = False
        holder.create_quantized_param(model, padded, "layer.weight", torch.device("cpu"))
        code = model.layer.weight.data[:n, :k].contiguous()
        scale = model.layer.weight_scale_inv.data[:grid[0], :grid[1]]
        return ({"weight": code, "weight_scale_inv": scale},
                code.float() * spread(scale, rows, columns, code.shape))
    return pack


def pack_tensor(name):
    """One scale: the largest code is 448."""
    def pack(weight):
        scale = weight.abs().max() / torch.finfo(torch.float8_e4m3fn).max
        code = (weight / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return ({"weight": code, name: scale.clone(), "input_scale": torch.tensor(0.03125)}, code.float() * scale)
    return pack


def pack_compressed(dtype, strategy, block=None, inputs=False):
    def pack(weight):
        quantization = formats.tool("compressed_tensors.quantization")
        compressor = formats.tool("compressed_tensors.compressors.naive_quantized.base").FloatQuantizationCompressor
        helpers = formats.tool("compressed_tensors.quantization.utils")
        args = quantization.QuantizationArgs(num_bits=8, type="float", strategy=strategy, block_structure=block)
        scheme = quantization.QuantizationScheme(targets=["Linear"], weights=args)
        n, k = weight.shape
        rows, columns = block or {"tensor": (n, k), "channel": (1, k)}[strategy]
        padded = torch.nn.functional.pad(weight, (0, -k % columns, 0, -n % rows))
        blocks = padded.unflatten(1, (-1, columns)).unflatten(0, (-1, rows)).transpose(1, 2).flatten(2)
        scale, _ = helpers.calculate_qparams(blocks.amin(-1), blocks.amax(-1), args)
        scale = scale.to(dtype)
        state = {"weight": weight, "weight_scale": scale[0] if strategy == "tensor" else scale}
        state = compressor.compress({**state, "weight_scale": state["weight_scale"].float()}, scheme)
        dense = compressor.decompress(state, scheme)["weight"]
        state["weight_scale"] = scale[0] if strategy == "tensor" else scale
        if not torch.equal(dense, state["weight"].float() * spread(scale, rows, columns, weight.shape)):
            raise AssertionError("the tool's weight is another one")
        if inputs:
            state["input_scale"] = torch.tensor([0.0625], dtype=dtype)
        return state, dense
    return pack


def pack_int4(group):
    """4 bits and 8 bits in one model, by the same tool."""
    def pack(weight):
        n, k = weight.shape
        scale = (weight.abs().reshape(n, -1, group).amax(-1) / 7).to(torch.bfloat16).float()
        q = torch.round(weight / scale.repeat_interleave(group, 1)).clamp(-8, 7) + 8
        q, s = q.T.contiguous().to(torch.uint8).numpy(), scale.T.contiguous().numpy()
        zeros = np.full(s.shape, 8, dtype=np.uint8)
        state = formats.pack_compressed(True)(q, zeros, s, group, 4)
        state["weight_scale"] = state["weight_scale"].to(torch.bfloat16)
        dense = np.repeat(s, group, axis=0) * (q.astype(np.float32) - 8)
        return state, torch.from_numpy(np.ascontiguousarray(dense.T))
    return pack


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
WEIGHTS = {"num_bits": 8, "type": "float", "symmetric": True, "group_size": None, "dynamic": False, "actorder": None,
           "observer": "minmax", "observer_kwargs": {}, "block_structure": None}
INPUTS = {**WEIGHTS, "strategy": "token", "dynamic": True, "observer": None}
COMPRESSED = {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
              "kv_cache_scheme": None, "global_compression_ratio": None, "ignore": ["lm_head"]}


def group_of(targets, inputs=None, **weights):
    return {"targets": targets, "weights": {**WEIGHTS, **weights}, "input_activations": inputs,
            "output_activations": None}


CASES = [
    case("fp8", pack_blocks(128, 128), {**FP8, "fmt": "e4m3", "weight_block_size": [128, 128]}, hidden_size=144,
         intermediate_size=200, num_attention_heads=9, num_key_value_heads=3, head_dim=16, family="qwen3",
         about="fp8 in blocks of 128 by 128; every last block is short, heads begin inside blocks"),
    case("fp8_tensor", pack_tensor("weight_scale"), {**FP8, "activation_scheme": "static",
         "ignored_layers": ["lm_head", "model.layers.0.self_attn.k_proj"]}, skip=["layers.0.self_attn.k_proj"],
         family="qwen2", dtype="float16", about="fp8 with one scale a tensor and input scales, biases"),
    case("compressed_fp8_block", pack_compressed(torch.float32, "block", [32, 48]), {**COMPRESSED, "config_groups": {
         "group_0": group_of(["Linear"], inputs=INPUTS, strategy="block", block_structure=[32, 48]),
         "group_1": group_of(["re:.*down_proj"], inputs={**INPUTS, "strategy": "tensor", "dynamic": False},
                             strategy="tensor")}}, hidden_size=72, intermediate_size=100, num_attention_heads=6,
         num_key_value_heads=3, override={"down_proj": pack_compressed(torch.float32, "tensor", inputs=True)},
         about="compressed-tensors, blocks of 32 by 48 and one scale a tensor; FFN of 100"),
    case("compressed_fp8_mixed", pack_compressed(torch.bfloat16, "channel"), {**COMPRESSED, "config_groups": {
         "group_0": {**group_of(["re:.*(q|gate)_proj"], num_bits=4, type="int", strategy="group", group_size=32),
                     "format": "pack-quantized"},
         "group_1": {**group_of(["Linear"], strategy="channel"), "format": "naive-quantized"}},
         "format": "mixed-precision"}, override={"q_proj": pack_int4(32), "gate_proj": pack_int4(32)}, head_dim=20,
         num_attention_heads=6, num_key_value_heads=3, about="compressed-tensors, q and gate in 4 bits beside k, v and "
         "up in 8-bit floats with a scale for each output"),
]


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, formats.make_case)
