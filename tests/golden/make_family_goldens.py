#!/usr/bin/env python3
"""Makes tiny random checkpoints of every model family, and goldens of the public `transformers`.

Each case becomes families/NAME/: an ordinary Hugging Face directory without a tokenizer (config.json and safetensors,
AWQ gemm or plain), and golden.json with the float32 results:

  prompts[].prompt_ids        token ids, of length 1, 7, 40 and 130
  prompts[].prompt_logprobs   log-probability of prompt_ids[i + 1] after prompt_ids[0..i]; one less than the prompt
  prompts[].output_ids        the 24 tokens of the greedy continuation (eos_token_id never occurs in one)
  prompts[].margins           per output token: log-probability of the best token less that of the second best
  prompts[].top               per output token: the 16 best as [id, log-probability], best first

The reference is the family's own model class in float32 with eager attention and no cache.  AWQ layers get exactly s *
(q - z) in float32, unpacked again from the words written to the file.  MiniCPM and FM9G, which transformers lacks, are
Llama with their three scalings folded into the float32 weights.

Every case is drawn from its own seed (numpy's frozen RandomState), so that a run repeats the same bytes.  The script
checks its results: rotary frequencies against formulas written out here; the case's feature must change the result
(dropping it moves a log-probability by more than 0.02); float64 must agree; no step may be a near tie.
"""

import json
import math
import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "models"))
import awq_pack  # noqa: E402
import goldens  # noqa: E402

ARCHITECTURES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
                 "qwen3": "Qwen3ForCausalLM", "minicpm": "MiniCPMForCausalLM", "fm9g": "FM9GForCausalLM"}
# gain of a projection: the standard deviation of its output for inputs of standard deviation 1
GAINS = {"q_proj": 1.3, "k_proj": 1.3, "v_proj": 1.4, "o_proj": 2.2, "gate_proj": 1.2, "up_proj": 1.2,
         "down_proj": 2.0}

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
NO_SCALING = {"rope_scaling": None}


def case(name, family, about, group=32, dtype="float16", scale_dtype=None, files=1, without=None, skip=(),
         style=None, **config):
    """One model.  group None: unquantised.  dtype: type of plain weights, and of scales unless scale_dtype is given.
    style: form of the quantisation's configuration.  without: config changes that remove the tested feature, to prove
    that the golden depends on it."""
    return {"name": name, "family": family, "about": about, "group": group, "dtype": dtype,
            "scale_dtype": scale_dtype or dtype, "files": files, "without": without, "skip": list(skip),
            "style": style or "gemm", "config": config}


CASES = [
    case("llama", "llama", "grouped queries, untied head", num_hidden_layers=3),
    case("llama_tied", "llama", "tied head, odd vocabulary, no group of query heads (MHA)", num_key_value_heads=4,
         tie_word_embeddings=True, vocab_size=131),
    case("llama_bias", "llama", "bias on every projection", attention_bias=True, mlp_bias=True, style="no version"),
    case("llama_uneven", "llama", "6 query and 3 KV heads, FFN of 3 groups: uneven shards", num_attention_heads=6,
         num_key_value_heads=3, hidden_size=96, intermediate_size=96),
    case("llama_wide_ffn", "llama", "FFN of 7 groups, 5 query heads sharing one KV head", num_attention_heads=5,
         num_key_value_heads=1, hidden_size=160, head_dim=32, intermediate_size=224, vocab_size=257,
         files=2),
    case("llama_head80", "llama", "head_dim 80, which is not hidden/heads", head_dim=80),
    case("llama_head20", "llama", "head_dim 20: heads begin inside words and groups", head_dim=20,
         num_attention_heads=8, num_key_value_heads=2, hidden_size=96),
    case("llama_rope_linear", "llama", "rope_scaling with the old key 'type': linear", without=NO_SCALING,
         rope_scaling={"type": "linear", "factor": 4.0}),
    case("llama_rope_llama3", "llama", "rope_scaling llama3, prompts past the original length", without=NO_SCALING,
         max_position_embeddings=512, rope_theta=5000.0, rope_scaling=LLAMA3),
    case("llama_rope_yarn", "llama", "rope_scaling yarn, prompts past the original length", without=NO_SCALING,
         rope_scaling=YARN, head_dim=32),
    case("llama_rope_yarn_factor", "llama", "yarn with attention_factor, beta_fast and beta_slow given",
         without={"rope_scaling": YARN}, head_dim=32,
         rope_scaling={**YARN, "attention_factor": 1.3, "beta_fast": 8.0, "beta_slow": 0.5}),
    case("llama_rope_yarn_mscale", "llama", "yarn with mscale and mscale_all_dim", without={"rope_scaling": YARN},
         head_dim=32, rope_scaling={**YARN, "factor": 4.0, "mscale": 2.0, "mscale_all_dim": 0.5}),
    case("llama_rope_nested", "llama", "rope_parameters of newer files: llama3 with theta inside",
         without={"rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}},
         max_position_embeddings=512, rope_parameters={**LLAMA3, "rope_theta": 20000.0}),
    case("mistral", "mistral", "sliding window of 16 keys, shorter than the prompts",
         without={"sliding_window": None}, sliding_window=16),
    case("mistral_full", "mistral", "sliding_window null, head_dim given", sliding_window=None, head_dim=24,
         hidden_size=64, num_attention_heads=4, num_key_value_heads=2, vocab_size=301),
    case("qwen2", "qwen2", "bias on q, k and v; the window slides from layer max_window_layers on",
         without={"max_window_layers": 3}, num_hidden_layers=3, use_sliding_window=True, sliding_window=16,
         max_window_layers=1),
    case("qwen2_no_window", "qwen2", "sliding_window given but use_sliding_window false; tied head",
         use_sliding_window=False, sliding_window=16, max_window_layers=1, tie_word_embeddings=True),
    case("qwen2_layer_types", "qwen2", "layer_types decides which layers slide; newer keys dtype, rope_parameters",
         without={"layer_types": ["full_attention"] * 3}, num_hidden_layers=3, use_sliding_window=True,
         sliding_window=20, max_window_layers=2,
         layer_types=["sliding_attention", "full_attention", "sliding_attention"],
         rope_parameters={"rope_type": "default", "rope_theta": 30000.0}),
    case("qwen3", "qwen3", "q and k norms, head_dim not hidden/heads, tied head", head_dim=24, style="GEMM"),
    case("qwen3_group_all", "qwen3", "group_size -1: one group spans all of K", group=-1, head_dim=40),
    case("qwen3_group64", "qwen3", "group 64, K of 128, 192 and 256", group=64, hidden_size=128,
         intermediate_size=192, head_dim=64, num_key_value_heads=2, style="quantize_config.json"),
    case("qwen3_group128", "qwen3", "group 128, K of 128, 256 and 384", group=128, hidden_size=128,
         intermediate_size=384, head_dim=64, num_key_value_heads=1),
    case("qwen3_skip", "qwen3", "modules_to_not_convert: one projection of one layer is plain f16",
         skip=["model.layers.1.mlp.down_proj", "lm_head"], head_dim=24),
    case("qwen3_skip_qkv", "qwen3", "k_proj of layer 0 and all of layer 1's self_attn plain, the rest AWQ",
         skip=["layers.0.self_attn.k_proj", "layers.1.self_attn"], head_dim=16, dtype="bfloat16"),
    case("qwen3_bf16", "qwen3", "bfloat16 scales and plain weights", dtype="bfloat16", head_dim=32, files=3,
         tie_word_embeddings=False),
    case("qwen3_bf16_f16_scales", "qwen3", "bfloat16 model whose scales are float16", dtype="bfloat16",
         scale_dtype="float16", group=64, intermediate_size=128, head_dim=32),
    case("llama_f16", "llama", "unquantised float16, odd sizes", group=None, hidden_size=48, intermediate_size=100,
         head_dim=12, num_key_value_heads=2, vocab_size=163),
    case("qwen2_bf16", "qwen2", "unquantised bfloat16", group=None, dtype="bfloat16", hidden_size=56,
         intermediate_size=90, num_attention_heads=7, num_key_value_heads=1, head_dim=8),
    case("qwen3_f32", "qwen3", "unquantised float32, tied head", group=None, dtype="float32", hidden_size=40,
         intermediate_size=72, head_dim=12),
    case("minicpm", "minicpm", "MiniCPM: scale_emb, scale_depth, dim_model_base; tied head", num_hidden_layers=3,
         scale_emb=12, scale_depth=1.4, dim_model_base=16, tie_word_embeddings=True,
         without={"scale_emb": 1, "scale_depth": 1.7320508}),
    case("fm9g", "fm9g", "FM9G: the same three scalings, untied head", num_hidden_layers=2, scale_emb=4.0,
         scale_depth=0.9, dim_model_base=32, hidden_size=96, num_attention_heads=6, num_key_value_heads=3,
         tie_word_embeddings=False, dtype="bfloat16", without={"scale_emb": 1, "scale_depth": 1.4142136}),
]


def make_config(spec):
    """config.json of a case in the form of its family's checkpoints."""
    family = spec["family"]
    config = {"architectures": [ARCHITECTURES[family]], "model_type": family, "hidden_act": "silu",
              "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "vocab_size": 200, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "tie_word_embeddings": family == "qwen3", "bos_token_id": 1, "eos_token_id": 2}
    if family in ("qwen2", "qwen3"):
        config["rms_norm_eps"] = 1e-6
    if family == "qwen3":
        config.update(attention_bias=False, use_sliding_window=False, sliding_window=None, max_window_layers=2)
    config.update(spec["config"])
    if "rope_parameters" in config:  # newer files have neither of the older keys
        del config["rope_theta"]
        config["dtype"] = spec["dtype"]
    else:
        config["torch_dtype"] = spec["dtype"]
    return config


def quantization_config(spec):
    """The quantization_config of config.json, or None; and the content of a quantize_config.json, or None."""
    if spec["group"] is None:
        return None, None
    if spec["style"] == "quantize_config.json":
        return None, {"zero_point": True, "q_group_size": spec["group"], "w_bit": 4, "version": "GEMM"}
    quant = {"quant_method": "awq", "bits": 4, "group_size": spec["group"], "zero_point": True,
             "modules_to_not_convert": spec["skip"] or None}
    if spec["style"] != "no version":
        quant["version"] = spec["style"]
    return quant, None


def head_dim_of(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def projections(config):
    """(name within a layer, K, N, has bias) of the seven projections."""
    hidden, ffn, head = config["hidden_size"], config["intermediate_size"], head_dim_of(config)
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    qkv_bias = config["model_type"] == "qwen2" or config.get("attention_bias", False)
    o_bias, mlp_bias = config.get("attention_bias", False), config.get("mlp_bias", False)
    return [("self_attn.q_proj", hidden, q, qkv_bias), ("self_attn.k_proj", hidden, kv, qkv_bias),
            ("self_attn.v_proj", hidden, kv, qkv_bias), ("self_attn.o_proj", q, hidden, o_bias),
            ("mlp.gate_proj", hidden, ffn, mlp_bias), ("mlp.up_proj", hidden, ffn, mlp_bias),
            ("mlp.down_proj", ffn, hidden, mlp_bias)]


def draw_awq(rng, k, n, group, gain, dtype):
    """Random packed layer whose weights have standard deviation about gain / sqrt(K). Zero points are near the middle
    and occasionally at the ends; integers reach both ends, so that some words are negative."""
    groups = 1 if group == -1 else k // group
    if k % groups or (group != -1 and k % group):
        raise ValueError(f"K {k} is not a multiple of group {group}")
    zeros = rng.randint(6, 11, size=(groups, n))
    extreme = rng.random_sample((groups, n)) < 0.02
    zeros = np.where(extreme, rng.randint(0, 16, size=(groups, n)), zeros)
    spread = rng.standard_normal((k, n)) * 3.2
    q = np.clip(np.rint(np.repeat(zeros, k // groups, axis=0) + spread), 0, 15).astype(np.uint8)
    scales = gain / math.sqrt(k) / 3.2 * np.exp(0.25 * rng.standard_normal((groups, n)))
    packed = {"qweight": awq_pack.pack(q), "qzeros": awq_pack.pack(zeros.astype(np.uint8))}
    if not (np.array_equal(awq_pack.unpack(packed["qweight"]), q)
            and np.array_equal(awq_pack.unpack(packed["qzeros"]), zeros)):
        raise AssertionError("packing and unpacking disagree")
    tensors = {key: torch.from_numpy(words) for key, words in packed.items()}
    tensors["scales"] = torch.from_numpy(scales.astype(np.float32)).to(dtype)
    return tensors


def draw_checkpoint(spec, config, rng):
    """All tensors of the checkpoint, by name, in the form of the file."""
    dtype, scale_dtype = goldens.TORCH_DTYPES[spec["dtype"]], goldens.TORCH_DTYPES[spec["scale_dtype"]]
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    normal = goldens.normals(rng, dtype)
    # smaller if the head is tied, else the model would repeat its input for ever
    spread = 0.25 if config["tie_word_embeddings"] else 1.0
    tensors = {"model.embed_tokens.weight": normal((vocab, hidden), spread / config.get("scale_emb", 1))}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = normal((hidden,), 0.2, 1.0)
        if config["model_type"] == "qwen3":
            for norm in ("q_norm", "k_norm"):
                tensors[f"{prefix}self_attn.{norm}.weight"] = normal((head_dim_of(config),), 0.2, 1.3)
        for name, k, n, bias in projections(config):
            gain = GAINS[name.split(".")[1]]
            plain = spec["group"] is None or any(part in prefix + name for part in spec["skip"])
            if plain:
                tensors[f"{prefix}{name}.weight"] = normal((n, k), gain / math.sqrt(k))
            else:
                for key, value in draw_awq(rng, k, n, spec["group"], gain, scale_dtype).items():
                    tensors[f"{prefix}{name}.{key}"] = value
            if bias:
                tensors[f"{prefix}{name}.bias"] = normal((n,), 0.3)
    tensors["model.norm.weight"] = normal((hidden,), 0.15, 1.0)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = normal((vocab, hidden), 1.0 / math.sqrt(hidden))
    return tensors


def dense_weights(tensors):
    """Checkpoint tensors -> float32 state dict, AWQ layers as s * (q - z)."""
    state = {}
    for name, tensor in tensors.items():
        if name.endswith(".qweight"):
            base = name[: -len("qweight")]
            weight = awq_pack.dequantize(tensor.numpy(), tensors[base + "qzeros"].numpy(),
                                         tensors[base + "scales"].float().numpy())
            state[base + "weight"] = torch.from_numpy(np.ascontiguousarray(weight.T))
        elif not name.endswith((".qzeros", ".scales")):
            state[name] = tensor.float().clone()
    return state


def fold_scalings(config, state):
    """MiniCPM and FM9G as plain Llama: their three scalings moved into float32 weights (and the head untied)."""
    if not config["tie_word_embeddings"]:
        head = state["lm_head.weight"]
    else:
        head = state["model.embed_tokens.weight"].clone()
    state["lm_head.weight"] = head / (config["hidden_size"] / config["dim_model_base"])
    state["model.embed_tokens.weight"] = state["model.embed_tokens.weight"] * config["scale_emb"]
    depth = config["scale_depth"] / math.sqrt(config["num_hidden_layers"])
    for name in state:
        if name.endswith((".o_proj.weight", ".down_proj.weight")):
            state[name] = state[name] * depth


def in_class(model, state):
    """The state with the names and fused experts of the model's class; experts of a file are apart."""
    fused = {name.rpartition(".")[0] for name in model.state_dict() if name.endswith("experts.gate_up_proj")}
    result = {name.replace(".block_sparse_moe.", ".mlp.") if fused else name: value for name, value in state.items()}
    for prefix in fused:
        for part, names in (("gate_up_proj", (("gate_proj", "up_proj"), ("w1", "w3"))),
                            ("down_proj", (("down_proj",), ("w2",)))):
            present = next((group for group in names if f"{prefix}.0.{group[0]}.weight" in result), None)
            if present is None:
                continue
            experts = []
            while f"{prefix}.{len(experts)}.{present[0]}.weight" in result:
                experts.append(torch.cat([result.pop(f"{prefix}.{len(experts)}.{name}.weight") for name in present]))
            result[f"{prefix}.{part}"] = torch.stack(experts)
    return result


def reference_model(config, tensors):
    """The float32 transformers model of a checkpoint."""
    import transformers

    config = json.loads(json.dumps(config))  # transformers adds to nested dictionaries
    state = dense_weights(tensors)
    family = config["model_type"]
    scaled = family in ("minicpm", "fm9g")
    if scaled:
        fold_scalings(config, state)
        config.update(model_type="llama", architectures=["LlamaForCausalLM"], tie_word_embeddings=False)
    for key in ("torch_dtype", "dtype", "quantization_config"):
        config.pop(key, None)
    name = ARCHITECTURES[config["model_type"]].replace("ForCausalLM", "")
    n_heads = config["num_attention_heads"]
    # The class's constructor refuses such sizes, although heads of latent attention need not divide the hidden size.
    accepted = n_heads if config["hidden_size"] % n_heads == 0 else 1
    hf_config = getattr(transformers, name + "Config").from_dict({**config, "num_attention_heads": accepted})
    hf_config.num_attention_heads = n_heads
    hf_config._attn_implementation = hf_config._experts_implementation = "eager"
    model = getattr(transformers, name + "ForCausalLM")(hf_config).float().eval()
    missing, unexpected = model.load_state_dict(in_class(model, state), strict=False)
    if hf_config.tie_word_embeddings:
        missing = [key for key in missing if key != "lm_head.weight"]
        model.tie_weights()
    if missing or unexpected:
        raise AssertionError(f"missing {missing}, unexpected {unexpected}")
    return model


def expected_rotary(config):
    """(inverse frequencies, factor on cos and sin) by the published formulas."""
    d = head_dim_of(config)
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    theta = rope.get("rope_theta", config.get("rope_theta"))
    kind = rope.get("rope_type", rope.get("type", "default"))
    f = theta ** (-np.arange(0, d, 2, dtype=np.float64) / d)
    if kind == "default":
        return f, 1.0
    factor = rope["factor"]
    if kind == "linear":
        return f / factor, 1.0
    context = rope["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = np.clip((context * f / (2 * math.pi) - low) / (high - low), 0.0, 1.0)
        return (1 - smooth) * f / factor + smooth * f, 1.0

    def dimension(rotations):
        return d * math.log(context / (2 * math.pi * rotations)) / (2 * math.log(theta))

    def magnitude(k):
        return 0.1 * k * math.log(factor) + 1.0

    low = max(math.floor(dimension(rope.get("beta_fast", 32))), 0)
    high = min(math.ceil(dimension(rope.get("beta_slow", 1))), d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0.0, 1.0)
    if "attention_factor" in rope:
        scale = rope["attention_factor"]
    elif "mscale" in rope:
        scale = magnitude(rope["mscale"]) / magnitude(rope["mscale_all_dim"])
    else:
        scale = magnitude(1.0)
    return ramp * f / factor + (1 - ramp) * f, scale


def check_rotary(config, model):
    frequencies, scale = expected_rotary(config)
    rotary = model.model.rotary_emb
    np.testing.assert_allclose(rotary.inv_freq.numpy(), frequencies, rtol=2e-6)
    if not math.isclose(rotary.attention_scaling, scale, rel_tol=1e-6):
        raise AssertionError(f"attention factor {rotary.attention_scaling}, expected {scale}")


def unfolded_logits(config, tensors, ids):
    """MiniCPM logits with the scalings in their defined places, by hooks on an unscaled Llama."""
    plain = dict(config, model_type="llama", architectures=["LlamaForCausalLM"])
    model = reference_model(plain, tensors)
    depth = config["scale_depth"] / math.sqrt(config["num_hidden_layers"])
    model.model.embed_tokens.register_forward_hook(lambda module, args, out: out * config["scale_emb"])
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_hook(lambda module, args, out: out * depth)
        layer.mlp.register_forward_hook(lambda module, args, out: out * depth)
    divisor = config["hidden_size"] / config["dim_model_base"]
    model.model.norm.register_forward_hook(lambda module, args, out: out / divisor)
    return goldens.logits_of(model, ids)


def check_feature(spec, config, tensors, model, prompts):
    """Dropping the feature a case is about must change its result."""
    ids = max((p["prompt_ids"] + p["output_ids"] for p in prompts), key=len)
    have = torch.log_softmax(goldens.logits_of(model, ids), dim=-1)
    if config["model_type"] in ("minicpm", "fm9g"):
        other = torch.log_softmax(unfolded_logits(config, tensors, ids), dim=-1)
        if (have - other).abs().max() > 1e-4:
            raise AssertionError(f"folding the scalings is off by {(have - other).abs().max()}")
    if spec["without"]:
        dropped = reference_model({**config, **spec["without"]}, tensors)
        change = (torch.log_softmax(goldens.logits_of(dropped, ids), dim=-1) - have).abs().max().item()
        if change < 0.02:
            raise AssertionError(f"the feature moves log-probabilities by {change} only")


def awq_gemm(group):
    """quantization_config of AWQ gemm words; None, as for plain weights, if group is None."""
    return group and {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm",
                      "modules_to_not_convert": None}


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = make_config(spec)
    tensors = draw_checkpoint(spec, config, rng)
    goldens.calibrate(reference_model(config, tensors), tensors, goldens.draw_ids(config, rng))
    goldens.write_weights(folder, tensors, spec["files"])

    tensors = goldens.read_weights(folder)
    model = reference_model(config, tensors)
    check_rotary(config, model)
    prompts = goldens.draw_prompts(model, config["vocab_size"], rng)
    check_feature(spec, config, tensors, model, prompts)

    quant, quantize_config = quantization_config(spec)
    if quantize_config:
        goldens.write_json(os.path.join(folder, "quantize_config.json"), quantize_config)
    best = [math.exp(step[0][1]) for prompt in prompts for step in prompt["top"]]
    used = goldens.end_case(spec, folder, config, prompts, quant,
                    f"best p {min(best):.2f} {np.median(best):.2f} {max(best):.2f}")
    if not (min(best) < 0.3 and max(best) > 0.5 and len(used) > 24):
        raise AssertionError("log-probabilities are not spread well enough to test with")


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
