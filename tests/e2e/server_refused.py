"""`yoke serve` refuses bad requests, too much of anything, callers without a key, and foreign pages."""

import concurrent.futures
import contextlib
import glob
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

import harness
from server_case import JSON, Case, ask_on, raw, request_bytes

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]

# Fields of /v1/completions: fields sent with the prompt, words of the message, the parameter that is named.
BAD_FIELDS = [
    ({"prompt": ""}, ["prompt"], "prompt"),
    ({"prompt": []}, ["prompt"], "prompt"),
    ({"prompt": None}, ["prompt"], "prompt"),
    ({"prompt": {"text": "x"}}, ["prompt"], "prompt"),
    ({"prompt": [5, "x"]}, ["prompt"], "prompt"),
    ({"prompt": [100000]}, ["100000", "vocabulary"], "prompt"),
    ({"prompt": [-1]}, ["-1"], "prompt"),
    ({"prompt": [5] * 1025}, ["1025", "1024"], "prompt"),
    ({"max_tokens": 0}, ["max_tokens", "0"], "max_tokens"),
    ({"max_tokens": -5}, ["max_tokens", "-5"], "max_tokens"),
    ({"max_tokens": 100000}, ["max_tokens", "100000"], "max_tokens"),
    ({"max_tokens": 10**30}, ["found 1000000"], None),
    ({"max_tokens": "many"}, ["max_tokens", "string"], "max_tokens"),
    ({"max_tokens": 1.5}, ["max_tokens"], "max_tokens"),
    ({"n": 0}, ["n"], "n"),
    ({"n": 1000}, ["128"], "n"),
    ({"best_of": 4}, ["best_of"], "best_of"),
    ({"prompt": ["a"] * 100, "n": 100}, ["1024"], None),
    ({"temperature": -1}, ["temperature", "0 to 100"], "temperature"),
    ({"temperature": 1e300}, ["temperature", "0 to 100"], "temperature"),
    ({"temperature": float("nan")}, ["temperature", "0 to 100"], "temperature"),
    ({"top_p": 0}, ["top_p"], "top_p"),
    ({"top_p": 1.5}, ["top_p"], "top_p"),
    ({"min_p": 2}, ["min_p"], "min_p"),
    ({"top_k": -2}, ["top_k"], "top_k"),
    ({"repetition_penalty": 0}, ["repetition_penalty"], "repetition_penalty"),
    ({"frequency_penalty": 3}, ["frequency_penalty", "-2 to 2"], "frequency_penalty"),
    ({"presence_penalty": -3}, ["presence_penalty"], "presence_penalty"),
    ({"logprobs": 100}, ["logprobs"], "logprobs"),
    ({"logit_bias": {"5": 200}}, ["logit_bias"], "logit_bias"),
    ({"logit_bias": {"5": float("-inf")}}, ["logit_bias", "-100 to 100"], "logit_bias"),
    ({"logit_bias": {"100000": 1}}, ["logit_bias", "100000"], "logit_bias"),
    ({"logit_bias": {"five": 1}}, ["logit_bias"], "logit_bias"),
    ({"stop": [""]}, ["stop"], "stop"),
    ({"stop": ["x"] * 1000}, ["stop"], "stop"),
    ({"stop_token_ids": [100000]}, ["100000"], "stop_token_ids"),
    ({"logprobs": 0, "logprob_token_ids": [100000]}, ["100000", "vocabulary"], "logprob_token_ids"),
    ({"logprobs": 0, "logprob_token_ids": [5] * 129}, ["0 to 128"], "logprob_token_ids"),
    ({"logprob_token_ids": [5]}, ["logprobs"], "logprob_token_ids"),
    ({"min_tokens": 100, "max_tokens": 5}, ["min_tokens"], "min_tokens"),
    ({"seed": -2**63 - 1}, ["seed"], "seed"),
    ({"seed": 2**64}, ["seed"], None),
    ({"stream": "yes"}, ["stream"], "stream"),
    ({"stream_options": {"include_usage": True}}, ["stream_options"], "stream_options"),
    ({"suffix": "end"}, ["suffix"], "suffix"),
]

BAD_CHATS = [
    ({"messages": []}, ["messages"]),
    ({"messages": "hello"}, ["messages"]),
    ({"messages": [{"content": "hello"}]}, ["role"]),
    ({"messages": [{"role": "stranger", "content": "hello"}]}, ["stranger"]),
    ({"messages": [{"role": "user", "content": 5}]}, ["content"]),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, ["image_url"]),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, ["tools"]),
    ({"response_format": {"type": "xml"}}, ["response_format"]),
    ({"top_logprobs": 5}, ["top_logprobs"]),
    ({"logprob_token_ids": [5]}, ["logprob_token_ids", "true"]),
    ({"n": 0}, ["n"]),
    ({"continue_final_message": True}, ["continue_final_message", "add_generation_prompt"]),
    ({"tool_choice": "required"}, ["tool_choice", "tools"]),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, ["tool_choice", "f"]),
]

# Bodies that are no object with a prompt or a list of messages.
BAD_BODIES = [
    "", "{", "[]", "5", '"text"', "null", "\0", '{"prompt": "x", }', b'{"prompt": "\xff"}', "[" * 100000,
    '{"a":' * 500 + "1" + "}" * 500, '{"prompt": "x"} {', "{}",
]

# Data on a connection that is no request of HTTP/1.1.
BAD_HTTP = [
    b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/json\r\n\r\nzz\r\n",
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 100000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 20000 + b"\r\n", b"\0" * 1000, b"\x16\x03\x01" * 100,
]

# Headers of a POST that leave its target or its end ambiguous: status, words of the message.
DOUBTFUL_HEADERS = [
    ("", 400, ["Host", "0"]),
    ("Host: localhost\r\nHost: localhost\r\n", 400, ["Host", "2"]),
    ("Host: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n", 400, ["Content-Length", "2"]),
    ("Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400,
     ["Content-Length", "Transfer-Encoding"]),
    ("Host: localhost\r\nTransfer-Encoding: gzip\r\n", 501, ["Transfer-Encoding", "chunked", "gzip"]),
    ("Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", 501,
     ["Transfer-Encoding", "gzip"]),
    ("Host: localhost\r\nContent-Length : 2\r\n", 400, ["Content-Length "]),
]


def kill_children(server):
    """End all child processes of the server."""
    for children in glob.glob(f"/proc/{server.process.pid}/task/*/children"):
        with open(children, encoding="ascii") as file:
            for pid in file.read().split():
                os.kill(int(pid), signal.SIGKILL)


def memory_of(server, name):
    """Bytes of the server's memory of this kind."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))


@harness.of_the_program
class Refused(Case):

    def test_bodies(self):
        server = self.serve("--chat-template", "builtin:chatml")
        before = server.post(COMPLETIONS, {"prompt": "17+25=", "max_tokens": 8}).value["choices"]
        for fields, parts, param in BAD_FIELDS:
            with self.subTest(fields=str(fields)[:80]):
                refused = server.post(COMPLETIONS, {"prompt": "x", **fields})
                self.assert_refused(refused, 400, *parts, param=param)
        for fields, parts in BAD_CHATS:
            with self.subTest(chat=str(fields)[:80]):
                self.assert_refused(server.post(CHAT, {"messages": HELLO, **fields}), 400, *parts)
        for path in (COMPLETIONS, CHAT, "/tokenize", "/detokenize"):
            for body in BAD_BODIES:
                with self.subTest(path=path, body=body[:30]):
                    self.assert_refused(server.post(path, body), 400)
        for number in ("NaN", "Infinity", "-Infinity", "1e999"):
            self.assertEqual(server.post(COMPLETIONS, '{"prompt": "x", "temperature": %s}' % number).status, 400)
        self.assert_refused(server.post("/detokenize", {"tokens": [10**6]}), 400, "1000000")
        self.assert_refused(server.post("/detokenize", {"tokens": ["x"]}), 400, "tokens")
        self.assert_refused(server.post("/tokenize", {"prompt": 5}), 400, "prompt")
        long = server.post(COMPLETIONS, {"prompt": "x " * 3000})
        self.assert_refused(long, 400, "prompt", code="context_length_exceeded")
        for path, body in ((COMPLETIONS, {"prompt": "x"}), (CHAT, {"messages": HELLO}), ("/tokenize", {"prompt": "x"}),
                           ("/detokenize", {"tokens": [5]})):
            refused = server.post(path, {**body, "model": "another"})
            self.assert_refused(refused, 404, "another", code="model_not_found")
        self.assert_refused(server.ask("GET", "/v1/models/another"), 404, "another", code="model_not_found")
        after = server.post(COMPLETIONS, {"prompt": "17+25=", "max_tokens": 8}).value["choices"]
        self.assertEqual(after, before)
        self.assertEqual(server.metric("num_requests_running"), 0)

    def test_a_chat_without_a_template(self):
        server = self.serve()
        self.assert_refused(server.post(CHAT, {"messages": HELLO}), 400, "chat template")
        done = self.start("--chat-template", "/no/such/file")
        self.assertEqual(done.finish(), 1)
        self.assertIn("--chat-template: ", done.err)

    def test_internals_are_not_revealed(self):
        server = self.serve("--served-model-name", "demo")
        self.assertEqual(server.ask("GET", "/v1/models").value["data"][0]["root"], "demo")
        for response in (server.ask("GET", "/v1/models"), server.ask("GET", "/metrics"), server.ask("GET", "/nothing"),
                         server.post(COMPLETIONS, {"prompt": [10**6]}), server.post(CHAT, {"messages": HELLO})):
            self.assertNotIn(harness.DEMO, response.text)
            self.assertNotIn("/work", response.text)
            self.assertNotIn("0x", response.text)

    # ---- HTTP ------------------------------------------------------------------------------------------------------

    def test_paths_and_methods(self):
        server = self.serve()
        for path in ("/nothing", "/v1", "/v1/", "/v1/models/", "/v1/completions/", "//", "/../health", "/index.html/x"):
            self.assert_refused(server.ask("GET", path), 404)
        for method, path, allow in (("GET", COMPLETIONS, "POST"), ("PUT", COMPLETIONS, "POST"),
                                    ("DELETE", CHAT, "POST"), ("POST", "/v1/models", "GET, HEAD"),
                                    ("PATCH", "/health", "GET, HEAD"),
                                    ("PUT", "/ping", "GET, HEAD, POST"), ("OPTIONS", COMPLETIONS, "POST"),
                                    ("BREW", "/", "GET, HEAD")):
            refused = server.ask(method, path)
            self.assert_refused(refused, 405, method)
            self.assertEqual(refused.getheader("Allow"), allow)

    def test_media_types(self):
        server = self.serve()
        body = {"prompt": "x", "max_tokens": 1}
        for headers in ({"Content-Type": "text/plain"}, {"Content-Type": None}, {"Content-Type": "application/jsonp"},
                        {"Content-Encoding": "gzip"}):
            self.assert_refused(server.ask("POST", COMPLETIONS, body, headers), 415, next(iter(headers)))
        for headers in ({"Content-Type": "application/json; charset=utf-8"}, {"Content-Type": "Application/JSON"},
                        {"Content-Encoding": "identity"}):
            self.assertEqual(server.ask("POST", COMPLETIONS, body, headers).status, 200)

    def test_held_bodies(self):
        """Slow bodies are held; beyond the limit of all bodies a large one is refused, and small ones are accepted."""
        server = self.serve("--max-held-body-bytes", "256KiB")
        large = json.dumps({"prompt": "x", "max_tokens": 1, "user": "u" * (200 << 10)})
        half = request_bytes(COMPLETIONS, json.loads(large))[:-1000]
        end, answer = time.monotonic() + harness.TIMEOUT_S, None
        while (not answer or answer.status == 200) and time.monotonic() < end:
            with contextlib.closing(socket.create_connection(("127.0.0.1", server.port))) as slow:
                slow.sendall(half)
                time.sleep(0.05)  # the half that arrives second is refused
                answer = server.post(COMPLETIONS, large)
                small = server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1})
        self.assert_refused(answer, 503, "262144 bytes", "again later")
        self.assertEqual(answer.getheader("Retry-After"), "1")
        self.assertEqual(small.status, 200)
        end = time.monotonic() + harness.TIMEOUT_S
        while server.post(COMPLETIONS, large).status != 200 and time.monotonic() < end:
            time.sleep(0.01)
        for _ in range(3):  # answered bodies are no longer held
            self.assertEqual(server.post(COMPLETIONS, large).status, 200)

    def test_memory_of_bodies(self):
        """8 MiB of JSON take at most eight times as much memory, for any content, and the memory is returned to the
        system."""
        if harness.is_sanitized(self.yoke):
            self.skipTest("a sanitizer keeps what is freed")
        server = self.serve("--chat-template", "builtin:chatml")
        n_bytes = (8 << 20) - 4096
        bodies = [(COMPLETIONS, '{"prompt": [%s1]}', "1,", 400), (COMPLETIONS, '{"prompt": [%s1]}', "123, ", 400),
                  (COMPLETIONS, '{"prompt": "x", "max_tokens": 1, "junk": [%s1]}', "[],", 200),
                  (CHAT, '{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "tool_choice": "none", '
                   '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [%s1]}}}]}',
                   "{}, 10, ", 200)]
        for path, body, piece, status in bodies:
            with self.subTest(piece), open(f"/proc/{server.process.pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # restart the peak
                file.close()
                before = memory_of(server, "VmRSS")
                answer = server.post(path, body % (piece * ((n_bytes - len(body)) // len(piece))))
                self.assertEqual(answer.status, status, answer.text[:200])
                self.assertLess(memory_of(server, "VmHWM") - before, 8 * n_bytes)
                self.assertLess(memory_of(server, "VmRSS") - before, n_bytes)

    def test_fields_that_are_not_known(self):
        server = self.serve()
        for _ in range(3):
            body = {"prompt": "x", "max_tokens": 1, "temprature": 1, "new\nline": [1], "user": "u", "later": None}
            self.assertEqual(server.post(COMPLETIONS, body).status, 200)
        self.assertEqual(server.err.count('field "temprature", which is unknown'), 1)
        self.assertEqual(server.err.count("is unknown"), 2)
        self.assertNotIn("new\n", server.err)

    def test_large_bodies(self):
        server = self.serve("--max-body-bytes", "64KiB")
        fits = json.dumps({"prompt": "x", "max_tokens": 1, "user": ""})
        fits = fits.replace('"user": ""', f'"user": "{"u" * (65536 - len(fits))}"')
        self.assertEqual(len(fits), 65536)
        with contextlib.closing(server.connect()) as connection:
            self.assertEqual(ask_on(connection, "POST", COMPLETIONS, fits).status, 200)
            self.assert_refused(ask_on(connection, "POST", COMPLETIONS, fits + " "), 413, "65536", "65537")
            self.assert_refused(ask_on(connection, "POST", COMPLETIONS, "x" * (4 << 20)), 413, "65536")
            chunks = (b"x" * 1000 for _ in range(1000))
            connection.request("POST", COMPLETIONS, chunks, JSON, encode_chunked=True)  # without a content length
            response = connection.getresponse()
            error = json.loads(response.read())["error"]
            self.assertEqual((response.status, error["type"]), (413, "invalid_request_error"))
            self.assertEqual(ask_on(connection, "GET", "/health").status, 200)  # on the same connection still
        asks_first = request_bytes(COMPLETIONS, {"prompt": "x" * 100000}, "Expect: 100-continue\r\n")
        answer = raw(server, asks_first[:asks_first.index(b"\r\n\r\n") + 4])
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer)

    def test_malformed_http(self):
        server = self.serve("--header-timeout", 0.5)
        for text in BAD_HTTP:
            answer = raw(server, text, b"")
            self.assertNotIn(b"HTTP/1.1 2", answer, text[:40])
        self.assertEqual(server.ask("GET", "/health").status, 200)

    def test_doubtful_headers(self):
        """Refused at once, and later data is not taken for another request."""
        server = self.serve()
        for headers, status, parts in DOUBTFUL_HEADERS:
            with self.subTest(headers=headers):
                head = f"POST {COMPLETIONS} HTTP/1.1\r\nContent-Type: application/json\r\n{headers}\r\n".encode()
                answer = raw(server, head + b"{}GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(answer.count(b"HTTP/1.1"), 1, answer)
                self.assertTrue(answer.startswith(b"HTTP/1.1 %d " % status), answer)
                self.assertIn(b"\r\nConnection: close\r\n", answer)
                error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
                self.assertEqual(list(error), ["message", "type", "param", "code"])
                for part in parts:
                    self.assertIn(part, error["message"])
        self.assertIn(b" 200 ", raw(server, b"GET /version HTTP/1.0\r\n\r\n"))  # HTTP/1.0 needs no Host
        spaced = raw(server, b"GET /no where HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertTrue(spaced.startswith(b"HTTP/1.1 400 "), spaced)
        self.assertIn(b'"error"', spaced)

    def test_slow_senders(self):
        """Slow headers and bodies, and silent connections, are ended; an idle connection without an answer."""
        server = self.serve("--header-timeout", 0.5)
        body = request_bytes(COMPLETIONS, {"prompt": "x", "max_tokens": 1})
        for pieces, expected in (([b"GET /health HTTP/1.1\r\n"] + [b"A: b\r\n"] * 40, b"HTTP/1.1 408 "),
                                 ([body[:-20]] + [body[-20:-19]] * 40, b"HTTP/1.1 408 "),
                                 ([body[:-1]] + [b""] * 40, b"HTTP/1.1 408 "),
                                 ([b""] * 2, b"HTTP/1.1 408 ")):
            began = time.monotonic()
            answer = raw(server, *pieces, pause_s=0.1)
            self.assertTrue(answer.startswith(expected) or answer == b"", answer)
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(server.metric("num_requests_running"), 0)
        answer = raw(server, body[:-20], b"", pause_s=0.1)
        self.assertTrue(answer.startswith(b"HTTP/1.1 408 "), answer)
        self.assertIn(b'"error"', answer)
        answer = raw(server, b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(answer.count(b"HTTP/1.1"), 1)  # a limit for requests, not answers
        with socket.create_connection(("127.0.0.1", server.port)) as patient:  # limits requests, not answers
            patient.sendall(request_bytes(COMPLETIONS, {"prompt": "x", "max_tokens": 900, "n": 16, "ignore_eos": True}))
            patient.settimeout(1.5)  # three times the limit; a slow program need not reach the answer's end
            with contextlib.suppress(TimeoutError):
                self.assertTrue(patient.recv(100).startswith(b"HTTP/1.1 200"))

    def test_connections(self):
        """Requests beyond the limit wait."""
        server = self.serve("--max-connections", 3)
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", server.port)) as late:
            late.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            late.settimeout(0.3)
            with self.assertRaises(TimeoutError):
                late.recv(100)
            server.process.send_signal(signal.SIGSTOP)  # so that all clients disconnect at once
            for connection in held:
                connection.close()
            server.process.send_signal(signal.SIGCONT)
            late.settimeout(30)
            self.assertTrue(late.recv(100).startswith(b"HTTP/1.1 200"))

    # ---- Keys and origins ------------------------------------------------------------------------------------------

    def check_key(self, server):
        body = {"prompt": "x", "max_tokens": 1}
        for given in (None, "Bearer ", "Bearer secre", "Bearer secret2", "Bearer Secret", "Basic secret", "secret",
                      "Bearer  secret"):
            headers = {"Authorization": given}
            for method, path in (("POST", COMPLETIONS), ("POST", CHAT), ("GET", "/v1/models"),
                                 ("GET", "/v1/models/demo"), ("POST", "/tokenize"), ("POST", "/detokenize"),
                                 ("GET", "/metrics"), ("GET", "/version"),
                                 ("POST", "/reset_prefix_cache"), ("GET", "/server_info"), ("GET", "/v1/loads")):
                refused = server.ask(method, path, body if method == "POST" else None,
                                     {key: value for key, value in headers.items() if value})
                self.assert_refused(refused, 401, code="invalid_api_key")
                self.assertEqual(refused.getheader("WWW-Authenticate"), "Bearer")
                self.assertNotIn("secret", refused.text)
        for given in ("Bearer secret", "bearer secret"):
            self.assertEqual(server.post(COMPLETIONS, body, {"Authorization": given}).status, 200)
        for path in ("/health", "/ping", "/", "/index.html"):
            self.assertEqual(server.ask("GET", path).status, 200)

    def test_keys(self):
        self.check_key(self.serve("--api-key", "secret"))
        self.check_key(self.serve(env={"YOKE_API_KEY": "secret"}))
        open_server = self.serve(env={"YOKE_API_KEY": ""})
        self.assertEqual(open_server.ask("GET", "/v1/models").status, 200)
        self.assert_usage_error(["serve", harness.DEMO, "--api-key", ""], "--api-key: ", "empty")
        self.assert_usage_error(["serve", harness.DEMO], "YOKE_API_KEY: ", "0x20", env={"YOKE_API_KEY": "a b"})

    def test_keys_and_salts_separate_caches(self):
        """A prompt of 40 tokens is cached for requests with the same key and salt, and for no others."""
        prompt = {"prompt": list(range(5, 45)), "max_tokens": 1}

        def cached(server, key=None, **more):
            answer = server.post(COMPLETIONS, {**prompt, **more}, {"Authorization": f"Bearer {key}"} if key else None)
            return answer.value["usage"]["prompt_tokens_details"]["cached_tokens"]

        server = self.serve("--enable-prompt-tokens-details", "--api-key", "first-key", "second-key")
        for key in ("first-key", "second-key"):
            self.assertEqual([cached(server, key) for _ in range(2)], [0, 32])
            self.assertEqual([cached(server, key, cache_salt="s") for _ in range(2)], [0, 32])
        server = self.serve("--api-key", "only-key")
        for salt in (None, "a", "b", "a"):
            answer = server.post(COMPLETIONS, {**prompt, "cache_salt": salt}, {"Authorization": "Bearer only-key"})
            self.assertNotIn("prompt_tokens_details", answer.value["usage"])
        self.assertEqual(server.ask("GET", "/metrics", headers={"Authorization": "Bearer only-key"}).status, 200)
        self.assert_refused(server.post(COMPLETIONS, {**prompt, "cache_salt": "s" * 513},
                                        {"Authorization": "Bearer only-key"}), 400, "512", param="cache_salt")

    def test_several_keys(self):
        """Keys from options and from a file are accepted; no key is visible in the list of processes."""
        folder = harness.scratch_folder(self.addCleanup)
        path = os.path.join(folder, "keys")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n  third-secret \r\n\nfourth-secret")
        server = self.serve("--api-key", "first-secret", "second-secret", "--api-key-file", path,
                            "--api-key=fifth-secret", "--hf-token", "sixth-secret",
                            env={"YOKE_API_KEY": "seventh-secret"})
        with open(f"/proc/{server.process.pid}/cmdline", "rb") as file:
            shown = file.read()
        self.assertIn(b"--api-key\0************\0*************\0", shown)
        self.assertNotIn(b"secret", shown)
        for key, status in (("first", 200), ("second", 200), ("third", 200), ("fourth", 200), ("fifth", 200),
                            ("sixth", 401), ("seventh", 401), ("", 401)):
            answer = server.ask("GET", "/v1/models", headers={"Authorization": f"Bearer {key}-secret"})
            self.assertEqual(answer.status, status, key)
        for text, *parts in (("\n \n", "a key a line"), ("a\nb c\n", "line 2", "0x20"), ("", "none")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.assert_usage_error(["serve", harness.DEMO, "--api-key-file", path], f"--api-key-file: {path}: ",
                                    *parts)
        self.assert_usage_error(["serve", harness.DEMO, "--api-key-file", "/no/such"],
                                "--api-key-file: /no/such: No such")

    def test_wrong_options_are_refused_before_the_port_is_open(self):
        for arguments, *parts in ((["/no/such"], "/no/such: No such file"),
                                  ([harness.DEMO, "--chat-template", "/no/such"], "--chat-template: /no/such"),
                                  ([harness.DEMO, "--chat-template", "builtin:x"], "--chat-template: ",
                                   "builtin:chatml"),
                                  ([harness.DEMO, "--max-model-len", "2k"], "--max-model-len: ", "at most 1024")):
            with self.subTest(arguments):
                self.assert_error(["serve", *arguments, "--port", "0"], *parts)

    def test_few_descriptors(self):
        def limit_files(n):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
        server = self.serve(preexec_fn=limit_files(80))
        self.assertIn("at most 5 connections: the process may open 80 files", server.err)
        for n in (40, 66):
            refused = self.start(preexec_fn=limit_files(n))
            self.assertEqual(refused.finish(), 1)
            self.assertIn(f"may open {n} files: expected at least 67", refused.err)

    def test_origins(self):
        preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST",
                     "Access-Control-Request-Headers": "authorization, content-type, x-stainless-os"}
        server = self.serve()
        self.assert_refused(server.ask("OPTIONS", COMPLETIONS, headers=preflight), 405, "--cors-origin",
                            "https://a.example")
        self.assert_refused(server.ask("OPTIONS", COMPLETIONS), 405, "OPTIONS", "POST")
        self.assertIsNone(server.ask("GET", "/health", headers=preflight).getheader("Access-Control-Allow-Origin"))
        server = self.serve("--cors-origin", "https://a.example", "--cors-origin", "http://b.example", "--api-key", "k")
        allowed = server.ask("OPTIONS", COMPLETIONS, headers=preflight)
        self.assertEqual((allowed.status, allowed.text), (204, ""))
        self.assertEqual(allowed.getheader("Access-Control-Allow-Origin"), "https://a.example")
        self.assertEqual(allowed.getheader("Access-Control-Allow-Headers"), preflight["Access-Control-Request-Headers"])
        self.assertEqual(allowed.getheader("Access-Control-Allow-Methods"), "GET, POST, DELETE, OPTIONS")
        self.assertEqual(allowed.getheader("Vary"), "Origin")
        read = server.ask("GET", "/v1/models", headers={"Origin": "http://b.example"})
        self.assertEqual((read.status, read.getheader("Access-Control-Allow-Origin")), (401, "http://b.example"))
        for origin in ("https://a.example.evil", "http://a.example", "null", "https://127.0.0.1",
                       f"http://localhost:{server.port}", "http://127.0.0.1"):
            for method in ("GET", "OPTIONS"):
                other = server.ask(method, "/health", headers={"Origin": origin})
                self.assert_refused(other, 403, "--cors-origin", origin)
                self.assertIsNone(other.getheader("Access-Control-Allow-Origin"))
        own = server.ask("POST", "/ping", headers={"Origin": f"http://127.0.0.1:{server.port}"})
        self.assertEqual(own.status, 200)
        anybody = self.serve("--cors-origin", "*").ask("GET", "/health", headers={"Origin": "http://c"})
        self.assertEqual(anybody.getheader("Access-Control-Allow-Origin"), "http://c")

    def test_names_of_the_server(self):
        """A page cannot reach the server through its own name by making it resolve to this machine."""
        server = self.serve("--allowed-host", "gpu.example", "--allowed-host", "other")
        port = server.port
        for host in ("localhost", f"localhost:{port}", "LocalHost:1", "127.0.0.1", f"127.0.0.1:{port}", "127.1.2.3",
                     "[::1]", f"[::1]:{port}", "gpu.example", "GPU.example:443", "other:"):
            self.assertEqual(server.ask("GET", "/version", headers={"Host": host}).status, 200, host)
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "a",
                     "localhost:evil", "gpu.example.evil", "127.0.0.256", "128.0.0.1", "[::2]", "", ":80", "0.0.0.0"):
            for method, path in (("GET", "/"), ("POST", COMPLETIONS), ("GET", "/health")):
                refused = server.ask(method, path, headers={"Host": host})
                self.assert_refused(refused, 403, "--allowed-host", host)
        self.assertEqual(server.ask("GET", "/version", headers={"Origin": "https://gpu.example",
                                                                "Host": "gpu.example"}).status, 200)
        self.assert_refused(self.serve().ask("GET", "/", headers={"Host": "gpu.example"}), 403)
        anywhere = self.serve("--host", "0.0.0.0")
        self.assertEqual(anywhere.ask("GET", "/version", headers={"Host": "gpu.example"}).status, 200)
        self.assert_refused(anywhere.ask("GET", "/version", headers={"Origin": "http://evil.example"}), 403)
        named = self.serve("--host", "0.0.0.0", "--allowed-host", "gpu.example")
        for host, status in (("gpu.example", 200), ("127.0.0.1", 200), ("evil.example", 403)):
            self.assertEqual(named.ask("GET", "/version", headers={"Host": host}).status, status, host)

    # ---- Slow preparation ------------------------------------------------------------------------------------------

    def test_large_prompts_stop_nobody(self):
        """Small requests that arrive after large ones are answered before most of the large ones."""
        server = self.serve()
        large = request_bytes(COMPLETIONS, {"prompt": "x " * (4095 << 10)}, "Connection: close\r\n")
        with contextlib.ExitStack() as stack:
            flood = []
            for _ in range(40):
                flood.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port))))
                flood[-1].sendall(large[:-1])
            for connection in flood:
                connection.sendall(large[-1:])
            for _ in range(10):
                self.assertEqual(server.post(COMPLETIONS, {"prompt": "17+25=", "max_tokens": 1}).status, 200)
            answered, _, _ = select.select(flood, [], [], 0)
            for connection in flood:
                answer = connection.makefile("rb").read()
                self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
                self.assertIn(b"context_length_exceeded", answer)
        self.assertLess(len(answered), len(flood) / 2)

    def test_a_slow_template_stops_no_completions(self):
        """Requests that wait to be prepared count as waiting, are answered in time, and appear in /health."""
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
            template.write("{% if messages[0].content == 'slow' %}{% for i in range(100000) %}"
                           "{% for k in range(100000) %}{% endfor %}{% endfor %}{% endif %}x")
            template.flush()
            server = self.serve("--chat-template", template.name, "--request-timeout", 3, "--max-num-seqs", 2,
                                "--max-waiting", 3)

            def ask_slowly():
                self.assert_refused(server.post(CHAT, {"messages": [{"role": "user", "content": "slow"}]}), 408)

            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                began = time.monotonic()
                slow = [pool.submit(ask_slowly) for _ in range(3)]
                server.wait_for_metric("num_requests_waiting", 3)
                self.assertEqual(server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1}).status, 200)
                self.assertFalse(any(one.done() for one in slow))
                slow += [pool.submit(ask_slowly) for _ in range(2)]
                server.wait_for_metric("num_requests_waiting", 5)
                self.assert_refused(server.post(CHAT, {"messages": HELLO}), 429, "5")
                self.assert_refused(server.post("/tokenize", {"prompt": "x"}), 429)
                health = server.ask("GET", "/health")
                self.assertEqual(health.status, 200 if time.monotonic() < began + 2 else health.status)
                while (health := server.ask("GET", "/health")).status == 200:
                    self.assertFalse(all(one.done() for one in slow), "no waiting request shows in /health")
                    time.sleep(0.01)
                self.assert_refused(health, 503, "overloaded")
                for one in slow:
                    one.result()
            self.assertEqual(server.ask("GET", "/health").status, 200)
            self.assertEqual(server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1}).status, 200)
            server.wait_for_metric("num_requests_waiting", 0)
            end = time.monotonic() + harness.TIMEOUT_S
            while (answer := server.post(CHAT, {"messages": HELLO, "max_tokens": 1})).status == 408:
                self.assertLess(time.monotonic(), end)  # the new helper starts slowly on a loaded machine
            self.assertEqual(answer.status, 200)

    # ---- The helper of chat templates ------------------------------------------------------------------------------

    def test_a_template_helper_that_dies(self):
        """Another helper answers; if none can be started, the client receives no further detail."""
        with tempfile.TemporaryDirectory() as folder:
            python = os.path.join(folder, "python3")
            with open(python, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            os.chmod(python, 0o755)
            template = os.path.join(folder, "template.jinja")
            with open(template, "w", encoding="utf-8") as file:
                file.write("{{ messages[0].content }}")
            server = self.serve("--chat-template", template, env={"PATH": folder})
            chat = {"messages": HELLO, "max_tokens": 1}
            self.assertEqual(server.post(CHAT, chat).status, 200)
            for status in (200, 503):
                kill_children(server)
                if status == 503:
                    os.unlink(python)
                for path in (CHAT, "/tokenize"):
                    answer = server.post(path, chat if path == CHAT else {"messages": HELLO})
                    self.assertEqual(answer.status, status, answer.text)
                    self.assertNotIn(folder, answer.text)
            server.wait_for_err("chat templates")

    # ---- The log and the command line ------------------------------------------------------------------------------

    def test_prompts_are_not_logged_unasked(self):
        for options, is_there in (((), False), (("--log-level", "debug"), False), (("--log-requests",), True)):
            server = self.serve(*options)
            server.post(COMPLETIONS, {"prompt": "a very private prompt\x1b[2J", "max_tokens": 1})
            server.post(COMPLETIONS, {"prompt": "a very private prompt", "max_tokens": -3})
            server.post(COMPLETIONS, '{"prompt": "a very private prompt" "max_tokens": 3}')
            server.post(COMPLETIONS, '{"prompt": private}')
            server.post(COMPLETIONS, '{"prompt": "a very private')
            server.post(COMPLETIONS, {"prompt": [["a very private prompt"]]})
            server.post(COMPLETIONS, {"prompt": "x", "max_tokens": "a very private prompt"})
            server.post(CHAT, {"messages": [{"role": "user", "content": "a very private prompt"}]})
            server.post(CHAT, {"messages": "a very private prompt"})
            self.assertEqual(server.stop(), 0)
            self.assertEqual("private" in server.err, is_there)
            self.assertNotIn("\x1b", server.err)
            self.assertEqual("POST /v1/completions: 200, " in server.err, is_there)

    def test_clients_write_no_lines_of_their_own(self):
        server = self.serve("--log-requests", "--log-level", "debug")
        for path in ("/%0d%0ayoke%3a%20error%3a%20forged", "/%1b%5d0;title%07", "/%c2%9b2J", "/%e2%80%ae%e2%80%a8",
                     "/%ff%fe"):
            self.assertEqual(server.ask("GET", path).status, 404)
        server.post(COMPLETIONS, '"\r\nyoke: error: forged\x1b]0;title\x07\u202e"'.encode())
        raw(server, b"BAD\x1b[2J\r HTTP\x07\r\n\r\n")
        self.assertEqual(server.stop(), 0)
        self.assertIn("GET /\\r\\nyoke: error: forged", server.err)
        self.assertIn("GET /\\xff\\xfe", server.err)
        for line in server.err.splitlines():
            self.assertRegex(line, "^yoke: ")
            self.assertFalse(line.startswith("yoke: error: forged"), line)
        for character in "\r\x1b\x07\x9b\u202e\u2028\ufffd":
            self.assertNotIn(character, server.err)

    def test_the_command_line(self):
        for arguments, *parts in ((["--port", "70000"], "--port", "0 to 65535"),
                                  (["--max-waiting", "-1"], "--max-waiting"),
                                  (["--tool-call-parser", "x"], "--tool-call-parser", "hermes"),
                                  (["--request-timeout", "-1"], "--request-timeout"),
                                  (["--max-body-bytes", "0"], "--max-body-bytes"), (["operand"], "operand"),
                                  (["--cors-origin", "https://a.example/"], "--cors-origin", "without a path"),
                                  (["--cors-origin", "a.example"], "--cors-origin", "scheme://host", '"a.example"'),
                                  (["--allowed-host", "http://a"], "error: --allowed-host: expected a name")):
            self.assert_usage_error(["serve", "-m", harness.DEMO, *arguments], *parts)
        self.assert_usage_error(["serve"], "--model")
        help_text = subprocess.run([self.yoke, "serve", "--help"], capture_output=True, check=True).stdout.decode()
        for option in ("host", "port", "served-model-name", "api-key", "api-key-file",
                       "default-chat-template-kwargs", "max-waiting", "request-timeout",
                       "shutdown-timeout", "max-body-bytes", "max-held-body-bytes",
                       "enable-prompt-tokens-details", "max-connections", "header-timeout", "cors-origin",
                       "allowed-host",
                       "chat-template",
                       "tool-call-parser", "restart-on-failure", "metrics-prefix", "log-requests",
                       "disable-log-stats", "log-stats-interval",
                       "enable-tokenizer-info-endpoint", "enable-force-include-usage"):
            self.assertIn(f"--{option}", help_text)


if __name__ == "__main__":
    harness.main()
