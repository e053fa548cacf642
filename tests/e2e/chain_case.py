"""A model with known answers: each token has one successor."""

import json
import os
import struct

import safetensors_case

END = "<|end|>"


def make_chain_model(folder, steps, template, special=(), context=512):
    """A folder with a model that generates steps[text] after the token of a text, and END after any other token of a
    text. The texts are single letters or added tokens, the ones in special special."""
    os.makedirs(folder)
    letters = [chr(code) for code in (*range(32, 127), 10)]
    texts = sorted({END, *special, *steps, *steps.values()}.difference(letters))
    tokens = letters + texts
    size = 256  # of the vocabulary and of hidden states: token i is unit vector i
    successors = {tokens.index(text): tokens.index(steps.get(text, END)) for text in {*steps, *texts}}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": size,
              "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
              "vocab_size": size, "max_position_embeddings": context, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "eos_token_id": tokens.index(END), "torch_dtype": "float16"}
    added = [{"id": tokens.index(text), "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": text in special or text == END} for text in texts]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "added_tokens": added,
                 "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                           "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []}}
    for name, value in (("config.json", config), ("tokenizer.json", tokenizer),
                        ("tokenizer_config.json", {"chat_template": template})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)
    safetensors_case.write_tensors(folder, tensors_of(size, successors))
    return folder


def matrix(rows, columns, ones=()):
    values = [0.0] * (rows * columns)
    for row, column in ones:
        values[row * columns + column] = 1.0
    return ["F16", [rows, columns], struct.pack(f"<{len(values)}e", *values)]


def tensors_of(size, successors):
    """The layer adds nothing, so that the logits of a token are the row of its unit vector."""
    layer = "model.layers.0."
    norm = ["F16", [size], struct.pack(f"<{size}e", *([1.0] * size))]
    tensors = {"model.embed_tokens.weight": matrix(size, size, [(i, i) for i in range(size)]),
               "model.norm.weight": norm, layer + "input_layernorm.weight": norm,
               layer + "post_attention_layernorm.weight": norm,
               "lm_head.weight": matrix(size, size, [(to, of) for of, to in successors.items()])}
    for name, shape in (("self_attn.q_proj", (size, size)), ("self_attn.k_proj", (size, size)),
                        ("self_attn.v_proj", (size, size)), ("self_attn.o_proj", (size, size)),
                        ("mlp.gate_proj", (64, size)), ("mlp.up_proj", (64, size)), ("mlp.down_proj", (size, 64))):
        tensors[f"{layer}{name}.weight"] = matrix(*shape)
    return tensors
