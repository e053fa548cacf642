#!/usr/bin/env python3
"""Runs mpi_ranks under mpirun with 3 processes, and checks that a launcher of another MPI is refused by name.

Usage: mpi_runs.py MPI_RANKS. Exit code 77: no mpirun, or no plug-in for it.
"""

import os
import shutil
import subprocess
import sys


def run(environment, *command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def main():
    program = sys.argv[1]
    plugin = os.path.join(os.path.dirname(program), "../lib/libyoke_mpi.so")
    if not shutil.which("mpirun") or not os.path.exists(plugin):
        print("skipped: mpirun or libyoke_mpi.so is missing")
        return 77
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = run(environment, "mpirun", "--oversubscribe", "-n", "3", program)
    n_passed = (done.stdout + done.stderr).count("[  PASSED  ] 1 test(s).")
    if done.returncode != 0 or n_passed != 3:
        print(f"expected 3 processes that pass, found {n_passed}, exit code {done.returncode}:")
        print(done.stdout, done.stderr)
        return 1
    alone = run({**environment, "PMI_RANK": "1", "PMI_SIZE": "4"}, program)
    if alone.returncode != 3 or "the launcher has started 4 processes" not in alone.stdout:
        print("expected a refusal of another launcher, found", alone.returncode, alone.stdout, alone.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
