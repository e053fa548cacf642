"""Common parts of the checks of rules on source files: trees with planted faults, and the command line."""

import argparse
import os
import sys

PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def write_tree(root, files):
    """Writes each path of the dict below root, with its text."""
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text)


def walk(root, written, left_out=(), not_walked=frozenset({"build", "__pycache__"})):
    """Paths below root, with /, of the files whose names match the pattern written; without those in left_out."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in not_walked and not name.startswith("."))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            if written.search(name) and path not in left_out:
                yield path


def finish(problems):
    """Prints all problems; ends the program with 1 if there is one."""
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


def run(description, self_test, check_tree):
    """The program of a check: its self-test, then the tree that the command line names (the project)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=PROJECT)
    root = parser.parse_args().root
    finish(self_test() + check_tree(root))
