"""Shared by the tests of the program. Each test file is run as `python3 FILE PATH_OF_YOKE [unittest's arguments]`.

Environment: YOKE_TEST_DEVICE (cpu) and, on cuda, YOKE_TEST_RANKS (1) select the device of tests that use ON.
YOKE_REQUIRE_GPU=N makes fewer than N GPUs a failure; tests that need more than N skip. Without GPUs: exit code 77.
"""

import concurrent.futures
import ctypes
import fcntl
import functools
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

TESTS_DIR = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
DEMO = os.path.join(TESTS_DIR, "models", "demo")
FAMILIES = os.path.join(TESTS_DIR, "golden", "families")
TIMEOUT_S = 240
ON_CPU = os.environ.get("YOKE_TEST_DEVICE", "cpu") == "cpu"
RANKS = 0 if ON_CPU else int(os.environ.get("YOKE_TEST_RANKS", 1))
ON = ["--device", "cpu"] if ON_CPU else ["--device", "cuda", "--tp", str(RANKS)]
DTYPE, DTYPE_BYTES = ("float32", 4) if ON_CPU else ("float16", 2)  # the most exact type


# Models for tests of answers that must not depend on other requests. Mixtures run on CPU only, because rounding on GPUs
# turns near ties of their routers.
TINY_MODELS = ["qwen3", *(["moe_qwen3", "deepseek_v3"] if ON_CPU else [])]


def count_gpus():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def gate(n_needed):
    """End the program unless it may use this many GPUs."""
    required = os.environ.get("YOKE_REQUIRE_GPU")
    n_gpus = count_gpus()
    if n_gpus < int(required or 0):
        sys.exit(f"YOKE_REQUIRE_GPU={required}, but there are {n_gpus} GPUs")
    if n_needed > min(n_gpus, int(required or n_gpus)):
        print("skipped, no device" if n_gpus == 0 else f"skipped, needs {n_needed} GPUs")
        sys.exit(77)


def need_package(name):
    """End the program, skipped, unless this Python has a package."""
    if not importlib.util.find_spec(name):
        print(f"skipped: no Python package {name}")
        sys.exit(77)


def has_grammar_library():
    """Whether the grammar library of constrained output is installed where the program of argv[1] finds it."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "..", "..", "yoke-grammar")
    return bool(os.environ.get("YOKE_GRAMMAR_LIBRARY")) or os.path.isdir(beside)


def need_grammar_library():
    """End the program, skipped, unless the grammar library is installed, and under the thread sanitizer, which knows
    nothing of the library's own synchronisation."""
    if not has_grammar_library() or is_sanitized(sys.argv[1], "tsan"):
        print("skipped: no grammar library (scripts/install_grammar.py installs it), or the thread sanitizer")
        sys.exit(77)


def main():
    """Run the tests of the calling file."""
    if RANKS:
        gate(RANKS)
    Case.yoke = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


def scratch_folder(add_cleanup):
    """A new folder, removed at the end of the test or class whose add_cleanup this is."""
    folder = tempfile.TemporaryDirectory()
    add_cleanup(folder.cleanup)
    return folder.name


def make_turn_end_model(folder):
    """The demo model with its end-of-text token renamed to <|im_end|>, which no file lists as an end."""
    shutil.copytree(DEMO, folder)
    other = {"<|endoftext|>": "<|im_end|>", "<|im_end|>": "<|endoftext|>"}
    for name, change in (("tokenizer.json", lambda value: {**value, "added_tokens": [
            {**token, "content": other.get(token["content"], token["content"])} for token in value["added_tokens"]]}),
                         ("tokenizer_config.json", lambda value: {**value, "eos_token": None, "added_tokens_decoder": {
                             id: {**token, "content": other.get(token["content"], token["content"])}
                             for id, token in value["added_tokens_decoder"].items()}}),
                         ("config.json", lambda value: {**value, "eos_token_id": 919}),
                         ("generation_config.json", lambda value: {"do_sample": False})):
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as file:
            value = change(json.load(file))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
    return folder


def make_text_model(folder, add_bos=False):
    """A random model of 200 tokens with a byte-level tokenizer: its output is nonsense with incomplete characters."""
    shutil.copytree(os.path.join(FAMILIES, "qwen3"), folder)
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]  # GPT-2's characters for bytes
    hidden = [byte for byte in range(256) if byte not in shown]
    character = {**{byte: chr(byte) for byte in shown}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}
    alphabet = [character[byte] for byte in [10, *range(32, 127), *range(128, 192), 0xC3, 0xC4, 0xE2, 0xF0]]
    merges = [["t", "h"], ["th", "e"], [character[32], "the"], ["i", "n"], ["a", "n"], ["an", "d"]]
    tokens = ["<unk>", "<s>", "</s>", *alphabet, *map("".join, merges)]
    tokens += [f"zq{i}" for i in range(len(tokens), 200)]
    bos = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                    {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in range(3)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": bos if add_bos else None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges},
    }
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    return folder


# For tests and classes of tests: most of the time of a program on GPUs is its start.
of_the_program = unittest.skipUnless(ON_CPU, "of the program, not of the device")


@functools.cache
def is_sanitized(program, *by):
    """Whether the program was built with one of these sanitizers (default: "asan" and "tsan")."""
    with open(program, "rb") as file:
        text = file.read()
    return any(f"__{name}_init".encode() in text for name in by or ("asan", "tsan"))


def with_small_cache(program, arguments):
    """The program's arguments; under a sanitizer, and if they name no size, with a small KV cache, since the shadow
    memory of the default size takes longer to write than most tests run."""
    arguments = [*map(str, arguments)]
    if arguments[:1] == ["generate"] and "--kv-cache-bytes" not in arguments and is_sanitized(program):
        arguments[1:1] = ["--kv-cache-bytes", "32MiB"]
    return arguments


class Case(unittest.TestCase):
    yoke = None

    def in_parallel(self, function, items):
        """The results for all items, in order; several at once on GPUs, where the programs mostly wait."""
        with concurrent.futures.ThreadPoolExecutor(1 if ON_CPU else 6) as pool:
            return list(pool.map(function, items))

    def run_yoke(self, *arguments, stdin="", expect=0, env=None):
        """Run the program to its end, with env added to the environment. Checks the exit code, and that nothing
        crashed."""
        stdin = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run([self.yoke, *with_small_cache(self.yoke, arguments)], input=stdin, capture_output=True,
                              timeout=TIMEOUT_S, env={**os.environ, **(env or {})}, check=False)
        done.out, done.err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace")
        self.assertNotIn("Sanitizer", done.err)
        self.assertEqual(done.returncode, expect, f"{arguments}: {done.err}")
        return done

    def run_on_terminal(self, *arguments, columns=0, with_output=False):
        """Run the program with a terminal as stderr, and optionally as stdout; returns the terminal's content, also if
        erased. columns: width of the terminal."""
        terminal, end = os.openpty()
        if columns:
            fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([self.yoke, *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=end if with_output else subprocess.DEVNULL, stderr=end) as program:
            os.close(end)
            seen = b""
            with open(terminal, "rb", buffering=0) as file:
                try:
                    while chunk := file.read(4096):
                        seen += chunk
                except OSError:  # the other end is closed
                    pass
            self.assertEqual(program.wait(TIMEOUT_S), 0)
        return seen.decode()

    def assert_same_tokens(self, found, expected):
        """Equal on CPU. GPUs split sums by the rows of a step, so tokens may differ after a near tie or a draw near a
        border, but not within the first half."""
        n = max(len(found), len(expected)) if ON_CPU else (len(expected) + 1) // 2
        self.assertEqual(found[:n], expected[:n])

    def run_json(self, *arguments, stdin="", expect=0):
        """Run with --format json; returns the parsed lines of stdout. stderr is last_err."""
        done = self.run_yoke(*arguments, "--format", "json", stdin=stdin, expect=expect)
        self.last_err = done.err
        self.assertTrue(done.out == "" or done.out.endswith("\n"))
        return [json.loads(line) for line in done.out.splitlines()]

    def assert_usage_error(self, arguments, *parts, env=None):
        self.assert_error(arguments, *parts, expect=2, env=env)

    def assert_error(self, arguments, *parts, expect=1, env=None):
        """The program refuses: exit code, nothing on stdout, and each part in the message."""
        done = self.run_yoke(*arguments, expect=expect, env=env)
        self.assertEqual(done.out, "")
        for part in parts:
            self.assertIn(part, done.err, f"{arguments}")
