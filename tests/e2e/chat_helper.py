"""The template helper's Python modules by themselves: marks behind every character of what is said change no golden of
chat templates, and a process that has locked itself up can reach nothing.
"""

import ctypes
import glob
import json
import mmap
import os
import socket
import subprocess
import sys
import unittest
import unittest.mock

import harness

MODULES = os.path.join(harness.TESTS_DIR, "..", "runtime", "chat")
sys.path.insert(0, MODULES)
sys.dont_write_bytecode = True
import marked_text
import syscall_filter
import template_helper

CHAT = os.path.join(harness.TESTS_DIR, "golden", "chat")
MARK = "\ufdef"


def mark(value, step):
    """Marks behind every step-th character of every text and key."""
    if isinstance(value, str):
        return "".join(character + MARK * (i % step == 0) for i, character in enumerate(value))
    if isinstance(value, list):
        return [mark(item, step) for item in value]
    if isinstance(value, dict):
        return {mark(key, step): mark(item, step) for key, item in value.items()}
    return value


def mark_message(message, step):
    return {mark(key, step): value if key == "role" else mark(value, step) for key, value in message.items()}


class Marks(unittest.TestCase):
    def check(self, path, step):
        name = os.path.basename(path)[:-len(".json")]
        with open(path, encoding="utf-8") as file:
            golden = json.load(file)
        with open(os.path.join(CHAT, "templates", name + ".jinja"), encoding="utf-8") as file:
            source = file.read()
        renderer = template_helper.Renderer()
        renderer.load({"default": source})
        for i, case in enumerate(golden["cases"]):
            request = {"render": "default", "special_tokens": golden["special_tokens"], "mark": MARK,
                       "messages": [mark_message(message, step) for message in case["messages"]],
                       "others": {"tools": mark(case["tools"], step), "documents": None,
                                  "arguments": mark(case["arguments"], step)},
                       "add_generation_prompt": case["add_generation_prompt"],
                       "continue_final_message": case.get("continue_final_message", False)}
            answer = renderer.answer(json.dumps(request))
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
                answer = renderer.answer(json.dumps({
                    "render": "default", "special_tokens": {}, "messages": [mark_message({"role": "user",
                                                                                          "content": "a b"}, 1)],
                    "others": {"tools": None, "documents": None, "arguments": None}, "add_generation_prompt": True,
                    "continue_final_message": False, "mark": MARK}))
                self.assertEqual(list(answer), ["refused"])
                self.assertNotIn(MARK, answer["refused"])

    def test_json_marks_all_that_a_character_becomes(self):
        renderer = template_helper.Renderer()
        said = "messages[0].content"
        renderer.load({"default": f"{{{{ {said}|tojson }}}}{{{{ {said}|tojson(ensure_ascii=true) }}}}"})
        content = f"a\n{MARK}\\{MARK}n\x01{MARK}é{MARK}"
        answer = renderer.answer(json.dumps({
            "render": "default", "special_tokens": {}, "messages": [{"role": "user", "content": content}],
            "others": {"tools": None, "documents": None, "arguments": None}, "add_generation_prompt": True,
            "continue_final_message": False, "mark": MARK}))
        start = "\"a" + "".join(character + MARK for character in "\\n\\\\") + "n"
        control, accent = ("".join(character + MARK for character in text) for text in ("\\u0001", "\\u00e9"))
        self.assertEqual(answer, {"text": f'{start}{control}é{MARK}"{start}{control}{accent}"'})


def attempts():
    """What a program that has broken out of a template might try; prints the errno that each ends with."""
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


class Lock(unittest.TestCase):
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
