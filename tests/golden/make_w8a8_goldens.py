#!/usr/bin/env python3
"""Makes tiny random checkpoints of 8-bit weights with 8-bit inputs (W8A8), and goldens by definition.

Each case becomes families/format_w8a8*/, as make_family_goldens.py describes it. Weights are written by
compressed_tensors/compressors/naive_quantized/base.py of compressed_tensors 0.20.0, and static inputs are quantised by
its quantize and calculate_qparams. The reference is the family's model of `transformers` in float32, whose quantised
layers are

  per token   s = max|x| / 127 of the row, q = round(x / s) to nearest, ties to even
  static      q = round(x / s + z), within -128 .. 127
  both        y = (sum over k of (q - z) w_q, exactly) * s * w_scale + bias

An input that comes near the middle between two integers could be rounded either way by arithmetic that differs in the
last bit: such prompts are drawn again, and so are those where float64 rounds differently, and of a mixture of experts
those with a row near a tie between experts (expert_choices.py). Run with compressed_tensors on PYTHONPATH (pip install
--no-deps, or unpacked), and for experts with a transformers whose experts are layers (tried: 4.57.1).
"""

import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_format_goldens as formats  # noqa: E402
import make_moe_goldens as moe  # noqa: E402

PROMPT_LENGTHS = (1, 7, 24)
EXPERTS_PROMPT_LENGTHS = (5, 17)
MIN_TIE = 4e-5  # of the distance between two integers
INT8 = {"num_bits": 8, "type": "int", "symmetric": True, "group_size": None, "actorder": None, "block_structure": None,
        "dynamic": False}
PER_TOKEN = {**INT8, "strategy": "token", "dynamic": True}
STATIC = {**INT8, "strategy": "tensor"}
CONFIG = {"quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed",
          "kv_cache_scheme": None, "global_compression_ratio": None}


def group(inputs, targets=("Linear",), strategy="channel", **more):
    return {"targets": list(targets), "weights": {**INT8, "strategy": strategy}, "input_activations": inputs,
            "output_activations": None, **more}


def case(name, about, quantization, groups, dtype="float16", family="llama", ignore=("lm_head",), **config):
    """groups: [(part of a module's name, group of the configuration)]; the first match applies to a module."""
    return {"name": "format_w8a8" + name, "family": family, "about": about, "group": None, "dtype": dtype,
            "scale_dtype": dtype, "files": 1, "without": None, "skip": [], "style": None, "groups": groups,
            "ignore": ignore, "quantization": {**CONFIG, "ignore": list(ignore), **quantization}, "config": config}


CASES = [
    case("", "inputs per token; preset, biases, FFN of 100", {"config_groups": {"W8A8": ["Linear"]}},
         [("", group(PER_TOKEN))], family="qwen2", dtype="bfloat16", num_attention_heads=6, num_key_value_heads=3,
         hidden_size=96, intermediate_size=100),
    case("_static", "static symmetric inputs; down_proj with one scale for its weights",
         {"config_groups": {"group_0": group(STATIC),
                            "group_1": group(STATIC, [r"re:.*down_proj"], "tensor")}},
         [("down_proj", group(STATIC, strategy="tensor")), ("", group(STATIC))], family="qwen3", head_dim=24),
    case("_asym", "static asymmetric inputs, float ones in v_proj of layer 0, per token in o_proj and lm_head",
         {"config_groups": {"group_0": group({**STATIC, "symmetric": False}),
                            "group_1": group(PER_TOKEN, [r"re:.*o_proj", "lm_head"], format="int-quantized")}},
         [("o_proj", group(PER_TOKEN)), ("lm_head", group(PER_TOKEN)),
          ("", group({**STATIC, "symmetric": False}))], ignore=("model.layers.0.self_attn.v_proj",),
         dtype="float32", tie_word_embeddings=False, intermediate_size=104),
    {**case("_experts",
            "Qwen2-MoE, inputs per token: 5 experts of 40, 2 a token, and a shared one of 56; routers plain",
            {"config_groups": {"group_0": group(PER_TOKEN)}}, [("", group(PER_TOKEN))],
            ignore=("lm_head", r"re:.*mlp\.gate$", r"re:.*shared_expert_gate$")),
     "config": moe.case("", "", None, "float16", None, "qwen2_moe", intermediate_size=72, num_experts=5,
                        num_experts_per_tok=2, moe_intermediate_size=40, shared_expert_intermediate_size=56,
                        norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])["config"]},
]


class QuantLinear(torch.nn.Module):
    """A layer by its definition."""

    nearest_tie = 1.0  # over all layers, since the caller reset it

    def __init__(self, tensors, module, inputs):
        super().__init__()
        self.weight_q = tensors[module + ".weight"].double()
        self.weight_scale = tensors[module + ".weight_scale"].float().reshape(-1)
        self.bias = tensors[module + ".bias"].float() if module + ".bias" in tensors else None
        self.args = arguments(inputs)
        self.is_static = not inputs["dynamic"]
        self.scale = tensors[module + ".input_scale"].float() if self.is_static else None
        zero = tensors.get(module + ".input_zero_point", torch.zeros(1, dtype=torch.int8))
        self.zero = zero.to(torch.int8)

    def forward(self, x):
        if self.is_static:
            scale, scaled = self.scale.to(x.dtype), x / self.scale.to(x.dtype)
            quantize = formats.tool("compressed_tensors.quantization.lifecycle.forward").quantize
            q = quantize(x, scale, self.zero, self.args)
            inside = scaled[(scaled + self.zero).abs() < 127]
        else:
            scale = x.abs().amax(dim=-1, keepdim=True) / 127
            scaled = x / scale
            q, inside = torch.round(scaled), scaled
        ties = ((inside - torch.floor(inside)) - 0.5).abs()
        QuantLinear.nearest_tie = min(QuantLinear.nearest_tie, ties.min().item())
        sums = (q.double() - self.zero.double()) @ self.weight_q.T
        y = sums.to(x.dtype) * scale * self.weight_scale.to(x.dtype)
        return y if self.bias is None else y + self.bias.to(x.dtype)


def arguments(settings):
    quantization = formats.tool("compressed_tensors.quantization")
    return quantization.QuantizationArgs(**{key: settings[key] for key in ("num_bits", "type", "symmetric", "strategy",
                                                                           "dynamic")})


def group_of(spec, module):
    """Quantisation of a module, or None."""
    if module in spec["ignore"]:
        return None
    return next(settings for part, settings in spec["groups"] if part in module)


def has_experts(config):
    return config.get("model_type") == "qwen2_moe"


def modules_of(spec, config):
    names = []
    for layer in range(config["num_hidden_layers"]):
        of_layer = (moe.attention_modules(config) + moe.ffn_modules(config, layer)[0] if has_experts(config) else
                    families.projections(config))
        names += [f"model.layers.{layer}.{module[0]}" for module in of_layer]
    names += [] if config["tie_word_embeddings"] else ["lm_head"]
    return [(name, group_of(spec, name)) for name in names if group_of(spec, name)]


def ranges_of(model, modules, config, rng):
    """Smallest and largest input of each module on random tokens, slightly narrowed, so that some inputs are
    clamped."""
    found, hooks = {}, []
    for name, _ in modules:
        def note(_, args, name=name):
            found[name] = (args[0].min() * 0.8, args[0].max() * (0.85 if "k_proj" in name else 0.8))
        hooks.append(model.get_submodule(name).register_forward_pre_hook(note))
    goldens.logits_of(model, rng.randint(0, config["vocab_size"], size=100).tolist())
    for hook in hooks:
        hook.remove()
    return found


def compress(weight, settings, limits, dtype):
    """Tensors of a module in the tool's form."""
    quantization = formats.tool("compressed_tensors.quantization")
    qparams = formats.tool("compressed_tensors.quantization.utils.helpers").calculate_qparams
    compressor = formats.tool("compressed_tensors.compressors.naive_quantized.base").IntQuantizationCompressor
    args, inputs = arguments(settings["weights"]), settings["input_activations"]
    per_output = settings["weights"]["strategy"] == "channel"
    low, high = (weight.amin(1, True), weight.amax(1, True)) if per_output else (weight.min()[None], weight.max()[None])
    scale, _ = qparams(low, high, args)
    state = {"weight": weight, "weight_scale": scale.to(dtype).float()}
    if not inputs["dynamic"]:
        state["input_scale"], zero = qparams(limits[0][None], limits[1][None], arguments(inputs))
        state["input_zero_point"] = torch.round(zero).to(torch.int8)
    scheme = quantization.QuantizationScheme(targets=["Linear"], weights=args, input_activations=arguments(inputs))
    state = compressor.compress(state, scheme)
    return {key: value.to(dtype) if value.is_floating_point() else value for key, value in state.items()}


def quantise(spec, config, tensors, rng):
    """Tensors of the file."""
    modules, written = modules_of(spec, config), dict(tensors)
    limits = ranges_of(families.reference_model(config, tensors), modules, config, rng)
    for name, settings in modules:
        weight = written.pop(name + ".weight").float()
        packed = compress(weight, settings, limits[name], goldens.TORCH_DTYPES[spec["dtype"]])
        written.update({f"{name}.{key}": value.contiguous() for key, value in packed.items()})
    return written


def reference(spec, config, tensors):
    modules = modules_of(spec, config)
    plain = {name: tensor for name, tensor in tensors.items()
             if not name.endswith(("_scale", "_zero_point")) and tensor.dtype != torch.int8}
    shapes = {name + ".weight": torch.zeros(tensors[name + ".weight"].shape) for name, _ in modules}
    model = families.reference_model(config, {**plain, **shapes})
    for name, settings in modules:
        parent, _, leaf = name.rpartition(".")
        layer = QuantLinear(tensors, name, settings["input_activations"])
        setattr(model.get_submodule(parent), leaf, layer)
    return model


def draw_experts_prompt(choices, model, vocab, length, rng):
    """A golden prompt whose rows are clear of ties between integers and between experts: a token is drawn again until
    its row is clear, the last few until the answer's rows are."""
    def is_clear():
        return QuantLinear.nearest_tie >= MIN_TIE and choices.are_clear()

    ids = []
    while True:
        ids = ids[:-4]
        while len(ids) < length:
            ids.append(int(rng.randint(vocab)))
            QuantLinear.nearest_tie = 1.0
            goldens.logits_of(model, ids)
            if not is_clear():
                ids.pop()
        try:
            prompt = goldens.golden_prompt(model, ids, expert_choices.N_OUTPUT_TOKENS, is_clear)
        except AssertionError:  # float64 rounds a value differently
            model.float()
            continue
        if prompt and is_clear():
            return prompt


def draw_prompts(model, config, rng):
    if has_experts(config):
        choices = expert_choices.Choices(config, model)
        return [draw_experts_prompt(choices, model, config["vocab_size"], length, rng)
                for length in EXPERTS_PROMPT_LENGTHS]
    return [goldens.draw_rounded_prompt(model, config["vocab_size"], length, rng, QuantLinear, MIN_TIE)
            for length in PROMPT_LENGTHS]


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    if has_experts(spec["config"]):
        config = dict(spec["config"], torch_dtype=spec["dtype"])
        tensors = moe.draw(spec, config, rng)
    else:
        config = families.make_config(spec)
        tensors = families.draw_checkpoint(spec, config, rng)
    goldens.calibrate(families.reference_model(config, tensors), tensors, goldens.draw_ids(config, rng))
    goldens.write_weights(folder, quantise(spec, config, tensors, rng), spec["files"])
    model = reference(spec, config, goldens.read_weights(folder))
    goldens.end_case(spec, folder, config, draw_prompts(model, config, rng), spec["quantization"])


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
