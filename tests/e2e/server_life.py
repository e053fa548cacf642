"""Start and end of `yoke serve`: loading, signals, a rank that fails, a service manager."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

import harness
from server_case import JSON, N_LAYERS, Case, ask_on, read_events, request_bytes

PATH = "/v1/completions"
LONG = {"prompt": "Tell a story: Mia the fox, a red kite, the garden.", "max_tokens": 900, "ignore_eos": True}


def read_stream(connection):
    """The bytes of a whole stream."""
    answer = b""
    while not answer.endswith(b"0\r\n\r\n"):
        chunk = connection.recv(1 << 16)
        assert chunk, answer[-1000:]
        answer += chunk
    assert b"data: [DONE]" in answer[-100:], answer[-1000:]
    return answer


@harness.of_the_program
class Life(Case):
    def begin(self, server, body, path=PATH):
        """A streamed answer whose first event has arrived: connection, response, remaining events."""
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", path, json.dumps({**body, "stream": True}), JSON)
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        events = read_events(response)
        next(events)
        return events

    # ---- Loading ---------------------------------------------------------------------------------------------------

    def test_the_port_is_open_while_the_model_loads(self):
        server, go_on = self.start_stalled("operation=linear_create call=1")
        self.assert_refused(server.ask("GET", "/health"), 503, "loading")
        refused = server.post(PATH, {"prompt": "x"})
        self.assert_refused(refused, 503, "loading")
        self.assertTrue(refused.getheader("Retry-After"))
        self.assertEqual(server.ask("GET", "/v1/models").status, 503)
        self.assertEqual(server.ask("GET", "/version").status, 200)
        self.assertEqual(server.ask("GET", "/metrics").status, 200)
        go_on()
        server.wait_for()
        self.assertEqual(server.post(PATH, {"prompt": "x", "max_tokens": 1}).status, 200)

    def test_a_signal_while_the_model_loads(self):
        server, _ = self.start_stalled("operation=linear_create call=1")
        self.assertEqual(server.stop(), 0)

    def test_a_model_that_cannot_be_loaded(self):
        server = self.start(model="/nowhere/to/be/found")
        self.assertEqual(server.finish(), 1)
        self.assertIn("/nowhere/to/be/found", server.err)

    def test_a_port_that_is_taken(self):
        server = self.serve()
        second = self.start("--port", server.port)
        self.assertEqual(second.finish(), 1)
        self.assertIn(f"cannot listen on 127.0.0.1 port {server.port}: Address already in use", second.err)
        third = self.start("--host", "no.such.host.invalid")
        self.assertEqual(third.finish(), 1)
        self.assertIn("--host no.such.host.invalid", third.err)
        unnamed = self.start("--host", "")
        self.assertEqual(unnamed.finish(), 1)
        self.assertIn("--host: expected an address or a name, found an empty one", unnamed.err)

    # ---- Signals ---------------------------------------------------------------------------------------------------

    def test_running_requests_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve()
            events = self.begin(server, {**LONG, "max_tokens": 200, "stream_options": {"include_usage": True}})
            with contextlib.closing(server.connect()) as idle:  # a connection from before the signal
                self.assertEqual(ask_on(idle, "GET", "/health").status, 200)
                server.process.send_signal(number)
                server.wait_for_err("stopping")
                refused = ask_on(idle, "POST", PATH, {"prompt": "x"})
                if refused.status != 200:  # else the answer was finished before the request came
                    self.assert_refused(refused, 503, "shutting down")
                    self.assertEqual(refused.getheader("Connection").lower(), "close")
            *_, ended, usage, done = events  # the end may come with the last token or after it
            self.assertEqual(ended["choices"][0]["finish_reason"], "length")
            self.assertEqual((usage["usage"]["completion_tokens"], done), (200, "[DONE]"))
            self.assertEqual(server.finish(), 0)
            with self.assertRaises(OSError):
                server.ask("GET", "/health")

    def test_requests_are_refused_on_new_connections_until_the_last_answer_has_ended(self):
        server = self.serve("--header-timeout", 0, "--shutdown-timeout", 600)
        with self.open_slow_reader(server, LONG["max_tokens"]) as slow:
            while server.metric("generation_tokens_total") == 0:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_err("stopping")
            prompt = {"prompt": "x"}
            for method, path, body in (("GET", "/health", None), ("GET", "/v1/models", None),
                                       ("GET", "/v1/loads", None), ("POST", PATH, prompt),
                                       ("POST", "/tokenize", prompt)):
                refused = server.ask(method, path, body)
                self.assert_refused(refused, 503, "shutting down")
                self.assertEqual((refused.getheader("Retry-After"), refused.getheader("Connection")), ("1", "close"))
            self.assertEqual(server.ask("GET", "/metrics").status, 200)
            with socket.create_connection(("127.0.0.1", server.port)) as unfinished:  # must not delay the end
                unfinished.sendall(request_bytes(PATH, prompt)[:-1])
                server.ask("GET", "/health")
                read_stream(slow)
                self.assertEqual(server.finish(), 0)

    def test_slow_requests_are_cancelled(self):
        server = self.serve("--shutdown-timeout", 0.3)
        streamed = self.begin(server, {**LONG, "n": 16})
        with contextlib.closing(server.connect()) as connection:
            connection.request("POST", PATH, json.dumps({**LONG, "n": 16}), JSON)
            server.wait_for_metric("num_requests_running", 32)
            server.process.send_signal(signal.SIGTERM)
            *_, error, done = streamed
            self.assertIn("shutting down", error["error"]["message"])
            self.assertEqual(done, "[DONE]")
            response = connection.getresponse()
            self.assertEqual((response.status, response.getheader("Retry-After")), (503, "1"))
            self.assertIn("shutting down", json.loads(response.read())["error"]["message"])
        self.assertEqual(server.finish(), 0)

    def test_a_client_that_does_not_read_delays_the_end_a_little(self):
        server = self.serve("--shutdown-timeout", 0.2)
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(request_bytes(PATH, {**LONG, "n": 16, "logprobs": 20, "stream": True}))
            server.wait_for_metric("num_requests_running", 16)
            began = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 20)

    def test_a_second_signal(self):
        server = self.serve()
        self.begin(server, {**LONG, "n": 32})
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_err("stopping")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.finish(), 128 + signal.SIGTERM)

    def test_an_ignored_signal_stays_ignored(self):
        server = self.serve(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertEqual(server.ask("GET", "/health").status, 200)

    # ---- Failures --------------------------------------------------------------------------------------------------

    def serve_and_fail(self, *options):
        """A server whose rank 1 fails while it answers, with the texts that clients received."""
        fault = "rank=1 operation=attention call=400 fault=error"
        server = self.serve("--tp", 2, *options, program=self.faulty, env={"YOKE_FAULT": fault})
        streamed = self.begin(server, LONG)
        with contextlib.closing(server.connect()) as connection:
            connection.request("POST", PATH, json.dumps(LONG), JSON)
            *_, error, done = streamed
            self.assertEqual(done, "[DONE]")
            self.assertIn("rank 1", error["error"]["message"])
            whole = connection.getresponse()
            whole.text = whole.read().decode()
            whole.value = json.loads(whole.text)
        self.assertIn(whole.status, (500, 503))
        self.assertIn("rank 1", whole.value["error"]["message"])
        return server

    def test_a_rank_fails(self):
        server = self.serve_and_fail()
        self.assert_refused(server.ask("GET", "/health"), 503, "rank 1", "attention")
        self.assert_refused(server.post(PATH, {"prompt": "x"}), 503, "rank 1")
        self.assertEqual(server.ask("GET", "/v1/models").status, 503)
        self.assertEqual(server.ask("GET", "/metrics").status, 200)
        self.assertEqual(server.stop(), 0)

    def test_a_rank_fails_and_the_engine_starts_again(self):
        server = self.serve_and_fail("--restart-on-failure")
        server.wait_for()
        answer = server.post(PATH, {"prompt": "The capital of Norway is", "max_tokens": 8})
        self.assertEqual(answer.value["choices"][0]["text"].strip(), "Oslo.")
        self.assertGreater(server.metric("generation_tokens_total"), 20)  # of both engines
        self.assertEqual(server.metric("request_success_total", finished_reason="error"), 2)

    def test_a_rank_stalls(self):
        server, go_on = self.start_stalled("operation=attention call=100", "--tp", 2, "--step-timeout", 1.5, rank=1)
        server.wait_for()
        answer = server.post(PATH, LONG)
        self.assertIn(answer.status, (500, 503))
        self.assertIn("rank 1", answer.value["error"]["message"])
        self.assert_refused(server.ask("GET", "/health"), 503, "rank 1")
        go_on()

    def open_slow_reader(self, server, max_tokens):
        """A client that does not read yet, with an answer larger than the socket buffers."""
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # limits the server's send buffer
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(request_bytes(PATH, {**LONG, "n": 4, "logprobs": 20, "max_tokens": max_tokens, "stream": True}))
        return slow

    def test_slow_readers_do_not_keep_a_failed_engine(self):
        ended_tokens = 100
        fault = f"rank=0 operation=attention call={2 * N_LAYERS * ended_tokens} fault=error"
        server = self.serve("--restart-on-failure", program=self.faulty, env={"YOKE_FAULT": fault})
        with self.open_slow_reader(server, ended_tokens) as ended:
            while server.metric("generation_tokens_total") == 0 or server.metric("num_requests_running") > 0:
                time.sleep(0.01)
            with self.open_slow_reader(server, LONG["max_tokens"]) as running:
                server.wait_for_err("serving", 2)
                whole, broken = read_stream(ended), read_stream(running)
        self.assertNotIn(b"error", whole)
        self.assertIn(b"rank 0", broken[-1000:])

    # ---- A service manager -------------------------------------------------------------------------------------------

    def test_readiness_is_reported(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(harness.TIMEOUT_S)
            for path in (os.path.join(folder, "notify"), "\0yoke-test-" + os.path.basename(folder)):
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                    manager.settimeout(harness.TIMEOUT_S)
                    manager.bind(path)
                    server = self.start(env={"NOTIFY_SOCKET": path.replace("\0", "@")})
                    self.assertEqual(manager.recv(100), b"READY=1")
                    self.assertEqual(server.ask("GET", "/health").status, 200)
                    self.assertEqual(server.stop(), 0)
                    self.assertEqual(manager.recv(100), b"STOPPING=1")

    def test_a_socket_is_handed_over(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def hand_over():
                os.dup2(listener.fileno(), 3)
                os.set_inheritable(3, True)

            script = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"'
            arguments = [self.yoke, "serve", "--model", harness.DEMO, "--port", "1"]
            with subprocess.Popen(["sh", "-c", script, *arguments], pass_fds=(3,), preexec_fn=hand_over,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                port = listener.getsockname()[1]
                self.assertEqual(process.stdout.readline(), f"listening on http://127.0.0.1:{port}\n".encode())
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall(b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n")
                    self.assertIn(b"200 OK", connection.recv(1000))
                process.terminate()
                self.assertEqual(process.wait(harness.TIMEOUT_S), 0)
                process.stderr.read()

    def test_a_unix_socket_is_handed_over(self):
        """Like `systemd-socket-activate -l PATH`."""
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(folder, "yoke")
            listener.bind(path)
            listener.listen()

            def hand_over():
                os.dup2(listener.fileno(), 3)
                os.set_inheritable(3, True)

            script = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"'
            arguments = [self.yoke, "serve", "--model", harness.DEMO]
            with subprocess.Popen(["sh", "-c", script, *arguments], pass_fds=(3,), preexec_fn=hand_over,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                try:
                    self.assertEqual(process.stdout.readline(), f"listening on unix:{path}\n".encode())
                    with socket.socket(socket.AF_UNIX) as connection:
                        connection.connect(path)
                        connection.sendall(b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n")
                        self.assertIn(b"200 OK", connection.recv(1000))
                finally:
                    process.terminate()
                self.assertEqual(process.wait(harness.TIMEOUT_S), 0)

    def test_something_else_is_handed_over(self):
        script = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@" 3</dev/null'
        arguments = [self.yoke, "serve", "--model", harness.DEMO]
        done = subprocess.run(["sh", "-c", script, *arguments], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"descriptor 3 is no listening socket", done.stderr)


if __name__ == "__main__":
    harness.main()
