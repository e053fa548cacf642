#!/usr/bin/env python3
"""Runs public clients, unmodified, against one `yoke serve` of the demo model. Each folder next to this file is a
family of clients: requirements.txt is its virtual environment, which is made in build/clients, and every other NAME.py
is a program that uses them and ends with 0 if it finds no fault. An environment that PyPI does not provide skips the
family.

The programs have YOKE as their argument, the modules of tests/e2e in their path, and in their environment the variables
that a user would set: OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY. The model is named
demo.
"""

import argparse
import filecmp
import glob
import http.client
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
E2E = os.path.join(ROOT, "tests", "e2e")
sys.path.insert(0, E2E)
import harness  # noqa: E402
from server_case import Server, TOOL_TEMPLATE  # noqa: E402

ENVIRONMENTS = os.path.join(ROOT, "build", "clients")
KEY = "secret"
OPTIONS = ("--chat-template", TOOL_TEMPLATE, "--tool-call-parser", "hermes", "--api-key", KEY, "--served-model-name",
           "demo")
PIP = ("-m", "pip", "install", "-q", "--retries", "1", "--timeout", "15", "--only-binary", ":all:",
       "--disable-pip-version-check")
INSTALL_LIMIT_S = 600


class Recorder(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the server, and keeps those with a body."""

    def __init__(self, port, kept, *arguments):
        self.port, self.kept = port, kept
        super().__init__(*arguments)

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        if body:
            self.kept.append({"path": self.path, "status": answer.status, "body": json.loads(body)})
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.read())
        connection.close()

    do_GET = do_POST = forward

    def log_message(self, *_):  # pylint: disable=arguments-differ
        """Requests are kept, not printed."""


def make_environment(family):
    """The Python of a family's virtual environment, or None where PyPI does not provide the packages."""
    wanted = os.path.join(HERE, family, "requirements.txt")
    folder = os.path.join(ENVIRONMENTS, family)
    python, mark = os.path.join(folder, "bin", "python"), os.path.join(folder, "installed.txt")
    if os.path.exists(mark) and filecmp.cmp(mark, wanted, shallow=False):
        return python
    print(f"Installing {os.path.relpath(wanted, ROOT)} in {os.path.relpath(folder, ROOT)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        for command in ((sys.executable, "-m", "venv", folder), (python, *PIP, "-r", wanted)):
            subprocess.run(command, check=True, timeout=INSTALL_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{family}: {error}", flush=True)
        return None
    shutil.copy(wanted, mark)
    return python


def run_program(python, path, yoke, port):
    """Whether a program of a family ended with 0."""
    url, began = f"http://127.0.0.1:{port}", time.monotonic()
    environment = {**os.environ, "PYTHONPATH": E2E, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY,
                   "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY}
    try:
        done = subprocess.run([python, "-B", path, yoke], env=environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * harness.TIMEOUT_S,
                              check=False)
    except subprocess.TimeoutExpired as error:
        done = subprocess.CompletedProcess([], "time-out", (error.stdout or b"").decode())
    is_passed = done.returncode == 0
    print(f"{os.path.relpath(path, HERE)}: {'passed' if is_passed else f'FAILED ({done.returncode})'} in "
          f"{time.monotonic() - began:.1f} s", flush=True)
    if not is_passed:
        print(done.stdout, flush=True)
    return is_passed


def run_families(families, yoke, port, kept):
    """Counts of programs by their end."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for family in families:
        paths = sorted(glob.glob(os.path.join(HERE, family, "*.py")))
        python = make_environment(family)
        if not python:
            print(f"{family}: skipped, PyPI does not provide its packages", flush=True)
            counts["skipped"] += len(paths)
            continue
        for path in paths:
            begin = len(kept)
            counts["passed" if run_program(python, path, yoke, port) else "failed"] += 1
            for request in kept[begin:]:
                request["client"] = os.path.relpath(path, HERE)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yoke")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="folders beside this file (all)")
    parser.add_argument("--record", metavar="FILE", help="write the requests of the clients, as JSON")
    options = parser.parse_args()
    yoke = os.path.abspath(options.yoke)
    families = options.families or sorted(os.path.basename(os.path.dirname(path)) for path in
                                          glob.glob(os.path.join(HERE, "*", "requirements.txt")))
    server, kept = Server(yoke, *OPTIONS), []
    try:
        server.wait_for()
        port = server.port
        if options.record:
            proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *arguments: Recorder(
                server.port, kept, *arguments))
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            port = proxy.server_address[1]
        counts = run_families(families, yoke, port, kept)
    finally:
        code = server.stop()
    if options.record:
        write_requests(options.record, kept)
    print("Public clients: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] or code else 0


def write_requests(path, kept):
    """One request per line; requests that differ only in their seed are represented by the first."""
    different = {}
    for request in kept:
        body = {key: value for key, value in request["body"].items() if key != "seed"}
        different.setdefault(json.dumps([request["path"], body]), request)
    lines = [json.dumps({"client": request["client"], **request}) for request in different.values()]
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
