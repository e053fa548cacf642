#!/usr/bin/env python3
"""Makes safetensors/{single,sharded}: the files that the public packages write for a list of small tensors.

  model*.safetensors            `safetensors` 0.8.0, whose order of tensors the list has already
  which tensors share a file    `huggingface_hub` 0.36.2: split_state_dict_into_shards_factory, in the list's order
  model.safetensors.index.json  as transformers 4.57.1 writes it (modeling_utils.py: save_pretrained)

Byte j of tensor i is 7 i + j. tests/unit/test_safetensors_write.c has the same list.
"""

import ctypes
import json
import math
import os

from huggingface_hub.serialization._base import split_state_dict_into_shards_factory
from safetensors import TensorSpec, serialize_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "safetensors")
BYTES = {"float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "bool": 1}
TENSORS = [("layers.0.bias", "float32", [3]), ("layers.0.qweight", "int32", [4, 2]),
           ("norm.weight", "bfloat16", [2, 1, 3]), ("a \"quoted\"\n name", "float16", [5]),
           ("none", "int8", [0, 7]), ("scalar", "bool", [])]
SHARD_BYTES = 44  # the first two exactly


def data(i, dtype, shape):
    n_bytes = BYTES[dtype] * math.prod(shape)
    return (ctypes.c_uint8 * n_bytes)(*((7 * i + j) & 255 for j in range(n_bytes)))


def write(path, names):
    buffers = {name: data(i, dtype, shape) for i, (name, dtype, shape) in enumerate(TENSORS)}
    specs = {name: TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[name]),
                              data_len=len(buffers[name]))
             for name, dtype, shape in TENSORS if name in names}
    serialize_file(specs, path, {"format": "pt"})


def main():
    single, sharded = os.path.join(FOLDER, "single"), os.path.join(FOLDER, "sharded")
    os.makedirs(single, exist_ok=True)
    os.makedirs(sharded, exist_ok=True)
    write(os.path.join(single, "model.safetensors"), [name for name, _, _ in TENSORS])
    sizes = {name: len(data(i, dtype, shape)) for i, (name, dtype, shape) in enumerate(TENSORS)}
    split = split_state_dict_into_shards_factory(sizes, get_storage_size=lambda size: size,
                                                 filename_pattern="model{suffix}.safetensors",
                                                 get_storage_id=lambda size: None, max_shard_size=SHARD_BYTES)
    for file, names in split.filename_to_tensors.items():
        write(os.path.join(sharded, file), names)
    index = {"metadata": {"total_size": split.metadata["total_size"]}, "weight_map": split.tensor_to_filename}
    with open(os.path.join(sharded, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(index, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
