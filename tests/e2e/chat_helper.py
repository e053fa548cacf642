"""The template helper's Python modules alone: marks after every character of message texts change no golden of chat
templates, and a process that has locked itself up can reach nothing.
"""

import ctypes
import glob
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import unittest
import unittest.mock

import harness

FOLDERS = [os.path.join(harness.TESTS_DIR, "..", "runtime", name, "helper") for name in ("base", "chat")]
sys.path += FOLDERS
sys.dont_write_bytecode = True
import syscall_filter
import template_helper

CHAT = os.path.join(harness.TESTS_DIR, "golden", "chat")
SCRIPTS = os.path.join(harness.TESTS_DIR, "..", "scripts")
MARK = "\ufdef"


def mark(value, step):
    """Marks after every step-th character of every text and key."""
    if isinstance(value, str):
        return "".join(character + MARK * (i % step == 0) for i, character in enumerate(value))
    if isinstance(value, list):
        return [mark(item, step) for item in value]
    if isinstance(value, dict):
        return {mark(key, step): mark(item, step) for key, item in value.items()}
    return value


def template_file(name):
    """A checkpoint's template, or that of scripts for a checkpoint without one."""
    own = os.path.join(CHAT, "templates", name + ".jinja")
    return own if os.path.exists(own) else os.path.join(SCRIPTS, "chat_templates", name + ".jinja")


def mark_message(message, step):
    return {mark(key, step): value if key == "role" else mark(value, step) for key, value in message.items()}


def request(messages, marked=True, **more):
    """A request to render a conversation."""
    others = {"tools": None, "documents": None, "arguments": None, **more.pop("others", {})}
    return json.dumps({"render": "default", "special_tokens": {}, "variables": {"messages": messages, "others": others},
                       "add_generation_prompt": True, "continue_final_message": False,
                       "mark": MARK if marked else None, **more})


class Marks(unittest.TestCase):
    def check(self, path, step):
        name = os.path.basename(path)[:-len(".json")]
        with open(path, encoding="utf-8") as file:
            golden = json.load(file)
        with open(template_file(name), encoding="utf-8") as file:
            source = file.read()
        renderer = template_helper.Renderer()
        needs = renderer.load({"default": source})["needs"]["default"]
        for i, case in enumerate(golden["cases"]):
            messages = case["messages"]
            if not needs["content_null"]:
                messages = [{**message, "content": message["content"] or ""} for message in messages]
            answer = renderer.answer(request(
                [mark_message(message, step) for message in messages], special_tokens=golden["special_tokens"],
                others={"tools": mark(case["tools"], step), "arguments": mark(case["arguments"], step)},
                add_generation_prompt=case["add_generation_prompt"],
                continue_final_message=case.get("continue_final_message", False)))
            found = {key: value.replace(MARK, "") for key, value in answer.items()}
            if "text" in case:
                self.assertEqual(found, {"text": case["text"]}, f"{name}, case {i}, every {step}")
            else:
                self.assertIn(case["error"], found["refused"], f"{name}, case {i}, every {step}")

    def test_marks_change_nothing(self):
        for path in sorted(glob.glob(os.path.join(CHAT, "cases", "*.json"))):
            for step in (1, 2, 3, 1000):
                with self.subTest(path):
                    self.check(path, step)

    def test_refusals_show_no_marks(self):
        renderer = template_helper.Renderer()
        said = "messages[0].content"
        for source in (f"raise_exception({said})", f"raise_exception('no: ' ~ {said})", "raise_exception(5)",
                       f"{{}}[{said}].x", f"{said}.none.x"):
            with self.subTest(source):
                renderer.load({"default": "{{ " + source + " }}"})
                answer = renderer.answer(request([mark_message({"role": "user", "content": "a b"}, 1)]))
                self.assertEqual(list(answer), ["refused"])
                self.assertNotIn(MARK, answer["refused"])

    def test_json_marks_all_that_a_character_becomes(self):
        renderer = template_helper.Renderer()
        said = "messages[0].content"
        renderer.load({"default": f"{{{{ {said}|tojson }}}}{{{{ {said}|tojson(ensure_ascii=true) }}}}"})
        content = f"a\n{MARK}\\{MARK}n\x01{MARK}é{MARK}"
        answer = renderer.answer(request([{"role": "user", "content": content}]))
        start = "\"a" + "".join(character + MARK for character in "\\n\\\\") + "n"
        control, accent = ("".join(character + MARK for character in text) for text in ("\\u0001", "\\u00e9"))
        self.assertEqual(answer, {"text": f'{start}{control}é{MARK}"{start}{control}{accent}"'})


def attempts():
    """Actions of a program that has broken out of a template; prints the errno of each."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    tried = {"open": lambda: os.open("/etc/passwd", os.O_RDONLY),
             "create": lambda: os.open("/tmp/yoke-chat-escaped", os.O_CREAT | os.O_WRONLY),
             "list": lambda: os.listdir("/"), "stat": lambda: os.stat("/"), "unlink": lambda: os.unlink("/tmp/x"),
             "socket": socket.socket, "pair": socket.socketpair, "pipe": os.pipe, "duplicate": lambda: os.dup(0),
             "fork": os.fork, "exec": lambda: os.execv("/bin/true", ["true"]),
             "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}), "kill": lambda: os.kill(os.getppid(), 0),
             "executable memory": lambda: mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC)}
    results = {}
    syscall_filter.install()
    for name, attempt in tried.items():
        try:
            attempt()
            results[name] = 0
        except OSError as error:
            results[name] = error.errno
    results["make executable"] = ctypes.get_errno() if libc.mprotect(
        ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 5) else 0
    results["trace"] = ctypes.get_errno() if libc.ptrace(0, 0, 0, 0) else 0
    print(json.dumps(results))


# Operands of jinja2's filters and tests that are not text, and their arguments.
VALUES = {"abs": "3", "round": "2.5", "int": "'7'", "float": "'7'", "filesizeformat": "1234567", "dictsort": "{'a': 1}",
          "items": "{'a': 1}", "xmlattr": "{'a': 'b'}", "urlencode": "{'a': 'b c'}", "map": "['a']",
          "groupby": "[{'a': 1}]", "selectattr": "[{'a': 1}]", "rejectattr": "[{'a': 1}]", "filter": "'upper'",
          "test": "'odd'", "tojson": "[1, {'a': none}]",
          **dict.fromkeys(("batch", "slice", "sum", "select", "reject", "min", "max", "random", "unique", "sort",
                           "first", "last", "list", "join", "divisibleby", "even", "odd", "sameas", "in", "eq",
                           "equalto", "ne", "gt", "ge", "lt", "le", "greaterthan", "lessthan"), None)}
ARGUMENTS = {"attr": "'x'", "batch": "2", "slice": "2", "groupby": "'a'", "format": "1", "replace": "'a', 'b'",
             "map": "'upper'", "select": "'odd'", "reject": "'odd'", "selectattr": "'a'", "rejectattr": "'a'",
             "truncate": "3", "wordwrap": "3", "divisibleby": "2", "sameas": "1", "in": "[1]",
             **dict.fromkeys(("eq", "equalto", "ne", "gt", "ge", "lt", "le", "greaterthan", "lessthan"), "2")}
NUMBERS = ("divisibleby", "even", "odd", "sameas", "in", "eq", "equalto", "ne", "gt", "ge", "lt", "le", "greaterthan",
           "lessthan")


def applied(name):
    """Template source that applies a filter or test to its operand."""
    value = VALUES.get(name, "'a <b>big</b> world of http://x.org %s'")
    if value is None:
        value = "4" if name in NUMBERS else "[3, 1, 2]"
    arguments = ARGUMENTS.get(name)
    return value, name + (f"({arguments})" if arguments else "")


BOOT = """import sys, types
for name, text in zip(sys.argv[1::2], sys.argv[2::2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, 'exec'), module.__dict__)
module.main(512 << 20, 60, '')"""


class Helper:
    """The process as the program starts it, with only the needed imports."""

    def __init__(self):
        scripts = []
        for folder, name in zip(FOLDERS + FOLDERS[1:], ("syscall_filter", "marked_text", "template_helper")):
            with open(os.path.join(folder, name + ".py"), encoding="utf-8") as file:
                scripts += [name, file.read()]
        self.connection, theirs = socket.socketpair()
        self.process = subprocess.Popen([sys.executable, "-I", "-B", "-c", BOOT, *scripts], stdin=theirs,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        theirs.close()
        self.answers = self.connection.makefile("rb")

    def ask(self, text):
        self.connection.sendall(struct.pack("<I", len(text.encode())) + text.encode())
        return json.loads(self.answers.read(struct.unpack("<I", self.answers.read(4))[0]))

    def close(self):
        self.answers.close()
        self.connection.close()
        self.process.wait(harness.TIMEOUT_S)


class Lock(unittest.TestCase):
    def test_every_filter_and_test_works(self):
        """No filter or test imports a module when it is used."""
        environment = template_helper.Renderer().environment
        sources = [f"{{{{ {value}|{call}|string }}}}" for value, call in map(applied, environment.filters)]
        sources += [f"{{{{ {value} is {call} }}}}" for value, call in
                    map(applied, filter(str.isalpha, environment.tests))]
        sources += ["{{ strftime_now('%A %d %B %Y %c %x %X %Z') }}", "{{ lipsum() }}", "{{ messages|pprint }}",
                    "{{ 'é'.encode('utf-8') }}", "{{ '{:>5}'.format('a') }}", "{{ 'x'|e }}"]
        self.assertGreater(len(sources), 80)
        helper = Helper()
        self.addCleanup(helper.close)
        for source in sources:
            for marked in (False, True):
                with self.subTest(source, marked=marked):
                    self.assertIn("needs", helper.ask(json.dumps({"load": {"default": source}})))
                    said = [{"role": "user", "content": "a" + MARK * marked}]
                    self.assertIn("text", helper.ask(request(said, marked)))

    def test_nothing_can_be_reached(self):
        run = subprocess.run([sys.executable, "-B", __file__, "--attempts"], capture_output=True, text=True, check=True,
                             timeout=harness.TIMEOUT_S)
        results = json.loads(run.stdout)
        self.assertGreaterEqual(len(results), 16)
        self.assertEqual({name: number for name, number in results.items() if number != 1}, {})  # EPERM

    def test_a_machine_without_a_filter_is_refused(self):
        with unittest.mock.patch.dict(syscall_filter.MACHINES, clear=True):
            with self.assertRaisesRegex(syscall_filter.Unsupported, "machine"):
                syscall_filter.install()

    def test_a_kernel_without_filters_is_refused(self):
        with unittest.mock.patch.object(syscall_filter, "PR_SET_SECCOMP", 99999):
            with self.assertRaisesRegex(syscall_filter.Unsupported, "the kernel refuses"):
                syscall_filter.install()


if __name__ == "__main__":
    if sys.argv[1:] == ["--attempts"]:
        attempts()
        sys.exit(0)
    harness.main()
