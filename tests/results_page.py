#!/usr/bin/env python3
"""Checks that bench/RESULTS.md is the page that bench/make_results.py writes from bench/results.

First plants faults in a copy and fails unless each is found: a changed figure, a page edited by hand, a file that no
table reads, figures without a commit, a page that is too long.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPEEDS = "results/models_1869a2e_h200.json"


def check(bench):
    """The report of --check on a folder like bench, empty if the page agrees with the files."""
    program = [sys.executable, "-B", os.path.join(ROOT, "bench/make_results.py"), "--check", "--root", bench]
    found = subprocess.run(program, capture_output=True, text=True, check=False)
    return found.stderr if found.returncode else ""


def edit(path, change):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(change(text))


def without_commit(text):
    found = json.loads(text)
    del found["commit"]
    return json.dumps(found)


PLANTED = (
    ("a changed figure", "RESULTS.md", SPEEDS, lambda text: text.replace("536.1", "636.1")),
    ("a page edited by hand", "RESULTS.md", "RESULTS.md", lambda text: text + "One more line.\n"),
    ("figures without a commit", "no machine or no commit", SPEEDS, without_commit),
    ("a long page", "lines, more than", "results/gpu_tests.json",
     lambda text: json.dumps({**json.loads(text), "passed": json.loads(text)["passed"] * 100})),
)


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (fault, reported, name, change) in enumerate(PLANTED):
            bench = os.path.join(folder, str(number))
            shutil.copytree(os.path.join(ROOT, "bench/results"), os.path.join(bench, "results"))
            shutil.copy(os.path.join(ROOT, "bench/RESULTS.md"), bench)
            edit(os.path.join(bench, name), change)
            if reported not in check(bench):
                failures.append(f"{fault} is not found")
        bench = os.path.join(folder, "0")
        with open(os.path.join(bench, "results/new.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        if "new.json: no table" not in check(bench):
            failures.append("a file that no table reads is not found")
    return failures


def main():
    problems = self_test()
    found = check(os.path.join(ROOT, "bench"))
    if found:
        problems.append(f"{found}bench/RESULTS.md: write it anew by python3 bench/make_results.py")
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
