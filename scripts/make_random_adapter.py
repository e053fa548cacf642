#!/usr/bin/env python3
"""Writes a low-rank adapter of a checkpoint as PEFT stores it, with random numbers, for speed measurements.

  scripts/make_random_adapter.py --model /tmp/qwen3-8b-random --rank 16 --seed 1 --out /tmp/adapter-1

It changes q, k, v and o of attention and gate, up and down of the FFN in every layer, whose shapes config.json gives.
The numbers depend on the arguments alone. Needs numpy only.
"""

import argparse
import json
import os
import struct

import numpy as np

SCALE = 0.1  # of the product, whose elements would otherwise be as large as those of the layer's own result


def shapes_of(config):
    """The modules of a layer: (name, outputs, inputs)."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    q, kv = heads * head_dim, config["num_key_value_heads"] * head_dim
    return [("self_attn.q_proj", q, hidden), ("self_attn.k_proj", kv, hidden), ("self_attn.v_proj", kv, hidden),
            ("self_attn.o_proj", hidden, q), ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of the checkpoint")
    parser.add_argument("--out", required=True, help="folder that is made")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    rng = np.random.default_rng(args.seed)
    header, blocks, at = {}, [], 0
    for layer in range(config["num_hidden_layers"]):
        for name, n, k in shapes_of(config):
            for part, shape, std in (("lora_A", (args.rank, k), k ** -0.5), ("lora_B", (n, args.rank),
                                                                             args.rank ** -0.5)):
                block = (rng.standard_normal(shape, dtype=np.float32) * np.float32(std)).astype("<f2").tobytes()
                header[f"base_model.model.model.layers.{layer}.{name}.{part}.weight"] = {
                    "dtype": "F16", "shape": list(shape), "data_offsets": [at, at + len(block)]}
                blocks.append(block)
                at += len(block)
    os.makedirs(args.out)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(args.out, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(blocks)
    with open(os.path.join(args.out, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": args.rank, "lora_alpha": SCALE * args.rank}, file)


if __name__ == "__main__":
    main()
