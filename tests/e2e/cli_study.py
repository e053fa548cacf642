"""yoke study: a small study from start to files, interrupted and resumed, compared and predicted; errors."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import time
import xml.etree.ElementTree

import harness

TINY = os.path.join(harness.FAMILIES, "qwen3")
MACHINE = {"yoke_machine": 1, "memory_bytes_per_s": 1e10, "gemm_flops": 5e10, "link_bytes_per_s": 1e9,
           "all_reduce": [{"ranks": 2, "bytes": 1024, "us": 5}, {"ranks": 2, "bytes": 1 << 20, "us": 500}]}
PARTS = ["gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
         "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host", "states"]
METRICS = ["duration", "completed", "total_input_tokens", "total_output_tokens", "request_throughput",
           "output_throughput", "total_token_throughput", "prefill_throughput", "decode_throughput",
           *(f"{figure}_{time}_ms" for time in ("ttft", "tpot", "itl", "e2el")
             for figure in ("mean", "median", "p90", "p95", "p99"))]


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def write_json(value, *path):
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        json.dump(value, file)
    return os.path.join(*path)


class Base(harness.Case):
    def setUp(self):
        self.folder = harness.scratch_folder(self.addCleanup)
        self.dir = os.path.join(self.folder, "new", "study")
        self.machine = write_json(MACHINE, self.folder, "machine.json")

    def arguments(self, *options, model=harness.DEMO):
        return ["study", "--model", model, "--device", "cpu", "--threads", "2", "--kv-cache-bytes", "8MiB",
                "--starts", "2", "--repeats", "1", "--input-len", "8", "--output-len", "6", "--machine", self.machine,
                "--output-dir", self.dir, *options]

    def records(self):
        """Records of the journal, after its head."""
        with open(os.path.join(self.dir, "journal.jsonl"), "rb") as file:
            return [json.loads(line) for line in file.read().splitlines()[1:]]

    def study(self):
        return read_json(self.dir, "study.json")


@harness.of_the_program
class Whole(Base):
    def test_study(self):
        """Ranks, batches and an option. Impossible points are reported first, with the reason."""
        options = ["--ranks", "1-3,65", "--batch", "1,4", "--input-len", "8,100000"]
        done = self.run_yoke(*self.arguments(*options))
        self.assertIn("left out: 65 ranks, all 4 points: number of ranks: expected 1 to 64, found 65", done.err)
        self.assertIn("left out: 1 rank, batch 1, 100000 in, 6 out: ", done.err)
        self.assertRegex(done.err, r"6 points, 18 runs, of which 0 are done; about \d+:\d\d:\d\d left")
        self.assertIn("2 ranks; ", done.err)
        study = self.study()
        self.check_head(study)
        self.assertEqual(sorted((point["ranks"], point["batch"]) for point in study["points"]),
                         [(ranks, batch) for ranks in (1, 2, 3) for batch in (1, 4)])
        for point in study["points"]:
            self.check_point(point)
        self.assertEqual(len(study["skipped"]), 10)
        self.assertTrue(all(point["reason"] for point in study["skipped"]))
        self.check_csv(study)
        with open(os.path.join(self.dir, "report.html"), encoding="utf-8") as file:
            self.assertIn("yoke_study", file.read())
        self.check_figures()
        self.assertEqual(len(done.out.splitlines()), 1 + len(study["points"]))
        for line in done.out.splitlines()[1:]:
            self.assertRegex(line, r"^ +\d  batch .*  \d+\.\d\d(?: \(.*\))? +-  ")  # a speed-up, no efficiency
        # A second run: everything is done already.
        n_records = len(self.records())
        again = self.run_yoke(*self.arguments(*options))
        self.assertIn("18 runs, of which 18 are done", again.err)
        self.assertNotIn("starting", again.err)
        self.assertEqual(len(self.records()), n_records)
        self.assertEqual(self.study()["points"], study["points"])
        self.check_predict()
        self.check_report(done.out)

    def check_figures(self):
        """CPU ranks share the same cores: no efficiency."""
        names = sorted(os.listdir(os.path.join(self.dir, "figures")))
        self.assertEqual(names, sorted(name + ending for name in ("speedup", "latency", "limit", "time")
                                       for ending in (".svg", "_dark.svg", ".pdf")))
        for name in names:
            path = os.path.join(self.dir, "figures", name)
            if name.endswith(".svg"):
                self.assertEqual(xml.etree.ElementTree.parse(path).getroot().tag, "{http://www.w3.org/2000/svg}svg")
            else:
                with open(path, "rb") as file:
                    self.assertTrue(file.read().startswith(b"%PDF-1.4"))
        with open(os.path.join(self.dir, "results.tex"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(len(re.findall(r"(?m)^    \d+ & batch .* \\\\$", text)), 6)
        self.assertNotIn("Efficiency", text)

    def check_report(self, table):
        """Writes the files of a study again, without its model. On a terminal no line is wider than the terminal."""
        source, again = os.path.join(self.dir, "study.json"), os.path.join(self.folder, "again")
        self.assertEqual(self.run_yoke("study", "report", source, "-o", again).out, table)
        for name in ("study.json", "study.csv", "results.tex", "report.html", "figures/time.pdf"):
            with open(os.path.join(self.dir, name), "rb") as old, open(os.path.join(again, name), "rb") as new:
                self.assertEqual(old.read(), new.read(), name)
        for columns in (60, 90, 400):
            lines = self.run_on_terminal("study", "report", source, "-o", again, columns=columns,
                                         with_output=True).splitlines()
            self.assertEqual(len(lines), len(table.splitlines()))
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertTrue(columns < 400 or lines == table.splitlines())

    def check_head(self, study):
        self.assertEqual((study["yoke_study"], study["starts"], study["repeats"]), (1, 2, 1))
        self.assertRegex(study["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(study["command"].startswith("yoke study --model "))
        self.assertEqual((study["model"]["name"], study["model"]["family"]), ("demo", "qwen3"))
        config = read_json(harness.DEMO, "config.json")
        self.assertEqual([study["model"][key] for key in ("n_heads", "n_kv_heads", "intermediate_size", "group_size")],
                         [config["num_attention_heads"], config["num_key_value_heads"], config["intermediate_size"],
                          config["quantization_config"]["group_size"]])
        self.assertEqual(study["machine"]["device"], "cpu")
        for key in ("memory_bytes_per_s", "gemm_flops", "link_bytes_per_s", "all_reduce"):
            self.assertEqual(study["machine"][key], MACHINE[key])

    def check_point(self, point):
        self.assertEqual((point["input_len"], point["output_len"], point["options"], point["n_runs"]), (8, 6, {}, 2))
        self.assertEqual(point["total_output_tokens"], 6 * point["batch"])
        for metric in METRICS:
            low, high = point["intervals"][metric]
            self.assertTrue(low <= point[metric] <= high, metric)
        self.assertEqual([run["start"] for run in point["runs"]], [0, 1])
        mean = sum(run["output_throughput"] for run in point["runs"]) / 2
        self.assertAlmostEqual(point["output_throughput"] / mean, 1, places=7)
        self.assertEqual(set(point["limit"]), {"output_throughput", "decode_throughput", "share", "bound"})
        self.assertTrue(0 < point["limit"]["share"])
        times = point["time_us"]
        self.assertEqual(set(times), {"n_steps", "step", *PARTS})
        self.assertAlmostEqual(sum(times[part] for part in PARTS) / times["step"], 1, delta=0.05)
        self.assertEqual(len(point["time_us_by_rank"]), point["ranks"])
        self.assertAlmostEqual(sum(point["losses"].values()), 1 - point["efficiency"], places=6)
        self.assertAlmostEqual(point["efficiency"] * point["ranks"], point["speedup"], places=6)
        if point["ranks"] == 1:
            self.assertEqual((point["speedup"], point["speedup_interval"]), (1, [1, 1]))
        else:
            self.assertEqual(len(point["slowest"]), point["ranks"])

    def check_csv(self, study):
        with open(os.path.join(self.dir, "study.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(study["points"]))
        for row, point in zip(rows, study["points"]):
            of_experts = ["expert_busiest_share"] if "expert_busiest_share" in point else []
            for name in ("ranks", "batch", *METRICS, "speedup", "efficiency", *of_experts):
                self.assertAlmostEqual(float(row[name]), point[name], delta=1e-6 * abs(point[name]))
            self.assertAlmostEqual(float(row["duration_high"]), point["intervals"]["duration"][1], places=6)
            for name, value in point["losses"].items():
                self.assertAlmostEqual(float(row[f"losses_{name}"]), value, places=6)
            self.assertEqual(row["limit_bound"], point["limit"]["bound"])

    def check_predict(self):
        predicted = os.path.join(self.folder, "predicted")
        done = self.run_yoke("study", "predict", os.path.join(self.dir, "study.json"), "--ranks", "4,8",
                             "--output-dir", predicted)
        self.assertIn("Each measured point from the others", done.out)
        predictions = read_json(predicted, "study.json")["predictions"]
        self.assertEqual(sorted((row["ranks"], row["batch"]) for row in predictions), [(4, 1), (4, 4), (8, 1), (8, 4)])
        for row in predictions:
            self.assertGreater(row["output_throughput"], 0)
            self.assertGreaterEqual(row["error"], 0)
        self.assertTrue(os.path.getsize(os.path.join(predicted, "report.html")) > 1000)

    def test_whole_experts(self):
        """Ranks with 4 and 3 of 7 experts: the study reports it, the load of the busiest rank, and how the loss is
        split into waiting for the slowest rank and transfer."""
        model = os.path.join(harness.FAMILIES, "moe_qwen2")
        shares, limits = {}, {}
        for dealt in ("off", "on"):
            self.dir = os.path.join(self.folder, dealt)
            self.run_yoke(*self.arguments("--ranks", "1,2", "--batch", "4",
                                          *(["--enable-expert-parallel"] if dealt == "on" else []), model=model))
            one, point = sorted(self.study()["points"], key=lambda point: point["ranks"])
            self.assertEqual(one["expert_busiest_share"], 1)
            self.assertTrue(point["losses"]["imbalance"] > 0 and point["losses"]["all_reduce"] > 0, point["losses"])
            self.check_csv(self.study())
            self.assertEqual(point.get("expert_parallel", False), dealt == "on")
            self.assertTrue(0.5 <= point["expert_busiest_share"] <= 1)
            shares[dealt], limits[dealt] = point["expert_busiest_share"], point["limit"]["output_throughput"]
        self.assertEqual(shares["off"], 3 / 5)  # 3 of an expert's 5 groups of columns
        self.assertNotEqual(shares["on"], shares["off"])
        self.assertEqual(limits["on"], limits["off"])  # ranks on a CPU share its memory

    def test_options_and_clients(self):
        """Another load, and engine options with and without values; nothing about the machine is known."""
        self.run_yoke(*self.arguments("--clients", "1,2", "--num-requests", "3", "--sweep", "max-num-seqs=1-2",
                                      "--input-len", "40", "--shared-prefix", "32",
                                      "--sweep", "no-prefix-reuse=off,on", "--machine", "none", model=TINY))
        points = self.study()["points"]
        self.assertEqual(len(points), 8)
        self.assertEqual({tuple(point["options"].items()) for point in points},
                         {(("max-num-seqs", n), ("no-prefix-reuse", on)) for n in "12" for on in ("on", "off")})
        for point in points:
            self.assertNotIn("limit", point)
            self.assertEqual(point["completed"], 3)
            self.assertEqual(point["prefix_reuse"] > 0, point["options"]["no-prefix-reuse"] == "off")
        started = [record["info"]["max_seqs"] for record in self.records() if record["type"] == "engine"]
        self.assertEqual(sorted(started), [1] * 4 + [2] * 4)

    def test_request_rate(self):
        done = self.run_yoke(*self.arguments("--request-rate", "50", "--num-requests", "3", "--slo", "ttft:60000",
                                             model=TINY))
        point, = self.study()["points"]
        self.assertEqual((point["request_rate"], point["completed"]), (50, 3))
        self.assertGreater(point["request_goodput"], 0)
        self.assertNotIn("losses", point)
        limit = point["limit"]
        self.assertEqual(limit["offered_throughput"], 50 * 6)
        self.assertAlmostEqual(limit["offered_share"], point["output_throughput"] / 300)
        self.check_flow(point)
        self.assertIn(f"{100 * limit['offered_share']:.1f} % of the offered rate", done.out)

    def check_flow(self, point):
        limit = point["limit"]
        self.assertIn(limit["bound"], ("memory", "gemm", "link"))
        self.assertAlmostEqual(limit["share"], point["output_throughput"] / limit["output_throughput"])
        self.assertGreater(limit["running"], 0)
        self.assertEqual(limit["running"], point["running"])

    def test_clients(self):
        self.run_yoke(*self.arguments("--clients", "2", "--num-requests", "6", model=TINY))
        point, = self.study()["points"]
        self.check_flow(point)
        self.assertNotIn("offered_share", point["limit"])

    def test_dry_run(self):
        done = self.run_yoke(*self.arguments("--tp", "1,65", "--dry-run"))
        self.assertIn("left out: 65 ranks", done.err)
        self.assertRegex(done.err, r"1 point, 3 runs, of which 0 are done; about .* left")
        self.assertFalse(os.path.exists(self.dir))
        done = self.run_yoke(*self.arguments("--batch", "1,65", "--max-num-batched-tokens", "64", "--dry-run"))
        self.assertIn("left out: 1 rank, batch 65, 8 in, 6 out: --batch: expected at most 64, as --max-num-seqs and "
                      "--max-num-batched-tokens allow, found 65", done.err)

    def test_progress(self):
        seen = self.run_on_terminal(*self.arguments("--batch", "1,2", "--repeats", "3", model=TINY))
        self.assertRegex(seen, r"study \[[#.]+\] +\d+%  \d+ of 14 runs  \d+:\d\d:\d\d left  1 rank, batch \d, 8 in")

    def test_progress_fits(self):
        seen = self.run_on_terminal(*self.arguments("--batch", "1", model=TINY), columns=50)
        bars = [part for part in re.split(r"\r\x1b\[K|\n", seen) if part.startswith("study [")]
        self.assertTrue(bars)
        self.assertLessEqual(max(map(len, bars)), 49)


@harness.of_the_program
class Stopped(Base):
    N_RUNS = 2 * 2 * 3 * 2 + 2 * 2  # configurations, points, repeats, starts; profiles

    def options(self):
        return self.arguments("--ranks", "1,2", "--batch", "1,2", "--repeats", "3", model=TINY)

    def start(self):
        return subprocess.Popen([self.yoke, *self.options()], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def stop_after(self, n_records, number):
        """Send a signal when the journal has that many records; returns the exit code, stderr and the journal's
        bytes."""
        path = os.path.join(self.dir, "journal.jsonl")
        program = self.start()
        size = 0
        while program.poll() is None and size < n_records:
            time.sleep(0.002)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    size = file.read().count(b"\n") - 1
        program.send_signal(number)
        err = program.communicate(timeout=harness.TIMEOUT_S)[1].decode()
        self.assertNotIn("Sanitizer", err)
        with open(path, "rb") as file:
            return program.returncode, err, file.read()

    def check_complete(self):
        records = self.records()
        runs = [(run["point"], run["start"], run["repeat"]) for run in records if run["type"] == "run"]
        self.assertEqual(len(runs), len(set(runs)))
        self.assertEqual(len(runs) + sum(record["type"] == "profile" for record in records), self.N_RUNS)
        for point in self.study()["points"]:
            self.assertEqual(point["n_runs"], 6)

    def test_interrupted(self):
        code, err, journal = self.stop_after(4, signal.SIGINT)
        self.assertEqual(code, 130, err)
        self.assertRegex(err, rf"stopped with \d+ of {self.N_RUNS} runs done; to continue:")
        self.assertFalse(os.path.exists(os.path.join(self.dir, "study.json")))
        command = shlex.split(re.findall(r"(?m)yoke study .*$", err)[-1])
        done = self.run_yoke(*command[1:])  # in the printed form
        self.assertRegex(done.err, rf"{self.N_RUNS} runs, of which [1-9]\d* are done")
        with open(os.path.join(self.dir, "journal.jsonl"), "rb") as file:
            self.assertTrue(file.read().startswith(journal))
        self.check_complete()

    def test_interrupted_while_the_machine_is_measured(self):
        """Before any measurement that could be lost: ends at once and prints the whole command, however long."""
        arguments = self.arguments("--batch", ",".join(str(n) for n in range(1, 201)), model=TINY)
        at = arguments.index("--machine")
        del arguments[at:at + 2]
        with subprocess.Popen([self.yoke, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as program:
            for line in program.stderr:
                if "measuring the machine" in line:
                    break
            program.send_signal(signal.SIGINT)
            err = program.communicate(timeout=harness.TIMEOUT_S)[1]
        self.assertEqual(program.returncode, 130, err)
        self.assertIn("stopped; to continue:", err)
        self.assertEqual(shlex.split(re.findall(r"(?m)yoke study .*$", err)[-1])[1:], arguments)

    def test_killed(self):
        """Killed, and then with the journal's last line cut in its middle."""
        code, _, journal = self.stop_after(6, signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        with open(os.path.join(self.dir, "journal.jsonl"), "wb") as file:
            file.write(journal[:-20])
        self.run_yoke(*self.options())
        self.check_complete()

    def test_other_options(self):
        """A study does not continue as a different one; the difference is named, and nothing is lost."""
        self.stop_after(4, signal.SIGINT)
        path = os.path.join(self.dir, "journal.jsonl")
        with open(path, "rb") as file:
            journal = file.read()
        for options, name in ([["--repeats", "4"], "--repeats: expected 3, found 4"],
                              [["--batch", "1,3"], "--batch: expected [1,2], found [1,3]"],
                              [["--dtype", "float32"], "--dtype"], [["--max-num-seqs", "7"], "--max-num-seqs"],
                              [["--sweep", "max-num-seqs=8,9"], "--sweep max-num-seqs: expected nothing"],
                              [["--seed", "7"], "--seed"], [["--model", harness.DEMO], "another model"],
                              [["--clients", "2", "--batch", "1"], None]):
            if name:
                self.assert_error([*self.options(), *options], path, name)
        self.assert_usage_error([*self.options(), "--clients", "2"], "expected one of --batch")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), journal)

    def test_damaged(self):
        self.stop_after(4, signal.SIGINT)
        path = os.path.join(self.dir, "journal.jsonl")
        with open(path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        for number, line in ((1, b"{}\n"), (2, b"no JSON\n"), (3, b'{"type":"run","point":99}\n')):
            damaged = [*lines[:number - 1], line, *lines[number:]]
            with open(path, "wb") as file:
                file.writelines(damaged)
            self.assert_error(self.options(), f"{path}: line {number}: ")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), b"".join(damaged))


class Compared(harness.Case):
    """Synthetic studies: yoke study compare and predict need no engine."""

    def setUp(self):
        self.folder = harness.scratch_folder(self.addCleanup)

    def write(self, name, throughputs, noise=0.001):
        """throughputs: {(ranks, batch): tokens/s}."""
        points = [{"ranks": ranks, "batch": batch, "input_len": 8, "output_len": 4, "options": {},
                   "output_throughput": value,
                   "runs": [{"start": start, "repeat": repeat, "output_throughput": value * (1 + sign * noise)}
                            for start, sign in ((0, -1), (1, 0), (2, 1)) for repeat in range(2)]}
                  for (ranks, batch), value in throughputs.items()]
        return write_json({"yoke_study": 1, "points": points}, self.folder, name)

    def compare(self, a, b, *options, expect=0):
        return self.run_yoke("study", "compare", a, b, *options, expect=expect)

    def test_slowdown(self):
        a = self.write("a.json", {(1, 1): 100, (2, 1): 180, (4, 1): 300})
        b = self.write("b.json", {(1, 1): 100.02, (2, 1): 171, (8, 1): 500})
        out = self.compare(a, b).out
        self.assertRegex(out, r"(?m)^1 rank, batch 1.*within the noise$")
        self.assertRegex(out, r"(?m)^2 ranks, batch 1, 8 in, 4 out .* 0\.950 .*WORSE$")
        self.assertIn("1 of 2 points differ by more than the noise", out)
        self.assertIn("only in A: 4 ranks", out)
        self.assertIn("only in B: 8 ranks", out)
        self.compare(a, b, "--fail-above", 6)
        done = self.compare(a, b, "--fail-above", 4, expect=1)
        self.assertIn("1 point is worse by more than 4 %", done.err)
        self.assertEqual(done.out, out)
        self.assertRegex(self.compare(b, a, "--fail-above", 0).out, r"2 ranks.* better")
        noisy = self.write("noisy.json", {(2, 1): 150}, noise=0.2)
        self.assertIn("0 of 1 points differ", self.compare(a, noisy, "--fail-above", 1).out)

    def test_damaged(self):
        good = self.write("good.json", {(1, 1): 100})
        point = read_json(good)["points"][0]
        for name, value, message in (
                ("list", [], "expected a study, found array"), ("other", {"a": 1}, "yoke_study"),
                ("form", {"yoke_study": 2, "points": []}, "yoke_study"),
                ("points", {"yoke_study": 1, "points": 3}, "points: expected an array, found integer"),
                ("point", {"yoke_study": 1, "points": [point, 7]}, "point 1: expected an object, found integer"),
                ("ranks", {"yoke_study": 1, "points": [{**point, "ranks": "2"}]}, "ranks"),
                ("load", {"yoke_study": 1, "points": [{**point, "batch": 0}]}, "expected a batch"),
                ("runs", {"yoke_study": 1, "points": [{**point, "runs": []}]}, "runs: expected an array"),
                ("run", {"yoke_study": 1, "points": [{**point, "runs": [{}]}]}, 'with "start"'),
                ("twice", {"yoke_study": 1, "points": [point, point]}, "twice")):
            path = write_json(value, self.folder, f"{name}.json")
            self.assert_error(["study", "compare", good, path], message)
            if name != "twice":
                self.assert_error(["study", "predict", path, "--ranks", "2"], path, message)
        with open(os.path.join(self.folder, "cut.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(read_json(good))[:100])
        self.assert_error(["study", "compare", file.name, good], file.name)
        self.assert_error(["study", "compare", good, os.path.join(self.folder, "none.json")], "none.json")
        self.assert_error(["study", "compare", good, good, "--metric", "nothing"], "the metric nothing")
        empty = write_json({"yoke_study": 1, "points": []}, self.folder, "empty.json")
        self.assert_error(["study", "predict", empty, "--ranks", "2"], "the study has no point")

    def test_predict(self):
        path = self.write("law.json", {(n, 1): 1000 / (0.6 / n + 0.4) for n in (1, 2, 4)})
        out = self.run_yoke("study", "predict", path, "--ranks", "8").out
        self.assertRegex(out, r"(?m)^    8  batch 1, 8 in, 4 out +2105\.3 +2\.11  0\.0 %$")
        self.assertEqual(len(out.splitlines()), 2 + 3 + 2)

    def test_usage(self):
        self.assert_usage_error(["study", "compare", "a.json"], "expected two studies, A.json and B.json, found 1")
        self.assert_usage_error(["study", "compare", "a", "b", "--fail-above", "-1"], "--fail-above")
        self.assert_usage_error(["study", "predict", "--ranks", "2"], "expected one study, STUDY.json, found 0")
        self.assert_usage_error(["study", "predict", "a.json"], "--ranks: expected rank counts")
        self.assert_usage_error(["study", "predict", "a.json", "--ranks", "0"], "--ranks")
        self.assert_usage_error(["study", "report", "a.json"], "--output-dir: expected a directory")
        self.assert_usage_error(["study", "report", "-o", self.folder], "expected one study, STUDY.json, found 0")
        self.assert_error(["study", "report", "none.json", "-o", self.folder], "none.json")


class Refused(Base):
    def test_usage(self):
        for options, *parts in (
                (["--ranks", "0"], "--ranks: expected whole numbers from 1 to 1024, found 0"),
                (["--ranks", "2-1"], "--ranks: expected numbers and ranges", '"2-1"'),
                (["--ranks", ""], "--ranks"), (["--batch", "1.5"], "--batch"), (["--batch", "1,,2"], "--batch"),
                (["--input-len", "x"], "--input-len"), (["--output-len", "0"], "--output-len"),
                (["--request-rate", "-1"], "--request-rate"), (["--request-rate", "0"], "--request-rate"),
                (["--batch", "1", "--clients", "1"], "expected one of --batch, --request-rate and --clients"),
                (["--starts", "1"], "--starts: expected an integer from 2"), (["--repeats", "0"], "--repeats"),
                (["--sweep", "max-num-seqs"], "--sweep: expected NAME=VALUE"),
                (["--sweep", "max-num-seqs="], "--sweep: max-num-seqs"),
                (["--sweep", "max-num-seqs=0"], "--sweep", "max-num-seqs: expected an integer from 1"),
                (["--sweep", "no-prefix-reuse=1"], "expected on or off"),
                (["--sweep", "dtype=float32,float8"], "--dtype: expected one of"),
                (["--sweep", "model=a"], "--sweep: expected an engine option", 'found "model"'),
                (["--sweep", "nonsense=1"], "--sweep: expected an engine option", 'found "nonsense"'),
                (["--sweep", "max-num-seqs=1", "--sweep", "max-num-seqs=2"], "swept twice"),
                (["--tensor-parallel-size", "2"], "unknown option --tensor-parallel-size"),
                (["--slo", "x:1"], "--slo"), (["--output-dir", ""], "--output-dir"), (["compare"], "unexpected")):
            self.assert_usage_error(self.arguments(*options), *parts)
        self.assert_usage_error(["study", "--output-dir", "x"], "--model")
        self.assertFalse(os.path.exists(self.dir))

    def test_failures(self):
        for options, *parts in (
                (["--model", os.path.join(self.folder, "none")], "none"),
                (["--batch", "1-1000", "--input-len", "1-10"], "expected 1 to 2000 points in a study, found 10000"),
                (["--ranks", "65"], "none of the 1 points can be measured", "expected 1 to 64"),
                (["--batch", "65000"], "none of the 1 points can be measured"),
                (["--machine", os.path.join(self.folder, "none.json")], "none.json"),
                (["--machine", write_json({"gemm_flops": 1}, self.folder, "bad.json")], "memory_bytes_per_s"),
                (["--output-dir", "/dev/null/x"], "/dev/null")):
            self.assert_error(self.arguments(*options), *parts)


if __name__ == "__main__":
    harness.main()
