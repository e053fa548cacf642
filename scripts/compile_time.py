#!/usr/bin/env python3
"""CPU time (user and system) of each file's compilation: a compiler launcher for CMake, and summaries of its log.

  cmake ... '-DCMAKE_CUDA_COMPILER_LAUNCHER=scripts/compile_time.py;run;/tmp/seconds.log'   absolute paths for both
  scripts/compile_time.py summary /tmp/seconds.log [--before EARLIER.log] [--most 20]

Each compilation appends one line to the log: seconds, a tab, the source file. nvcc's time includes the compilers and
assemblers that nvcc starts. A summary takes the last line of a file that was compiled several times. Do not use a
launcher such as ccache in a measured build: it would hide the time.
"""

import argparse
import os
import sys

SOURCE = (".cu", ".c", ".cpp")


def source_of(command):
    """The file that a compiler command compiles, relative to the current folder's project if that is shorter."""
    if "-c" not in command:
        return None
    at = command.index("-c") + 1
    sources = [word for word in command[at:at + 1] + command if word.endswith(SOURCE)]
    return sources[0] if sources else None


def run(log, command):
    """Runs the command and logs its seconds; returns its exit status."""
    pid = os.spawnvp(os.P_NOWAIT, command[0], command)
    _, status, usage = os.wait4(pid, 0)
    source = source_of(command)
    if source and status == 0:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{usage.ru_utime + usage.ru_stime:.2f}\t{source}\n")
    return os.waitstatus_to_exitcode(status)


def read_log(path):
    """Seconds by source file, whose names are relative to their common folder."""
    seconds = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            value, source = line.rstrip("\n").split("\t")
            seconds[source] = float(value)
    if not seconds:
        return {}
    shared = os.path.commonpath([os.path.dirname(source) for source in seconds])
    return {os.path.relpath(source, shared): value for source, value in seconds.items()}


def summary(log, before_log, most):
    after = read_log(log)
    before = read_log(before_log) if before_log else {}
    print(f"{'before':>9} {'seconds':>9}  file" if before else f"{'seconds':>9}  file")
    names = sorted(set(after) | set(before), key=lambda name: -max(after.get(name, 0.0), before.get(name, 0.0)))
    for name in names[:most]:
        columns = [before, after] if before else [after]
        print(" ".join(f"{of[name]:9.1f}" if name in of else f"{'-':>9}" for of in columns) + f"  {name}")
    totals = [before, after] if before else [after]
    print(" ".join(f"{sum(of.values()):9.1f}" for of in totals) + f"  all of {len(after)} files")


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_log = commands.add_parser("summary", help="the files that took longest, and the sum")
    of_log.add_argument("log")
    of_log.add_argument("--before", help="an earlier log to compare with")
    of_log.add_argument("--most", type=int, default=20, help="how many files are listed")
    args = parser.parse_args()
    summary(args.log, args.before, args.most)


if __name__ == "__main__":
    main()
