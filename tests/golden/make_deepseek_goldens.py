#!/usr/bin/env python3
"""Makes tiny random checkpoints of DeepSeek-V2 and V3, and goldens of the public `transformers`.

Latent attention; the first layer is dense, the others have experts, groups and shared experts.

Each case becomes families/NAME/, as make_family_goldens.py describes it. The reference is the family's own class of
transformers in float32, which computes keys and values of every head instead of absorbing kv_b_proj. Words of GPTQ are
written by auto_gptq 0.7.1; make_format_goldens.py describes how to run a script with it.
"""

import math
import os
import sys
import zlib

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_format_goldens as formats  # noqa: E402

families.ARCHITECTURES.update(deepseek_v2="DeepseekV2ForCausalLM", deepseek_v3="DeepseekV3ForCausalLM")

COMMON = {"attention_bias": False, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 64,
          "intermediate_size": 96, "kv_lora_rank": 32, "max_position_embeddings": 256, "num_attention_heads": 6,
          "moe_intermediate_size": 32, "n_shared_experts": 1,
          "num_hidden_layers": 2, "num_key_value_heads": 6, "q_lora_rank": 32, "qk_nope_head_dim": 16,
          "qk_rope_head_dim": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "v_head_dim": 16, "vocab_size": 200}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1,
        "mscale": 1.0, "mscale_all_dim": 1.0}
AWQ = families.awq_gemm(32)
GPTQ = {**formats.GPTQ, "desc_act": True, "group_size": 32, "checkpoint_format": "gptq"}


def weights_as_rows(module, args, output):
    """The router's float32 logits and weights in the type of the rows, so that the model runs in float64 too."""
    return tuple(part.to(args[0].dtype) if part.is_floating_point() else part for part in output)


def score_factor(config):
    """Yarn's factor on scores: transformers' class of V2 has it since version 5, DeepSeek's own always had it."""
    rope = config.get("rope_scaling")
    return (0.1 * rope["mscale_all_dim"] * math.log(rope["factor"]) + 1) ** 2 if rope else 1


def reference(config, tensors):
    model = families.reference_model(config, tensors)
    for layer in model.model.layers:
        layer.self_attn.scaling = score_factor(config) / math.sqrt(config["qk_nope_head_dim"] +
                                                                   config["qk_rope_head_dim"])
    for layer in model.model.layers[config["first_k_dense_replace"]:]:
        if config["model_type"] == "deepseek_v3":
            layer.mlp.gate.register_forward_hook(weights_as_rows)
    return model


def case(name, about, quantization, dtype, without, **config):
    """quantization: AWQ, GPTQ or None. without: changes of config.json that drop the feature of the case."""
    return {"name": name, "about": about, "quantization": quantization, "dtype": dtype, "without": without, "files": 1,
            "config": {**COMMON, **config}}


CASES = [
    case("deepseek_v3", "AWQ: q of two projections, neighbours rotate, yarn with mscale; groups of experts, correction",
         AWQ, "bfloat16", {"rope_interleave": False}, architectures=["DeepseekV3ForCausalLM"],
         model_type="deepseek_v3", rope_scaling=YARN, n_routed_experts=12, n_group=4, topk_group=2,
         num_experts_per_tok=3, norm_topk_prob=True, routed_scaling_factor=1.8, scoring_func="sigmoid",
         topk_method="noaux_tc"),
    case("deepseek_v2", "plain: q of one projection, values wider than keys; 5 experts, weights not normalised", None,
         "float16", {"rope_theta": 500.0}, architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2",
         q_lora_rank=None, num_attention_heads=5, num_key_value_heads=5, v_head_dim=36, qk_rope_head_dim=12,
         n_routed_experts=5, n_shared_experts=2, num_experts_per_tok=2, norm_topk_prob=False, n_group=1, topk_group=1,
         routed_scaling_factor=1.5, topk_method="greedy"),
    case("deepseek_v2_act_order", "GPTQ with desc_act, an order for each expert: q of two projections, the best of 3 "
         "groups of experts by their largest score, yarn with two mscales", GPTQ, "float16", {"topk_method": "greedy"},
         architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", rope_scaling={**YARN,
         "mscale_all_dim": 0.707}, qk_rope_head_dim=32, moe_intermediate_size=96, n_routed_experts=6,
         num_experts_per_tok=3, norm_topk_prob=False, n_group=3, topk_group=2, routed_scaling_factor=1.6,
         topk_method="group_limited_greedy", num_attention_heads=4, num_key_value_heads=4),
    case("deepseek_v3_sizes", "AWQ: latent vectors of 512 + 64, heads of 128 + 64 and 128, as the real models have",
         AWQ, "float16", {"rope_interleave": False}, architectures=["DeepseekV3ForCausalLM"],
         model_type="deepseek_v3", num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=512,
         qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=4, n_group=2, topk_group=1,
         num_experts_per_tok=2, norm_topk_prob=True, routed_scaling_factor=1.8, scoring_func="sigmoid",
         topk_method="noaux_tc"),
]


def ffn_modules(prefix, hidden, ffn):
    return [(f"{prefix}.gate_proj", hidden, ffn, 1.2), (f"{prefix}.up_proj", hidden, ffn, 1.2),
            (f"{prefix}.down_proj", ffn, hidden, 2.0)]


def modules_of(config, layer):
    """(name within a layer, K, N, gain) of the linear layers that may be quantised."""
    heads, hidden, rope = config["num_attention_heads"], config["hidden_size"], config["qk_rope_head_dim"]
    q = heads * (config["qk_nope_head_dim"] + rope)
    q_rank, kv_rank, v = config["q_lora_rank"], config["kv_lora_rank"], heads * config["v_head_dim"]
    first = ([("self_attn.q_a_proj", hidden, q_rank, 1.0), ("self_attn.q_b_proj", q_rank, q, 1.3)] if q_rank else
             [("self_attn.q_proj", hidden, q, 1.3)])
    modules = first + [("self_attn.kv_a_proj_with_mqa", hidden, kv_rank + rope, 1.3),
                       ("self_attn.kv_b_proj", kv_rank, heads * config["qk_nope_head_dim"] + v, 1.4),
                       ("self_attn.o_proj", v, hidden, 2.2)]
    if layer < config["first_k_dense_replace"]:
        return modules + ffn_modules("mlp", hidden, config["intermediate_size"])
    ffn = config["moe_intermediate_size"]
    for expert in range(config["n_routed_experts"]):
        modules += ffn_modules(f"mlp.experts.{expert}", hidden, ffn)
    return modules + ffn_modules("mlp.shared_experts", hidden, ffn * config["n_shared_experts"])


def order_of(module, k):
    """The group of each input: one order for gate and up of an expert, as in GPTQ; expert 2 has none."""
    places = np.arange(k)
    if ".experts.2." not in module:
        layer = module.replace("gate_proj", "up_proj")
        places = np.random.RandomState(zlib.crc32(layer.encode())).permutation(k)
    return places // GPTQ["group_size"]


def draw_quantised(spec, rng, module, k, n, gain, dtype):
    """Tensors of a quantised module by the ends of their names, and its float32 weight."""
    if spec["quantization"] is AWQ:
        tensors = families.draw_awq(rng, k, n, AWQ["group_size"], gain, dtype)
        return tensors, families.dense_weights({f"m.{key}": value for key, value in tensors.items()})["m.weight"]
    g_idx = order_of(module, k)
    q, z, s = formats.draw_integers(rng, g_idx, n, GPTQ["group_size"], gain, "drawn", dtype, GPTQ["bits"])
    tensors = formats.pack_gptq_act_order(q, z, s, GPTQ["group_size"], GPTQ["bits"], g_idx)
    tensors["scales"] = tensors["scales"].to(dtype)
    return tensors, torch.from_numpy(np.ascontiguousarray((s[g_idx] * (q.astype(np.float32) - z[g_idx])).T))


def draw(spec, config, rng):
    """Tensors of the file by name, and float32 weights of the quantised modules."""
    dtype = goldens.TORCH_DTYPES[spec["dtype"]]
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    normal = goldens.normals(rng, dtype)
    tensors, dense = {"model.embed_tokens.weight": normal((vocab, hidden), 1.0)}, {}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        norms = {"input_layernorm": hidden, "post_attention_layernorm": hidden,
                 "self_attn.kv_a_layernorm": config["kv_lora_rank"]}
        if config["q_lora_rank"]:
            norms["self_attn.q_a_layernorm"] = config["q_lora_rank"]
        for norm, n in norms.items():
            tensors[f"{prefix}{norm}.weight"] = normal((n,), 0.2, 1.0)
        if layer >= config["first_k_dense_replace"]:
            n_experts = config["n_routed_experts"]
            tensors[f"{prefix}mlp.gate.weight"] = normal((n_experts, hidden), 1.0 / math.sqrt(hidden))
            if config["model_type"] == "deepseek_v3":
                bias = rng.standard_normal(n_experts).astype(np.float32) * 0.2
                tensors[f"{prefix}mlp.gate.e_score_correction_bias"] = torch.from_numpy(bias)
        for name, k, n, gain in modules_of(config, layer):
            if not spec["quantization"]:
                tensors[f"{prefix}{name}.weight"] = normal((n, k), gain / math.sqrt(k))
                continue
            words, dense[f"{prefix}{name}.weight"] = draw_quantised(spec, rng, prefix + name, k, n, gain, dtype)
            tensors.update({f"{prefix}{name}.{key}": value.contiguous() for key, value in words.items()})
    tensors["model.norm.weight"] = normal((hidden,), 0.15, 1.0)
    tensors["lm_head.weight"] = normal((vocab, hidden), 1.0 / math.sqrt(hidden))
    return tensors, dense


def as_floats(tensors, dense):
    """The tensors of the computation: those of the file without those of quantised modules, and dense."""
    modules = {name.rpartition(".")[0] for name in dense}
    return {**{name: tensor for name, tensor in tensors.items() if name.rpartition(".")[0] not in modules}, **dense}


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = dict(spec["config"], torch_dtype=spec["dtype"])
    tensors, dense = draw(spec, config, rng)
    ids = goldens.draw_ids(config, rng)
    goldens.calibrate(reference(config, as_floats(tensors, dense)), tensors, ids)
    goldens.write_weights(folder, tensors, spec["files"])
    floats = as_floats(goldens.read_weights(folder), dense)
    model = reference(config, floats)
    prompts = expert_choices.draw_prompts(config, model, rng, goldens.PROMPT_LENGTHS)
    dropped = reference({**config, **spec["without"]}, floats)
    goldens.end_feature_case(spec, folder, config, prompts, spec["quantization"], model, dropped, ids)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
