#!/usr/bin/env python3
"""Writes synthetic_study.json: a study in the form of study.json with computed numbers. They follow a simple model of
decoding (bytes by bandwidth, flops by rate, a fixed cost per operation) with noise of a fixed seed."""

import argparse
import json
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
BANDWIDTH, GEMM_RATE, LINK = 4.35e12, 6.4e14, 3.6e11
GEMMS = {"gemm_qkv": (25e6, 36), "gemm_o": (17e6, 36), "gemm_gate_up": (100e6, 36), "gemm_down": (50e6, 36)}
LM_HEAD, N_LAYERS, HIDDEN, KV_BYTES = 622e6, 36, 4096, 147456
PARTS = [*GEMMS, "lm_head", "attention", "other_kernels", "all_reduce_transfer", "all_reduce_wait", "logits_gather",
         "sampling", "launch_gap", "host", "states"]
LOSS_OF = {"all_reduce_transfer": "all_reduce", "all_reduce_wait": "imbalance", "other_kernels": "unsplit",
           "logits_gather": "unsplit", "sampling": "unsplit", "launch_gap": "unsplit", "host": "unsplit"}
LOSSES = ("all_reduce", "imbalance", "smaller_gemms", "unsplit")


def gemm_us(weights, ranks, rows, bytes_per_weight, overhead, rate=1.0):
    by_bytes = weights * bytes_per_weight / ranks / (BANDWIDTH * rate)
    return max(by_bytes, 2 * weights / ranks * rows / (GEMM_RATE * rate)) * 1e6 + overhead


def step_parts(ranks, batch, context):
    parts = {name: n * gemm_us(weights, ranks, batch, 0.52, 1.6, 0.86) for name, (weights, n) in GEMMS.items()}
    parts["lm_head"] = gemm_us(LM_HEAD, ranks, batch, 2, 2, 0.9)
    parts["attention"] = batch * context * KV_BYTES / ranks / (BANDWIDTH * 0.82) * 1e6 + N_LAYERS * 3
    parts["other_kernels"] = N_LAYERS * (2.4 + batch * 0.006)
    spread = ranks > 1
    sent = 2 * (ranks - 1) / ranks * batch * HIDDEN * 2 / LINK * 1e6
    parts["all_reduce_transfer"] = spread * 2 * N_LAYERS * (3.1 + 0.4 * ranks + sent)
    parts["all_reduce_wait"] = spread * 2 * N_LAYERS * 0.5 * (1 + 0.15 * ranks)
    parts["logits_gather"] = spread * (4 + batch * 151936 * 4 * (ranks - 1) / ranks / LINK * 1e6)
    parts["sampling"] = 9 + batch * 0.11
    parts["launch_gap"] = 38
    parts["host"] = 6 + batch * 0.02
    parts["states"] = 0  # no recurrent layers
    return {name: parts[name] for name in PARTS}


def limit_of(ranks, batch, input_len, output_len):
    us = sum(n * gemm_us(weights, ranks, batch, 0.52, 0) for weights, n in GEMMS.values())
    us += gemm_us(LM_HEAD, ranks, batch, 2, 0)
    us += batch * (input_len + output_len / 2) * KV_BYTES / ranks / BANDWIDTH * 1e6
    us += 2 * N_LAYERS * 3 * (ranks > 1)
    prefill_us = 2 * 7e9 * batch * input_len / ranks / GEMM_RATE * 1e6
    return batch * output_len / ((us * (output_len - 1) + prefill_us) * 1e-6)


def figures_of(ranks, batch, input_len, output_len, step_us):
    prefill_s = 2 * 7e9 * batch * input_len / ranks / (GEMM_RATE * 0.72) + 0.004
    tpot_ms = step_us / 1000
    duration = prefill_s + (output_len - 1) * step_us * 1e-6
    found = {"duration": duration, "completed": batch, "total_input_tokens": batch * input_len,
             "total_output_tokens": batch * output_len, "request_throughput": batch / duration,
             "output_throughput": batch * output_len / duration,
             "total_token_throughput": batch * (input_len + output_len) / duration,
             "prefill_throughput": batch * input_len / prefill_s, "decode_throughput": batch / step_us * 1e6}
    centres = {"ttft": prefill_s * 1000, "tpot": tpot_ms, "itl": tpot_ms, "e2el": duration * 1000}
    for name, centre in centres.items():
        for kind, factor in (("mean", 1.0), ("median", 0.99), ("p90", 1.03), ("p95", 1.05), ("p99", 1.12)):
            found[f"{kind}_{name}_ms"] = centre * factor
    found["energy_j_per_token"] = 430 * ranks / found["output_throughput"]
    found["kv_use"] = batch * (input_len + output_len) * KV_BYTES / (ranks * 110e9)
    return found


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def make_point(random_, ranks, batch, lengths, n_starts, n_repeats):
    input_len, output_len = lengths
    parts = step_parts(ranks, batch, input_len + output_len / 2)
    step = sum(parts.values())
    runs = []
    for start in range(n_starts):
        pace = random_.gauss(1, 0.004)
        for repeat in range(n_repeats):
            figures = figures_of(ranks, batch, input_len, output_len, step * pace * random_.gauss(1, 0.003))
            runs.append({"start": start, "repeat": repeat, **figures})
    names = [name for name in runs[0] if name not in ("start", "repeat")]
    point = {"ranks": ranks, "batch": batch, "input_len": input_len, "output_len": output_len, "options": {},
             "n_runs": len(runs)}
    point.update({name: median([run[name] for run in runs]) for name in names})
    noise = 0.008 + 0.012 / batch ** 0.5
    point["intervals"] = {name: [point[name] * (1 - noise), point[name] * (1 + noise)] for name in names}
    limit = limit_of(ranks, batch, input_len, output_len)
    point["limit"] = {"output_throughput": limit, "decode_throughput": limit * 1.1,
                      "share": point["output_throughput"] / limit, "bound": "memory" if batch < 200 else "gemm"}
    point["time_us"] = {"step": step, "n_steps": 990, **parts}
    point["time_us_by_rank"] = [{"step": step, **parts} for _ in range(ranks)]
    point["slowest"] = [1 / ranks] * ranks
    prefill = {name: value * 7 for name, value in parts.items()}
    point["time_us_prefill"] = {"step": sum(prefill.values()), "n_steps": 10, **prefill}
    point["warnings"] = []
    point["runs"] = [{name: run[name] for name in ("start", "repeat", "output_throughput", "median_tpot_ms")}
                     for run in runs]
    return point


def add_scaling(points):
    """speedup, efficiency and losses of decode steps alone, in the form of runtime/study/parts.h."""
    for point in points:
        alike = [other for other in points if all(other[key] == point[key] for key in
                                                  ("batch", "input_len", "output_len", "options"))]
        base = min(alike, key=lambda other: other["ranks"])
        share = base["ranks"] / point["ranks"]
        speedup = point["output_throughput"] / base["output_throughput"]
        noise = 0 if point is base else 0.011 + 0.012 / point["batch"] ** 0.5
        interval = [speedup * (1 - noise), speedup * (1 + noise)]
        point.update(speedup=speedup, speedup_interval=interval, efficiency=speedup * share,
                     efficiency_interval=[value * share for value in interval])
        losses = dict.fromkeys(LOSSES, 0.0)
        for part in PARTS:
            here = point["time_us"][part] / point["time_us"]["step"]
            there = base["time_us"][part] / base["time_us"]["step"]
            losses[LOSS_OF.get(part, "smaller_gemms")] += here - share * speedup * there
        point["losses"] = losses


def make_study(ranks=(1, 2, 4), batches=(1, 16, 256), lengths=((512, 128), (2048, 256)), n_starts=2, n_repeats=2):
    random_ = random.Random(7)
    points = [make_point(random_, n, batch, pair, n_starts, n_repeats)
              for pair in lengths for batch in batches for n in ranks]
    add_scaling(points)
    points[-1]["warnings"].append("GPU 0: clock fell from 1980 to 1755 MHz")
    skipped = [{"ranks": n, "batch": 4 * max(batches), "input_len": 2048, "output_len": 256, "options": {},
                "reason": f"needs {n} x 152 GiB of KV blocks, there are 118 GiB"} for n in ranks[:1]]
    predictions = []
    for batch in batches:
        base = next(p for p in points if p["batch"] == batch and p["ranks"] == ranks[0])
        n = 2 * max(ranks)
        best = 1 / sum(step_parts(n, batch, 576).values()) * sum(step_parts(ranks[0], batch, 576).values())
        predictions.append({"ranks": n, "batch": batch, "input_len": lengths[0][0], "output_len": lengths[0][1],
                            "options": {}, "output_throughput": base["output_throughput"] * best, "speedup": best,
                            "error": 0.06})
    all_reduce = [{"ranks": n, "bytes": size, "us": 4.2 + 0.4 * n + 2 * (n - 1) / n * size / LINK * 1e6}
                  for n in ranks if n > 1 for size in (8192, 131072, 2097152)]
    return {"yoke_study": 1, "version": "0.2.0", "created": "2026-01-01T00:00:00Z",
            "command": f"yoke study synthetic-8b --ranks {','.join(map(str, ranks))}"
                       f" --batch {','.join(map(str, batches))} --repeats {n_repeats}",
            "machine": {"device": "cuda", "devices": ["Synthetic GPU"] * max(ranks), "driver": "0.0",
                        "cpu": "Synthetic CPU", "n_cpus": 16, "memory_bytes_per_s": BANDWIDTH,
                        "gemm_flops": GEMM_RATE, "link_bytes_per_s": LINK, "all_reduce": all_reduce},
            "model": {"name": "synthetic-8b", "family": "qwen3", "dtype": "float16", "n_layers": N_LAYERS,
                      "hidden_size": HIDDEN, "vocab_size": 151936, "weight_bytes": 6100000000},
            "repeats": n_repeats, "starts": n_starts, "points": points, "skipped": skipped,
            "predictions": predictions}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(member) for key, member in value.items()}
    return [rounded(member) for member in value] if isinstance(value, list) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.path.join(HERE, "synthetic_study.json"))
    with open(parser.parse_args().output, "w", encoding="utf-8") as file:
        json.dump(rounded(make_study()), file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
