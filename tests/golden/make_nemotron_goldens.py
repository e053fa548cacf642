#!/usr/bin/env python3
"""Makes tiny random models of Nemotron-H and Nemotron-3 (Mamba2, one sublayer a block), and goldens of the public
`transformers`.

Each case becomes families/NAME/, as make_family_goldens.py describes it. The reference is NemotronHForCausalLM in
float32, whose prompts use the form in chunks, here of 16 tokens, without a cache. The class takes the smallest step
from time_step_min, which therefore equals the first of time_step_limit, or is smaller than every step. Files have the
names and the single experts of published models. No row of a mixture comes near a tie between experts
(expert_choices.py). FP8 is written by FP8QTensor of nvidia-modelopt 0.47.0, as its export stores it.
"""

import json
import math
import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402
import make_float4_goldens as float4  # noqa: E402

PROMPT_LENGTHS = (1, 70, 130)
EXPERTS_PROMPT_LENGTHS = (5, 66)
GAINS = {"in_proj": 1.4, "out_proj": 1.2, "q_proj": 1.3, "k_proj": 1.3, "v_proj": 1.4, "o_proj": 2.0, "up_proj": 1.1,
         "down_proj": 0.9, "fc1_latent_proj": 1.2, "fc2_latent_proj": 1.5, "gate": 1.5}
TINY_STEP = 1e-6
KINDS = {"M": "linear_attention", "*": "full_attention", "E": "moe", "-": "mlp"}


def case(name, about, pattern, pack=None, quantization=None, plain=(), without=None, as_types=False, **config):
    """pack: of every linear layer of a block but those whose names contain one of `plain`. as_types: the file has
    layers_block_type, and infinity as transformers 5 writes them."""
    common = {"model_type": "nemotron_h", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 16, "vocab_size": 200, "max_position_embeddings": 256, "layer_norm_epsilon": 1e-5,
              "tie_word_embeddings": False, "bos_token_id": 1, "mamba_num_heads": 6, "mamba_head_dim": 16,
              "n_groups": 3, "ssm_state_size": 16, "conv_kernel": 4, "chunk_size": 16, "use_conv_bias": True,
              "mamba_hidden_act": "silu", "mlp_hidden_act": "relu2", "attention_bias": False, "mlp_bias": False,
              "use_bias": False, "time_step_min": TINY_STEP, "time_step_limit": [0.0, math.inf]}
    return {"name": "nemotron_" + name, "about": about, "pattern": pattern, "pack": pack,
            "quantization": quantization, "plain": plain, "without": without, "as_types": as_types,
            "dtype": "bfloat16", "files": 1, "config": {**common, **config}}


MOE = {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
       "moe_shared_expert_intermediate_size": 48, "routed_scaling_factor": 1.6, "norm_topk_prob": True, "n_group": 1,
       "topk_group": 1}
EXCLUDED = ["lm_head", "backbone.embeddings", "backbone.layers.*.mixer.conv1d", "backbone.layers.2*",
            "backbone.layers.*.mixer.gate"]

CASES = [
    case("nano", "Nemotron-3 Nano: Mamba2 of 3 groups, experts without a gate, a shared one, unrotated attention",
         "ME*ME", without={"num_experts_per_tok": 1}, **MOE),
    case("h", "Nemotron-H: MLP blocks; steps of at least 0.1, biases of projections, no bias of the convolution",
         "M-*M-", without={"time_step_min": TINY_STEP}, time_step_min=0.1, time_step_limit=[0.1, math.inf],
         intermediate_size=96, use_bias=True, use_conv_bias=False, mamba_num_heads=5, n_groups=5, ssm_state_size=32,
         as_types=True),
    case("latent", "Nemotron-3 Super: experts of latent rows, in groups, a shared one of whole rows", "MEM*E",
         without={"routed_scaling_factor": 0.4}, as_types=True, moe_latent_size=32,
         **{**MOE, "n_group": 2, "topk_group": 1, "routed_scaling_factor": 2.5}),
    case("nano_fp8", "Nemotron-3 Nano in ModelOpt's FP8: Mamba2 and experts; attention is excluded", "ME*E",
         pack=float4.pack_modelopt("FP8"), plain=("layers.2.", "mixer.gate."), quantization={
             "quant_method": "modelopt", "quant_algo": "FP8", "ignore": EXCLUDED,
             "producer": {"name": "modelopt", "version": "0.47.0"}},
         without={"num_experts_per_tok": 1}, mamba_num_heads=4, n_groups=2, mamba_head_dim=32, **MOE),
]


def modules_of(config, kind):
    """(name within a block, K, N) of its linear layers."""
    hidden, head = config["hidden_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    width = config["mamba_num_heads"] * config["mamba_head_dim"]
    states = config["n_groups"] * config["ssm_state_size"]
    if kind == "M":
        return [("in_proj", hidden, 2 * width + 2 * states + config["mamba_num_heads"]), ("out_proj", width, hidden)]
    if kind == "*":
        return [("q_proj", hidden, q), ("k_proj", hidden, kv), ("v_proj", hidden, kv), ("o_proj", q, hidden)]
    if kind == "-":
        return [("up_proj", hidden, config["intermediate_size"]), ("down_proj", config["intermediate_size"], hidden)]
    latent, ffn = config.get("moe_latent_size", hidden), config["moe_intermediate_size"]
    modules = [("gate", hidden, config["n_routed_experts"])]
    if latent != hidden:
        modules += [("fc1_latent_proj", hidden, latent), ("fc2_latent_proj", latent, hidden)]
    networks = [(f"experts.{e}", latent, ffn) for e in range(config["n_routed_experts"])]
    networks.append(("shared_experts", hidden, config["moe_shared_expert_intermediate_size"]))
    for network, k, size in networks:
        modules += [(f"{network}.up_proj", k, size), (f"{network}.down_proj", size, k)]
    return modules


def draw_mamba(config, prefix, normal, rng):
    """Parameters of Mamba2 besides its projections."""
    heads, width = config["mamba_num_heads"], config["mamba_num_heads"] * config["mamba_head_dim"]
    channels = width + 2 * config["n_groups"] * config["ssm_state_size"]
    rate = torch.from_numpy(np.log(rng.uniform(0.1, 3.0, heads)).astype(np.float32))
    tensors = {"A_log": rate, "D": normal((heads,), 0.3, 1.0).float(), "dt_bias": normal((heads,), 0.8, -1.5).float(),
               "norm.weight": normal((width,), 0.2, 1.0), "conv1d.weight": normal((channels, 1, 4), 0.5)}
    if config["use_conv_bias"]:
        tensors["conv1d.bias"] = normal((channels,), 0.3)
    if config["use_bias"]:
        for name, _, n in modules_of(config, "M"):
            tensors[f"{name}.bias"] = normal((n,), 0.2)
    return {prefix + name: tensor for name, tensor in tensors.items()}


def draw(spec, rng):
    """All tensors of the checkpoint as floats, by name."""
    config, normal = spec["config"], goldens.normals(rng, torch.bfloat16)
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    tensors = {"backbone.embeddings.weight": normal((vocab, hidden), 1.0),
               "backbone.norm_f.weight": normal((hidden,), 0.15, 1.0),
               "lm_head.weight": normal((vocab, hidden), 1.0 / math.sqrt(hidden))}
    for layer, kind in enumerate(spec["pattern"]):
        prefix = f"backbone.layers.{layer}."
        tensors[f"{prefix}norm.weight"] = normal((hidden,), 0.15, 1.0)
        for name, k, n in modules_of(config, kind):
            tensors[f"{prefix}mixer.{name}.weight"] = normal((n, k), GAINS[name.split(".")[-1]] / math.sqrt(k))
        if kind == "M":
            tensors.update(draw_mamba(config, f"{prefix}mixer.", normal, rng))
        if kind == "E":
            correction = 0.2 * rng.standard_normal(config["n_routed_experts"])
            tensors[f"{prefix}mixer.gate.e_score_correction_bias"] = torch.from_numpy(correction.astype(np.float32))
    return tensors


def quantise(spec, tensors):
    """The tensors of the file, and the float32 weights that they represent."""
    written, meant = {}, {}
    for name, tensor in tensors.items():
        meant[name] = tensor.float().clone()
        is_linear = tensor.dim() == 2 and ".mixer." in name
        if not (spec["pack"] and is_linear) or any(part in name for part in spec["plain"]):
            written[name] = tensor
            continue
        packed, meant[name] = spec["pack"](tensor.float())
        module = name[:-len(".weight")]
        written.update({f"{module}.{key}": value.detach().contiguous() for key, value in packed.items()})
    return written, meant


def in_class(config, tensors):
    """The tensors under the names of the class, whose experts are one tensor."""
    tensors = {name.replace("backbone.", "model.", 1): tensor for name, tensor in tensors.items()}
    for name in [name for name in tensors if ".experts.0." in name]:
        each = [tensors.pop(name.replace(".experts.0.", f".experts.{e}.")) for e in range(config["n_routed_experts"])]
        tensors[name.replace(".experts.0.", ".experts.")[:-len(".weight")]] = torch.stack(each)
    return tensors


def reference(spec, config, meant):
    import transformers

    config = json.loads(json.dumps(config))
    hf_config = transformers.NemotronHConfig.from_dict(
        {**config, "layers_block_type": [KINDS[kind] for kind in spec["pattern"]]})
    hf_config._attn_implementation = hf_config._experts_implementation = "eager"
    model = transformers.NemotronHForCausalLM(hf_config).float().eval()
    missing, unexpected = model.load_state_dict(in_class(config, meant), strict=False)
    if missing or unexpected:
        raise AssertionError(f"missing {missing}, unexpected {unexpected}")
    return model


def file_config(spec):
    config = {"architectures": ["NemotronHForCausalLM"], **spec["config"], "torch_dtype": spec["dtype"]}
    if spec["as_types"]:
        limit = [{"__float__": "Infinity"} if math.isinf(step) else step for step in config["time_step_limit"]]
        return {**config, "layers_block_type": [KINDS[kind] for kind in spec["pattern"]], "time_step_limit": limit}
    return {**config, "hybrid_override_pattern": spec["pattern"], "num_hidden_layers": len(spec["pattern"])}


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config, norm = spec["config"], "backbone.norm_f.weight"
    tensors, ids = draw(spec, rng), goldens.draw_ids(spec["config"], rng)
    goldens.calibrate(reference(spec, config, quantise(spec, tensors)[1]), tensors, ids, norm)
    written, meant = quantise(spec, tensors)
    goldens.write_weights(folder, written, spec["files"])
    model, dropped = reference(spec, config, meant), reference(spec, {**config, **spec["without"]}, meant)
    if "E" in spec["pattern"]:
        prompts = expert_choices.draw_prompts(config, model, rng, EXPERTS_PROMPT_LENGTHS)
    else:
        prompts = goldens.draw_prompts(model, config["vocab_size"], rng, PROMPT_LENGTHS)
    goldens.end_feature_case(spec, folder, file_config(spec), prompts, spec["quantization"], model, dropped, ids)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
