#!/usr/bin/env python3
"""Measures the accuracy of each form of weights and inputs: KL divergence from the unquantised model in float32, and
perplexity, in one table.

  python3 bench/bench_accuracy.py build/release/bin --json bench/results/accuracy_formats_cpu.json
  python3 bench/bench_accuracy.py build/release/bin --model gemma-3-270m --text ARCHITECTURE.md loader/README.md \\
      --json gemma.json

The judge is the public transformers, which runs the 16-bit checkpoint in float32. Yoke runs on CPU ranks in float32, so
that all differences come from the quantised weights and inputs. Without --model: the demo model and its held-out text;
AWQ calibrates on text of the same kind. With --model: a 16-bit checkpoint and texts, whose first half calibrates AWQ
and whose second half is measured.

  unquantised  the checkpoint itself, which checks the comparison
  W4A16        `yoke quantize --method awq`, groups of 128, inputs as they are
  W4A8 fp8     the same weights with --activations fp8
  W4A8 int8    the same weights with --activations int8
  W8A16 fp8    weights in e4m3, a scale for each output; Yoke keeps the inputs of such layers as they are
  W8A8 int8    weights in 8-bit integers, a scale for each output; inputs in 8-bit integers, a scale for each token

Means over all positions of the measured text, which is cut into sequences that each begin with bos_token_id. KL is
(judge || Yoke), in float64. "best" is the share of positions with the judge's best token. Needs torch, transformers,
safetensors and numpy.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

import bench_quantize

ROOT = bench_quantize.ROOT
CHUNK_ROWS = 64


def integer_weights(weight, scale):
    return torch.round(weight / scale).to(torch.int8)


def float_weights(weight, scale):
    return (weight / scale).to(torch.float8_e4m3fn)


# name: (kind of checkpoint, options of Yoke)
VARIANTS = {"unquantised": ("16 bits", ()), "W4A16": ("awq", ("--activations", "dtype")),
            "W4A8 fp8": ("awq", ("--activations", "fp8")), "W4A8 int8": ("awq", ("--activations", "int8")),
            "W8A16 fp8": ("fp8", ()), "W8A8 int8": ("int8", ())}
# kind: (format of compressed-tensors, preset, largest code, codes of a weight)
WRITTEN = {"fp8": ("float-quantized", "FP8_DYNAMIC", 448.0, float_weights),
           "int8": ("int-quantized", "W8A8", 127.0, integer_weights)}


def write_compressed(model, out, kind):
    """A copy of a checkpoint whose linear layers have codes and a float32 scale for each output."""
    form, preset, largest, codes_of = WRITTEN[kind]
    os.makedirs(out)
    tensors = {}
    for name in sorted(os.listdir(model)):
        if name.endswith(".safetensors"):
            tensors.update(safetensors.torch.load_file(os.path.join(model, name)))
        elif name.endswith(".json") and not name.endswith("index.json"):
            shutil.copy(os.path.join(model, name), out)
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        weight = tensors.pop(name).float()
        scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / largest
        tensors[name], tensors[name + "_scale"] = codes_of(weight, scale), scale
    safetensors.torch.save_file(tensors, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
    path = os.path.join(out, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["quantization_config"] = {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
                                     "config_groups": {preset: ["Linear"]}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


class Judge:
    """The unquantised model's logits of the measured sequences."""

    def __init__(self, model, sequences):
        self.sequences = sequences
        judge = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        with torch.no_grad():
            self.logits = [judge(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for ids in sequences]

    def compare(self, others):
        """Measures of one variant. others: logits [all positions, vocabulary] of Yoke."""
        kl, same, loss, loss_of_judge, n_next, at = 0.0, 0, 0.0, 0.0, 0, 0
        for ids, judged in zip(self.sequences, self.logits):
            for first in range(0, len(ids), CHUNK_ROWS):
                rows = slice(first, min(first + CHUNK_ROWS, len(ids)))
                p = torch.log_softmax(judged[rows].double(), -1)
                q = torch.log_softmax(torch.from_numpy(others[at + rows.start:at + rows.stop]).double(), -1)
                kl += (p.exp() * (p - q)).sum().item()
                same += (p.argmax(-1) == q.argmax(-1)).sum().item()
                following = torch.tensor(ids[rows.start + 1:rows.stop + 1])
                n = len(following)
                places = torch.arange(n)
                loss -= q[places, following].sum().item()
                loss_of_judge -= p[places, following].sum().item()
                n_next += n
            at += len(ids)
        return {"mean_kl": kl / at, "best": same / at, "perplexity": float(np.exp(loss / n_next)),
                "perplexity_of_judge": float(np.exp(loss_of_judge / n_next))}


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder

    def run(self, program, *arguments, **more):
        command = [os.path.join(self.args.bin, program), *map(str, arguments)]
        print(*command, file=sys.stderr, flush=True)
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout

    def sequences_of(self, model, text):
        """Sequences of the measured text; each begins with bos_token_id."""
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            bos = json.load(file)["bos_token_id"]
        with open(text, encoding="utf-8") as file:
            ids = json.loads(self.run("yoke", "tokenize", "--model", model, "--no-special-tokens", "--format", "json",
                                      input=json.dumps(file.read()) + "\n"))
        length = self.args.length - 1
        n = min(len(ids) // length, self.args.positions // self.args.length)
        return [[bos, *ids[i * length:(i + 1) * length]] for i in range(n)]

    def checkpoint(self, model, kind, calibration):
        out = os.path.join(self.folder, kind)
        if kind == "16 bits":
            return model
        if not os.path.exists(out):
            if kind == "awq":
                self.run("yoke", "quantize", "-m", model, "-o", out, "--device", "cpu", "--group-size", 128, "--method",
                         "awq", "--calibration", calibration)
            else:
                write_compressed(model, out, kind)
        return out

    def logits(self, model, sequences, options):
        """[all positions, vocabulary] of Yoke, mapped from a file that the next call overwrites."""
        ids, out = (os.path.join(self.folder, name) for name in ("ids.bin", "logits.bin"))
        np.concatenate(sequences).astype("<i4").tofile(ids)
        report = json.loads(self.run("dump_logits", "--model", model, "--ids", ids, "--out", out, "--device", "cpu",
                                     "--dtype", "float32", "--lengths", ",".join(str(len(s)) for s in sequences),
                                     "--piece", 512, "--decode", 0, *options))
        return np.memmap(out, dtype="<f4", mode="r+", shape=(sum(map(len, sequences)), report["vocab_size"]))

    def measure(self, name, model, calibration, text):
        """Rows of one model."""
        sequences = self.sequences_of(model, text)
        judge = Judge(model, sequences)
        for variant, (kind, options) in VARIANTS.items():
            found = judge.compare(self.logits(self.checkpoint(model, kind, calibration), sequences, options))
            print(f"{name:20s} {variant:12s} KL {found['mean_kl']:.3e}  best {100 * found['best']:.2f} %  perplexity "
                  f"{found['perplexity']:.4f} (judge {found['perplexity_of_judge']:.4f})", flush=True)
            yield {"model": name, "variant": variant, "positions": sum(map(len, sequences)), **found}


def halves(paths, folder):
    """Files of the first and of the second half of texts."""
    text = ""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text += file.read()
    out = [os.path.join(folder, name) for name in ("calibration.txt", "heldout.txt")]
    for path, part in zip(out, (text[:len(text) // 2], text[len(text) // 2:])):
        with open(path, "w", encoding="utf-8") as file:
            file.write(part)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder of yoke and dump_logits")
    parser.add_argument("--model", help="a 16-bit checkpoint (default: the demo model)")
    parser.add_argument("--text", nargs="+", help="files, for --model")
    parser.add_argument("--positions", type=int, default=8192, help="measured at most (default: 8192)")
    parser.add_argument("--length", type=int, default=512, help="of a sequence (default: 512)")
    parser.add_argument("--cpu", help="the machine's description, for the results")
    parser.add_argument("--json", required=True, help="where the results go; rows of other models in it stay")
    args = parser.parse_args()
    if bool(args.model) != bool(args.text):
        parser.error("--model and --text: expected both or none")
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    result = {"cpu": args.cpu or "CPU ranks, processor not recorded", "commit": commit, "commands": {},
              "transformers": transformers.__version__, "torch": torch.__version__, "rows": []}
    if os.path.exists(args.json):
        with open(args.json, encoding="utf-8") as file:
            result.update({key: value for key, value in json.load(file).items() if key in ("commands", "rows")})
    name = os.path.basename(os.path.normpath(args.model or bench_quantize.FLOAT))
    result["rows"] = [row for row in result["rows"] if row["model"] != name]
    result["commands"][name] = {"commit": commit, "command": " ".join(["bench_accuracy.py", *sys.argv[1:]])}
    with tempfile.TemporaryDirectory() as folder:
        texts = halves(args.text, folder) if args.text else bench_quantize.write_texts(folder)
        for row in Bench(args, folder).measure(name, args.model or bench_quantize.FLOAT, *texts):
            result["rows"].append(row)
    with open(args.json, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
