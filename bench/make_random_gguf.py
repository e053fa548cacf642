#!/usr/bin/env python3
"""Writes a GGUF file of Qwen3-0.6B's shapes with random weights, to compare llama.cpp's speed with Yoke's.

  bench/make_random_gguf.py /tmp/qwen3-0.6b-random.gguf

Projections are Q4_0 (blocks of 32 weights with a float16 scale: 4.5 bits a weight); the embedding, which is also
lm_head, is float16, as in the AWQ checkpoint of scripts/make_random_model.py.  There is no tokenizer.  Needs numpy
only.
"""

import struct
import sys

import numpy as np

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 28, 1024, 3072, 16, 8, 128, 151936
F32, F16, Q4_0 = 0, 1, 2  # tensor types of GGUF
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def metadata():
    """(key, type, packed value): type 4 is a 32-bit integer, 6 a 32-bit float, 8 a text."""
    numbers = {"qwen3.block_count": LAYERS, "qwen3.context_length": 40960, "qwen3.embedding_length": HIDDEN,
               "qwen3.feed_forward_length": FFN, "qwen3.attention.head_count": HEADS,
               "qwen3.attention.head_count_kv": KV_HEADS, "qwen3.attention.key_length": HEAD_DIM,
               "qwen3.attention.value_length": HEAD_DIM, "qwen3.vocab_size": VOCAB, "general.file_type": 2}
    floats = {"qwen3.attention.layer_norm_rms_epsilon": 1e-6, "qwen3.rope.freq_base": 1e6}
    texts = {"general.architecture": "qwen3", "general.name": "random", "tokenizer.ggml.model": "no_vocab"}
    yield from ((key, 8, text(value)) for key, value in texts.items())
    yield from ((key, 4, struct.pack("<I", value)) for key, value in numbers.items())
    yield from ((key, 6, struct.pack("<f", value)) for key, value in floats.items())


def tensors():
    """(name, type, n, k) in the order of use; n 0 is a vector."""
    yield "token_embd.weight", F16, VOCAB, HIDDEN
    for i in range(LAYERS):
        layer = f"blk.{i}."
        yield layer + "attn_norm.weight", F32, 0, HIDDEN
        yield layer + "attn_q.weight", Q4_0, HEADS * HEAD_DIM, HIDDEN
        yield layer + "attn_k.weight", Q4_0, KV_HEADS * HEAD_DIM, HIDDEN
        yield layer + "attn_v.weight", Q4_0, KV_HEADS * HEAD_DIM, HIDDEN
        yield layer + "attn_q_norm.weight", F32, 0, HEAD_DIM
        yield layer + "attn_k_norm.weight", F32, 0, HEAD_DIM
        yield layer + "attn_output.weight", Q4_0, HIDDEN, HEADS * HEAD_DIM
        yield layer + "ffn_norm.weight", F32, 0, HIDDEN
        yield layer + "ffn_gate.weight", Q4_0, FFN, HIDDEN
        yield layer + "ffn_up.weight", Q4_0, FFN, HIDDEN
        yield layer + "ffn_down.weight", Q4_0, HIDDEN, FFN
    yield "output_norm.weight", F32, 0, HIDDEN


def tensor_bytes(kind, n, k):
    count = max(n, 1) * k
    return {F32: count * 4, F16: count * 2, Q4_0: count // 32 * 18}[kind]


def draw(rng, kind, n, k):
    count = max(n, 1) * k
    if kind == F32:
        return np.ones(count, np.float32)
    if kind == F16:
        return (rng.standard_normal(count, np.float32) * (2.5 / k**0.5)).astype(np.float16)
    blocks = np.empty(count // 32, dtype=[("scale", "<f2"), ("quants", "u1", 16)])
    blocks["scale"] = (k * 21.25) ** -0.5  # 0 .. 15 less 8: variance 21.25
    blocks["quants"] = rng.integers(0, 256, (count // 32, 16), dtype=np.uint8)
    return blocks


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    all_tensors, pairs = list(tensors()), list(metadata())
    header = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(pairs))
    header += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs)
    offset = 0
    for name, kind, n, k in all_tensors:
        shape = (k, n) if n else (k,)
        header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        offset += -(-tensor_bytes(kind, n, k) // ALIGNMENT) * ALIGNMENT
    rng = np.random.default_rng(0)
    with open(sys.argv[1], "wb") as file:
        file.write(header + bytes(-len(header) % ALIGNMENT))
        for _, kind, n, k in all_tensors:
            data = draw(rng, kind, n, k).tobytes()
            file.write(data + bytes(-len(data) % ALIGNMENT))
    print(f"{sys.argv[1]}: {offset / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
