"""Many clients of `yoke serve` at once: slow ones, ones that leave, more than the server accepts."""

import contextlib
import json
import os
import random
import signal
import socket
import struct
import time


import harness
from server_case import JSON, Case, events_of, read_events, request_bytes, stream_many, text_of

PATH = "/v1/completions"
LONG = {"prompt": "Tell a story: Mia the fox, a red kite, the garden.", "max_tokens": 900, "ignore_eos": True}


def prompts():
    with open(os.path.join(harness.DEMO, "expected.json"), encoding="utf-8") as file:
        return json.load(file)["prompts"]


@harness.of_the_program
class Streams(Case):
    def test_many_clients(self):
        """256 at once, more than a step has sequences: every answer is whole, and belongs to its request."""
        n = 12 if harness.is_sanitized(self.yoke) else 256
        random.seed(1)
        asked = [random.choice(prompts()) for _ in range(n)]
        server = self.serve("--tp", 2, "--max-num-seqs", n // 5)
        bodies = [{"prompt": prompt["prompt"], "max_tokens": 64, "temperature": 0, "return_token_ids": True,
                   "stream_options": {"include_usage": True}} for prompt in asked]
        for prompt, answer in zip(asked, stream_many(server, PATH, bodies), strict=True):
            events = events_of(answer)
            usage = events.pop()["usage"]
            ids = [token for event in events for token in event["choices"][0].get("token_ids") or []]
            self.assertEqual("".join(map(text_of, events)).strip(), prompt["answer"].strip())
            self.assertEqual(ids, prompt["output_ids"])
            self.assertEqual(usage["completion_tokens"], len(prompt["output_ids"]))
            self.assertEqual(len({event["id"] for event in events}), 1)
            self.assertEqual([event["choices"][0]["finish_reason"] for event in events],
                             [None] * (len(events) - 1) + ["stop"])
        self.assertEqual(server.metric("request_success_total", finished_reason="stop"), n)
        self.assertEqual(server.metric("generation_tokens_total"), sum(len(prompt["output_ids"]) for prompt in asked))
        self.assertEqual(server.metric("time_to_first_token_seconds_count"), n)
        self.assertEqual(server.metric("num_requests_running"), 0)

    def test_an_event_a_token(self):
        if harness.is_sanitized(self.yoke, "tsan"):
            self.skipTest("the thread sanitizer sees the same threads in the other tests")
        server = self.serve()
        events = self.stream(server, PATH, {**LONG, "max_tokens": 100})
        self.assertEqual(len(events), 100)

    def open(self, server, body, receive_bytes=None):
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(harness.TIMEOUT_S)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(request_bytes(PATH, body))
        return connection

    def test_a_slow_reader(self):
        """One client does not read: others are not delayed, and it gets every token when it reads."""
        if harness.is_sanitized(self.yoke, "tsan"):
            self.skipTest("takes minutes")
        server = self.serve()
        n = 8  # more than the kernel's socket buffers
        body = {**LONG, "stream": True, "n": n, "logprobs": 20, "return_token_ids": True}
        slow = self.open(server, body, receive_bytes=4096)
        with contextlib.closing(slow):
            time.sleep(0.2)
            for _ in range(3):
                began = time.monotonic()
                self.assertEqual(len(self.stream(server, PATH, {**LONG, "max_tokens": 50})), 50)
                self.assertLess(time.monotonic() - began, 30)
            # nor does its answer wait for the client
            server.wait_for_metric("num_requests_running", 0, within_s=harness.TIMEOUT_S)
            answer = bytearray()
            while not answer.endswith(b"0\r\n\r\n"):
                chunk = slow.recv(1 << 16)
                self.assertTrue(chunk)
                answer += chunk
        counts = [0] * n
        for event in events_of(bytes(answer)):
            counts[event["choices"][0]["index"]] += len(event["choices"][0]["token_ids"])
        self.assertEqual(counts, [900] * n)

    def test_a_client_leaves(self):
        """Streaming, waiting for a whole answer, waiting in the queue: the requests of a client that leaves end, and
        their KV is free."""
        server = self.serve_slowly("--max-num-seqs", 2)
        for leave in (self.close, self.reset, self.half_close):
            for stream in (True, False):
                running = [self.open(server, {**LONG, "stream": stream}) for _ in range(2)]
                server.wait_for_metric("num_requests_running", 2)
                waiting = self.open(server, {**LONG, "stream": stream})
                # Waits until the request runs: a client that disconnects earlier has no request that could end.
                server.wait_for_metric("num_requests_waiting_by_reason", 1, reason="capacity")
                for connection in (waiting, *running):
                    leave(connection)
                server.wait_for_metric("num_requests_running", 0)
                self.assertEqual(server.metric("num_requests_waiting"), 0)
                for connection in (waiting, *running):
                    connection.close()
        server.wait_for_metric("request_success_total", 18, finished_reason="abort")
        self.assertEqual(server.metric("kv_cache_usage_perc"), 0)

    def close(self, connection):
        connection.close()

    def reset(self, connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def half_close(self, connection):
        connection.shutdown(socket.SHUT_WR)

    def test_clients_come_and_leave(self):
        """Clients leave at any moment between request and answer."""
        server = self.serve("--max-num-seqs", 2)
        random.seed(2)
        for _ in range(12 if harness.is_sanitized(self.yoke) else 400):
            held = [self.open(server, {**LONG, "stream": True}) for _ in range(3)]
            time.sleep(random.random() * 0.02)
            for connection in held:
                connection.close()
            self.assertEqual(server.ask("GET", "/metrics").status, 200)
        server.wait_for_metric("num_requests_running", 0)

    def test_a_client_that_leaves_at_once(self):
        """Before the server has read the request."""
        server = self.serve()
        server.process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            self.open(server, {**LONG, "n": 16}).close()
        server.process.send_signal(signal.SIGCONT)
        self.assertEqual(server.post(PATH, {"prompt": "x", "max_tokens": 1}).status, 200)  # after them
        self.assertLessEqual(server.metric("generation_tokens_total"), 1)
        self.assertEqual(server.metric("num_requests_running"), 0)

    def test_a_client_that_leaves_in_the_midst_of_its_request(self):
        """The end comes together with the last bytes: the connection is closed long before the time limit."""
        for options in ((), ("--header-timeout", 0)):
            server = self.serve(*options)
            time.sleep(0.5)  # the connections of the readiness checks are closed
            descriptors = f"/proc/{server.process.pid}/fd"
            n_descriptors = len(os.listdir(descriptors))
            request = request_bytes(PATH, LONG)
            for n_bytes in (0, 1, 30, len(request) - 10):
                server.process.send_signal(signal.SIGSTOP)
                with socket.create_connection(("127.0.0.1", server.port)) as connection:
                    connection.sendall(request[:n_bytes])
                server.process.send_signal(signal.SIGCONT)
                self.assertEqual(server.ask("GET", "/ping").status, 200)  # after it
                end = time.monotonic() + 15
                while len(os.listdir(descriptors)) > n_descriptors:
                    self.assertLess(time.monotonic(), end, n_bytes)
                    time.sleep(0.01)

    def test_too_many_requests(self):
        server = self.serve_slowly("--max-num-seqs", 1, "--max-waiting", 2)
        held = [self.open(server, {**LONG, "stream": True}) for _ in range(3)]
        server.wait_for_metric("num_requests_waiting", 2)
        refused = server.post(PATH, {"prompt": "x"})
        self.assert_refused(refused, 429, "too many requests", code="rate_limit_exceeded")
        self.assertIn(int(refused.getheader("Retry-After")), range(1, 61))
        end = time.monotonic() + 30
        while int(refused.getheader("Retry-After")) < 6:  # three are ahead, and none ends within two seconds
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
            refused = server.post(PATH, {"prompt": "x"})
            self.assertEqual(refused.status, 429)
        for connection in held:
            connection.close()
        server.wait_for_metric("num_requests_running", 0)
        short = {"prompt": "x", "max_tokens": 1}
        self.assertEqual(server.post(PATH, short).status, 200)
        self.assertEqual(server.post(PATH, {**short, "n": 8}).status, 200)  # a single request waits for no other

    def test_time_limit(self):
        """The limit counts from a request's arrival: a stream without a token by then is refused as a whole."""
        if harness.is_sanitized(self.yoke, "tsan"):
            self.skipTest("the thread sanitizer sees the same threads in the other tests")
        for limit_s in (0.3, 2.4, 20):  # the first limit within which this machine, loaded or sanitized, makes a token
            server = self.serve("--request-timeout", limit_s)
            body = {**LONG, "n": 16}
            self.assert_refused(server.post(PATH, body), 408, f"{limit_s} s")
            with contextlib.closing(server.connect()) as connection:
                connection.request("POST", PATH, json.dumps({**body, "stream": True}), JSON)
                response = connection.getresponse()
                if response.status == 200:
                    events = list(read_events(response))
                    break
                self.assertEqual(response.status, 408)
        self.assertEqual(response.status, 200)
        self.assertEqual(events[-1], "[DONE]")
        self.assertIn(f"{limit_s} s", events[-2]["error"]["message"])
        server.wait_for_metric("num_requests_running", 0)
        self.assertEqual(server.post(PATH, {"prompt": "x", "max_tokens": 1}).status, 200)


if __name__ == "__main__":
    harness.main()
