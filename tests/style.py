#!/usr/bin/env python3
"""Runs clang-format or clang-tidy on the files of a change: those that differ from the merge base with the main branch
or, on that branch, from the last commit but one; uncommitted ones too. Exit code 77, with a message, if git, the tool
or its version is missing: other versions format differently.

First plants a violation in a scratch repository and fails unless it is found.

Usage: style.py format|tidy BUILD_DIR [ROOT]
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

VERSION = 14  # Debian 12's
MAIN_BRANCHES = ("origin/HEAD", "origin/main", "main")
FORMATTED = (".c", ".h", ".cu", ".cuh")
MOST_TIDY_FILES = 24  # 1 to 4 s each
# The analyser stops after 50,000 states of a function instead of 225,000: it finds most problems early.
ANALYSER = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=50000")]
SKIPPED = 77


def run(root, *command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def git(root, *arguments):
    """The output of git, or None if it fails."""
    done = run(root, "git", *arguments)
    return done.stdout.strip() if done.returncode == 0 else None


def base_of(root):
    """The commit that a change begins at, or None outside of a repository."""
    head = git(root, "rev-parse", "HEAD")
    for branch in MAIN_BRANCHES:
        base = git(root, "merge-base", "HEAD", branch)
        if base and base != head:
            return base
    return git(root, "rev-parse", "--verify", "-q", "HEAD~1") or head


def changed_files(root, base):
    """Paths that exist, with those that changed most first."""
    counts = {}
    for line in (git(root, "diff", "--numstat", "--no-renames", "--diff-filter=d", base) or "").splitlines():
        added, _, path = line.split("\t")
        counts[path] = int(added) if added.isdigit() else 0
    for path in (git(root, "ls-files", "--others", "--exclude-standard") or "").splitlines():
        counts[path] = 0
    return sorted(counts, key=lambda path: (-counts[path], path))


def check_format(root, _build, paths):
    paths = [path for path in paths if path.endswith(FORMATTED)]
    done = run(root, "clang-format", "--dry-run", "-Werror", "-style=file", *paths) if paths else None
    print(f"clang-format: {len(paths)} changed files")
    return done.stderr if done and done.returncode else ""


def check_tidy(root, build, paths):
    """On sources of this build; a header is checked with the source of its name."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        compiled = {os.path.realpath(entry["file"]) for entry in json.load(file) if entry["file"].endswith(".c")}
    sources = dict.fromkeys(re.sub(r"\.h$", ".c", path) for path in paths)
    sources = [path for path in sources if os.path.realpath(os.path.join(root, path)) in compiled]
    checked = sources[:MOST_TIDY_FILES]
    print(f"clang-tidy: {len(checked)} of {len(sources)} changed sources, those with most new lines")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(lambda path: run(root, "clang-tidy", "--quiet", *ANALYSER, "-p", build, path), checked)
    return "".join(result.stdout for result in done if result.returncode)


CHECKS = {"format": check_format, "tidy": check_tidy}


def has_tool(tool):
    version = run(".", tool, "--version").stdout if shutil.which(tool) else ""
    found = re.search(r"version (\d+)", version)
    return found is not None and int(found[1]) == VERSION


def plant(root, name, text):
    with open(os.path.join(root, name), "w", encoding="utf-8") as file:
        file.write(text)


def self_test(what, project):
    """Checks that a fault in a changed file is found, and a fault in an unchanged file is ignored."""
    bad = {"format": "int  f(void);\n", "tidy": "int f(int a)\n{\n  if (a);\n  return a;\n}\n"}[what]
    with tempfile.TemporaryDirectory() as root:
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(os.path.join(project, name), root)
        plant(root, "compile_commands.json", json.dumps([
            {"directory": root, "file": os.path.join(root, name), "command": f"cc -c {name}"}
            for name in ("old.c", "new.c")]))
        plant(root, "old.c", bad)
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        git(root, "init", "-q", "-b", "main")
        git(root, "add", ".")
        git(root, *identity, "commit", "-qm", "first")
        git(root, "checkout", "-qb", "change")
        if CHECKS[what](root, root, changed_files(root, base_of(root))):
            return "an unchanged file is refused"
        plant(root, "new.c", bad)
        git(root, "add", ".")
        git(root, *identity, "commit", "-qm", "second")
        found = CHECKS[what](root, root, changed_files(root, base_of(root)))
        return "" if "new.c" in found and "old.c" not in found else f"a planted fault is not found: {found}"


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in CHECKS:
        sys.exit(__doc__)
    what, build = sys.argv[1:3]
    project = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    root = os.path.realpath(sys.argv[3]) if len(sys.argv) > 3 else project
    if not has_tool(f"clang-{what}"):
        print(f"no clang-{what} {VERSION} here: nothing is checked")
        sys.exit(SKIPPED)
    base = base_of(root) if shutil.which("git") else None
    if not base:
        print("no git repository here: nothing is checked")
        sys.exit(SKIPPED)
    with contextlib.redirect_stdout(io.StringIO()):
        problems = self_test(what, project)
    problems = problems or CHECKS[what](root, os.path.realpath(build), changed_files(root, base))
    if problems:
        sys.exit(problems)


if __name__ == "__main__":
    main()
