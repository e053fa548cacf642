#!/usr/bin/env python3
"""Makes tiny random mixtures of experts, and goldens of the public `transformers`.

Each case becomes families/NAME/, as make_family_goldens.py describes it. The reference is the family's own class. No
row of a prompt or an answer comes near a tie between experts (expert_choices.py).
"""

import math
import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402

families.ARCHITECTURES.update(qwen2_moe="Qwen2MoeForCausalLM", qwen3_moe="Qwen3MoeForCausalLM",
                              mixtral="MixtralForCausalLM", glm4_moe="Glm4MoeForCausalLM")
PROMPT_LENGTHS = (7, 40)


def case(name, about, group, dtype, without, model_type, fused=False, **config):
    """group: of AWQ gemm words, None: plain. without: changes of config.json that drop the feature of the case.
    fused: the file holds all experts of a layer as one tensor of gate and up and one of down."""
    common = {"architectures": [families.ARCHITECTURES[model_type]], "model_type": model_type, "hidden_act": "silu",
              "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "vocab_size": 200, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "bos_token_id": 1}
    return {"name": name, "about": about, "group": group, "dtype": dtype, "without": without, "files": 1,
            "fused": fused, "config": {**common, **config}}


CASES = [
    case("moe_qwen3", "Qwen3-MoE, AWQ: 5 experts of 3 groups, 3 a token, normalised; one dense layer between two", 32,
         "float16", {"norm_topk_prob": False}, "qwen3_moe", num_hidden_layers=3, head_dim=24, intermediate_size=96,
         num_experts=5, num_experts_per_tok=3, moe_intermediate_size=96, norm_topk_prob=True, decoder_sparse_step=1,
         mlp_only_layers=[1]),
    case("moe_qwen2", "Qwen2-MoE: a shared expert with a gate, 7 experts of 40 in every second layer, not normalised",
         None, "bfloat16", {"norm_topk_prob": True}, "qwen2_moe", intermediate_size=72, num_experts=7,
         num_experts_per_tok=2, moe_intermediate_size=40, shared_expert_intermediate_size=56, norm_topk_prob=False,
         decoder_sparse_step=2, mlp_only_layers=[]),
    case("moe_mixtral", "Mixtral, AWQ with a group of the whole K: 4 experts, 2 a token", -1, "float16",
         {"num_experts_per_tok": 1}, "mixtral", intermediate_size=72, num_local_experts=4, num_experts_per_tok=2,
         sliding_window=None),
    case("moe_glm4", "GLM-4.5: sigmoid scores with a correction that always chooses one expert and never another, "
         "2 of 3 groups, a shared expert, a dense first layer; half of each normed head rotates; one tensor for all "
         "experts", None, "float16", {"topk_group": 3}, "glm4_moe", fused=True, num_hidden_layers=3, head_dim=16,
         intermediate_size=80, attention_bias=True, use_qk_norm=True, partial_rotary_factor=0.5,
         moe_intermediate_size=24, n_routed_experts=6, num_experts_per_tok=3, n_shared_experts=1,
         routed_scaling_factor=1.7, n_group=3, topk_group=2, first_k_dense_replace=1, norm_topk_prob=True),
]


def has_experts(config, layer):
    if config["model_type"] == "glm4_moe":
        return layer >= config["first_k_dense_replace"]
    return layer not in config.get("mlp_only_layers", []) and (layer + 1) % config.get("decoder_sparse_step", 1) == 0


def ffn_modules(config, layer):
    """(name within a layer, K, N) of the linear layers of a layer's FFN that may be quantised; (name, N) of others."""
    hidden, family = config["hidden_size"], config["model_type"]
    if not has_experts(config, layer):
        ffn = config["intermediate_size"]
        return [("mlp.gate_proj", hidden, ffn), ("mlp.up_proj", hidden, ffn), ("mlp.down_proj", ffn, hidden)], []
    mixtral = family == "mixtral"
    n_experts = config.get("num_experts") or config.get("n_routed_experts") or config.get("num_local_experts")
    ffn = config["intermediate_size"] if mixtral else config["moe_intermediate_size"]
    block = "block_sparse_moe" if mixtral else "mlp"
    names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    networks = [(f"{block}.experts.{e}", ffn) for e in range(n_experts)]
    floats = [(f"{block}.gate", n_experts)]
    if family == "qwen2_moe":
        networks.append(("mlp.shared_expert", config["shared_expert_intermediate_size"]))
        floats.append(("mlp.shared_expert_gate", 1))
    if family == "glm4_moe":
        networks.append(("mlp.shared_experts", ffn * config["n_shared_experts"]))
    modules = []
    for network, size in networks:
        gate, up, down = (f"{network}.{name}" for name in names)
        modules += [(gate, hidden, size), (up, hidden, size), (down, size, hidden)]
    return modules, floats


def attention_modules(config):
    """(name within a layer, K, N, has bias) of attention's linear layers."""
    hidden, head = config["hidden_size"], families.head_dim_of(config)
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    bias = config["model_type"] == "qwen2_moe" or config.get("attention_bias", False)
    return [("self_attn.q_proj", hidden, q, bias), ("self_attn.k_proj", hidden, kv, bias),
            ("self_attn.v_proj", hidden, kv, bias), ("self_attn.o_proj", q, hidden, False)]


def gain_of(name):
    last = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}.get(name.split(".")[-1], name.split(".")[-1])
    return families.GAINS[last]


def draw(spec, config, rng):
    """All tensors of the checkpoint, by name, in the form of the file."""
    dtype = goldens.TORCH_DTYPES[spec["dtype"]]
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    normal = goldens.normals(rng, dtype)
    tensors = {"model.embed_tokens.weight": normal((vocab, hidden), 1.0),
               "model.norm.weight": normal((hidden,), 0.15, 1.0),
               "lm_head.weight": normal((vocab, hidden), 1.0 / math.sqrt(hidden))}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = normal((hidden,), 0.2, 1.0)
        if config["model_type"] == "qwen3_moe" or config.get("use_qk_norm"):
            for norm in ("q_norm", "k_norm"):
                tensors[f"{prefix}self_attn.{norm}.weight"] = normal((families.head_dim_of(config),), 0.2, 1.3)
        modules, floats = ffn_modules(config, layer)
        for name, k, n, bias in attention_modules(config) + [(*module, False) for module in modules]:
            if spec["group"] is None:
                tensors[f"{prefix}{name}.weight"] = normal((n, k), gain_of(name) / math.sqrt(k))
            else:
                for key, value in families.draw_awq(rng, k, n, spec["group"], gain_of(name), dtype).items():
                    tensors[f"{prefix}{name}.{key}"] = value
            if bias:
                tensors[f"{prefix}{name}.bias"] = normal((n,), 0.3)
        for name, n in floats:
            tensors[f"{prefix}{name}.weight"] = normal((n, hidden), 1.2 / math.sqrt(hidden))
        if config["model_type"] == "glm4_moe" and floats:
            correction = rng.random_sample(config["n_routed_experts"]).astype(np.float32) * 0.2
            correction[1], correction[4] = 10, -10
            tensors[f"{prefix}mlp.gate.e_score_correction_bias"] = torch.from_numpy(correction)
    if config["model_type"] == "glm4_moe":  # of a layer that predicts a further token: not part of the model
        tensors[f"model.layers.{config['num_hidden_layers']}.input_layernorm.weight"] = normal((hidden,), 0.2)
    return tensors


def fuse(config, tensors):
    tensors = dict(tensors)
    for layer in range(config["num_hidden_layers"]):
        goldens.fuse_experts(tensors, layer, config["n_routed_experts"])
    return tensors


def reference(config, tensors):
    past = f"model.layers.{config['num_hidden_layers']}."
    model = families.reference_model(config, {k: v for k, v in tensors.items() if not k.startswith(past)})
    if config["model_type"] == "glm4_moe":
        model.double = lambda: model  # the class routes in float32 for any type of weights, and cannot mix the two
    return model


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = dict(spec["config"], torch_dtype=spec["dtype"])
    tensors = draw(spec, config, rng)
    ids = goldens.draw_ids(config, rng)
    goldens.calibrate(reference(config, tensors), tensors, ids)
    goldens.write_weights(folder, fuse(config, tensors) if spec["fused"] else tensors, spec["files"])
    model = reference(config, tensors)
    prompts = expert_choices.draw_prompts(config, model, rng, PROMPT_LENGTHS)
    dropped = reference({**config, **spec["without"]}, tensors)
    goldens.end_feature_case(spec, folder, config, prompts, families.awq_gemm(spec["group"]), model, dropped, ids)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
