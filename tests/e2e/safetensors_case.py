"""Whole safetensors files, for tests that read a small checkpoint or derive one from another."""

import json
import os
import struct

NAME = "model.safetensors"


def read_tensors(folder, name=NAME):
    """Tensors of one file, by default the folder's only one, by name: [dtype, shape, bytes]."""
    with open(os.path.join(folder, name), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: [entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]]
            for name, entry in header.items()}


def write_tensors(folder, tensors):
    """Writes tensors in the form of read_tensors, consecutively, as the folder's only file."""
    header, at = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, NAME), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(content for _, _, content in tensors.values()))
