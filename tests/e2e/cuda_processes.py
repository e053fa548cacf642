"""Two processes with a GPU each give the tokens and log-probabilities of one process with two GPUs, bit for bit: by
flags, and by mpirun where it is installed; with NCCL alone, too. The error names a killed process, and no process
remains.
"""

import contextlib
import json
import os
import signal
import time
import unittest

import harness
from processes_case import MPIRUN, ProcessesCase

# Sums of rows, of experts' slots, of integers, and of latent attention.
FAMILIES = ("qwen3", "llama", "moe_qwen3", "format_w8a8", "deepseek_v3")
END_S = 60
OPENED = "opened devices"


def command(name, *options):
    """One request alone, so that every run has the same steps."""
    folder = os.path.join(harness.FAMILIES, name)
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
        prompt = json.load(file)["prompts"][0]["prompt_ids"]
    return ("generate", "--model", folder, "--device", "cuda", "--dtype", "float16", "--tp", 2, "--format", "json",
            "--logprobs", 2, "--ignore-eos", "-n", 24, "--kv-cache-bytes", "4MiB", "--temperature", 0, *options,
            "--token-ids", ",".join(map(str, prompt)))


def long_command():
    """A run of at least a second after devices are opened."""
    return ("bench", os.path.join(harness.FAMILIES, "qwen3"), "--device", "cuda", "--tp", 2, "--batch", 16,
            "--input-len", 8, "--output-len", 200, "--repeats", 64, "--kv-cache-bytes", "4MiB")


def answers(out):
    return [(line["token_ids"], line["logprobs"]) for line in map(json.loads, filter(None, out.splitlines()))]


def processes_with(mark):
    """Ids of the processes whose environment has YOKE_TEST_RUN with this value."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if f"YOKE_TEST_RUN={mark}".encode() in file.read().split(b"\0"):
                found.append(int(pid))
    return found


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        return file.read().strip()


def local_ranks(mark=None):
    """The environment of each of two processes of this host."""
    shared = {"YOKE_TEST_RUN": mark} if mark else {}
    return {number: {**shared, "LOCAL_RANK": str(number)} for number in range(2)}


class CudaProcesses(ProcessesCase):
    def check_same(self, start, *options, families=FAMILIES):
        for name in families:
            with self.subTest(name=name):
                expected = answers(self.run_yoke(*command(name, *options)).out)
                processes = start(*command(name, *options))
                self.end(processes)
                self.assertEqual(answers(processes[0].out), expected)

    def test_by_flags(self):
        self.check_same(lambda *arguments: self.start(2, *arguments, env=local_ranks()))

    def test_nccl_alone(self):
        """Without peers' stores, in both, also with the experts' sums."""
        self.check_same(lambda *arguments: self.start(2, *arguments, env=local_ranks()), "--disable-custom-all-reduce",
                        families=("qwen3", "moe_qwen3"))

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_by_mpirun(self):
        self.check_same(lambda *arguments: [self.start_mpi(2, *arguments)])

    def test_a_gpu_each(self):
        """With --devices in another order, too."""
        expected = answers(self.run_yoke(*command("qwen3", "--devices", "1,0")).out)
        processes = self.start(2, *command("qwen3", "--devices", "1,0"), env=local_ranks())
        self.end(processes)
        self.assertEqual(answers(processes[0].out), expected)

    def assert_none_left(self, mark):
        end = time.monotonic() + END_S
        while (left := processes_with(mark)) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(left, [])

    def test_a_killed_process_is_named(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                mark = f"flags-{os.getpid()}-{victim}"
                processes = self.start(2, *long_command(), env=local_ranks(mark))
                processes[0].wait_for(OPENED)
                time.sleep(0.3)
                processes[victim].kill()
                self.assertEqual(processes[1 - victim].wait(END_S), 1, processes[1 - victim].err)
                self.assertRegex(processes[1 - victim].err, rf"process {victim} \(host .*has ended")
                self.assert_none_left(mark)

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_a_killed_process_of_mpirun(self):
        mark = f"mpi-{os.getpid()}"
        process = self.start_mpi(2, *long_command(), env={"YOKE_TEST_RUN": mark})
        process.wait_for(OPENED)
        time.sleep(0.3)
        ranks = [pid for pid in processes_with(mark) if name_of(pid) == "yoke"]
        self.assertEqual(len(ranks), 2)
        os.kill(max(ranks), signal.SIGKILL)
        self.assertNotEqual(process.wait(END_S), 0)
        self.assert_none_left(mark)


if __name__ == "__main__":
    harness.gate(2)
    harness.main()
