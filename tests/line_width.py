#!/usr/bin/env python3
"""No line in code, scripts and documents is wider than 120 columns, except for the rows of documents' tables.

First plants wide lines in a scratch tree and fails unless each is found, so that a broken rule is noticed.
"""

import os
import re
import tempfile

import rule_check

MOST_COLUMNS = 120
WRITTEN = re.compile(r"(\.(c|h|cu|cuh|inc|py|sh|md|cmake|map|in)|^CMakeLists\.txt)$")
NOT_WALKED = {"build", "results", "__pycache__"}


def check_tree(root):
    """Every line that is too wide, as a line of text."""
    problems = []
    for path in rule_check.walk(root, WRITTEN, not_walked=NOT_WALKED):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                n_columns = len(line.rstrip("\n"))
                is_row = path.endswith(".md") and line.startswith("|")
                if n_columns > MOST_COLUMNS and not is_row:
                    problems.append(f"{path}:{number}: {n_columns} columns, more than {MOST_COLUMNS}")
    return problems


def self_test():
    fits, wide = "\u00e9" * MOST_COLUMNS, "x" * (MOST_COLUMNS + 1)
    failures = []
    for name, text, is_found in (("a/b.c", wide, True), ("b.cuh", f"\n{wide}", True), ("tests/c.py", wide, True),
                                 ("d.sh", wide, True), ("e.md", wide, True), ("CMakeLists.txt", wide, True),
                                 ("f.c", fits, False), ("g.md", f"|{wide}|", False), ("h.json", wide, False),
                                 ("build/i.c", wide, False)):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
            if bool(check_tree(root)) != is_found:
                what = "not found" if is_found else "refused"
                failures.append(f"a line of {len(text)} characters in {name} is {what}")
    return failures


if __name__ == "__main__":
    rule_check.run(__doc__, self_test, check_tree)
