"""Shared by the tests of yoke batch: files, runs, and lines of a batch."""

import json
import os
import random

import harness

TINY = os.path.join(harness.FAMILIES, "qwen3")  # 200 tokens, context of 256, no tokenizer
SMALL = ("--kv-cache-bytes", "16MiB")
URL, CHAT_URL = "/v1/completions", "/v1/chat/completions"
GOOD = {"prompt": [5], "max_tokens": 2}


def openai(custom_id, **body):
    return {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}


def chat(custom_id, messages, **body):
    return {"custom_id": custom_id, "method": "POST", "url": CHAT_URL, "body": {"messages": messages, **body}}


def without_time(result):
    if isinstance(result.get("response"), dict):
        result["response"]["body"].pop("created", None)
    return result


class Base(harness.Case):
    @classmethod
    def setUpClass(cls):
        models = harness.scratch_folder(cls.addClassCleanup)
        cls.text_model = harness.make_text_model(os.path.join(models, "text"))

    def setUp(self):
        self.scratch = harness.scratch_folder(self.addCleanup)
        self.input, self.output = self.path("in.jsonl"), self.path("out.jsonl")

    def path(self, name):
        return os.path.join(self.scratch, name)

    def write(self, lines, path=None):
        """Lines are objects, or texts, which are written unchanged."""
        with open(path or self.input, "w", encoding="utf-8", newline="") as file:
            for line in lines:
                file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")

    def arguments(self, *options, model=TINY):
        return ["batch", "--model", model, *harness.ON, *SMALL, self.input, "-o", self.output, *options]

    def results(self):
        """Lines of the output, in the order of the input; no line may occur twice."""
        with open(self.output, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text == "" or text.endswith("\n"))
        results = [without_time(json.loads(line)) for line in text.splitlines()]
        numbers = [result["line"] for result in results]
        self.assertEqual(len(numbers), len(set(numbers)))
        return sorted(results, key=lambda result: result["line"])

    def batch(self, lines, *options, model=TINY, expect=0):
        """Results of a fresh run, one for each line."""
        self.write(lines)
        if os.path.exists(self.output):
            os.remove(self.output)
        self.last_err = self.run_yoke(*self.arguments(*options, model=model), expect=expect).err
        results = self.results()
        self.assertEqual([result["line"] for result in results], list(range(1, len(lines) + 1)))
        return results

    def generate(self, prompts, *options, model=TINY):
        parts = []
        for prompt in prompts:
            parts += ["-p", prompt] if isinstance(prompt, str) else ["--token-ids", ",".join(map(str, prompt))]
        return self.run_json("generate", "--model", model, *harness.ON, *SMALL, *parts, *options)


def prompts_of_ids(n, seed=1):
    numbers = random.Random(seed)
    return [[numbers.randrange(3, 200) for _ in range(numbers.randrange(1, 12))] for _ in range(n)]
