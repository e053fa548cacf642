#!/usr/bin/env python3
"""Checks the includes of every source file against the table below, which has a row for every folder and allows no
circle of folders; and checks that neither modules nor libraries depend on each other in a circle. A header and the
source of its name are one module; a library is the folders that CMakeLists.txt compiles into it.

First plants violations in a scratch tree and fails unless each is found, so that a broken rule is noticed.
"""

import fnmatch
import os
import re
import tempfile

import rule_check

SOURCE = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".inc")
INCLUDE_DIRS = ("", "runtime/", "runtime/include/", "tests/")  # as in the build, after the including file's folder

YOKE, BASE = "runtime/include/yoke/", "runtime/base/"
PTX, COMMON = "kernels/cuda/ptx/", "kernels/cuda/common/"
DEVICE, BLAS, LAUNCH = "kernels/cuda/device/", "kernels/cuda/blas/", "kernels/cuda/rows/launch.cuh"
GEMM_DENSE, GEMM_GROUPED = "kernels/cuda/gemm/dense/", "kernels/cuda/gemm/grouped/"
GEMM = ["kernels/cuda/gemm/", GEMM_DENSE, GEMM_GROUPED]
PLANS = [  # without a GPU
    "kernels/cuda/latent/scratch.h", "kernels/cuda/layout/abilities.h", "kernels/cuda/layout/layout.h",
    "kernels/cuda/moe/scratch.h", "parallel/p2p/p2p_sizes.h"
]
WEIGHT, ACTIVATION = "kernels/weight.h", "kernels/activation.h"
LOADER = [
    "loader/adapter/", "loader/model/", "loader/safetensors/", "loader/hf/", "loader/integers/", "loader/foreign/"
]
PARALLEL = ["parallel/", "parallel/cluster/", "parallel/mpi/"]
LOWER = [BASE, "kernels/", "loader/", *LOADER, *PARALLEL]  # below the layers of a model
HOUSE = ["runtime/*", "kernels/*", "loader/*", "parallel/*"]
TESTS = [*HOUSE, "tests/"]

# Folder -> the files, or folders without their subfolders, that its files may include in addition to their own folder.
# Every folder has a row. "x/*" is a folder with its subfolders, for tests and benchmarks only.
MAY_INCLUDE = {
    "runtime/include/yoke/": [],
    "runtime/base/": [
        "runtime/include/yoke/status.h", "runtime/include/yoke/log.h", "runtime/include/yoke/process.h"
    ],
    "kernels/": [BASE, "runtime/include/yoke/limits.h", "runtime/include/yoke/logit_bias.h"],
    "kernels/cpu/": [BASE, "kernels/"],
    "kernels/cpu/linear/": [BASE, "kernels/", "kernels/cpu/"],
    "kernels/cuda/ptx/": [],
    "kernels/cuda/common/": [
        BASE, ACTIVATION, "kernels/device.h", "kernels/experts.h", "kernels/kv_format.h", PTX
    ],
    "kernels/cuda/blas/": [BASE],
    "kernels/cuda/gemm/": [BASE, ACTIVATION, PTX, COMMON],
    "kernels/cuda/gemm/dense/costs/": [],
    "kernels/cuda/gemm/dense/": [BASE, PTX, COMMON, "kernels/cuda/gemm/", "kernels/cuda/gemm/dense/costs/"],
    "kernels/cuda/gemm/grouped/": [BASE, "kernels/experts.h", PTX, COMMON, "kernels/cuda/gemm/", GEMM_DENSE],
    "kernels/cuda/gemm/pack/": [BASE, PTX, COMMON, "kernels/cuda/gemm/", GEMM_DENSE],
    "kernels/cuda/w4a8/": [BASE, ACTIVATION, "kernels/linear.h", PTX, COMMON, *GEMM],
    "kernels/cuda/w8a8/": [BASE, ACTIVATION, PTX, COMMON, *GEMM],
    "kernels/cuda/adapters/": [BASE, ACTIVATION, "kernels/cuda/layout/adapters.h", PTX, COMMON],
    "kernels/cuda/attention/": [BASE, "kernels/device.h", PTX, COMMON],
    "kernels/cuda/decode/": [
        BASE, "kernels/", PTX, COMMON, DEVICE, *GEMM, "kernels/cuda/layout/", "kernels/cuda/linear/"
    ],
    "kernels/cuda/delta/": [BASE, "kernels/device.h", PTX, COMMON],
    "kernels/cuda/mamba/": [BASE, "kernels/device.h", PTX, COMMON],
    "kernels/cuda/moe/": [
        BASE, "kernels/", PTX, COMMON, DEVICE, *GEMM, "kernels/cuda/layout/", "kernels/cuda/linear/"
    ],
    "kernels/cuda/rows/": [BASE, "kernels/device.h", "kernels/experts.h", PTX, COMMON],
    "kernels/cuda/latent/": [BASE, "kernels/device.h", "kernels/latent.h", PTX, COMMON, BLAS, LAUNCH],
    "kernels/cuda/device/": [
        BASE, "kernels/", PTX, LAUNCH, "kernels/cuda/attention/attention_types.h", "kernels/cuda/gemm/turns.h",
        "kernels/cuda/gemm/types.h", "kernels/cuda/latent/latent_types.h", "kernels/cuda/w8a8/types.h"
    ],
    "kernels/cuda/sampling/": [BASE, "kernels/device.h", PTX, COMMON, DEVICE],
    "kernels/cuda/quantize/": [BASE, "kernels/device.h", "kernels/awq_quantize.h", PTX, COMMON, BLAS, DEVICE],
    "kernels/cuda/layout/": [
        BASE, "kernels/abilities.h", "kernels/device.h", "kernels/experts.h", "kernels/linear.h",
        "kernels/cuda/common/limits.h", BLAS
    ],
    "kernels/cuda/linear/": [
        BASE, "kernels/device.h", "kernels/experts.h", "kernels/linear.h", WEIGHT, PTX, COMMON, BLAS, DEVICE, *GEMM,
        "kernels/cuda/adapters/", "kernels/cuda/layout/", "kernels/cuda/w4a8/", "kernels/cuda/w8a8/",
        "kernels/cuda/rows/quantise.h"
    ],
    "kernels/cuda/": [
        BASE, "kernels/", BLAS, DEVICE, "kernels/cuda/attention/", "kernels/cuda/decode/", "kernels/cuda/delta/",
        "kernels/cuda/moe/", *GEMM, "kernels/cuda/latent/", "kernels/cuda/layout/", "kernels/cuda/linear/",
        "kernels/cuda/mamba/", "kernels/cuda/quantize/", "kernels/cuda/rows/", "kernels/cuda/sampling/",
        "kernels/cuda/w4a8/", "kernels/cuda/w8a8/"
    ],
    "loader/model/": [BASE, WEIGHT, ACTIVATION, "kernels/expert_choice.h", "kernels/kv_format.h",
                      "kernels/score_growth.h"],
    "loader/safetensors/": [BASE],
    "loader/adapter/": [BASE, "loader/model/", "loader/safetensors/"],
    "loader/hf/": [BASE, "kernels/gated_delta.h", "kernels/mamba.h", "loader/model/", "loader/safetensors/"],
    "loader/integers/": [BASE, WEIGHT, "loader/model/", "loader/safetensors/"],
    "loader/foreign/": [BASE, WEIGHT, "loader/model/", "loader/safetensors/", "loader/hf/", "loader/integers/"],
    "loader/": [BASE, WEIGHT, "kernels/gated_delta.h", "kernels/mamba.h", *LOADER],
    "parallel/p2p/": [
        BASE, "kernels/all_reduce.h", "kernels/device.h", "kernels/experts.h", "kernels/peer_wait.h", PTX, COMMON
    ],
    "parallel/": [BASE, "runtime/include/yoke/limits.h", "kernels/", "kernels/cuda/cuda_device.h", "parallel/p2p/"],
    "parallel/cluster/": [
        BASE, "runtime/include/yoke/limits.h", "parallel/exchange.h", "parallel/wire.h", "parallel/world.h"
    ],
    "parallel/mpi/plugin/": [BASE],
    "parallel/mpi/": [BASE, "parallel/wire.h", "parallel/world.h", "parallel/cluster/", "parallel/mpi/plugin/"],
    "runtime/text/": [BASE],
    "runtime/chat/": [YOKE, BASE, "runtime/text/"],
    "runtime/grammar/": [YOKE, BASE, "runtime/text/"],
    "runtime/trace/": [YOKE, BASE],
    "runtime/convert/": [YOKE, BASE, WEIGHT, "kernels/gated_delta.h", "kernels/mamba.h", "loader/", *LOADER],
    "runtime/model/": [*LOWER, *PLANS, YOKE, "kernels/cpu/", "runtime/trace/"],
    "runtime/engine/loop/": [YOKE, BASE, "kernels/", "runtime/model/"],
    "runtime/engine/observe/": [YOKE, BASE, "runtime/model/", "runtime/trace/"],
    "runtime/engine/machine/": [
        *LOWER, *PLANS, YOKE, "kernels/cpu/", "kernels/cuda/cuda_device.h", "runtime/model/", "runtime/engine/loop/"
    ],
    "runtime/engine/": [
        *LOWER, YOKE, "runtime/grammar/", "runtime/model/", "runtime/text/", "runtime/trace/", "runtime/engine/loop/",
        "runtime/engine/machine/", "runtime/engine/observe/"
    ],
    "runtime/quantize/": [
        *LOWER, YOKE, "runtime/convert/", "runtime/engine/loop/", "runtime/engine/machine/", "runtime/model/",
        "runtime/text/"
    ],
    "runtime/tools/": [
        *LOWER, YOKE, "kernels/cuda/device/bandwidth.h", "parallel/p2p/links_p2p.h", "runtime/engine/loop/",
        "runtime/engine/machine/", "runtime/model/"
    ],
    "runtime/openai/parse/": [YOKE, BASE],
    "runtime/openai/": [YOKE, BASE, "runtime/text/", "runtime/chat/", "runtime/openai/parse/"],
    "runtime/server/": [YOKE, BASE, "runtime/text/", "runtime/chat/", "runtime/openai/"],
    "runtime/bench/": [YOKE, BASE],
    "runtime/study/plot/": [BASE],
    "runtime/study/": [
        YOKE, BASE, "runtime/bench/", "runtime/study/plot/", "parallel/shard.h", "loader/checkpoint.h"
    ],
    "runtime/cli/options/": [YOKE, BASE, "runtime/openai/"],
    "runtime/cli/": [
        YOKE, BASE, "runtime/text/", "runtime/chat/", "runtime/openai/answer_style.h", "runtime/server/server.h",
        "runtime/cli/options/"
    ],
    "runtime/cli/batch/": [
        YOKE, BASE, "runtime/chat/", "runtime/openai/", "runtime/cli/", "runtime/cli/options/"
    ],
    "runtime/cli/bench/": [YOKE, BASE, "runtime/bench/", "runtime/cli/", "runtime/cli/options/"],
    "runtime/cli/chat/": [YOKE, BASE, "runtime/chat/", "runtime/cli/", "runtime/cli/options/"],
    "runtime/cli/plan/": [YOKE, BASE, "runtime/study/", "runtime/cli/", "runtime/cli/options/"],
    "runtime/cli/study/": [
        YOKE, BASE, "runtime/study/", "runtime/cli/", "runtime/cli/bench/", "runtime/cli/options/"
    ],
    "bench/": HOUSE,
    "tests/": [],
    "tests/comm/": TESTS,
    "tests/comm/mpi/": [*TESTS, "tests/comm/"],
    "tests/e2e/": [*TESTS, "tests/unit/"],
    "tests/e2e/preload/": [],
    "tests/e2e/report/": HOUSE,
    "tests/fault/": [*TESTS, "tests/fault/hook/", "tests/unit/"],
    "tests/fault/hook/": [*HOUSE, "tests/e2e/"],
    "tests/fuzz/": [*HOUSE, "tests/unit/openai_defaults.h"],
    "tests/golden/": [ACTIVATION, "loader/hf/hf_config.h"],
    "tests/install/": HOUSE,
    "tests/install/headers_0.2/yoke/": [YOKE],
    "tests/op/": [*TESTS, "tests/golden/"],
    "tests/reference/": HOUSE,
    "tests/unit/": [*TESTS, "tests/golden/", "tests/op/"],
    "tests/unit/fake_gpu/": HOUSE,
}

# External headers: (pattern of the name in <>, pattern of the files that may include it, name for messages).
SYSTEM = [
    (r"^(cuda|cublas|nccl|curand|nvrtc|nvml|nvtx|cooperative_groups|mma\.h|cub/|cute/|nv/|device_|driver_types)",
     r"^(kernels/cuda/|parallel/([^/]*nccl|p2p/)|bench/|tests/.*(cuda|nccl|p2p))", "CUDA"),
    (r"^pcre2", r"^(runtime/text/|tests/|loader/model/bounded_match\.h)", "PCRE2"),
    (r"^utf8proc", r"^(runtime/text|tests)/", "utf8proc"),
    (r"^microhttpd", r"^runtime/server/", "libmicrohttpd"),
    (r"^histedit", r"^runtime/cli/", "libedit"),
    (r"^mpi\.h$", r"^parallel/mpi/plugin/", "MPI"),
    (r"^gnutls/", r"^parallel/cluster/proof\.c$", "GnuTLS"),
    (r"^cmocka", r"^tests/", "cmocka"),
]

# Folders that may build jansson's trees, to write documents. Text is read by runtime/base/json.h, never by jansson.
TREES = (
    "runtime/base/json_tree.", "runtime/bench/", "runtime/study/", "runtime/cli/", "bench/", "tests/"
)
TARGET = PTX + "target.cuh"  # defines YK_HAVE_SM90A
ASSEMBLY = re.compile(r"\basm\s*(?:volatile\s*)?\(")
JSON_LOAD = re.compile(r"\bjson_load[a-z_]*\s*\(")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def source_files(root):
    """Every C, C++ and CUDA file, except in builds and in folders that begin with a dot."""
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name not in ("build", "shared")]
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in sorted(names):
            if name.endswith(SOURCE):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def folder_of(path):
    folder = os.path.dirname(path)
    return folder + "/" if folder else ""


def code_of(root, path):
    """A file's text without its comments, with the same lines."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    return re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)


def includes(text):
    """(line, quoted name or None, system name or None) of each include of a file's text."""
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(match.lastindex)) + 1, match.group(1), match.group(2)


def resolve(files, path, name):
    """The project's file for a quoted name, or None."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name)).replace(os.sep, "/")
    for candidate in [beside] + [folder + name for folder in INCLUDE_DIRS]:
        if candidate in files:
            return candidate
    return None


def is_allowed(target, entry):
    if entry.endswith("/*"):
        return target.startswith(entry[:-1])
    return entry in (target, folder_of(target))


def check_quoted(path, target):
    folder = folder_of(path)
    allowed = MAY_INCLUDE.get(folder)
    if allowed is None:  # check_tree reports the folder
        return None
    if folder_of(target) == folder or any(is_allowed(target, entry) for entry in allowed):
        return None
    return f"{folder} may include only {', '.join([folder, *allowed])}, not {target}"


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


def check_assembly(path, text):
    """Every use of inline PTX outside its folder, as lines."""
    if path.startswith(PTX) or not path.endswith((".cu", ".cuh")) or not path.startswith(("kernels/", "parallel/")):
        return []
    return [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: inline PTX is for {PTX}"
            for match in ASSEMBLY.finditer(text)]


def check_target(path, text):
    """A kernel for 9.0 whose file does not define the target's macro would be compiled to nothing."""
    if "YK_HAVE_SM90A" not in text or f'"{TARGET}"' in text or path == TARGET or not path.startswith("kernels/"):
        return []
    return [f"{path}: uses YK_HAVE_SM90A and does not include {TARGET}"]


def module_of(path):
    """NAME.h and NAME.c (or .cu, .cuh) are one module: a file that includes the header depends on the source's
    includes."""
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


def check_file(root, files, path):
    """(violations of one file, as lines; the project's files that it includes)."""
    text = code_of(root, path)
    problems, targets = check_loads(path, text) + check_assembly(path, text) + check_target(path, text), []
    for line, quoted, system in includes(text):
        target = resolve(files, path, quoted or system)
        problem = check_trees(path, target or system)
        if target:
            targets.append(target)
            problem = problem or check_quoted(path, target)
        elif quoted:
            problem = f'"{quoted}" names no file of the project'
        else:
            problem = problem or check_system(path, system)
        if problem:
            problems.append(f"{path}:{line}: {problem}")
    return problems, targets


def graph_of(targets, node_of):
    """Dependencies between the nodes of files, from the files that each file includes."""
    graph = {}
    for path, included in targets.items():
        graph.setdefault(node_of(path), set()).update({node_of(target) for target in included} - {node_of(path)})
    return graph


def libraries_of(root, files):
    """Folder -> the library that CMakeLists.txt compiles its sources into; and an error line for each folder in two."""
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as file:
        text = re.sub(r"#[^\n]*", "", file.read())
    globs = dict(re.findall(r"file\(GLOB (\w+) CONFIGURE_DEPENDS([^)]*)\)", text))
    compiled = re.findall(r"(?:yoke_library|add_library)\((\w+)([^)]*)\)", text)
    folders = {os.path.dirname(path) for path in files}
    library_of, problems = {}, []
    for library, arguments in compiled:
        arguments = re.sub(r"\$\{(\w+)\}", lambda name: globs.get(name.group(1), ""), arguments)
        for pattern in re.findall(r"(\S+)/\*\.cu?(?=\s|$)", arguments):
            for folder in sorted(folders):
                if folder.count("/") != pattern.count("/") or not fnmatch.fnmatch(folder, pattern):
                    continue
                if library_of.setdefault(folder + "/", library) != library:
                    problems.append(f"{folder}/ is compiled into {library_of[folder + '/']} and {library}")
    return library_of, problems


def check_circles(root, files, targets):
    """Circles of modules, of folders and of libraries, and folders that are compiled into no library, as lines."""
    library_of, problems = libraries_of(root, files)
    house = {path: included for path, included in targets.items() if not path.startswith(("bench/", "tests/"))}
    problems += [f"{folder} is compiled into no library" for folder in sorted({
        folder_of(path) for path in house if path.endswith((".c", ".cu")) and folder_of(path) not in library_of})]
    for what, node_of in (("modules", module_of), ("folders", folder_of),
                          ("libraries", lambda path: library_of.get(folder_of(path), folder_of(path)))):
        circle = find_circle(graph_of(house if what == "libraries" else targets, node_of))
        if circle:
            problems.append(f"circle of {what}: " + " -> ".join(circle))
    return problems


def check_tree(root):
    """Every violation in a tree, as lines."""
    files = set(source_files(root))
    problems, targets = [], {}
    for folder in sorted({folder_of(path) for path in files} - set(MAY_INCLUDE)):
        problems.append(f"{folder or 'the root'} has no row in the table of folders")
    for path in sorted(files):
        found, targets[path] = check_file(root, files, path)
        problems += found
    return problems + check_circles(root, files, targets)


def check_table(root, table):
    """Reports rows and entries for paths that do not exist, and cycles that the table would allow."""
    problems = [f"the row of {place} is about nothing that exists" for place in table
                if not os.path.exists(os.path.join(root, place))]
    graph = {}
    for folder, allowed in table.items():
        problems += [f"{folder} may include {entry}, which does not exist" for entry in allowed
                     if not os.path.exists(os.path.join(root, entry.rstrip("*")))]
        graph[folder] = {folder_of(entry) for entry in allowed if not entry.endswith("*")} - {folder}
    circle = find_circle(graph)
    return problems + (["the table allows a circle: " + " -> ".join(circle)] if circle else [])


CLEAN = {
    "CMakeLists.txt": """yoke_library(yoke_kernels kernels/*.c kernels/cpu/*.c)  # kernels/cuda/ptx/*.c
        file(GLOB gpu_sources CONFIGURE_DEPENDS kernels/cuda/*.c kernels/cuda/*/*.cu
             parallel/p2p/*.cu)
        add_library(yoke_gpu SHARED ${gpu_sources})
        yoke_library(yoke_parallel parallel/*.c)
        yoke_library(yoke_runtime runtime/engine/*.c runtime/model/*.c runtime/tools/*.c)
        yoke_library(yoke_base runtime/base/*.c)
        yoke_library(yoke_cli loader/*.c runtime/cli/*.c runtime/openai/*.c runtime/study/*.c runtime/text/*.c)
        """,
    "runtime/base/status.h": "#include <stdbool.h>\n",
    "runtime/base/json_tree.h": "#include <jansson.h>\n",
    "runtime/include/yoke/yoke.h": "",
    "kernels/device.h": '#include "base/status.h"\n',
    "kernels/cuda/ptx/mma.cuh": "",
    "kernels/cuda/device/state.h": '#include <cuda_runtime.h>\n#include "kernels/device.h"\n',
    "kernels/cuda/sampling/sampler.h": '#include "kernels/cuda/device/state.h"\n',
    "kernels/cuda/cuda_device.h": '#include "kernels/device.h"\n',
    "kernels/cuda/cuda_device.c": '#include "kernels/cuda/cuda_device.h"\n#include "kernels/cuda/sampling/sampler.h"\n',
    "parallel/p2p/allreduce.cu": '#include "kernels/device.h"\n',
    "parallel/comm.h": '#include "kernels/device.h"\n',
    "parallel/comm_nccl.c": '#include <nccl.h>\n#include "comm.h"\n#include "kernels/cuda/cuda_device.h"\n',
    "runtime/model/model.h": '#include "kernels/device.h"\n#include "parallel/comm.h"\n',
    "runtime/engine/b.h": '#include "model/model.h"\n',
    "runtime/cli/main.c": '/* #include "model/model.h" */\n#include "yoke/yoke.h"\n',
    "bench/bench_mma.cu": '#include "kernels/cuda/ptx/mma.cuh"\n',
    ".git/bad.c": '#include "no_such.h"\n',
    "build/bad.c": '#include "no_such.h"\n',
}

PLANTED = [
    ("runtime/cli/bad.c", '#include "model/model.h"\n', "runtime/cli/ may include only"),
    ("runtime/cli/bad.c", '#  include <model/model.h>\n', "runtime/cli/ may include only"),
    ("runtime/base/bad.c", '#include "yoke/yoke.h"\n', "runtime/base/ may include only"),
    ("runtime/base/bad.c", "#include <jansson.h>\n", "jansson's trees are for"),
    ("runtime/openai/bad.c", "#include <jansson.h>\n", "jansson's trees are for"),
    ("runtime/engine/bad.c", '#include "base/json_tree.h"\n', "jansson's trees are for"),
    ("runtime/study/bad.c", "json_t *a = json_loads (text, 0, NULL);\n", "not by jansson"),
    ("parallel/bad.c", '#include "../runtime/model/model.h"\n', "parallel/ may include only"),
    ("kernels/bad.c", '#include "parallel/comm.h"\n', "kernels/ may include only"),
    ("kernels/cpu/bad.c", '#include "kernels/cuda/cuda_device.h"\n', "kernels/cpu/ may include only"),
    ("kernels/cuda/ptx/bad.cuh", '#include "kernels/device.h"\n', "kernels/cuda/ptx/ may include only"),
    ("kernels/cuda/gemm/bad.cuh", "#ifdef YK_HAVE_SM90A\n#endif\n", "does not include kernels/cuda/ptx/target.cuh"),
    ("kernels/cuda/gemm/bad.cuh", 'asm volatile("");\n', "inline PTX is for kernels/cuda/ptx/"),
    ("kernels/cuda/gemm/bad.cu", '#include "kernels/cuda/device/state.h"\n', "kernels/cuda/gemm/ may include only"),
    ("runtime/model/bad.c", '#include "kernels/cuda/device/state.h"\n', "runtime/model/ may include only"),
    ("kernels/cpu/bad.c", "#include <cuda_fp16.h>\n", "CUDA headers"),
    ("runtime/engine/bad.c", "#include <nccl.h>\n", "CUDA headers"),
    ("runtime/text/bad.c", '#include "no_such.h"\n', "names no file"),
    ("runtime/other/bad.c", "", "runtime/other/ has no row"),
    ("kernels/cuda/new/bad.cuh", "", "kernels/cuda/new/ has no row"),
    ("kernels/cuda/new/bad.cuh", '#include "kernels/device.h"\n', "kernels/cuda/new/ has no row"),
    ("examples/bad.c", "", "examples/ has no row"),
    ("bad.c", "", "the root has no row"),
    ("loader/deep/bad.c", "", "loader/deep/ is compiled into no library"),
    ("runtime/model/model.h", '#include "engine/b.h"\n', "circle of modules: "),
    ("runtime/model/model.c", '#include "engine/b.h"\n', "circle of modules: "),
    ("kernels/cuda/device/bad.cu", '#include "kernels/cuda/sampling/sampler.h"\n',
     "circle of folders: kernels/cuda/sampling/ -> kernels/cuda/device/ -> kernels/cuda/sampling/"),
    ("runtime/engine/bad.c", '#include "tools/a.h"\n',
     "circle of folders: runtime/engine/ -> runtime/tools/ -> runtime/engine/"),
    ("parallel/p2p/bad.cu", '#include "parallel/comm.h"\n',
     "circle of libraries: yoke_gpu -> yoke_parallel -> yoke_gpu"),
]

PLANTED_ROWS = [
    ({"runtime/text/": ["runtime/chat/"], "runtime/chat/": ["runtime/text/"]}, "the table allows a circle: "),
    ({"runtime/no_such/": []}, "the row of runtime/no_such/ is about nothing"),
    ({"runtime/text/": ["runtime/base/no_such.h"]}, "runtime/text/ may include runtime/base/no_such.h, which"),
]


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as root:
        rule_check.write_tree(root, CLEAN)
        failures += [f"a clean tree is refused: {problem}" for problem in check_tree(root)]
    for path, text, expected in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            rule_check.write_tree(root, {**CLEAN, "runtime/tools/a.h": '#include "engine/b.h"\n', path: text})
            problems = check_tree(root)
            if not any(expected in problem for problem in problems):
                failures.append(f"{path} with {text.strip()}: expected \"{expected}\", found {problems}")
    for rows, expected in PLANTED_ROWS:
        problems = check_table(rule_check.PROJECT, {**MAY_INCLUDE, **rows})
        if not any(expected in problem for problem in problems):
            failures.append(f"rows {rows}: expected \"{expected}\", found {problems}")
    return failures


if __name__ == "__main__":
    rule_check.run(__doc__, self_test, lambda root: check_table(root, MAY_INCLUDE) + check_tree(root))
