"""yoke batch on pipes and terminals: lines are processed as they arrive, in bounded memory, with a display of
progress."""

import json
import os
import pty
import re
import select
import subprocess
import time

import harness
from batch_case import GOOD, SMALL, TINY, Base, prompts_of_ids


@harness.of_the_program
class Streams(Base):
    def test_stdin_and_stdout(self):
        expected = self.batch([GOOD] * 5 + [{**GOOD, "n": 0}], expect=1)
        with open(self.input, encoding="utf-8") as file:
            text = file.read()
        for options in ((), ("-o", "-")):
            done = self.run_yoke("batch", "-m", TINY, *harness.ON, *SMALL, *options, "-", stdin=text, expect=1)
            found = sorted(map(json.loads, done.out.splitlines()), key=lambda result: result["line"])
            self.assertEqual(found, expected)

    def test_a_live_pipe(self):
        """Results appear while the input is still open, and waiting for input uses no processor time."""
        command = [self.yoke, "batch", "-m", TINY, *harness.ON, *SMALL, "-"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
            for number in range(1, 4):
                run.stdin.write(json.dumps(GOOD).encode() + b"\n")
                run.stdin.flush()
                self.assertEqual(json.loads(run.stdout.readline())["line"], number)
            before = cpu_seconds(run.pid)
            time.sleep(1)
            self.assertLess(cpu_seconds(run.pid) - before, 0.3)
            run.stdin.close()
            self.assertEqual(run.stdout.read(), b"")
            self.assertEqual(run.wait(harness.TIMEOUT_S), 0)

    def test_a_reader_goes_away(self):
        self.write([{**GOOD, "logprobs": 20}] * 1000)
        command = [self.yoke, "batch", "-m", TINY, *harness.ON, *SMALL, self.input]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            run.stdout.readline()
            run.stdout.close()
            err = run.stderr.read().decode()
            self.assertEqual(run.wait(harness.TIMEOUT_S), 1, err)
            self.assertIn("standard output: Broken pipe", err)

    def test_bounded_memory(self):
        with open(self.yoke, "rb") as file:
            if b"__asan_init" in file.read():
                self.skipTest("a sanitizer keeps what is freed")
        few, many = self.peak_kib(1000), self.peak_kib(21000)
        self.assertLess(many, few + 2048)

    def peak_kib(self, n_lines):
        """Private memory of a run. Library pages, and the value of wait4, vary by more than the limit."""
        self.write([{"prompt": prompt, "max_tokens": 4, "logprobs": 5} for prompt in prompts_of_ids(n_lines)])
        peak = 0
        with subprocess.Popen([self.yoke, *self.arguments("--overwrite")], stderr=subprocess.DEVNULL) as run:
            while run.poll() is None:
                with open(f"/proc/{run.pid}/status", encoding="ascii") as file:
                    found = re.search(r"RssAnon:\s+(\d+) kB", file.read())
                peak = max(peak, int(found[1]) if found else 0)
                time.sleep(0.002)
        self.assertEqual(run.returncode, 0)
        self.assertEqual(len(self.results()), n_lines)
        self.assertGreater(peak, 0)
        return peak

    def test_progress(self):
        n = 400
        self.write([{"prompt": [5], "max_tokens": 60, "ignore_eos": True}] * n)
        leader, follower = pty.openpty()
        command = [self.yoke, *map(str, self.arguments("--max-num-seqs", 2))]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=follower) as run:
            os.close(follower)
            shown = b""
            while select.select([leader], [], [], harness.TIMEOUT_S)[0]:
                try:
                    chunk = os.read(leader, 65536)
                except OSError:  # Linux's error if the other end is closed
                    break
                if not chunk:
                    break
                shown += chunk
            self.assertEqual(run.wait(), 0)
        os.close(leader)
        self.assertRegex(shown.decode(),
                         rf"\[#*\.*\] +\d+%  \d+ of {n} lines  [\d.]+ lines/s  \d+:\d\d:\d\d left  \d+ tokens/s")
        self.assertIn(f"finished: {n} lines (0 failed)", shown.decode())


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    harness.main()
