"""Shared by the tests of yoke quantize: models of a few numbers, texts, and the distance of a 4-bit model from its
16-bit original."""

import json
import math
import os
import struct
import subprocess
import sys

import harness
from safetensors_case import read_tensors

sys.path.insert(0, os.path.join(harness.TESTS_DIR, "models"))
from random_family import write_model  # noqa: E402, F401

FLOAT = os.path.join(harness.TESTS_DIR, "models", "demo-fp16")
CPU, CUDA = ["--device", "cpu"], ["--device", "cuda", "--ranks", max(harness.RANKS, 1)]
ON = CPU if harness.ON_CPU else CUDA


def read_model(folder):
    """The configuration, and each tensor's shape and values, of a model of float16 weights in one file."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    return config, {name: (shape, list(struct.unpack(f"<{math.prod(shape)}e", content)))
                    for name, (_, shape, content) in read_tensors(folder).items()}


class QuantizeCase(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.scratch = harness.scratch_folder(cls.addClassCleanup)
        cls.text = os.path.join(cls.scratch, "text.txt")
        with open(os.path.join(harness.DEMO, "heldout.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        with open(cls.text, "w", encoding="utf-8") as file:
            file.write("<|endoftext|>".join(lines[:30]))
        cls.other_text = os.path.join(cls.scratch, "other.txt")
        with open(cls.other_text, "w", encoding="utf-8") as file:
            file.write("<|endoftext|>".join(lines[30:60]))

    def place(self, name):
        return os.path.join(self.scratch, name)

    def quantize(self, model, out, *options, expect=0, on=ON, **how):
        result = subprocess.run([self.yoke, "quantize", "--model", model, "-o", out, *map(str, [*on, *options])],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.TIMEOUT_S,
                                **how)
        self.assertEqual(result.returncode, expect, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def distances(self, model, *options):
        """Root mean square change of a text's log-probabilities at 4 bits: plainly rounded, and scaled."""
        if harness.is_sanitized(self.yoke):
            self.skipTest("of numbers: unit/test_quantize_awq.c runs the same code")
        scores = []
        for place, method in ((model, None), (model + "-rtn", ["rtn"]),
                              (model + "-awq", ["awq", "--calibration", self.text])):
            if method:
                self.quantize(model, place, "--method", *method, *options)
            scores += self.run_json("score", "-m", place, "--device", "cpu", "--dtype", "float32", "--format", "json",
                                    "--tokens", "--text-file", self.other_text, "--window", 256)
        true, *others = [score["logprobs"][1:] for score in scores]
        return [math.sqrt(sum((a - b) ** 2 for a, b in zip(true, other)) / len(true)) for other in others]
