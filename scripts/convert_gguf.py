#!/usr/bin/env python3
"""Writes a Hugging Face model directory from a GGUF file, for people who have a model only in that format.

  scripts/convert_gguf.py gemma-3-270m-Q4_K_M.gguf --out /models/gemma-3-270m
  scripts/convert_gguf.py big-00001-of-00003.gguf --out /models/big        # finds the other parts in the same folder
  yoke quantize --model /models/gemma-3-270m -o /models/gemma-3-270m-awq   # 4 bits again

Architectures: llama, qwen2, qwen3, qwen3moe, gemma3. Every type that the package gguf dequantises is read and written
as 16-bit floats in one safetensors file, with config.json, generation_config.json, tokenizer.json and
tokenizer_config.json. The directory appears once all of its files are written. Other architectures, keys of
arithmetic and tensors that nothing here reads, and values beyond --dtype are refused by name. Needs numpy and gguf of
PyPI (pip install gguf).
"""

import argparse
import json
import math
import os
import shutil
import signal
import struct
import sys
import tempfile

import numpy as np
from gguf import GGMLQuantizationType

from gguf_file import GgufError, open_parts
from gguf_model import check_weights, list_weights, read_architecture, read_config
from gguf_tokenizer import tokenizer_files

CHUNK = 1 << 24  # elements in float32 at a time
LONG_NAMES = {"f16": "float16", "bf16": "bfloat16"}


def to_16_bits(values, dtype, name):
    """Bytes of values rounded to nearest, ties to even."""
    if dtype == "f16":
        with np.errstate(over="ignore"):
            rounded = values.astype("<f2")
        is_finite = np.isfinite(rounded).all()
    else:
        bits = np.ascontiguousarray(values, "<f4").view("<u4")
        rounded = ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype("<u2")
        is_finite = ((rounded & 0x7F80) != 0x7F80).all()
    if not is_finite:
        raise GgufError(f"tensor {name}: a value is not finite in {dtype}; its largest magnitude is "
                        f"{np.abs(values).max():g}" + ("; --dtype bf16 has a larger range" if dtype == "f16" else ""))
    return rounded.tobytes()


def restore_order(rows, heads):
    """Rows [heads * dim, ...] in the order of halves. llama.cpp's converter stores each head's rows as pairs."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def weight_chunks(weight, tensor, dtype):
    """The 16-bit bytes of a weight, some rows at a time."""
    rows = tensor.rows
    if weight.expert is not None:
        rows = rows[weight.expert * weight.shape[0]:(weight.expert + 1) * weight.shape[0]]
    if weight.heads and len(weight.shape) > 1:
        rows = restore_order(rows, weight.heads)
    step = max(1, CHUNK // weight.shape[-1])
    for at in range(0, len(rows), step):
        values = tensor.floats(rows[at:at + step])
        if weight.heads and len(weight.shape) == 1:
            values = restore_order(values.reshape(-1), weight.heads)
        yield to_16_bits(values - np.float32(weight.less), dtype, weight.source)


def write_safetensors(path, weights, tensors, dtype):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for weight in weights:
        end = at + 2 * math.prod(weight.shape)
        header[weight.target] = {"dtype": dtype.upper(), "shape": weight.shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for weight in weights:
            for chunk in weight_chunks(weight, tensors[weight.source], dtype):
                file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def default_dtype(architecture, tensors):
    """Activations of Gemma 3 exceed float16; bfloat16 tensors stay as they are."""
    has_bf16 = any(tensor.type == GGMLQuantizationType.BF16 for tensor in tensors.values())
    return "bf16" if architecture == "gemma3" or has_bf16 else "f16"


def convert(paths, folder, dtype):
    """Writes all files into an empty folder. Returns a line for people."""
    metadata, tensors = open_parts(paths)
    dtype = dtype or default_dtype(read_architecture(metadata), tensors)
    config = read_config(metadata, tensors, LONG_NAMES[dtype])
    weights = list(list_weights(config))
    check_weights(metadata, weights, tensors)
    files = tokenizer_files(metadata, config["vocab_size"])
    special = files.get("generation_config.json", {})
    files["config.json"] = {**config, **{key: special[key] for key in special if key.endswith("_token_id")}}
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, indent=None if name == "tokenizer.json" else 2)
            file.write("\n")
    write_safetensors(os.path.join(folder, "model.safetensors"), weights, tensors, dtype)
    count = sum(math.prod(weight.shape) for weight in weights)
    return (f"{config['architectures'][0]}, {count:,} weights as {LONG_NAMES[dtype]}, "
            f"{'with' if 'tokenizer.json' in files else 'without'} a tokenizer")


def convert_whole(paths, out, dtype):
    """convert() into a folder next to out, renamed once all files are whole, removed after any failure."""
    out = os.path.abspath(out)
    if os.path.lexists(out):
        raise GgufError(f"{out} exists: --out expects a new directory")
    folder = tempfile.mkdtemp(prefix=f".{os.path.basename(out)}-", dir=os.path.dirname(out))
    try:
        line = convert(paths, folder, dtype)
        os.chmod(folder, 0o777 & ~read_umask())
        os.rename(folder, out)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return f"{out}: {line}"


def read_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", nargs="+", metavar="IN.gguf", help="a file; all parts of a split model, or its first")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new directory")
    parser.add_argument("--dtype", choices=sorted(LONG_NAMES), help="of all weights (default: bf16 for gemma3 and "
                        "files with BF16 tensors, otherwise f16)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        print(convert_whole(options.gguf, options.out, options.dtype))
    except (GgufError, OSError) as error:
        sys.exit(f"{parser.prog}: {error}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
