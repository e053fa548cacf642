"""Processes of a run that die, hang, or are stopped: every other process names them and ends by itself, with a code
other than 0, within the time limit of a step plus 5 s.
"""

import concurrent.futures
import os
import re
import signal
import time

import harness
from processes_case import ProcessesCase, load_at_once

MODEL = os.path.join(harness.FAMILIES, "qwen3")
STEP_LIMIT_S = 4
COMMON = ("--model", MODEL, "--device", "cpu", "--tp", 3, "--threads", 3, "--step-timeout", STEP_LIMIT_S)
SERVE = ("serve", *COMMON, "--port", 0, "--kv-cache-bytes", "1MiB")
BENCH = ("bench", *COMMON, "--batch", 1, "--input-len", 8, "--output-len", 200, "--repeats", 64)
# Phase: the command, and what process 0 has written when the signal is sent.
PHASES = {"start": (SERVE, r"process 1 of 3 is here"), "idle": (SERVE, r"serving .*loaded in"),
          "step": (BENCH, r"run 1 of"),
          "stages": ((*BENCH, "--pipeline-parallel-size", 2), r"run 1 of")}
CASES = [(signal.SIGKILL, "start", 0), (signal.SIGKILL, "start", 2), (signal.SIGSTOP, "start", 2),
         (signal.SIGKILL, "idle", 0), (signal.SIGSTOP, "idle", 0), (signal.SIGKILL, "idle", 2),
         (signal.SIGSTOP, "idle", 2), (signal.SIGKILL, "step", 0), (signal.SIGKILL, "step", 2),
         (signal.SIGSTOP, "step", 0), (signal.SIGSTOP, "step", 2), (signal.SIGKILL, "stages", 0),
         (signal.SIGKILL, "stages", 1)]
# A machine under load is slower; a process that is never missed is found by the whole suite's limit.
PATIENCE_S = 60


@harness.of_the_program
class Failures(ProcessesCase):
    def fail_one(self, case):
        number, phase, victim = case
        arguments, ready = PHASES[phase]
        processes = self.start(3, *arguments, "--start-timeout", 10)
        processes[0].wait_for(ready)
        processes[victim].popen.send_signal(number)
        began = time.monotonic()
        told = f"{signal.Signals(number).name} of process {victim} in phase {phase}"
        for i, process in enumerate(processes):
            if i == victim:
                continue
            code = process.wait(PATIENCE_S)
            self.assertNotIn(code, (0, -signal.SIGABRT, -signal.SIGSEGV), f"{told}: process {i}: {process.err}")
            self.assertRegex(process.err, rf"process {victim}\b", f"{told}: process {i}")
            if phase == "stages":  # no other process is to blame
                self.assertRegex(process.err, rf"error: (connection with )?process {victim} \(", f"{told}: process {i}")
            self.assertNotIn("Sanitizer", process.err)
        seconds = time.monotonic() - began
        processes[victim].kill()
        return told, seconds

    def test_death_and_stop(self):
        with concurrent.futures.ThreadPoolExecutor(len(CASES)) as pool:
            for told, seconds in pool.map(self.fail_one, CASES):
                with self.subTest(told):
                    self.assertLess(seconds, PATIENCE_S)

    def test_rank_that_hangs(self):
        """The rank that keeps the others waiting is named, with its operation, whichever process it is in."""
        program = os.path.join(os.path.dirname(self.yoke), "yoke_with_faults")
        if not os.path.exists(program):
            self.skipTest("no program with faults")
        fault = {"YOKE_FAULT": "rank=0 operation=attention call=50 fault=stall-host seconds=9"}
        for victim in (1, 2):
            processes = self.start(3, "generate", *COMMON, "--step-timeout", 2, "--token-ids", "5,6,7", "-n", 200,
                                   "--ignore-eos", env={victim: fault}, program=program)
            for process in processes:
                self.assertEqual(process.wait(), 1, process.err)
                self.assertRegex(process.err, rf"process {victim} \(.*\): rank {victim} did not finish a step within "
                                 rf"2 s; rank {victim} is at layer 1, attention")

    def test_stage_that_hangs(self):
        """Process 0 waits for the results of the last stage alone."""
        program = os.path.join(os.path.dirname(self.yoke), "yoke_with_faults")
        if not os.path.exists(program):
            self.skipTest("no program with faults")
        fault = {"YOKE_FAULT": "rank=0 operation=attention call=50 fault=stall-host seconds=9"}
        processes = self.start(2, "generate", *COMMON, "--tp", 1, "--pipeline-parallel-size", 2, "--step-timeout", 2,
                               "--token-ids", "5,6,7", "-n", 200, "--ignore-eos", env={1: fault}, program=program)
        for process in processes:
            self.assertEqual(process.wait(), 1, process.err)
            self.assertRegex(process.err, r"process 1 \(.*\): rank 1 did not finish a step within 2 s")

    def test_end_of_process_0(self):
        """SIGTERM and SIGINT end all processes in order."""
        for number in (signal.SIGTERM, signal.SIGINT):
            processes = self.start(3, *SERVE)
            processes[0].wait_for(PHASES["idle"][1])
            processes[0].popen.send_signal(number)
            self.end(processes)

    def test_signal_to_all(self):
        """A launcher sends SIGTERM to all processes: that is no failure."""
        processes = self.start(3, *SERVE)
        processes[0].wait_for(PHASES["idle"][1])
        for process in processes[1:] + processes[:1]:
            process.popen.terminate()
        self.end(processes)

    def test_signal_to_a_follower(self):
        processes = self.start(3, *SERVE)
        processes[0].wait_for(PHASES["idle"][1])
        processes[1].popen.terminate()
        codes = [process.wait() for process in processes]
        self.assertEqual(codes[1], 128 + signal.SIGTERM, processes[1].err)
        for process in (processes[0], processes[2]):
            self.assertEqual(process.popen.returncode, 1, process.err)
            self.assertRegex(process.err, r"process 1 \(.*stopped by a signal: Terminated")

    def test_stopped_follower_at_the_end(self):
        """Process 0 does not wait for ever, and the follower ends once it can."""
        processes = self.start(3, *SERVE)
        processes[0].wait_for(PHASES["idle"][1])
        processes[2].popen.send_signal(signal.SIGSTOP)
        processes[0].popen.terminate()
        processes[0].wait(PATIENCE_S)
        processes[1].wait(PATIENCE_S)
        processes[2].popen.send_signal(signal.SIGCONT)
        processes[2].wait(PATIENCE_S)

    def test_restart(self):
        """A follower that died is started again, and the server serves again."""
        arguments = (*SERVE, "--restart-on-failure", "--start-timeout", 30)
        processes = self.start(3, *arguments)
        processes[0].wait_for(PHASES["idle"][1])
        processes[2].popen.kill()
        processes[2].wait()
        again = self.start_one(processes[2].popen.args[1:], {})
        processes[0].wait_for(r"(?s)serving .*loaded in.*serving .*loaded in")
        self.assertTrue(re.search(r"process 2\b.*\n", processes[1].err))
        processes[0].popen.terminate()
        self.end([processes[0], processes[1], again])


load_tests = load_at_once

if __name__ == "__main__":
    harness.main()
