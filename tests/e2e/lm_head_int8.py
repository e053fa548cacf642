"""--lm-head int8: the results of a checkpoint whose lm_head was rounded beforehand, by the definition; close to those
of the lm_head in floats; planned bytes; refusals, by name."""

import json
import math
import os
import struct

import harness
from safetensors_case import read_tensors, write_tensors

DEMO = os.path.join(harness.TESTS_DIR, "models", "demo")
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
CODES = {"F16": "e", "F32": "f"}


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def floats_of(tensor):
    dtype, shape, data = tensor
    if dtype == "BF16":
        words = struct.unpack(f"<{len(data) // 2}H", data)
        values = struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(word << 16 for word in words)))
    else:
        values = struct.unpack(f"<{math.prod(shape)}{CODES[dtype]}", data)
    return [values[i:i + shape[1]] for i in range(0, len(values), shape[1])]


def rounded(row):
    """Each weight as the nearest multiple of the largest magnitude over 127, ties to even."""
    scale = single(max(map(abs, row)) / 127)
    return [single(scale * max(-127, min(127, round(single(x / scale))))) for x in row]


def load_config(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return json.load(file)


def write_rounded(source, folder):
    """The checkpoint with a separate lm_head, in float32, that has been rounded."""
    os.mkdir(folder)
    tensors, config = read_tensors(source), load_config(source)
    rows = [rounded(row) for row in floats_of(tensors.get(HEAD, tensors[EMBEDDING]))]
    tensors[HEAD] = ["F32", [len(rows), len(rows[0])],
                     b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)]
    write_tensors(folder, tensors)
    config["tie_word_embeddings"] = False
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return folder


class LmHeadInt8(harness.Case):
    def setUp(self):
        self.scratch = harness.scratch_folder(self.addCleanup)

    def logprobs(self, model, *options):
        """Log-probabilities of a prompt's tokens, in one step, and of tokens one by one."""
        results = self.run_json("generate", "--model", model, *harness.ON, "--temperature", 0, "--prompt-logprobs", 5,
                                "--logprobs", 5, "-n", 8, "--token-ids", ",".join(map(str, range(5, 60))), *options)
        return [entry["logprob"] for result in results for entry in result["prompt_logprobs"][1:] + result["logprobs"]]

    @harness.of_the_program
    def test_same_as_rounded_before(self):
        """Tied and separate, in 4-bit, 8-bit and plain checkpoints, on ranks that cut the vocabulary unevenly."""
        for family in ("qwen3", "llama", "format_compressed8"):
            model = os.path.join(harness.FAMILIES, family)
            expected = self.logprobs(write_rounded(model, os.path.join(self.scratch, family)), "--dtype", "float32")
            for n_ranks in (1, 2, 3):
                found = self.logprobs(model, "--dtype", "float32", "--lm-head", "int8", "--tp", n_ranks)
                for a, b in zip(found, expected, strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-4)

    def test_close_to_floats(self):
        """A rounding is at most 1/254 of a row's largest weight: 1 % of perplexity, and far less on average."""
        floats = self.logprobs(DEMO, "--dtype", harness.DTYPE)
        for n_ranks in (1, 2, 4) if harness.ON_CPU else (1, harness.RANKS):
            integers = self.logprobs(DEMO, "--dtype", harness.DTYPE, "--lm-head", "int8", "--tp", n_ranks)
            n = 54  # tokens of the prompt; later ones may differ
            self.assertNotEqual(integers[:n], floats[:n])
            self.assertLess(max(abs(a - b) for a, b in zip(integers[:n], floats[:n])), 0.1)
            self.assertLess(abs(sum(integers[:n]) - sum(floats[:n])) / n, 0.01)

    @harness.of_the_program
    def test_integers_are_those_of_any_number_of_ranks(self):
        one = self.logprobs(DEMO, "--dtype", "float32", "--lm-head", "int8")
        for n_ranks in (2, 5):
            for a, b in zip(one, self.logprobs(DEMO, "--dtype", "float32", "--lm-head", "int8", "--tp", n_ranks),
                            strict=True):
                self.assertAlmostEqual(a, b, delta=1e-3)

    def weight_bytes(self, model, *options):
        plan = self.run_json("plan", "--model", model, "--no-link-test", *options)[0]
        self.assertTrue(plan["fits"], plan["reason"])
        return sum(rank["weight_bytes"] for rank in plan["ranks"])

    @harness.of_the_program
    def test_plan(self):
        """A separate lm_head has a byte a weight, and scales; a tied one adds these to the embedding."""
        for family, is_tied in (("llama", False), ("qwen3", True)):
            model = os.path.join(harness.FAMILIES, family)
            config = load_config(model)
            vocab, hidden = config["vocab_size"], config["hidden_size"]
            for device in (["--device", "cpu"], ["--device", "cuda", "--device-memory", "8GiB"]):
                options = (*device, "--dtype", "float16")
                change = (self.weight_bytes(model, *options, "--lm-head", "int8") -
                          self.weight_bytes(model, *options, "--lm-head", "auto"))
                integers = vocab * (math.ceil(hidden / 128) * 128 + 4)  # in whole lines of 128 inputs
                if device[1] == "cuda":  # panels of 16 outputs by 128 inputs with a scale word for each output
                    panels = math.ceil(vocab / 16)
                    integers = panels * (math.ceil(hidden / 128) * (16 * 128 + 64) + 64)
                expected = integers - (0 if is_tied else 2 * vocab * hidden)
                self.assertAlmostEqual(change, expected, delta=512)  # of alignment

    @harness.of_the_program
    def test_refusals(self):
        generate = ["generate", "--device", "cpu", "--token-ids", "5", "-n", 1, "--lm-head", "int8", "--model"]
        quantised = os.path.join(harness.FAMILIES, "format_w8a8_asym")
        for n_ranks in (1, 2):
            self.assert_error([*generate, quantised, "--tp", n_ranks],
                              "--lm-head int8: lm_head.weight: expected floats",
                              "found 8-bit integers; supported: auto")
        model = os.path.join(harness.FAMILIES, "llama")
        folder = os.path.join(self.scratch, "unsound")
        os.mkdir(folder)
        tensors = read_tensors(model)
        dtype, shape, data = tensors[HEAD]
        size = {"F16": 2, "BF16": 2, "F32": 4}[dtype]
        nan = {"F16": b"\x00\x7e", "BF16": b"\xc0\x7f", "F32": b"\x00\x00\xc0\x7f"}[dtype]
        at = (7 * shape[1] + 3) * size
        tensors[HEAD] = [dtype, shape, data[:at] + nan + data[at + size:]]
        write_tensors(folder, tensors)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(load_config(model), file)
        self.assert_error([*generate, folder], "lm_head.weight: output 7, input 3: expected a finite number",
                          "8 bits, found nan")
        headless = os.path.join(harness.TESTS_DIR, "golden", "embeddings", "headless")
        plan = ["plan", "--no-link-test", "--device-memory", "8GiB", "--lm-head", "int8", "--model"]
        self.assert_error([*plan, headless], "--lm-head int8: this model has no lm_head")
        self.assert_usage_error(["generate", "--model", model, "--lm-head", "int4"], "--lm-head")

    @harness.of_the_program
    def test_figures_name_it(self):
        for choice in ("auto", "int8"):
            path = os.path.join(self.scratch, choice)
            self.run_yoke("bench", "--model", DEMO, "--device", "cpu", "--batch", 1, "--input-len", 4, "--output-len",
                          4, "--repeats", 1, "--output", path, "--lm-head", choice)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["lm_head"], choice)


if __name__ == "__main__":
    harness.main()
