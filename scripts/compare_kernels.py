#!/usr/bin/env python3
"""Compares the machine code of the kernels that two source files compile to, for instance before and after a move.

  scripts/compare_kernels.py BEFORE_BUILD SOURCE AFTER_BUILD SOURCE [--arch 90a]

A build is a folder with compile_commands.json; a source is named by the end of its path. Prints kernels that differ or
that one side lacks; fails if any differs. Needs no disassembler: the code of a kernel is a section of the cubin.
"""

import argparse
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile


def compile_cubin(build, source, arch, out):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = [entry for entry in json.load(file) if entry["file"].endswith(source)]
    if len(entries) != 1:
        sys.exit(f"{build}: expected one source that ends with {source}, found {len(entries)}")
    words = shlex.split(entries[0]["command"])
    words = words[next(i for i, word in enumerate(words) if os.path.basename(word) == "nvcc"):]
    kept, is_argument = [], False  # value of an option that is dropped
    for word in words:
        if is_argument or word in ("-c", "-MD") or word.startswith("--generate-code="):
            is_argument = False
        elif word in ("-o", "-MF", "-MT", "-x", "--generate-code"):
            is_argument = True
        else:
            kept.append(word)
    subprocess.run([*kept, f"-arch=sm_{arch}", "-cubin", "-o", out], cwd=entries[0]["directory"], check=True)


def kernels_of(path):
    """Code by mangled name: the sections .text.NAME of a 64-bit ELF file."""
    with open(path, "rb") as file:
        data = file.read()
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    strings = sections[names][4]
    kernels = {}
    for name_at, _, _, _, at, length in sections:
        name = data[strings + name_at:data.index(b"\0", strings + name_at)].decode()
        if name.startswith(".text."):
            kernels[name[len(".text."):]] = data[at:at + length]
    return kernels


def stable_names(kernels):
    """The same by demangled name, in which an unnamed namespace has no number of its source."""
    out = subprocess.run(["c++filt"], input="\n".join(kernels), capture_output=True, text=True, check=True).stdout
    names = [re.sub(r"\(anonymous namespace\)|_GLOBAL__N__\w+", "unnamed", name) for name in out.splitlines()]
    return dict(zip(names, kernels.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("before_build", "before_source", "after_build", "after_source"):
        parser.add_argument(name)
    parser.add_argument("--arch", default="90a")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for side, build, source in (("before", args.before_build, args.before_source),
                                    ("after", args.after_build, args.after_source)):
            cubin = os.path.join(folder, side + ".cubin")
            compile_cubin(build, source, args.arch, cubin)
            sides.append(stable_names(kernels_of(cubin)))
    before, after = sides
    for name in sorted(set(before) ^ set(after)):
        print(f"only {'before' if name in before else 'after'}: {name}")
    different = [name for name in sorted(set(before) & set(after)) if before[name] != after[name]]
    for name in different:
        print(f"differs, {len(before[name])} bytes before, {len(after[name])} after: {name}")
    print(f"{len(set(before) & set(after)) - len(different)} kernels have equal machine code")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
