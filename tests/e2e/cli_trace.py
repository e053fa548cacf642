"""Timing from outside: traces of generate, batch and serve, the metrics of timed steps, and a delayed rank. Also runs
yoke_with_faults: see fault/hook/fault_hook.h."""

import collections
import json
import os

import harness
import server_case

N_TOKENS = 24
N_RANKS = harness.RANKS or 2
ON = harness.ON if harness.RANKS else [*harness.ON, "--tp", str(N_RANKS)]
PROMPT = ("--prompt", "Once upon a time", "--temperature", 0, "--max-tokens", N_TOKENS, "--ignore-eos")
PARTS = ["gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
         "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host", "states"]
STEPS = ("prefill step", "decode step")


class Base(server_case.Case):
    def setUp(self):
        super().setUp()
        self.scratch = harness.scratch_folder(self.addCleanup)
        self.trace = os.path.join(self.scratch, "trace.json")

    def generate(self, *options, expect=0):
        return self.run_yoke("generate", "--model", harness.DEMO, *ON, *PROMPT, *options, expect=expect)

    def read_trace(self):
        """The slices of a trace by (process, row), in order; checks that they nest."""
        with open(self.trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
                if event["name"] == "thread_name"}
        slices = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                slices[processes[event["pid"]], rows[event["pid"], event["tid"]]].append(event)
        for row in slices.values():
            self.check_nesting(row)
        expected = {("engine", "engine thread")}
        expected |= {(f"rank {rank}", row) for rank in range(N_RANKS) for row in ("thread", "device")}
        self.assertEqual(set(slices), expected)
        return slices

    def check_nesting(self, row):
        rounding_us = 0.0005
        open_ends = []
        for event in sorted(row, key=lambda event: (event["ts"], -event["dur"])):
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            end = event["ts"] + event["dur"]
            while open_ends and open_ends[-1] <= event["ts"] + rounding_us:
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(end, open_ends[-1] + 2 * rounding_us, event)
            open_ends.append(end)

    def check_steps(self, slices, at_least):
        steps = [event for event in slices["engine", "engine thread"] if event["name"] in STEPS]
        self.assertGreaterEqual(len(steps), at_least)
        self.assertEqual(steps, sorted(steps, key=lambda event: event["ts"]))
        for rank in range(N_RANKS):
            device = slices[f"rank {rank}", "device"]
            self.assertEqual(len([event for event in device if event["name"] in STEPS]), len(steps))
            names = collections.Counter(event["name"] for event in device)
            for name in ("qkv_proj", "attention", "o_proj", "gate_up_proj", "down_proj", "all-reduce after FFN"):
                layers = {event["args"]["layer"] for event in device if event["name"] == name}
                self.assertEqual(names[name], len(layers) * len(steps), name)
            self.assertEqual(names["lm_head"], len(steps))
            self.assertEqual("transfer" in names, N_RANKS > 1)
        return steps


class Trace(Base):
    def test_generate(self):
        plain = self.generate()
        traced = self.generate("--trace", self.trace)
        self.assertEqual(traced.out, plain.out)
        steps = self.check_steps(self.read_trace(), N_TOKENS // 2)
        if harness.ON_CPU:
            self.assertEqual([event["name"] for event in steps], ["prefill step"] + ["decode step"] * (N_TOKENS - 1))

    def test_no_more_than_64_steps(self):
        self.generate("--trace", self.trace, "--max-tokens", 150)
        self.assertEqual(len(self.check_steps(self.read_trace(), 64)), 64)

    def test_linear_attention(self):
        """The operations of each kind of layer, in its layers, and a step that ends at a multiple of 64 rows."""
        ids = ",".join(str(7 + i % 90) for i in range(150))
        self.run_yoke("generate", "--model", os.path.join(harness.FAMILIES, "hybrid_qwen3_5"), *ON, "--trace",
                      self.trace, "--token-ids", ids, "--max-tokens", 3, "--ignore-eos", "--max-num-batched-tokens",
                      149, "--max-num-seqs", 2)
        device = self.read_trace()["rank 0", "device"]
        names = collections.Counter((event["name"], event.get("args", {}).get("layer")) for event in device)
        rows = [event["args"]["rows"] for event in device if event["name"] in STEPS]
        self.assertEqual(rows, [128, 22, 1, 1][:len(rows)])
        self.assertGreaterEqual(len(rows), 4 if harness.ON_CPU else 3)  # GPUs may record a graph in a step's place
        for layer in range(4):
            for name in ("in_proj", "gated delta net", "out_proj"):
                self.assertEqual(names[name, layer], len(rows) if layer < 3 else 0, name)
            for name in ("qkv_proj", "attention", "o_proj"):
                self.assertEqual(names[name, layer], len(rows) if layer == 3 else 0, name)

    def test_batch(self):
        done = self.run_yoke("batch", "--model", harness.DEMO, *ON, "-", "--trace", self.trace,
                             "--max-tokens", N_TOKENS,
                             stdin='{"prompt": "Once upon a time"}\n{"prompt": "The capital of Norway is"}\n')
        self.assertEqual(done.out.count("\n"), 2)
        self.check_steps(self.read_trace(), 2)

    @harness.of_the_program
    def test_an_unwritable_file_is_reported_first(self):
        path = os.path.join(self.scratch, "nowhere", "trace.json")
        for command in (["generate", *PROMPT], ["batch", "-"], ["serve", "--port", 0]):
            done = self.run_yoke(command[0], "--model", harness.DEMO, *ON, *command[1:], "--trace", path, expect=1)
            self.assertIn(f"--trace: {path}: No such file or directory", done.err)
            self.assertNotIn("loaded", done.err)

    @harness.of_the_program
    def test_a_full_disk(self):
        done = self.generate("--trace", "/dev/full", expect=1)
        self.assertIn("/dev/full: cannot be written: No space left on device", done.err)


class Served(Base):
    def parts(self, server, kind):
        return [[server.metric("step_time_seconds_total", rank=rank, part=part, kind=kind) for part in PARTS]
                for rank in range(N_RANKS)]

    def test_metrics_and_trace(self):
        server = self.serve(*ON, "--profile-every", 2, "--trace", self.trace)
        body = {"prompt": "Once upon a time", "max_tokens": 100, "ignore_eos": True, "temperature": 0}
        before = [[0.0] * len(PARTS)] * N_RANKS
        for _ in range(3):
            self.assertEqual(server.post("/v1/completions", body).status, 200)
            parts = self.parts(server, "decode")
            for rank in range(N_RANKS):
                for now, then in zip(parts[rank], before[rank]):
                    self.assertGreaterEqual(now, then)
                self.assertGreater(sum(parts[rank]), sum(before[rank]))
            before = parts
        self.assertGreater(server.metric("timed_steps_total", kind="decode"), 100)
        sums = [sum(rank) for rank in before]
        self.assertLess(max(sums), 1.04 * min(sums))  # all sum over the same steps, each within 2 %
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(self.check_steps(self.read_trace(), 64)), 64)

    @harness.of_the_program
    def test_nothing_of_it_without_profile(self):
        server = self.serve(*ON)
        self.assertNotIn("step_time_seconds", server.ask("GET", "/metrics").text)


class SlowRank(Base):
    def test_the_others_wait(self):
        """One stall of half a second before an operation of the last rank."""
        if N_RANKS < 2:
            self.skipTest("one rank waits for nobody")
        slow = N_RANKS - 1
        operation, kind = ("linear_forward", "stall-host") if harness.ON_CPU else ("graph_run", "stall-gpu")
        self.yoke = self.faulty
        os.environ["YOKE_FAULT"] = f"rank={slow} operation={operation} call=12 fault={kind} seconds=0.5"
        self.addCleanup(os.environ.pop, "YOKE_FAULT")
        done = self.generate("--trace", self.trace)
        self.assertIn("hook: ", done.out)
        slices = self.read_trace()
        for rank in range(N_RANKS):
            waits = [event["dur"] for event in slices[f"rank {rank}", "device"] if event["name"] == "waiting"]
            longest_ms = max(waits, default=0) / 1e3
            if rank == slow:
                self.assertLess(longest_ms, 450)
            else:
                self.assertGreater(longest_ms, 450)


if __name__ == "__main__":
    harness.main()
