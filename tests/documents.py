#!/usr/bin/env python3
"""Checks documents: every link leads to an existing file and heading, every path of the project that stands as code
exists, code is fenced, and pages for users are short.

First plants faults in a scratch tree and fails unless each is found, so that a broken rule is noticed.
"""

import glob
import os
import re
import tempfile

import rule_check

MOST_LINES = 150  # of a README
FOLDERS = ("bench", "kernels", "loader", "parallel", "runtime", "scripts", "tests")
PLACEHOLDER = re.compile(r"[A-Z]{3,}|[<>$()=:]")  # format_NAME.c; not README.md
LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)|(?:src|srcset|href)=\"([^\"\s]+)\"")


def alternatives(path):
    """The paths that a path with {a,b} stands for."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [one for part in braces[1].split(",") for one in alternatives(
        path[:braces.start()] + part + path[braces.end():])]


def lost_paths(root, line):
    """Paths from the top of the project, in code of a line, that lead nowhere. * stands for any name."""
    for code in re.findall(r"`([^`]*)`", line):
        for path in code.split():
            is_path = path.split("/")[0] in FOLDERS and "/" in path
            if not is_path or PLACEHOLDER.search(path.replace("README.md", "")):
                continue
            for one in alternatives(path):
                if not glob.glob(os.path.join(root, one)):
                    yield one


def without_code(text):
    """The text with fenced blocks and code between backticks emptied, line by line."""
    lines, is_code = [], False
    for line in text.splitlines():
        is_fence = line.startswith("```")
        lines.append("" if is_code or is_fence else re.sub(r"`[^`]*`", "", line))
        is_code = is_code != is_fence
    return lines


def anchors(text):
    """The anchors that GitHub derives from the headings of a text."""
    found, is_code = set(), False
    for line in text.splitlines():
        is_code = is_code != line.startswith("```")
        heading = None if is_code else re.match(r"#+ +(.*)", line)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading[1].replace("`", "").lower())
            found.add(words.strip().replace(" ", "-"))
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_link(root, path, target):
    """Error of a link, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    name, _, heading = target.partition("#")
    at = os.path.normpath(os.path.join(root, os.path.dirname(path), name)) if name else os.path.join(root, path)
    if not os.path.exists(at):
        return "no such file"
    if heading and (not at.endswith(".md") or heading not in anchors(read(at))):
        return f"{os.path.relpath(at, root)} has no heading of this name"
    return None


def check_tree(root):
    problems = []
    for path in rule_check.walk(root, re.compile(r"\.md$"), ()):
        text = read(os.path.join(root, path))
        n_lines = len(text.splitlines())
        if os.path.basename(path) == "README.md" and n_lines > MOST_LINES:
            problems.append(f"{path}: {n_lines} lines; a README has at most {MOST_LINES}")
        fences = [(number, line) for number, line in enumerate(text.splitlines(), 1) if "```" in line]
        problems += [f"{path}:{number}: expected a fence alone on its line" for number, line in fences
                     if not re.fullmatch(r"```\w*", line)]
        if len(fences) % 2:
            problems.append(f"{path}:{fences[-1][0]}: a fence without its other end")
        problems += [f"{path}:{number}: no such path: {lost}" for number, line in enumerate(text.splitlines(), 1)
                     for lost in lost_paths(root, line)]
        for number, line in enumerate(without_code(text), 1):
            for match in LINK.finditer(line):
                target = match[1] or match[2]
                problem = check_link(root, path, target)
                if problem:
                    problems.append(f"{path}:{number}: link to {target}: {problem}")
    return problems


def self_test():
    failures = []
    for text, is_found in (("[a](b.md)", True), ("[a](#no)", True), ("[a](c.md#no)", True), ('<img src="x.svg">', True),
                           ("![a](no.png)", True), ("[a](../d/c.md#a-b-8-bits)", False), ("[a](#here)\n# Here", False),
                           ("[a](https://x)", False), ("`[a](b.md)`", False), ("```\n[a](b.md)\n```", False),
                           ("[a](.)", False), ("```\n# Here\n```\n[a](#here)", True), ("x\n" * MOST_LINES, False),
                           ("x\n" * (MOST_LINES + 1), True),
                           ("`tests/no.py`", True), ("`tests/{a,no}.py -x`", True),
                           ("`tests/{a}.py tests/* tests/NAME.c`", False), ("``` a ```", True), ("```\na", True),
                           ("```sh\na\n```", False)):
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "d"))
            for name, content in (("c.md", "# A `b`, 8 bits\n"), ("README.md", text)):
                with open(os.path.join(root, "d", name), "w", encoding="utf-8") as file:
                    file.write(content)
            rule_check.write_tree(root, {"tests/a.py": ""})
            if bool(check_tree(root)) != is_found:
                failures.append(f"{text[:40]!r} is {'not found' if is_found else 'refused'}")
    return failures


if __name__ == "__main__":
    rule_check.run(__doc__, self_test, check_tree)
