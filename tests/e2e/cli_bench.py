"""yoke bench: figures agree with each other and with the options; names in the JSON, refusals, signals."""

import json
import os
import re
import signal
import subprocess
import time

import harness

STATISTICS = ("mean", "median", "std", "p90", "p95", "p99")
PARTS = ("gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
         "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host", "states")
NAMES = {"duration", "completed", "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
         "output_throughput", "total_token_throughput", "prefill_throughput", "decode_throughput", "kv_use",
         "prefix_reuse", "preemptions", "memory_bytes", "energy_j", "energy_j_per_token",
         *(f"{statistic}_{time}_ms" for statistic in STATISTICS for time in ("ttft", "tpot", "itl", "e2el"))}
BENCH = ("bench", "--model", harness.DEMO, *harness.ON)


class Bench(harness.Case):
    def setUp(self):
        self.folder = harness.scratch_folder(self.addCleanup)
        self.path = os.path.join(self.folder, "figures.json")

    def bench(self, *arguments):
        self.done = self.run_yoke(*BENCH, "--output", self.path, *arguments)
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

    def write(self, text):
        path = os.path.join(self.folder, "lengths")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Figures(Bench):
    def check_run(self, run, n, n_in, n_out):
        self.assertLessEqual(NAMES, run.keys())
        self.assertEqual([run[name] for name in ("completed", "total_input_tokens", "total_output_tokens")],
                         [n, n_in, n_out])
        seconds = run["duration"]
        self.assertAlmostEqual(run["request_throughput"] * seconds, n, 5)
        self.assertAlmostEqual(run["output_throughput"] * seconds, n_out, 4)
        self.assertAlmostEqual(run["total_token_throughput"] * seconds, n_in + n_out, 4)
        for name in ("ttft", "tpot", "itl", "e2el"):
            self.assertTrue(0 <= run[f"median_{name}_ms"] <= run[f"p90_{name}_ms"] <= run[f"p95_{name}_ms"]
                            <= run[f"p99_{name}_ms"] <= seconds * 1000, name)
        self.assertTrue(0 < run["kv_use"] <= 1)

    def test_batch(self):
        n_out = 24
        figures = self.bench("--ranks", "2" if harness.ON_CPU else str(harness.RANKS), "--batch", "4", "--input-len",
                             "32", "--output-len", n_out, "--repeats", "3")
        self.check_run(figures, 4, 128, 4 * n_out)
        self.assertEqual([figures[name] for name in ("batch", "input_len", "output_len", "repeats", "n_runs")],
                         [4, 32, n_out, 3, 3])
        self.assertNotIn("request_rate", figures)
        self.assertEqual(len(figures["runs"]), 3)
        for run in figures["runs"]:
            self.check_run(run, 4, 128, 4 * n_out)
            self.assertAlmostEqual(run["mean_itl_ms"], run["mean_tpot_ms"], 4)
            self.assertAlmostEqual(run["mean_e2el_ms"], run["mean_ttft_ms"] + (n_out - 1) * run["mean_tpot_ms"], 4)
            self.assertGreater(run["decode_throughput"], 0.5 * 4 * 1000 / run["mean_itl_ms"])
            self.assertGreater(run["prefill_throughput"], 128 / run["duration"])
            self.assertEqual(run["prefix_reuse"], 0, "prompts of a run are those of the run before")
        durations = sorted(run["duration"] for run in figures["runs"])
        self.assertAlmostEqual(figures["duration"], durations[1])
        self.assertAlmostEqual(figures["spread"]["duration"], durations[2] - durations[0])
        for part in ("prefill (pp), tokens/s", "decode (tg), tokens/s", "over 3 runs after a warm-up", "TTFT, ms"):
            self.assertIn(part, self.done.out)
        # The warm-up is the first run and is in no figure. The file has the other runs, in their order.
        reported = re.findall(r"(warm-up, not counted,|run) (\d) of \d: ([\d.]+) output tokens/s", self.done.err)
        self.assertEqual([(kind[:3], number) for kind, number, _ in reported],
                         [("war", "1"), ("run", "1"), ("run", "2"), ("run", "3")])
        self.assertEqual([rate for *_, rate in reported[1:]],
                         [f"{run['output_throughput']:.1f}" for run in figures["runs"]])
        memory = [sum(rank.values()) for rank in figures["memory"]]
        self.assertEqual((len(memory), max(memory)), (figures["ranks"], figures["memory_bytes"]))

    def check_table(self, name, times):
        """The table of each kind of step agrees with the file; figures of several ranks are side by side."""
        table = self.done.out.partition(f"\n{name} ")[2].partition("\n\n")[0]
        head = re.match(r" *([\d.]+)   over (\d+) timed steps", table)
        self.assertTrue(head, f"no table of '{name}': {self.done.out}")
        self.assertEqual((head[1], int(head[2])), (f"{times['step']:.1f}", times["n_steps"]))
        for part in PARTS:
            of_ranks = re.search(rf"(?m)^{part} +(\d.*)$", table)[1].split()
            self.assertAlmostEqual(sum(map(float, of_ranks)) / len(of_ranks), times[part], delta=0.1)

    def test_times_of_parts(self):
        trace = os.path.join(self.folder, "trace.json")
        figures = self.bench("--batch", "2", "--input-len", "16", "--output-len", "16", "--repeats", "1", "--trace",
                             trace)
        times = figures["time_us"]
        self.assertEqual(set(times), {"n_steps", "step", *PARTS})
        self.assertAlmostEqual(sum(times[part] for part in PARTS) / times["step"], 1, delta=0.02)
        self.assertEqual(len(figures["time_us_by_rank"]), figures["ranks"])
        prefill = figures["time_us_prefill"]
        self.assertEqual(set(prefill), {"n_steps", "step", *PARTS})
        self.assertAlmostEqual(sum(prefill[part] for part in PARTS) / prefill["step"], 1, delta=0.02)
        self.check_table("step of prompts, us", prefill)
        self.check_table("decode step, us", times)
        timed = figures["timed_run"]
        self.check_run(timed, 2, 32, 32)
        self.assertNotEqual(timed["duration"], figures["runs"][0]["duration"])
        self.assertIn(f"{timed['output_throughput']:.1f}   ({figures['output_throughput']:.1f} in", self.done.out)
        with open(trace, encoding="utf-8") as file:
            self.assertTrue(json.load(file))

    def test_steps_of_many_operations_are_timed(self):
        """A step counts if each of its operations has a stamp."""
        figures = self.bench("--model", os.path.join(harness.FAMILIES, "format_w8a8_experts"), "--ranks", "2",
                             "--batch", "2", "--input-len", "8", "--output-len", "40", "--repeats", "1",
                             "--max-num-batched-tokens", "16", "--max-num-seqs", "16")
        self.assertGreater(figures["time_us"]["n_steps"], 30)

    def test_shared_prefix(self):
        arguments = ("--batch", "8", "--input-len", "80", "--output-len", "4", "--shared-prefix", "64", "--repeats",
                     "2", "--max-num-batched-tokens", "96")
        figures = self.bench(*arguments)
        for run in figures["runs"]:
            self.assertTrue(0.4 < run["prefix_reuse"] <= 7 * 64 / (8 * 80), run["prefix_reuse"])
        self.assertEqual(self.bench(*arguments, "--no-prefix-reuse")["prefix_reuse"], 0)

    def test_adapters(self):
        """Requests share prefixes only with requests of the same adapter: two of four requests have another adapter."""
        adapter = os.path.join(harness.TESTS_DIR, "golden", "adapters", "all_linear")
        arguments = ("--model", os.path.join(harness.FAMILIES, "qwen3_f32"), "--batch", "4", "--input-len", "80",
                     "--output-len", "4", "--shared-prefix", "64", "--repeats", "1", "--max-num-batched-tokens", "96")
        plain = self.bench(*arguments)
        adapted = self.bench(*arguments, "--enable-lora", "--lora-modules", f"x={adapter}", f"y={adapter}")
        self.assertEqual((plain["adapters"], adapted["adapters"]), (0, 2))
        self.assertAlmostEqual(plain["prefix_reuse"], 3 * 64 / (4 * 80))
        self.assertAlmostEqual(adapted["prefix_reuse"], 2 * 64 / (4 * 80))

    def test_experts(self):
        """A model that chooses expert 1 for every row and expert 4 for none. Two ranks have 3 experts each, or 16 and 8
        of the 24 channels of all."""
        n_rows = 3 * 3 * (20 + 6 - 1)  # warm-up, run and timed run of 3 sequences, whose last token is not computed
        for options in (("--enable-expert-parallel",), ()):
            figures = self.bench("--model", os.path.join(harness.FAMILIES, "moe_glm4"), "--ranks", "2", *options,
                                 "--batch", "3", "--input-len", "20", "--output-len", "6", "--repeats", "1")
            experts = figures["experts"]
            self.assertEqual((experts["n_experts"], experts["top_k"]), (6, 3))
            self.assertEqual([layer["layer"] for layer in experts["layers"]], [1, 2])
            for layer in experts["layers"]:
                self.assertEqual((sum(layer["rows"]), layer["rows"][1], layer["rows"][4]), (3 * n_rows, n_rows, 0))
            shares, busiest = experts["rank_shares"], experts["busiest_rank_share"]
            self.assertAlmostEqual(sum(shares), 1)
            if options:
                of_layers = [[sum(layer["rows"][:3]), sum(layer["rows"][3:])] for layer in experts["layers"]]
                self.assertAlmostEqual(shares[0], sum(first for first, _ in of_layers) / (6 * n_rows))
                self.assertAlmostEqual(busiest, sum(map(max, of_layers)) / (6 * n_rows))
                self.assertTrue(0.5 < figures["expert_busiest_share"] <= 1)
            else:
                self.assertAlmostEqual(shares[0], 2 / 3)
                self.assertAlmostEqual(busiest, 2 / 3)
                self.assertAlmostEqual(figures["expert_busiest_share"], 2 / 3)

    def test_clients(self):
        figures = self.bench("--clients", "3", "--requests", "10", "--input-len", "8", "--output-len", "12",
                             "--repeats", "1", "--slo", "ttft:60000,e2el:60000")
        self.check_run(figures, 10, 80, 120)
        self.assertEqual((figures["clients"], figures["requests"], figures["max_num_seqs"]), (3, 10, 3))
        self.assertLess(figures["mean_e2el_ms"] * 10 / 3 / 1000, figures["duration"] * 1.001, "three at most")
        self.assertAlmostEqual(figures["request_goodput"], figures["request_throughput"])
        self.assertEqual(figures["slo_ms"], {"ttft": 60000, "e2el": 60000})
        self.assertIsNone(figures["decode_throughput"])

    def test_rate(self):
        for arrivals in ("constant", "poisson"):
            with self.subTest(arrivals):
                figures = self.bench("--request-rate", "40", "--requests", "20", "--arrivals", arrivals, "--input-len",
                                     "4-12", "--output-len", "2-6", "--repeats", "1", "--slo", "ttft:0.000001")
                run = figures["runs"][0]
                self.assertEqual((run["completed"], run["request_goodput"]), (20, 0))
                self.assertTrue(80 <= run["total_input_tokens"] <= 240 and 40 <= run["total_output_tokens"] <= 120)
                self.assertGreaterEqual(run["late_ms"], 0)
                if arrivals == "constant":
                    self.assertGreaterEqual(run["duration"], 19 / 40)
                self.assertEqual((figures["request_rate"], figures["input_len"]), (40, "4-12"))

    def test_lengths(self):
        path = self.write("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.1,7,3\n"
                          "2023-11-16 18:15:46.6,9,0\n2023-11-16 18:15:46.9,5,2\n")
        figures = self.bench("--lengths", path, "--arrivals", "trace", "--repeats", "1")
        self.assertEqual([figures[name] for name in ("completed", "total_input_tokens", "total_output_tokens")],
                         [3, 21, 6])
        self.assertGreaterEqual(figures["duration"], 0.8)
        figures = self.bench("--lengths", path, "--batch", "4", "--repeats", "1")
        self.assertEqual((figures["total_input_tokens"], figures["total_output_tokens"]), (28, 9))
        self.assertIn("never decoded all at once", figures["warnings"][0])

    def test_many_streams(self):
        """The reading thread keeps up, and nothing is lost."""
        n = 128 if harness.is_sanitized(self.yoke) else 1024
        figures = self.bench("--batch", n, "--input-len", "2", "--output-len", "3", "--repeats", "1")
        self.assertEqual((figures["completed"], figures["total_output_tokens"]), (n, 3 * n))

    @harness.of_the_program
    def test_more_ranks_than_measured_gpus(self):
        """--device auto, without GPUs: nothing is opened for their energy."""
        if harness.count_gpus() == 0:
            done = self.run_yoke("bench", harness.DEMO, "--tp", 9, "--input-len", 4, "--output-len", 2, "--repeats", 1)
            self.assertIn("output", done.out)
            self.assert_error(["bench", harness.DEMO, "--devices", "0,1"], "--devices: this ", "; use none")

    def test_same_work(self):
        """Lengths depend on the seed alone."""
        totals = [self.bench("--batch", "5", "--input-len", "3-60", "--output-len", "2-9", "--repeats", "1", "--seed",
                             seed)["total_input_tokens"] for seed in (1, 1, 2)]
        self.assertEqual(totals[0], totals[1])
        self.assertNotEqual(totals[0], totals[2])


class Refused(Bench):
    def test_options(self):
        trace = self.write("input_length,output_length\n9,9\n")
        for arguments, parts in (
                (["--batch", "0"], ["--batch", "from 1 to 65536", '"0"']),
                (["--request-rate", "0"], ["--request-rate", "above 0", '"0"']),
                (["--clients", "0"], ["--clients", '"0"']),
                (["--requests", "0", "--clients", "2"], ["--requests", '"0"']),
                (["--repeats", "65"], ["--repeats", "from 1 to 64"]),
                (["--ranks", "65"], ["--ranks", "from 1 to 64"]),
                (["--ranks", "1,2"], ["--ranks", '"1,2"']),
                (["--batch", "2", "--clients", "2"], ["one of --batch, --clients and --request-rate", "several"]),
                (["--batch", "2", "--requests", "2"], ["--requests", "--request-rate or --clients"]),
                (["--arrivals", "constant"], ["--arrivals", "--request-rate"]),
                (["--arrivals", "bursty", "--request-rate", "1"], ["--arrivals", "poisson, constant, trace"]),
                (["--arrivals", "trace"], ["--arrivals trace", "--lengths", "none"]),
                (["--arrivals", "trace", "--lengths", trace], ["--arrivals trace", "a file without"]),
                (["--lengths", trace, "--input-len", "5"], ["--lengths", "--input-len"]),
                (["--lengths", "/no/such/file"], ["/no/such/file", "No such file"]),
                (["--lengths", self.folder], [self.folder]),
                (["--input-len", "0"], ["--input-len", "tokens from 1 to", '"0"']),
                (["--input-len", "9-3"], ["--input-len", '"9-3"']),
                (["--output-len", "5x"], ["--output-len", '"5x"']),
                (["--output-len", "-5"], ["--output-len", '"-5"']),
                (["--output-len", ""], ["--output-len", '""']),
                (["--shared-prefix", "512"], ["--shared-prefix", "shortest prompt, 512", "found 512"]),
                (["--slo", "ttft:fast"], ["--slo", "milliseconds above 0", '"fast"']),
                (["--slo", "speed:1"], ["--slo", '"speed:1"']),
                (["--temperature", "-1"], ["--temperature", '"-1"']),
                (["--top-p", "0"], ["--top-p", '"0"']),
                (["--top-k", "-1"], ["--top-k", '"-1"']),
                (["--batch", "8", "--max-num-seqs", "4"], ["--batch", "at most 4", "--max-num-seqs", "found 8"]),
                (["--max-model-len", "600"], ["612 tokens", "at most 600", "--max-model-len"]),
                (["what"], ['"what"', "yoke bench --help"])):
            with self.subTest(arguments):
                self.assert_usage_error([*BENCH, *arguments], *parts)
        self.assert_usage_error(["bench"], "--model", "found nothing")

    def test_model(self):
        """Figures that come from the checkpoint's headers only."""
        self.assert_error([*BENCH, "--input-len", "5000000"], "input and output tokens of a request: expected at most ")
        self.assert_error([*BENCH, "--max-model-len", "5000000"], "--max-model-len: expected at most ")
        self.assert_error([*BENCH, "--kv-cache-bytes", "1MiB"], "KV cache holds", "612")
        self.assert_error([*BENCH, "--batch", "64", "--kv-cache-bytes", "4MiB"], "--batch 64: expected at most",
                          "the KV cache", "found 39168")
        self.assert_error(["bench", "--model", self.folder], self.folder)

    def test_output(self):
        arguments = [*BENCH, "--batch", "1", "--input-len", "4", "--output-len", "4"]
        for path in ("/no/such/file", self.folder):
            self.assert_error([*arguments, "--output", path], "--output", path)
            self.assert_error([*arguments, "--trace", path], "--trace", path)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("x" * 20000)
        self.assert_error([*arguments, "--kv-cache-bytes", "1", "--output", self.path])
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(len(file.read()), 20000, "a run that failed has kept what the file held")
        self.assertEqual(self.bench("--batch", "1", "--input-len", "4", "--output-len", "4")["completed"], 1)
        os.remove(self.path)
        self.assert_error([*arguments, "--kv-cache-bytes", "1", "--output", self.path])
        self.assertFalse(os.path.exists(self.path), "a run that failed has left an empty file")
        done = self.run_yoke(*arguments, "--repeats", "1", "--output", "/dev/full", expect=1)
        self.assertIn("/dev/full: cannot be written: No space left", done.err)


class Interrupted(Bench):
    def start(self, *arguments):
        program = subprocess.Popen([self.yoke, *BENCH, "--output", self.path, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(program.kill)
        return program

    def test_after_a_run(self):
        with self.start("--batch", "2", "--input-len", "4", "--output-len", "200", "--repeats", "64") as program:
            for line in program.stderr:
                if "run 2 of 64" in line:
                    break
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 130, err)
        self.assertIn("interrupted", out)
        self.assertRegex(out, r"(?m)^output, tokens/s +\d")
        with open(self.path, encoding="utf-8") as file:
            figures = json.load(file)
        self.assertTrue(figures["interrupted"])
        self.assertTrue(2 <= figures["n_runs"] == len(figures["runs"]) < 64)
        self.assertEqual(figures["completed"], 2)

    def test_before_a_run(self):
        with self.start("--request-rate", "0.01", "--requests", "100") as program:
            self.assertIn("100 requests, 0.01 a second", program.stdout.readline())
            time.sleep(0.2)
            program.send_signal(signal.SIGINT)
            start = time.monotonic()
            out, err = program.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual((program.returncode, out), (130, ""), err)
        self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    harness.main()
