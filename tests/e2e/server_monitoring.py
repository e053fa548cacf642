"""`yoke serve` in operation: ids of requests, proxies in front, metrics, the log, routes for routers."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import harness
from server_case import JSON, N_LAYERS, Case, raw, read_events, request_bytes

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


@harness.of_the_program
class RequestIds(Case):
    def test_ids(self):
        """A valid client id is returned with every answer and is the answer's id; another is replaced."""
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
        for given, header, expected in (("mine", None, "mine"), ("mine", "theirs", "theirs"), ("a b", None, None)):
            answer = server.post(COMPLETIONS, {**body, "request_id": given}, {**key, "X-Request-Id": header})
            self.assertRegex(answer.value["id"], f"^cmpl-{expected or '[0-9a-f]{32}'}$")
            self.assertEqual(answer.value["id"], "cmpl-" + answer.getheader("X-Request-Id"))


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
        """The port of an nginx that only does proxy_pass."""
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
        """Events pass through when they are written, not when nginx's buffers of 4 KiB (about 25 events) are full."""
        if not NGINX or not harness.ON_CPU:
            self.skipTest("no nginx here, or decode steps of a GPU, which call no single operations")
        server, go_on = self.start_stalled(f"operation=attention call={12 * N_LAYERS}")
        server.wait_for()
        port = self.nginx_in_front(server)
        body = {"prompt": "x", "max_tokens": 300, "ignore_eos": True, "stream": True}
        with socket.create_connection(("127.0.0.1", port), harness.TIMEOUT_S) as connection:
            connection.sendall(request_bytes(COMPLETIONS, body, "X-Request-Id: through\r\nConnection: close\r\n"))
            answer = b""
            while answer.count(b"data: {") < 8:  # the twelfth token is still being computed
                answer += connection.recv(65536)
            self.assertLess(answer.count(b"data: {"), 13)
            go_on()
            while piece := connection.recv(65536):
                answer += piece
        self.assertIn(b"X-Request-Id: through\r\n", answer)
        self.assertEqual(answer.count(b"data: {"), 300)
        self.assertIn(b'"id":"cmpl-through"', answer)

# Names without the prefix: vLLM's, except for features that Yoke lacks (adapters, speculation, images, transfer of KV).
# The ranks' memory and the cache of states are Yoke's own metrics.
GAUGES = {"num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "engine_sleep_state",
          "kv_cache_usage_perc", "rank_memory_bytes", "cache_config_info", "state_cache_usage_perc"}
COUNTERS = {"prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total",
            "state_cache_hits_total", "state_cache_misses_total", "state_cache_evictions_total", "prompt_tokens_total",
            "masks_total", "masked_steps_total", "mask_time_seconds_total",
            "prompt_tokens_cached_total", "prompt_tokens_by_source_total", "generation_tokens_total",
            "request_success_total"}

# Metrics that vLLM's public dashboard for Grafana reads.
DASHBOARD = """
    vllm:e2e_request_latency_seconds_bucket vllm:e2e_request_latency_seconds_count vllm:e2e_request_latency_seconds_sum
    vllm:generation_tokens_total vllm:inter_token_latency_seconds_bucket vllm:inter_token_latency_seconds_count
    vllm:inter_token_latency_seconds_sum vllm:kv_cache_usage_perc vllm:num_requests_running vllm:num_requests_waiting
    vllm:prompt_tokens_total vllm:request_decode_time_seconds_sum vllm:request_generation_tokens_bucket
    vllm:request_max_num_generation_tokens_sum vllm:request_prefill_time_seconds_sum vllm:request_prompt_tokens_bucket
    vllm:request_queue_time_seconds_sum vllm:request_success_total vllm:time_to_first_token_seconds_bucket
    vllm:time_to_first_token_seconds_count vllm:time_to_first_token_seconds_sum""".split()


def parse_metrics(text):
    """{name: kind} and {(name, labels except engine and model_name): value}; the prefix stays. Each line is checked."""
    kinds, values = {}, {}
    for line in text.splitlines():
        if found := re.fullmatch(r"# TYPE (\S+) (\w+)", line):
            kinds[found[1]] = found[2]
        elif not re.match(r"# HELP \S+ \S", line):
            found = re.fullmatch(r'([\w:]+)(?:\{(?:engine="0",model_name="a \\"quoted\\\\name\\"")?,?(.*)\})? (\S+)',
                                 line)
            assert found, line
            values[found[1], found[2] or ""] = float(found[3])
    return kinds, values


@harness.of_the_program
class Metrics(Case):
    def test_metrics(self):
        server = self.serve("--tp", 2, "--served-model-name", 'a "quoted\\name"')
        body = {"prompt": ["The capital of Norway is", "17+25="], "max_tokens": 10, "ignore_eos": True, "n": 2}
        self.assertEqual(server.post(COMPLETIONS, body).status, 200)
        self.assertEqual(len(self.stream(server, COMPLETIONS, {**body, "prompt": "x", "n": 1})), 10)
        answer = server.ask("GET", "/metrics")
        self.assertEqual(answer.getheader("Content-Type"), "text/plain; version=0.0.4; charset=utf-8")
        kinds, values = parse_metrics(answer.text)
        kinds = {name.removeprefix("yoke:"): kind for name, kind in kinds.items() if name.startswith("yoke:")}
        values = {(name.removeprefix("yoke:"), labels): value for (name, labels), value in values.items()}
        self.assertEqual({name for name, kind in kinds.items() if kind == "gauge"}, GAUGES)
        self.assertEqual({name for name, kind in kinds.items() if kind == "counter"}, COUNTERS)
        for name in (name for name, kind in kinds.items() if kind == "histogram"):
            counts = [value for (key, _), value in values.items() if key == f"{name}_bucket"]
            self.assertEqual(counts, sorted(counts), name)
            self.assertEqual(counts[-1], values[f"{name}_count", ""], name)
        counted = {"time_to_first_token_seconds": 5, "inter_token_latency_seconds": 45,
                   "request_time_per_output_token_seconds": 5, "e2e_request_latency_seconds": 5,
                   "request_queue_time_seconds": 5, "request_prefill_time_seconds": 5, "request_decode_time_seconds": 5,
                   "request_inference_time_seconds": 5, "request_prompt_tokens": 5, "request_generation_tokens": 5,
                   "request_prefill_kv_computed_tokens": 5, "request_max_num_generation_tokens": 3,
                   "request_params_n": 2, "request_params_max_tokens": 5}
        for name, count in counted.items():
            self.assertEqual((name, values[f"{name}_count", ""]), (name, count))
        self.assertEqual(values["request_generation_tokens_sum", ""], 50)
        self.assertEqual(values["request_max_num_generation_tokens_sum", ""], 30)
        self.assertAlmostEqual(values["request_time_per_output_token_seconds_sum", ""] * 9,
                               values["request_decode_time_seconds_sum", ""])
        n_tokens = [server.post("/tokenize", {"prompt": text}).value["count"] for text in (*body["prompt"], "x")]
        n_prompt_tokens = 2 * n_tokens[0] + 2 * n_tokens[1] + n_tokens[2]  # each sample's, as in vLLM
        self.assertEqual(values["prompt_tokens_total", ""], n_prompt_tokens)
        self.assertEqual(values["request_prompt_tokens_sum", ""], n_prompt_tokens)
        self.assertEqual(values["generation_tokens_total", ""], 50)
        self.assertEqual(values["request_success_total", 'finished_reason="length"'], 5)
        self.assertEqual(values["iteration_tokens_total_sum", ""] - 45,
                         values["prompt_tokens_total", ""] - values["prefix_cache_hits_total", ""])
        self.assertGreater(values["rank_memory_bytes", 'rank="1",kind="weights"'], 1 << 20)
        (cache,) = (labels for name, labels in values if name == "cache_config_info")
        cache = dict(re.findall(r'(\w+)="([^"]*)"', cache))
        self.assertEqual((cache["block_size"], cache["enable_prefix_caching"]), ("16", "True"))
        self.assertEqual(16 * int(cache["num_gpu_blocks"]), int(cache["kv_cache_size_tokens"]))
        self.assertEqual((int(cache["max_num_seqs"]) > 0, cache["state_memory_bytes"]), (True, "0"))
        self.assertNotIn(("rank_memory_bytes", 'rank="1",kind="states"'), values)

    def test_cached_tokens(self):
        server = self.serve()
        body = {"prompt": list(range(5, 45)), "max_tokens": 2, "ignore_eos": True}
        for _ in range(2):
            self.assertEqual(server.post(COMPLETIONS, body).status, 200)
        self.assertEqual(server.metric("prompt_tokens_total"), 80)
        self.assertEqual(server.metric("prompt_tokens_cached_total"), 32)
        self.assertEqual(server.metric("prompt_tokens_by_source_total", source="local_compute"), 48)
        self.assertEqual(server.metric("prompt_tokens_by_source_total", source="local_cache_hit"), 32)
        self.assertEqual(server.metric("request_prefill_kv_computed_tokens_sum"), 48)

    def test_prefix_and_lint(self):
        """vLLM's dashboard finds its names; promtool complains only about names chosen by vLLM."""
        server = self.serve("--metrics-prefix", "vllm")
        self.assertEqual(server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 2}).status, 200)
        text = server.ask("GET", "/metrics").text
        self.assertNotIn("yoke:", text)
        self.assertEqual(set(DASHBOARD) - set(re.findall(r"(?m)^[\w:]+", text)), set())
        for line in text.splitlines():
            if line.startswith("vllm:"):
                self.assertRegex(line, r'^vllm:\w+\{engine="0",model_name="[^"]+"')
        if not PROMTOOL:
            self.skipTest("no promtool here")
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text.encode(), capture_output=True, check=False)
        remarks = done.stderr.decode().splitlines() + done.stdout.decode().splitlines()
        self.assertEqual([remark for remark in remarks if not remark.endswith("metric names should not contain ':'")],
                         ['vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix'])

    def test_prefixes_that_are_refused(self):
        for prefix in ("", "9a", "a-b", "a b", "vllm:", "\u00e9", "a" * 65):
            self.assert_usage_error(["serve", "-m", harness.DEMO, "--metrics-prefix", prefix], "--metrics-prefix",
                                    "letters")

    def test_http_requests(self):
        """By route, method and class of status, including refused requests; unknown paths of clients count as one
        route."""
        server = self.serve("--max-waiting", 0, "--max-num-seqs", 1)
        body = {"prompt": "x", "max_tokens": 900, "ignore_eos": True, "stream": True}
        with contextlib.closing(server.connect()) as connection:
            connection.request("POST", COMPLETIONS, json.dumps(body), JSON)
            response = connection.getresponse()
            response.readline()
            self.assertEqual(server.post(COMPLETIONS, body).status, 429)
            response.read()
        asked = [("GET", "/a", 404), ("POST", "/b", 404), ("GET", "/v1/c?d=e", 404), ("BREW", "/v1/models", 405),
                 ("DELETE", COMPLETIONS, 405), ("GET", "/v1/models", 200), ("GET", "/v1/models/f", 404),
                 ("GET", "/", 200), ("GET", "/health", 200), ("GET", "/version", 200)]
        for method, path, status in asked:
            self.assertEqual(server.ask(method, path).status, status)
        self.assertEqual(server.post(COMPLETIONS, "{").status, 400)
        head = b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        self.assertIn(b" 200 ", raw(server, head))
        self.assertIn(b" 400 ", raw(server, b"GET /v1/models HTTP/1.1\r\n\r\n"))
        _, values = parse_metrics(server.ask("GET", "/metrics").text)
        found = {labels: value for (name, labels), value in values.items() if name == "http_requests_total"}
        one = 'handler="%s",method="%s",status="%dxx"'
        expected = {one % (COMPLETIONS, "POST", 2): 1, one % (COMPLETIONS, "POST", 4): 2, one % ("none", "GET", 4): 2,
                    one % ("none", "POST", 4): 1, one % ("/v1/models", "other", 4): 1,
                    one % (COMPLETIONS, "DELETE", 4): 1, one % ("/v1/models", "GET", 2): 1,
                    one % ("/v1/models", "HEAD", 2): 1, one % ("/v1/models/{model}", "GET", 4): 1,
                    one % ("/", "GET", 2): 1, one % ("/v1/models", "GET", 4): 1}
        self.assertEqual(found, expected)
        durations = 'handler="%s",method="POST"' % COMPLETIONS
        self.assertEqual(values["http_request_duration_seconds_count", durations], 3)
        self.assertEqual(values["http_request_duration_seconds_bucket", durations + ',le="+Inf"'], 3)
        self.assertEqual(values["http_request_duration_highr_seconds_count", ""], sum(expected.values()))

    def test_a_client_that_leaves(self):
        server = self.serve()
        with contextlib.closing(server.connect()) as connection:
            body = {"prompt": "x", "max_tokens": 900, "ignore_eos": True}
            connection.request("POST", COMPLETIONS, json.dumps(body), JSON)
            server.wait_for_metric("num_requests_running", 1)
        server.wait_for_metric("num_requests_running", 0)
        self.assertIn(f'http_requests_total{{handler="{COMPLETIONS}",method="POST",status="4xx"}} 1\n',
                      server.ask("GET", "/metrics").text)

    def test_process(self):
        server = self.serve()
        _, values = parse_metrics(server.ask("GET", "/metrics").text)
        process = {name.removeprefix("process_"): value for (name, _), value in values.items()
                   if name.startswith("process_")}
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            resident = 1024 * int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
        self.assertLess(abs(process["resident_memory_bytes"] - resident), 16 << 20)
        self.assertGreater(process["virtual_memory_bytes"], process["resident_memory_bytes"])
        self.assertLess(abs(process["start_time_seconds"] - time.time()), 60)
        self.assertLess(abs(process["open_fds"] - len(os.listdir(f"/proc/{server.process.pid}/fd"))), 8)
        self.assertGreaterEqual(process["max_fds"], process["open_fds"])
        self.assertGreaterEqual(process["cpu_seconds_total"], 0)

    @unittest.skipUnless(harness.ON_CPU, "a model for CPU ranks")
    def test_metrics_of_experts(self):
        """A model that chooses expert 1 for every row and expert 4 for none."""
        server = self.serve("--tp", 2, "--enable-expert-parallel", model=os.path.join(harness.FAMILIES, "moe_glm4"))
        body = {"prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": True}
        self.assertEqual(server.post(COMPLETIONS, body).status, 200)
        rows = r'yoke:expert_rows_total{engine="0",model_name="[^"]*",layer="%d",expert="%d"} (\d+)'
        found = {}
        for _ in range(200):  # the counts are updated when the engine is idle
            text = server.ask("GET", "/metrics").text
            found = {(i, e): int(re.search(rows % (i, e), text)[1]) for i in (1, 2) for e in range(6)}
            if found[1, 1] == 6:
                break
            time.sleep(0.05)
        for layer in (1, 2):
            self.assertEqual((found[layer, 1], found[layer, 4]), (6, 0))
            self.assertEqual(sum(found[layer, e] for e in range(6)), 18)
        shares = [float(share) for share in re.findall(r'yoke:expert_rank_share{.*rank="\d"} (\S+)', text)]
        self.assertEqual(len(shares), 2)
        self.assertAlmostEqual(shares[0], sum(found[i, e] for i in (1, 2) for e in range(3)) / 36)
        self.assertRegex(text, r"yoke:expert_busiest_rank_share{.*} (0\.[5-9]|1)")

    def test_metrics_of_prompts_under_way(self):
        """Counted with the first token; for a prompt without a token, at its end."""
        server = self.serve()
        prompt = "Tell a story: Mia the fox, a red kite, the garden."
        n_tokens = server.post("/tokenize", {"prompt": prompt}).value["count"]
        names = ("prompt_tokens_total", "request_prompt_tokens_count", "request_queue_time_seconds_count",
                 "request_prefill_time_seconds_count")
        with contextlib.closing(server.connect()) as connection:
            body = {"prompt": prompt, "max_tokens": 900, "ignore_eos": True, "stream": True}
            connection.request("POST", COMPLETIONS, json.dumps(body), JSON)
            response = connection.getresponse()
            self.assertTrue(response.readline().startswith(b"data: {"))
            self.assertEqual(server.metric("e2e_request_latency_seconds_count"), 0)
            self.assertEqual([server.metric(name) for name in names], [n_tokens, 1, 1, 1])
        server.wait_for_metric("num_requests_running", 0)
        scored = {"prompt": prompt, "max_tokens": 0, "prompt_logprobs": 0}
        self.assertEqual(server.post(COMPLETIONS, scored).status, 200)
        self.assertEqual([server.metric(name) for name in names], [2 * n_tokens, 2, 2, 2])


@harness.of_the_program
class Log(Case):
    def test_refused_requests(self):
        """One line per request, with the client's id. Paths and values of clients begin no line."""
        server = self.serve("--api-key", "k", "--max-waiting", 0, "--max-num-seqs", 1)
        key = {"Authorization": "Bearer k"}

        def refused(method, path, body=None, headers=key, **more):
            given = f"id-{len(expected)}"
            status = server.ask(method, path, body, {**headers, "X-Request-Id": given}).status
            begins = f"refused {method} {more.get('route', path)} with {status}, request {given}: "
            expected.append((begins, more["text"]))

        expected = []
        refused("GET", "/no%0Arefused%C2%85path", route="(no route)", text="nothing at /no")
        refused("PUT", COMPLETIONS, text="PUT is not allowed")
        refused("GET", "/v1/models/f", route="/v1/models/{model}", text='model "f" is not served')
        refused("POST", COMPLETIONS, {"prompt": "x"}, {}, text="Authorization")
        refused("POST", COMPLETIONS, {"prompt": "x", "max_tokens": -7}, text="-7")
        refused("POST", COMPLETIONS, {"prompt": "x", "model": "a\nrefused\u2028b"}, text="refused")
        refused("OPTIONS", COMPLETIONS, None, {"Origin": "http://a", "Access-Control-Request-Method": "POST"},
                text="--cors-origin")
        with contextlib.closing(server.connect()) as connection:
            body = {"prompt": "x", "max_tokens": 900, "ignore_eos": True, "stream": True}
            connection.request("POST", COMPLETIONS, json.dumps(body), {**JSON, **key})
            connection.getresponse().readline()
            refused("POST", COMPLETIONS, {"prompt": "x"}, text="too many requests")
        self.assertEqual(server.ask("GET", "/v1/models", headers=key).status, 200)
        self.assertEqual(server.stop(), 0)
        lines = [line for line in server.err.splitlines() if "refused" in line]
        self.assertEqual(len(lines), len(expected), server.err)
        for line, (begins, text) in zip(lines, expected):
            self.assertTrue(line.removeprefix("yoke: ").startswith(begins), line)
            self.assertIn(text, line)

    def test_streams_that_break_off(self):
        server = self.serve("--request-timeout", "0.5")
        body = {"prompt": "x", "n": 16, "max_tokens": 900, "ignore_eos": True, "stream": True}
        answer = raw(server, request_bytes(COMPLETIONS, body, "X-Request-Id: slow\r\nConnection: close\r\n"))
        self.assertIn(b'"error"', answer)
        server.wait_for_err(f"broke off POST {COMPLETIONS} with 200, request slow: the request was not finished within")

    def test_no_line_for_probes(self):
        server, go_on = self.start_stalled("operation=linear_create call=1")
        self.assertEqual(server.ask("GET", "/health").status, 503)
        self.assertEqual(server.ask("GET", "/v1/models", headers={"X-Request-Id": "early"}).status, 503)
        go_on()
        server.wait_for()
        server.wait_for_err("refused GET /v1/models with 503, request early: the model is loading")
        self.assertNotIn("/health", server.err)

    def test_stats(self):
        """Lines are written while the engine is busy, and one after it."""
        server = self.serve("--log-stats-interval", "0.1")
        line = (r"stats: running (\d+), waiting (\d+), prompt ([\d.]+) tokens/s, output ([\d.]+) tokens/s, "
                r"KV cache ([\d.]+) %, prefix hits ([\d.]+) %")
        time.sleep(0.5)
        self.assertNotIn("stats:", server.err)
        body = {"prompt": list(range(5, 45)), "max_tokens": 900, "ignore_eos": True}
        self.assertEqual(server.post(COMPLETIONS, body).status, 200)
        server.wait_for_err("stats:")
        time.sleep(0.5)
        found = [list(map(float, numbers)) for numbers in re.findall(line, server.err)]
        self.assertEqual(len(found), server.err.count("stats:"))
        running, _, _, _, kv, hits = zip(*found)
        self.assertEqual((max(running), max(hits)), (1, 0))
        for column, n_tokens in ((2, 40), (3, 900)):  # over the same number of intervals, which are 0.1 s or slightly
                                                      # longer
            self.assertTrue(0 < sum(numbers[column] for numbers in found) * 0.1 < 1.2 * n_tokens)
        self.assertGreater(max(kv), 0)
        self.assertEqual(server.post(COMPLETIONS, {**body, "max_tokens": 1}).status, 200)
        server.wait_for_err("prefix hits 80.0 %")
        time.sleep(0.5)
        n_lines = server.err.count("stats:")
        time.sleep(0.3)
        self.assertEqual(server.err.count("stats:"), n_lines)

    def test_stats_can_be_off(self):
        server = self.serve("--log-stats-interval", "0.1", "--disable-log-stats")
        self.assertEqual(server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 50, "ignore_eos": True}).status, 200)
        time.sleep(0.3)
        self.assertNotIn("stats:", server.err)


@harness.of_the_program
class Routes(Case):
    def test_reset_prefix_cache(self):
        server = self.serve("--enable-prompt-tokens-details")
        body = {"prompt": list(range(5, 45)), "max_tokens": 2, "ignore_eos": True, "temperature": 0}

        def cached():
            before = server.metric("prompt_tokens_cached_total")
            texts.add(server.post(COMPLETIONS, body).value["choices"][0]["text"])
            return server.metric("prompt_tokens_cached_total") - before

        texts = set()
        self.assertEqual([cached(), cached()], [0, 32])
        with contextlib.closing(server.connect()) as connection:  # a request that is still running
            long = {"prompt": list(range(5, 100)), "max_tokens": 600, "ignore_eos": True, "stream": True}
            connection.request("POST", COMPLETIONS, json.dumps(long), JSON)
            response = connection.getresponse()
            response.readline()
            for headers in (None, {"Content-Type": None}, {"Content-Type": "text/plain"}):
                reset = server.ask("POST", "/reset_prefix_cache", headers=headers)
                self.assertEqual((reset.status, reset.value), (200, {"success": True}))
            self.assertEqual([cached(), cached()], [0, 32])
            self.assertEqual(len([event for event in read_events(response) if event != "[DONE]"]), 599)
        self.assertEqual(len(texts), 1)
        self.assert_refused(server.ask("GET", "/reset_prefix_cache"), 405, "POST")

    def test_routes_that_routers_read(self):
        server = self.serve("--served-model-name", "m", "--max-num-seqs", 3, "--max-model-len", 512, "--tp", 2,
                            "--pipeline-parallel-size", 3)
        info = server.ask("GET", "/server_info").value
        expected = {"served_model_name": "m", "model_path": "m", "tp_size": 2, "dp_size": 1, "pp_size": 3,
                    "context_length": 512, "max_running_requests": 3, "is_embedding": False,
                    "version": server.ask("GET", "/version").value["version"]}
        self.assertEqual({key: info[key] for key in expected}, expected)
        model = server.ask("GET", "/model_info").value
        self.assertEqual((model["model_path"], model["is_generation"], model["model_type"]), ("m", True, "qwen3"))
        (served,) = server.ask("GET", "/v1/models").value["data"]
        self.assertEqual((served["owned_by"], served["max_model_len"]), ("yoke", 512))
        with contextlib.closing(server.connect()) as connection:
            body = {"prompt": list(range(5, 45)), "max_tokens": 400, "ignore_eos": True, "stream": True}
            connection.request("POST", COMPLETIONS, json.dumps(body), JSON)
            response = connection.getresponse()
            response.readline()
            loads = "/v1/loads?include=core,disagg,queues,memory"
            while server.ask("GET", loads).value["loads"][0]["num_waiting_uncached_tokens"]:
                time.sleep(0.01)  # the figures are those before the last step
            answer = server.ask("GET", loads).value
            (older,) = server.ask("GET", "/get_load").value
            response.read()
        self.assertRegex(answer["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")
        (load,) = answer["loads"]
        self.assertEqual((answer["dp_rank_count"], load["dp_rank"]), (1, 0))
        self.assertEqual((load["num_running_reqs"], load["num_waiting_reqs"], load["num_total_reqs"]), (1, 0, 1))
        self.assertEqual(load["max_running_requests"], 3)
        self.assertGreaterEqual(load["num_used_tokens"], 40)
        self.assertEqual((load["num_waiting_uncached_tokens"], load["num_total_tokens"]), (0, load["num_used_tokens"]))
        self.assertEqual((older["dp_rank"], older["num_reqs"], older["num_waiting_reqs"]), (0, 1, 0))
        self.assertGreaterEqual(older["num_tokens"], load["num_used_tokens"])
        self.assertAlmostEqual(load["token_usage"], load["num_used_tokens"] / load["max_total_num_tokens"])
        self.assertAlmostEqual(load["utilization"], 1 / 3)
        self.assertEqual((load["gen_throughput"], load["cache_hit_rate"]), (0, 0))

    def test_tokens_that_wait(self):
        """Tokens of waiting prompts plus the remaining tokens of a running prompt: the value by which a router compares
        replicas."""
        server = self.serve("--max-num-seqs", 1, "--max-num-batched-tokens", 16)
        body = {"prompt": list(range(5, 45)), "max_tokens": 900, "ignore_eos": True}
        connections = [server.connect() for _ in range(3)]
        with contextlib.ExitStack() as stack:
            for connection in connections:
                stack.enter_context(contextlib.closing(connection))
                connection.request("POST", COMPLETIONS, json.dumps(body), JSON)
                server.wait_for_metric("num_requests_running", 1)
            server.wait_for_metric("num_requests_waiting", 2)
            (load,) = server.ask("GET", "/v1/loads").value["loads"]
            (older,) = server.ask("GET", "/get_load").value
            self.assertEqual((load["num_waiting_reqs"], older["num_waiting_reqs"]), (2, 2))
            self.assertGreaterEqual(load["num_waiting_uncached_tokens"], 80)
            self.assertEqual(load["num_total_tokens"], load["num_used_tokens"] + load["num_waiting_uncached_tokens"])
            self.assertGreaterEqual(older["num_tokens"], 80)
        server.wait_for_metric("num_requests_waiting", 0)
        server.wait_for_metric("num_requests_running", 0)
        (load,) = server.ask("GET", "/v1/loads").value["loads"]
        self.assertEqual(load["num_waiting_uncached_tokens"], 0)

    def test_tokenizer_info(self):
        refused = self.serve().ask("GET", "/tokenizer_info")
        self.assert_refused(refused, 404, "--enable-tokenizer-info-endpoint")
        with tempfile.TemporaryDirectory(prefix="yoke-info-") as folder:
            for name in os.listdir(harness.DEMO):
                os.symlink(os.path.join(harness.DEMO, name), os.path.join(folder, name))
            with open(os.path.join(harness.DEMO, "tokenizer_config.json"), encoding="utf-8") as file:
                config = json.load(file)
            path = os.path.join(folder, "tokenizer_config.json")
            os.remove(path)
            more = {"bos_token": {"__type": "AddedToken", "content": "<|im_start|>", "lstrip": False},
                    "model_max_length": 10**18, "vocab_file": "/secret/vocab.json", "nested": {"a": [1, {}, []]},
                    "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}"}
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**config, **more}, file)
            server = self.serve("--enable-tokenizer-info-endpoint", "--api-key", "k", model=folder)
            self.assertEqual(server.ask("GET", "/tokenizer_info").status, 401)
            info = server.ask("GET", "/tokenizer_info", headers={"Authorization": "Bearer k"}).value
            with open(path, "w", encoding="utf-8") as file:
                file.write("{")
            broken = server.ask("GET", "/tokenizer_info", headers={"Authorization": "Bearer k"})
            self.assert_refused(broken, 500, "see the server's log")
            self.assertNotIn(folder, broken.text)
            server.wait_for_err(f"/tokenizer_info: {path}: ")
        expected = {**config, **more, "bos_token": "<|im_start|>",
                    "added_tokens_decoder": {"920": "<|endoftext|>", "921": "<|im_start|>", "922": "<|im_end|>"}}
        del expected["vocab_file"]
        self.assertEqual(info, expected)


NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
PROMTOOL = shutil.which("promtool")

if __name__ == "__main__":
    harness.main()
