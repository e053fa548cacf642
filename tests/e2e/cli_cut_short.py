"""A weight file that shrinks after it has been mapped: every command names it, and no result is computed from the zeros
in place of its lost bytes."""

import os
import shutil
import signal
import subprocess
import unittest

import harness
from quantize_case import FLOAT

ON = ("--device", "cpu", "--threads", "2")
SAID = "the file was truncated or became unreadable while it was read"


class CutShort(harness.Case):
    def setUp(self):
        if harness.is_sanitized(self.yoke):
            raise unittest.SkipTest("sanitizers have a handler of their own")
        self.scratch = harness.scratch_folder(self.addCleanup)
        self.library = os.path.join(os.path.dirname(self.yoke), "libcut_on_map.so")

    def run_cut(self, source, name, n_bytes, *arguments, late=False):
        """Runs a command on a copy of the model, whose file `name` is cut once it is mapped; late: only when the
        command then starts a thread."""
        model = os.path.join(self.scratch, "model")
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(source, model)
        path = os.path.join(model, name)
        env = {**os.environ, "LD_PRELOAD": self.library, "YOKE_CUT_NAME": name, "YOKE_CUT_BYTES": str(n_bytes(path))}
        if late:
            env["YOKE_CUT_LATE"] = "1"
        return subprocess.run([self.yoke, arguments[0], "--model", model, *arguments[1:]], env=env, text=True,
                              capture_output=True, timeout=harness.TIMEOUT_S, check=False)

    def refused(self, source, name, n_bytes, *arguments, late=False):
        done = self.run_cut(source, name, n_bytes, *arguments, late=late)
        self.assertEqual(done.returncode, 1, f"{arguments}: {done.stderr}")
        self.assertIn(name + ": " + SAID, done.stderr, arguments)
        self.assertNotIn("Bad address", done.stderr, arguments)

    def test_every_command(self):
        qwen3 = os.path.join(harness.FAMILIES, "qwen3")
        kuiper = os.path.join(harness.TESTS_DIR, "golden", "kuiper")
        out = os.path.join(self.scratch, "out")
        prompts = os.path.join(self.scratch, "prompts")
        with open(prompts, "w", encoding="utf-8") as file:
            file.write('{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": [5]}}\n')
        commands = {"generate": (*ON, "--token-ids", "5", "-n", "2"), "plan": (), "serve": (*ON, "--port", "0"),
                    "batch": (*ON, prompts, "-o", os.path.join(self.scratch, "answers")),
                    "convert": ("--to", "awq", "-o", out), "score": (*ON, "--token-ids", "5,6")}
        for command, arguments in commands.items():
            for cut in (lambda path: 0, lambda path: os.path.getsize(path) // 2,
                        lambda path: os.path.getsize(path) - 5000):
                with self.subTest(command):
                    self.refused(qwen3, "model.safetensors", cut, command, *arguments)
                    self.assertFalse(os.path.exists(out))
        whole = os.path.join(self.scratch, "untied")
        os.mkdir(whole)
        shutil.copy(os.path.join(kuiper, "untied.bin"), whole)
        self.refused(whole, "untied.bin", lambda path: os.path.getsize(path) // 2, "generate", *commands["generate"])

    def test_while_weights_are_loaded(self):
        """The file is whole when opened; the device's threads find it cut."""
        model = os.path.join(harness.FAMILIES, "qwen3")
        for cut in (lambda path: 0, lambda path: os.path.getsize(path) - 1):
            self.refused(model, "model.safetensors", cut, "generate", *ON, "--token-ids", "5", "-n", "2", late=True)

    def test_quantising_takes_no_such_shard(self):
        out = os.path.join(self.scratch, "out")
        self.refused(FLOAT, "model.safetensors", lambda path: os.path.getsize(path) // 2, "quantize", "-o", out, *ON)
        self.assertNotIn("model.safetensors", os.listdir(out) if os.path.exists(out) else [])

    def test_another_fault_still_ends_the_program(self):
        """A signal handler that also takes foreign faults would hide errors of the program that uses the library."""
        model = os.path.join(harness.FAMILIES, "qwen3")
        with subprocess.Popen([self.yoke, "serve", "--model", model, *ON, "--port", "0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            self.assertIn("listening", server.stdout.readline())
            server.send_signal(signal.SIGBUS)
        self.assertEqual(server.returncode, -signal.SIGBUS)


if __name__ == "__main__":
    harness.main()
