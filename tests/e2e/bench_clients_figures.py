"""bench_clients: its figures are consistent, and its requests are those of bench_serve.py."""

import json
import os
import subprocess
import tempfile

import harness


class Figures(harness.Case):
    def bench(self, *options, expect=0):
        program = os.path.join(os.path.dirname(self.yoke), "bench_clients")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figures.json")
            done = subprocess.run([program, "--model", harness.DEMO, *harness.ON, "--kv-cache-bytes", "64MiB", "--json",
                                   path, *options], capture_output=True, text=True, timeout=600, check=False)
            self.assertNotIn("Sanitizer", done.stderr)
            self.assertEqual(done.returncode, expect, done.stderr)
            self.out, self.err = done.stdout, done.stderr
            if expect:
                return None
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def test_same_requests_as_bench_serve(self):
        report = self.bench("--clients", "16", "--requests", "64", "--input-len", "32", "--output-len", "64",
                            "--range-ratio", "0.3")
        names = ("completed", "failed", "total_input_tokens", "total_output_tokens")
        self.assertEqual([report[name] for name in names], [64, 0, 1993, 3953])

    def test_constrained_outputs_end_with_their_schema(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "schema.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"const": "a"}, file)
            report = self.bench("--clients", "2", "--requests", "4", "--input-len", "8", "--output-len", "40",
                                "--json-schema", path)
        self.assertEqual(report["completed"], 4)
        self.assertLess(report["total_output_tokens"], 4 * 10)
        self.assertTrue(1 <= report["masks_per_step"] <= 2)
        self.assertGreater(report["mean_mask_ms"], 0)

    def test_a_long_prompt_joins_the_others(self):
        """It is no request of the figures, with and without a limit of its share of a step."""
        for most in (0, 128, -1):
            report = self.bench("--clients", "2", "--requests", "4", "--input-len", "8", "--output-len", "30",
                                "--long-prompt", "600", "--max-num-batched-tokens", "256",
                                "--long-prefill-token-threshold", str(most))
            self.assertEqual((report["completed"], report["total_input_tokens"]), (4, 4 * 8))
            self.assertEqual(report["long_prompt_tokens"], 600)
            self.assertGreater(report["long_prompt_ttft_ms"], 0)

    def test_figures_agree(self):
        n_output = 12
        report = self.bench("--clients", "3", "--requests", "10", "--input-len", "8", "--output-len", str(n_output),
                            "--repeats", "3")
        self.assertEqual(len(report["runs"]), 3)
        for run in report["runs"]:
            self.assertEqual(run["completed"], 10)
            self.assertAlmostEqual(run["output_throughput"] * run["duration"], 10 * n_output)
            self.assertAlmostEqual(run["request_throughput"] * run["duration"], 10)
            self.assertAlmostEqual(run["total_token_throughput"] * run["duration"], 10 * (n_output + 8))
            self.assertAlmostEqual(run["mean_itl_ms"], run["mean_tpot_ms"])
            self.assertAlmostEqual(run["mean_e2el_ms"], run["mean_ttft_ms"] + (n_output - 1) * run["mean_tpot_ms"])
            self.assertLess(run["mean_e2el_ms"] * 10 / 3 / 1000, run["duration"] * 1.001, "three are under way at most")
            for name in ("ttft", "tpot", "itl", "e2el"):
                self.assertTrue(0 <= run[f"median_{name}_ms"] <= run[f"p90_{name}_ms"] <= run[f"p95_{name}_ms"]
                                <= run[f"p99_{name}_ms"], name)
        durations = sorted(run["duration"] for run in report["runs"])
        self.assertEqual((report["duration"], report["spread"]["duration"]),
                         (durations[1], durations[2] - durations[0]))
        self.assertIn("output_throughput", self.out)

    def test_one_token(self):
        report = self.bench("--clients", "4", "--requests", "6", "--input-len", "4", "--output-len", "1")
        self.assertEqual((report["total_output_tokens"], report["mean_tpot_ms"], report["mean_itl_ms"]), (6, 0, 0))

    def test_too_long(self):
        self.bench("--clients", "2", "--requests", "4", "--input-len", "5000", "--output-len", "4", expect=1)
        self.assertIn("5000", self.err)


if __name__ == "__main__":
    harness.main()
