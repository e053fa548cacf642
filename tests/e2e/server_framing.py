"""The end of a request and its target: the server refuses every request that RFC 9110 and RFC 9112 require it to
refuse, from bare sockets and through nginx and HAProxy, and never takes a part of a request for another request.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import harness
from server_case import Case, Server, body_of, raw, request_bytes

COMPLETIONS = "/v1/completions"
BODY = {"prompt": "17+25=", "max_tokens": 2}
HOST = b"Host: localhost\r\n"
INNER = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"  # must never be taken for a request
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(headers, body=b"", version=b"1.1"):
    return (b"POST " + COMPLETIONS.encode() + b" HTTP/" + version + b"\r\n" + HOST +
            b"Content-Type: application/json\r\n" + headers + b"\r\n" + body)


def get(target=b"/version", headers=b"", version=b"HTTP/1.1"):
    return b"GET " + target + b" " + version + b"\r\n" + HOST + headers + b"\r\n"


N = str(len(INNER)).encode()
FOLDS = [
    post(b"Content-Length:\r\n " + N + b"\r\n", INNER), post(b"Content-Length:\r\n\t" + N + b"\r\n", INNER),
    post(b"Content-Length: 4\r\n 4\r\n", INNER),
    post(b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n" + INNER),
    post(b"X: a\r\n b\r\nContent-Length: 0\r\n", INNER),
    post(b"X:\r\n\t\r\nContent-Length: 0\r\n", INNER), b"GET /version HTTP/1.1\r\n " + HOST + b"\r\n" + INNER,
]
NAMES = [post(name + b": 4\r\nContent-Length: 0\r\n", INNER) for name in
         (b"Content-Length-", b"Content-Length4", b"Transfer-Encoding2", b"Host2", b"Hosts", b"AuthorizationX",
          b"Content-Length ", b"", b"a b", b"a\x7f", b"(a)", b"caf\xe9")]
VALUES = [post(headers + b"Content-Length: 0\r\n", INNER) for headers in
          (b"X: a\0b\r\n", b"X: a\rb\r\n", b"X: a\r b\r\n", b"X: a\nContent-Length: " + N + b"\r\n", b"X\r\n",
           b"X\0: a\r\n",
           b"Content-Type: text/plain\r\n", b"Content-Encoding: identity\r\nContent-Encoding: identity\r\n",
           b"Authorization: a\r\nAuthorization: b\r\n", b"Host: localhost\r\n", b"Content-Length: 0\r\n")]
LENGTHS = [post(b"Content-Length: " + length + b"\r\n", INNER) for length in
           (b"", b"-1", b"+4", b"4, 4", b"0x4", b"4 4", b"4.", b"9" * 20, b"\xb2")]
CODINGS = [post(b"Transfer-Encoding: " + coding + b"\r\n", b"0\r\n\r\n" + INNER) for coding in
           (b"chunked, chunked", b"identity", b"xchunked", b"gzip, chunked", b"", b"chunked\x0b")]
CODINGS += [post(CHUNKED + b"Content-Length: 4\r\n", b"0\r\n\r\n" + INNER),
            post(CHUNKED, b"0\r\n\r\n" + INNER, version=b"1.0")]
LINES = [
    get(b"/metrics%00.js"), get(b"/version?a=%00"), get(b"/a\0b"), get(b"/a\x01b"), get(b"/a b"), get(b" /version"),
    get(b"version"), get(b""), get(b"ftp://localhost/version"), get(b"http:///version"), get(b"http://a@localhost/"),
    get(b"*"), get(version=b"HTTP/2.0"), get(version=b"HTTP/1.2"), get(version=b"http/1.1"), get(version=b""),
    b"GET\t/version\tHTTP/1.1\r\n" + HOST + b"\r\n", b"G(T /version HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /version HTTP/1.1\n" + HOST + b"\r\n", b"GET /version HTTP/1.1\r" + HOST + b"\r\n",
    b"CONNECT localhost:1 HTTP/1.1\r\n" + HOST + b"\r\n", b"\0" * 100, b"\x16\x03\x01\x02\x00\x01",
]
TOO_MUCH = [(get(b"/version?" + b"&".join([b"a=b"] * 470)), 414), (get(b"/version?" + b"&" * 3000), 414),
            (get(b"/" + b"a" * 9000), 414), (b"GET /" + b"a" * 9000, 414), (get(headers=b"A: b\r\n" * 200), 431),
            (get(headers=b"A: " + b"b" * 40000 + b"\r\n"), 431), (get(headers=b"A: " + b"b" * 40000)[:-2], 431)]
CHUNKS = [b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello\r0\r\n\r\n", b"5\r\nhelloX\r\n0\r\n\r\n",
          b"5\r\nhello\r\n0\n\r\n", b"5\r\nhello\r\n0\r\n\n", b"0\r\nA: b\n\r\n", b"0\r\nA\0: b\r\n\r\n",
          b"0\r\nA: b\0\r\n\r\n", b"0\r\nno colon\r\n\r\n", b"0\r\n A: b\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n",
          b"g\r\n", b"\r\n", b"-5\r\nhello\r\n", b"0x5\r\nhello\r\n", b"5 5\r\nhello\r\n", b"f" * 16 + b"\r\n",
          b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"5;" + b"a" * 300 + b"\r\n", b"0\r\n" + b"A: b\r\n" * 3000 + b"\r\n"]

NGINX, HAPROXY = (shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") for name in ("nginx", "haproxy"))


def in_chunks(data, size, extension=b"", trailers=b""):
    pieces = [data[at:at + size] for at in range(0, len(data), size)]
    chunks = b"".join(b"%X%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces)
    return chunks + b"0\r\n" + trailers + b"\r\n"


@harness.of_the_program
class Framing(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.yoke, "--log-requests", "--header-timeout", 10, "--max-connections", 64)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_for()

    def tearDown(self):
        self.assertNotIn("/smuggled", self.server.err)
        self.assertEqual(self.server.ask("GET", "/health").status, 200)

    def check_refused(self, request, statuses=(400, 501, 505)):
        began = time.monotonic()
        answer = raw(self.server, request)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
        self.assertIn(int(answer.split()[1]), statuses, answer)
        self.assertIn(b"\r\nConnection: close\r\n", answer)
        self.assertEqual(list(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]),
                         ["message", "type", "param", "code"])

    def test_refused(self):
        for request in (*FOLDS, *NAMES, *VALUES, *LENGTHS, *CODINGS, *LINES):
            with self.subTest(request[:120]):
                self.check_refused(request)
        for request, status in TOO_MUCH:
            with self.subTest(request[:40]):
                self.check_refused(request, (status,))

    def test_refused_chunks(self):
        for body in CHUNKS:
            with self.subTest(body[:40]):
                self.check_refused(post(CHUNKED, body + INNER), (400, 431))

    def test_refused_behind_others(self):
        """Requests that came before on the connection are answered first."""
        for bad in (FOLDS[0], CODINGS[0], LINES[0], post(CHUNKED, CHUNKS[1])):
            answer = raw(self.server, get() + request_bytes(COMPLETIONS, BODY) + bad + INNER)
            self.assertEqual(answer.count(b"HTTP/1.1 200"), 2, answer)
            self.assertEqual(answer.count(b"HTTP/1.1 "), 3, answer)

    def test_absolute_targets(self):
        for target in (b"http://localhost/version", b"HTTP://LOCALHOST:80/version", b"https://127.0.0.1/version?a=b"):
            for host in (HOST, b"Host: evil.example\r\n"):  # replaced by the target's host
                answer = raw(self.server, b"GET " + target + b" HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
                self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        for target, status in ((b"http://evil.example/version", 403), (b"http://localhost/no", 404),
                               (b"http://localhost", 200), (b"http://localhost?a", 200)):
            answer = raw(self.server, get(target, b"Connection: close\r\n"))
            self.assertEqual(int(answer.split()[1]), status, answer)
        answer = raw(self.server, b"OPTIONS * HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        self.assertIn(int(answer.split()[1]), (404, 405))

    def texts(self, answer):
        """The texts of the answers to several posts on one connection."""
        return [json.loads(part.partition(b"\r\n\r\n")[2])["choices"][0]["text"]
                for part in answer.split(b"HTTP/1.1 200 OK\r\n")[1:]]

    def test_accepted_framing(self):
        """Bodies in chunks of any size with every legal extension and trailer, byte by byte; requests in one packet."""
        expected = self.server.post(COMPLETIONS, BODY).value["choices"][0]["text"]
        data, end = json.dumps(BODY).encode(), b"Connection: close\r\n"
        plain = post(b"Content-Length: %d\r\n" % len(data), data)
        chunked = [post(CHUNKED, in_chunks(data, size, *around)) for size, around in
                   ((1, ()), (7, (b";a=b",)), (1000, (b" ; a=\"b\"", b"X-A: b\r\nX-C: d\r\n")))]
        answer = raw(self.server, b"\r\n\r\n" + b"".join([plain, *chunked, plain]) +
                     post(b"Content-Length: %d\r\n" % len(data) + end, data))
        self.assertEqual(self.texts(answer), [expected] * 6)
        slow = post(end + b"X:  a \t\r\nY:\r\nZ:\x01\xe9\r\n" + CHUNKED, in_chunks(data, 9, b";a", b"X-A: b\r\n"))
        self.assertEqual(self.texts(raw(self.server, *[slow[i:i + 1] for i in range(len(slow))])), [expected])
        asks = post(end + b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(data), data)
        answer = raw(self.server, asks)
        self.assertTrue(answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"), answer)
        self.assertEqual(self.texts(answer), [expected])
        cookies = raw(self.server, get(headers=b"Cookie: " + b"a=b; " * 5000 + b"\r\n" + end))
        self.assertTrue(cookies.startswith(b"HTTP/1.1 200"), cookies)
        head = raw(self.server, b"HEAD /version HTTP/1.1\r\n" + HOST + end + b"\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n"), head)

    def test_streams_and_their_connections(self):
        """A stream is followed by further requests on its connection, and ends the connection in HTTP/1.0."""
        stream = {**BODY, "max_tokens": 50, "ignore_eos": True, "stream": True}
        data = json.dumps(stream).encode()
        answer = raw(self.server, request_bytes(COMPLETIONS, stream) * 3 + get(headers=b"Connection: close\r\n"))
        parts = answer.split(b"HTTP/1.1 200 OK\r\n")[1:]
        self.assertEqual(len(parts), 4, answer)
        texts = ["".join(json.loads(line[6:])["choices"][0]["text"]
                         for line in body_of(b"HTTP/1.1 200 OK\r\n" + part).splitlines() if line.startswith(b"data: {"))
                 for part in parts[:3]]
        self.assertEqual(texts, [texts[0]] * 3)
        self.assertIn(b'"version"', parts[3])
        old = raw(self.server, post(b"Content-Length: %d\r\n" % len(data), data, version=b"1.0"))
        self.assertNotIn(b"chunked", old)
        self.assertEqual(old.count(b"data: {"), 50)
        self.assertTrue(old.endswith(b"data: [DONE]\n\n"), old[-100:])

    def test_a_large_answer_to_a_slow_reader(self):
        """The whole stream arrives in order, followed by the next answer."""
        ids = [5] * 60000
        with socket.create_connection(("127.0.0.1", self.server.port), harness.TIMEOUT_S) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(request_bytes("/detokenize", {"tokens": ids}) * 3 +
                               get(headers=b"Connection: close\r\n"))
            time.sleep(0.3)
            answer = connection.makefile("rb").read()
        parts = answer.split(b"HTTP/1.1 200 OK\r\n")[1:]
        self.assertEqual(len(parts), 4)
        texts = [json.loads(part.partition(b"\r\n\r\n")[2])["prompt"] for part in parts[:3]]
        self.assertEqual(texts, [texts[0]] * 3)
        self.assertGreaterEqual(len(texts[0]), len(ids))

    # ---- Proxies ---------------------------------------------------------------------------------------------------

    def start_proxy(self, program, arguments, config):
        folder = tempfile.mkdtemp(prefix="yoke-proxy-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        path = os.path.join(folder, "config")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config.format(folder=folder, port=port, server=self.server.port))
        process = subprocess.Popen([program, *(argument.format(folder=folder, path=path) for argument in arguments)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait, 20)
        self.addCleanup(process.terminate)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return port
            time.sleep(0.01)
        raise AssertionError(f"{program} does not listen")

    def check_behind(self, port):
        """Requests pass, answers equal direct ones, and no attack gives a client another client's answer."""
        proxy = type("Proxy", (), {"port": port})()
        expected = self.server.post(COMPLETIONS, BODY).value["choices"]
        data, end = json.dumps(BODY).encode(), b"Connection: close\r\n"
        for request in (post(b"Content-Length: %d\r\n" % len(data) + end, data),
                        post(CHUNKED + end, in_chunks(data, 5, b";a=b"))):
            answer = raw(proxy, request)
            self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
            text = answer.partition(b"\r\n\r\n")[2]
            self.assertEqual(json.loads(text[text.index(b"{"):text.rindex(b"}") + 1])["choices"], expected)
        stream = request_bytes(COMPLETIONS, {**BODY, "stream": True}, "Connection: close\r\n")
        answer, direct = raw(proxy, stream), raw(self.server, stream)
        self.assertEqual(answer.count(b"data: "), direct.count(b"data: "), answer)
        self.assertIn(b"data: [DONE]", answer)
        attacks = [*FOLDS, *VALUES, *LENGTHS, *CODINGS, *NAMES, *[post(CHUNKED, body + INNER) for body in CHUNKS]]
        for i, attack in enumerate(attacks):
            with self.subTest(attack[:120]):
                with socket.create_connection(("127.0.0.1", port), 20) as connection, contextlib.suppress(OSError):
                    connection.sendall(attack.replace(b"/smuggled", b"/followed"))  # some proxies accept everything
                    connection.shutdown(socket.SHUT_WR)
                    connection.makefile("rb").read()
                # A client that sends a request through the same proxy connections gets its own answer.
                answer = raw(proxy, get(b"/canary%d" % i, end))
                self.assertTrue(answer.startswith(b"HTTP/1.1 404"), answer)
                self.assertIn(b"/canary%d" % i, answer)

    @unittest.skipUnless(NGINX, "no nginx here")
    def test_behind_nginx(self):
        self.check_behind(self.start_proxy(
            NGINX, ["-p", "{folder}", "-e", "{folder}/errors", "-c", "{path}"],
            "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;\n"
            "events {{}}\nhttp {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n"
            "fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
            "upstream yoke {{ server 127.0.0.1:{server}; keepalive 1; }}\n"
            "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://yoke; proxy_http_version 1.1;\n"
            "proxy_set_header Host localhost; proxy_set_header Connection \"\"; proxy_request_buffering off;\n"
            "}} }} }}\n"))

    @unittest.skipUnless(HAPROXY, "no HAProxy here")
    def test_behind_haproxy(self):
        self.check_behind(self.start_proxy(
            HAPROXY, ["-db", "-f", "{path}"],
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n"
            "  http-reuse always\nfrontend front\n  bind 127.0.0.1:{port}\n  option accept-invalid-http-request\n"
            "  default_backend back\nbackend back\n  server yoke 127.0.0.1:{server}\n"))


if __name__ == "__main__":
    harness.main()
