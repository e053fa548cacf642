#!/usr/bin/env python3
"""Compares two builds of yoke, which run alternately on one machine: `yoke bench` of each model, rank count and batch.

Prints one line per point: medians of both builds over their runs, the difference in percent, and the spread (largest
less smallest over runs, in percent of the median). A point that is slower by more than --limit percent plus its spread
is measured twice more before it counts. Exit code: 1 where such a point remains, 2 where a run failed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

FIGURES = ("decode_throughput", "prefill_throughput")


def list_of(text):
    return [int(item) for item in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the program of the build before")
    parser.add_argument("after", help="the program of the build after")
    parser.add_argument("--model", action="append", required=True, metavar="DIR", help="a checkpoint; again for others")
    parser.add_argument("--ranks", type=list_of, default=[1], help="rank counts, as 1,2 (default: 1)")
    parser.add_argument("--batch", type=list_of, default=[1, 8, 64, 256], help="(default: 1,8,64,256)")
    parser.add_argument("--input-len", type=int, default=512, help="tokens of a prompt (default: 512)")
    parser.add_argument("--output-len", type=int, default=64, help="tokens of an answer (default: 64)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each turn (default: 3)")
    parser.add_argument("--turns", type=int, default=1, help="turns of each build at each point (default: 1)")
    parser.add_argument("--limit", type=float, default=1.0, help="percent that a point may lose (default: 1)")
    parser.add_argument("--time-limit", type=float, default=3600, help="seconds, after which no point begins")
    parser.add_argument("--output", help="a JSON file for all figures")
    return parser.parse_args()


class Point:
    """One model, rank count and batch; the figures of each build's runs."""

    def __init__(self, options, model, ranks, batch):
        self.options, self.model, self.ranks, self.batch = options, model, ranks, batch
        self.turns = {"before": [], "after": []}

    def run(self, build):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [getattr(self.options, build), "bench", self.model, "--ranks", str(self.ranks),
                       "--batch", str(self.batch), "--input-len", str(self.options.input_len),
                       "--output-len", str(self.options.output_len), "--repeats", str(self.options.repeats),
                       "--output", file.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
            result = json.load(file)
        self.turns[build].append({figure: result[figure] for figure in FIGURES if result[figure] is not None})

    def measure(self, turns):
        for _ in range(turns):
            self.run("before")
            self.run("after")

    def figures(self):
        """Fields that every run has: a batch that never decodes as a whole has no decode rate."""
        return [figure for figure in FIGURES
                if all(figure in turn for turns in self.turns.values() for turn in turns)]

    def figure(self, build, figure):
        values = [turn[figure] for turn in self.turns[build]]
        median = statistics.median(values)
        return median, 100 * (max(values) - min(values)) / median

    def change(self, figure):
        """Difference of after from before in percent, and the larger spread."""
        (before, spread_before), (after, spread_after) = self.figure("before", figure), self.figure("after", figure)
        return 100 * (after / before - 1), max(spread_before, spread_after)

    def is_slower(self):
        return any(change < -self.options.limit - spread for change, spread in map(self.change, self.figures()))

    def print(self):
        parts = []
        for figure in self.figures():
            change, spread = self.change(figure)
            parts.append(f"{figure.split('_', 1)[0]} {self.figure('before', figure)[0]:9.1f} -> "
                         f"{self.figure('after', figure)[0]:9.1f} ({change:+5.2f} %, spread {spread:.2f} %)")
        name = os.path.basename(self.model.rstrip("/"))
        print(f"{name:16} ranks {self.ranks} batch {self.batch:4}: {'; '.join(parts)}", flush=True)


def main():
    options = parse_arguments()
    end = time.monotonic() + options.time_limit
    points = [Point(options, model, ranks, batch)
              for model in options.model for ranks in options.ranks for batch in options.batch]
    measured = []
    for point in points:
        if time.monotonic() > end:
            print(f"time limit: {len(points) - len(measured)} of {len(points)} points not measured", flush=True)
            break
        point.measure(options.turns)
        if point.is_slower():
            point.measure(2)
        point.print()
        measured.append(point)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({"command": " ".join(sys.argv), "points": [
                {"model": point.model, "ranks": point.ranks, "batch": point.batch, **point.turns}
                for point in measured]}, file, indent=1)
            file.write("\n")
    return 1 if any(point.is_slower() for point in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
