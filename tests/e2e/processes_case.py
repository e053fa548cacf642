"""Shared by the tests of runs of several processes: the processes of a run, started by flags or by mpirun.

Every run has a separate loopback address and port, so that parallel tests do not interfere.
"""

import concurrent.futures
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest

import harness

MPIRUN = shutil.which("mpirun")
LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "MASTER_", "YOKE_CLUSTER_KEY")
LAUNCHER_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


def clean_environment():
    """The environment without the variables of process launchers."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(LAUNCHERS) and name not in LAUNCHER_NAMES}


def random_address():
    """Returns an address of this host and a port that no other test uses."""
    return ".".join(map(str, (127, *(random.randrange(1, 255) for _ in range(3))))), random.randrange(10000, 30000)


class Process:
    """A process of a run. Its output is read continuously."""

    def __init__(self, arguments, env):
        self.popen = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, env={**clean_environment(), **env})
        self.out, self.err = "", ""
        self.readers = [threading.Thread(target=self.read, args=(name,), daemon=True) for name in ("out", "err")]
        for reader in self.readers:
            reader.start()

    def read(self, name):
        stream = {"out": self.popen.stdout, "err": self.popen.stderr}[name]
        for line in stream:
            setattr(self, name, getattr(self, name) + line.decode("utf-8", "replace"))

    def wait(self, timeout=harness.TIMEOUT_S):
        code = self.popen.wait(timeout)
        self.close()
        return code

    def close(self):
        for reader in self.readers:
            reader.join(harness.TIMEOUT_S)
        self.popen.stdout.close()
        self.popen.stderr.close()

    def wait_for(self, pattern, stream="err", timeout=harness.TIMEOUT_S):
        """Waits for a match of a pattern in the output and returns it."""
        end = time.monotonic() + timeout
        while not (match := re.search(pattern, getattr(self, stream))):
            if time.monotonic() > end or self.popen.poll() is not None and not self.readers[0].is_alive():
                match = re.search(pattern, getattr(self, stream))
                if match:
                    return match
                raise AssertionError(f"no {pattern!r} in {getattr(self, stream)!r}; stderr: {self.err!r}")
            time.sleep(0.01)
        return match

    def kill(self):
        if self.popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.popen.send_signal(signal.SIGCONT)
                self.popen.kill()
            self.popen.wait()
        self.close()


class AtOnce(unittest.TestSuite):
    """Runs its tests at the same time: they mostly wait for time limits."""

    def run(self, result, debug=False):
        def run_alone(test):
            alone = unittest.TestResult()
            test.run(alone)
            return alone

        tests = list(self)
        with concurrent.futures.ThreadPoolExecutor(len(tests)) as pool:
            for test, alone in zip(tests, pool.map(run_alone, tests)):
                result.startTest(test)
                for kind in ("errors", "failures", "skipped", "unexpectedSuccesses"):
                    getattr(result, kind).extend(getattr(alone, kind))
                if alone.wasSuccessful() and not alone.skipped:
                    result.addSuccess(test)
                result.stopTest(test)
        return result


def load_at_once(loader, tests, pattern):
    """For load_tests of a module."""
    return AtOnce(test for suite in tests for test in suite)


class ProcessesCase(harness.Case):
    def start(self, n, *arguments, env=None, more=None, leave_out=(), program=None):
        """The processes 0 to n - 1 of one run by flags. more: further arguments of a process, by number. env: of all
        processes, or by number. program: in place of the tested program."""
        address, port = random_address()
        processes = []
        for number in range(n):
            if number in leave_out:
                processes.append(None)
                continue
            flags = ["--nnodes", n, "--node-rank", number, "--master-addr", address, "--master-port", port]
            own_env = (env or {}).get(number, {}) if env and all(isinstance(key, int) for key in env) else env or {}
            processes.append(self.start_one([*arguments, *flags, *(more or {}).get(number, ())], own_env, program))
        return processes

    def start_mpi(self, n, *arguments, env=None):
        """All processes of a run on this host, started by mpirun, which requires an ssh program even on a single
        host."""
        flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(n)]
        no_ssh = {"OMPI_MCA_plm_rsh_agent": "/bin/false", "PRTE_MCA_plm_ssh_agent": "/bin/false"}
        process = Process([MPIRUN, *flags, self.yoke, *map(str, arguments)], {**no_ssh, **(env or {})})
        self.addCleanup(process.kill)
        return process

    def start_one(self, arguments, env, program=None):
        process = Process([program or self.yoke, *map(str, arguments)], env)
        self.addCleanup(process.kill)
        return process

    def end(self, processes, codes=None, timeout=harness.TIMEOUT_S):
        """Wait for all processes and check their exit codes (default: 0)."""
        found = [process.wait(timeout) if process else None for process in processes]
        told = "\n".join(f"--- process {i}\n{process.err}" for i, process in enumerate(processes) if process)
        self.assertNotIn("Sanitizer", told)
        if codes is None:
            codes = [0 if process else None for process in processes]
        self.assertEqual(found, codes, told)
        return found

    def end_failed(self, processes, *parts, timeout=harness.TIMEOUT_S):
        """Wait for all processes: none ends with code 0, and each part is in the messages of each."""
        for number, process in enumerate(processes):
            if process is None:
                continue
            code = process.wait(timeout)
            self.assertNotIn("Sanitizer", process.err)
            self.assertNotEqual(code, 0, f"process {number}: {process.err}")
            self.assertEqual(process.out, "", f"process {number}")
            for part in parts:
                self.assertIn(part, process.err, f"process {number}")
