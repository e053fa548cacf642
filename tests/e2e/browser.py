"""Headless Chromium, driven by the DevTools protocol over two pipes (--remote-debugging-pipe)."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 30
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""), " ": ("Space", 32, " "),
        "ArrowRight": ("ArrowRight", 39, ""), "ArrowLeft": ("ArrowLeft", 37, "")}


def find():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Failure(AssertionError):
    pass


class Browser:
    """One browser with one page. events: notifications of the page as (method, params), oldest first."""

    def __init__(self, path):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its last writes may arrive late
        self.events, self.rest, self.last_id, self.target, self.session = [], b"", 0, None, None
        to_browser, self.to_browser = self.high_pipe()
        self.from_browser, from_browser = self.high_pipe()

        def place():
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        arguments = [path, "--remote-debugging-pipe", "--headless", "--disable-gpu", "--no-first-run",
                     "--disable-background-networking", "--disable-background-timer-throttling", "--hide-scrollbars",
                     "--disable-dev-shm-usage", f"--user-data-dir={self.folder.name}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium cannot set up its sandbox as root
        self.program = subprocess.Popen([*arguments, "about:blank"], stdin=subprocess.DEVNULL, pass_fds=(3, 4),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=place)
        os.close(to_browser)
        os.close(from_browser)
        self.new_tab()

    def new_tab(self):
        """A fresh tab without the state of the previous one, which is closed."""
        session, self.session = self.session, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        if session:
            self.call("Target.closeTarget", targetId=self.target)
        self.target = target
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    @staticmethod
    def high_pipe():
        """A pipe whose descriptors differ from the browser's descriptors 3 and 4."""
        ends = []
        for end in os.pipe():
            ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
            os.close(end)
        return ends

    def close(self):
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.program.terminate()
        try:
            self.program.wait(10)
        except subprocess.TimeoutExpired:
            self.program.kill()
            self.program.wait()
        self.folder.cleanup()

    def receive(self, seconds):
        """The next message, or None after the time limit."""
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.from_browser], [], [], max(end - time.monotonic(), 0))
            if not ready:
                return None
            data = os.read(self.from_browser, 1 << 16)
            if not data:
                raise Failure("the browser has ended")
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def take(self, message):
        if "method" in message and message.get("sessionId") == self.session:  # messages of a closed tab may arrive late
            self.events.append((message["method"], message["params"]))

    def send(self, method, **params):
        """Send a command without waiting for the answer."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        return self.last_id

    def call(self, method, **params):
        wanted = self.send(method, **params)
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            message = self.receive(end - time.monotonic())
            if message and message.get("id") == wanted:
                if "error" in message:
                    raise Failure(f"{method}: {message['error']['message']}")
                return message["result"]
            if message:
                self.take(message)
        raise Failure(f"{method}: no answer")

    def pump(self, seconds):
        """Handle the page's notifications for this long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            message = self.receive(left)
            if message:
                self.take(message)

    def value(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failure(f"{expression}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=TIMEOUT_S):
        """Waits until an expression is true; returns its value."""
        end = time.monotonic() + seconds
        while not (found := self.value(expression)):
            if time.monotonic() > end:
                raise Failure(f"not so within {seconds} s: {expression}; the page says: "
                              f"{self.value('document.body.innerText')[:2000]}")
            self.pump(0.05)
        return found

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank'")
        self.wait("document.readyState === 'complete'")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code, number, text = KEYS[key]
        common = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def notified(self, method):
        return [params for name, params in self.events if name == method]
