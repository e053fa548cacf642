#!/usr/bin/env python3
"""Makes tiny random checkpoints of families that differ from others in few keys or names, and goldens of the public
`transformers`.

Each case becomes families/NAME/, as make_family_goldens.py describes it. The reference is the family's own class in
float32; Kimi-K2.5's is DeepSeek-V3's, whose weights its files hold under another prefix. Tensors are drawn for the
parameters of the class and written in the form of published files: experts one by one. Run with transformers 5 (tried:
5.24.0).
"""

import json
import math
import os
import re
import sys

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402
import make_deepseek_goldens as deepseek  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_format_goldens as formats  # noqa: E402

DENSE = {"hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 200, "max_position_embeddings": 256,
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "bos_token_id": 1}
LATENT = {**{key: value for key, value in deepseek.COMMON.items() if key != "rope_theta"},
          "n_routed_experts": 6, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "norm_topk_prob": True,
          "routed_scaling_factor": 1.8, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
MINIMAX = {**DENSE, "head_dim": 16, "rotary_dim": 8, "intermediate_size": 32, "num_local_experts": 6,
           "num_experts_per_tok": 2, "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True,
           "qk_norm_type": "per_layer", "attn_type_list": [1, 1], "shared_intermediate_size": 0}
LLAMA4 = {**{key: value for key, value in DENSE.items() if key != "rope_theta"}, "num_hidden_layers": 4,
          "intermediate_size": 32, "intermediate_size_mlp": 80, "num_local_experts": 5, "num_experts_per_tok": 1,
          "interleave_moe_layer_step": 1, "use_qk_norm": True, "no_rope_layers": [], "no_rope_layer_interval": 4,
          "attention_chunk_size": 24, "attn_temperature_tuning": True, "floor_scale": 16, "attn_scale": 0.4,
          "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 16.0, "low_freq_factor": 1.0,
                              "high_freq_factor": 1.0, "original_max_position_embeddings": 64}}
GRANITE = {"embedding_multiplier": 12.0, "attention_multiplier": 0.12, "residual_multiplier": 0.6,
           "logits_scaling": 3.0, "attention_bias": False, "tie_word_embeddings": True, "mamba_n_groups": 1,
           "mamba_d_head": 16, "mamba_d_state": 32, "mamba_d_conv": 4, "mamba_chunk_size": 16,
           "mamba_conv_bias": True, "mamba_proj_bias": False}
NO_THETA = {key: value for key, value in DENSE.items() if key != "rope_theta"}
GROWTH = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 32,
          "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.6}


def case(name, architecture, model_type, about, without, common, reference=None, prefix="", inside=None, awq=None,
         lengths=None, text_type="kimi_k2", fp8=None, int4=None, ignore=(), **config):
    """without: changes of the configuration that drop the feature of the case; "zeros": the end of the names of tensors
    that are zeros without it. reference: the class of transformers, if it is a different class. prefix: of names in the
    file. inside: the key of config.json that holds the model's keys. awq: the group of AWQ gemm words of the layers'
    projections, None: plain. lengths: of other prompts than usual, and of those of a second file, golden_long.json.
    text_type: the "model_type" inside. fp8: outputs and
    inputs of a block of 8-bit floats with one scale, None: plain. int4: the group of 4-bit integers of
    compressed-tensors, experts one by one, None: plain. ignore: patterns of names of linear layers that stay plain."""
    return {"name": name, "architecture": architecture, "model_type": model_type, "about": about, "without": without,
            "reference": reference or architecture.removesuffix("ForCausalLM"), "prefix": prefix, "inside": inside,
            "awq": awq, "lengths": lengths, "text_type": text_type, "fp8": fp8, "int4": int4,
            "ignore": ignore, "files": 1, "dtype": config.pop("dtype", "bfloat16"), "config": {**common, **config}}


CASES = [
    case("seed_oss", "SeedOssForCausalLM", "seed_oss", "Seed-OSS: biases of q, k and v without one of o",
         {"attention_bias": False}, DENSE, attention_bias=True, attention_out_bias=False, mlp_bias=False, head_dim=24),
    case("ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", "Ernie 4.5: neighbours rotate, biases everywhere, a tied head",
         {"rope_theta": 100.0}, DENSE, use_bias=True, head_dim=20, tie_word_embeddings=True, num_attention_heads=6,
         num_key_value_heads=3, dtype="float16"),
    case("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", "ernie4_5_moe", "Ernie 4.5 with experts in the middle layers: "
         "softmax scores with a correction of the choice, 2 shared experts", {"zeros": "e_score_correction_bias"},
         {**DENSE, "hidden_size": 48}, use_bias=False, num_hidden_layers=4, moe_intermediate_size=24, moe_k=2,
         moe_num_experts=5, moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2,
         moe_layer_interval=1, tie_word_embeddings=True),
    case("granite", "GraniteForCausalLM", "granite", "Granite: factors on embeddings, scores, branches and logits",
         {"attention_multiplier": 0.25}, DENSE, embedding_multiplier=12.0, attention_multiplier=0.12,
         residual_multiplier=0.4, logits_scaling=3.0, attention_bias=False, mlp_bias=False, tie_word_embeddings=True),
    case("granite_moe", "GraniteMoeSharedForCausalLM", "granitemoeshared", "Granite with experts in one tensor and a "
         "shared one: the four factors, softmax over the chosen experts", {"residual_multiplier": 1.0},
         {**DENSE, "hidden_size": 48}, embedding_multiplier=12.0, attention_multiplier=0.12, residual_multiplier=0.6,
         logits_scaling=3.0, attention_bias=False, tie_word_embeddings=True, num_local_experts=5,
         num_experts_per_tok=2, shared_intermediate_size=40, intermediate_size=32, dtype="float16"),
    case("granite_hybrid", "GraniteMoeHybridForCausalLM", "granitemoehybrid", "Granite 4: Mamba2 between layers with "
         "unrotated attention, experts and a shared one", {"num_experts_per_tok": 1}, {**DENSE, **GRANITE},
         hidden_size=48, num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], mamba_expand=2,
         mamba_n_heads=6, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=40,
         intermediate_size=32, position_embedding_type="nope"),
    case("granite_hybrid_dense", "GraniteMoeHybridForCausalLM", "granitemoehybrid", "Granite 4 without experts, with "
         "attention that rotates", {"rope_theta": 100.0}, {**DENSE, **GRANITE}, layer_types=["attention", "mamba"],
         mamba_expand=2, mamba_n_heads=8, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=80,
         position_embedding_type="rope", dtype="float16"),
    case("granite_hybrid_groups", "GraniteMoeHybridForCausalLM", "granitemoehybrid", "Granite 4 with Mamba2 in three "
         "groups of heads", {"zeros": "mamba.norm.weight"},
         {**DENSE, **GRANITE}, hidden_size=48, layer_types=["mamba", "attention"], mamba_expand=2, mamba_n_heads=6,
         mamba_n_groups=3, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=64,
         position_embedding_type="nope"),
    case("hunyuan", "HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", "Hunyuan V1: norms of rotated q and k, a base "
         "that alpha raises", {"rope_scaling": {"type": "dynamic", "alpha": 2.0, "factor": 1.0}}, DENSE,
         head_dim=20, rope_scaling={"type": "dynamic", "alpha": 100.0, "factor": 1.0}, tie_word_embeddings=True,
         use_qk_norm=True, num_attention_heads=3, num_key_value_heads=1),
    case("hunyuan_moe", "HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", "Hunyuan V1 with experts and a shared one in "
         "every layer", {"moe_topk": 1}, {**DENSE, "hidden_size": 48, "intermediate_size": 32}, num_experts=5,
         moe_topk=2, num_shared_expert=1, rope_scaling={"type": "dynamic", "alpha": 100.0, "factor": 1.0}, head_dim=16,
         dtype="float16"),
    case("phi3", "Phi3ForCausalLM", "phi3", "Phi-3: q, k and v in one tensor, gate and up in another; 3 quarters of a "
         "head rotate, a window of 24", {"sliding_window": None}, DENSE, sliding_window=24,
         partial_rotary_factor=0.75, original_max_position_embeddings=256, pad_token_id=0, eos_token_id=2),
    case("phi3_longrope", "Phi3ForCausalLM", "phi3", "Phi-4-mini: longrope; contexts longer than 64 tokens in "
         "golden_long.json", {"rope_scaling": None}, DENSE, lengths=((1, 7, 40), (65, 130)),
         partial_rotary_factor=0.75, original_max_position_embeddings=64, pad_token_id=0, eos_token_id=2,
         tie_word_embeddings=True, sliding_window=200,
         rope_scaling={"type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.4, 1.9, 2.5],
                       "long_factor": [1.1, 2.0, 4.0, 8.0, 12.0, 16.0]}),
    case("glm4", "Glm4ForCausalLM", "glm4", "GLM-4-0414: norms before and behind sublayers, half of a head rotates as "
         "neighbours, biases of q, k and v", {"partial_rotary_factor": 1.0}, DENSE, attention_bias=True, head_dim=24,
         partial_rotary_factor=0.5, pad_token_id=0),
    case("glm4_awq", "Glm4ForCausalLM", "glm4", "as AWQ, without biases", {"partial_rotary_factor": 1.0}, DENSE, awq=32,
         dtype="float16", attention_bias=False, head_dim=24, num_key_value_heads=1, partial_rotary_factor=0.5,
         pad_token_id=0),
    case("ministral3", "Ministral3ForCausalLM", "ministral3", "Ministral-3: YaRN, and scores that grow every 32 tokens",
         {"rope_parameters": {**GROWTH, "llama_4_scaling_beta": 0.0}}, NO_THETA, head_dim=24, rope_parameters=GROWTH,
         tie_word_embeddings=True),
    case("ministral3_awq", "Mistral3ForConditionalGeneration", "mistral3", "the text part of Ministral-3, AWQ",
         {"rope_parameters": {**GROWTH, "llama_4_scaling_beta": 0.0}}, NO_THETA, awq=32, dtype="float16",
         reference="Ministral3", prefix="language_model.", inside="text_config", text_type="ministral3", head_dim=24,
         rope_parameters=GROWTH, num_attention_heads=8, num_key_value_heads=4),
    case("mistral3", "Mistral3ForConditionalGeneration", "mistral3", "the text part of Mistral-Small-3.2: Mistral",
         {"rope_theta": 100.0}, DENSE, reference="Mistral", prefix="language_model.", inside="text_config",
         text_type="mistral", head_dim=20, sliding_window=None),
    case("mistral4", "Mistral3ForConditionalGeneration", "mistral3", "the text part of Mistral-Small-4: latent "
         "attention, a router of softmax scores in groups, scores that grow every 32 tokens",
         {"rope_parameters": {**GROWTH, "llama_4_scaling_beta": 0.0, "partial_rotary_factor": 1 / 3}}, LATENT,
         reference="Mistral4", prefix="language_model.", inside="text_config", text_type="mistral4",
         rope_parameters={**GROWTH, "partial_rotary_factor": 1 / 3}, n_routed_experts=8, n_group=4, topk_group=2,
         num_experts_per_tok=3, moe_intermediate_size=16, num_attention_heads=5, num_key_value_heads=5),
    case("minimax_m2", "MiniMaxM2ForCausalLM", "minimax_m2", "MiniMax-M2: norms of whole rows of q and k, over all "
         "heads, experts chosen by corrected sigmoids, half of a head rotates", {"zeros": "e_score_correction_bias"},
         MINIMAX, num_attention_heads=8, num_key_value_heads=4),
    case("minimax_m2_fp8", "MiniMaxM2ForCausalLM", "minimax_m2", "as FP8 in blocks of 32 x 32; one KV head for all",
         {"zeros": "e_score_correction_bias"}, MINIMAX, fp8=32, num_attention_heads=4, num_key_value_heads=1),
    case("phi3_longrope_w4a16", "Phi3ForCausalLM", "phi3", "Phi-4-mini as W4A16 of compressed-tensors: q, k and v, and "
         "gate and up, in one module each", {"rope_scaling": None}, DENSE, int4=16, partial_rotary_factor=0.75,
         original_max_position_embeddings=256, pad_token_id=0, eos_token_id=2, sliding_window=200,
         rope_scaling={"type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.4, 1.9, 2.5],
                       "long_factor": [1.1, 2.0, 4.0, 8.0, 12.0, 16.0]}),
    case("ernie4_5_moe_w4a16", "Ernie4_5_MoeForCausalLM", "ernie4_5_moe", "Ernie 4.5 with experts as W4A16 of "
         "compressed-tensors", {"zeros": "e_score_correction_bias"}, {**DENSE, "hidden_size": 48}, int4=16,
         use_bias=False, moe_intermediate_size=32, moe_k=2, moe_num_experts=5, moe_num_shared_experts=1,
         moe_layer_start_index=1, moe_layer_end_index=1, moe_layer_interval=1, tie_word_embeddings=True),
    case("granite_moe_w4a16", "GraniteMoeSharedForCausalLM", "granitemoeshared", "Granite with experts as W4A16 of "
         "compressed-tensors, experts one by one", {"residual_multiplier": 1.0}, {**DENSE, "hidden_size": 48}, int4=16,
         embedding_multiplier=12.0, attention_multiplier=0.12, residual_multiplier=0.6, logits_scaling=3.0,
         attention_bias=False, tie_word_embeddings=True, num_local_experts=5, num_experts_per_tok=2,
         shared_intermediate_size=48, intermediate_size=32, dtype="float16"),
    case("hunyuan_moe_w4a16", "HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", "Hunyuan V1 as W4A16 of compressed-tensors, "
         "but for the router", {"moe_topk": 1}, {**DENSE, "hidden_size": 48, "intermediate_size": 32}, int4=16,
         num_experts=5, moe_topk=2, num_shared_expert=1, head_dim=16, dtype="float16",
         rope_scaling={"type": "dynamic", "alpha": 100.0, "factor": 1.0}),
    case("llama4", "Llama4ForConditionalGeneration", "llama4", "the text part of Llama-4-Scout: chunks of 24 tokens, "
         "norms of rotated q and k, every fourth layer without rotation and with scores that grow every 16 tokens, "
         "inputs of experts weighted by sigmoids, experts transposed in one tensor", {"attention_chunk_size": 256},
         LLAMA4, reference="Llama4", prefix="language_model.", inside="text_config", text_type="llama4_text",
         head_dim=20),
    case("llama4_maverick", "Llama4ForCausalLM", "llama4_text", "Llama-4-Maverick: dense layers between, no norms of q "
         "and k", {"attn_temperature_tuning": False}, LLAMA4, interleave_moe_layer_step=2, use_qk_norm=False,
         head_dim=16, num_attention_heads=6, num_key_value_heads=3, num_local_experts=8, dtype="float16",
         no_rope_layers=[1, 0, 1, 0], rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    case("llama4_w4a16", "Llama4ForConditionalGeneration", "llama4", "W4A16 of compressed-tensors, experts one by one, "
         "two for each row", {"use_qk_norm": False}, LLAMA4, int4=16, reference="Llama4", prefix="language_model.",
         inside="text_config", text_type="llama4_text", head_dim=16, num_experts_per_tok=2, num_hidden_layers=3,
         no_rope_layer_interval=3, moe_layers=[0, 2]),
    case("gemma3_vl", "Gemma3ForConditionalGeneration", "gemma3", "the text part of Gemma 3",
         {"rope_local_base_freq": 100.0},
         {key: value for key, value in DENSE.items() if key != "hidden_act"}, reference="Gemma3",
         prefix="language_model.", inside="text_config", text_type="gemma3_text",
         hidden_activation="gelu_pytorch_tanh", head_dim=16, num_key_value_heads=2, sliding_window=16,
         sliding_window_pattern=2, query_pre_attn_scalar=20, rope_theta=1000.0, rope_local_base_freq=10000.0,
         tie_word_embeddings=True),
    case("gemma3", "Gemma3ForCausalLM", "gemma3_text", "Gemma 3: norms before and behind sublayers, of 1 + w; windows "
         "of 16 with a rotary base of their own, linear scaling elsewhere; heads of 24 with the scale of 20",
         {"rope_local_base_freq": 100.0}, {key: value for key, value in DENSE.items() if key != "hidden_act"},
         hidden_activation="gelu_pytorch_tanh", num_hidden_layers=3, head_dim=24, num_key_value_heads=1,
         sliding_window=16, sliding_window_pattern=2, query_pre_attn_scalar=20, rope_theta=1000.0,
         rope_local_base_freq=10000.0, rope_scaling={"rope_type": "linear", "factor": 8.0}, attn_logit_softcapping=None,
         final_logit_softcapping=None, tie_word_embeddings=True),
    case("glm4_moe_lite", "Glm4MoeLiteForCausalLM", "glm4_moe_lite", "GLM-4.7-Flash: latent attention with 5 heads; "
         "layers by mlp_layer_types", {"routed_scaling_factor": 0.5}, LATENT, num_attention_heads=5,
         num_key_value_heads=5, v_head_dim=24, mlp_layer_types=["dense", "sparse"], rope_interleave=True,
         dtype="float16"),
    case("deepseek_v32", "DeepseekV32ForCausalLM", "deepseek_v32", "DeepSeek-V3.2 within its index_topk tokens, an "
         "indexer in the file", {"index_topk": 8}, LATENT, index_topk=200, index_head_dim=16, index_n_heads=2,
         n_routed_experts=8, n_group=4, topk_group=2, num_experts_per_tok=3, moe_intermediate_size=16),
    case("glm_moe_dsa", "GlmMoeDsaForCausalLM", "glm_moe_dsa", "GLM-5 within its index_topk tokens", {"index_topk": 8},
         LATENT, index_topk=200, index_head_dim=16, index_n_heads=2, num_attention_heads=4, num_key_value_heads=4,
         indexer_types=["full", "shared"]),
    case("kimi_k25", "KimiK25ForConditionalGeneration", "kimi_k25", "Kimi-K2.5: DeepSeek-V3 under language_model., its "
         "keys in text_config", {"routed_scaling_factor": 0.5}, LATENT, reference="DeepseekV3",
         prefix="language_model.", inside="text_config", scoring_func="sigmoid", topk_method="noaux_tc",
         n_routed_experts=5, num_attention_heads=4, num_key_value_heads=4),
    case("kimi_k25_w4a16", "KimiK25ForConditionalGeneration", "kimi_k25", "Kimi-K2.5 as published: routed experts "
         "alone as W4A16 in groups of 32", {"routed_scaling_factor": 0.5}, LATENT, reference="DeepseekV3", int4=32,
         prefix="language_model.", inside="text_config", scoring_func="sigmoid", topk_method="noaux_tc",
         ignore=(".*self_attn.*", ".*shared_experts.*", r".*mlp\.(gate|up|gate_up|down)_proj.*"),
         n_routed_experts=5, num_attention_heads=4, num_key_value_heads=4, moe_intermediate_size=32),
]


def make_model(spec, config):
    keys = json.loads(json.dumps(config))
    name = spec["reference"] + ("TextConfig" if is_gemma(spec) or is_llama4(spec) else "Config")
    made = getattr(transformers, name).from_dict(keys)
    made._attn_implementation = made._experts_implementation = "eager"
    model = getattr(transformers, spec["reference"] + "ForCausalLM")(made).float().eval()
    if has_experts(config):
        model.double = lambda: model  # the class routes in float32 for any type of weights, and cannot mix the two
    return model


def has_experts(config):
    return any(config.get(key) for key in ("n_routed_experts", "moe_num_experts", "num_local_experts", "num_experts"))


def is_gemma(spec):
    """Norms are stored less 1, and the root of their size multiplies embeddings."""
    return spec["model_type"].startswith("gemma3")


def is_llama4(spec):
    """Experts are transposed: [experts, inputs, outputs]."""
    return spec["model_type"].startswith("llama4")


def spread_of(name, shape):
    """Mean and standard deviation of a tensor."""
    part = name.split(".")[-2]
    if ".feed_forward.experts." in name:
        return 0.0, 1.6 / math.sqrt(shape[-2])
    if name.endswith("e_score_correction_bias"):
        return 0.0, 0.2
    of_mamba = {"A_log": (0.0, 0.8), "D": (1.0, 0.3), "dt_bias": (-1.5, 0.8)}
    if name.rpartition(".")[2] in of_mamba:
        return of_mamba[name.rpartition(".")[2]]
    if name.endswith(".bias"):
        return 0.0, 0.3
    if "norm" in part:
        return 1.0, 0.2
    if part == "embed_tokens":
        return 0.0, 1.0
    gains = {**families.GAINS, "qkv_proj": 1.3, "gate_up_proj": 1.2, "experts": 1.3}
    return 0.0, gains.get(part, 1.2) / math.sqrt(shape[-1])


def draw(spec, config, model, rng):
    """The tensors of the class, rounded to the type of the file but for corrections."""
    tensors = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        mean, std = spread_of(name, value.shape)
        if is_gemma(spec) and mean == 1:
            mean = 0
        if name == "model.embed_tokens.weight":
            std /= config.get("embedding_multiplier", math.sqrt(config["hidden_size"]) if is_gemma(spec) else 1)
            std /= 4 if config["tie_word_embeddings"] else 1
        module = name.removesuffix(".weight")
        if spec["awq"] and module.endswith("_proj"):
            n, k = value.shape
            words = families.draw_awq(rng, k, n, spec["awq"], std * math.sqrt(k), goldens.TORCH_DTYPES[spec["dtype"]])
            tensors.update({f"{module}.{part}": tensor for part, tensor in words.items()})
            continue
        drawn = torch.from_numpy((mean + std * rng.standard_normal(tuple(value.shape))).astype(np.float32))
        if is_in_blocks(spec, name):
            drawn = as_blocks(drawn, spec["fp8"])[2]
        if is_in_groups(spec, name):
            drawn = in_groups(spec, name, drawn)
        exact = name.endswith("e_score_correction_bias") or is_in_blocks(spec, name) or is_in_groups(spec, name)
        tensors[name] = drawn if exact else drawn.to(goldens.TORCH_DTYPES[spec["dtype"]])
    return tensors


def as_blocks(weight, size):
    """Codes of e4m3, the scale of each block, and the exact product, for a matrix or one per expert."""
    rows, columns = (math.ceil(n / size) for n in weight.shape[-2:])
    codes, product = torch.empty(weight.shape, dtype=torch.float8_e4m3fn), torch.empty(weight.shape)
    scales = torch.empty(*weight.shape[:-2], rows, columns)
    for i in range(rows):
        for j in range(columns):
            part = (..., slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size))
            scale = weight[part].float().abs().amax((-2, -1)) / 448
            codes[part] = (weight[part].float() / scale[..., None, None]).to(torch.float8_e4m3fn)
            product[part] = codes[part].float() * scale[..., None, None]
            scales[..., i, j] = scale
    return codes, scales, product


def is_in_blocks(spec, name):
    return spec["fp8"] and (".experts." in name or name.endswith("_proj.weight"))


def is_in_groups(spec, name):
    is_named = ".experts." in name or name.endswith(("_proj.weight", "_linear.weight"))
    return spec["int4"] and is_named and not any(re.match(pattern, name) for pattern in spec["ignore"])


def as_groups(spec, weight):
    """Integers from 0 to 15 [..., outputs, inputs] around 8, the scales of their groups, and the exact product."""
    groups = weight.float().unflatten(-1, (-1, spec["int4"]))
    scales = (groups.abs().amax(-1) / 7).to(goldens.TORCH_DTYPES[spec["dtype"]]).float()
    codes = (groups / scales[..., None]).round().clamp(-8, 7)
    return (codes + 8).flatten(-2), scales, (codes * scales[..., None]).flatten(-2)


def in_groups(spec, name, weight):
    is_transposed = is_llama4(spec) and ".experts." in name
    product = as_groups(spec, weight.mT if is_transposed else weight)[2]
    return product.mT.contiguous() if is_transposed else product


def pack_groups(spec, name, weight):
    """The tensors of a module in the packing of compressed-tensors."""
    codes, scales, product = as_groups(spec, weight)
    if not torch.equal(product, weight):
        raise AssertionError(f"{name} is not the same in groups")
    q, s = (part.T.contiguous().numpy() for part in (codes, scales))
    packed = formats.pack_compressed(True)(q.astype(np.uint8), np.full(s.shape, 8, np.uint16), s, spec["int4"], 4)
    dtype = goldens.TORCH_DTYPES[spec["dtype"]]
    return {f"{name.removesuffix('.weight')}.{key}": value.to(dtype) if value.is_floating_point() else value
            for key, value in packed.items()}


def load(spec, config, tensors):
    model = make_model(spec, config)
    missing, unexpected = model.load_state_dict(families.dense_weights(tensors), strict=False)
    missing = [name for name in missing if name != "lm_head.weight" or not config["tie_word_embeddings"]]
    if missing or [name for name in unexpected if not name.endswith(".bias")]:  # biases: of a dropped feature
        raise AssertionError(f"missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model


def single_experts(spec, name, tensor):
    """The weights [outputs, inputs] of each expert of a fused tensor."""
    layer, _, part = name.partition(".experts.")
    names = ("gate_proj", "up_proj") if part == "gate_up_proj" else (part,)
    if spec["model_type"].startswith("granitemoe"):
        names = ("w1", "w3") if part == "gate_up_proj" else ("w2",)
    for i, expert in enumerate(tensor.mT if is_llama4(spec) else tensor):
        for key, rows in zip(names, expert.chunk(len(names)), strict=True):
            yield f"{layer}.experts.{i}.{key}.weight", rows.contiguous()


def as_published(spec, tensors):
    """The experts of a layer one by one, but for those of Granite and Llama 4 unless they are quantised, and the
    prefix."""
    published = {}
    for name, tensor in tensors.items():
        if spec["int4"] and ".experts." in name:
            published.update(single_experts(spec, name, tensor))
            continue
        for old, new in (("moe.experts.gate_up_proj", "moe.input_linear.weight"),
                         ("moe.experts.down_proj", "moe.output_linear.weight"),
                         ("moe.router.weight", "moe.router.layer.weight")):
            name = name.replace(old, new)
        layer, found, part = name.partition(".mlp.experts.")
        if not found:
            published[name.replace(".gate.moe_statics.", ".moe_statics.")] = tensor
            continue
        for i, expert in enumerate(tensor):
            names = ("gate_proj", "up_proj") if part == "gate_up_proj" else (part,)
            for key, rows in zip(names, expert.chunk(len(names)), strict=True):
                published[f"{layer}.mlp.experts.{i}.{key}.weight"] = rows.contiguous()
    if spec["int4"]:
        for name in [name for name in published if is_in_groups(spec, name)]:
            published.update(pack_groups(spec, name, published.pop(name)))
    if spec["fp8"]:
        for name in [name for name in published if is_in_blocks(spec, name)]:
            codes, scales, product = as_blocks(published[name], spec["fp8"])
            if not torch.equal(product, published[name]):
                raise AssertionError(f"{name} is not the same in blocks")
            published[name], published[name + "_scale_inv"] = codes, scales
    if spec["model_type"] == "minimax_m2":
        for old, new in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2"), (".mlp.", ".block_sparse_moe.")):
            published = {name.replace(old, new): tensor for name, tensor in published.items()}
    return {spec["prefix"] + name: tensor for name, tensor in published.items()}


def file_config(spec, config):
    keys = {"architectures": [spec["architecture"]], "model_type": spec["model_type"]}
    if not spec["inside"]:
        return {**keys, **config, "torch_dtype": spec["dtype"]}
    return {**keys, spec["inside"]: {**config, "model_type": spec["text_type"], "torch_dtype": spec["dtype"]},
            "vocab_size": config["vocab_size"], "tie_word_embeddings": config["tie_word_embeddings"]}


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = dict(spec["config"])
    tensors = draw(spec, config, make_model(spec, config), rng)
    ids = goldens.draw_ids(config, rng)
    model = load(spec, config, tensors)
    offset = 1.0 if is_gemma(spec) else 0.0
    tensors["model.norm.weight"] += offset
    goldens.calibrate(model, tensors, ids)
    tensors["model.norm.weight"] -= offset
    goldens.write_weights(folder, as_published(spec, tensors), spec["files"])
    model = load(spec, config, tensors)
    if has_experts(config):
        prompts = expert_choices.draw_prompts(config, model, rng, (7, 40))
    else:
        prompts = goldens.draw_prompts(model, config["vocab_size"], rng, *(spec["lengths"] or ())[:1])
    without = dict(spec["without"])
    zeros = without.pop("zeros", "(none)")
    kept = {name: tensor * 0 if name.endswith(zeros) else tensor for name, tensor in tensors.items()}
    dropped = load(spec, {**config, **without}, kept)
    if spec["lengths"]:
        longer = goldens.draw_prompts(model, config["vocab_size"], rng, spec["lengths"][1])
        goldens.write_golden(os.path.join(folder, "golden_long.json"), spec, longer)
    quantization = families.awq_gemm(spec["awq"])
    if spec["fp8"]:
        quantization = {"quant_method": "fp8", "fmt": "float8_e4m3fn", "activation_scheme": "dynamic",
                        "weight_block_size": [spec["fp8"]] * 2,
                        "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]}
    if spec["int4"]:
        ignore = [f"re:{pattern}" for pattern in (".*router.*", ".*gate$", ".*wg$", *spec["ignore"])]
        quantization = {**formats.COMPRESSED, "ignore": ["lm_head", *ignore],
                        "config_groups": {"group_0": formats.group_of(["Linear"], group_size=spec["int4"])}}
    goldens.end_feature_case(spec, folder, file_config(spec, config), prompts, quantization, model, dropped, ids)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
