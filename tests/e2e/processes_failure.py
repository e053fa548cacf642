"""Processes of a run that die, hang, or are stopped: every other process names them and ends, with a code other than 0,
within the time limit of a step plus 5 s.

YOKE_FAILURE_MATRIX=all: SIGKILL and SIGSTOP of each process in each phase, with the times (two minutes).
"""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import signal
import threading
import time
import unittest

import harness
from processes_case import MPIRUN, ProcessesCase, load_at_once

MODEL = os.path.join(harness.FAMILIES, "qwen3")
STEP_LIMIT_S = 4
START_LIMIT_S = 10
COMMON = ("--model", MODEL, "--device", "cpu", "--tp", 3, "--threads", 3, "--step-timeout", STEP_LIMIT_S)
SERVE = ("serve", *COMMON, "--port", 0, "--kv-cache-bytes", "1MiB")
GENERATE = ("generate", *COMMON, "--token-ids", "5,6,7", "-n", 200, "--ignore-eos")
# This model has a layer for each of three stages.
STAGED = ("--model", os.path.join(harness.FAMILIES, "llama"), "--tp", 1, "--pipeline-parallel-size", 3)
SERVING = r"serving .*loaded in"
PHASES = ("start", "roll call", "load", "step", "stages", "idle", "stop")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)
FEW_CASES = [(signal.SIGSTOP, "roll call", 2), (signal.SIGKILL, "load", 1), (signal.SIGKILL, "step", 2),
             (signal.SIGKILL, "stages", 0), (signal.SIGKILL, "stages", 1), (signal.SIGKILL, "idle", 0),
             (signal.SIGKILL, "stop", 2), (signal.SIGSTOP, "load", 2), (signal.SIGSTOP, "step", 0),
             (signal.SIGSTOP, "idle", 2)]
RUNS_ALL = os.environ.get("YOKE_FAILURE_MATRIX") == "all"
CASES = list(itertools.product(SIGNALS, PHASES, range(3))) if RUNS_ALL else FEW_CASES
# A machine under load is slower; a process that is never missed is found by the whole suite's limit.
PATIENCE_S = 60


def stall(operation, call, seconds):
    """The environment of a process whose rank stays in an operation."""
    return {"YOKE_FAULT": f"rank=0 operation={operation} call={call} fault=stall-host seconds={seconds}"}


def children_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]
    return []


def number_of(pid):
    """The number that a parent of MPI has given to a process."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            if entry.startswith(b"RANK="):
                return entry[5:].decode()
    return None


def is_alive(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


def as_process(process, number):
    """The arguments of another process of the same run."""
    arguments = list(process.popen.args)
    arguments[arguments.index("--node-rank") + 1] = str(number)
    return arguments


def limit_s(phase):
    """Process 0 waits for those that are missing; the others wait 4 s longer for process 0."""
    return START_LIMIT_S + 4 + 2 if phase in ("start", "roll call") else STEP_LIMIT_S + 5


class Phases(ProcessesCase):
    """Runs of three processes in which one is stopped in a certain phase."""

    def fault_program(self):
        program = os.path.join(os.path.dirname(self.yoke), "yoke_with_faults")
        if not os.path.exists(program):
            self.skipTest("no program with faults")
        return program

    def at_start(self, number, victim):
        """The signal comes before the victim's first instruction."""
        processes = self.start(3, *SERVE, "--start-timeout", START_LIMIT_S, leave_out=(victim,))
        program, *arguments = as_process(processes[(victim + 1) % 3], victim)
        command = ["-c", f'kill -{int(number)} $$; exec "$0" "$@"', program, *arguments]
        processes[victim] = self.start_one(command, {}, "/bin/sh")
        return processes

    def at_roll_call(self, number, victim):
        """The victim has joined; another process comes later."""
        late = 2 if victim == 1 else 1
        processes = self.start(3, *SERVE, "--start-timeout", START_LIMIT_S, leave_out=(late,))
        processes[0].wait_for(f"process {3 - late} of 3 is here")
        processes[victim].popen.send_signal(number)
        processes[late] = self.start_one(as_process(processes[0], late)[1:], {})
        return processes

    def at_operation(self, number, victim, operation, call, arguments):
        """The victim is in an operation of the device."""
        processes = self.start(3, *arguments, env={victim: stall(operation, call, 9)}, program=self.fault_program())
        processes[victim].wait_for("hook: ", "out")
        processes[victim].popen.send_signal(number)
        return processes

    def at_stop(self, number, victim):
        """Process 0 has got SIGTERM and finishes a request, for which the victim computes."""
        processes = self.start(3, *SERVE, env={victim: stall("attention", 5, 9)}, program=self.fault_program())
        port = int(processes[0].wait_for(r"listening on http://.*:(\d+)", "out").group(1))
        processes[0].wait_for(SERVING)
        client = threading.Thread(target=self.request, args=(port, victim))
        client.start()
        self.addCleanup(client.join)
        processes[victim].wait_for("hook: ", "out")
        processes[0].popen.terminate()
        processes[0].wait_for("stopping: 1 requests")
        processes[victim].popen.send_signal(number)
        return processes

    def request(self, port, victim):
        """A request that ends with the error that names the victim."""
        body = json.dumps({"prompt": [5, 6, 7], "max_tokens": 50, "ignore_eos": True})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.TIMEOUT_S)
        try:
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.answers[victim] = (answer.status, answer.read().decode())
        except (OSError, http.client.HTTPException) as error:
            self.answers[victim] = (0, str(error))
        connection.close()

    def stop_one(self, number, phase, victim):
        """The processes of a run, one of which has just got a signal."""
        if phase == "start":
            return self.at_start(number, victim)
        if phase == "roll call":
            return self.at_roll_call(number, victim)
        if phase == "load":
            return self.at_operation(number, victim, "linear_create", 3, SERVE)
        if phase == "step":
            return self.at_operation(number, victim, "attention", 50, GENERATE)
        if phase == "stages":
            return self.at_operation(number, victim, "attention", 20, (*GENERATE, *STAGED))
        if phase == "stop":
            return self.at_stop(number, victim)
        processes = self.start(3, *SERVE)
        processes[0].wait_for(SERVING)
        processes[victim].popen.send_signal(number)
        return processes


@harness.of_the_program
class Failures(Phases):
    answers = {}

    def fail_one(self, case):
        number, phase, victim = case
        label = f"{number.name} of process {victim} in phase {phase}"
        processes = self.stop_one(number, phase, victim)
        began = time.monotonic()
        codes = [None if i == victim else process.wait(PATIENCE_S) for i, process in enumerate(processes)]
        seconds = time.monotonic() - began
        name = rf"process {victim} \(host \S+, rank {victim}\)"
        if phase in ("start", "roll call"):
            name = rf"process {victim}\b|processes [\d, ]*\b{victim}\b"
        for i, process in enumerate(processes):
            if i == victim:
                continue
            self.assertNotIn(codes[i], (0, -signal.SIGABRT, -signal.SIGSEGV), f"{label}: process {i}: {process.err}")
            errors = "".join(line for line in process.err.splitlines() if "error: " in line)
            self.assertRegex(errors, name, f"{label}: process {i}: {process.err}")
            self.assertNotIn("Sanitizer", process.err)
        processes[victim].kill()
        return label, phase, seconds

    def test_death_and_stop(self):
        with concurrent.futures.ThreadPoolExecutor(4 if RUNS_ALL else len(CASES)) as pool:
            results = {case: pool.submit(self.fail_one, case) for case in CASES}
        for case, result in results.items():
            with self.subTest(case):
                label, phase, seconds = result.result()
                if RUNS_ALL:
                    print(f"{seconds:6.2f} s  {label}", flush=True)
                    self.assertLess(seconds, limit_s(phase))
        for victim, (status, text) in self.answers.items():
            if victim != 0:
                self.assertEqual(status, 500, text)
                self.assertIn(f"process {victim} (host", text)

    def check_hang(self, arguments, victim, text):
        processes = self.start(3, *GENERATE, "--step-timeout", 2, *arguments, env={victim: stall("attention", 20, 4)},
                               program=self.fault_program())
        for process in processes:
            self.assertEqual(process.wait(), 1, process.err)
            self.assertRegex(process.err, text)

    def test_rank_that_hangs(self):
        """The error names the rank for which the others wait, and its operation, in whichever process the rank is."""
        late = r"process {0} \(.*\): rank {0} did not finish a step within 2 s; rank {0} is at layer \d, attention"
        cases = [((), victim, late.format(victim)) for victim in (1, 2)]
        # Process 0 waits for the results of the last stage alone.
        cases.append((STAGED, 2, r"process 2 \(.*\): rank 2 did not finish a step within 2 s"))
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            for result in [pool.submit(self.check_hang, *case) for case in cases]:
                result.result()

    def test_end_of_process_0(self):
        """SIGTERM and SIGINT end all processes in order."""
        for number in (signal.SIGTERM, signal.SIGINT):
            processes = self.start(3, *SERVE)
            processes[0].wait_for(SERVING)
            processes[0].popen.send_signal(number)
            self.end(processes)

    def test_signal_to_all(self):
        """A launcher sends SIGTERM to all processes: that is no failure."""
        processes = self.start(3, *SERVE)
        processes[0].wait_for(SERVING)
        for process in processes[1:] + processes[:1]:
            process.popen.terminate()
        self.end(processes)

    def test_signal_to_a_follower(self):
        processes = self.start(3, *SERVE)
        processes[0].wait_for(SERVING)
        processes[1].popen.terminate()
        codes = [process.wait() for process in processes]
        self.assertEqual(codes[1], 128 + signal.SIGTERM, processes[1].err)
        for process in (processes[0], processes[2]):
            self.assertEqual(process.popen.returncode, 1, process.err)
            self.assertRegex(process.err, r"process 1 \(.*stopped by a signal: Terminated")

    def test_stopped_follower_at_the_end(self):
        """Process 0 does not wait for ever, and the follower ends once it can."""
        processes = self.start(3, *SERVE)
        processes[0].wait_for(SERVING)
        processes[2].popen.send_signal(signal.SIGSTOP)
        processes[0].popen.terminate()
        processes[0].wait(PATIENCE_S)
        processes[1].wait(PATIENCE_S)
        processes[2].popen.send_signal(signal.SIGCONT)
        processes[2].wait(PATIENCE_S)

    def restart_one(self, case):
        number, victim = case
        processes = self.start(3, *SERVE, "--restart-on-failure", "--start-timeout", 60)
        processes[0].wait_for(SERVING)
        processes[victim].popen.send_signal(number)
        if number == signal.SIGSTOP:
            processes[0].wait_for(rf"error: process {victim} .*silent.*; loading the model again")
            processes[victim].popen.send_signal(signal.SIGCONT)
        else:
            processes[victim].wait()
            processes[victim] = self.start_one(as_process(processes[victim], victim)[1:], {})
        processes[0].wait_for(SERVING if victim == 0 else rf"(?s){SERVING}.*{SERVING}")
        self.assertRegex(processes[1].err, rf"process {victim} .*; waiting for all processes again")
        processes[0].popen.terminate()
        self.end(processes)

    def test_restart(self):
        """After a dead process is restarted, or a stopped process continues, the server serves again."""
        cases = ((signal.SIGKILL, 0), (signal.SIGKILL, 2), (signal.SIGSTOP, 2))
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            for result in [pool.submit(self.restart_one, case) for case in cases]:
                result.result()

    def ranks_of(self, process):
        """Ids of the processes that have ranks, by number, once all have started."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = {}
            for parent in children_of(process.popen.pid):
                for pid in children_of(parent):
                    found[number_of(pid)] = pid
            if set(found) == {"0", "1", "2"}:
                return found
            time.sleep(0.1)
        raise AssertionError(f"expected a process with ranks for each of MPI's, found {found}: {process.err}")

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_restart_under_mpirun(self):
        """MPI's processes start the processes with ranks, and restart them."""
        process = self.start_mpi(3, *SERVE, "--restart-on-failure", "--start-timeout", 60)
        served = SERVING
        for victim in ("2", "0"):
            process.wait_for(f"(?s){served}")
            os.kill(self.ranks_of(process)[victim], signal.SIGKILL)
            process.wait_for(rf"(?s){served}.*ended by a signal: Killed; starting it again")
            served += f".*{SERVING}"
        process.wait_for(f"(?s){served}")
        left = self.ranks_of(process)
        process.popen.terminate()
        process.wait(PATIENCE_S)
        self.assert_dead(left.values())

    def assert_dead(self, pids):
        end = time.monotonic() + PATIENCE_S
        while any(map(is_alive, pids)) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_a_parent_under_mpirun_is_killed(self):
        """MPI then ends the run, and no process with ranks remains: process 0 does not wait for the others either."""
        process = self.start_mpi(3, *SERVE, "--restart-on-failure")
        process.wait_for(SERVING)
        left = self.ranks_of(process)
        parents = [pid for pid in children_of(process.popen.pid) if left["0"] in children_of(pid)]
        os.kill(parents[0], signal.SIGKILL)
        self.assertNotEqual(process.wait(PATIENCE_S), 0)
        self.assert_dead(left.values())

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_failed_start_under_mpirun(self):
        """A child that ends without a signal is not restarted, and mpirun ends all processes."""
        process = self.start_mpi(3, "serve", *COMMON, "--port", 0, "--kv-cache-bytes", "1", "--restart-on-failure")
        self.assertEqual(process.wait(PATIENCE_S), 1, process.err)
        self.assertNotIn("starting it again", process.err)


load_tests = load_at_once

if __name__ == "__main__":
    harness.main()
