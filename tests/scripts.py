#!/usr/bin/env python3
"""Tests run.sh and test.sh: the GPUs that they build for, the progress that they show of a build and of CTest, and
shellcheck over all scripts."""

import glob
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORDED = os.path.join(ROOT, "tests/scripts")
PROGRESS = os.path.join(ROOT, "scripts/progress.py")


class Gpus(unittest.TestCase):
    """choose_gpus of setup.sh, with stand-ins for nvidia-smi and nvcc."""

    def choose(self, gpus, nvcc, **environment):
        """gpus: capabilities printed by nvidia-smi, None without it; nvcc: its release, or None. Returns the
        architectures and the note."""
        with tempfile.TemporaryDirectory() as folder:
            programs = {"nvidia-smi": None if gpus is None else f"printf '{gpus}'"}
            programs["nvcc"] = nvcc and f"echo 'Cuda compilation tools, release {nvcc}, V{nvcc}.88'"
            for name in ("sh", "grep", "sort", "paste", "sed"):
                os.symlink(shutil.which(name), os.path.join(folder, name))
            for name, command in programs.items():
                if command:
                    path = os.path.join(folder, name)
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(f"#!/bin/sh\n{command}\n")
                    os.chmod(path, 0o755)
            script = '. scripts/setup.sh; choose_gpus; echo "$gpu_architectures"; echo "$gpu_note"'
            found = subprocess.run(
                ["/bin/sh", "-euc", script], cwd=ROOT, check=True, capture_output=True, text=True,
                env={"PATH": folder, "CUDA_HOME": "/nonexistent", **environment},
            )
            self.assertEqual(found.stderr, "")
            return found.stdout.split("\n", 1)

    def check(self, gpus, nvcc, architectures, *notes, **environment):
        found, note = self.choose(gpus, nvcc, **environment)
        self.assertEqual(found, architectures)
        for part in notes:
            self.assertIn(part, note)

    def test_own_architecture(self):
        self.check("9.0\\n9.0\\n", "13.0", "90a-real", "compute capability 9.0", "for them alone")
        self.check("8.0\\n", "12.5", "80-real", "for them alone")
        self.check("8.6\\n8.9\\n", "12.8", "80-real", "8.6 8.9")

    def test_several_kinds(self):
        self.check("9.0\\n8.0\\n", "13.0", "80-real;90a-real", "8.0 9.0")
        self.check("7.5\\n9.0\\n", "13.0", "90a-real")

    def test_newer_than_any_kernel(self):
        self.check("10.0\\n", "13.0", "80-virtual", "driver compiles them")
        self.check("12.0\\n9.0\\n", "13.0", "80-virtual;90a-real")

    def test_no_gpu(self):
        for gpus in (None, "", "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.\\n"):
            self.check(gpus, "13.0", "", "No GPU is visible", "cmake --preset release")
            self.check(gpus, None, "", "No GPU is visible", "cmake --preset release")

    def test_hidden_gpu(self):
        self.check("9.0\\n", "13.0", "", "No GPU is visible", CUDA_VISIBLE_DEVICES="")
        self.check("9.0\\n", "13.0", "", "No GPU is visible", CUDA_VISIBLE_DEVICES="-1")
        self.check("9.0\\n", "13.0", "90a-real", CUDA_VISIBLE_DEVICES="0")

    def test_old_gpu(self):
        self.check("7.5\\n6.1\\n", "13.0", "", "6.1 7.5", "older than 8.0", "CPU ranks only")

    def test_compiler(self):
        self.check("9.0\\n", None, "", "no nvcc", "CPU ranks only", "install the CUDA toolkit")
        self.check("9.0\\n", "12.4", "", "older than CUDA 12.5", "CPU ranks only")
        self.check("9.0\\n", "11.8", "", "older than CUDA 12.5")
        self.check("9.0\\n", "unknown", "", "older than CUDA 12.5")


class Progress(unittest.TestCase):
    """progress.py, on recorded output."""

    def run_piped(self, kind, command):
        found = subprocess.run(
            [PROGRESS, kind, "Title", "sh", "-c", command], cwd=RECORDED, stdout=subprocess.PIPE, text=True, check=False
        )
        return found.returncode, found.stdout

    def run_on_terminal(self, kind, command):
        """The same on a terminal: its exit code, its whole output, and the text that is visible at the end."""
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(RECORDED)
            os.execv(PROGRESS, [PROGRESS, kind, "Title", "sh", "-c", command])
        written = b""
        while True:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # closed
                break
            if not data:
                break
            written += data
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        text = written.decode().replace("\r\n", "\n")
        shown = "\n".join(line.split("\r\033[K")[-1] for line in text.split("\n"))
        return code, text, shown

    def read(self, name):
        with open(os.path.join(RECORDED, name), encoding="utf-8") as file:
            return file.read()

    def test_build_that_passes(self):
        code, shown = self.run_piped("ninja", "grep -v 'FAILED\\|stopped' ninja_failed.txt")
        self.assertEqual((code, shown), (0, "Title: 0:00, 4 steps\n"))

    def test_build_that_fails(self):
        recorded = self.read("ninja_failed.txt")
        failure = recorded[recorded.index("FAILED: ") : recorded.index("[3/4]")]
        code, shown = self.run_piped("ninja", "cat ninja_failed.txt; exit 3")
        self.assertEqual(code, 3)
        self.assertTrue(shown.startswith(failure), shown)
        self.assertIn("ninja: build stopped: subcommand failed.\n", shown)
        self.assertTrue(shown.endswith("Title: FAILED (3) 0:00, 4 steps\n"), shown)

    def test_build_on_a_terminal(self):
        code, written, shown = self.run_on_terminal("ninja", "cat ninja_failed.txt; sleep 0.5; exit 1")
        self.assertEqual(code, 1)
        self.assertIn("Title: 3 of 4 steps, 0:00, runtime/base/a.c", written)
        self.assertNotIn("3 of 4 steps", shown)
        self.assertIn("\n    3 |   return x;\n", shown)

    def test_silent_build(self):
        """Without a terminal a line every 15 s, here 0.2 s, also while the command writes nothing."""
        script = "import progress; progress.INTERVAL_S[False] = 0.2; progress.main()"
        found = subprocess.run(
            [sys.executable, "-Bc", script, "ninja", "Title", "sh", "-c", "head -1 ninja_failed.txt; sleep 0.7"],
            cwd=RECORDED, env={**os.environ, "PYTHONPATH": f"{ROOT}/scripts"}, stdout=subprocess.PIPE, text=True,
            check=True,
        )
        self.assertGreaterEqual(found.stdout.count("Title: 1 of 4 steps, 0:00, Generating c.txt\n"), 2)

    def test_command_ended_by_a_signal(self):
        self.assertEqual(self.run_piped("ninja", "kill -9 $$")[0], 137)

    def test_tests_elsewhere(self):
        code, shown = self.run_piped("ctest", "cat ctest_failed.txt; exit 8")
        self.assertEqual(code, 8)
        kept = [line for line in self.read("ctest_failed.txt").split("\n") if not line.startswith("    Start")]
        self.assertEqual(shown, "\n".join(kept) + "Title: FAILED (8) 0:00, 4 tests\n")

    def test_tests_on_a_terminal(self):
        code, written, shown = self.run_on_terminal(
            "ctest", "head -5 ctest_failed.txt; sleep 0.5; tail -n +6 ctest_failed.txt; exit 8"
        )
        self.assertEqual(code, 8)
        self.assertIn("Title: 1 of 4 tests, 0:00, unit.skipped, unit.broken", written)
        self.assertNotIn("Passed", shown)
        self.assertRegex(shown, r"\n3/4 Test #3: unit.broken \.+\*\*\*Failed +0.01 sec\nexpected 1, found 2\n")
        self.assertIn("75% tests passed, 1 tests failed out of 4\n", shown)


class Shell(unittest.TestCase):
    @unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck here")
    def test_shellcheck(self):
        patterns = ("scripts/*.sh", "scripts/deploy/*.sh", "scripts/deploy/*.sbatch", "tests/*/*.sh", ".ci/run")
        scripts = [path for pattern in patterns for path in glob.glob(f"{ROOT}/{pattern}")]
        found = subprocess.run(
            ["shellcheck", "--severity=style", *sorted(scripts)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        self.assertEqual(found.stdout + found.stderr, "")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
