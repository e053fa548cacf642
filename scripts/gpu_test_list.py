#!/usr/bin/env python3
"""Lists the GPU tests of a build, from CTest's labels, for scripts/gpu_tests.sh: a line for each, with tabs between

  name, fewest GPUs that the test needs (label gpuN), "each" or "all" (label all_gpus: as many as there are), command

The command is for a shell in the root of the repository or a package: programs of the build are in "$bin".

Usage: gpu_test_list.py BUILD_DIR
"""

import json
import os
import re
import shlex
import subprocess
import sys


def tests_of(build):
    done = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{build}: expected a build tree that ctest can list: {done.stderr.strip()}")
    return json.loads(done.stdout)["tests"]


def word_of(word, build, root):
    """A word of a command, with $bin/.. for the build's folder, in the repository as current folder."""
    if word.startswith(f"{build}/bin/"):
        return f'"$bin"/{shlex.quote(word[len(build) + 5:])}'
    if word.startswith(f"{root}/"):
        return shlex.quote(word[len(root) + 1:])
    if re.fullmatch(r"/.*/python3?[0-9.]*", word):
        return "python3"
    return shlex.quote(word)


def line_of(test, build, root):
    """None for a test that needs no GPU."""
    properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
    labels = properties.get("LABELS", [])
    counts = [int(label[3:]) for label in labels if re.fullmatch(r"gpu\d+", label)]
    if not counts or "command" not in test:
        return None
    words = [shlex.quote(entry) for entry in properties.get("ENVIRONMENT", [])]
    words += [word_of(word, build, root) for word in test["command"]]
    kind = "all" if "all_gpus" in labels else "each"
    return "\t".join((test["name"], str(min(counts)), kind, " ".join(words)))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = os.path.realpath(sys.argv[1])
    root = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    for line in filter(None, (line_of(test, build, root) for test in tests_of(build))):
        print(line)


if __name__ == "__main__":
    main()
