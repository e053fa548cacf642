"""A server whose answers a test writes. It serves the page's files from runtime/server/page, under a strict
Content-Security-Policy, and streams the test's texts when the test sends them."""

import http.server
import json
import os
import queue
import threading

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGE = os.path.join(ROOT, "runtime", "server", "page")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
METRICS = """# TYPE yoke:num_requests_running gauge
yoke:num_requests_running{model_name="sheep"} 3.0
yoke:num_requests_waiting{model_name="sheep"} 12.0
yoke:kv_cache_usage_perc{model_name="sheep"} 0.25
yoke:prefix_cache_queries_total{model_name="sheep"} 400
yoke:prefix_cache_hits_total{model_name="sheep"} 100
yoke:generation_tokens_total{model_name="sheep"} %(tokens)d
yoke:time_to_first_token_seconds_bucket{model_name="sheep",le="0.25"} 1
yoke:time_to_first_token_seconds_sum{model_name="sheep"} %(ttft_s)f
yoke:time_to_first_token_seconds_count{model_name="sheep"} %(firsts)d
yoke:rank_memory_bytes{model_name="sheep",rank="0",kind="weights"} 2147483648
yoke:rank_memory_bytes{model_name="sheep",rank="0",kind="kv"} 1073741824
yoke:rank_memory_bytes{model_name="sheep",rank="1",kind="weights"} 104857600
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub = None
    policy = POLICY

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.policy:
            self.send_header("Content-Security-Policy", self.policy)
        self.end_headers()
        self.wfile.write(data)

    def error(self, status, message):
        self.answer(status, {"error": {"message": message, "type": "error", "param": None, "code": status}})

    def may_pass(self):
        key = self.stub.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.error(401, "an API key is needed")
        return False

    def do_GET(self):
        name = self.path.lstrip("/") or "index.html"
        path = os.path.join(PAGE, os.path.basename(name))
        if name == os.path.basename(name) and os.path.isfile(path):
            with open(path, "rb") as file:
                self.answer(200, file.read(), TYPES[os.path.splitext(name)[1]])
        elif name == "health":
            self.answer(200, b"")
        elif self.may_pass():
            if name == "metrics":
                self.answer(200, (METRICS % self.stub.counters).encode(), "text/plain; version=0.0.4")
            elif name == "version":
                self.answer(200, {"version": "1.2.3"})
            elif name == "v1/models":
                self.answer(200, {"object": "list", "data": [{"id": "sheep", "object": "model", "root": "sheep"}]})
            else:
                self.error(404, "no such route")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.may_pass():
            return
        self.stub.requests.append((self.path, body))
        if self.stub.refusal:
            self.error(*self.stub.refusal)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        try:
            self.stream("chat" in self.path)
        except OSError:
            self.stub.left.set()

    def event(self, content):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.wfile.write(b"data: " + data + b"\n\n")
        self.wfile.flush()

    def stream(self, is_chat):
        n_tokens = 0
        self.wfile.write(b": a comment, which is to be skipped\n\n")
        if is_chat:
            role = {"role": "assistant", "content": ""}
            self.event({"choices": [{"index": 0, "delta": role, "finish_reason": None}]})
        while True:
            try:
                piece = self.stub.pieces.get(timeout=0.05)
            except queue.Empty:
                self.wfile.write(b": still here\n\n")  # fails once the client has left
                continue
            if isinstance(piece, dict) and "error" not in piece:
                self.event({"choices": [{"index": 0, "delta": piece, "finish_reason": None}]})
                continue
            if isinstance(piece, dict):
                self.event(piece)
                return
            reason = "stop" if piece is None else None
            n_tokens += piece is not None
            choice = {"delta": {"content": piece or ""}} if is_chat else {"text": piece or ""}
            self.event({"choices": [{"index": 0, "finish_reason": reason, **choice}]})
            if piece is None:
                self.event({"choices": [], "usage": {"completion_tokens": n_tokens}})
                self.event(b"[DONE]")
                return


class Stub:
    """requests: (path, body) of each POST. say() sends a text; None ends the answer, a dict with "error" is sent and
    ends the answer, any other dict is a separate delta. left: set when a client has left during an answer. refusal:
    (status, message) for every POST."""

    def __init__(self):
        self.requests, self.pieces, self.left, self.key, self.refusal = [], queue.Queue(), threading.Event(), None, None
        self.counters = {"tokens": 1000, "ttft_s": 1.0, "firsts": 10}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"stub": self}))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def say(self, *pieces):
        for piece in pieces:
            self.pieces.put(piece)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
