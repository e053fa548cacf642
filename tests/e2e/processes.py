"""Runs of several processes on CPU ranks: tokens and log-probabilities are those of one process, bit for bit; every
command that opens an engine runs over several processes; mpirun, torchrun's variables and flags start them.
"""

import http.client
import json
import os
import shutil
import unittest

import harness
from batch_invariant import PROMPTS, make_model
from processes_case import MPIRUN, ProcessesCase, load_at_once, random_address
from server_case import JSON, ask_on

TORCHRUN = shutil.which("torchrun")
FAMILY = "qwen3"
# Dense, mixtures, latent attention, quantised inputs; ranks, processes. Some ranks have no head of attention.
CASES = (("qwen3", 2, 2, ()), ("llama", 3, 3, ()), ("qwen3", 8, 4, ()), ("moe_qwen3", 4, 2, ()),
         ("moe_qwen2", 3, 3, ("--enable-expert-parallel",)), ("deepseek_v3", 6, 2, ()), ("format_w8a8", 4, 4, ()),
         ("format_w8a8_experts", 3, 3, ()), ("hybrid_qwen3_5", 4, 2, ()))
# Pipeline stages: ranks in all, processes, stages. Groups of 3 ranks in 3 processes of 2.
STAGES = (("qwen3", 4, 2, 2), ("llama", 3, 3, 3), ("qwen3", 6, 3, 2), ("format_w8a8", 2, 2, 2), ("moe_qwen3", 4, 2, 2),
          ("deepseek_v3", 2, 2, 2), ("hybrid_qwen3_5_moe", 4, 2, 2))
SAMPLINGS = (("--temperature", 0), ("--temperature", 0.8, "--seed", 3, "--repetition-penalty", 1.2))


def model(name=FAMILY):
    return os.path.join(harness.FAMILIES, name)


def prompts_of(name):
    with open(os.path.join(model(name), "golden.json"), encoding="utf-8") as file:
        prompts = json.load(file)["prompts"]
    return [argument for prompt in prompts
            for argument in ("--token-ids", ",".join(map(str, prompt["prompt_ids"])))]


def command(name, n_ranks, *options):
    return ("generate", "--model", model(name), "--device", "cpu", "--dtype", "float32", "--tp", n_ranks, "--threads",
            n_ranks, "--format", "json", "--logprobs", 4, "--prompt-logprobs", 0, "--ignore-eos", "-n", 8,
            "--max-num-batched-tokens", 64, *options)


def results(out):
    lines = [json.loads(line) for line in out.splitlines()]
    return [(line["token_ids"], line["logprobs"], line["prompt_logprobs"]) for line in lines]


@harness.of_the_program
class Bits(ProcessesCase):
    def check(self, name, n_ranks, start, options, samplings=SAMPLINGS):
        """Greedy and sampled: a plain step leaves its logits on their ranks, others gather them."""
        for sampling in samplings:
            arguments = command(name, n_ranks, *options, *sampling, *prompts_of(name))
            alone = self.run_yoke(*arguments)
            processes = start(arguments)
            self.end(processes)
            with self.subTest(case=name, ranks=n_ranks, sampling=sampling):
                self.assertEqual(results(processes[0].out), results(alone.out))
                self.assertTrue(results(alone.out))
            for follower in processes[1:]:
                self.assertEqual(follower.out, "")

    def test_flags(self):
        for name, n_ranks, n_processes, options in CASES:
            self.check(name, n_ranks, lambda arguments, n=n_processes: self.start(n, *arguments), options)

    def test_stages(self):
        """The first rank of the last stage samples, in another process than process 0."""
        for name, n_ranks, n_processes, n_stages in STAGES:
            self.check(name, n_ranks // n_stages, lambda arguments, n=n_processes: self.start(n, *arguments),
                       ("--pipeline-parallel-size", n_stages))

    def test_batch_invariant(self):
        """The ranks of several processes add in the tree of a single rank."""
        folder = make_model(harness.scratch_folder(self.addCleanup), True)
        options = ("--batch-invariant", "--temperature", 0, "--max-model-len", 512,
                   *(word for ids in PROMPTS for word in ("--token-ids", ",".join(map(str, ids)))))
        alone = self.run_yoke(*command(folder, 1, *options))
        for n_ranks, n_processes in ((4, 2), (4, 4)):
            processes = self.start(n_processes, *command(folder, n_ranks, *options))
            self.end(processes)
            self.assertEqual(results(processes[0].out), results(alone.out))
            self.assertEqual(len(results(alone.out)), len(PROMPTS))

    def test_snapshots(self):
        """Prompts that part after 64 or more tokens begin at snapshots: each process has those of its heads and
        layers."""
        with open(os.path.join(model("hybrid_qwen3_5"), "golden.json"), encoding="utf-8") as file:
            longest = max((prompt["prompt_ids"] for prompt in json.load(file)["prompts"]), key=len)
        prompts = [longest[:n] + [i + 1] * 9 for i, n in enumerate((len(longest), 70, len(longest), 100))]
        arguments = ("generate", "--model", model("hybrid_qwen3_5"), "--device", "cpu", "--format", "json",
                     "--logprobs", 2, "--ignore-eos", "-n", 8, "--max-num-seqs", 2, "--max-num-batched-tokens", 100,
                     "--threads", 4,
                     *(argument for prompt in prompts for argument in ("--token-ids", ",".join(map(str, prompt)))))

        def found(out):
            return [(line["token_ids"], line["logprobs"]) for line in map(json.loads, out.splitlines())]

        for layout in (("--tp", 4), ("--tp", 2, "--pp", 2)):
            alone = self.run_yoke(*arguments, *layout, "--state-cache-bytes", 0)
            processes = self.start(2, *arguments, *layout)
            self.end(processes)
            self.assertEqual(found(processes[0].out), found(alone.out))
            self.assertEqual(len(found(alone.out)), len(prompts))

    def test_torchrun(self):
        address, port = random_address()

        def start(arguments):
            env = {"WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(port),
                   "TORCHELASTIC_USE_AGENT_STORE": "True"}
            return [self.start_one(arguments, {**env, "RANK": str(i), "LOCAL_RANK": str(i)}) for i in range(2)]

        self.check("qwen3", 2, start, ())

    @unittest.skipUnless(TORCHRUN, "no torchrun")
    def test_torchrun_itself(self):
        """As in the manual: an agent on each of two hosts, whose store has the port."""
        address, port = random_address()

        def start(arguments):
            return [self.start_one([*map(str, ("--no-python", "--nnodes", 2, "--node-rank", number, "--nproc-per-node",
                                               1, "--master-addr", address, "--master-port", port, self.yoke,
                                               *arguments))], {}, TORCHRUN) for number in range(2)]

        self.check("qwen3", 2, start, (), SAMPLINGS[:1])

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_mpirun(self):
        if harness.is_sanitized(self.yoke):
            self.skipTest("a sanitizer's dlopen does not search the program's own folders for the plug-in")
        for name, n_ranks, n_processes in (("qwen3", 2, 2), ("deepseek_v3", 6, 3)):
            self.check(name, n_ranks, lambda arguments, n=n_processes: [self.start_mpi(n, *arguments)], ())


@harness.of_the_program
class Commands(ProcessesCase):
    def test_serve(self):
        arguments = ("serve", "--model", model(), "--device", "cpu", "--tp", 2, "--threads", 2, "--port", 0,
                     "--kv-cache-bytes", "4MiB")
        processes = self.start(2, *arguments, env={"YOKE_CLUSTER_KEY": "secret"})
        port = int(processes[0].wait_for(r"listening on http://.*:(\d+)", "out").group(1))
        processes[0].wait_for("serving")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.TIMEOUT_S)
        body = json.dumps({"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0, "ignore_eos": True})
        answer = ask_on(connection, "POST", "/v1/completions", body, JSON)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(json.loads(answer.text)["usage"]["completion_tokens"], 4)
        connection.close()
        processes[0].popen.terminate()
        self.end(processes)

    def test_batch_and_score(self):
        folder = harness.scratch_folder(self.addCleanup)
        path = os.path.join(folder, "in.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for i in range(5):
                file.write(json.dumps({"id": i, "prompt": [5, 6 + i]}) + "\n")
        common = ("--device", "cpu", "--tp", 2, "--threads", 2)
        for arguments in (("batch", path, "--model", model(), *common, "--temperature", 0, "-n", 3),
                          ("score", "--model", model(), *common, "--token-ids", "5,6,7,8,9,10,11", "--format", "json")):
            alone = self.run_yoke(*arguments)
            processes = self.start(2, *arguments)
            self.end(processes)
            self.assertEqual(sorted(processes[0].out.splitlines()), sorted(alone.out.splitlines()))

    def test_bench(self):
        """The report and the trace name the stage, process and host of each rank."""
        trace = os.path.join(harness.scratch_folder(self.addCleanup), "trace.json")
        processes = self.start(2, "bench", "--model", model(), "--device", "cpu", "--tp", 1, "-pp", 2, "--threads", 2,
                               "--batch", 2, "--input-len", 8, "--output-len", 4, "--repeats", 1,
                               more={0: ("--trace", trace)})
        self.end(processes)
        for row in (r"stage +0 +1", r"process +0 +1", r"host +\S+ +\S+"):
            self.assertRegex(processes[0].out, f"(?m)^{row}$")
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        for rank in range(2):
            self.assertTrue(any(name.startswith(f"rank {rank} (stage {rank}, process {rank}, host ") for name in names),
                            names)

    def test_bench_of_a_mixture_in_stages(self):
        """The rows of each expert, which each stage counts, are those of one process."""
        folder = harness.scratch_folder(self.addCleanup)

        def bench(start, name):
            path = os.path.join(folder, name)
            start(("bench", "--model", model("moe_qwen3"), "--device", "cpu", "--tp", 1, "-pp", 2, "--threads", 2,
                   "--batch", 3, "--input-len", 8, "--output-len", 4, "--repeats", 1, "--output", path))
            with open(path, encoding="utf-8") as file:
                return json.load(file)["experts"]

        alone = bench(lambda arguments: self.run_yoke(*arguments), "one.json")
        self.assertTrue(all(any(layer["rows"]) for layer in alone["layers"]))
        self.assertEqual(bench(lambda arguments: self.end(self.start(2, *arguments)), "two.json"), alone)


@harness.of_the_program
class Study(ProcessesCase):
    def setUp(self):
        self.dir = harness.scratch_folder(self.addCleanup)

    def arguments(self, *options):
        return ("study", "--model", model(), "--device", "cpu", "--threads", 2, "--kv-cache-bytes", "4MiB",
                "--starts", 2, "--repeats", 1, "--input-len", 8, "--output-len", 4, "--machine", "none",
                "-o", self.dir, *options)

    def study(self):
        with open(os.path.join(self.dir, "study.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_points(self):
        """A point runs on the most processes that divide its ranks; the others wait. The same commands continue."""
        arguments = self.arguments("--ranks", "1-4", "--batch", 2)
        processes = self.start(3, *arguments)
        self.end(processes)
        points = {point["ranks"]: point for point in self.study()["points"]}
        self.assertEqual({ranks: (point["processes"], point["hosts"]) for ranks, point in points.items()},
                         {1: (1, 1), 2: (2, 1), 3: (3, 1), 4: (2, 1)})
        self.assertNotIn("rank_places", points[1])
        host = points[4]["rank_places"][0]["host"]
        self.assertEqual(points[4]["rank_places"],
                         [{"stage": 0, "process": rank // 2, "host": host} for rank in range(4)])
        self.assertEqual(len(points[4]["time_us_by_rank"]), 4)
        self.assertIn("batch 2, 8 in, 4 out, 3 processes", processes[0].out)
        self.assertEqual([process.out for process in processes[1:]], ["", ""])
        again = self.start(3, *arguments)
        self.end(again)
        self.assertIn("12 runs, of which 12 are done", again[0].err)
        self.assertEqual(again[0].out, processes[0].out)

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_counts_of_processes(self):
        """--sweep nnodes, under mpirun, which starts MPI once for all engines; stages are over processes too."""
        if harness.is_sanitized(self.yoke):
            self.skipTest("a sanitizer's dlopen does not search the program's own folders for the plug-in")
        self.end([self.start_mpi(2, *self.arguments("--ranks", 2, "--sweep", "nnodes=1-3", "--sweep",
                                                    "pipeline-parallel-size=1,2"))])
        study = self.study()
        self.assertEqual(sorted((point["options"]["nnodes"], point["processes"]) for point in study["points"]),
                         [("1", 1), ("1", 1), ("2", 2), ("2", 2)])
        places = [[place["stage"] for place in point["rank_places"]] for point in study["points"]
                  if point["options"]["pipeline-parallel-size"] == "2"]
        self.assertEqual(places, [[0, 1], [0, 1]])
        self.assertEqual({point["reason"] for point in study["skipped"]},
                         {"--sweep: nnodes: expected at most 2, the processes of the run, found 3"})

    def test_other_options(self):
        self.end_failed(self.start(2, *self.arguments(), more={1: ("--ranks", 2)}), "purpose differs")

    def test_no_model(self):
        self.end_failed(self.start(2, *self.arguments(), more={0: ("--model", "/no/such")}), "/no/such")

    def test_killed(self):
        """A process that ends while it waits, and so takes part in no engine."""
        processes = self.start(2, *self.arguments("--batch", "1-64", "--repeats", 50))
        processes[0].wait_for("starting 1 rank")
        processes[1].kill()
        self.assertEqual(processes[0].wait(), 1)
        self.assertRegex(processes[0].err, r"process 1 \(host .*has ended")


load_tests = load_at_once

if __name__ == "__main__":
    harness.main()
