"""bench/bench_serve.py: its arithmetic, its parsing of streams, and whole runs against a server with known answers."""

import argparse
import http.server
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import harness

PROGRAM = os.path.normpath(os.path.join(harness.TESTS_DIR, "..", "bench", "bench_serve.py"))
VLLM_FIELDS = {"date", "backend", "model_id", "num_prompts", "request_rate", "burstiness", "max_concurrency",
               "duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput",
               "output_throughput", "total_token_throughput"}
VLLM_FIELDS |= {f"{kind}_{name}_ms" for kind in ("mean", "median", "std", "p90", "p95", "p99")
                for name in ("ttft", "tpot", "itl", "e2el")}


def load():
    spec = importlib.util.spec_from_file_location("bench_serve", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def event(content):
    return b"data: " + (content if isinstance(content, bytes) else json.dumps(content).encode()) + b"\n\n"


def token(text="x", finish=None):
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def delta(finish=None, **fields):
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def usage(n_input, n_output):
    return event({"choices": [], "usage": {"prompt_tokens": n_input, "completion_tokens": n_output}})


DONE = event(b"[DONE]")


class Arithmetic(harness.Case):
    def options(self, **changed):
        return argparse.Namespace(**{"extra_body": {}, "allow_merged": False, "seed": 0, "salt": 0, "range_ratio": 0.0,
                                     "requests": 20000, "request_rate": 50.0, "burstiness": 1.0, **changed})

    def judge(self, n_wanted, *chunks, **changed):
        return BENCH.judge(self.options(**changed), (10.0, n_wanted, list(chunks), None))

    def test_percentiles(self):
        generator = random.Random(1)
        for n in (2, 3, 10, 101, 1000):
            values = sorted(generator.random() for _ in range(n))
            expected = statistics.quantiles(values, n=100, method="inclusive")
            for share in (1, 50, 90, 95, 99):
                self.assertAlmostEqual(BENCH.percentile(values, share), expected[share - 1], places=12)
        self.assertEqual(BENCH.percentile([7.0], 99), 7.0)

    def test_figures(self):
        found = BENCH.figures_of("ttft", [0.004, 0.001, 0.003, 0.002])
        for name, value in {"mean": 2.5, "median": 2.5, "std": math.sqrt(1.25), "p90": 3.7, "p95": 3.85,
                            "p99": 3.97}.items():
            self.assertAlmostEqual(found[f"{name}_ttft_ms"], value, places=9, msg=name)

    def test_generator(self):
        """Philox's published result for the zero counter and key, and a key of 64 bits."""
        self.assertEqual(BENCH.uniform(0, 0, 0), (0x6627E8D5 >> 8) / (1 << 24))
        self.assertNotEqual(BENCH.uniform(1 << 32, 0, 0), BENCH.uniform(0, 0, 0))

    def test_lengths(self):
        options = self.options(range_ratio=0.25)
        lengths = [BENCH.length(options, 100, i, 0) for i in range(5000)]
        self.assertEqual((min(lengths), max(lengths)), (75, 125))
        self.assertAlmostEqual(statistics.fmean(lengths), 100, delta=1)
        self.assertEqual({BENCH.length(self.options(), 100, i, 0) for i in range(50)}, {100})
        self.assertEqual(min(BENCH.length(self.options(range_ratio=1.0), 2, i, 0) for i in range(50)), 1)

    def test_lengths_of_the_engine_alone(self):
        """The results in bench_clients_figures.py for the same options: both programs run the same requests."""
        options = self.options(range_ratio=0.3)
        totals = [sum(BENCH.length(options, mean, i, stream) for i in range(64))
                  for stream, mean in enumerate((32, 64))]
        self.assertEqual(totals, [1993, 3953])

    def test_arrivals(self):
        for burstiness in (0.5, 1.0, 4.0):
            arrivals = BENCH.arrivals_of(self.options(burstiness=burstiness))
            gaps = [b - a for a, b in zip(arrivals, arrivals[1:])]
            self.assertAlmostEqual(statistics.fmean(gaps), 0.02, delta=0.001)
            self.assertAlmostEqual(statistics.pstdev(gaps) / 0.02, 1 / math.sqrt(burstiness), delta=0.08)
        arrivals = BENCH.arrivals_of(self.options(burstiness=math.inf, requests=100))
        self.assertAlmostEqual(arrivals[99], 99 * 0.02)

    def test_one_stream(self):
        found = self.judge(4, (10.5, b": hello\n\n" + token()), (10.6, token()), (10.8, token("")),
                           (11.1, token("x", "length")), (11.2, usage(7, 4) + DONE))
        for name, value in {"ttft": 0.5, "e2el": 1.1, "tpot": 0.2}.items():
            self.assertAlmostEqual(found[name], value, places=9, msg=name)
        self.assertEqual([round(gap, 9) for gap in found["itl"]], [0.1, 0.2, 0.3])
        self.assertEqual((found["input"], found["output"], found["events"]), (7, 4, 4))

    def test_cut_anywhere(self):
        """An event's time is its last byte's, wherever the network splits the stream."""
        for newline in (b"\n", b"\r\n"):
            whole = (b": ping\n\n" + token("a\u00e4") + token("b") + usage(1, 2) + DONE).replace(b"\n", newline)
            second = whole.index(b"data:", whole.index(b"data:") + 1)
            for cut in range(1, len(whole)):
                found = self.judge(2, (11.0, whole[:cut]), (12.0, whole[cut:]))
                self.assertEqual(found["ttft"], 1.0 if cut >= second else 2.0, cut)

    def test_chat(self):
        found = self.judge(2, (11, delta(role="assistant", content="")), (12, delta(content="a")),
                           (13, delta(content="b")), (14, delta("length") + usage(3, 2) + DONE))
        self.assertEqual((found["ttft"], found["e2el"], found["events"]), (2, 3, 2))
        found = self.judge(2, (11, delta(role="assistant", content="")), (12, delta(content="a")),
                           (13, delta("length", content="") + usage(3, 2) + DONE))
        self.assertEqual((found["e2el"], found["events"]), (3, 2), "the last token's text may be held back")

    def test_failures(self):
        two = token() + token()
        for chunks, cause in (((two + usage(1, 2) + DONE,), "3 tokens asked for, usage says 2"),
                              ((two + usage(1, 3) + DONE,), "3 tokens in 2 events"),
                              ((two + two + usage(1, 3) + DONE,), "3 tokens in 4 events"),
                              ((two + token() + DONE,), "usage says None"),
                              ((two + token() + usage(1, 3),), "without [DONE], after 3 events"),
                              ((two, event({"error": {"message": "rank 1 failed"}})), "rank 1 failed"),
                              ((token(), b"data: {nonsense}\n\n"), "Expecting")):
            found = self.judge(3, *[(11.0 + i, chunk) for i, chunk in enumerate(chunks)])
            self.assertIn(cause, found.get("error", ""))
        merged = self.judge(3, (11.0, two + usage(1, 3) + DONE), allow_merged=True)
        self.assertEqual((merged["output"], merged["events"]), (3, 2))
        self.assertIn("error", self.judge(3, (11.0, two + two + usage(1, 3) + DONE), allow_merged=True))

    def test_summary(self):
        requests = [{"input": 10, "output": 3, "events": 3, "sent_s": 100.0, "end_s": 101.0, "ttft": 0.5, "e2el": 1.0,
                     "tpot": 0.25, "itl": [0.2, 0.3]},
                    {"input": 20, "output": 1, "events": 1, "sent_s": 100.5, "end_s": 102.0, "ttft": 1.5, "e2el": 1.5,
                     "tpot": None, "itl": []}, {"error": "x"}]
        found = BENCH.summary_of(requests, 0.001, 0.5)
        expected = {"duration": 2.0, "completed": 2, "failed": 1, "total_input_tokens": 30, "total_output_tokens": 4,
                    "request_throughput": 1.0, "output_throughput": 2.0, "total_token_throughput": 17.0,
                    "mean_ttft_ms": 1000.0, "mean_tpot_ms": 250.0, "median_itl_ms": 250.0, "mean_e2el_ms": 1250.0,
                    "max_late_ms": 1.0, "server_cpu_s_per_1000_output_tokens": 125.0}
        for name, value in expected.items():
            self.assertAlmostEqual(found[name], value, places=9, msg=name)
        self.assertEqual(BENCH.summary_of([{"error": "x"}], 0.0, None)["output_throughput"], 0)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(200, json.dumps({"data": [{"id": "sheep", "root": "sheep"}]}).encode())

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.came:
            server.bodies.append((time.monotonic(), self.path, body))
            server.open_now += 1
            server.open_most = max(server.open_most, server.open_now)
            place = len(server.bodies)
            server.came.notify_all()
            server.came.wait_for(lambda: len(server.bodies) >= server.answers_after, timeout=60)
        if place in server.refused:
            with server.came:
                server.open_now -= 1
            self.reply(429, b'{"error": {"message": "busy"}}')
            return
        begun_s = time.thread_time()
        while time.thread_time() - begun_s < server.works_s:
            pass
        n_tokens = body.get("max_tokens") or body["max_completion_tokens"]
        make = (lambda: delta(content="x")) if "messages" in body else token
        parts = [make() for _ in range(n_tokens - (place in server.loses))] + [usage(9, n_tokens), DONE]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i, part in enumerate(parts):
            time.sleep(server.first_s if i == 0 else 0.002)
            if i == len(parts) - 1:
                with server.came:
                    server.open_now -= 1
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")


class Runs(harness.Case):
    def serve(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.came, server.bodies, server.open_now, server.open_most = threading.Condition(), [], 0, 0
        server.refused, server.loses, server.first_s, server.answers_after = (), (), 0.02, 0
        server.works_s = 0.0  # of processor time, for each request
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def bench(self, server, *options, expect=0):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figures.json")
            url = f"http://127.0.0.1:{server.server_address[1]}"
            done = subprocess.run([sys.executable, PROGRAM, "--base-url", url, "--output", path, *options],
                                  capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, expect, done.stderr)
            self.stderr = done.stderr
            if not os.path.exists(path):
                return None
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def test_closed_loop(self):
        server = self.serve()
        server.answers_after, server.works_s = 4, 0.005
        report = self.bench(server, "--clients", "4", "--requests", "12", "--processes", "2", "--input-len", "20",
                            "--output-len", "10", "--repeats", "2", "--server-pid", str(os.getpid()))
        self.assertLessEqual(VLLM_FIELDS, set(report))
        self.assertEqual((report["completed"], report["failed"], report["total_output_tokens"]), (12, 0, 120))
        self.assertEqual(report["total_input_tokens"], 108)
        self.assertEqual((report["model_id"], len(report["runs"])), ("sheep", 2))
        self.assertEqual(len(server.bodies), 4 + 2 * 12)
        self.assertEqual(server.open_most, 4)
        self.assertEqual(len({json.dumps(body["prompt"]) for _, _, body in server.bodies}), len(server.bodies))
        self.assertEqual({(len(body["prompt"]), body["max_tokens"]) for _, _, body in server.bodies}, {(20, 10)})
        body = server.bodies[0][2]
        self.assertEqual((body["stream"], body["ignore_eos"]), (True, True))
        self.assertEqual(body["stream_options"], {"include_usage": True})
        self.assertGreaterEqual(report["median_ttft_ms"], 20)
        self.assertGreaterEqual(report["median_e2el_ms"], 20 + 9 * 2)
        self.assertGreater(report["server_cpu_s_per_1000_output_tokens"], 0.2)  # 0.5 or more, in ticks of 10 ms
        self.assertEqual(report["spread"]["completed"], 0)

    def test_open_loop(self):
        """Requests are sent at their times: they wait neither for answers nor, unless clients are few, for each
        other."""
        server = self.serve()
        server.answers_after = 20
        report = self.bench(server, "--request-rate", "40", "--burstiness", "inf", "--requests", "40", "--input-len",
                            "5", "--output-len", "2", "--warmup", "0", "--processes", "2")
        self.assertEqual(report["completed"], 40)
        self.assertGreaterEqual(server.open_most, 20)
        arrivals = [moment for moment, _, _ in server.bodies]
        self.assertGreater(arrivals[-1] - arrivals[0], 0.5, "39 intervals of 25 ms, less a late first request")
        server = self.serve()
        server.answers_after = 3
        self.bench(server, "--request-rate", "1000", "--clients", "3", "--requests", "12", "--output-len", "2",
                   "--warmup", "0")
        self.assertEqual(server.open_most, 3)

    def test_chat_and_prefix(self):
        server = self.serve()
        report = self.bench(server, "--clients", "2", "--requests", "30", "--endpoint", "/v1/chat/completions",
                            "--model", "m", "--input-len", "6", "--prefix-len", "4", "--prefix-share", "0.5",
                            "--output-len", "2", "--range-ratio", "0.5", "--extra-body", '{"user": "bench"}')
        self.assertEqual(report["completed"], 30)
        self.assertEqual({(path, body["model"], body["user"]) for _, path, body in server.bodies},
                         {("/v1/chat/completions", "m", "bench")})
        beginnings = [" ".join(body["messages"][0]["content"].split()[:4]) for _, _, body in server.bodies]
        most = max(beginnings.count(beginning) for beginning in beginnings)
        self.assertTrue(10 <= most <= 24, most)

    def test_failures_are_reported(self):
        server = self.serve()
        server.refused, server.loses = (3,), (5, 6)
        report = self.bench(server, "--clients", "2", "--requests", "8", "--output-len", "4", "--warmup", "0", expect=1)
        self.assertEqual((report["completed"], report["failed"], report["total_output_tokens"]), (5, 3, 20))
        self.assertIn("2 of 8 requests failed: 4 tokens in 3 events", self.stderr)
        self.assertIn('1 of 8 requests failed: status 429: {"error": {"message": "busy"}}', self.stderr)

    def test_arguments(self):
        server = self.serve()
        for options, part in (((), "--clients or --request-rate"), (("--clients", "0"), "a number from 1"),
                              (("--request-rate", "0"), "a number above 0"),
                              (("--clients", "1", "--prefix-share", "2"), "from 0 to 1"),
                              (("--clients", "1", "--endpoint", "/v1/chat/completions", "--prompt", "ids"),
                               "texts only")):
            self.bench(server, *options, expect=2)
            self.assertIn(part, self.stderr)
        server.shutdown()
        server.server_close()
        self.bench(server, "--clients", "1", expect=1)
        self.assertIn("/v1/models: ", self.stderr)


if __name__ == "__main__":
    BENCH = load()
    harness.main()
