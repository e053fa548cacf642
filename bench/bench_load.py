#!/usr/bin/env python3
"""Measures the time to load weights from the page cache, by checkpoint format, and the host memory that it takes.

  python3 bench/bench_load.py build/release/bin/yoke --device cuda --json bench/results/load_qwen3_8b_h200.json

Makes a random model of each format (scripts/make_random_model.py), which leaves the files in the page cache, and loads
it --repeats times for one token. Seconds come from the program's log: from the first byte of the weights read to the
last layer prepared. Devices are opened (CUDA contexts are created) before. GB/s counts the checkpoint's bytes, once for
all ranks, independent of their size in memory.

anon_mb is the most anonymous memory that the process held before it was loaded, read from /proc a hundred times a
second. On the CPU device it includes the weights, whose size is weights_mb. pinned_mb is the memory pinned by the
driver, if the system reports it. anon_before_mb is the anonymous memory before the first weight is read.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
LOADED = re.compile(r"opened devices in ([\d.]+) s; loaded ([\d.]+) GB of weights in ([\d.]+) s")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
WEIGHTS = re.compile(r"rank \d+: weights ([\d.]+) (\w+),")
SAMPLE_S = 0.01


def memory_of(pid):
    """Megabytes by kind, from /proc/PID/status."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            pairs = (line.split(":", 1) for line in file if ":" in line)
            return {name: int(value.split()[0]) * 1024 / 1e6 for name, value in pairs
                    if name in ("RssAnon", "RssShmem", "VmPin", "VmLck")}
    except (OSError, ValueError, IndexError):
        return {}


class Peaks(threading.Thread):
    """Samples a process until stopped."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peaks, self.stops = pid, {}, threading.Event()
        self.start()

    def run(self):
        while not self.stops.wait(SAMPLE_S):
            for name, value in memory_of(self.pid).items():
                self.peaks[name] = max(self.peaks.get(name, 0), value)

    def stop(self):
        self.stops.set()
        self.join()
        return self.peaks


def load_once(yoke, model, arguments):
    command = [yoke, "generate", "-m", model, "--device", arguments.device, "--tp", str(arguments.tp), "--token-ids",
               "1,2,3", "-n", "1", "--max-model-len", "256", "--max-num-seqs", "1"]
    if arguments.threads:
        command += ["--threads", str(arguments.threads)]
    weights_bytes, before = 0, {}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peaks = Peaks(process.pid)
    loaded, text = None, ""
    for line in process.stderr:
        text += line
        weights = WEIGHTS.search(line)
        if weights:
            weights_bytes += float(weights[1]) * UNITS[weights[2]]
            before = memory_of(process.pid)
        loaded = loaded or LOADED.search(line)
        if loaded:
            peaks.stops.set()
    found = peaks.stop()
    if process.wait() != 0 or not loaded:
        raise SystemExit(f"{' '.join(command)}: status {process.returncode}\n{text}")
    return {"open_s": float(loaded[1]), "checkpoint_gb": float(loaded[2]), "load_s": float(loaded[3]),
            "anon_mb": round(found.get("RssAnon", 0)), "anon_before_mb": round(before.get("RssAnon", 0)),
            "pinned_mb": round(max(found.get("VmPin", 0), found.get("VmLck", 0))),
            "weights_mb": round(weights_bytes / 1e6)}


def measure(yoke, name, arguments, folder):
    model = os.path.join(folder, name)
    command = [sys.executable, os.path.join(ROOT, "scripts", "make_random_model.py"), "--preset", arguments.preset,
               "--format", name, "--out", model]
    if arguments.layers:
        command += ["--layers", str(arguments.layers)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    try:
        runs = [load_once(yoke, model, arguments) for _ in range(arguments.repeats)]
    finally:
        shutil.rmtree(model, ignore_errors=True)
    seconds = statistics.median(run["load_s"] for run in runs)
    return {"format": name, "checkpoint_gb": runs[0]["checkpoint_gb"], "load_s": round(seconds, 3),
            "gb_per_s": round(runs[0]["checkpoint_gb"] / seconds, 2), "runs_s": [run["load_s"] for run in runs],
            **{key: max(run[key] for run in runs)
               for key in ("open_s", "anon_mb", "anon_before_mb", "pinned_mb", "weights_mb")}}


def machine():
    gpu = ""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        gpu = subprocess.run(query, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    return {"cpu": cpu, "cores": os.cpu_count(), "gpu": gpu}


def main():
    from random_model_formats import FORMATS  # numpy is needed only from here on
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yoke")
    parser.add_argument("--json", required=True, help="where the results go")
    parser.add_argument("--preset", default="qwen3-8b", help="shape (default: qwen3-8b)")
    parser.add_argument("--layers", type=int, help="number of layers instead of the preset's")
    parser.add_argument("--formats", default=",".join(FORMATS), help="default: all")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--tp", type=int, default=1, help="ranks (default: 1)")
    parser.add_argument("--threads", type=int, help="default: every core")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", help="where models are made (default: a temporary folder)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further format after so long")
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], check=False, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    result = {"command": "python3 bench/bench_load.py " + " ".join(sys.argv[1:]), "commit": commit, **machine(),
              "rows": []}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name in arguments.formats.split(","):
            if time.monotonic() - begin > arguments.seconds:
                break
            result["rows"].append(measure(os.path.abspath(arguments.yoke), name, arguments, folder))
            print(json.dumps(result["rows"][-1]), flush=True)
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
                file.write("\n")


if __name__ == "__main__":
    main()
