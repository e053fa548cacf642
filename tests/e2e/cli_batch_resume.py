"""yoke batch resumes an interrupted run, or refuses if it cannot."""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from batch_case import GOOD, SMALL, TINY, Base, openai, prompts_of_ids


@harness.of_the_program
class Resume(Base):
    """Sampled lines of every kind: after any kind of stop, the resumed run has the same results."""

    N = 400
    uninterrupted = None  # (results, size of the output)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if harness.is_sanitized(cls.yoke):
            cls.N = 120

    def setUp(self):
        super().setUp()
        numbers = random.Random(7)
        self.lines = []
        for i, prompt in enumerate(prompts_of_ids(self.N, seed=7)):
            keys = {"prompt": prompt, "max_tokens": numbers.randrange(1, 40), "ignore_eos": True}
            self.lines.append([{**keys, "id": f"r{i}"}, openai(f"r{i}", **keys), {**keys, "n": 3},
                               {**keys, "top_p": -1} if i % 8 == 3 else keys][i % 4])
        if not Resume.uninterrupted:
            results = self.batch(self.lines, expect=1)
            Resume.uninterrupted = results, os.path.getsize(self.output)
            os.remove(self.output)
        self.expected, self.size = self.uninterrupted
        self.write(self.lines)

    def start(self, *options):
        # A shell that starts tests in the background ignores SIGINT, and children inherit that.
        return subprocess.Popen([self.yoke, *map(str, self.arguments("--max-num-seqs", 3, "--threads", 1, *options))],
                                stderr=subprocess.PIPE,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def stop_at(self, run, size, number):
        """Send a signal when the output has reached a size, or let the run end."""
        while run.poll() is None and (not os.path.exists(self.output) or os.path.getsize(self.output) < size):
            time.sleep(0.0005)
        run.send_signal(number)
        err = run.communicate(timeout=harness.TIMEOUT_S)[1].decode()
        self.assertNotIn("Sanitizer", err)
        return run.returncode, err

    def finish(self):
        done = self.run_yoke(*self.arguments(), expect=1)
        self.assertEqual(self.results(), self.expected)
        return done.err

    def check_stopped_again_and_again(self, number, code):
        numbers = random.Random(number)
        n_stopped, size = 0, 0
        while size < self.size - 1:
            size = numbers.randrange(size + 1, min(size + self.size // 4, self.size))
            returned, err = self.stop_at(self.start(), size, number)
            if returned != code:
                self.assertEqual(returned, 1, err)  # it ended before the signal
                break
            n_stopped += "left: " in err or number == signal.SIGKILL
            size = os.path.getsize(self.output)
        self.assertGreater(n_stopped, 1)
        self.finish()

    def test_ctrl_c(self):
        self.check_stopped_again_and_again(signal.SIGINT, 130)

    def test_sigterm(self):
        self.check_stopped_again_and_again(signal.SIGTERM, 143)

    def test_kill(self):
        self.check_stopped_again_and_again(signal.SIGKILL, -signal.SIGKILL)

    def test_kill_at_once(self):
        for _ in range(10):
            run = self.start()
            time.sleep(random.random() * 0.05)
            run.kill()
            run.communicate()
        self.finish()

    def test_finished(self):
        self.finish()
        with open(self.output, "rb") as file:
            before = file.read()
        err = self.finish()
        with open(self.output, "rb") as file:
            self.assertEqual(file.read(), before)
        failed = sum(1 for result in self.expected if result.get("error"))
        self.assertIn(f"earlier run: {self.N} lines ({failed} failed)", err)
        self.assertIn("finished: 0 lines (0 failed)", err)

    def test_torn_line(self):
        self.finish()
        with open(self.output, "rb") as file:
            whole = file.read()
        end_of_others = whole.rindex(b"\n", 0, -1) + 1
        for size in {end_of_others + 1, end_of_others + 5, (end_of_others + len(whole)) // 2, len(whole) - 1, 1, 0}:
            with self.subTest(size):
                with open(self.output, "wb") as file:
                    file.write(whole[:size])
                self.finish()

    def test_power_cut(self):
        """Zero bytes where data had not reached the disk, and blank lines."""
        self.finish()
        with open(self.output, "rb") as file:
            whole = file.read()
        last = whole.rindex(b"\n", 0, -1) + 1
        middle = whole.index(b"\n", len(whole) // 2) + 1
        for text in (whole + b"\0" * 5000, whole + b"\0", whole + b"\n", whole + b"\n \r\n\n", whole + b"  ",
                     whole[:last] + b"\0" * 300, whole[:last + 4] + b"\0" * 300, whole[:last + 30] + b"\0" * 300,
                     whole[:-1] + b"\0" * 9, whole[:middle] + b"\0" * 9 + b"\n" + b"\0" * 4000 + b"\n\n",
                     whole[:middle] + b"\n\n" + b"\0", whole[:middle] + b"\n \n" + whole[middle:],
                     b"\0" * 10000, b"\n", b"\n\n  "):
            with self.subTest(text[-20:]):
                with open(self.output, "wb") as file:
                    file.write(text)
                self.run_yoke(*self.arguments(), expect=1)
                with open(self.output, "rb") as file:
                    after = file.read()
                self.assertNotIn(b"\0", after)
                results = [json.loads(line) for line in after.splitlines() if line.strip()]
                self.assertEqual(sorted(result["line"] for result in results), list(range(1, self.N + 1)))
        for text in (whole[:middle] + b"\0" * 9 + whole[middle:], whole[:middle] + b"\0\n" + whole[middle:],
                     whole[:middle] + b"\0\0x", whole[:middle] + b"x\0\0", b"\x93NUMPY\1\0\0\0",
                     b"\0\0\0\0data"):
            with self.subTest(text[-20:]):
                with open(self.output, "wb") as file:
                    file.write(text)
                self.refused("does not belong to this run", "--overwrite")

    def refused(self, *parts):
        """The output is unchanged."""
        with open(self.output, "rb") as file:
            before = file.read()
        self.assert_error(self.arguments(), self.output, *parts)
        with open(self.output, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_other_input(self):
        self.finish()
        for change, *parts in ((lambda lines: lines[1].update(custom_id="other"), "line 2"),
                               (lambda lines: lines[0].update(prompt=[9]), "line 1"),
                               (lambda lines: lines.reverse(), "does not belong"),
                               (lambda lines: lines.insert(0, ""), "line 1"),
                               (lambda lines: lines.pop(), str(self.N), str(self.N - 1))):
            lines = json.loads(json.dumps(self.lines))
            change(lines)
            self.write(lines)
            self.refused("does not belong to this run", *parts)
        self.write(self.lines + [GOOD])  # a longer input is fine
        self.run_yoke(*self.arguments(), expect=1)
        self.assertEqual(self.results()[:-1], self.expected)

    def test_other_model_or_options(self):
        self.finish()
        with tempfile.TemporaryDirectory() as folder:
            moved = shutil.copytree(TINY, os.path.join(folder, "model"))
            os.mkdir(os.path.join(moved, "notes.json"))  # not files of the model
            os.symlink("nowhere", os.path.join(moved, "lost.json"))
            for options in (("--tp", 2), ("--max-num-seqs", 3), ("--model", moved)):  # without effect on results
                self.run_yoke(*self.arguments(), *options, expect=1)
            os.truncate(os.path.join(moved, "model.safetensors"),
                        os.path.getsize(os.path.join(moved, "model.safetensors")) - 1)
            for options in (("--temperature", 0.5), ("--max-tokens", 3), ("--top-k", 0), ("--stop", "x"),
                            ("--stop-token-ids", 5), ("--ignore-eos",), ("--seed", 8), ("--dtype", "bfloat16"),
                            ("--model", moved)):
                with self.subTest(options):
                    self.assert_error([*self.arguments(), *options], "does not belong to this run",
                                      "the model or the options were others")
            self.assert_error([*self.arguments(), "--model", os.path.join(folder, "none")], "none: No such file")
        self.assertEqual(self.results(), self.expected)

    def check_model(self, model, is_same):
        arguments = [*self.arguments(), "--model", model]
        if is_same:
            self.run_yoke(*arguments)
        else:
            self.assert_error(arguments, "does not belong to this run", "the model or the options were others")

    def test_other_weights_of_the_same_size(self):
        """The contents count, not the time of writing: a copy can be resumed."""
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copytree(TINY, os.path.join(folder, "model"))
            weights, large = os.path.join(model, "model.safetensors"), os.path.join(model, "large.safetensors")
            header = b'{"none": {}}'.ljust(100_000)
            with open(large, "wb") as file:  # beyond the part that is read whole; the loader does not read it
                file.write(len(header).to_bytes(8, "little") + header)
                file.truncate(100 << 20)
            self.write([GOOD])
            self.run_yoke(*self.arguments(model=model))
            os.utime(weights, (1, 1))
            self.check_model(model, is_same=True)
            size = os.path.getsize(weights)
            for path, at, n in ((weights, size // 2, 1), (weights, size - 1, 1), (large, 60_000, 1),
                                (large, 50 << 20, 1 << 20), (large, (100 << 20) - (1 << 20), 1 << 20)):
                with self.subTest((path, at)), open(path, "r+b") as file:
                    file.seek(at)
                    before = file.read(n)
                    for data, is_same in ((bytes(byte ^ 1 for byte in before), False), (before, True)):
                        file.seek(at)
                        file.write(data)
                        file.flush()
                        self.check_model(model, is_same)

    def test_other_chat_template(self):
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copytree(TINY, os.path.join(folder, "model"))
            self.write([GOOD])
            for name in ("chat_template.jinja", "tokenizer_config.json"):
                with self.subTest(name):
                    path = os.path.join(model, name)
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump({"chat_template": "{{ a }}"}, file)
                    self.run_yoke(*self.arguments("--overwrite", model=model))
                    self.check_model(model, is_same=True)
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump({"chat_template": "{{ b }}"}, file)
                    self.check_model(model, is_same=False)

    def test_other_files(self):
        for text in ("notes\n", "notes without a newline", "{}\n", '{"line": 1}\n', '{"line": 1, "input_hash": "x"}\n',
                     '{"a":'):
            with self.subTest(text):
                with open(self.output, "w", encoding="utf-8") as file:
                    file.write(text)
                self.refused("does not belong to this run", "--overwrite")

    def test_doubled_line(self):
        self.finish()
        with open(self.output, "r+b") as file:
            first = file.readline()
            file.seek(0, os.SEEK_END)
            file.write(first)
        self.refused("has a result already")

    def test_streams_cannot_resume(self):
        self.finish()
        arguments = ["batch", "-m", TINY, *harness.ON, *SMALL, "-", "-o", self.output]
        self.assert_error(arguments, self.output, "not empty")
        self.assertEqual(self.results(), self.expected)

    def test_overwrite(self):
        with open(self.output, "w", encoding="utf-8") as file:
            file.write("notes\n")
        self.run_yoke(*self.arguments("--overwrite"), expect=1)
        self.assertEqual(self.results(), self.expected)

    def test_two_runs_at_once(self):
        with open(self.output, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.refused("another run")
        self.finish()


if __name__ == "__main__":
    harness.main()
