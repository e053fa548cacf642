"""What operators see of `yoke serve`: ids of requests, proxies in front, metrics, the log, routes for routers."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

import harness
from server_case import JSON, Case, read_events, request_bytes

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


@harness.of_the_program
class RequestIds(Case):
    def test_ids(self):
        """The client's comes back with every answer and is the answer's id; another is replaced."""
        server = self.serve("--chat-template", "builtin:chatml", "--api-key", "k")
        key = {"Authorization": "Bearer k"}
        body = {"prompt": "x", "max_tokens": 2, "ignore_eos": True}
        chat = {"messages": HELLO, "max_tokens": 2, "ignore_eos": True}
        for given in ("abc", "9/{\"q\\uoted}", "x" * 128):
            headers = {**key, "X-Request-Id": given}
            for path, sent, prefix in ((COMPLETIONS, body, "cmpl-"), (CHAT, chat, "chatcmpl-")):
                answer = server.post(path, sent, headers)
                self.assertEqual(answer.value["id"], prefix + given)
                self.assertEqual(answer.getheader("X-Request-Id"), given)
                with contextlib.closing(server.connect()) as connection:
                    connection.request("POST", path, json.dumps({**sent, "stream": True}), {**JSON, **headers})
                    response = connection.getresponse()
                    self.assertEqual(response.getheader("X-Request-Id"), given)
                    ids = {event["id"] for event in read_events(response) if event != "[DONE]"}
                self.assertEqual(ids, {prefix + given})
            for method, path, status in (("GET", "/health", 200), ("GET", "/", 200), ("GET", "/nothing", 404),
                                         ("DELETE", COMPLETIONS, 405), ("POST", COMPLETIONS, 400)):
                answer = server.ask(method, path, "{" if method == "POST" else None, headers)
                self.assertEqual((answer.status, answer.getheader("X-Request-Id")), (status, given))
            refused = server.post(COMPLETIONS, body, {"X-Request-Id": given})
            self.assertEqual((refused.status, refused.getheader("X-Request-Id")), (401, given))
        ours = set()
        for given in (None, "", "x" * 129, "a b", "a\tb", "caf\xe9", "\x7f"):
            answer = server.post(COMPLETIONS, body, {**key, "X-Request-Id": given} if given is not None else key)
            self.assertRegex(answer.getheader("X-Request-Id"), r"^[0-9a-f]{32}$")
            self.assertEqual(answer.value["id"], "cmpl-" + answer.getheader("X-Request-Id"))
            ours.add(answer.value["id"])
        self.assertEqual(len(ours), 7)


@harness.of_the_program
class Proxies(Case):
    def test_headers_of_streams(self):
        server = self.serve()
        with contextlib.closing(server.connect()) as connection:
            connection.request("POST", COMPLETIONS, json.dumps({"prompt": "x", "max_tokens": 2, "stream": True}), JSON)
            response = connection.getresponse()
            self.assertEqual(response.getheader("X-Accel-Buffering"), "no")
            self.assertEqual(response.getheader("Cache-Control"), "no-cache")
            response.read()
        self.assertIsNone(server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1}).getheader("X-Accel-Buffering"))

    def nginx_in_front(self, server):
        """The port of an nginx that does no more than proxy_pass."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        folder = tempfile.mkdtemp(prefix="yoke-nginx-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = os.path.join(folder, "nginx.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;\n"
                       f"events {{}}\nhttp {{ access_log off; {paths}\n"
                       f"server {{ listen 127.0.0.1:{port};\n"
                       f"location / {{ proxy_pass http://127.0.0.1:{server.port}; }} }} }}\n")
        nginx = subprocess.Popen([NGINX, "-p", folder, "-e", f"{folder}/errors", "-c", config],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(nginx.wait, 20)
        self.addCleanup(nginx.terminate)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return port
            time.sleep(0.01)
        raise AssertionError("nginx does not listen")

    def test_nginx(self):
        """Events come through as they are written, and not by nginx's buffers of 4 KiB, some 25 events each."""
        if not NGINX:
            self.skipTest("no nginx here")
        server = self.serve()
        port = self.nginx_in_front(server)
        body = {"prompt": "x", "max_tokens": 300, "ignore_eos": True, "stream": True}
        with socket.create_connection(("127.0.0.1", port), harness.TIMEOUT_S) as connection:
            connection.sendall(request_bytes(COMPLETIONS, body, "X-Request-Id: through\r\nConnection: close\r\n"))
            pieces = []
            while piece := connection.recv(65536):
                pieces.append(piece)
        answer = b"".join(pieces)
        self.assertGreater(len(pieces), 60)
        self.assertIn(b"X-Request-Id: through\r\n", answer)
        self.assertEqual(answer.count(b"data: {"), 300)
        self.assertIn(b'"id":"cmpl-through"', answer)


NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")

if __name__ == "__main__":
    harness.main()
