#!/usr/bin/env python3
"""Comments, identifiers and messages are plain technical English.

No comment or docstring has a word or an opening of the table RULES, in C, CUDA, JavaScript, CSS, linker maps, Python,
CMake and shell. In C and CUDA, no part of an identifier is one of NAME_PARTS, and no string has a phrase of
MESSAGE_RULES. Names of Python tests are checked like identifiers.
Usage: language.py [--root ROOT] [FOLDER ...]; without folders, the whole tree.

First plants violations in a scratch tree and fails unless each is found, so that a broken rule is noticed.
"""

import argparse
import ast
import io
import os
import re
import tempfile
import tokenize

import rule_check

C_LIKE = (".c", ".h", ".cu", ".cuh", ".inc", ".js", ".css", ".map")
HASH_LIKE = (".sh", ".cmake", "CMakeLists.txt", ".ci/run")
NOT_WALKED = {"build", "shared", "results", "golden/families", "__pycache__", "install/headers_0.2"}

START = r"(?:^|(?<=[.!?;:] )|(?<=[.!?]\) ))"
THING = (r"(?:block|code|config|config\.json|device|engine|field|file|flag|function|GPU|header|kernel|layer|model|name|"
         r"option|parser|program|rank|row|scheduler|server|struct|table|test|thread|warp)s?")

# Name of a rule -> (forbidden pattern, replacement).
RULES = {
    "opens with Of": (START + r"Of\b", "begin with the noun: \"Staging pages, one per block\""),
    "opens with What": (START + r"What\b(?![^.]*\?)|^what\b(?!:)",
                        "begin with the noun: \"Norm to run before the router\""),
    "opens with Whose": (START + r"(Whose|Who)\b(?![^.]*\?)", "begin with the noun that has or does it"),
    "told": (r"\btold\b", "code takes, reads, returns or reports"),
    "lone": (r"\blone\b", "a single token, a batch of one"),
    "bring": (r"\b(bring|brings|bringing|brought)\b", "load, repack, convert, upload or copy"),
    "meet": (r"(?i)\b(ranks?|blocks?|GPUs?|devices?|threads?|warps?|groups?|they|all|both|where|who|to) "
             r"((do|does|did|will|have|has|had|may|must|can|never|not|to|all|then) )*(meet|meets|met)\b"
             r"|\bmeetings?\b", "a barrier or an all-reduce"),
    "taken back": (r"\b(take|takes|taking|taken|took) back\b", "reverted, returned or freed"),
    "one's own": (r"\bone's own\b|\boneself\b", "say the purpose"),
    "in turn of": (r"\bin (the )?turn of\b|\b(rank|block|warp|thread)('s|s|s')? turns?\b|\bby turns\b",
                   "a mailbox, slot, barrier; in the order of; alternately"),
    "the ready": (r"\bthe ready\b(?! [a-z]+)", "say who is ready: ranks, blocks, requests"),
    "beside": (r"\bbeside\b", "next to, together with, in parallel with; a shared expert"),
    "behind": (r"\bbehind (the|an?|which|that|each|every|its|their|all|them|it|this|last|another|ids|these|both)\b"
               r"(?! (router|proxy|branch|server|output|next GEMM|bytes|characters|bar))",
               "after, for an order in time, in a text or in memory"),
    "of its own": (r"\bof (its|their) own(?![-\w]| \w)", "separate"),
    "in turn": (r"\bin turns?\b(?! of)", "round-robin, alternately, one after the other"),
    "so many": (r"\bso many\b(?! that)|\bas many(?=[.,;])", "the number, by its name"),
    "whatever": (r"\b(whatever|whoever)\b", "for any, independent of"),
    "alike": (r"\balike\b", "equal, in the same way"),
    "goes on": (r"\b(goes|go|went|going) on\b", "continues"),
    "nobody": (r"\b(nobody|somebody|anybody)\b", "no code, no thread, no caller"),
    "dealt": (r"\bdealt\b", "distributed, assigned"),
    "left behind": (r"\bleft behind\b|\bleaves? nothing\b|\bnothing is left\b", "no memory, file or process remains"),
    "speaking code": (r"(?i)\b" + THING + r" (says|say|said|tells|tell|asks|asked for by|knows|know|wants|want)\b",
                      "code returns, reports, reads, checks or takes"),
}

# Parts of identifiers, between underscores -> the name to use instead.
NAME_PARTS = {
    "lone": "single", "beside": "shared, fused, with", "room": "staging, buffer, capacity", "rooms": "buffers",
    "meet": "barrier, combine", "meeting": "barrier", "meetings": "barriers", "told": "reported", "tell": "report",
    "tells": "reports", "said": "content, text", "says": "message", "bring": "load, repack", "brings": "loads",
    "brought": "loaded", "ask": "query, call, issue", "asks": "queries", "asked": "requested", "knows": "has, checks",
}
NAME_RULE = "part of a name"

# Phrases in strings of C: messages, help and names of operations.
MESSAGE_RULES = {
    "message: speaking code": (r"\b(config\.json|log|option|NVML|\w+_config|%s) (says|knows|tells)\b",
                               "has, requires, reports"),
    "message: told": (r"\b(is|are|was|were|be|nobody has) told\b", "reported"),
    "message: goes on": (r"\bgoes on\b|\bgo on with\b", "continues"),
    "message: written over": (r"\b(not|never) written over\b", "not overwritten"),
    "message: its own": (r"\b(a place|one) of its own\b", "say what it needs"),
    "message: lone": (r"\blone (row|rank|token|prompt)s?\b|\bturn of rows\b", "a single token; a barrier"),
}

# (file, rule, words of the comment): places where a banned word is the term of the field or another's word.
EXCEPTED = []

# Terms of the field that a rule would find: these words are removed from a comment first.
TERMS = re.compile(r"\blone (surrogate|high|low)s?\b|`[^`]*`|\"[^\"]*\"")

C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`|/\*.*?\*/|//[^\n]*', re.DOTALL)


def joined(lines):
    """Comments in adjacent lines are one comment: (line, text) of each from (line, text, is_whole_line) of lines."""
    comments, last = [], None
    for line, text, is_whole in lines:
        if is_whole and last == line - 1:
            comments[-1][1] += " " + text
        else:
            comments.append([line, text])
        last = line if is_whole else None
    return comments


def c_comments(text):
    lines, blocks = [], []
    for match in C_TOKEN.finditer(text):
        line, token = text.count("\n", 0, match.start()) + 1, match.group()
        if token.startswith("//"):
            start = text.rfind("\n", 0, match.start()) + 1
            lines.append((line, token[2:].strip(), not text[start:match.start()].strip()))
        elif token.startswith("/*"):
            words = [re.sub(r"^\s*\*+", "", part).strip() for part in token[2:-2].strip("*").split("\n")]
            blocks.append([line, " ".join(words).strip()])
    return joined(lines) + blocks


def hash_comments(text):
    lines = []
    for line, written in enumerate(text.split("\n"), 1):
        whole, trailing = re.match(r"\s*#+(?!!)(.*)", written), re.search(r"\s# (.*)$", written)
        if whole or trailing:
            lines.append((line, (whole or trailing).group(1).strip(), bool(whole)))
    return joined(lines)


def python_comments(text):
    lines = [(token.start[0], token.string.lstrip("#").strip(), token.line.strip().startswith("#"))
             for token in tokenize.generate_tokens(io.StringIO(text).readline)
             if token.type == tokenize.COMMENT and not token.string.startswith("#!")]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    strings = [[node.body[0].lineno, " ".join(ast.get_docstring(node).split())]
               for node in ast.walk(ast.parse(text)) if isinstance(node, documented) and ast.get_docstring(node)]
    return joined(lines) + strings


def comments_of(root, path):
    """(line, text) of each comment of a file, the text in one line."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".py"):
        return python_comments(text)
    return c_comments(text) if path.endswith(C_LIKE) else hash_comments(text)


def commented_files(root, under=""):
    start = os.path.join(root, under)
    if os.path.isfile(start):
        yield under
        return
    for folder, folders, names in os.walk(start):
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        folders[:] = sorted(name for name in folders if (not name.startswith(".") or name == ".ci")
                            and name not in NOT_WALKED and f"{os.path.basename(inside)}/{name}" not in NOT_WALKED)
        for name in sorted(names):
            path = name if inside == "." else f"{inside}/{name}"
            if path.endswith((".py", *C_LIKE, *HASH_LIKE)):
                yield path


def check_comment(path, line, text):
    """Every rule that a comment breaks, as lines."""
    text = TERMS.sub("", text.strip("- "))
    problems = []
    for rule, (pattern, instead) in RULES.items():
        if any(path == file and rule == name and words in text for file, name, words in EXCEPTED):
            continue
        for match in re.finditer(pattern, text):
            around = text[max(0, match.start() - 24):match.end() + 24]
            problems.append(f"{path}:{line}: \"{rule}\" in \"{around}\"; instead: {instead}")
    return problems


def check_name(path, line, name):
    """A name with a banned part, as a list of at most one line."""
    return [f"{path}:{line}: \"{NAME_RULE}\": \"{part}\" of {name}; instead: {NAME_PARTS[part]}"
            for part in name.lower().split("_") if part in NAME_PARTS][:1]


def check_string(path, line, text):
    return [f"{path}:{line}: \"{rule}\" in {text}; instead: {instead}"
            for rule, (pattern, instead) in MESSAGE_RULES.items() if re.search(pattern, text)]


def check_c_code(path, text):
    """Strings, and identifiers outside strings and comments, each name once."""
    strings, code = [], C_TOKEN.sub(" ", text)
    for match in re.finditer(C_TOKEN, text):
        if match.group().startswith('"'):
            strings += check_string(path, text.count("\n", 0, match.start()) + 1, match.group())
    return strings + [problem for name in sorted(set(re.findall(r"[A-Za-z_]\w*", code)))
                      for problem in check_name(path, text.count("\n", 0, text.find(name)) + 1, name)]


def check_code(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    if path.endswith((".c", ".h", ".cu", ".cuh", ".inc")):
        return check_c_code(path, text)
    tests = re.finditer(r"^ *def (test_\w+)", text, re.MULTILINE) if path.endswith(".py") else ()
    return [problem for match in tests
            for problem in check_name(path, text.count("\n", 0, match.start(1)) + 1, match.group(1))]


def check_tree(root, unders=("",)):
    """Every violation in the given folders, as lines."""
    paths = [path for under in unders for path in commented_files(root, under.rstrip("/"))]
    comments = [problem for path in paths for line, text in comments_of(root, path)
                for problem in check_comment(path, line, text)]
    return comments + [problem for path in paths for problem in check_code(root, path)]


def check_lists(root):
    """Exceptions that no longer have a reason."""
    problems = []
    for path, rule, words in EXCEPTED:
        texts = [text for _, text in comments_of(root, path)] if os.path.isfile(os.path.join(root, path)) else []
        if not any(words in text and re.search(RULES[rule][0], text) for text in texts):
            problems.append(f"the exception of {path} for \"{words}\" is about nothing that exists")
    return problems


CLEAN = {
    "a.c": "/* Staging pages, one per block of a layer. A lone surrogate is replaced. `the lone` is a name. */\n"
           "char *s = \"Of /* What \\\" is alone\";  // A string is no comment.\nint alone_row, roomy;\n",
    "b.py": "# Copies next to the file, all of it.\nn = 2  # of a block\nX = 'What # Of the lone'\n",
    "c.sh": "echo \"What is told\" # prints a line\n",
    "CMakeLists.txt": "message(\"Of what\")  # two GPUs of a host\n",
    "d.js": "let url = \"http://lone\"; // Is the link open? What if not?\nlet t = `Of ${url} // told`;\n",
    "build/bad.c": "/* What is told */\n",
}

PLANTED = [
    ("bad.c", "/* Of 8 bits: pages. */\n", "opens with Of"),
    ("bad.h", "int n; /* Of a block */\n", "opens with Of"),
    ("bad.c", "/* ---- What is refused ---- */\n", "opens with What"),
    ("bad.cu", "/*\n * Copies a row. Of the rest\n * nothing.\n */\n", "opens with Of"),
    ("bad.cuh", "// Rows: a list.\n// What a row gives.\n", "opens with What"),
    ("bad.py", "def f():\n    \"\"\"What git prints.\"\"\"\n", "opens with What"),
    ("bad.py", "x = 1  # what git prints\n", "opens with What"),
    ("bad.sh", "# Prints.\n# Who reads: readers.\n", "opens with Whose"),
    ("CMakeLists.txt", "set(a b) # Flags are told\n", "told"),
    ("bad.cmake", "# the lone row\n", "lone"),
    ("bad.inc", "/* a lone\n * row */\n", "lone"),
    ("bad.c", "/* Experts and beside experts. */\n", "beside"),
    ("bad.js", "f(); // brought here\n", "bring"),
    ("bad.css", "/* brings */\n", "bring"),
    ("bad.c", "/* Ranks never meet here. */\n", "meet"),
    ("bad.c", "/* After the meeting. */\n", "meet"),
    ("bad.py", "# taken back\n", "taken back"),
    ("bad.c", "/* A layer of one's own. */\n", "one's own"),
    ("bad.c", "/* in turn of their ranks */\n", "in turn of"),
    ("bad.c", "/* Counts the ready. */\n", "the ready"),
    ("bad.c", "/* As the table says. */\n", "speaking code"),
    ("bad.c", "/* The bytes behind the last row. */\n", "behind"),
    ("bad.py", "# a kernel of its own\n", "of its own"),
    ("bad.c", "/* Warps take tiles in turn. */\n", "in turn"),
    ("bad.c", "/* Adds so many bytes. */\n", "so many"),
    ("bad.sh", "# works whatever the path is\n", "whatever"),
    ("bad.c", "/* Ranks that are alike. */\n", "alike"),
    ("bad.js", "f(); // the answer goes on\n", "goes on"),
    ("bad.c", "/* Nothing that nobody reads. */\n", "nobody"),
    ("bad.c", "/* Experts are dealt whole. */\n", "dealt"),
    ("bad.py", "# no file is left behind\n", "left behind"),
    ("bad.h", "/* A comment. */\nint n_told;\n", NAME_RULE),
    ("bad.cu", "enum { LONE_ROWS = 2 };\n", NAME_RULE),
    ("bad.py", "def test_readiness_is_told():\n    pass\n", NAME_RULE),
    ("bad.c", "char *s = \"as config.json says\";\n", "message: speaking code"),
    ("bad.c", "char *s = \"nobody has told\";\n", "message: told"),
    ("bad.c", "char *s = \"this goes on:\";\n", "message: goes on"),
    ("bad.c", "char *s = \"it is not written over\";\n", "message: written over"),
    ("bad.c", "char *s = \"each needs one of its own\";\n", "message: its own"),
    ("bad.c", "run(\"turn of rows\");\n", "message: lone"),
]


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as root:
        rule_check.write_tree(root, CLEAN)
        failures += [f"a clean tree is refused: {problem}" for problem in check_tree(root)]
    for path, text, rule in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            rule_check.write_tree(root, {f"deep/{path}": text})
            problems = check_tree(root)
            if len(problems) != 1 or f"\"{rule}\"" not in problems[0]:
                failures.append(f"{path} with {text.strip()}: expected \"{rule}\" once, found {problems}")
            if not check_tree(root, ["deep/"]):
                failures.append(f"{path}: folders are not selected")
    unused = sorted({*RULES, *MESSAGE_RULES, NAME_RULE} - {rule for _, _, rule in PLANTED})
    return failures + [f"rule \"{rule}\" has no planted violation" for rule in unused]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=rule_check.PROJECT)
    parser.add_argument("folders", nargs="*")
    arguments = parser.parse_args()
    folders = arguments.folders or ("",)
    rule_check.finish(self_test() + check_lists(arguments.root) + check_tree(arguments.root, folders))


if __name__ == "__main__":
    main()
