#!/usr/bin/env python3
"""Measures the loss of the demo model at 4 bits, by group size and method: perplexity of held-out text, and the
distance of its tokens' log-probabilities from those of the 16-bit model.

  python3 bench/bench_quantize.py build/release/bin/yoke --json bench/results/quantize_demo_cpu.json

The text is tests/models/demo/heldout.txt, its lines separated by the end-of-text token. awq calibrates on documents of
the same kind as the training text (tests/models/demo_text.py, 600 of seed 3), none of which is in the held-out text.
The demo model was trained with weights rounded in groups of 64, so that rounding alone costs it little; at groups of 64
nothing can be gained. "outliers" is the same function with every 64th channel of the norms before projections times 64
and the weights after it divided by 64, as large models' activations are.

Small random models of the families with experts and latent attention (tests/models/random_family.py) are measured too.
Text is random to them, so only rms counts.

rms: root of the mean square of the differences. Everything runs on the CPU in float16 with float32 sums.
"""

import argparse
import itertools
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
MODELS = os.path.join(ROOT, "tests", "models")
FLOAT = os.path.join(MODELS, "demo-fp16")
END = "<|endoftext|>"
FACTOR, STEP = 64, 64
BEHIND = {"input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
          "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj")}

sys.path.insert(0, MODELS)
import demo_text  # noqa: E402
from random_family import FAMILIES, Model, write_model  # noqa: E402


def write_texts(folder):
    rng = random.Random(3)
    paths = [os.path.join(folder, name) for name in ("calibration.txt", "heldout.txt")]
    with open(paths[0], "w", encoding="utf-8") as file:
        file.write("".join(END + "".join(demo_text.training_document(rng)) for _ in range(600)))
    with open(os.path.join(MODELS, "demo", "heldout.txt"), encoding="utf-8") as source:
        lines = source.read().splitlines()
    with open(paths[1], "w", encoding="utf-8") as file:
        file.write("".join(END + line for line in lines) + END)
    return paths


def write_outliers(folder):
    """Writes a copy of the model that computes the same function with large channels."""
    os.makedirs(folder)
    for name in ("config.json", "tokenizer.json", "generation_config.json"):
        os.symlink(os.path.join(FLOAT, name), os.path.join(folder, name))
    with open(os.path.join(FLOAT, "model.safetensors"), "rb") as file:
        data = bytearray(file.read())
    base = 8 + struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:base])

    def scale(name, factor):
        entry = header[name]
        at, count = base + entry["data_offsets"][0], math.prod(entry["shape"])
        values = list(struct.unpack_from(f"<{count}e", data, at))
        for i in range(5, entry["shape"][-1], STEP):
            values[i::entry["shape"][-1]] = [value * factor for value in values[i::entry["shape"][-1]]]
        struct.pack_into(f"<{count}e", data, at, *values)

    for name in [name for name in header if f".{name}".rsplit(".", 2)[-2] in BEHIND]:
        layer, norm = name.rsplit(".", 2)[:2]
        scale(name, FACTOR)
        for linear in BEHIND[norm]:
            scale(f"{layer}.{linear}.weight", 1 / FACTOR)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(data)
    return folder


def write_family(family, folder):
    model = Model(family)
    return write_model(os.path.join(folder, family), model.config, model.tensors)


class Bench:
    def __init__(self, yoke, folder):
        self.yoke, self.folder = yoke, folder
        self.calibration, self.text = write_texts(folder)

    def run(self, *arguments):
        print("yoke", *arguments, file=sys.stderr)
        return subprocess.run([self.yoke, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout

    def score(self, model):
        return json.loads(self.run("score", "-m", model, "--device", "cpu", "--text-file", self.text, "--window", 512,
                                   "--format", "json", "--tokens"))

    def quantized(self, model, group, method):
        out = os.path.join(self.folder, f"{os.path.basename(model)}-{method}-{group}")
        more = ["--calibration", self.calibration] if method == "awq" else []
        self.run("quantize", "-m", model, "-o", out, "--device", "cpu", "--group-size", group, "--method", method,
                 *more)
        return out

    def rows(self, name, model, groups):
        true = self.score(model)
        yield {"model": name, "method": "16 bits", "perplexity": true["perplexity"]}
        for group in groups:
            for method in ("rtn", "awq"):
                found = self.score(self.quantized(model, group, method))
                pairs = list(zip(found["logprobs"][1:], true["logprobs"][1:]))
                rms = math.sqrt(math.fsum((a - b) ** 2 for a, b in pairs) / len(pairs))
                yield {"model": name, "method": method, "group_size": group, "perplexity": found["perplexity"],
                       "rms": round(rms, 6)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yoke")
    parser.add_argument("--json", required=True, help="where the results go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(os.path.abspath(arguments.yoke), folder)
        command = f"python3 bench/bench_quantize.py {arguments.yoke} --json {arguments.json}"
        commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.strip()
        result = {"command": command, "commit": commit,
                  "text": "tests/models/demo/heldout.txt, windows of 512 every 256",
                  "calibration": "8192 tokens, 512 rows", "rows": []}
        for row in itertools.chain(
                bench.rows("outliers", write_outliers(os.path.join(folder, "outliers")), (128,)),
                bench.rows("demo-fp16", FLOAT, (128, -1, 64)),
                *(bench.rows(family, write_family(family, folder), (32,)) for family in FAMILIES)):
            print(row, flush=True)
            result["rows"].append(row)
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
                file.write("\n")


if __name__ == "__main__":
    main()
