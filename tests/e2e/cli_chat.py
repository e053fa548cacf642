"""yoke chat: turns, history and commands from a pipe; prompts, Ctrl-C and Ctrl-D on a terminal."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import termios
import time

import harness

SMALL = ("--kv-cache-bytes", "16MiB", "--log-level", "warn")
LIBEDIT_LEAKS = os.path.join(harness.TESTS_DIR, "e2e", "libedit_leaks.txt")  # el_end does not free names for EL_ADDFN
TINY = os.path.join(harness.FAMILIES, "qwen3")  # no tokenizer
# The template passes on the last message alone, because the demo model understands no more. "dump" makes the template
# refuse the conversation and quote it; "sizes" shows the length of each message.
TEMPLATE = ("{% set ns = namespace(all='', sizes='') %}"
            "{% for m in messages %}{% set ns.all = ns.all ~ '[' ~ m.role ~ ':' ~ m.content ~ ']' %}"
            "{% set ns.sizes = ns.sizes ~ '[' ~ m.role ~ ':' ~ m.content|length ~ ']' %}{% endfor %}"
            "{% if messages[-1].content == 'dump' %}{{ raise_exception(ns.all) }}{% endif %}"
            "{% if messages[-1].content == 'sizes' %}{{ raise_exception(ns.sizes) }}{% endif %}"
            "{{ messages[-1].content }}")


class Base(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = harness.scratch_folder(cls.addClassCleanup)
        cls.text_model = harness.make_text_model(os.path.join(cls.folder, "text"))
        cls.long_model = harness.make_text_model(os.path.join(cls.folder, "long"))
        path = os.path.join(cls.long_model, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**config, "max_position_embeddings": 200000, "rope_scaling": None}, file)
        cls.template = os.path.join(cls.folder, "template.jinja")
        with open(cls.template, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)

    def arguments(self, *options, model=harness.DEMO):
        return ["chat", "--model", model, "--device", "cpu", *SMALL, "--chat-template", self.template,
                *map(str, options)]

    def chat(self, text, *options, model=harness.DEMO, expect=0):
        """Answers, one per line, and stderr."""
        done = self.run_yoke(*self.arguments(*options, model=model), stdin=text, expect=expect)
        return done.out, done.err


@harness.of_the_program
class Piped(Base):
    def test_answers(self):
        self.assertEqual(self.chat("348+275=\n17+25=\nSort: k b z a ->\n"), ("623\n42\n a b k z\n", ""))

    def test_answers_of_builtin_forms_end(self):
        """With the end token of the template, although the model's files do not list it as an end."""
        model = harness.make_turn_end_model(os.path.join(self.folder, "turns"))
        options = ("--chat-template", "builtin:chatml", "--max-tokens", 60, "--temperature", 0)
        self.assertEqual(self.chat("17+25=\n", *options, model=model)[1], "")
        self.assertIn("ends after 60 tokens", self.chat("17+25=\n", *options, "--ignore-eos", model=model)[1])

    def test_empty_messages(self):
        for text in ("", "\n", " \n\t\n\r\n", "/exit", "/exit\n17+25=\n"):
            with self.subTest(text):
                self.assertEqual(self.chat(text), ("", ""))

    def test_lines(self):
        """With a byte order mark, blank lines, DOS line ends, and no final newline."""
        self.assertEqual(self.chat(b"\xef\xbb\xbf17+25=\r\n\n  \n348+275="), ("42\n623\n", ""))

    def test_history(self):
        out, err = self.chat("17+25=\n348+275=\ndump\n17+25=\ndump\n", "--system", "Be brief.", expect=1)
        self.assertEqual(out, "42\n623\n42\n")
        before = "[system:Be brief.][user:17+25=][assistant:42][user:348+275=][assistant:623]"
        self.assertEqual([line.split("template: ", 1)[1] for line in err.splitlines()],
                         [before + "[user:dump]", before + "[user:17+25=][assistant:42][user:dump]"])

    def check_dump(self, text, dump, *options):
        self.assertTrue(self.chat(text + "dump\n", *options, expect=1)[1].endswith(f"{dump}[user:dump]\n"))

    def test_commands(self):
        self.check_dump("17+25=\n/undo\n", ": ")
        self.check_dump("17+25=\n348+275=\n/undo\n", ": [user:17+25=][assistant:42]")
        self.check_dump("17+25=\n/clear\n", ": ")
        self.check_dump("17+25=\n/clear\n", ": [system:a]", "--system", "a")
        self.check_dump("17+25=\n/undo\n", ": [system:a]", "--system", "a")
        self.check_dump("/system  b c \n17+25=\n", ": [system:b c][user:17+25=][assistant:42]")
        self.check_dump("17+25=\n/system b\n", ": [system:b][user:17+25=][assistant:42]", "--system", "a")
        self.check_dump("17+25=\n/system\n", ": [user:17+25=][assistant:42]", "--system", "a")
        self.check_dump("/system\n", ": ")
        self.check_dump("/system one\\\ntwo\n", ": [system:one\\ntwo]")

    def test_help(self):
        out, err = self.chat("/help\n")
        self.assertEqual(out, "")
        for name in ("/help", "/clear", "/system TEXT", "/undo", "/exit", "backslash"):
            self.assertIn(name, err)

    def test_bad_commands(self):
        for text, *parts in (("/cler", "unknown command /cler", "did you mean /clear?"),
                             ("/etc/passwd", "unknown command /etc/passwd", "/help"), ("/", "unknown command /;"),
                             ("/" + "x" * 10000, "unknown command /xxx"), ("/clear all", "/clear", '"all"'),
                             ("/exit now", "/exit", '"now"'), ("/undo", "/undo: there is no message to remove"),
                             (b"/system \xff", "UTF-8", "0xFF"), (b"/\xff", "unknown command")):
            with self.subTest(text):
                text = text.encode() if isinstance(text, str) else text
                done = self.run_yoke(*self.arguments(), stdin=text + b"\n17+25=\n", expect=1)
                self.assertEqual(done.out, "42\n")
                self.assertEqual(len(done.err.splitlines()), 1)
                for part in parts:
                    self.assertIn(part, done.err)

    def test_a_slash_behind_a_space(self):
        self.check_dump(" /x\n/undo\n", ": ")
        self.assertIn("[user: /x]", self.chat(" /x\ndump\n", "--max-tokens", 1, expect=1)[1])

    def test_lines_that_go_on(self):
        self.assertIn("[user:a\\nb\\n\\nc]", self.chat("a\\\nb\\\r\n\\\nc\ndump\n", "--max-tokens", 1, expect=1)[1])
        self.assertEqual(self.chat("17+25=\\")[0].count("\n"), 1)  # the end of the input also ends the message
        self.assertEqual(self.chat("\\\n\n17+25=\n")[0], "42\n")  # blank

    def test_messages_that_fail(self):
        """The message is removed, and the chat continues."""
        for text, *parts in ((b"\xff\xfe", "message: expected UTF-8, found byte 0xFF at offset 0"),
                             (b"the " * 1100, "prompt: expected at most 1023 tokens", "/clear", "/undo"),
                             (b"x" * (4 << 20) + b"y", "message: expected at most 4194304 bytes"),
                             ((b"x" * (1 << 20) + b"\\\n") * 5, "message: expected at most 4194304 bytes"),
                             (b"dump", "[user:dump]")):
            with self.subTest(text[:20]):
                done = self.run_yoke(*self.arguments(), stdin=text + b"\n17+25=\ndump\n", expect=1)
                lines = done.err.splitlines()
                for part in parts:
                    self.assertIn(part, lines[0])
                self.assertEqual(done.out.splitlines()[-1], "42")
                self.assertTrue(lines[-1].endswith(": [user:17+25=][assistant:42][user:dump]"), lines[-1])

    def test_end_of_the_context(self):
        out, err = self.chat("the\nand\n/clear\nthe\n", "--ignore-eos", "--chat-template", "builtin:chatml",
                             model=self.text_model, expect=1)
        full, refused, again = [line for line in err.splitlines() if line]
        self.assertIn("the context of 256 tokens is full", full)
        self.assertIn("/clear", full)
        self.assertIn("prompt: expected at most 255 tokens", refused)
        self.assertIn("/clear begins anew", refused)
        self.assertEqual(again, full)
        self.assertGreater(len(out), 200)

    def test_how_long_answers_are(self):
        out, err = self.chat("Sort: k b z a ->\n", "--max-tokens", 2)
        self.assertEqual(out, " a b\n")
        self.assertIn("the answer ends after 2 tokens", err)
        self.assertEqual(self.chat("17+25=\n", "--max-tokens", 100000), ("42\n", ""))

    def test_sampling(self):
        text = "the\nthe\n/clear\nthe\n"
        options = ("--max-tokens", 20, "--ignore-eos", "--log-level", "error")
        out = self.chat(text, *options, model=self.text_model)[0]
        self.assertEqual(self.chat(text, *options, model=self.text_model)[0], out)
        self.assertNotEqual(self.chat(text, *options, "--seed", 1, model=self.text_model)[0], out)
        twice = self.chat("the\n/clear\nthe\n", *options, model=self.text_model)[0]
        self.assertNotEqual(twice[:len(twice) // 2], twice[len(twice) // 2:])
        greedy = self.chat("the\n/clear\nthe\n", *options, "--temperature", 0, model=self.text_model)[0]
        self.assertEqual(greedy[:len(greedy) // 2], greedy[len(greedy) // 2:])
        self.assertEqual(self.chat("Sort: k b z a ->\n", "--stop", "k"), (" a b \n", ""))

    def test_stats(self):
        err = self.chat("17+25=\nCopy: marble pepper button ->\n", "--stats", "--log-level", "info")[1]
        stats = [line for line in err.splitlines() if "tokens/s" in line]
        self.assertEqual(len(stats), 2)
        self.assertRegex(stats[0], r"^yoke: \d+ tokens, \d+\.\d tokens/s, the first after \d+\.\d ms; prompt of \d+ "
                                   r"tokens, 0 found computed$")
        self.assertNotIn("tokens/s", self.chat("17+25=\n", "--log-level", "info")[1])

    def test_beginnings_are_computed_once(self):
        err = self.chat("the marble and the pepper and the button\nand\n", "--stats", "--log-level", "info",
                        "--chat-template", "builtin:chatml", "--max-tokens", 4)[1]
        second = [line for line in err.splitlines() if "tokens/s" in line][1]
        self.assertGreaterEqual(int(second.split()[-3]), 16)

    def test_bad_templates(self):
        broken = os.path.join(self.folder, "broken.jinja")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("{% if %}")
        for options, *parts in (
                (["--chat-template", "builtin:none"], "--chat-template", "builtin:none", "builtin:chatml"),
                (["--chat-template", "/no/such.jinja"], "--chat-template", "/no/such.jinja: No such file"),
                (["--chat-template", broken], "--chat-template", "broken.jinja"),
                (["--model", TINY], "tokenizer.json"), (["--model", "/no/such/dir"], "/no/such/dir")):
            with self.subTest(options):
                self.assert_error([*self.arguments(), *options], *parts)
        self.assert_error(["chat", "-m", self.text_model, *harness.ON], "has no chat template", "builtin:chatml")
        self.assert_error(self.arguments("--system", os.fsdecode(b"\xff")), "--system: ", "UTF-8", "0xFF")

    def test_variables_of_the_template(self):
        path = os.path.join(self.folder, "mode.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{{ raise_exception('mode is ' ~ mode) }}")
        options = ("--chat-template", path, "--default-chat-template-kwargs")
        self.assertIn("mode is 7", self.chat("x\n", *options, '{"mode": 7}', expect=1)[1])
        self.assert_usage_error(self.arguments(*options, "[7]"),
                                "--default-chat-template-kwargs: expected a JSON object")
        line = '{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": ' \
               '[{"role": "user", "content": "x"}]%s}}\n'
        batch = ["batch", harness.DEMO, "-", "--device", "cpu", *SMALL, *options, '{"mode": 7}']
        for field, mode in (("", 7), (', "chat_template_kwargs": {"mode": 8}', 8)):
            self.assertIn(f"mode is {mode}", self.run_yoke(*batch, stdin=line % field, expect=1).out)

    def test_nobody_reads(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([self.yoke, *self.arguments()], input=b"17+25=\n" * 3, stdout=full,
                                  stderr=subprocess.PIPE, check=False, timeout=harness.TIMEOUT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1)  # and the chat ends

    def test_signals(self):
        """The answer ends, its text so far stays visible, and the chat continues."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), subprocess.Popen(
                    [self.yoke, *self.arguments("--ignore-eos", model=self.long_model)], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as program:
                program.stdin.write(b"the\nand\n")
                program.stdin.flush()
                begun = program.stdout.read(20)
                program.send_signal(number)
                rest, err = program.communicate(timeout=harness.TIMEOUT_S)
                self.assertEqual(program.returncode, 128 + number, err)
                self.assertEqual(len(begun), 20)
                self.assertTrue(rest.endswith(b"\n"))
                self.assertIn(b"stopping", err)
                self.assertNotIn(b"Sanitizer", err)


class Terminal:
    """The program on a separate pseudo-terminal."""

    def __init__(self, case, *arguments, **env):
        """Without TERM in env there is no line editor."""
        self.case, self.seen, self.at = case, "", 0
        leaks = f"suppressions={LIBEDIT_LEAKS}:print_suppressions=0"
        env = {**os.environ, "TERM": "dumb", "LSAN_OPTIONS": leaks, **env}
        start, begin = os.pipe()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.read(start, 1)
            os.execve(case.yoke, [case.yoke, *arguments], env)
        case.addCleanup(self.close)
        self.before = termios.tcgetattr(self.terminal)
        os.write(begin, b"x")
        for end in (start, begin):
            os.close(end)

    def close(self):
        os.close(self.terminal)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def read(self, until_s):
        """Reads more of the output; False at the end."""
        ready = select.select([self.terminal], [], [], max(0, until_s - time.monotonic()))[0]
        self.case.assertTrue(ready, f"nothing more after: {self.seen[-400:]!r}")
        try:
            more = os.read(self.terminal, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += more.decode("utf-8", "replace").replace("\r\n", "\n").replace("\x1b[?2004h", "")
        self.seen = self.seen.replace("\x1b[?2004l", "")
        return bool(more)

    def expect(self, text, n_behind=0):
        """Waits for text and n characters after it; returns the output since the last call."""
        until_s = time.monotonic() + harness.TIMEOUT_S
        while (found := self.seen.find(text, self.at)) < 0 or len(self.seen) < found + len(text) + n_behind:
            self.case.assertTrue(self.read(until_s), f"no {text!r} in {self.seen[self.at:]!r}")
        before, self.at = self.seen[self.at:found], found + len(text)
        return before

    def type(self, text):
        os.write(self.terminal, text.encode())

    def finish(self):
        """The exit code."""
        until_s = time.monotonic() + harness.TIMEOUT_S
        while self.read(until_s):
            pass
        pid, self.pid = self.pid, None
        self.case.assertNotIn("Sanitizer", self.seen)
        with contextlib.suppress(termios.error):
            self.case.assertEqual(termios.tcgetattr(self.terminal), self.before)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@harness.of_the_program
class Interactive(Base):
    def start(self, *options, model=harness.DEMO):
        terminal = Terminal(self, *self.arguments(*options, model=model))
        terminal.expect("/help lists commands")
        terminal.expect("\n> ")
        return terminal

    def test_several_messages(self):
        terminal = self.start()
        terminal.type("17+25=\n")
        self.assertEqual(terminal.expect("\n> "), "17+25=\n42")
        terminal.type("/nothing\n")
        self.assertIn("unknown command /nothing", terminal.expect("\n> "))
        terminal.type("348\\\n")
        terminal.expect("\n. ")
        terminal.type("\n")
        terminal.expect("\n> ")
        terminal.type("\x04")
        self.assertEqual(terminal.finish(), 0)  # the failure has been noticed

    def test_exit(self):
        terminal = self.start()
        terminal.type("/exit\n")
        self.assertEqual(terminal.finish(), 0)

    def test_ctrl_c_stops_an_answer(self):
        """The conversation is kept, and the chat continues, also after repeated interrupts."""
        terminal = self.start("--ignore-eos", model=self.long_model)
        for n_turns in (1, 2):
            terminal.type("the\n")
            terminal.expect("the\n", n_behind=40)
            terminal.type("\x03")
            answer = terminal.expect("\n> ")
            self.assertNotIn("stopping", answer)
            terminal.type("sizes\n")
            dump = terminal.expect("\n> ")
            sizes = dump.split("template: ")[1].strip("[]").split("][")
            self.assertEqual([size.split(":")[0] for size in sizes], ["user", "assistant"] * n_turns + ["user"])
            n_kept = int(sizes[-2].split(":")[1])
            self.assertGreaterEqual(n_kept, 40)
        terminal.type("\x04")
        self.assertEqual(terminal.finish(), 0)

    def test_ctrl_c_at_the_prompt(self):
        terminal = self.start()
        terminal.type("what nobody wants")
        terminal.expect("what nobody wants")
        terminal.type("\x03")
        terminal.expect("(Ctrl-C once more, or Ctrl-D, leaves)\n> ")
        terminal.type("17\\\n")
        terminal.expect("\n. ")
        terminal.type("\x03")  # a line was typed: the first one again
        terminal.expect("leaves)\n> ")
        terminal.type("dump\n")
        self.assertIn(": [user:dump]", terminal.expect("\n> "))
        terminal.type("\x03")
        terminal.expect("leaves)\n> ")
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), 130)

    def test_sigterm(self):
        for typed in ("", "the\n"):
            with self.subTest(typed):
                terminal = self.start("--ignore-eos", model=self.long_model)
                terminal.type(typed)
                if typed:
                    terminal.expect("the\n", n_behind=40)
                os.kill(terminal.pid, signal.SIGTERM)
                self.assertEqual(terminal.finish(), 143)


@harness.of_the_program
class Edited(Base):
    """Types lines in libedit. The template refuses "dump" and quotes the conversation."""

    def setUp(self):
        self.state = harness.scratch_folder(self.addCleanup)
        self.file = os.path.join(self.state, "yoke", "chat_history")

    def open(self, *options, model=harness.DEMO, **env):
        return Terminal(self, *self.arguments(*options, model=model),
                        **{"TERM": "xterm-256color", "XDG_STATE_HOME": self.state, "HOME": self.state, **env})

    def start(self, *options, model=harness.DEMO, **env):
        terminal = self.open(*options, model=model, **env)
        terminal.expect("/help lists commands; Ctrl-D leaves\n")
        terminal.expect("> ")
        if env.get("TERM") != "dumb":
            self.wait_for_libedit(terminal)
        return terminal

    def wait_for_libedit(self, terminal):
        """libedit changes the terminal's mode shortly after it has shown the prompt."""
        until_s = time.monotonic() + harness.TIMEOUT_S
        while termios.tcgetattr(terminal.terminal)[3] & termios.ICANON:
            self.assertLess(time.monotonic(), until_s, repr(terminal.seen))
            time.sleep(0.001)

    def history(self):
        with open(self.file, encoding="utf-8") as file:
            return file.read().splitlines()[1:]

    def ask(self, terminal, text, answer):
        self.wait_for_libedit(terminal)
        terminal.type(text)
        self.assertTrue(terminal.expect("\n> ").endswith("\n" + answer), repr(terminal.seen))

    def test_editing(self):
        terminal = self.start()
        self.ask(terminal, "7+2\x01" "1\x1b[C\x1b[C" "\x1b[C5=\x1b[D\x1b[C\r", "42")  # 17+25=
        self.ask(terminal, "xx\x15" "3é\x7f48+275=\r", "623")
        self.ask(terminal, "17+25= no\x17\x7f\r", "42")
        terminal.type("\x04")
        self.assertEqual(terminal.finish(), 0)

    def test_history(self):
        terminal = self.start()
        self.ask(terminal, "17+25=\n", "42")
        self.ask(terminal, "348+275=\n", "623")
        self.ask(terminal, "348+275=\n", "623")
        self.ask(terminal, "\x1b[A\x1b[A\n", "42")
        self.assertEqual(self.history(), ["17+25=", "348+275=", "17+25="])
        terminal.type("/exit\n")
        self.assertEqual(terminal.finish(), 0)
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(os.path.dirname(self.file)).st_mode & 0o777, 0o700)
        os.chmod(self.file, 0o644)
        terminal = self.start()  # a later chat
        self.ask(terminal, "\x1b[A\x1b[A\x1b[A\n", "623")
        self.ask(terminal, "\x1217+\r", "42")
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)
        terminal.type("\x04")
        self.assertEqual(terminal.finish(), 0)

    def test_history_that_cannot_be_kept(self):
        terminal = self.start("--no-history")
        self.ask(terminal, "17+25=\n", "42")
        self.ask(terminal, "\x1b[A\n", "42")
        self.assertFalse(os.path.exists(self.file))
        os.makedirs(os.path.dirname(self.file))
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("something else\n")
        terminal = self.open()
        self.assertIn("chat_history: no history of libedit's", terminal.expect("> "))
        self.ask(terminal, "17+25=\n", "42")
        with open(self.file, encoding="utf-8") as file:
            self.assertEqual(file.read(), "something else\n")
        terminal = self.open(XDG_STATE_HOME=self.file)  # no directory
        self.assertIn("Not a directory; the history has only this chat", terminal.expect("> "))
        os.remove(self.file)
        os.symlink(os.path.join(self.state, "elsewhere"), self.file)
        terminal = self.open()
        terminal.expect("> ")
        self.wait_for_libedit(terminal)
        terminal.type("17+25=\n")
        self.assertIn("Too many levels of symbolic links; the history has only this chat", terminal.expect("\n> "))
        self.assertFalse(os.path.exists(os.path.join(self.state, "elsewhere")))

    def test_a_long_history_is_cut(self):
        os.makedirs(os.path.dirname(self.file))
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("_HiStOrY_V2_\n" + "".join(f"{i}-{'x' * 200}\n" for i in range(6000)))
        self.start()
        kept = self.history()
        self.assertEqual([line.split("-")[0] for line in kept], [str(i) for i in range(5000, 6000)])

    def test_pasting(self):
        """Pasted lines are one message, with any line ends."""
        terminal = self.start("--max-tokens", 1)
        terminal.type("\x1b[200~a\r\n\tb\rc\nd\n\x1b[201~e\r")
        terminal.expect("\n> ")
        terminal.type("x\x1b\ry\r")
        terminal.expect("\n> ")
        terminal.type("two\\\r")
        terminal.expect(". ")
        terminal.type("lines\r")
        terminal.expect("\n> ")
        self.assertEqual([line.encode().decode("unicode_escape") for line in self.history()],
                         ["a\n\tb\nc\nde", "x\ny", "two\nlines"])
        terminal.type("dump\r")
        dump = terminal.expect("\n> ")
        for said in ("[user:a\\n\\tb\\nc\\nde]", "[user:x\\ny]", "[user:two\\nlines]"):
            self.assertIn(said, dump)

    def test_a_large_paste(self):
        terminal = self.start()
        terminal.type("\x1b[200~")
        for _ in range(64):
            terminal.type("0123456 " * 64 + "\n")
            while select.select([terminal.terminal], [], [], 0)[0]:
                terminal.read(time.monotonic() + 1)
        terminal.type("\x1b[201~\r")
        terminal.expect("prompt: expected at most 1023 tokens")
        terminal.expect("\n> ")
        self.assertEqual(self.history()[0].count("\\012"), 63)

    def test_typed_ahead(self):
        """Typed while the model loads: shown once, when it is read."""
        terminal = self.open()
        while termios.tcgetattr(terminal.terminal)[3] & termios.ECHO:
            time.sleep(0.001)
        terminal.type("348+275=\n17")
        terminal.expect("> 348+275=\n623\n> ")
        self.ask(terminal, "+25=\n", "42")
        self.assertEqual(terminal.seen.count("348"), 1)
        terminal = self.open()
        while termios.tcgetattr(terminal.terminal)[3] & termios.ECHO:
            time.sleep(0.001)
        terminal.type("17+25=\n\x04")
        self.assertEqual(terminal.finish(), 0)
        self.assertIn("42\n", terminal.seen)

    def test_signals(self):
        terminal = self.start("--ignore-eos", model=self.long_model)
        terminal.type("the\r")
        terminal.expect("the\n", n_behind=40)
        terminal.type("\x03")
        self.assertNotIn("stopping", terminal.expect("\n> "))
        terminal.type("what nobody wants")
        terminal.expect("what nobody wants")
        terminal.type("\x03")
        terminal.expect("(Ctrl-C once more, or Ctrl-D, leaves)\n> ")
        terminal.type("dump\r")
        dump = terminal.expect("\n> ")  # a long answer cuts its end off
        self.assertIn("chat template: [user:the][assistant:", dump)
        self.assertNotIn("nobody", dump)
        terminal.type("\x03")
        terminal.expect("leaves)\n> ")
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), 130)
        terminal = self.start()
        terminal.type("half")
        terminal.expect("half")
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.finish(), 143)

    def test_thoughts_are_dimmed(self):
        """Reasoning opened by the template, and by the answer. If the answer ends inside, the terminal is restored."""
        with open(os.path.join(self.state, "thinks.jinja"), "w", encoding="utf-8") as file:
            file.write("{{ messages[-1].content }}<think>\n")
        for env, dim, normal in (({}, "\x1b[2m", "\x1b[22m"), ({"NO_COLOR": "1"}, "", ""), ({"TERM": "dumb"}, "", "")):
            with self.subTest(env):
                terminal = self.start("--chat-template", os.path.join(self.state, "thinks.jinja"), "--max-tokens", 2,
                                      **env)
                terminal.type("17+25=\n")
                shown = terminal.expect("\nyoke: warning")
                self.assertTrue(shown.startswith("17+25=\n" + dim) and shown.endswith(normal), repr(shown))
                self.assertEqual("\x1b" in shown, bool(dim))


if __name__ == "__main__":
    harness.main()
