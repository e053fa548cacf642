"""Adapters on the endpoints that render or embed: embeddings against a model with the adapter's product in its weights,
chats, responses and messages against completions, and adapters whose numbers are not finite.
"""

import json
import math
import os
import random
import shutil
import struct

import harness
from safetensors_case import NAME, read_tensors, write_tensors
from server_case import TOOL_TEMPLATE, Case, Server

EMBEDS = os.path.join(harness.TESTS_DIR, "golden", "embeddings", "tied")
CHAT, RESPONSES, MESSAGES, COUNT = ("/v1/chat/completions", "/v1/responses", "/v1/messages",
                                    "/v1/messages/count_tokens")
RANK, ALPHA = 2, 3


def write_adapter(folder, seed, shapes, prefix):
    """An adapter of the modules with these shapes [n, k] of their weights; returns {name: (A rows, B rows)}."""
    rng, tensors, parts = random.Random(seed), {}, {}
    os.mkdir(folder)
    for name, (n, k) in shapes.items():
        a, b = ([[rng.gauss(0, 1 / columns ** 0.5) for _ in range(columns)] for _ in range(rows)]
                for rows, columns in ((RANK, k), (n, RANK)))
        parts[name] = (a, b)
        for part, rows in (("lora_A", a), ("lora_B", b)):
            flat = [value for row in rows for value in row]
            tensors[f"base_model.model.{prefix}{name}.{part}.weight"] = [
                "F32", [len(rows), len(rows[0])], struct.pack(f"<{len(flat)}f", *flat)]
    write_tensors(folder, tensors)
    os.rename(os.path.join(folder, NAME), os.path.join(folder, "adapter_model.safetensors"))
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA}, file)
    return parts


def spoil(folder, copy):
    """A copy of an adapter without a finite number."""
    path = os.path.join(shutil.copytree(folder, copy), "adapter_model.safetensors")
    with open(path, "r+b") as file:
        n_header = struct.unpack("<Q", file.read(8))[0]
        file.seek(8 + n_header)
        file.write(b"\xff" * (os.path.getsize(path) - 8 - n_header))
    return copy


def merge(folder, parts):
    """A copy of the embedding model with W + B A alpha / rank in place of W, in float32."""
    shutil.copytree(EMBEDS, folder)
    tensors = read_tensors(folder)
    for name, (a, b) in parts.items():
        _, (n, k), content = tensors[name + ".weight"]
        weights = [struct.unpack("<f", b"\0\0" + content[2 * i:2 * i + 2])[0] for i in range(n * k)]
        sums = [weights[row * k + column] + ALPHA / RANK * sum(b[row][r] * a[r][column] for r in range(RANK))
                for row in range(n) for column in range(k)]
        tensors[name + ".weight"] = ["F32", [n, k], struct.pack(f"<{n * k}f", *sums)]
    write_tensors(folder, tensors)
    return folder


@harness.of_the_program
class EmbeddingsTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = harness.scratch_folder(cls.addClassCleanup)
        shapes = {name.removesuffix(".weight"): shape for name, (_, shape, _) in read_tensors(EMBEDS).items()
                  if "_proj" in name}
        parts = write_adapter(os.path.join(folder, "x"), 5, shapes, "")
        spoil(os.path.join(folder, "x"), os.path.join(folder, "bad"))
        options = ("--dtype", "float32", "--tp", 2, "--served-model-name", "m", "--max-num-seqs", 4)
        adapters = [f"{name}={os.path.join(folder, name)}" for name in ("x", "bad")]
        cls.server = Server(cls.yoke, *options, "--enable-lora", "--max-loras", 2, "--lora-modules", *adapters,
                            model=EMBEDS)
        cls.addClassCleanup(cls.server.stop)
        cls.merged = Server(cls.yoke, *options, model=merge(os.path.join(folder, "merged"), parts))
        cls.addClassCleanup(cls.merged.stop)
        cls.server.wait_for()
        cls.merged.wait_for()
        with open(os.path.join(EMBEDS, "golden.json"), encoding="utf-8") as file:
            cls.texts = json.load(file)["texts"]

    def embed(self, server, model, **fields):
        body = {"input": [text["text"] for text in self.texts], "model": model, **fields}
        answer = server.post("/v1/embeddings", body)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.value["model"], model)
        return [entry["embedding"] for entry in answer.value["data"]]

    def assert_close(self, found, expected, delta):
        for one, other in zip(found, expected, strict=True):
            self.assertLess(max(abs(a - b) for a, b in zip(one, other, strict=True)), delta)

    def test_merged_weights(self):
        adapted = self.embed(self.server, "x")
        self.assert_close(adapted, self.embed(self.merged, "m"), 1e-3)
        plain = self.embed(self.server, "m")
        self.assert_close(plain, [text["embedding"] for text in self.texts], 1e-3)
        for one, other in zip(adapted, plain, strict=True):
            self.assertGreater(max(abs(a - b) for a, b in zip(one, other, strict=True)), 0.05)
        shortened = self.embed(self.server, "x", dimensions=24)
        lengths = [math.hypot(*embedding[:24]) for embedding in adapted]
        self.assert_close(shortened, [[number / length for number in embedding[:24]]
                                      for embedding, length in zip(adapted, lengths, strict=True)], 1e-5)

    def test_the_same_bits_in_any_company(self):
        """Requests with the adapter, with none, and with one whose numbers are not finite, at once."""
        expected = {name: self.embed(self.server, name) for name in ("x", "m")}
        names = ("x", "bad", "m", "x", "m", "bad")
        connections = [self.server.connect() for _ in names]
        for name, connection in zip(names, connections, strict=True):
            body = json.dumps({"input": [text["text"] for text in self.texts] * 3, "model": name})
            connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        for name, connection in zip(names, connections, strict=True):
            response = connection.getresponse()
            value = json.loads(response.read())
            connection.close()
            if name == "bad":
                self.assertEqual((response.status, "adapter" in value["error"]["message"]), (500, True), value)
            else:
                self.assertEqual([entry["embedding"] for entry in value["data"]], 3 * expected[name])
        self.assert_refused(self.server.post("/v1/embeddings", {"input": "a", "model": "y"}), 404, "y",
                            code="model_not_found")


@harness.of_the_program
class ChatsTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = harness.scratch_folder(cls.addClassCleanup)
        shapes = {f"layers.{layer}.{module}": shape for layer in range(2)
                  for module, shape in (("mlp.up_proj", (640, 256)), ("self_attn.v_proj", (128, 256)))}
        for seed, name in enumerate(("x", "y")):
            write_adapter(os.path.join(cls.folder, name), seed, shapes, "model.")
        spoil(os.path.join(cls.folder, "x"), os.path.join(cls.folder, "bad"))
        adapters = [f"{name}={os.path.join(cls.folder, name)}" for name in ("x", "y", "bad")]
        cls.server = Server(cls.yoke, "--chat-template", TOOL_TEMPLATE, "--tool-call-parser", "hermes",
                            "--served-model-name", "m", "--enable-lora", "--max-loras", 3, "--lora-modules", *adapters)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_for()

    def post(self, path, status=200, **body):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, status, answer.text)
        return answer

    def asked(self, path, model, **fields):
        """The same request in the form of a door."""
        size = "max_output_tokens" if path == RESPONSES else "max_tokens"
        talk = {"input": "12+30="} if path == RESPONSES else {"messages": [{"role": "user", "content": "12+30="}]}
        return {**talk, size: 8, "model": model, "temperature": 0, "ignore_eos": True, **fields}

    def text_of(self, path, value):
        if path == CHAT:
            return value["choices"][0]["message"]["content"]
        return (value["output"][0]["content"] if path == RESPONSES else value["content"])[0]["text"]

    def test_each_door(self):
        """A chat is a completion of the rendered prompt; responses and messages are the chat."""
        ids = self.post("/tokenize", messages=[{"role": "user", "content": "12+30="}]).value["tokens"]
        seen = set()
        for model in ("m", "x", "y"):
            plain = self.post("/v1/completions", prompt=ids, model=model, max_tokens=8, temperature=0, logprobs=0,
                              ignore_eos=True).value["choices"][0]
            chat = self.post(CHAT, **self.asked(CHAT, model, logprobs=True)).value
            self.assertEqual(chat["model"], model)
            found = [entry["logprob"] for entry in chat["choices"][0]["logprobs"]["content"]]
            self.assertEqual(found, plain["logprobs"]["token_logprobs"])
            seen.add(tuple(found))
            for path in (RESPONSES, MESSAGES):
                answer = self.post(path, **self.asked(path, model)).value
                self.assertEqual((answer["model"], self.text_of(path, answer)),
                                 (model, self.text_of(CHAT, chat)))
                self.assertIn(f'"model":"{model}"', self.post(path, **self.asked(path, model, stream=True)).text)
        self.assertEqual(len(seen), 3)

    def test_prompts_are_shared_by_adapter(self):
        messages = [{"role": "user", "content": "z" * 200}]
        for model in ("x", "y", "m"):
            for is_second in (False, True):
                usage = self.post(MESSAGES, **self.asked(MESSAGES, model, messages=messages)).value["usage"]
                self.assertEqual(usage["cache_read_input_tokens"] > 100, is_second, model)
        count = self.post(COUNT, model="x", messages=messages).value["input_tokens"]
        self.assertEqual(count, usage["input_tokens"] + usage["cache_read_input_tokens"])
        self.post(COUNT, status=404, model="z", messages=messages)

    def test_numbers_that_are_not_finite(self):
        """Each endpoint returns the error in its own form; concurrent requests continue."""
        expected = self.text_of(CHAT, self.post(CHAT, **self.asked(CHAT, "m")).value)
        for stream in (False, True):  # of a stream too, since its first token fails
            for path in (CHAT, RESPONSES):
                self.assert_refused(self.server.post(path, self.asked(path, "bad", stream=stream)), 500, "adapter")
            error = self.post(MESSAGES, status=500, **self.asked(MESSAGES, "bad", stream=stream)).value["error"]
            self.assertEqual((error["type"], "adapter" in error["message"]), ("api_error", True))
        self.assertEqual(self.text_of(CHAT, self.post(CHAT, **self.asked(CHAT, "m")).value), expected)


if __name__ == "__main__":
    harness.main()
