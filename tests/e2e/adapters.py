"""Low-rank adapters: goldens of peft on one to three ranks, stages and processes; the same bits in any company;
adapters as models of the server and of lines of a batch; refusals."""

import contextlib
import json
import os
import random
import re
import shutil
import struct
import time

import harness
from processes_case import ProcessesCase
from safetensors_case import NAME, write_tensors
from server_case import Case, JSON, Server

ADAPTERS = os.path.join(harness.TESTS_DIR, "golden", "adapters")
TOLERANCE = 1e-3
QWEN = os.path.join(harness.FAMILIES, "qwen3_f32")


def path_of(name):
    return os.path.join(ADAPTERS, name)


def golden(name):
    with open(os.path.join(path_of(name), "golden.json"), encoding="utf-8") as file:
        return json.load(file)


def case_names():
    return sorted(os.listdir(ADAPTERS))


def with_adapters(**paths):
    return ["--enable-lora", "--lora-modules", *(f"{name}={path}" for name, path in paths.items())]


def in_use(server):
    """The places for adapters, and the adapters in use, of /metrics."""
    text = server.ask("GET", "/metrics").text
    return re.search(r'\nyoke:lora_requests_info\{.*max_lora="(\d+)",running_lora_adapters="(.*)",'
                     r'waiting_lora_adapters="(.*)"\} 1\d{9}\n', text).groups()


def scaled_copy(name, folder, **changes):
    """A copy of an adapter with changes of its configuration."""
    shutil.copytree(path_of(name), folder)
    path = os.path.join(folder, "adapter_config.json")
    with open(path, encoding="utf-8") as file:
        config = {**json.load(file), **changes}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return folder


def distances(results, others):
    """The largest difference of the log-probabilities of each prompt."""
    return [max(abs(x["logprob"] - y["logprob"]) for x, y in
                zip(one["prompt_logprobs"], other["prompt_logprobs"], strict=True))
            for one, other in zip(results, others, strict=True)]


def write_random(folder, *modules):
    """An adapter of both layers' modules, given as (name, k, n)."""
    rng, tensors = random.Random(5), {}
    os.mkdir(folder)
    for layer in range(2):
        for module, k, n in modules:
            for part, shape in (("lora_A", [2, k]), ("lora_B", [n, 2])):
                values = [rng.gauss(0, 1 / shape[1] ** 0.5) for _ in range(shape[0] * shape[1])]
                tensors[f"base_model.model.model.layers.{layer}.{module}.{part}.weight"] = [
                    "F32", shape, struct.pack(f"<{len(values)}f", *values)]
    write_tensors(folder, tensors)
    os.rename(os.path.join(folder, NAME), os.path.join(folder, "adapter_model.safetensors"))
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 2}, file)


class Numbers(ProcessesCase):
    def generate(self, model, prompts, *options, processes=1):
        ids = [part for prompt in prompts for part in ("--token-ids", ",".join(map(str, prompt)))]
        arguments = ("generate", "--model", model, "--device", "cpu", "--dtype", "float32", "--temperature", 0, "-n", 6,
                     "--logprobs", 0, "--prompt-logprobs", 0, "--ignore-eos", "--kv-cache-bytes", "4MiB", *ids,
                     *options)
        if processes == 1:
            return self.run_json(*arguments)
        started = self.start(processes, *arguments, "--format", "json")
        self.end(started)
        return [json.loads(line) for line in started[0].out.splitlines()]

    def check(self, name, *options, **more):
        wanted = golden(name)
        model = os.path.join(harness.FAMILIES, wanted["family"])
        found = self.generate(model, [prompt["prompt_ids"] for prompt in wanted["prompts"]],
                              *with_adapters(x=path_of(name)), "--adapter", "x", *options, **more)
        for prompt, result in zip(wanted["prompts"], found, strict=True):
            for step, expected in zip(result["prompt_logprobs"], prompt["prompt_logprobs"], strict=True):
                self.assertAlmostEqual(step["logprob"], expected, delta=TOLERANCE)
            for i, token in enumerate(prompt["output_ids"]):
                if result["token_ids"][i] != token:
                    self.assertLess(prompt["margins"][i], TOLERANCE, "another token")
                    break
                self.assertAlmostEqual(result["logprobs"][i]["logprob"], prompt["output_logprobs"][i], delta=TOLERANCE)

    def test_goldens(self):
        self.assertGreaterEqual(len(case_names()), 1)
        for name in case_names():
            for options in (("--tp", 1), ("--tp", 3)):
                with self.subTest(name=name, options=options):
                    self.check(name, *options)

    def test_goldens_in_stages_and_processes(self):
        for options in (("--tp", 2), ("--pp", 2, "--max-num-batched-tokens", 7, "--max-num-seqs", 2)):
            self.check("all_linear", *options)
        self.check("all_linear", "--tp", 2, processes=2)
        self.check("all_linear", "--pp", 2, processes=2)

    def test_processes_with_other_weights(self):
        """The roll call compares configuration and weights, not names alone."""
        folder = harness.scratch_folder(self.addCleanup)
        same = scaled_copy("all_linear", os.path.join(folder, "same"))
        other = shutil.copytree(same, os.path.join(folder, "other"))
        with open(os.path.join(other, "adapter_model.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x3f")
        scaled = scaled_copy("all_linear", os.path.join(folder, "scaled"), lora_alpha=-3)
        for path in (other, scaled):
            processes = self.start(2, "generate", "--model", QWEN, "--device", "cpu", "--tp", 2, "--token-ids", "5",
                                   "-n", 1, "--start-timeout", 30,
                                   more={0: with_adapters(x=same), 1: with_adapters(x=path)})
            self.end_failed(processes, "lora-modules differs: x=")

    def batch(self, lines, *options):
        """The results of lines of prompts and adapters (None: none), as token ids and log-probabilities."""
        text = "".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {
            "prompt": ids, "model": name or "m", "max_tokens": 6, "temperature": 0, "ignore_eos": True, "logprobs": 0}})
                       + "\n" for i, (ids, name) in enumerate(lines))
        done = self.run_yoke("batch", "--model", QWEN, "-", "--device", "cpu", "--dtype", "float32",
                             "--kv-cache-bytes", "4MiB", *options, stdin=text)
        answers = {int(answer["custom_id"]): answer["response"]["body"] for answer in
                   map(json.loads, done.out.splitlines())}
        for i, (_, name) in enumerate(lines):
            self.assertEqual(answers[i]["model"], name or "m")
        return [answers[i]["choices"][0]["logprobs"]["token_logprobs"] for i in range(len(lines))]

    def test_the_same_bits_in_any_company(self):
        """Rows with two adapters and with none in the same steps, prefixes that differ in their adapter alone."""
        prompts = [prompt["prompt_ids"] for prompt in golden("all_linear")["prompts"]]
        other = scaled_copy("all_linear", os.path.join(harness.scratch_folder(self.addCleanup), "other"), lora_alpha=-3)
        adapters = with_adapters(x=path_of("all_linear"), y=other)
        lines = [(prompt, name) for prompt in prompts for name in ("x", None, "y", "x", None)]
        for n_ranks in (1, 2):
            plain = self.batch([(prompt, None) for prompt in prompts], "--tp", n_ranks)
            alone = {name: self.batch([(prompt, name) for prompt in prompts], "--tp", n_ranks, "--max-num-seqs", 1,
                                      "--no-prefix-reuse", *adapters) for name in ("x", "y", None)}
            self.assertEqual(alone[None], plain)
            self.assertNotEqual(alone["x"], alone["y"])
            self.assertNotEqual(alone["x"], plain)
            for options in ((), ("--max-num-batched-tokens", 9, "--max-num-seqs", 3), ("--max-num-seqs", 1)):
                found = self.batch(lines, "--tp", n_ranks, *adapters, *options)
                for i, (prompt, name) in enumerate(lines):
                    self.assertEqual(found[i], alone[name][prompts.index(prompt)], f"{n_ranks} {options} line {i}")

    def test_sorted_inputs(self):
        """A layer whose inputs are sorted by group, against its dequantised form, which sorts nothing."""
        model = os.path.join(harness.FAMILIES, "format_gptq_act_order")
        with open(os.path.join(model, "golden.json"), encoding="utf-8") as file:
            prompts = [prompt["prompt_ids"] for prompt in json.load(file)["prompts"]][1:]
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "x")
        write_random(folder, ("mlp.gate_proj", 96, 96), ("mlp.down_proj", 96, 96), ("self_attn.o_proj", 192, 96))
        options = (*with_adapters(x=folder), "--adapter", "x")
        plain = self.generate(model, prompts)
        found = [self.generate(model, prompts, *options, "--tp", n_ranks, *more)
                 for n_ranks, more in ((1, ("--weights", "f16")), (1, ()), (3, ()))]
        for results in found[1:]:
            self.assertLess(max(distances(results, found[0])), 2e-2)
            self.assertGreater(min(distances(results, plain)), 0.1)

    def test_integer_sums(self):
        """Layers whose integer sums ranks add: the adapter's products are added to the scaled sums."""
        model = os.path.join(harness.FAMILIES, "format_w8a8")
        with open(os.path.join(model, "golden.json"), encoding="utf-8") as file:
            prompts = [prompt["prompt_ids"] for prompt in json.load(file)["prompts"]][1:]
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "x")
        write_random(folder, ("mlp.down_proj", 100, 96), ("self_attn.o_proj", 96, 96))
        options = (*with_adapters(x=folder), "--adapter", "x")
        plain, alone, found = (self.generate(model, prompts, *more) for more in ((), options, (*options, "--tp", 3)))
        self.assertLess(max(distances(found, alone)), TOLERANCE)
        self.assertGreater(min(distances(alone, plain)), 0.1)

    def test_norms_with_an_offset(self):
        """The offset is part of the biases of the layers that read the norm, and is not in an adapter's inputs."""
        model = os.path.join(harness.FAMILIES, "format_msmodelslim_w8a16")
        folder = harness.scratch_folder(self.addCleanup)
        for name, *modules in (("read", ("self_attn.q_proj", 96, 96)),
                               ("others", ("self_attn.o_proj", 96, 96), ("mlp.down_proj", 100, 96))):
            write_random(os.path.join(folder, name), *modules)
        options = ("--token-ids", "5", "-n", 1, "--device", "cpu", "--enable-lora", "--lora-modules")
        self.assert_error(("generate", "--model", model, *options, "x=" + os.path.join(folder, "read")),
                          "layers.0.self_attn.q_proj.lora_A.weight", "norm", "offset")
        self.run_yoke("generate", "--model", model, *options, "x=" + os.path.join(folder, "others"), "--adapter", "x")

    def test_refusals(self):
        base = ("generate", "--model", QWEN, "--token-ids", "5", "-n", 1)
        x = f"x={path_of('all_linear')}"
        for options, words in (
                (("--lora-modules", x), ("--lora-modules", "--enable-lora")),
                (("--enable-lora", "--lora-modules", "x"), ("NAME=PATH",)),
                (("--enable-lora", "--lora-modules", '{"name": "x"}'), ("name and path",)),
                (("--enable-lora", "--lora-modules", '{"name": "x", "path": "y", "z": 1}'), ('"z"',)),
                (("--enable-lora", "--lora-modules", x, x.replace("x", "y", 1), "--max-loras", 1),
                 ("--max-loras", "at least 2", "found 1")),
                (("--enable-lora", "--max-lora-rank", 0), ("--max-lora-rank",)),
                (("--enable-lora", "--adapter", "x"), ("--adapter", '"x"'))):
            self.assert_usage_error((*base, *options), *words)
        control = (r'{"name": "x\n", "path": "' + path_of("all_linear") + '"}')
        nul = control.replace(r"\n", r"\u0000")
        serve = ("serve", QWEN, "--port", 0, "--device", "cpu", "--enable-lora")
        for options, words in (
                (("--served-model-name", "m", "x", "--lora-modules", x), ("--lora-modules", '"x"')),
                (("--lora-modules", nul), ("--lora-modules", "name and path")),
                (("--allowed-lora-path", "/nowhere"), ("--allowed-lora-path", '"/nowhere"')),
                (("--allowed-lora-path", ""), ("--allowed-lora-path", '""'))):
            self.assert_usage_error((*serve, *options), *words)
        for options, words in (
                (("--lora-modules", control), ("adapter's name", "control character", "10")),
                (("--lora-modules", "x=/nowhere"), ("adapter x", "adapter_config.json")),
                (("--lora-modules", x, x), ("adapters", '"x" twice')),
                (("--lora-modules", x, "--max-lora-rank", 2), ("adapter x", "max_lora_rank", "found 3"))):
            self.assert_error((*base, "--enable-lora", *options, "--device", "cpu"), *words)

    def test_plans(self):
        """Each adapter slot takes the same memory, in whole tiles on a GPU."""
        for device in ("cpu", "cuda"):
            plain, two, four = (self.run_json("plan", QWEN, "--device", device, "--device-memory", "80GB", "--tp", 1,
                                              *options)[0]["ranks"][0]["weight_bytes"] for options in (
                (), ("--enable-lora", "--max-loras", 2), ("--enable-lora", "--max-loras", 4)))
            self.assertGreater(two, plain)
            self.assertAlmostEqual(four - plain, 2 * (two - plain), delta=0.02 * four)


@harness.of_the_program
class Route(Case):
    """The server, with one adapter at its start and room for another."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = harness.scratch_folder(cls.addClassCleanup)
        cls.below = os.path.join(cls.folder, "private" * 36, "below")  # longer than an error's message
        os.makedirs(os.path.join(cls.below, "empty"))
        scaled_copy("all_linear", os.path.join(cls.below, "other"), lora_alpha=-3)
        scaled_copy("all_linear", os.path.join(cls.below, "same"))
        scaled_copy("all_linear", os.path.join(cls.below, "dora"), use_dora=True)
        os.symlink(path_of("all_linear"), os.path.join(cls.below, "link"))
        cls.server = Server(cls.yoke, "--dtype", "float32", "--served-model-name", "m", "n", *with_adapters(
            x=path_of("all_linear")), "--max-loras", 2, "--allowed-lora-path", cls.below, model=QWEN)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_for()

    def complete(self, model, status=200, **fields):
        answer = self.server.post("/v1/completions", {"model": model, "prompt": [5, 9, 3, 7], "max_tokens": 6,
                                                      "temperature": 0, "ignore_eos": True, "logprobs": 0,
                                                      "return_token_ids": True, **fields})
        self.assertEqual(answer.status, status, answer.text)
        return answer.value

    def tokens(self, model):
        value = self.complete(model)
        self.assertEqual(value["model"], "m" if model in ("m", "n") else model)
        return value["choices"][0]["logprobs"]["token_logprobs"]

    def models(self):
        return [(model["id"], model["parent"]) for model in self.server.ask("GET", "/v1/models").value["data"]]

    def load(self, name, path, status=200, **fields):
        answer = self.server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": path, **fields})
        self.assertEqual(answer.status, status, answer.text)
        return answer.text

    def unload(self, name, status=200):
        answer = self.server.post("/v1/unload_lora_adapter", {"lora_name": name})
        self.assertEqual(answer.status, status, answer.text)

    def test_models(self):
        self.assertEqual(self.models(), [("m", None), ("n", None), ("x", "m")])
        self.assertEqual(self.server.ask("GET", "/v1/models/x").value["parent"], "m")
        self.assertEqual(self.server.ask("GET", "/v1/models/y").status, 404)
        base, adapted = self.tokens("m"), self.tokens("x")
        self.assertNotEqual(base, adapted)
        self.assertEqual((self.tokens("n"), self.tokens("x"), self.tokens("m")), (base, adapted, base))
        self.complete("y", status=404)

    def test_load_and_unload(self):
        self.assertIn("Success", self.load("y", "other"))
        self.assertEqual(self.models()[2:], [("x", "m"), ("y", "m")])
        found = self.tokens("y")
        self.assertNotIn(found, (self.tokens("m"), self.tokens("x")))
        self.load("y", "other", status=400)
        text = self.load("z", os.path.join(self.below, "other"), status=400)
        self.assertEqual(("max_adapters" in text, json.loads(text)["error"]["code"]), (True, None))
        self.unload("y")
        self.complete("y", status=404)
        self.unload("y", status=404)
        self.load("y", os.path.join(self.below, "other"))
        self.assertEqual(self.tokens("y"), found)
        self.unload("y")

    def test_load_in_place(self):
        """Every place is taken. A replaced adapter reuses nothing of a prompt that the old one computed."""
        prompt = list(range(5, 85))
        logprobs = [self.complete(model, prompt=prompt)["choices"][0]["logprobs"]["token_logprobs"]
                    for model in ("x", "m")]
        self.load("y", "other", load_inplace=True)  # a new name
        old = self.complete("y", prompt=prompt)["choices"][0]["logprobs"]["token_logprobs"]
        self.assertNotIn(old, logprobs)
        self.assertIn("load_inplace", self.load("y", "same", status=400))
        self.assertIn("load_inplace", self.load("y", "same", status=400, load_inplace="yes"))
        self.assertIn("use_dora", self.load("y", "dora", status=400, load_inplace=True))
        self.load("m", "same", status=400, load_inplace=True)
        self.assertIn("max_adapters", self.load("z", "same", status=400, load_inplace=True))
        self.assertEqual(self.complete("y", prompt=prompt)["choices"][0]["logprobs"]["token_logprobs"], old)
        for path, expected in (("same", logprobs[0]), ("other", old)):
            self.assertIn("Success", self.load("y", path, load_inplace=True))
            self.assertEqual(self.complete("y", prompt=prompt)["choices"][0]["logprobs"]["token_logprobs"], expected)
        self.assertEqual(self.models()[2:], [("x", "m"), ("y", "m")])
        self.unload("y")

    def test_load_in_place_while_requests_run(self):
        """Running requests continue, with the new weights; none fails."""
        self.load("y", "other")
        connection = self.server.connect()
        body = {"model": "y", "prompt": [5, 9, 3, 7], "max_tokens": 240, "temperature": 0, "ignore_eos": True,
                "stream": True, "stream_options": {"include_usage": True}}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        first = response.readline()
        for path in ("same", "other", "same"):
            self.load("y", path, load_inplace=True)
        text = first + response.read()
        connection.close()
        self.assertIn(b'"completion_tokens":240', text)
        self.assertNotIn(b'"error"', text)
        self.assertEqual(self.tokens("y"), self.tokens("x"))
        self.unload("y")

    def test_refused(self):
        for path in ("..", ".", "link", "/", path_of("all_linear"), "missing", "other/../../below/../.."):
            self.assertIn("lora_path", self.load("z", path, status=400))
        text = self.load("z", "dora", status=400)
        self.assertIn("use_dora", text)
        self.assertNotIn(self.folder, text)
        text = self.load("z", "empty", status=400)
        self.assertIn("the server's log has more", text)
        self.assertNotIn("private", text)
        weights = os.path.join(scaled_copy("all_linear", os.path.join(self.below, "cut")), "adapter_model.safetensors")
        os.truncate(weights, os.path.getsize(weights) - 1)
        self.assertIn("adapter_model.safetensors: cut short", self.load("z", "cut", status=400))
        self.load("m", "other", status=400)
        for name, word in (("", "empty"), ("a\0b", "NUL"), ("a\nb", "control character"), ("x" * 256, "255")):
            self.assertIn(word, self.load(name, "other", status=400))
        for body in ({"lora_name": "z"}, {"lora_path": "other"}, {"lora_name": 5, "lora_path": "other"}, []):
            self.assertEqual(self.server.post("/v1/load_lora_adapter", body).status, 400)
        for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
            self.assertIn("expected an object", self.server.post(path, []).text)
        self.assertEqual(self.models()[2:], [("x", "m")])

    def test_numbers_that_are_not_finite(self):
        """The request fails by its adapter; other requests continue."""
        folder = scaled_copy("all_linear", os.path.join(self.below, "nan"))
        path = os.path.join(folder, "adapter_model.safetensors")
        with open(path, "r+b") as file:
            n_header = struct.unpack("<Q", file.read(8))[0]
            n_data = os.path.getsize(path) - 8 - n_header
            file.seek(8 + n_header)
            file.write(b"\xff" * n_data)
        expected = self.tokens("m")
        self.load("y", "nan")
        self.assertIn("adapter", self.complete("y", status=500)["error"]["message"])
        self.assertEqual(self.tokens("m"), expected)
        self.unload("y")

    def test_unload_while_requests_run(self):
        """Running requests keep the adapter; its slot is free when they have ended."""
        self.load("y", "other")
        expected = self.tokens("y")
        connection = self.server.connect()
        body = {"model": "y", "prompt": [5, 9, 3, 7], "max_tokens": 240, "temperature": 0, "ignore_eos": True,
                "logprobs": 0, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        first = response.readline()
        self.unload("y")
        self.complete("y", status=404)
        events = [line[6:] for line in [first, *response.read().split(b"\n")] if line.startswith(b"data: {")]
        found = [number for event in events for choice in json.loads(event)["choices"]
                 for number in (choice["logprobs"] or {}).get("token_logprobs", [])]
        connection.close()
        self.assertEqual((len(found), found[:6]), (240, expected))
        self.load("y", "other")
        self.assertEqual(self.tokens("y"), expected)
        self.unload("y")


@harness.of_the_program
class OtherServers(Case):
    def test_no_loading_without_the_option(self):
        server = Server(self.yoke, "--dtype", "float32", "--enable-lora", model=QWEN)
        self.addCleanup(server.stop)
        server.wait_for()
        for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
            answer = server.post(path, {"lora_name": "x", "lora_path": "x"})
            self.assertEqual((answer.status, "--allowed-lora-path" in answer.text), (404, True))

    def test_adapters_in_use(self):
        """One request has tokens when its rank stalls, and another one comes."""
        server, go_on = self.start_stalled("operation=attention call=12", *with_adapters(x=path_of("all_linear")),
                                           "--max-loras", 3, model=QWEN)
        self.addCleanup(go_on)
        server.wait_for()
        self.assertEqual(in_use(server), ("3", "", ""))
        body = {"model": "x", "prompt": [5, 9], "max_tokens": 20, "ignore_eos": True, "stream": True}
        with contextlib.ExitStack() as stack:
            first, second = (stack.enter_context(contextlib.closing(server.connect())) for _ in range(2))
            first.request("POST", "/v1/completions", json.dumps(body), JSON)
            self.assertIn(b"data: ", first.getresponse().readline())
            server.wait_for_metric("generation_tokens_total", 5, within_s=harness.TIMEOUT_S)  # the sixth step stalls
            self.assertEqual(in_use(server), ("3", "x", ""))
            second.request("POST", "/v1/completions", json.dumps(body), JSON)
            end = time.monotonic() + harness.TIMEOUT_S
            while in_use(server) != ("3", "x", "x"):
                self.assertLess(time.monotonic(), end, in_use(server))
                time.sleep(0.01)
        go_on()
        server.wait_for_metric("num_requests_running", 0, within_s=harness.TIMEOUT_S)
        self.assertEqual(in_use(server), ("3", "", ""))


if __name__ == "__main__":
    harness.main()
