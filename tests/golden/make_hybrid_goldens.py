#!/usr/bin/env python3
"""Makes tiny random models with gated delta nets (Qwen3-Next, Qwen3.5), and goldens of the public `transformers`.

Each case becomes families/NAME/, as make_family_goldens.py describes it. The reference is the family's text class in
float32, whose prompts use the form in chunks of 64 tokens. Files of Qwen3.5 have the names of models that also read
images, with a tensor of the vision tower and one of the layer that predicts further tokens. No row of a mixture comes
near a tie between experts (expert_choices.py), and no input of an int8 layer near a tie between integers. Words of GPTQ
are written by auto_gptq 0.7.1, others by compressed_tensors 0.20; make_format_goldens.py describes how to run a script
with them.
"""

import json
import math
import os
import sys
import types

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_float8_goldens as float8  # noqa: E402
import make_format_goldens as formats  # noqa: E402
import make_w8a8_goldens as w8a8  # noqa: E402

PROMPT_LENGTHS = (1, 70, 130)
goldens.MAX_ROUNDING = 3e-4  # lengths of q and k amplify roundings
EXPERTS_PROMPT_LENGTHS = (5, 66)
ROUNDED_PROMPT_LENGTHS = (1, 20, 66)
CLASSES = {"qwen3_next": "Qwen3Next", "qwen3_5_text": "Qwen3_5", "qwen3_5_moe_text": "Qwen3_5Moe"}
GAINS = {**families.GAINS, "in_proj_qkv": 1.3, "in_proj_qkvz": 1.3, "in_proj_z": 1.2, "in_proj_b": 1.0,
         "in_proj_a": 1.0, "in_proj_ba": 1.0, "out_proj": 1.0, "o_proj": 1.5, "down_proj": 1.2}
COMPRESSED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
              "kv_cache_scheme": None, "global_compression_ratio": None}
INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False,
        "actorder": None, "observer": "minmax", "observer_kwargs": {}, "block_structure": None}


def pack_fp8(weight, size=32):
    """Blocks whose largest element becomes 448, the largest code."""
    n, k = weight.shape
    blocks = torch.nn.functional.pad(weight, (0, -k % size, 0, -n % size)).unflatten(1, (-1, size))
    scale = blocks.unflatten(0, (-1, size)).abs().amax((1, 3)).clamp(min=1e-6) / 448
    spread = float8.spread(scale, size, size, weight.shape)
    code = (weight / spread).to(torch.float8_e4m3fn)
    return {"weight": code, "weight_scale_inv": scale}, code.float() * spread


def pack_integers(pack, symmetric, dtype):
    """4 bits in groups of 32 inputs, by a packer of make_format_goldens.py."""
    def pack_weight(weight):
        groups = weight.T.unflatten(0, (-1, 32))  # [groups, 32, N]
        low, high = groups.amin(1).clamp(max=0), groups.amax(1).clamp(min=0)
        scale = torch.maximum(-low / 8, high / 7) if symmetric else (high - low) / 15
        scale = scale.clamp(min=1e-4).to(dtype).float()
        zero = torch.full_like(scale, 8) if symmetric else torch.round(-low / scale).clamp(0, 15)
        q = (torch.round(groups / scale[:, None]) + zero[:, None]).clamp(0, 15)
        dense = (scale[:, None] * (q - zero[:, None])).flatten(0, 1).T
        q, zero = q.flatten(0, 1).to(torch.uint8).numpy(), zero.to(torch.uint8).numpy()
        state = pack(q, zero, scale.numpy(), 32, 4)
        return {key: value.to(dtype) if value.is_floating_point() else value for key, value in state.items()}, dense
    return pack_weight


def pack_int8(weight):
    """An int8 layer whose inputs are rounded per token: reference() computes it as w8a8.QuantLinear."""
    scale = (weight.abs().amax(1, keepdim=True) / 127).to(torch.bfloat16)
    code = torch.round(weight / scale.float()).clamp(-128, 127)
    return {"weight": code.to(torch.int8), "weight_scale": scale}, code * scale.float()


def case(name, about, model_type, pack=None, quantization=None, plain=(), without=None, reads_images=False, fused=False,
         dtype="bfloat16", **config):
    """pack: float32 weight -> (tensors of a module, the weight that they represent), of every linear layer of a layer
    but those whose names contain one of `plain`. fused: a tensor for all experts of a layer."""
    common = {"model_type": model_type, "hidden_act": "silu", "hidden_size": 64, "num_hidden_layers": 4,
              "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 200,
              "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "bos_token_id": 1,
              "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
              "linear_num_key_heads": 3, "linear_num_value_heads": 6, "full_attention_interval": 4}
    return {"name": "hybrid_" + name, "about": about, "pack": pack, "quantization": quantization, "plain": plain,
            "without": without, "reads_images": reads_images, "fused": fused, "dtype": dtype, "files": 1,
            "config": {**common, **config}}


ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1],
        "mrope_interleaved": True}
MOE = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}

CASES = [
    case("qwen3_5", "Qwen3.5: names of a model that reads images; 3 key heads with 3 value heads each, tied head",
         "qwen3_5_text", without={"partial_rotary_factor": 1.0}, reads_images=True, intermediate_size=96,
         linear_num_value_heads=9, tie_word_embeddings=True, rope_parameters=ROPE),
    case("qwen3_5_int4", "Qwen3.5 as text, compressed-tensors of 4 bits in every projection, b and a included",
         "qwen3_5_text", pack=float8.pack_int4(32), quantization={**COMPRESSED, "ignore": ["lm_head"],
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": INT4, "input_activations": None,
                                       "output_activations": None}}},
         without={"partial_rotary_factor": 1.0}, intermediate_size=96, linear_num_key_heads=4,
         linear_num_value_heads=8, rope_parameters={**ROPE, "partial_rotary_factor": 0.5}),
    case("qwen3_5_fp8", "Qwen3.5 in FP8 of blocks; in_proj_b and in_proj_a are plain", "qwen3_5_text",
         pack=pack_fp8, plain=("in_proj_a", "in_proj_b"), quantization={
             **float8.FP8, "fmt": "e4m3", "weight_block_size": [32, 32], "modules_to_not_convert": [
                 "lm_head", "in_proj_a", "in_proj_b"]},
         without={"partial_rotary_factor": 1.0}, reads_images=True, intermediate_size=96, linear_num_value_heads=3,
         linear_value_head_dim=32, rope_parameters=ROPE),
    case("qwen3_5_gptq", "Qwen3.5, GPTQ of 4 bits; in_proj_b, in_proj_a and the layers of attention are plain",
         "qwen3_5_text", pack=pack_integers(formats.pack_gptq(1), True, torch.float16),
         plain=("in_proj_a", "in_proj_b", "self_attn"), dtype="float16", quantization={
             **formats.GPTQ, "group_size": 32, "sym": True, "lm_head": False, "checkpoint_format": "gptq"},
         without={"partial_rotary_factor": 1.0}, reads_images=True, intermediate_size=96, linear_num_value_heads=3,
         linear_value_head_dim=32, rope_parameters=ROPE),
    case("qwen3_5_w8a8", "Qwen3.5 in int8 with inputs per token; in_proj_b and in_proj_a are plain", "qwen3_5_text",
         pack=pack_int8, plain=("in_proj_a", "in_proj_b"), quantization={
             **w8a8.CONFIG, "ignore": ["lm_head", "re:.*in_proj_a$", "re:.*in_proj_b$"],
             "config_groups": {"group_0": w8a8.group(w8a8.PER_TOKEN)}},
         without={"partial_rotary_factor": 1.0}, intermediate_size=96, num_hidden_layers=2, full_attention_interval=2,
         rope_parameters={**ROPE, "partial_rotary_factor": 0.5}),
    case("qwen3_next_awq", "Qwen3-Next, AWQ as compressed-tensors with zero points; in_proj_ba is plain", "qwen3_next",
         pack=pack_integers(formats.pack_compressed(False), False, torch.bfloat16), plain=("in_proj_ba",),
         quantization={**COMPRESSED, "ignore": ["lm_head", "re:.*mlp.gate$", "re:.*shared_expert_gate$",
                                                "re:.*in_proj_ba$"],
                       "config_groups": {"group_0": {"targets": ["Linear"], "weights": {**INT4, "symmetric": False},
                                                     "input_activations": None, "output_activations": None}}},
         without={"num_experts_per_tok": 1}, num_hidden_layers=2, full_attention_interval=2, intermediate_size=64,
         linear_num_key_heads=3, linear_num_value_heads=6, decoder_sparse_step=1, norm_topk_prob=True,
         mlp_only_layers=[], partial_rotary_factor=0.25, rope_theta=10000.0, **MOE),
    case("qwen3_5_moe", "Qwen3.5 with experts in one tensor a layer and a shared expert; attention in layer 1",
         "qwen3_5_moe_text", without={"num_experts_per_tok": 1}, reads_images=True, fused=True, num_hidden_layers=2,
         layer_types=["linear_attention", "full_attention"], rope_parameters=ROPE, **MOE),
    case("qwen3_next", "Qwen3-Next: projections interleaved by key head, heads of the real sizes 128 and 256",
         "qwen3_next", without={"num_experts_per_tok": 1}, num_hidden_layers=2, hidden_size=32,
         layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
         linear_key_head_dim=128, linear_value_head_dim=128, head_dim=256, num_attention_heads=2,
         num_key_value_heads=1, intermediate_size=64, decoder_sparse_step=1, norm_topk_prob=True, mlp_only_layers=[],
         partial_rotary_factor=0.25, rope_theta=10000.0, **MOE),
    case("qwen3_next_int4", "Qwen3-Next, compressed-tensors of 4 bits, with the interleaved modules and single experts",
         "qwen3_next", pack=float8.pack_int4(32), quantization={
             **COMPRESSED, "ignore": ["lm_head", "re:.*mlp.gate$", "re:.*shared_expert_gate$"],
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": INT4, "input_activations": None,
                                           "output_activations": None}}},
         without={"num_experts_per_tok": 1}, num_hidden_layers=2, full_attention_interval=2, intermediate_size=64,
         linear_num_key_heads=4, linear_num_value_heads=8, decoder_sparse_step=1, norm_topk_prob=True,
         mlp_only_layers=[], partial_rotary_factor=0.25, rope_theta=10000.0, **MOE),
]


def is_delta(config, layer):
    types = config.get("layer_types")
    return types[layer] == "linear_attention" if types else (layer + 1) % config["full_attention_interval"] != 0


def modules_of(config, layer):
    """(name within a layer, K, N) of the linear layers that may be quantised."""
    hidden, head = config["hidden_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    n_keys, n_values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    keys, values = n_keys * config["linear_key_head_dim"], n_values * config["linear_value_head_dim"]
    if not is_delta(config, layer):
        modules = [("self_attn.q_proj", hidden, 2 * q), ("self_attn.k_proj", hidden, kv),
                   ("self_attn.v_proj", hidden, kv), ("self_attn.o_proj", q, hidden)]
    elif config["model_type"] == "qwen3_next":
        modules = [("linear_attn.in_proj_qkvz", hidden, 2 * keys + 2 * values),
                   ("linear_attn.in_proj_ba", hidden, 2 * n_values), ("linear_attn.out_proj", values, hidden)]
    else:
        modules = [("linear_attn.in_proj_qkv", hidden, 2 * keys + values), ("linear_attn.in_proj_z", hidden, values),
                   ("linear_attn.in_proj_b", hidden, n_values), ("linear_attn.in_proj_a", hidden, n_values),
                   ("linear_attn.out_proj", values, hidden)]
    if "num_experts" not in config:
        networks = [("mlp", config["intermediate_size"])]
    else:
        networks = [(f"mlp.experts.{e}", config["moe_intermediate_size"]) for e in range(config["num_experts"])]
        networks.append(("mlp.shared_expert", config["shared_expert_intermediate_size"]))
    for network, size in networks:
        modules += [(f"{network}.gate_proj", hidden, size), (f"{network}.up_proj", hidden, size),
                    (f"{network}.down_proj", size, hidden)]
    return modules


def draw(spec, config, rng):
    """All tensors of the checkpoint as floats, by name; single experts."""
    dtype = goldens.TORCH_DTYPES[spec["dtype"]]
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    normal = goldens.normals(rng, dtype)
    tensors = {"model.embed_tokens.weight": normal((vocab, hidden), 0.5 if config["tie_word_embeddings"] else 1.0),
               "model.norm.weight": normal((hidden,), 0.15)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = normal((vocab, hidden), 1.0 / math.sqrt(hidden))
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = normal((hidden,), 0.2)
        for name, k, n in modules_of(config, layer):
            tensors[f"{prefix}{name}.weight"] = normal((n, k), GAINS[name.split(".")[-1]] / math.sqrt(k))
        if "num_experts" in config:
            for name, n in (("mlp.gate", config["num_experts"]), ("mlp.shared_expert_gate", 1)):
                tensors[f"{prefix}{name}.weight"] = normal((n, hidden), 1.2 / math.sqrt(hidden))
        if not is_delta(config, layer):
            for norm in ("q_norm", "k_norm"):
                tensors[f"{prefix}self_attn.{norm}.weight"] = normal((config["head_dim"],), 0.2, 0.3)
            continue
        n_values = config["linear_num_value_heads"]
        n_channels = (2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] +
                      n_values * config["linear_value_head_dim"])
        prefix += "linear_attn."
        tensors[prefix + "conv1d.weight"] = normal((n_channels, 1, 4), 0.6)
        tensors[prefix + "A_log"] = torch.from_numpy(np.log(rng.uniform(0.05, 4, n_values)).astype(np.float32))
        tensors[prefix + "dt_bias"] = torch.from_numpy(rng.uniform(-3, 1, n_values).astype(np.float32))
        tensors[prefix + "norm.weight"] = normal((config["linear_value_head_dim"],), 0.2, 1.0)
    return tensors


def quantise(spec, tensors):
    """Tensors of the file, and the float32 weights that they represent."""
    written, meant = {}, {}
    for name, tensor in tensors.items():
        module, _, suffix = name.rpartition(".")
        is_linear = tensor.dim() == 2 and suffix == "weight" and module.endswith(("_proj", *GAINS))
        meant[name] = tensor.float().clone()
        if not (spec["pack"] and is_linear and "layers" in name) or any(part in name for part in spec["plain"]):
            written[name] = tensor
            continue
        packed, meant[name] = spec["pack"](tensor.float())
        written.update({f"{module}.{key}": value.detach().contiguous() for key, value in packed.items()})
    return written, meant


def fuse(config, tensors):
    tensors = dict(tensors)
    for layer in range(config["num_hidden_layers"]):
        goldens.fuse_experts(tensors, layer, config.get("num_experts", 0))
    return tensors


def reference(config, meant, written):
    import transformers

    config = json.loads(json.dumps(config))
    of_class = CLASSES[config["model_type"]]
    name = of_class + ("Config" if of_class == "Qwen3Next" else "TextConfig")
    hf_config = getattr(transformers.models, config["model_type"].replace("_text", ""))
    hf_config = getattr(hf_config, name).from_dict(config)
    hf_config._attn_implementation = hf_config._experts_implementation = "eager"
    model = getattr(transformers, of_class + "ForCausalLM")(hf_config).float().eval()
    missing, unexpected = model.load_state_dict(fuse(config, meant), strict=False)
    if config["tie_word_embeddings"]:
        missing = [key for key in missing if key != "lm_head.weight"]
        model.tie_weights()
    if missing or unexpected:
        raise AssertionError(f"missing {missing}, unexpected {unexpected}")
    for module in [name[:-len(".weight")] for name, tensor in written.items() if tensor.dtype == torch.int8]:
        parent, _, leaf = module.rpartition(".")
        setattr(model.get_submodule(parent), leaf, w8a8.QuantLinear(written, module, w8a8.PER_TOKEN))
    return model


def draw_prompts(spec, model, rng):
    config, vocab = spec["config"], spec["config"]["vocab_size"]
    if "num_experts" in config:
        return expert_choices.draw_prompts(config, model, rng, EXPERTS_PROMPT_LENGTHS)
    if spec["pack"] is not pack_int8:
        return goldens.draw_prompts(model, vocab, rng, PROMPT_LENGTHS)
    no_experts = types.SimpleNamespace(are_clear=lambda: True)
    return [w8a8.draw_experts_prompt(no_experts, model, vocab, length, rng) for length in ROUNDED_PROMPT_LENGTHS]


def drop(config, without):
    """The configuration without the feature of the case."""
    config = json.loads(json.dumps(config))
    if "partial_rotary_factor" in without:
        config["rope_parameters"]["partial_rotary_factor"] = without["partial_rotary_factor"]
        return config
    return {**config, **without}


def file_config(spec, config):
    """config.json in the form of the family's checkpoints."""
    of_class = CLASSES[config["model_type"]]
    if not spec["reads_images"]:
        return {"architectures": [of_class + "ForCausalLM"], **config, "dtype": spec["dtype"]}
    return {"architectures": [of_class + "ForConditionalGeneration"],
            "model_type": config["model_type"].replace("_text", ""), "image_token_id": 198,
            "tie_word_embeddings": config["tie_word_embeddings"], "vocab_size": config["vocab_size"],
            "text_config": {**config, "dtype": spec["dtype"], "mtp_num_hidden_layers": 1},
            "vision_config": {"hidden_size": 8}}


def with_image_names(spec, tensors):
    if not spec["reads_images"]:
        return tensors
    other = torch.ones(2, dtype=torch.bfloat16)
    renamed = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in tensors.items()}
    return {**renamed, "model.visual.merger.norm.weight": other, "mtp.fc.weight": other.clone()}


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = spec["config"]
    tensors, ids = draw(spec, config, rng), goldens.draw_ids(config, rng)
    written, meant = quantise(spec, tensors)
    std = goldens.logits_of(reference(config, meant, written), ids)[20:].std(dim=-1).mean().item()
    norm = "model.norm.weight"
    tensors[norm] = ((1 + tensors[norm].float()) * (goldens.LOGIT_STD / std) - 1).to(tensors[norm].dtype)
    written, meant = quantise(spec, tensors)
    in_file = fuse(config, written) if spec["fused"] else written
    goldens.write_weights(folder, with_image_names(spec, in_file), spec["files"])
    model, dropped = reference(config, meant, written), reference(drop(config, spec["without"]), meant, written)
    goldens.end_feature_case(spec, folder, file_config(spec, config), draw_prompts(spec, model, rng),
                             spec["quantization"], model, dropped, ids)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
