#!/usr/bin/env python3
"""Makes tiny random checkpoints with an 8-bit KV cache and static scales, and goldens by definition.

Each case becomes families/format_kv_NAME/, as make_family_goldens.py describes it. Weights are plain floats; K, after
its rotary embedding, and V are rounded to the values of an 8-bit cache before attention:

  C8       msmodelslim, {k,v}_proj.kv_cache_scale and .kv_cache_offset, f32 [n_kv_heads * head_dim], and
           "kv_cache_type": "C8" in the description: q = clamp(round(x / scale + offset), -128, 127),
           x' = (q - offset) scale.
           Source: vllm-ascend, attention of C8 layers (npu_quantize of K and V, antiquantisation in its operators).
  scheme   compressed-tensors, "kv_cache_scheme" {"num_bits": 8, "type": "float" or "int", "strategy": "tensor"} and
           self_attn.{k,v}_scale [1]: q = x / scale rounded to float8 e4m3 or to an integer, x' = q scale.
           Source: compressed_tensors, quantization/lifecycle/forward.py.

Models are those of transformers in float32, run with such a cache. Values that come near the middle of two codes could
be rounded either way: such prompts are drawn again.
"""

import os
import sys

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402

PROMPT_LENGTHS = (1, 7, 24)
MIN_TIE = 3e-5  # of the distance between two codes
CLIP = 0.9  # of the observed range: larger values saturate


def case(name, about, family, form, **config):
    """form: c8, float or int."""
    spec = families.case("format_kv_" + name, family, about, group=None, **config)
    return {**spec, "form": form}


CASES = [
    case("c8", "C8: scales and offsets for each channel, 3 KV heads", "qwen2", "c8", num_attention_heads=6,
         num_key_value_heads=3, hidden_size=96),
    case("fp8", "kv_cache_scheme of 8-bit floats, a scale a tensor", "llama", "float"),
    case("int8", "kv_cache_scheme of integers, a scale a tensor; q and k norms", "qwen3", "int", head_dim=24),
]


def channels_of(tensors, layer, side):
    """Scales and offsets, shaped for broadcasting over [.., heads, tokens, head_dim]."""
    prefix = f"model.layers.{layer}.self_attn."
    if f"{prefix}{side}_scale" in tensors:
        return tensors[f"{prefix}{side}_scale"].float(), torch.zeros(1)
    return tensors[f"{prefix}{side}_proj.kv_cache_scale"], tensors[f"{prefix}{side}_proj.kv_cache_offset"]


class CodeCache(transformers.DynamicCache):
    """A cache that stores codes. Without scales it records the ranges of its values."""

    nearest_tie = 1.0

    def __init__(self, form, tensors):
        super().__init__()
        self.form, self.tensors, self.ranges = form, tensors, {}

    def rounded(self, x):
        if self.form == "float":
            x = x.clamp(-448, 448)
            step = 2.0 ** (torch.floor(torch.log2(x.abs().clamp(min=2.0 ** -6))) - 3)
            q, limit = x.float().to(torch.float8_e4m3fn).to(x.dtype), 448
        else:
            q, step, limit = x.round().clamp(-128, 127), torch.ones_like(x), 127
        inside = x.abs() < limit
        tie = (0.5 - ((x - q) / step).abs()).abs()[inside]
        CodeCache.nearest_tie = min(CodeCache.nearest_tie, tie.min().item() if tie.numel() else 1.0)
        return q

    def kept(self, x, layer, side):
        if self.tensors is None:
            low, high = x.amin(dim=(0, 2)), x.amax(dim=(0, 2))
            self.ranges[layer, side] = (low.flatten(), high.flatten())
            return x
        scale, offset = (value.to(x.dtype) for value in channels_of(self.tensors, layer, side))
        if scale.numel() > 1:
            scale, offset = (value.view(1, x.shape[1], 1, x.shape[3]) for value in (scale, offset))
        return (self.rounded(x / scale + offset) - offset) * scale

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        return super().update(self.kept(key_states, layer_idx, "k"), self.kept(value_states, layer_idx, "v"),
                              layer_idx, *args, **kwargs)


def logits_with(form, tensors):
    def logits_of(model, ids):
        cache = CodeCache(form, tensors)
        return model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0]

    return logits_of


def scales_of(spec, config, tensors, rng):
    """The tensors of the cache's scales, from the ranges of a random text."""
    ids = rng.randint(0, config["vocab_size"], size=100).tolist()
    seen, written = CodeCache(spec["form"], None), {}
    model = families.reference_model(config, tensors)
    model(input_ids=torch.tensor([ids]), past_key_values=seen, use_cache=True)
    for (layer, side), (low, high) in seen.ranges.items():
        prefix = f"model.layers.{layer}.self_attn."
        low, high = CLIP * low, CLIP * high
        if spec["form"] == "c8":
            scale = (high - low) / 255
            written[f"{prefix}{side}_proj.kv_cache_scale"] = scale
            written[f"{prefix}{side}_proj.kv_cache_offset"] = torch.round(-128 - low / scale).clamp(-128, 127)
        else:
            largest = torch.maximum(low.abs(), high.abs()).max()
            limit = 448 if spec["form"] == "float" else 127
            written[f"{prefix}{side}_scale"] = (largest / limit).reshape(1).to(torch.float16)
    return {name: tensor.contiguous() for name, tensor in written.items()}


def quantization_of(spec):
    if spec["form"] == "c8":
        return None
    scheme = {"num_bits": 8, "type": spec["form"], "strategy": "tensor", "symmetric": True, "dynamic": False,
              "group_size": None, "block_structure": None, "actorder": None, "observer": "minmax",
              "observer_kwargs": {}}
    return {"quant_method": "compressed-tensors", "format": "naive-quantized", "quantization_status": "compressed",
            "config_groups": {}, "ignore": [], "kv_cache_scheme": scheme, "global_compression_ratio": None}


def describe(folder, tensors):
    """msmodelslim's description of the weights, and its names of files."""
    kinds = {name: "W8A8" if ".kv_cache_" in name else "FLOAT" for name in tensors}
    goldens.write_json(os.path.join(folder, "quant_model_description.json"),
                        {"model_quant_type": "FLOAT", "kv_cache_type": "C8", **kinds})
    os.rename(os.path.join(folder, "model.safetensors"), os.path.join(folder, "quant_model_weight.safetensors"))


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config, plain_logits = families.make_config(spec), goldens.logits_of
    tensors = families.draw_checkpoint(spec, config, rng)
    goldens.calibrate(families.reference_model(config, tensors), tensors, goldens.draw_ids(config, rng))
    scales = scales_of(spec, config, tensors, rng)
    goldens.write_weights(folder, {**tensors, **scales}, spec["files"])
    if spec["form"] == "c8":
        describe(folder, {**tensors, **scales})
    model = families.reference_model(config, tensors)
    goldens.logits_of = logits_with(spec["form"], scales)
    prompts = [goldens.draw_rounded_prompt(model, config["vocab_size"], length, rng, CodeCache, MIN_TIE)
               for length in PROMPT_LENGTHS]
    ids = prompts[-1]["prompt_ids"]
    change = (goldens.logits_of(model, ids) - plain_logits(model, ids)).abs().max().item()
    goldens.logits_of = plain_logits
    goldens.end_case(spec, folder, config, prompts, quantization_of(spec), f"moves logits by {change:.3f}")
    if change < 0.02:
        raise AssertionError(f"a cache of 8 bits moves logits by {change} only")


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
