"""Shared by the tests of `yoke serve`: a server on a free port, and clients made of http.client and sockets."""

import contextlib
import http.client
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import threading
import time

import harness

SMALL = ("--threads", 2, "--kv-cache-bytes", "64MiB")  # starts at once
JSON = {"Content-Type": "application/json"}
N_LAYERS = 6  # of the demo model
# A chat template that takes tools.
TOOL_TEMPLATE = os.path.join(harness.TESTS_DIR, "clients", "template.jinja")


class Server:
    """A running server. Its stderr is read continuously, so that it never blocks on its log."""

    def __init__(self, program, *options, model=harness.DEMO, env=None, **popen):
        arguments = ["serve", "--model", model, *harness.ON, *SMALL, "--port", 0, *options]
        self.process = subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **(env or {})}, **popen)
        self.err = ""
        self.reader = threading.Thread(target=self.read_err, daemon=True)
        self.reader.start()
        url = ""
        while "listening" not in url:  # the fault hook also writes to stdout
            url = self.process.stdout.readline().decode()
            if not url:
                break
        self.port = int(url.rsplit(":", 1)[1]) if url else None
        self.reader_of_out = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.reader_of_out.start()

    def read_err(self):
        for line in self.process.stderr:
            self.err += line.decode("utf-8", "replace")

    def connect(self, timeout=harness.TIMEOUT_S):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, timeout=harness.TIMEOUT_S):
        """One request on a separate connection: the response, with its text."""
        connection = self.connect(timeout)
        with contextlib.closing(connection):
            return ask_on(connection, method, path, body, headers)

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, headers)

    def wait_for(self, path="/health", status=200):
        end = time.monotonic() + harness.TIMEOUT_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if self.ask("GET", path).status == status:
                    return
            time.sleep(0.01)
        raise AssertionError(f"{path} did not become {status}: {self.err}")

    def metric(self, name, headers=None, **labels):
        """The value of a metric whose labels include these."""
        for line in self.ask("GET", "/metrics", headers=headers).text.splitlines():
            found = re.fullmatch(r"yoke:(\w+)\{(.*)\} (\S+)", line)
            if found and found[1] == name and all(f'{key}="{value}"' in found[2] for key, value in labels.items()):
                return float(found[3])
        raise AssertionError(f"no metric {name} {labels}")

    def wait_for_err(self, text, count=1):
        """Wait until the server has printed a text that many times."""
        end = time.monotonic() + harness.TIMEOUT_S
        while self.err.count(text) < count:
            if time.monotonic() > end:
                raise AssertionError(f"expected {text!r}, found {self.err}")
            time.sleep(0.001)

    def wait_for_metric(self, name, value, within_s=20, headers=None, **labels):
        end = time.monotonic() + within_s
        while (found := self.metric(name, headers, **labels)) != value:
            if time.monotonic() > end:
                raise AssertionError(f"{name}: expected {value}, found {found}")
            time.sleep(0.01)

    def stop(self, number=signal.SIGTERM, within_s=60):
        """Signal the server; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.finish(within_s)

    def finish(self, within_s=60):
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for reader, pipe in ((self.reader, self.process.stderr), (self.reader_of_out, self.process.stdout)):
            reader.join()
            pipe.close()
        return code


def ask_on(connection, method, path, body=None, headers=None):
    """A request on this connection; returns the response, with its text (and value, if JSON)."""
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    all_headers = {**JSON, **(headers or {})} if method == "POST" else headers or {}
    connection.request(method, path, body, {key: value for key, value in all_headers.items() if value is not None})
    response = connection.getresponse()
    response.text = response.read().decode("utf-8")
    response.value = None
    if method != "HEAD" and (response.getheader("Content-Type") or "").startswith("application/json"):
        response.value = json.loads(response.text)
    return response


def helpers_of(server, module=""):
    """Process ids of the server's helpers: of those that run a Python module."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat, \
                open(f"/proc/{name}/cmdline", "rb") as line:
            parent = int(stat.read().rsplit(b")", 1)[1].split()[1])
            if parent == server.process.pid and module.encode() in line.read():
                found.append(int(name))
    return found


def read_events(response):
    """The events of a stream as they arrive: parsed, the last one "[DONE]"."""
    for line in response:
        line = line.rstrip(b"\r\n")
        if line:
            assert line.startswith(b"data: "), line
            yield line[6:].decode() if line == b"data: [DONE]" else json.loads(line[6:])


def text_of(event):
    """The text that an event adds to its choice, of a completion or of a chat."""
    choice = event["choices"][0]
    return choice["text"] if "text" in choice else choice["delta"].get("content") or ""


class Case(harness.Case):
    def start(self, *options, program=None, **more):
        server = Server(program or self.yoke, *options, **more)
        self.addCleanup(self.end, server)
        return server

    def start_stalled(self, place, *options, rank=0, **more):
        """A server with a rank that stays in an operation, at a call, and the function that lets the rank continue."""
        until = os.path.join(harness.scratch_folder(self.addCleanup), "go_on")
        fault = f"rank={rank} {place} fault=stall-host until={until}"
        server = self.start(*options, program=self.faulty, env={"YOKE_FAULT": fault}, **more)
        return server, lambda: open(until, "wb").close()

    def serve_slowly(self, *options):
        """A server, on CPU, whose steps take longer than 60 ms, so that a long answer lasts almost a minute."""
        fault = f"rank=0 operation=attention call=1 seconds={0.06 / N_LAYERS} fault=slow-host"
        return self.serve(*options, program=self.faulty, env={"YOKE_FAULT": fault})

    def serve(self, *options, **more):
        """A server that is ready."""
        server = self.start(*options, **more)
        server.wait_for()
        return server

    def end(self, server):
        """A server that is left running after a test must be able to stop."""
        running = server.process.poll() is None
        code = server.stop(within_s=60)
        self.assertNotIn("Sanitizer", server.err)
        if running:
            self.assertEqual(code, 0, server.err)

    @property
    def faulty(self):
        return os.path.join(os.path.dirname(self.yoke), "yoke_with_faults")

    def stream(self, server, path, body, connection=None):
        """All events of a streamed answer except [DONE], which must be present."""
        with contextlib.nullcontext(connection) if connection else contextlib.closing(server.connect()) as on:
            on.request("POST", path, json.dumps({**body, "stream": True}), JSON)
            response = on.getresponse()
            if response.status != 200:
                raise AssertionError(f"{response.status}: {response.read()}")
            events = list(read_events(response))
        self.assertEqual(events.pop(), "[DONE]")
        return events

    def assert_refused(self, response, status, *parts, param=None, code=None):
        """An error in OpenAI's form, whose message holds each part."""
        self.assertEqual(response.status, status, response.text)
        self.assertEqual(list(response.value), ["error"])
        error = response.value["error"]
        self.assertEqual(list(error), ["message", "type", "param", "code"])
        for part in parts:
            self.assertIn(part, error["message"])
        if param:
            self.assertEqual(error["param"], param)
        if code:
            self.assertEqual(error["code"], code)


def raw(server, *pieces, pause_s=0.0, timeout=harness.TIMEOUT_S):
    """Send bytes unchanged, with a pause between two pieces; returns all bytes until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout) as connection:
        answer = b""
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause_s)
            while chunk := connection.recv(65536):
                answer += chunk
        return answer


def request_bytes(path, body, headers=""):
    """A request in its form on the wire."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


def body_of(answer):
    """Joins the body of a chunked answer."""
    head, rest = answer.split(b"\r\n\r\n", 1)
    if not head.startswith(b"HTTP/1.1 200"):
        raise AssertionError(answer)
    body = b""
    while rest:
        size, rest = rest.split(b"\r\n", 1)
        n_bytes = int(size, 16)
        body += rest[:n_bytes]
        if not n_bytes:
            return body
        rest = rest[n_bytes + 2:]
    raise AssertionError("the last chunk is missing")


def events_of(answer):
    """The events of a stream of these bytes, which must end like a stream."""
    events = body_of(answer).decode().split("\n\n")
    if events[-2:] != ["data: [DONE]", ""]:
        raise AssertionError(events[-3:])
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def stream_many(server, path, bodies):
    """Send all requests at once, each on a separate connection; returns the received bytes, in order."""
    answers = [bytearray() for _ in bodies]
    with selectors.DefaultSelector() as selector:
        for i, body in enumerate(bodies):
            connection = socket.create_connection(("127.0.0.1", server.port), harness.TIMEOUT_S)
            connection.sendall(request_bytes(path, {**body, "stream": True}))
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, i)
        while selector.get_map():
            for key, _ in selector.select(harness.TIMEOUT_S):
                chunk = key.fileobj.recv(1 << 16)
                answers[key.data] += chunk
                if not chunk or answers[key.data].endswith(b"0\r\n\r\n"):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    return [bytes(answer) for answer in answers]
