#!/usr/bin/env python3
"""Runs a build or CTest and shows its progress: one line that is overwritten on a terminal, or a line every 15 s. A
build's output is shown if it fails. CTest's output is always shown, except for the names of passed tests on a terminal.

Usage: progress.py ninja|ctest TITLE COMMAND [ARGUMENT...]
Exit code: the command's, 128 + N after signal N.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

INTERVAL_S = {True: 0.2, False: 15.0}  # on a terminal; otherwise

# An object's source, without the folder of its target.
OBJECT = re.compile(r"Building \S+ object (?:.*?\.dir/)?(.*)\.o$")


class Ninja:
    """Parser of lines "[done/all] what", as set by NINJA_STATUS, one after each step. Output of a failed step follows
    its line. All other output is kept, and shown at the end of a failed build."""

    STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)$")
    unit = "steps"

    def __init__(self):
        self.done, self.all, self.what = 0, 0, ""
        self.has_failed = False  # the last step
        self.kept = []

    def take(self, line):
        """Lines to show for this line."""
        status = self.STATUS.match(line)
        if status:
            self.done, self.all, self.what = int(status[1]), int(status[2]), status[3]
            source = OBJECT.match(self.what)
            if source:
                self.what = source[1]
            self.has_failed = False
            return []
        self.has_failed = self.has_failed or line.startswith("FAILED: ")
        if self.has_failed:
            return [line]
        self.kept.append(line)
        return []

    def end(self, code):
        return self.kept if code else []


class CTest:
    """Parser of CTest's own list: starts, and "done/all Test #n: name ... result". Output of failed tests follows
    these."""

    START = re.compile(r"\s+Start\s+\d+: (\S+)")
    RESULT = re.compile(r"\s*(\d+)/(\d+) Test\s+#\d+: (\S+) \.*\s*(.*)$")
    unit = "tests"

    def __init__(self, on_terminal):
        self.done, self.all, self.running = 0, 0, []
        self.on_terminal = on_terminal

    @property
    def what(self):
        return ", ".join(self.running)

    def take(self, line):
        start, result = self.START.match(line), self.RESULT.match(line)
        if start:
            self.running.append(start[1])
            return []
        if not result:
            return [line]
        self.done, self.all = int(result[1]), int(result[2])
        if result[3] in self.running:
            self.running.remove(result[3])
        is_fine = result[4].startswith(("Passed", "***Skipped"))
        return [] if is_fine and self.on_terminal else [line]

    def end(self, code):
        return []


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Screen:
    """Standard output: lines and, on a terminal, the line of progress below them."""

    def __init__(self, title):
        self.title, self.started = title, time.monotonic()
        self.on_terminal = sys.stdout.isatty()
        self.next_progress = self.started + INTERVAL_S[self.on_terminal]
        self.has_progress = False

    def wait_s(self):
        return max(0.0, self.next_progress - time.monotonic())

    def lines(self, lines):
        if lines:
            self.erase()
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
            if not self.on_terminal:  # no sign of life is due so soon after output
                self.next_progress = time.monotonic() + INTERVAL_S[False]

    def erase(self):
        if self.has_progress:
            sys.stdout.write("\r\033[K")
            self.has_progress = False

    def progress(self, reader):
        if self.wait_s() > 0:
            return
        self.next_progress = time.monotonic() + INTERVAL_S[self.on_terminal]
        count = f"{reader.done} of {reader.all} {reader.unit}, " if reader.all else ""
        line = f"{self.title}: {count}{clock(time.monotonic() - self.started)}"
        if reader.what:
            line += f", {reader.what}"
        if self.on_terminal:
            self.erase()
            sys.stdout.write(line[: shutil.get_terminal_size().columns - 1])
            self.has_progress = True
        else:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def close(self, reader, code):
        self.erase()
        self.lines(reader.end(code))
        count = f", {reader.all} {reader.unit}" if reader.all else ""
        failed = f" FAILED ({code})" if code else ""
        print(f"{self.title}:{failed} {clock(time.monotonic() - self.started)}{count}", flush=True)


def follow(pipe, reader, screen):
    rest = b""
    while True:
        if select.select([pipe], [], [], screen.wait_s())[0]:
            data = os.read(pipe.fileno(), 65536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                screen.lines(reader.take(line.decode(errors="replace").rstrip("\r")))
        screen.progress(reader)
    if rest:
        screen.lines(reader.take(rest.decode(errors="replace")))


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("ninja", "ctest"):
        sys.exit(__doc__)
    kind, title, *command = sys.argv[1:]
    screen = Screen(title)
    reader = Ninja() if kind == "ninja" else CTest(screen.on_terminal)
    environment = dict(os.environ, NINJA_STATUS="[%f/%t] ")
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    signal.signal(signal.SIGINT, lambda *_: None)  # the command receives the signal too, and ends
    follow(child.stdout, reader, screen)
    code = child.wait()
    code = 128 - code if code < 0 else code
    screen.close(reader, code)
    sys.exit(code)


if __name__ == "__main__":
    main()
