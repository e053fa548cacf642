#!/usr/bin/env python3
"""Compares Yoke's logits with those of the public transformers in float32, for checkpoints of real models' sizes.

  python3 tests/reference/compare_transformers.py --preset qwen3-8b,llama-2-7b,qwen3-32b --tp 1,2,4 \\
      --work /dev/shm --json model_accuracy.json
  python3 tests/reference/compare_transformers.py --preset qwen3-30b-a3b,deepseek-v3 --positions 2000 --work /dev/shm
  python3 tests/reference/compare_transformers.py --model tests/golden/families/qwen3 --device cpu --positions 800

A preset is made with random AWQ weights by scripts/make_random_model.py in a temporary folder and removed afterwards.
On the same sequences of random token ids, of different lengths, run:

  reference     transformers, weights dequantised to float32, attention and experts written out, no TF32
  transformers  the same model in --dtype: weights rounded, both fused, products added up in float32
  wide logits   the same, except for lm_head's product in float32: transformers rounds logits to 16 bits, Yoke does not
  yoke          dump_logits on each number of ranks: prompts in pieces, the last positions token by token in batches

Each is compared with the reference over all positions: KL divergence (reference || it), its mean and lower quartile,
mean and largest difference of log-probabilities of all tokens of the vocabulary, and positions with another best token,
all in float64. Yoke may differ by at most 1.2 times (means) and 1.5 times (largest, best tokens; fewer than 10 count as
10) as much as transformers does; the limits also apply to the means over the positions decoded token by token. "Wide
logits" is printed without a limit. With --dtype float32 (CPU) there is nothing to compare with: log-probabilities must
agree within 1e-3.

In a mixture of experts rounding turns near ties of routers: some positions, of Yoke as of transformers, take another
expert than the reference's. Such a position differs a hundred times as much as others, and positions that attend to it
ten times as much, so that the largest difference and the mean KL come from a few random positions. Mixtures are judged
by the lower quartile of KL (1.2 times, also of the decoded positions) and, against faults of fewer positions, by the
mean difference and the best tokens (2 times). The quartile also becomes random if most positions are such or attend to
such: after many layers of experts, or among some hundred positions. transformers' routers of Qwen and Mixtral round
their logits to --dtype, those of DeepSeek and GLM do not; Yoke's never do.

--plant puts a fault into the reference's first layer, which the comparison must detect. Exit code: 0 if everything
is within the limits, else 1. Needs numpy, torch, transformers and safetensors.
"""

import argparse
import gc
import glob
import json
import os
import site
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

import float_model

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
LAYERS = {"qwen3-32b": 8, "qwen3-30b-a3b": 6, "qwen3-235b-a22b": 2, "qwen2-57b-a14b": 2, "mixtral-8x7b": 2,
          "mixtral-8x22b": 2, "glm-4.5": 4, "deepseek-v2-lite": 6, "deepseek-v2": 3, "deepseek-v3": 4,
          "kimi-k2": 2}  # so that float32 takes at most 80 GB of one GPU, with at least one layer of experts
GROUP_SIZES = {"deepseek-v2-lite": 64}  # the others have 128, which does not divide its dense FFN's size
MEASURES = ("mean_kl", "low_kl", "mean_abs", "max_abs", "top1")
LIMITS = {"mean_kl": 1.2, "mean_abs": 1.2, "max_abs": 1.5, "top1": 1.5}
DECODED_LIMITS = {"mean_kl": 1.2, "mean_abs": 1.2}  # too few positions for the other limits
EXPERTS_LIMITS = {"low_kl": 1.2, "mean_abs": 2.0, "top1": 2.0}
DECODED_EXPERTS_LIMITS = {"low_kl": 1.2}
FEWEST_TOP1 = 10  # fewer other best tokens of transformers count as this many, because so few near ties are random
FLOAT32_LIMIT = 1e-3
CHUNK_ROWS = 128
CHUNK_TOKENS = 1 << 14
TOOL_TIMEOUT_S = 400


def differences(reference, other):
    """[rows, 4] float64 of two logits [rows, vocabulary]: KL, mean and largest difference, 1 where the best differs."""
    a = torch.log_softmax(reference.double(), dim=-1)
    b = torch.log_softmax(other.double(), dim=-1)
    delta = a - b
    best_differs = reference.argmax(dim=-1) != other.argmax(dim=-1)
    kl = (a.exp() * delta).sum(dim=-1)
    delta.abs_()
    return torch.stack([kl, delta.mean(dim=-1), delta.amax(dim=-1), best_differs.double()], dim=1).cpu().numpy()


def all_differences(reference, other):
    """The same for whole sequences, a few rows at a time. other may be on the host."""
    return np.concatenate([differences(a, b.to(a.device))
                           for a, b in zip(reference.split(CHUNK_ROWS), other.split(CHUNK_ROWS), strict=True)])


def summary(rows):
    """Measures over some rows of differences()."""
    kl, mean, largest, best_differs = rows.T
    return {"mean_kl": kl.mean().item(), "low_kl": np.quantile(kl, 0.25).item(), "mean_abs": mean.mean().item(),
            "max_abs": largest.max().item(), "top1": int(best_differs.sum())}


def ratios(found, base):
    """None if transformers has no difference."""
    return {name: found[name] / base[name] if base[name] else None for name in MEASURES}


def passed_limits(found, base, limits):
    """The measures beyond their limit (including NaN)."""
    base = {**base, "top1": max(base["top1"], FEWEST_TOP1)}
    return [name for name, limit in limits.items() if not found[name] <= limit * base[name]]


def draw_sequences(args, vocab, longest):
    """Random token ids; lengths spread by 20 % each way, so that a batch is uneven."""
    mean = args.positions / args.sequences
    lengths = np.linspace(0.8 * mean, 1.2 * mean, args.sequences).round().astype(int)
    if lengths.max() > longest:
        raise SystemExit(f"sequences of up to {lengths.max()} tokens: the model takes {longest}; more --sequences")
    rng = np.random.default_rng(args.seed)
    return [rng.integers(0, vocab, length, dtype=np.int32) for length in lengths]


def tool_environment(tool):
    """The environment with CUDA's libraries; python's packages provide them if the loader finds none."""
    env = dict(os.environ)
    if "not found" in subprocess.run(["ldd", tool], capture_output=True, text=True, check=False).stdout:
        folders = glob.glob("/usr/local/cuda*/lib64")
        for root in {*sys.path, *site.getsitepackages()}:
            folders += glob.glob(os.path.join(root, "nvidia", "*", "lib"))
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), *folders]))
    return env


def run_yoke(args, model, sequences, n_ranks, folder):
    """(the tool's report, memory-mapped logits of all sequences)."""
    ids, out = os.path.join(folder, "ids.bin"), os.path.join(folder, "logits.bin")
    np.concatenate(sequences).tofile(ids)
    command = [args.tool, "--model", model, "--ids", ids, "--out", out, "--device", args.device, "--dtype", args.dtype,
               "--lengths", ",".join(str(len(s)) for s in sequences), "--tp", str(n_ranks),
               "--piece", str(args.piece), "--decode", str(args.decode), *args.option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False,
                          env=tool_environment(args.tool))
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    report = json.loads(done.stdout)
    rows = sum(map(len, sequences))
    return report, torch.from_numpy(np.memmap(out, dtype=np.float32, mode="r+", shape=(rows, report["vocab_size"])))


def wide_logits(model, hidden):
    """lm_head's product in float32, a part of the vocabulary at a time: no second lm_head needs memory."""
    return torch.cat([hidden.float() @ rows.float().T for rows in model.lm_head.weight.split(CHUNK_TOKENS)], dim=-1)


def run_transformers(args, model_dir, sequences):
    """(reference logits of all sequences, {name: differences} of transformers in --dtype)."""
    model = float_model.load(model_dir, args.device, args.plant)
    reference = torch.cat([float_model.logits_of(model, ids)[0] for ids in sequences])
    if args.dtype == "float32":
        return reference, {}
    float_model.lower(model, getattr(torch, args.dtype))
    found, at = {"transformers": [], "transformers, wide logits": []}, 0
    for ids in sequences:
        logits, hidden = float_model.logits_of(model, ids)
        expected = reference[at:at + len(ids)]
        for rows, other in zip(found.values(), (logits, wide_logits(model, hidden))):
            rows.append(all_differences(expected, other))
        at += len(ids)
    return reference, {name: np.concatenate(rows) for name, rows in found.items()}


def table_line(name, cells):
    return f"{name:46s}" + "".join(f"{cell:>14s}" for cell in cells)


def line(name, values):
    return table_line(name, (f"{values[m]:.3e}" if isinstance(values[m], float) else str(values[m]) for m in MEASURES))


def ratio_line(name, values):
    return table_line(name, ("-" if values[m] is None else f"{values[m]:.3f}" for m in MEASURES))


class Comparison:
    """One model: its printed lines, its entry in the results, and whether limits are exceeded."""

    def __init__(self, args, name, model_dir):
        self.args, self.model_dir = args, model_dir
        with open(os.path.join(model_dir, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.sequences = draw_sequences(args, config["vocab_size"], config["max_position_embeddings"])
        lengths = [len(s) for s in self.sequences]
        self.is_decoded = np.concatenate([np.arange(n) >= n - args.decode for n in lengths])
        has_experts = any(config.get(key) for key in ("num_experts", "n_routed_experts", "num_local_experts"))
        self.limits = (EXPERTS_LIMITS, DECODED_EXPERTS_LIMITS) if has_experts else (LIMITS, DECODED_LIMITS)
        self.failures = []
        self.result = {"model": name, "layers": config["num_hidden_layers"], "vocab_size": config["vocab_size"],
                       "lengths": lengths, "positions": sum(lengths), "decoded_positions": int(self.is_decoded.sum()),
                       "limits": self.limits[0], "limits_of_decoded_positions": self.limits[1],
                       "seconds": {}, "transformers": {}, "yoke": []}

    def timed(self, name, function, *arguments):
        begin = time.monotonic()
        value = function(*arguments)
        self.result["seconds"][name] = round(time.monotonic() - begin, 1)
        return value

    def judge(self, name, rows, base_rows):
        """Ratios of one run of Yoke to transformers, and the exceeded limits."""
        every, (limits_of_all, limits_of_decoded) = slice(None), self.limits
        entry = {"differences": summary(rows), "limits_passed": []}
        print(line(name, entry["differences"]))
        if not base_rows and not entry["differences"]["max_abs"] <= FLOAT32_LIMIT:
            entry["limits_passed"].append("max_abs")
        for base_name, base in base_rows.items():
            for part, chosen, limits in (("", every, limits_of_all), (", decoded", self.is_decoded, limits_of_decoded)):
                if not rows[chosen].size:
                    continue
                found, expected = summary(rows[chosen]), summary(base[chosen])
                label = f"ratio to {base_name}{part}"
                entry[label] = ratios(found, expected)
                print(ratio_line(f"  {label}", entry[label]))
                if base_name == "transformers":
                    entry["limits_passed"] += [m + part for m in passed_limits(found, expected, limits)]
        self.failures += [f"{self.result['model']}, {name}: {m} is past its limit" for m in entry["limits_passed"]]
        return entry

    def run(self, folder):
        args, result = self.args, self.result
        print(f"\n{result['model']}: {result['layers']} layers, {result['positions']} positions in "
              f"{len(self.sequences)} sequences, {result['decoded_positions']} of them decoded, "
              f"{result['vocab_size']} tokens", flush=True)
        reference, base_rows = self.timed("transformers", run_transformers, args, self.model_dir, self.sequences)
        if args.device == "cuda":  # Yoke needs the memory
            gc.collect()
            torch.cuda.empty_cache()
        print(table_line("", ("mean KL", "low KL", "mean |dlogp|", "max |dlogp|", "best differs")))
        for name, rows in base_rows.items():
            result["transformers"][name] = summary(rows)
            print(line(f"{name} {args.dtype}", result["transformers"][name]))
        for n_ranks in args.tp:
            report, logits = self.timed(f"yoke on {n_ranks}", run_yoke, args, self.model_dir, self.sequences, n_ranks,
                                        folder)
            rows = self.timed(f"comparing {n_ranks}", all_differences, reference, logits)
            entry = self.judge(f"yoke {args.dtype}, {n_ranks} rank{'s' * (n_ranks > 1)}", rows, base_rows)
            result["yoke"].append({"ranks": n_ranks, "run": report, **entry})
            print(f"  prefill {report['prefill']}, decode {report['decode']}", flush=True)
        print("seconds:", result["seconds"], flush=True)


def make_preset(args, preset, folder):
    """A random checkpoint of the preset's shape; its directory."""
    out = os.path.join(folder, preset)
    layers = args.layers or LAYERS.get(preset)
    command = [sys.executable, os.path.join(ROOT, "scripts", "make_random_model.py"), "--preset", preset, "--out", out,
               "--seed", str(args.seed), "--group-size", str(GROUP_SIZES.get(preset, 128)),
               *(["--layers", str(layers)] if layers else [])]
    subprocess.run(command, check=True)
    return out


def compare_one(args, preset, folder):
    """One preset or, without one, the checkpoint of --model."""
    name = f"{preset}, random AWQ weights" if preset else os.path.basename(os.path.normpath(args.model))
    comparison = Comparison(args, name, make_preset(args, preset, folder) if preset else args.model)
    comparison.run(folder)
    return comparison


def describe_machine(args):
    """The results file's description of machine and command."""
    def first_line(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()[0]
        except (OSError, subprocess.CalledProcessError, IndexError):
            return None
    about = {"commit": args.commit or first_line("git", "rev-parse", "--short", "HEAD"),
             "command": " ".join(["compare_transformers.py", *sys.argv[1:]]), "torch": torch.__version__,
             "transformers": float_model.transformers.__version__, "dtype": args.dtype, "seed": args.seed}
    if args.device == "cuda":
        about["gpu"] = f"{torch.cuda.get_device_name()}, {max(args.tp)} of {torch.cuda.device_count()}"
        about["driver"] = first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if args.plant:
        about["planted"] = float_model.FAULTS[args.plant]
    return about


def find_tool():
    places = [os.path.join(ROOT, folder, "dump_logits") for folder in ("bin", "build/release/bin")]
    return next((place for place in places if os.path.exists(place)), places[0])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--preset", default="", help="shapes for scripts/make_random_model.py, separated by commas")
    what.add_argument("--model", help="a checkpoint directory")
    parser.add_argument("--layers", type=int, help="of every preset (default: all; of large models so few "
                        "that float32 fits one GPU)")
    parser.add_argument("--tp", default="1", help="numbers of ranks, separated by commas (default: 1)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="of both (default: cuda)")
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float16",
                        help="default: float16")
    parser.add_argument("--positions", type=int, default=5120, help="of all sequences together (default: 5120)")
    parser.add_argument("--sequences", type=int, default=8, help="default: 8")
    parser.add_argument("--decode", type=int, default=100, help="last positions, appended one by one (default: 100)")
    parser.add_argument("--piece", type=int, default=227, help="tokens of one append of a prompt (default: 227)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and token ids (default: 0)")
    parser.add_argument("--tool", default=find_tool(), help="path of dump_logits (default: %(default)s)")
    parser.add_argument("--option", action="append", default=[], help="of Yoke, as --option=--lm-head=int8; repeatable")
    parser.add_argument("--work", default=tempfile.gettempdir(),
                        help="where models and logits lie for a while; /dev/shm is fast (default: %(default)s)")
    parser.add_argument("--json", help="file to write the results to")
    parser.add_argument("--commit", help="for the results, where there is no repository")
    parser.add_argument("--plant", choices=sorted(float_model.FAULTS),
                        help="make a fault in the reference: " + "; ".join(map(": ".join, float_model.FAULTS.items())))
    args = parser.parse_args()
    args.tp = [int(n) for n in args.tp.split(",")]
    if not os.path.exists(args.tool):
        parser.error(f"{args.tool}: no such program; build it, or name it with --tool")
    if args.device == "cuda" and torch.cuda.device_count() < max(args.tp):
        parser.error(f"{max(args.tp)} ranks need as many GPUs, found {torch.cuda.device_count()}")
    return args


def main():
    args = parse_arguments()
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.set_float32_matmul_precision("highest")
    results, failures = {**describe_machine(args), "models": []}, []
    for preset in args.preset.split(","):
        with tempfile.TemporaryDirectory(dir=args.work) as folder:
            comparison = compare_one(args, preset, folder)
        results["models"].append(comparison.result)
        failures += comparison.failures
        if args.json:  # after each model, so that a failure of a later one loses nothing
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=2)
                file.write("\n")
    print("\n".join(failures) or "all within the limits")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
