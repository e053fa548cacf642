#!/usr/bin/env python3
"""No function of C or Python has more than 60 lines, the constant tables of C functions aside; no file has more than
650. Sources of GPU kernels are left out: an unrolled pipeline is one function.

First plants long functions and files in a scratch tree and fails unless each is found, so that a broken rule is
noticed.
"""

import ast
import os
import re
import tempfile

import rule_check

MOST_OF_FUNCTION, MOST_OF_FILE = 60, 650
SOURCE = re.compile(r"\.(c|h|inc|py)$")
GENERATED = {"runtime/text/unicode_tables.c", "tests/golden/delta_goldens.h", "tests/golden/mamba_goldens.h",
             "tests/golden/rope_goldens.h"}


def without_tables(lines):
    """The numbered lines that belong to no constant table of a function. A table begins with const and ends with the
    line of its last brace."""
    is_inside = False
    for number, line in enumerate(lines, 1):
        is_inside = is_inside or (line.startswith(("  static const ", "  const ")) and line.endswith("{"))
        if not is_inside:
            yield number, line
        is_inside = is_inside and not line.endswith("};") and not (line.startswith("  }") and line.endswith(";"))


def c_functions(lines):
    """First line and length of each body: from a line with { alone to the next line that begins with }."""
    start = None
    for number, line in without_tables(lines):
        if line == "{":
            start, length = number, 0
        length = length + 1 if start else 0
        if line.startswith("}") and start:
            yield start, length
            start = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def check_tree(root):
    """Every function and file that is too long, as a line of text."""
    problems = []
    for path in rule_check.walk(root, SOURCE, GENERATED):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        lines = text.splitlines()
        if len(lines) > MOST_OF_FILE:
            problems.append(f"{path}: {len(lines)} lines, more than {MOST_OF_FILE}: split it by subject")
        for number, length in python_functions(text) if path.endswith(".py") else c_functions(lines):
            if length > MOST_OF_FUNCTION:
                problems.append(f"{path}:{number}: a function of {length} lines, more than {MOST_OF_FUNCTION}")
    return problems


def self_test():
    failures = []
    for name, text, is_found in (
        ("a/b.c", "int f(void)\n{\n" + "  g();\n" * (MOST_OF_FUNCTION - 1) + "}\n", True),
        ("b.h", "int f(void)\n{\n" + "  g();\n" * (MOST_OF_FUNCTION - 2) + "}\n", False),
        ("b.c", "int f(void)\n{\n  static const int a[] = {\n" + "    1,\n" * MOST_OF_FUNCTION + "  };\n}\n", False),
        ("c.c", "int f(void)\n{\n  const int a[] = {1};\n" + "  g();\n" * MOST_OF_FUNCTION + "}\n", True),
        ("c.py", "class A:\n    def f(self):\n" + "        g()\n" * MOST_OF_FUNCTION, True),
        ("d.py", "def f():\n" + "    g()\n" * (MOST_OF_FUNCTION - 1), False),
        ("e.c", "int a;\n" * (MOST_OF_FILE + 1), True),
        ("f.c", "int a;\n" * MOST_OF_FILE, False),
        ("g.cuh", "int a;\n" * (MOST_OF_FILE + 1), False),
        ("build/h.c", "int a;\n" * (MOST_OF_FILE + 1), False),
    ):
        with tempfile.TemporaryDirectory() as root:
            rule_check.write_tree(root, {name: text})
            if bool(check_tree(root)) != is_found:
                failures.append(f"{text.count(chr(10))} lines in {name} are {'not found' if is_found else 'refused'}")
    return failures


if __name__ == "__main__":
    rule_check.run(__doc__, self_test, check_tree)
