"""config.json and the list of weights of a GGUF file. Part of convert_gguf.py. The arithmetic of the architectures is
llama.cpp's; names and keys of the output are those of transformers.
"""

import math
from typing import NamedTuple

import numpy as np

from gguf_file import GgufError

# GGUF's architecture: model_type, class
ARCHITECTURES = {"llama": ("llama", "LlamaForCausalLM"), "qwen2": ("qwen2", "Qwen2ForCausalLM"),
                 "qwen3": ("qwen3", "Qwen3ForCausalLM"), "qwen3moe": ("qwen3_moe", "Qwen3MoeForCausalLM"),
                 "gemma3": ("gemma3_text", "Gemma3ForCausalLM")}
WITHOUT_EFFECT = ("vocab_size", "tensor_data_layout", "rope.scaling.finetuned")
GEMMA3_LOCAL_BASE, GEMMA3_PATTERN = 10000.0, 6  # constants of llama.cpp, where a file has no key
GEMMA3_27B_LAYERS = 62  # the only Gemma 3 whose scores are not scaled by the head's size
ROPE_TOLERANCE = 1e-4


class Weight(NamedTuple):
    """A weight of the output. heads: rows are permuted in GGUF, within each of `heads` heads. less: value to subtract.
    expert: index into the tensor's first dimension; shape is that of the expert alone."""
    source: str
    target: str
    shape: tuple
    heads: int = 0
    less: float = 0
    expert: int | None = None


def read_architecture(metadata):
    architecture = metadata.get("general.architecture", str)
    if architecture not in ARCHITECTURES:
        raise GgufError(f"{metadata.path}: architecture {architecture} is not supported; supported: "
                        f"{', '.join(ARCHITECTURES)}")
    return architecture


def llama3_factors(rope, theta, dim):
    """The divisors of rope_freqs.weight that llama.cpp's converter writes for rope_type llama3: Llama 3.1's."""
    wavelengths = 2 * math.pi * theta ** (np.arange(0, dim, 2) / dim)
    context, low, high = (rope[key] for key in ("original_max_position_embeddings", "low_freq_factor",
                                                "high_freq_factor"))
    smooth = np.clip((context / wavelengths - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / rope["factor"] + smooth)


def read_llama3(tensor, theta, dim):
    """rope_scaling of a tensor rope_freqs.weight, which must have the values of Llama 3.1 to 3.3."""
    found = tensor.floats(tensor.rows).reshape(-1)
    rope = {"rope_type": "llama3", "factor": float(found[-1]), "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}
    expected = llama3_factors(rope, theta, dim)
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=ROPE_TOLERANCE):
        raise GgufError("tensor rope_freqs.weight: expected the factors of Llama 3's scaling of 8192 tokens, found "
                        f"{len(found)} others, up to {found.max():g}")
    return rope


def read_rope(metadata, prefix, config, tensors):
    """rope_scaling, or None."""
    key = prefix + "rope.scaling."
    kind = metadata.get(key + "type", str, None)
    old = metadata.number(prefix + "rope.scale_linear", None)  # of files older than rope.scaling.type
    factor = metadata.number(key + "factor", old or 1.0)
    original = metadata.integer(key + "original_context_length", None)
    for name, values in (("attn_factor", (1, 0)), ("yarn_ext_factor", (1, -1)), ("yarn_attn_factor", (1,))):
        metadata.refuse_other(key + name, *values)
    betas = {f"beta_{end}": metadata.number(f"{key}yarn_beta_{end}", None) for end in ("fast", "slow")}
    kind = kind or ("linear" if factor not in (0, 1) else "none")
    if "rope_freqs.weight" in tensors:
        if kind not in ("none", "linear") or factor not in (0, 1):
            raise GgufError(f"{metadata.path}: rotary scaling {kind} beside tensor rope_freqs.weight is not supported")
        return read_llama3(tensors["rope_freqs.weight"], config["rope_theta"], config["head_dim"])
    if kind == "none" or kind == "linear" and factor in (0, 1):
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": float(factor)}
    if kind != "yarn" or not original:
        raise GgufError(f"{metadata.path}: rotary scaling {kind} " + ("needs key " + key + "original_context_length"
                        if kind == "yarn" else "is not supported; supported: none, linear, yarn, llama3"))
    return {"rope_type": "yarn", "factor": float(factor), "original_max_position_embeddings": original,
            **{name: value for name, value in betas.items() if value is not None}}


def read_gemma3(metadata, prefix, config):
    """Windows, scales and activation of Gemma 3."""
    n_layers = config["num_hidden_layers"]
    pattern = metadata.get(prefix + "attention.sliding_window_pattern", (int, list), GEMMA3_PATTERN)
    is_local = pattern if isinstance(pattern, list) else [(i + 1) % max(pattern, 1) != 0 for i in range(n_layers)]
    if len(is_local) != n_layers:
        raise GgufError(f"{metadata.path}: key {prefix}attention.sliding_window_pattern: expected {n_layers} layers, "
                        f"found {len(is_local)}")
    metadata.refuse_other(prefix + "attn_logit_softcapping", 0)
    scalar = config["hidden_size"] / config["num_attention_heads"] if n_layers == GEMMA3_27B_LAYERS \
        else config["head_dim"]
    return {"sliding_window": metadata.integer(prefix + "attention.sliding_window"),
            "layer_types": ["sliding_attention" if local else "full_attention" for local in is_local],
            "rope_local_base_freq": metadata.number(prefix + "rope.freq_base_swa", GEMMA3_LOCAL_BASE),
            "query_pre_attn_scalar": int(scalar), "hidden_activation": "gelu_pytorch_tanh",
            "attn_logit_softcapping": None,
            "final_logit_softcapping": metadata.number(prefix + "final_logit_softcapping", 0) or None}


def read_experts(metadata, prefix):
    """llama.cpp always divides the chosen experts' weights by their sum."""
    metadata.refuse_other(prefix + "expert_weights_scale", 0, 1)
    metadata.refuse_other(prefix + "expert_weights_norm", True)
    metadata.refuse_other(prefix + "expert_gating_func", 0, 1)  # softmax
    return {"num_experts": metadata.integer(prefix + "expert_count"),
            "num_experts_per_tok": metadata.integer(prefix + "expert_used_count"),
            "moe_intermediate_size": metadata.integer(prefix + "expert_feed_forward_length"),
            "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}


def tensor_of(metadata, tensors, name):
    if name not in tensors:
        raise GgufError(f"{metadata.path}: tensor {name} is missing")
    return tensors[name]


def read_config(metadata, tensors, dtype):
    """The keys of config.json, but for the special tokens. Refuses keys of the architecture that nothing here reads."""
    architecture = read_architecture(metadata)
    prefix, (model_type, class_name) = architecture + ".", ARCHITECTURES[architecture]
    hidden, n_heads = (metadata.per_layer(prefix + key) for key in ("embedding_length", "attention.head_count"))
    config = {"architectures": [class_name], "model_type": model_type, "torch_dtype": dtype, "hidden_size": hidden,
              "num_hidden_layers": metadata.per_layer(prefix + "block_count"), "num_attention_heads": n_heads,
              "num_key_value_heads": metadata.per_layer(prefix + "attention.head_count_kv", n_heads),
              "head_dim": metadata.per_layer(prefix + "attention.key_length", hidden // n_heads),
              "intermediate_size": metadata.per_layer(prefix + "feed_forward_length"),
              "max_position_embeddings": metadata.per_layer(prefix + "context_length"),
              "rms_norm_eps": metadata.number(prefix + "attention.layer_norm_rms_epsilon"),
              "rope_theta": metadata.number(prefix + "rope.freq_base", 10000.0),
              "vocab_size": tensor_of(metadata, tensors, "token_embd.weight").shape[0],
              "tie_word_embeddings": "output.weight" not in tensors}
    for key in ("attention.value_length", "rope.dimension_count"):
        metadata.refuse_other(prefix + key, config["head_dim"])
    config["rope_scaling"] = read_rope(metadata, prefix, config, tensors)
    if model_type == "gemma3_text":
        config.update(read_gemma3(metadata, prefix, config))
    if model_type == "qwen3_moe":
        config.update(read_experts(metadata, prefix))
    if model_type == "llama":
        config.update(attention_bias="blk.0.attn_q.bias" in tensors, mlp_bias="blk.0.ffn_up.bias" in tensors)
        metadata.refuse_other(prefix + "expert_count", 0)
        metadata.refuse_other(prefix + "expert_used_count", 0)
    metadata.refuse_other(prefix + "attention.causal", True)
    metadata.unread.difference_update(prefix + key for key in WITHOUT_EFFECT)
    unread = sorted(key for key in metadata.unread if key.startswith(prefix))
    if unread:
        raise GgufError(f"{metadata.path}: key {unread[0]} is not supported for the architecture {architecture}")
    return config


def layer_modules(config):
    """{GGUF's name: (Hugging Face's name, shape)} of the modules of a layer; experts are in one tensor."""
    hidden, dim, ffn = config["hidden_size"], config["head_dim"], config["intermediate_size"]
    q, kv = (dim * config[f"num_{kind}_heads"] for kind in ("attention", "key_value"))
    n_experts, is_gemma = config.get("num_experts", 0), config["model_type"] == "gemma3_text"
    modules = {"attn_norm": ("input_layernorm", (hidden,)), "attn_q": ("self_attn.q_proj", (q, hidden)),
               "attn_k": ("self_attn.k_proj", (kv, hidden)), "attn_v": ("self_attn.v_proj", (kv, hidden)),
               "attn_output": ("self_attn.o_proj", (hidden, q)),
               "ffn_norm": (("pre_feedforward" if is_gemma else "post_attention") + "_layernorm", (hidden,))}
    if is_gemma:
        modules.update(post_attention_norm=("post_attention_layernorm", (hidden,)),
                       post_ffw_norm=("post_feedforward_layernorm", (hidden,)))
    if is_gemma or config["model_type"].startswith("qwen3"):
        modules.update(attn_q_norm=("self_attn.q_norm", (dim,)), attn_k_norm=("self_attn.k_norm", (dim,)))
    if n_experts:
        ffn = config["moe_intermediate_size"]
        modules["ffn_gate_inp"] = ("mlp.gate", (n_experts, hidden))
    for part, shape in (("gate", (ffn, hidden)), ("up", (ffn, hidden)), ("down", (hidden, ffn))):
        modules[f"ffn_{part}{'_exps' if n_experts else ''}"] = (
            (f"mlp.experts.{{}}.{part}_proj", (n_experts, *shape)) if n_experts else (f"mlp.{part}_proj", shape))
    return modules


def biases(config):
    """GGUF's names of a layer's modules with a bias."""
    has_bias = {"attn_q", "attn_k", "attn_v"} if config["model_type"] == "qwen2" or config.get("attention_bias") \
        else set()
    if config.get("attention_bias"):
        has_bias.add("attn_output")
    return has_bias | ({"ffn_gate", "ffn_up", "ffn_down"} if config.get("mlp_bias") else set())


def list_weights(config):
    """Every weight of the output. GGUF has 1 + w of Gemma's norms; q and k of the architecture llama are stored for
    rotations of neighbours, Hugging Face's rotate halves."""
    modules, with_bias = layer_modules(config), biases(config)
    is_llama, less = config["model_type"] == "llama", 1 if config["model_type"] == "gemma3_text" else 0
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]} if is_llama else {}
    table = (config["vocab_size"], config["hidden_size"])
    yield Weight("token_embd.weight", "model.embed_tokens.weight", table)
    for i in range(config["num_hidden_layers"]):
        for source, (target, shape) in modules.items():
            source_name, target = f"blk.{i}.{source}.", f"model.layers.{i}.{target}."
            permuted = heads.get(source, 0)
            if source.endswith("_exps"):
                for expert in range(shape[0]):
                    yield Weight(source_name + "weight", target.format(expert) + "weight", shape[1:], expert=expert)
                continue
            yield Weight(source_name + "weight", target + "weight", shape, permuted, less if "norm" in source else 0)
            if source in with_bias:
                yield Weight(source_name + "bias", target + "bias", shape[:1], permuted)
    yield Weight("output_norm.weight", "model.norm.weight", table[1:], 0, less)
    if not config["tie_word_embeddings"]:
        yield Weight("output.weight", "lm_head.weight", table)


def check_weights(metadata, weights, tensors):
    """Every weight has its tensor, every tensor is used, and shapes are those of the configuration."""
    for weight in weights:
        found = tensor_of(metadata, tensors, weight.source).shape
        if (found if weight.expert is None else found[1:]) != weight.shape:
            raise GgufError(f"tensor {weight.source}: expected shape {list(weight.shape)}"
                            f"{'' if weight.expert is None else ' of each expert'}, found {list(found)}")
    unused = sorted(set(tensors) - {weight.source for weight in weights} - {"rope_freqs.weight"})
    if unused:
        raise GgufError(f"{metadata.path}: tensor {unused[0]} is not a part of this architecture "
                        f"({len(unused)} such tensors)")
