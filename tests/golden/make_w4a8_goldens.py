#!/usr/bin/env python3
"""Makes tiny random checkpoints of 4-bit weights with inputs of 8 bits (W4A8), and goldens by definition.

families/format_compressed_w4a8*/ are as make_family_goldens.py describes them, but for the goldens: golden_1.json,
golden_2.json and golden_3.json are for that number of ranks, and golden_dtype.json is without rounding. Weights are
written by compressed_tensors 0.20.0: packed (make_format_goldens.py) for inputs in 8-bit floats, in bytes
(naive_quantized/base.py, "int-quantized") for integers. The reference is the family's model of `transformers` in
float32 with exactly s * (q - z), whose layers round their inputs to nearest, ties to even:

  floats     s = max|x| / 448 of the row, x = s * e4m3(x / s), by compute_dynamic_scales_and_zp and fake_quantize of
             the same package
  integers   s = max|x| / 127 of the row, x = s * round(x / s), as in vLLM (csrc/quantization/w8a8/int8); the package
             itself divides by 127.5

On several ranks the inputs of o_proj and down_proj are divided among the ranks, and each rank's part of a row has its
own s. Layers whose groups have fewer than 32 inputs keep their inputs.

An input near the middle between two numbers could be rounded either way by arithmetic that differs in the last
bit: such prompts are drawn again. Run as make_format_goldens.py.
"""

import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_format_goldens as formats  # noqa: E402

RANKS = (1, 2, 3)
PROMPT_LENGTHS = (1, 9)
MIN_TIE = 4e-5  # of the distance between two numbers
FP8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True, "group_size": None,
       "block_structure": None, "actorder": None, "observer": None}
INT8 = {**FP8, "type": "int"}
NO_FP8 = ("layers.0.self_attn.v_proj", "layers.1.mlp.up_proj")  # groups of 16; a group without input_activations


def pack_bytes(q, z, s, group, bits):
    """Weights of a module in the tool's unpacked form."""
    quantization = formats.tool("compressed_tensors.quantization")
    compressor = formats.tool("compressed_tensors.compressors.naive_quantized.base").IntQuantizationCompressor
    k = q.shape[0]
    args = quantization.QuantizationArgs(num_bits=bits, type="int", symmetric=True,
                                         strategy="channel" if group == k else "group",
                                         group_size=None if group == k else group)
    linear, scales, _ = formats.linear_of(q, z, s, group)
    scheme = quantization.QuantizationScheme(targets=["Linear"], weights=args)
    return compressor.compress({"weight": linear.weight.data, "weight_scale": scales}, scheme)


def case(name, inputs, pack, form, about):
    def rounding(group):
        return {**group, "input_activations": inputs}

    return {**formats.case(
        name, 32, pack, {
            **formats.COMPRESSED, "format": form, "ignore": ["lm_head"], "config_groups": {
                "group_0": rounding(formats.group_of(["Linear"])),
                "group_1": rounding(formats.group_of(["model.layers.0.self_attn.v_proj"], group_size=16)),
                "group_2": rounding(formats.group_of([r"re:.*layers\.1.*o_proj"], strategy="channel", group_size=None)),
                "group_3": formats.group_of(["model.layers.1.mlp.up_proj"])}},
        zeros="eight", override={NO_FP8[0]: (16, "eight"), "layers.1.self_attn.o_proj": (-1, "eight")},
        hidden_size=96, head_dim=32, num_attention_heads=6, num_key_value_heads=3, intermediate_size=192,
        vocab_size=199, about=about), "inputs": inputs}


CASES = [
    case("compressed_w4a8", FP8, formats.pack_compressed(True), "pack-quantized",
         "compressed-tensors, W4AFP8: groups of 32 and 16, a channel, a layer without rounding"),
    case("compressed_w4a8_int8", INT8, pack_bytes, "int-quantized",
         "compressed-tensors, W4A8: bytes, inputs in 8-bit integers, else as W4AFP8")]


class Rounding:
    """A hook that rounds a layer's inputs. n_parts: of a row, each with a scale."""

    nearest_tie = 1.0  # over all layers, since the caller reset it

    def __init__(self, n_parts, inputs):
        self.n_parts, self.is_float = n_parts, inputs["type"] == "float"
        quantization = formats.tool("compressed_tensors.quantization")
        self.args = quantization.QuantizationArgs(num_bits=8, type="float", symmetric=True, strategy="token",
                                                  dynamic=True)

    def __call__(self, module, args):
        return (torch.cat([self.rounded(module, part) for part in args[0].chunk(self.n_parts, dim=-1)], dim=-1),)

    def rounded(self, module, x):
        return self.rounded_to_float(module, x) if self.is_float else self.rounded_to_integer(x)

    @staticmethod
    def rounded_to_integer(x):
        scale = x.abs().amax(dim=-1, keepdim=True) / 127
        scaled = x / scale
        ties = ((scaled - torch.floor(scaled)) - 0.5).abs()
        Rounding.nearest_tie = min(Rounding.nearest_tie, ties.min().item())
        return scale * torch.round(scaled)

    def rounded_to_float(self, module, x):
        scales = formats.tool("compressed_tensors.quantization.utils").compute_dynamic_scales_and_zp
        forward = formats.tool("compressed_tensors.quantization.lifecycle.forward")
        scale, zero = scales(value=x, args=self.args, module=module)
        scaled = (x / scale).abs()
        spacing = torch.exp2(torch.clamp(torch.floor(torch.log2(scaled)), min=-6) - 3)
        places = (scaled / spacing)[scaled < 447]
        Rounding.nearest_tie = min(Rounding.nearest_tie, ((places - torch.floor(places)) - 0.5).abs().min().item())
        return forward.fake_quantize(x, scale, zero, self.args)


def add_rounding(model, config, n_ranks, inputs):
    for layer in range(config["num_hidden_layers"]):
        for name, *_ in families.projections(config):
            module = f"model.layers.{layer}.{name}"
            if not any(part in module for part in NO_FP8):
                parts = n_ranks if name.endswith(("o_proj", "down_proj")) else 1
                model.get_submodule(module).register_forward_pre_hook(Rounding(parts, inputs))


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = families.make_config(spec)
    tensors, dense = formats.draw(spec, config, rng)
    goldens.calibrate(formats.reference(config, tensors, dense), tensors, goldens.draw_ids(config, rng))
    goldens.write_weights(folder, tensors, spec["files"])
    tensors = goldens.read_weights(folder)
    plain = formats.reference(config, tensors, dense)
    goldens.end_case(spec, folder, config, goldens.draw_prompts(plain, config["vocab_size"], rng, PROMPT_LENGTHS),
                     spec["quantization"])
    os.rename(os.path.join(folder, "golden.json"), os.path.join(folder, "golden_dtype.json"))
    ids = goldens.draw_ids(config, rng)
    without = torch.log_softmax(goldens.logits_of(plain, ids), -1)
    for n_ranks in RANKS:
        model = formats.reference(config, tensors, dense)
        add_rounding(model, config, n_ranks, spec["inputs"])
        change = (torch.log_softmax(goldens.logits_of(model, ids), -1) - without).abs().max().item()
        if change < (0.02 if spec["inputs"] is FP8 else 0.004):
            raise AssertionError(f"rounding moves log-probabilities by {change} only")
        without = torch.log_softmax(goldens.logits_of(model, ids), -1)
        prompts = [goldens.draw_rounded_prompt(model, config["vocab_size"], length, rng, Rounding, MIN_TIE)
                   for length in PROMPT_LENGTHS]
        goldens.write_golden(os.path.join(folder, f"golden_{n_ranks}.json"), spec, prompts)
        print(f"{n_ranks} ranks: {change:.2f}")


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
