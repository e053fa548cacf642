"""`yoke serve` under clients of every kind for a long time: each gets the answer to its request, and no state remains.

Environment: YOKE_SOAK_SECONDS, the duration (12); YOKE_SOAK_SEED, the seed of the requests (1); YOKE_SOAK_JSON, a file
for the counts of requests and the server's memory, round by round. YOKE_TEST_DEVICE=cuda YOKE_TEST_RANKS=2 runs the
soak on GPUs: at least two, as one rank fails.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import time
import unittest

import harness
from server_case import TOOL_TEMPLATE, Case, helpers_of
from soak_case import Client, Soak

SECONDS = float(os.environ.get("YOKE_SOAK_SECONDS", 12))
SEED = int(os.environ.get("YOKE_SOAK_SEED", 1))
JSON_FILE = os.environ.get("YOKE_SOAK_JSON")
ROOT = os.path.dirname(harness.TESTS_DIR)
N_CLIENTS = 12
HAS_GRAMMARS = harness.has_grammar_library() and not harness.is_sanitized(sys.argv[1], "tsan")
MIB = 1 << 20
MAX_GROWTH_BYTES = (8 if HAS_GRAMMARS else 1) * MIB  # the grammar library's allocations fragment the heap
FAULT = "rank=1 operation=attention call=1200 fault=error"
OPTIONS = ("--chat-template", TOOL_TEMPLATE, "--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3",
           "--grammar-cache", "64KiB", "--grammar-time-limit", 20, *(("--tp", 2) if harness.ON_CPU else ()),
           "--restart-on-failure", "--max-num-seqs", 16, "--max-waiting", 20, "--kv-cache-bytes", "4MiB")
# The allocator writes to all memory that it returns, including the ranks' memory for the largest step. Otherwise memory
# that waits for its first use would look like a leak: it becomes resident page by page as larger steps come.
TOUCHED = {"MALLOC_PERTURB_": "165"}


def resident_bytes(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def count_descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def find_commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def find_gpus():
    """Name and driver of each GPU of the soak; none on CPU ranks."""
    if harness.ON_CPU:
        return []
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[:harness.RANKS]


@unittest.skipUnless(harness.ON_CPU or harness.RANKS > 1, "one rank of several fails")
class ServerSoak(Case):
    def run_clients(self, soak, n_round, is_over):
        """Runs clients until is_over() is true; then every client must end."""
        clients = [Client(soak, 10000 * SEED + 100 * n_round + i) for i in range(N_CLIENTS)]
        for client in clients:
            client.start()
        while not is_over() and not soak.error:
            time.sleep(0.02)
        end = time.monotonic() + 2 * soak.limit_s
        for client in clients:
            client.must_end.set()
        for client in clients:
            client.join(max(0, end - time.monotonic()))
            self.assertFalse(client.is_alive(), f"{client.doing} hangs: {soak.server.err[-2000:]}")
        if soak.error:
            raise AssertionError(f"{dict(soak.counts)}: {soak.server.err[-2000:]}") from soak.error

    def check_nothing_left(self, server, n_descriptors):
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            server.wait_for_metric(name, 0)
        end = time.monotonic() + 20
        while (found := count_descriptors(server.process) - len(helpers_of(server))) != n_descriptors:
            self.assertLess(time.monotonic(), end, f"descriptors: expected {n_descriptors}, found {found}")
            time.sleep(0.01)

    def write(self, soak, rounds, commit):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.split(": ")[1].strip() for line in file if line.startswith("model name")),
                       platform.machine())
        on = "" if harness.ON_CPU else f"YOKE_TEST_DEVICE=cuda YOKE_TEST_RANKS={harness.RANKS} "
        report = {"bench": "soak of the server", "cpu": cpu, "processors": os.cpu_count(), "gpus": find_gpus(),
                  "commit": commit,
                  "command": f"{on}YOKE_SOAK_SECONDS={SECONDS:g} YOKE_SOAK_SEED={SEED} YOKE_SOAK_JSON=FILE "
                             f"tests/e2e/server_soak.py {os.path.relpath(self.yoke, ROOT)}",
                  "environment": TOUCHED, "options": " ".join(map(str, OPTIONS)), "fault": FAULT,
                  "clients": N_CLIENTS, "longest_request_s": round(soak.longest_s, 2), "counts": dict(soak.counts),
                  "rounds": rounds}
        with open(JSON_FILE, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")

    def test_soak(self):
        """Rounds of all clients at once. In the first a rank fails; in the second memory reaches its size."""
        server = self.serve(*OPTIONS, program=self.faulty, env={"YOKE_FAULT": FAULT, **TOUCHED})
        time.sleep(0.5)  # the connections of the readiness checks are closed
        n_descriptors = count_descriptors(server.process) - len(helpers_of(server))
        soak = Soak(server, limit_s=240 if harness.is_sanitized(self.yoke) else 60, has_grammars=HAS_GRAMMARS)
        commit = find_commit()  # commit at the start: the tree may change meanwhile
        began = time.monotonic()
        round_s, end = min(SECONDS / 5, 15), began + SECONDS
        sizes, rounds = [], []
        while len(sizes) < 3 or time.monotonic() < end:
            round_end = time.monotonic() + round_s
            soak.may_fail = not sizes
            failed_by = round_end + soak.limit_s

            def is_over():
                is_restarted = server.err.count("serving") == 2 or time.monotonic() > failed_by
                return time.monotonic() > round_end and is_restarted

            self.run_clients(soak, len(sizes), is_over)
            self.assertEqual(server.err.count("serving"), 2, "the rank did not fail and come back")
            self.check_nothing_left(server, n_descriptors)
            sizes.append(resident_bytes(server.process))
            rounds.append({"end_s": round(time.monotonic() - began, 1), "requests": soak.counts.total(),
                           "resident_mib": round(sizes[-1] / MIB, 2)})
        print(f"{soak.counts.total()} requests: {dict(soak.counts)}; the longest took {soak.longest_s:.1f} s; resident "
              f"after each round: {', '.join(f'{size / MIB:.1f}' for size in sizes)} MiB", flush=True)
        if JSON_FILE:
            self.write(soak, rounds, commit)
        constrained = ("constrained", "call") if HAS_GRAMMARS else ()
        for what in ("completion", "chat", "tokens", "look", "bad_request", "bad_http", "leave", "slow_reader",
                     *constrained):
            self.assertGreater(soak.counts[what], 0, what)
        if not harness.is_sanitized(self.yoke):
            self.assertLess(sizes[-1] - sizes[max(1, len(sizes) // 2)], MAX_GROWTH_BYTES, sizes)
        self.assertGreater(soak.counts["refused with 500"] + soak.counts["refused with 503"], 0)
        self.assertEqual(server.stop(signal.SIGTERM), 0, server.err[-2000:])


if __name__ == "__main__":
    harness.main()
