"""Embeddings: goldens of sentence-transformers on every kind of rank, the same bits in any company, the route and lines
of a batch, and refusals."""

import base64
import json
import math
import os
import shutil
import socket
import struct
import time

import harness
from processes_case import ProcessesCase
from safetensors_case import read_tensors, write_tensors
from server_case import Case, Server

MODELS = os.path.join(harness.TESTS_DIR, "golden", "embeddings")
URL, COMPLETIONS = "/v1/embeddings", "/v1/completions"
TOLERANCE = 1e-3 if harness.ON_CPU else 2e-2  # of an embedding of length 1
LAST_TOKEN = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
              {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]


def golden(name):
    with open(os.path.join(MODELS, name, "golden.json"), encoding="utf-8") as file:
        return json.load(file)


def line(number, **body):
    return json.dumps({"custom_id": str(number), "method": "POST", "url": URL, "body": body}) + "\n"


def floats_of(text):
    content = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(content) // 4}f", content))


def make_model(family, folder, **pooling):
    """A golden model of a family, as one that makes embeddings."""
    shutil.copytree(os.path.join(harness.FAMILIES, family), folder)
    os.mkdir(os.path.join(folder, "1_Pooling"))
    for name, value in (("modules.json", LAST_TOKEN),
                        (os.path.join("1_Pooling", "config.json"), {"pooling_mode_lasttoken": True, **pooling})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)
    return folder


class Numbers(ProcessesCase):
    def embed(self, model, inputs, *options, processes=1):
        """The embeddings of lists of inputs, a line of a batch for each list."""
        lines = "".join(line(i, input=texts, encoding_format="base64") for i, texts in enumerate(inputs))
        folder = harness.scratch_folder(self.addCleanup)
        path, out = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(lines)
        arguments = ("batch", "--model", model, path, "-o", out, "--dtype", harness.DTYPE, "--kv-cache-bytes", "16MiB",
                     *options)
        if processes == 1:
            self.run_yoke(*arguments)
        else:
            self.end(self.start(processes, *arguments))
        with open(out, encoding="utf-8") as file:
            answers = {int(answer["custom_id"]): answer for answer in map(json.loads, file)}
        found = []
        for i, texts in enumerate(inputs):
            self.assertIsNone(answers[i]["error"], answers[i])
            data = answers[i]["response"]["body"]["data"]
            self.assertEqual([entry["index"] for entry in data], list(range(len(texts))))
            found.append([floats_of(entry["embedding"]) for entry in data])
        return found

    def check(self, name, *options, **more):
        texts = golden(name)["texts"]
        for inputs in ([text["text"] for text in texts], [text["token_ids"] for text in texts]):
            (found,) = self.embed(os.path.join(MODELS, name), [inputs], *options, **more)
            for embedding, expected in zip(found, texts, strict=True):
                length = math.hypot(*expected["embedding"])
                worst = max(abs(a - b) for a, b in zip(embedding, expected["embedding"], strict=True)) / length
                self.assertLess(worst, TOLERANCE, f"{name} {options}: {expected['text']}")

    def test_goldens(self):
        for name in ("tied", "headless"):
            self.check(name, *harness.ON)

    def test_refused_lines_of_a_batch(self):
        folder = harness.scratch_folder(self.addCleanup)
        source, out = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
        with open(source, "w", encoding="utf-8") as file:
            file.write(line(1, input="a", dimensions=65) + line(2, input=[[5], [1024]]) + line(3, input=5))
        self.run_yoke("batch", os.path.join(MODELS, "tied"), source, "-o", out, "--dtype", harness.DTYPE,
                      "--kv-cache-bytes", "16MiB", expect=1)
        with open(out, encoding="utf-8") as file:
            errors = [json.loads(text)["response"]["body"]["error"] for text in file]
        for error, param, part in zip(errors, ("dimensions", "input", "input"),
                                      ("dimensions: expected 1 to 64", "input[1]: token id 1024", "a string"),
                                      strict=True):
            self.assertIn(part, error["message"])
            self.assertEqual(error["param"], param)

    @harness.of_the_program
    def test_goldens_on_ranks(self):
        for options in (("--tp", 2), ("--tp", 3), ("--pp", 3), ("--tp", 2, "--pp", 2),
                        ("--tp", 2, "--max-num-batched-tokens", 7, "--max-num-seqs", 2)):
            self.check("headless", "--device", "cpu", *options)
        self.check("tied", "--device", "cpu", "--tp", 3, "--pp", 2)

    @harness.of_the_program
    def test_goldens_of_processes(self):
        """With stages another process than process 0 has the hidden states."""
        for options in (("--tp", 2), ("--tp", 1, "--pp", 2)):
            self.check("tied", "--device", "cpu", *options, processes=2)

    @harness.of_the_program
    def test_the_same_bits_in_any_company(self):
        model = os.path.join(MODELS, "tied")
        texts = [text["text"] for text in golden("tied")["texts"]]
        alone = [self.embed(model, [[text]], "--device", "cpu")[0][0] for text in texts[2:]]
        for inputs, options in (([texts[2:]], ()), ([[text] for text in texts[2:] * 3], ("--max-num-seqs", 3)),
                                ([texts[2:]], ("--max-num-batched-tokens", 5)), ([texts[2:] * 40], ("--threads", 3)),
                                ([texts[2:]], ("--pp", 3))):
            found = sum(self.embed(model, inputs, "--device", "cpu", *options), [])
            self.assertEqual(found, alone * (len(found) // len(alone)), options)

    @harness.of_the_program
    def test_the_same_bits_on_any_ranks(self):
        """If all row-parallel layers multiply integers; in 16 bits too."""
        model = make_model("format_w8a8", os.path.join(harness.scratch_folder(self.addCleanup), "model"))
        prompts = [[[5, 9, 3, 7, 100, 42, 8]], [list(range(3, 80))]]
        for dtype in ("float32", "float16"):
            found = [self.embed(model, prompts, "--device", "cpu", "--dtype", dtype, *options)
                     for options in (("--tp", 1), ("--tp", 3), ("--tp", 4), ("--tp", 3, "--pp", 2))]
            self.assertEqual(found[1:], found[:1] * 3)

    @harness.of_the_program
    def test_the_scale_before_the_head_is_left_out(self):
        """Differences of log-probabilities are the head's rows times the hidden state, scaled."""
        folder = make_model("minicpm", os.path.join(harness.scratch_folder(self.addCleanup), "model"))
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        scale = config["dim_model_base"] / config["hidden_size"]
        self.assertNotEqual(scale, 1)
        tensors = read_tensors(folder)
        kind, (n_rows, n_columns), content = tensors.get("lm_head.weight") or tensors["model.embed_tokens.weight"]
        self.assertEqual(kind, "F16")
        rows = [struct.unpack_from(f"<{n_columns}e", content, 2 * n_columns * i) for i in range(n_rows)]
        ids = [5, 9, 3, 7]
        ((embedding,),) = self.embed(folder, [[ids]], "--device", "cpu")
        result = self.run_json("generate", "--model", folder, "--device", "cpu", "--dtype", "float32", "--token-ids",
                               ",".join(map(str, ids)), "-n", 1, "--logprobs", 4, "--temperature", 0)
        (first, *others) = result[0]["logprobs"][0]["top"]
        for token, logprob in others:
            product = sum((a - b) * c for a, b, c in zip(rows[first[0]], rows[token], embedding)) * scale
            self.assertAlmostEqual(product, first[1] - logprob, delta=1e-3)

    @harness.of_the_program
    def test_a_quantised_model(self):
        """Names with the prefix, and the files that say how to pool."""
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        self.run_yoke("quantize", os.path.join(MODELS, "headless"), "-o", folder, "--method", "rtn", "--group-size", 32)
        self.assertIn("model.layers.0.self_attn.q_proj.qweight", read_tensors(folder))
        texts = golden("headless")["texts"]
        (found,) = self.embed(folder, [[text["text"] for text in texts]], "--device", "cpu", "--tp", 2)
        for embedding, text in zip(found, texts, strict=True):
            product = sum(a * b for a, b in zip(embedding, text["embedding"], strict=True))
            self.assertGreater(product / math.hypot(*embedding) / math.hypot(*text["embedding"]), 0.6)

    @harness.of_the_program
    def test_numbers_that_are_no_numbers(self):
        """A text whose hidden state has a NaN fails alone."""
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        shutil.copytree(os.path.join(MODELS, "tied"), folder)
        texts = golden("tied")["texts"]
        bad = next(token for token in texts[3]["token_ids"] if token not in texts[0]["token_ids"])
        tensors = read_tensors(folder)
        kind, shape, content = tensors["embed_tokens.weight"]
        content = bytearray(content)
        content[2 * shape[1] * bad:2 * shape[1] * bad + 2] = b"\xc0\x7f"
        tensors["embed_tokens.weight"] = [kind, shape, bytes(content)]
        write_tensors(folder, tensors)
        lines = line(0, input=texts[3]["text"]) + line(1, input=texts[0]["text"])
        done = self.run_yoke("batch", "--model", folder, "-", "--device", "cpu", "--dtype", "float32", "--tp", 2,
                             stdin=lines, expect=1)
        first, second = sorted(map(json.loads, done.out.splitlines()), key=lambda answer: answer["custom_id"])
        self.assertIn("a number of the hidden state is NaN", json.dumps(first))
        self.assertEqual(len(second["response"]["body"]["data"][0]["embedding"]), 64)


@harness.of_the_program
class Route(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.yoke, "--dtype", "float32", "--tp", 2, "--served-model-name", "m", "--max-num-seqs", 4,
                            model=os.path.join(MODELS, "tied"))
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_for()
        cls.texts = golden("tied")["texts"]

    def embed(self, **fields):
        answer = self.server.post(URL, fields)
        self.assertEqual(answer.status, 200, answer.text)
        return answer.value

    def test_an_answer(self):
        found = self.embed(input=[text["text"] for text in self.texts], model="m", user="u")
        self.assertEqual((found["object"], found["model"]), ("list", "m"))
        self.assertTrue(found["id"].startswith("embd-"))
        n_tokens = sum(len(text["token_ids"]) for text in self.texts)
        self.assertEqual(found["usage"], {"prompt_tokens": n_tokens, "total_tokens": n_tokens})
        self.assertEqual([(entry["object"], entry["index"]) for entry in found["data"]],
                         [("embedding", i) for i in range(len(self.texts))])
        for entry, text in zip(found["data"], self.texts, strict=True):
            self.assertLess(max(abs(a - b) for a, b in zip(entry["embedding"], text["embedding"], strict=True)), 1e-4)
        text = self.texts[0]
        for fields in ({"input": text["text"]}, {"input": text["token_ids"]}, {"input": [text["token_ids"]]},
                       {"input": text["text"], "encoding_format": "float", "request_id": "a", "cache_salt": "s"},
                       {"input": self.texts[0]["text"] + "<|endoftext|>", "add_special_tokens": False}):
            (entry,) = self.embed(**fields)["data"]
            self.assertEqual(entry, found["data"][0])
        (entry,) = self.embed(input=text["text"], encoding_format="base64")["data"]
        self.assertEqual([float(f"{number:.9g}") for number in floats_of(entry["embedding"])],
                         found["data"][0]["embedding"])

    def test_dimensions(self):
        for n in (1, 2, 3, 24, 64):  # base64 with each number of fill bytes
            for text in self.texts[:2]:
                (entry,) = self.embed(input=text["text"], dimensions=n, encoding_format="base64")["data"]
                found = floats_of(entry["embedding"])
                length = math.hypot(*text["embedding"][:n])
                self.assertEqual(len(found), n)
                for number, expected in zip(found, text["embedding"]):
                    self.assertAlmostEqual(number, expected / length, delta=1e-4)
        (entry,) = self.embed(input=self.texts[0]["text"], dimensions=24)["data"]
        self.assertLess(max(abs(a - b) for a, b in zip(entry["embedding"], self.texts[0]["shortened"])), 1e-4)

    def test_with_completions(self):
        """Both kinds of requests in one step."""
        asked = {"prompt": "The capital", "max_tokens": 40, "temperature": 0, "ignore_eos": True, "logprobs": 1}
        alone = self.server.post(COMPLETIONS, asked).value["choices"][0]
        expected = self.embed(input=[text["text"] for text in self.texts])["data"]
        connections = [self.server.connect() for _ in range(4)]
        for i, connection in enumerate(connections):
            body = json.dumps(asked if i % 2 else {"input": [text["text"] for text in self.texts] * 10})
            connection.request("POST", COMPLETIONS if i % 2 else URL, body, {"Content-Type": "application/json"})
        for i, connection in enumerate(connections):
            answer = json.loads(connection.getresponse().read())
            connection.close()
            if i % 2:
                self.assertEqual(answer["choices"][0]["logprobs"], alone["logprobs"])
            else:
                self.assertEqual([entry["embedding"] for entry in answer["data"]],
                                 [entry["embedding"] for entry in expected] * 10)

    def test_the_context(self):
        """A text may fill the context, since nothing follows."""
        (entry,) = self.embed(input=[5] * 512)["data"]
        self.assertEqual(len(entry["embedding"]), 64)
        self.assert_refused(self.server.post(URL, {"input": [5] * 513}), 400, "expected at most 512 tokens",
                            param="input", code="context_length_exceeded")

    def test_truncation(self):
        """As in vLLM the beginning is kept unless truncation_side is "left"; the special token after a text stays, as
        transformers truncates."""
        text, ids = self.texts[0]["text"], self.texts[0]["token_ids"]
        self.assertGreater(len(ids), 5)
        for fields, kept in (({"truncate_prompt_tokens": 5}, ids[:4] + ids[-1:]),
                             ({"truncate_prompt_tokens": 1}, ids[-1:]),
                             ({"truncate_prompt_tokens": 5, "truncation_side": "right"}, ids[:4] + ids[-1:]),
                             ({"truncate_prompt_tokens": 5, "truncation_side": "left"}, ids[-5:]),
                             ({"truncate_prompt_tokens": 5, "add_special_tokens": False}, ids[:5]),
                             ({"truncate_prompt_tokens": 500}, ids), ({"truncate_prompt_tokens": -1}, ids),
                             ({"truncation_side": "left"}, ids)):
            found, expected = self.embed(input=text, **fields), self.embed(input=kept)
            self.assertEqual((found["data"], found["usage"]), (expected["data"], expected["usage"]), fields)
        for fields, kept in (({}, ids[:3]), ({"truncation_side": "left"}, ids[-3:])):
            self.assertEqual(self.embed(input=[ids], truncate_prompt_tokens=3, **fields)["data"],
                             self.embed(input=kept)["data"])
        for long in (["x " * 4000, "x"], [[5] * 4000, [5]]):
            self.assertIn(self.embed(input=long, truncate_prompt_tokens=-1)["usage"]["prompt_tokens"], (513, 514))

    def test_refused(self):
        for fields, param, part in (({}, "input", "missing"), ({"input": 5}, "input", "a string"),
                                    ({"input": []}, "input", "at least one token"),
                                    ({"input": [[]]}, "input", "at least one token"),
                                    ({"input": ["a", 5]}, "input", ""), ({"input": ["a", [5]]}, "input", "found both"),
                                    ({"input": {"a": 1}}, "input", "a string"), ({"input": [5.5]}, "input", ""),
                                    ({"input": [1e300]}, "input", ""), ({"input": [2 ** 70]}, "input", ""),
                                    ({"input": [1024]}, "input", "outside the vocabulary"),
                                    ({"input": [-1]}, "input", ""),
                                    ({"input": ["a"] * 2049}, "input", "at most 2048"),
                                    ({"input": [[[5]]]}, "input", ""), ({"input": [None]}, "input", ""),
                                    ({"input": ["a", None]}, "input", 'key "input[1]": expected a string'),
                                    ({"input": [[5], [6, "a"]]}, "input", 'key "input[1][1]": expected an integer'),
                                    ({"input": [[5], [1024]]}, "input", "input[1]: token id 1024"),
                                    ({"input": [[5], [5] * 513]}, "input", "input[1]"),
                                    ({"input": "a", "stream": True}, "stream", "not supported"),
                                    ({"input": "a", "dimensions": 0}, "dimensions", "expected 1"),
                                    ({"input": "a", "dimensions": 65}, "dimensions", "expected 1 to 64, found 65"),
                                    ({"input": "a", "dimensions": 2 ** 40}, "dimensions", ""),
                                    ({"input": "a", "dimensions": "8"}, "dimensions", "an integer"),
                                    ({"input": "a", "encoding_format": "hex"}, "encoding_format", "base64"),
                                    ({"input": "a", "encoding_format": 5}, "encoding_format", "a string"),
                                    ({"input": "a", "truncate_prompt_tokens": 513}, "truncate_prompt_tokens",
                                     "at most 512, found 513"),
                                    ({"input": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "or -1"),
                                    ({"input": "a", "truncation_side": "end"}, "truncation_side", '"right"')):
            self.assert_refused(self.server.post(URL, fields), 400, part, param=param)
        self.assert_refused(self.server.post(URL, {"input": "a", "model": "x"}), 404, "x", code="model_not_found")
        self.assert_refused(self.server.post(URL, "[" * 1000), 400, "")
        self.assertEqual(self.server.ask("GET", URL).status, 405)

    def test_a_client_that_leaves(self):
        body = json.dumps({"input": [[i % 900 + 1] * 500 for i in range(400)]}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), harness.TIMEOUT_S) as connection:
            connection.sendall(b"POST " + URL.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            end = time.monotonic() + 20
            while self.server.metric("num_requests_waiting") < 1 and time.monotonic() < end:
                pass
        self.server.wait_for_metric("num_requests_running", 0)
        self.server.wait_for_metric("num_requests_waiting", 0)
        self.test_the_context()

    def test_information(self):
        self.assertFalse(self.server.ask("GET", "/server_info").value["is_embedding"])
        server = self.serve("--tp", 2, model=os.path.join(MODELS, "headless"))
        self.assertTrue(server.ask("GET", "/server_info").value["is_embedding"])
        self.assertFalse(server.ask("GET", "/model_info").value["is_generation"])
        self.assert_refused(server.post(COMPLETIONS, {"prompt": "a"}), 400, "has no lm_head", param="prompt")

    def test_models_without_embeddings(self):
        self.assert_refused(self.serve().post(URL, {"input": "a"}), 400, "has no modules.json", param="model")
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        make_model("qwen3", folder, pooling_mode_mean_tokens=True, pooling_mode_lasttoken=False)
        self.assert_refused(self.serve(model=folder).post(URL, {"input": [5]}), 400,
                            'pooling "mean_tokens" is not supported', param="model")


if __name__ == "__main__":
    harness.main()
