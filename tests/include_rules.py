#!/usr/bin/env python3
"""Who may include whom: checks every source file against the rules below, and that no modules depend on each other in a
circle; a header and the source of its name are one module.

First plants violations in a scratch tree and fails unless each is found, so that a rule cannot stop working unseen.
"""

import argparse
import os
import re
import sys
import tempfile

SOURCE = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".inc")
INCLUDE_DIRS = ("", "runtime/", "tests/")  # as the build has them, after the folder of the including file

# Folder (longest match decides) -> prefixes of the files it may include, beside its own folder.
MAY_INCLUDE = {
    "runtime/base/": [],
    "runtime/api/": ["runtime/base/"],
    "runtime/yoke.h": ["runtime/base/", "runtime/api/"],
    "kernels/": ["runtime/base/"],
    "kernels/cuda/ptx/": [],
    "kernels/cuda/common/": ["runtime/base/", "kernels/cuda/ptx/"],
    "kernels/cuda/gemm/": [
        "runtime/base/", "kernels/linear.h", "kernels/experts.h", "kernels/cuda/ptx/", "kernels/cuda/common/"
    ],
    "kernels/cuda/w8a8/": ["runtime/base/", "kernels/cuda/ptx/", "kernels/cuda/common/", "kernels/cuda/gemm/"],
    "kernels/cuda/attention/": ["runtime/base/", "kernels/device.h", "kernels/cuda/ptx/", "kernels/cuda/common/"],
    "kernels/cuda/moe/": [
        "runtime/base/", "kernels/device.h", "kernels/experts.h", "kernels/cuda/ptx/", "kernels/cuda/common/",
        "kernels/cuda/gemm/"
    ],
    "kernels/cuda/rows/": [
        "runtime/base/", "kernels/device.h", "kernels/experts.h", "kernels/cuda/ptx/", "kernels/cuda/common/",
        "kernels/cuda/moe/combine_rows.cuh"
    ],
    "kernels/cuda/sampling/": [
        "runtime/base/", "kernels/device.h", "kernels/cuda/ptx/", "kernels/cuda/common/", "kernels/cuda/device/"
    ],
    "kernels/cuda/linear/": [
        "runtime/base/", "kernels/device.h", "kernels/linear.h", "kernels/cuda/ptx/", "kernels/cuda/common/",
        "kernels/cuda/gemm/", "kernels/cuda/w8a8/", "kernels/cuda/rows/quantise.h",
        "kernels/cuda/moe/single_token.h", "kernels/cuda/moe/routed_gemm.h", "kernels/cuda/device/"
    ],
    "kernels/cuda/quantize/": [
        "runtime/base/", "kernels/device.h", "kernels/awq_quantize.h", "kernels/cuda/ptx/", "kernels/cuda/common/",
        "kernels/cuda/device/"
    ],
    "kernels/cuda/": ["runtime/base/", "kernels/"],
    "kernels/cuda/latent/": ["runtime/base/", "kernels/"],
    "kernels/cuda/device/": ["runtime/base/", "kernels/"],
    "loader/": ["runtime/base/"],
    "loader/model/": ["runtime/base/"],
    "loader/safetensors/": ["runtime/base/"],
    "loader/hf/": ["runtime/base/", "loader/model/", "loader/safetensors/"],
    "loader/integers/": ["runtime/base/", "loader/model/", "loader/safetensors/"],
    "loader/foreign/": [
        "runtime/base/", "loader/model/", "loader/safetensors/", "loader/hf/", "loader/integers/"
    ],
    "parallel/": [
        "runtime/base/", "kernels/all_reduce.h", "kernels/device.h", "kernels/linear.h", "kernels/experts.h",
        "kernels/cuda/cuda_device.h", "parallel/p2p/"
    ],
    "parallel/p2p/": [
        "runtime/base/", "kernels/all_reduce.h", "kernels/device.h", "kernels/experts.h", "kernels/cuda/ptx/",
        "kernels/cuda/common/", "kernels/cuda/moe/combine_rows.cuh"
    ],
    "runtime/text/": ["runtime/base/"],
    "runtime/chat/": ["runtime/base/", "runtime/text/"],
    "runtime/convert/": ["runtime/yoke.h", "runtime/base/", "loader/"],
    "runtime/engine/": ["runtime/", "kernels/", "loader/", "parallel/"],
    "runtime/model/": ["runtime/", "kernels/", "loader/", "parallel/"],
    "runtime/quantize/": ["runtime/", "kernels/", "loader/", "parallel/"],
    "runtime/trace/": ["runtime/yoke.h", "runtime/base/"],
    "runtime/tools/": ["runtime/", "kernels/", "loader/", "parallel/"],
    "runtime/openai/": ["runtime/yoke.h", "runtime/base/", "runtime/text/", "runtime/chat/"],
    "runtime/server/": ["runtime/yoke.h", "runtime/base/", "runtime/text/", "runtime/chat/", "runtime/openai/"],
    "runtime/bench/": ["runtime/yoke.h", "runtime/base/"],
    "runtime/study/": ["runtime/yoke.h", "runtime/base/", "runtime/bench/", "parallel/shard.h"],
    "runtime/cli/options/": ["runtime/yoke.h", "runtime/base/", "runtime/openai/"],
    "runtime/cli/": [
        "runtime/yoke.h", "runtime/base/", "runtime/text/", "runtime/chat/", "runtime/openai/",
        "runtime/server/server.h", "runtime/bench/", "runtime/study/"
    ],
    "bench/": [""],
    "tests/": [""],
}

# What a folder may never include although its prefixes would let it.
NEVER = {
    "runtime/engine/": ["runtime/cli/", "runtime/server/", "runtime/openai/"],
    "runtime/tools/": ["runtime/cli/", "runtime/server/", "runtime/openai/"],
    "runtime/quantize/": ["runtime/cli/", "runtime/server/", "runtime/openai/"],
    "runtime/model/": ["runtime/cli/", "runtime/server/", "runtime/openai/", "runtime/engine/"],
}

# Headers of other people: (pattern of the name in <>, pattern of the files that may include it, what it is).
SYSTEM = [
    (r"^(cuda|cublas|nccl|curand|nvrtc|nvml|nvtx|cooperative_groups|mma\.h|cub/|cute/|nv/|device_|driver_types)",
     r"^(kernels/cuda/|parallel/([^/]*nccl|p2p/)|bench/|tests/.*(cuda|nccl|p2p))", "CUDA"),
    (r"^pcre2", r"^(runtime/text/|tests/|loader/model/quant_rules\.c)", "PCRE2"),
    (r"^utf8proc", r"^(runtime/text|tests)/", "utf8proc"),
    (r"^microhttpd", r"^runtime/server/", "libmicrohttpd"),
    (r"^histedit", r"^runtime/cli/", "libedit"),
    (r"^cmocka", r"^tests/", "cmocka"),
]

# Who may build jansson's trees, documents of our own. Text is read by runtime/base/json.h, nowhere by jansson.
TREES = (
    "runtime/base/json_tree.", "runtime/bench/", "runtime/study/", "runtime/cli/", "bench/", "tests/"
)
JSON_LOAD = re.compile(r"\bjson_load[a-z_]*\s*\(")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def source_files(root):
    for top in ("runtime", "kernels", "loader", "parallel", "bench", "tests"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SOURCE):
                    yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def code_of(root, path):
    """A file's text without its comments, line for line."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    return re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)


def includes(text):
    """(line, quoted name or None, system name or None) of each include of a file's text."""
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(match.lastindex)) + 1, match.group(1), match.group(2)


def resolve(files, path, name):
    """The project's file that a quoted name means, or None."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name)).replace(os.sep, "/")
    for candidate in [beside] + [folder + name for folder in INCLUDE_DIRS]:
        if candidate in files:
            return candidate
    return None


def rule_of(path):
    rules = [folder for folder in MAY_INCLUDE if path.startswith(folder)]
    return max(rules, key=len) if rules else None


def check_quoted(path, target):
    rule = rule_of(path)
    if rule is None:
        return f"{path} is in no folder that has a rule"
    if any(target.startswith(prefix) for prefix in NEVER.get(rule, [])):
        return f"{rule} may not include {target}"
    if target.startswith(rule) or any(target.startswith(prefix) for prefix in MAY_INCLUDE[rule]):
        return None
    return f"{rule} may include only {', '.join([rule] + MAY_INCLUDE[rule])}, not {target}"


def check_system(path, name):
    for header, allowed, what in SYSTEM:
        if re.search(header, name) and not re.search(allowed, path):
            return f"<{name}>: {what} headers do not belong in this folder"
    return None


def check_trees(path, name):
    if name not in ("jansson.h", "runtime/base/json_tree.h") or path.startswith(TREES):
        return None
    return f"{name}: JSON is read by runtime/base/json.h; jansson's trees are for {', '.join(TREES)}"


def check_loads(path, text):
    """Every use of jansson as a reader, as lines."""
    if path.startswith("tests/"):
        return []
    return [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: JSON is read by runtime/base/json.h, not by jansson"
            for match in JSON_LOAD.finditer(text)]


def module_of(path):
    """NAME.h and NAME.c (or .cu, .cuh) are one module: who includes the header depends on what the source includes."""
    return os.path.splitext(path)[0]


def find_circle(graph):
    """One circle of dependencies between modules as a list, or None."""
    done = set()

    def visit(path, trail):
        if path in trail:
            return trail[trail.index(path):] + [path]
        if path in done:
            return None
        for target in sorted(graph.get(path, ())):
            circle = visit(target, trail + [path])
            if circle:
                return circle
        done.add(path)
        return None

    for path in sorted(graph):
        circle = visit(path, [])
        if circle:
            return circle
    return None


def check_tree(root):
    """Every violation in a tree, as lines."""
    files = set(source_files(root))
    problems, graph = [], {}
    for path in sorted(files):
        module = graph.setdefault(module_of(path), set())
        text = code_of(root, path)
        problems += check_loads(path, text)
        for line, quoted, system in includes(text):
            target = resolve(files, path, quoted or system)
            problem = check_trees(path, target or system)
            if target:
                if module_of(target) != module_of(path):
                    module.add(module_of(target))
                problem = problem or check_quoted(path, target)
            elif quoted:
                problem = f'"{quoted}" names no file of the project'
            else:
                problem = problem or check_system(path, system)
            if problem:
                problems.append(f"{path}:{line}: {problem}")
    circle = find_circle(graph)
    if circle:
        problems.append("circle: " + " -> ".join(circle))
    return problems


def check_rules(root):
    """Rules about places that are not there."""
    return [f"the rule of {place} is about nothing that exists" for place in MAY_INCLUDE
            if not os.path.exists(os.path.join(root, place))]


CLEAN = {
    "runtime/base/status.h": "#include <stdbool.h>\n",
    "runtime/base/json_tree.h": "#include <jansson.h>\n",
    "runtime/yoke.h": '#include "base/status.h"\n',
    "kernels/device.h": '#include "base/status.h"\n',
    "kernels/cuda/device/state.h": '#include <cuda_runtime.h>\n#include "kernels/device.h"\n',
    "parallel/comm.h": '#include "kernels/device.h"\n',
    "parallel/comm_nccl.c": '#include <nccl.h>\n#include "comm.h"\n',
    "runtime/model/model.h": '#include "kernels/device.h"\n#include "parallel/comm.h"\n',
    "runtime/cli/main.c": '/* #include "model/model.h" */\n#include "yoke.h"\n',
}

PLANTED = [
    ("runtime/cli/bad.c", '#include "model/model.h"\n', "runtime/cli/ may include only"),
    ("runtime/cli/bad.c", '#  include <model/model.h>\n', "runtime/cli/ may include only"),
    ("runtime/base/bad.c", '#include "yoke.h"\n', "runtime/base/ may include only"),
    ("runtime/base/bad.c", "#include <jansson.h>\n", "jansson's trees are for"),
    ("runtime/openai/bad.c", "#include <jansson.h>\n", "jansson's trees are for"),
    ("runtime/engine/bad.c", '#include "base/json_tree.h"\n', "jansson's trees are for"),
    ("runtime/study/bad.c", "json_t *a = json_loads (text, 0, NULL);\n", "not by jansson"),
    ("parallel/bad.c", '#include "../runtime/model/model.h"\n', "parallel/ may include only"),
    ("kernels/bad.c", '#include "parallel/comm.h"\n', "kernels/ may include only"),
    ("kernels/cuda/ptx/bad.cuh", '#include "kernels/device.h"\n', "kernels/cuda/ptx/ may include only"),
    ("kernels/cuda/gemm/bad.cu", '#include "kernels/cuda/device/state.h"\n', "kernels/cuda/gemm/ may include only"),
    ("kernels/cpu/bad.c", "#include <cuda_fp16.h>\n", "CUDA headers"),
    ("runtime/engine/bad.c", "#include <nccl.h>\n", "CUDA headers"),
    ("runtime/text/bad.c", '#include "no_such.h"\n', "names no file"),
    ("runtime/other/bad.c", '#include "base/status.h"\n', "no folder that has a rule"),
    ("runtime/model/model.h", '#include "engine/b.h"\n', "circle: "),
    ("runtime/model/model.c", '#include "engine/b.h"\n', "circle: "),
]


def write_tree(root, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text)


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, CLEAN)
        failures += [f"a clean tree is refused: {problem}" for problem in check_tree(root)]
    for path, text, expected in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**CLEAN, "runtime/engine/b.h": '#include "model/model.h"\n', path: text})
            problems = check_tree(root)
            if not any(expected in problem for problem in problems):
                failures.append(f"{path} with {text.strip()}: expected \"{expected}\", found {problems}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    root = parser.parse_args().root
    problems = self_test() + check_rules(root) + check_tree(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
