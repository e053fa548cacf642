"""GGUF files for tests, written by the public package gguf from a model directory as llama.cpp's converter writes them:
names, permuted rows of q and k of the architecture llama, 1 + w of Gemma's norms, experts in one tensor."""

import json
import os
import re

import gguf
import numpy as np
from safetensors_case import read_tensors

ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "gemma3_text": "gemma3"}
MODULES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
           "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
           "self_attn.k_norm": "attn_k_norm", "mlp.gate": "ffn_gate_inp", "mlp.gate_proj": "ffn_gate",
           "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.experts.gate_proj": "ffn_gate_exps",
           "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps"}
NORMS = {False: {"post_attention_layernorm": "ffn_norm"},
         True: {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                "post_feedforward_layernorm": "post_ffw_norm"}}
OTHERS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
          "lm_head.weight": "output.weight"}
LAYER = re.compile(r"model\.layers\.(\d+)\.(.*)\.(weight|bias)$")
EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(.*)$")


def to_floats(tensor):
    """float32 of a tensor of read_tensors."""
    dtype, shape, content = tensor
    if dtype == "BF16":
        return (np.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    return np.frombuffer(content, {"F16": "<f2", "F32": "<f4"}[dtype]).astype("<f4").reshape(shape)


def read_model(folder):
    """(configuration, tensors in float32 by name) of a directory with one file or several."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    tensors = {name: tensor for each in names for name, tensor in read_tensors(folder, each).items()}
    return config, {name: to_floats(tensor) for name, tensor in tensors.items()}


def permuted(values, heads):
    """Halves of each head's rows become neighbours: llama.cpp's order."""
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def gguf_tensors(config, tensors):
    """Tensors by GGUF's name."""
    is_gemma, heads = config["model_type"] == "gemma3_text", {}
    if config["model_type"] == "llama":
        heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    found, experts = {}, {}
    for name, values in tensors.items():
        if (match := EXPERT.match(name)) is not None:
            experts.setdefault(f"{match[1]}.{match[3]}", {})[int(match[2])] = values
    tensors = {name: values for name, values in tensors.items() if not EXPERT.match(name)}
    tensors.update((name, np.stack([values[i] for i in range(len(values))])) for name, values in experts.items())
    for name, values in tensors.items():
        values = values + np.float32(1) if is_gemma and "norm" in name else values
        if name in OTHERS:
            found[OTHERS[name]] = values
            continue
        layer, module, kind = LAYER.match(name).groups()
        module = {**MODULES, **NORMS[is_gemma]}[module]
        found[f"blk.{layer}.{module}.{kind}"] = permuted(values, heads[module]) if module in heads else values
    return found


def gguf_keys(config):
    """Keys of the architecture, without its name."""
    heads = config["num_attention_heads"]
    dim = config.get("head_dim", config["hidden_size"] // heads)
    keys = {"context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"],
            "block_count": config["num_hidden_layers"], "feed_forward_length": config["intermediate_size"],
            "attention.head_count": heads, "attention.head_count_kv": config["num_key_value_heads"],
            "attention.key_length": dim, "attention.value_length": dim,
            "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
            "rope.freq_base": float(config["rope_theta"])}
    if config["model_type"] == "gemma3_text":
        keys.update({"attention.sliding_window": config["sliding_window"],
                     "attention.sliding_window_pattern": config["sliding_window_pattern"],
                     "rope.scaling.type": "linear", "rope.scaling.factor": config["rope_scaling"]["factor"]})
    if config["model_type"] == "qwen3_moe":
        keys.update({"expert_count": config["num_experts"], "expert_used_count": config["num_experts_per_tok"],
                     "expert_feed_forward_length": config["moe_intermediate_size"]})
    return keys


def add_value(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write_gguf(path, architecture, keys, tensors, kind=gguf.GGMLQuantizationType.F32):
    """Keys that begin with tokenizer., general. or split. are whole, others follow the architecture's name. Matrices
    have the type kind, vectors are float32. Returns path."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        is_whole = key.startswith(("tokenizer.", "general.", "split."))
        add_value(writer, key if is_whole else f"{architecture}.{key}", value)
    for name, values in tensors.items():
        as_kind = kind if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(values, as_kind), raw_dtype=as_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tokenizer_keys(tokenizer, model, pre=None):
    """Keys of a tokenizer.json. Scores of SentencePiece's are the ranks of the first merges that make a token."""
    vocab = {**tokenizer["model"]["vocab"], **{token["content"]: token["id"] for token in tokenizer["added_tokens"]}}
    texts = [f"[PAD{i}]" for i in range(max(vocab.values()) + 1)]
    types = [5] * len(texts)
    for text, i in vocab.items():
        texts[i], types[i] = text, 6 if model == "llama" and re.fullmatch("<0x[0-9A-F]{2}>", text) else 1
    for token in tokenizer["added_tokens"]:
        types[token["id"]] = 3 if token["special"] else 4
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in tokenizer["model"]["merges"]]
    keys = {"tokenizer.ggml.model": model, "tokenizer.ggml.tokens": texts, "tokenizer.ggml.token_type": types}
    if model == "gpt2":
        return {**keys, "tokenizer.ggml.pre": pre, "tokenizer.ggml.merges": [" ".join(merge) for merge in merges]}
    scores = [0.0] * len(texts)
    for rank, pair in reversed(list(enumerate(merges))):
        scores[vocab["".join(pair)]] = -float(rank)
    return {**keys, "tokenizer.ggml.scores": scores}
