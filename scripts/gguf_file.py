"""Reads GGUF files (versions 2 and 3): metadata as Python values, tensors as rows of quantised bytes. Part of
convert_gguf.py. The package gguf gives the types' block sizes and dequantises; its reader is not used, because it
takes minutes for a vocabulary of 262,144 tokens and reports a truncated file by an error of numpy.
"""

import mmap
import os
import re
import struct
from math import prod
from typing import NamedTuple

import gguf
import numpy as np
from gguf.quants import dequantize

SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8",
           12: "<f8"}
STRING, ARRAY = 8, 9
SPLIT_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf$")
REQUIRED = object()


class GgufError(Exception):
    """A file that cannot be converted: the message names file or key, the expected value and the found value."""


class Tensor(NamedTuple):
    """shape is outermost first, as in Hugging Face's files; rows is uint8 [rows, bytes of a row]."""
    name: str
    shape: tuple
    type: gguf.GGMLQuantizationType
    rows: np.ndarray

    def floats(self, rows):
        """float32 of some of the tensor's rows, [rows, columns]."""
        try:
            return dequantize(np.ascontiguousarray(rows), self.type).astype(np.float32, copy=False)
        except NotImplementedError:
            raise GgufError(f"tensor {self.name}: the installed package gguf does not dequantise the type "
                            f"{self.type.name}; a newer one may") from None


def to_python(values):
    """A list of numbers; float32 as the shortest decimal that rounds to the same float32 (1e-06)."""
    return [float(str(x)) for x in values] if values.dtype == np.float32 else values.tolist()


class Cursor:
    """A position in a file's bytes. Every read checks the file's length."""

    def __init__(self, path, data):
        self.path, self.data, self.at = path, data, 0

    def take(self, n_bytes, what):
        if n_bytes > len(self.data) - self.at:
            raise GgufError(f"{self.path}: truncated or damaged: {what} at byte {self.at:,} needs {n_bytes:,} bytes, "
                            f"the file has {len(self.data):,}")
        self.at += n_bytes
        return self.data[self.at - n_bytes:self.at]

    def number(self, code, what):
        return struct.unpack("<" + code, self.take(struct.calcsize(code), what))[0]

    def string(self, what):
        try:
            return self.take(self.number("Q", what), what).decode()
        except UnicodeDecodeError as error:
            raise GgufError(f"{self.path}: {what} is not UTF-8: {error}") from None

    def numbers(self, kind, count, what):
        if kind not in SCALARS:
            raise GgufError(f"{self.path}: {what}: unknown type {kind} of a value")
        dtype = np.dtype(SCALARS[kind])
        return to_python(np.frombuffer(self.take(count * dtype.itemsize, what), dtype))

    def value(self, what):
        kind = self.number("I", what)
        if kind == STRING:
            return self.string(what)
        if kind != ARRAY:
            return self.numbers(kind, 1, what)[0]
        kind, count = self.number("I", what), self.number("Q", what)
        return [self.string(what) for _ in range(count)] if kind == STRING else self.numbers(kind, count, what)


class GgufFile:
    """One file, mapped: metadata by key, tensors by name."""

    def __init__(self, path):
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < 24:
                raise GgufError(f"{path}: truncated or damaged: a GGUF file has at least 24 bytes")
            cursor = Cursor(path, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        self.path = path
        magic, version = cursor.take(4, "magic"), cursor.number("I", "version")
        if magic != b"GGUF":
            raise GgufError(f"{path}: expected a GGUF file, found one that begins with {magic!r}; `cat` joins the "
                            "pieces of a file that was cut into bytes")
        if version not in (2, 3):
            raise GgufError(f"{path}: GGUF version {version} is not supported; supported: 2 and 3, little-endian")
        n_tensors, n_pairs = cursor.number("Q", "number of tensors"), cursor.number("Q", "number of keys")
        self.metadata = {}
        for _ in range(n_pairs):
            key = cursor.string("a key")
            self.metadata[key] = cursor.value(f"key {key}")
        self.tensors = self.map_tensors(cursor, [self.read_info(cursor) for _ in range(n_tensors)])

    @staticmethod
    def read_info(cursor):
        """(name, shape, type, offset) of one tensor."""
        name = cursor.string("a tensor's name")
        what = f"tensor {name}"
        n_dims = cursor.number("I", what)
        if not 1 <= n_dims <= 4:
            raise GgufError(f"{cursor.path}: {what}: expected 1 to 4 dimensions, found {n_dims}")
        shape = tuple(reversed([cursor.number("Q", what) for _ in range(n_dims)]))
        kind, offset = cursor.number("I", what), cursor.number("Q", what)
        try:
            return name, shape, gguf.GGMLQuantizationType(kind), offset
        except ValueError:
            raise GgufError(f"{cursor.path}: {what}: unknown tensor type {kind}; a newer package gguf may have it"
                            ) from None

    def map_tensors(self, cursor, infos):
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0:
            raise GgufError(f"{self.path}: key general.alignment: expected a positive integer, found {alignment!r}")
        begin = -(-cursor.at // alignment) * alignment
        tensors = {}
        for name, shape, kind, offset in infos:
            block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
            if shape[-1] % block or name in tensors:
                raise GgufError(f"{self.path}: tensor {name}: " + ("found twice" if name in tensors else
                                f"rows of {shape[-1]} are not whole blocks of {block} ({kind.name})"))
            n_rows, row_bytes = prod(shape[:-1]), shape[-1] // block * block_bytes
            cursor.at = min(begin + offset, len(cursor.data))
            cursor.take(n_rows * row_bytes, f"tensor {name}")
            rows = np.frombuffer(cursor.data, np.uint8, n_rows * row_bytes, cursor.at - n_rows * row_bytes)
            tensors[name] = Tensor(name, shape, kind, rows.reshape(n_rows, row_bytes))
        return tensors


def part_paths(paths):
    """The files of a split model: all given files, or the given file and the parts in its folder."""
    match = SPLIT_NAME.match(paths[0])
    if len(paths) > 1 or not match:
        return paths
    return [f"{match[1]}-{i:05d}-of-{match[3]}.gguf" for i in range(1, int(match[3]) + 1)]


def open_parts(paths):
    """(metadata of the first part, tensors of all parts)."""
    files = sorted(map(GgufFile, part_paths(paths)), key=lambda file: file.metadata.get("split.no", 0))
    first, tensors = files[0], {}
    numbers = [file.metadata.get("split.no", 0) for file in files]
    if numbers != list(range(first.metadata.get("split.count") or 1)):
        raise GgufError(f"{first.path}: split.count is {first.metadata.get('split.count', 1)}, but the given files are "
                        f"the parts {', '.join(str(n + 1) for n in numbers)}")
    for file in files:
        tensors.update(file.tensors)
    count = first.metadata.get("split.tensors.count", len(tensors))
    if count != len(tensors):
        raise GgufError(f"{first.path}: split.tensors.count is {count}, but the parts have {len(tensors)} tensors")
    return Metadata(first.path, first.metadata), tensors


class Metadata:
    """Values by key, with the type that the reader expects, and the keys that no code has read."""

    def __init__(self, path, values):
        self.path, self.values, self.unread = path, values, set(values)

    def get(self, key, types, default=REQUIRED):
        self.unread.discard(key)
        value = self.values.get(key, default)
        if value is REQUIRED:
            raise GgufError(f"{self.path}: key {key} is missing")
        is_type = isinstance(value, types) and (not isinstance(value, bool) or types is bool)
        if key in self.values and not is_type:
            names = types.__name__ if isinstance(types, type) else " or ".join(t.__name__ for t in types)
            raise GgufError(f"{self.path}: key {key}: expected {names}, found {str(value)[:80]!r}")
        return value

    def number(self, key, default=REQUIRED):
        return self.get(key, (int, float), default)

    def integer(self, key, default=REQUIRED):
        return self.get(key, int, default)

    def per_layer(self, key, default=REQUIRED):
        """A positive integer, or an array of one for each layer, which must be equal."""
        value = self.get(key, (int, list), default)
        values = set(value) if isinstance(value, list) else {value}
        if len(values) != 1 or not all(isinstance(x, int) and x > 0 for x in values):
            raise GgufError(f"{self.path}: key {key}: expected one positive integer for all layers, found "
                            f"{sorted(values)}")
        return values.pop()

    def refuse_other(self, key, *allowed):
        """An absent key is allowed."""
        self.unread.discard(key)
        if key in self.values and self.values[key] not in allowed:
            raise GgufError(f"{self.path}: key {key}: {self.values[key]!r} is not supported; supported: "
                            f"{', '.join(map(str, allowed))}")
