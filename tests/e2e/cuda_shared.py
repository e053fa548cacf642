"""Pipeline stages on GPUs, and ranks on GPUs in several processes, with one GPU that all ranks share.

Stages, in one process and in two, give the log-probabilities of one stage but for rounding: which rows share a step of
stages depends on timing, and rounding on GPUs depends on a step's rows.
Ranks of one group in two processes open each other's memory. With NCCL_HOSTID each process counts as a separate host,
so that NCCL connects them, or two processes each as a host of two ranks, whose all-reduces take two levels.
"""

import json
import os

import harness
from processes_case import ProcessesCase

STAGES = ("qwen3", "llama_tied", "format_w8a8", "moe_qwen3", "deepseek_v3")
GROUPS = ("qwen3", "llama", "moe_qwen3")
SHARED = {"YOKE_SHARED_GPUS": "1"}
TOLERANCE = 0.02


def command(name, *options):
    folder = os.path.join(harness.FAMILIES, name)
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
        prompts = json.load(file)["prompts"]
    ids = [argument for prompt in prompts
           for argument in ("--token-ids", ",".join(map(str, prompt["prompt_ids"])))]
    return ("generate", "--model", folder, "--device", "cuda", "--dtype", "float16", "--format", "json",
            "--logprobs", 2, "--ignore-eos", "-n", 8, "--max-num-batched-tokens", 64, "--kv-cache-bytes", "4MiB",
            "--temperature", 0, *options, *ids)


def answers(out):
    lines = [json.loads(line) for line in out.splitlines()]
    return [(line["token_ids"], [step["logprob"] for step in line["logprobs"]]) for line in lines]


class SharedGpu(ProcessesCase):
    def alone(self, *arguments):
        return answers(self.run_yoke(*arguments, env=SHARED).out)

    def divided(self, n, *arguments, env=None):
        processes = self.start(n, *arguments, env=env or SHARED)
        self.end(processes)
        return answers(processes[0].out)

    def assert_close(self, found, expected):
        for (found_ids, found_logprobs), (ids, logprobs) in zip(found, expected, strict=True):
            self.assertEqual(found_ids, ids)
            for a, b in zip(found_logprobs, logprobs, strict=True):
                self.assertAlmostEqual(a, b, delta=TOLERANCE)

    def test_stages_in_one_process(self):
        for name in STAGES:
            with self.subTest(name=name):
                expected = self.alone(*command(name))
                self.assert_close(self.alone(*command(name, "--tp", 1, "-pp", 2)), expected)

    def test_stages_in_two_processes(self):
        for name in STAGES:
            with self.subTest(name=name):
                expected = self.alone(*command(name, "--tp", 1, "-pp", 2))
                self.assert_close(self.divided(2, *command(name, "--tp", 1, "-pp", 2)), expected)

    def test_a_group_in_two_processes(self):
        for name in GROUPS:
            with self.subTest(name=name):
                expected = self.alone(*command(name))
                self.assert_close(self.divided(2, *command(name, "--tp", 2)), expected)

    def test_a_group_on_two_hosts(self):
        env = {number: {**SHARED, "NCCL_HOSTID": f"host-{number}", "NCCL_SOCKET_IFNAME": "lo"} for number in range(2)}
        for name in GROUPS:
            with self.subTest(name=name):
                expected = self.alone(*command(name))
                self.assert_close(self.divided(2, *command(name, "--tp", 2), env=env), expected)

    def test_a_group_on_two_hosts_of_two(self):
        env = {number: {**SHARED, "NCCL_HOSTID": f"host-{number // 2}", "NCCL_SOCKET_IFNAME": "lo"}
               for number in range(4)}
        for name in GROUPS:
            with self.subTest(name=name):
                expected = self.alone(*command(name))
                self.assert_close(self.divided(4, *command(name, "--tp", 4), env=env), expected)

    def test_stages_on_two_hosts(self):
        env = {number: {**SHARED, "NCCL_HOSTID": f"host-{number}", "NCCL_SOCKET_IFNAME": "lo"} for number in range(2)}
        expected = self.alone(*command("qwen3", "--tp", 1, "-pp", 2))
        self.assert_close(self.divided(2, *command("qwen3", "--tp", 1, "-pp", 2), env=env), expected)

    def test_refused(self):
        """Without permission a GPU has one rank; in one process two ranks of a group never share one."""
        self.end_failed(self.start(2, *command("qwen3", "--tp", 2, "--disable-custom-all-reduce"), env=SHARED),
                        "ranks that share a GPU cannot use NCCL")
        self.end_failed(self.start(2, *command("qwen3", "--tp", 2)), "GPUs")
        if harness.count_gpus() == 1:
            done = self.run_yoke(*command("qwen3", "--tp", 2), env=SHARED, expect=1)
            self.assertIn("GPU 0 is named twice", done.err)

    def test_a_killed_process_is_named(self):
        processes = self.start(2, "bench", os.path.join(harness.FAMILIES, "qwen3"), "--device", "cuda", "--tp", 2,
                               "--batch", 4, "--input-len", 8, "--output-len", 200, "--repeats", 64,
                               "--kv-cache-bytes", "4MiB", env=SHARED)
        processes[0].wait_for("opened devices")
        processes[1].kill()
        self.assertEqual(processes[0].wait(60), 1)
        self.assertRegex(processes[0].err, r"process 1 \(host .*has ended")


if __name__ == "__main__":
    harness.gate(1)
    harness.main()
