#!/usr/bin/env python3
"""Makes kuiper/*.bin: KuiperLLama model files (magic "ak48", version 5) of two models of families/.

The bytes equal those that tools/export_qwen3-8B-awq.py of KuiperLLama writes for these tensors: a header of 256 bytes,
then norms, embedding, the quantised matrices kind by kind (down before up), lm_head unless it is the embedding, norms
of q and k. A rotary base is not stored: readers of the file assume Qwen3's 1e6, unlike families/.

  tied.bin     families/qwen3: group 32, lm_head is the embedding
  untied.bin   families/qwen3_group_all: one group for all inputs, as lm_head the rows of the embedding backwards
"""

import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def read_model(name):
    """config.json, and name -> (shape, bytes) of the only safetensors file."""
    folder = os.path.join(HERE, "families", name)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return config, {key: (entry["shape"], data[8 + length:][slice(*entry["data_offsets"])])
                    for key, entry in header.items()}


def export(config, tensors, path):
    layers = [f"model.layers.{i}." for i in range(config["num_hidden_layers"])]
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    shared = head == tensors["model.embed_tokens.weight"]
    numbers = [config[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                                       "num_key_value_heads", "vocab_size", "max_position_embeddings")]
    header = struct.pack("<Ii7iBii", 0x616b3438, 5, *numbers, shared, config["head_dim"],
                         config["quantization_config"]["group_size"])
    names = [layer + "input_layernorm.weight" for layer in layers]
    names += [layer + "post_attention_layernorm.weight" for layer in layers]
    names += ["model.norm.weight", "model.embed_tokens.weight"]
    for module in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                   "mlp.down_proj", "mlp.up_proj"):
        names += [f"{layer}{module}.{part}" for layer in layers for part in ("qweight", "qzeros", "scales")]
    names += [] if shared else ["lm_head.weight"]
    names += [layer + "self_attn.q_norm.weight" for layer in layers]
    names += [layer + "self_attn.k_norm.weight" for layer in layers]
    with open(path, "wb") as file:
        file.write(header.ljust(256, b"\0") + b"".join(tensors[name][1] for name in names))


def backwards(tensor):
    (n_rows, _), data = tensor
    size = len(data) // n_rows
    return tensor[0], b"".join(data[row * size:(row + 1) * size] for row in reversed(range(n_rows)))


def main():
    folder = os.path.join(HERE, "kuiper")
    os.makedirs(folder, exist_ok=True)
    export(*read_model("qwen3"), os.path.join(folder, "tied.bin"))
    config, tensors = read_model("qwen3_group_all")
    tensors["lm_head.weight"] = backwards(tensors["model.embed_tokens.weight"])
    export(config, tensors, os.path.join(folder, "untied.bin"))


if __name__ == "__main__":
    main()
