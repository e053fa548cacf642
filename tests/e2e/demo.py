"""The demo model gives right answers: text in, text out, held-out prompts with checkable continuations.

Runs AWQ and its float16 original, on 1 to 8 ranks or the GPUs of the environment, with every activation type. Its
perplexity of a text is compared with that of transformers.
"""

import json
import math
import os
import unittest

import harness

RANK_COUNTS = (1, 2, 3, 4, 8) if harness.ON_CPU else (harness.RANKS,)
SANITIZED_RANK_COUNTS = (1, 3)  # sanitizers look for faults of the code, not of the numbers
DTYPES = {"float16": 0.02, "bfloat16": 0.02, "float32": 0.02} if harness.ON_CPU else {"float16": 0.02, "bfloat16": 0.16}
FP16 = os.path.join(os.path.dirname(harness.DEMO), "demo-fp16")


def read_expected():
    with open(os.path.join(harness.DEMO, "expected.json"), encoding="utf-8") as file:
        return json.load(file)


class Demo(harness.Case):
    def answer(self, folder, prompts, *options):
        texts = []
        for prompt in prompts:
            texts += ["--prompt", prompt["prompt"]]
        return self.run_json("generate", "--model", folder, *harness.ON, "--temperature", 0, "--logprobs", 0,
                             "--max-tokens", 64, *texts, *options)

    def check_answers(self, folder, *options, prompts=None, tolerance=0.02):
        prompts = prompts or read_expected()["prompts"]
        for prompt, result in zip(prompts, self.answer(folder, prompts, *options), strict=True):
            where = f"{prompt['task']}: {prompt['prompt']}"
            self.assertEqual(result["text"].strip(), prompt["answer"].strip(), where)
            self.assertEqual(result["finish_reason"], "stop", where)
            self.assertEqual(result["token_ids"], prompt["output_ids"], where)
            expected = prompt["logprobs" if folder == harness.DEMO else "fp16_logprobs"]
            for found, logprob in zip(result["logprobs"], expected, strict=True):
                self.assertAlmostEqual(found["logprob"], logprob, delta=tolerance, msg=where)

    def test_awq_answers_on_every_rank_count(self):
        for ranks in SANITIZED_RANK_COUNTS if harness.is_sanitized(self.yoke) else RANK_COUNTS:
            with self.subTest(ranks=ranks):
                self.check_answers(harness.DEMO, "--tp", ranks)

    @unittest.skipUnless(os.path.exists(FP16), "not packed")
    def test_fp16_original_gives_the_same_answers(self):
        for ranks in SANITIZED_RANK_COUNTS[:1] if harness.is_sanitized(self.yoke) else RANK_COUNTS[::3]:
            with self.subTest(ranks=ranks):
                self.check_answers(FP16, "--tp", ranks)

    def test_activation_types(self):
        prompts = read_expected()["prompts"][::4]
        for dtype, tolerance in DTYPES.items():
            with self.subTest(dtype=dtype):
                self.check_answers(harness.DEMO, "--dtype", dtype, prompts=prompts, tolerance=tolerance)

    def test_one_at_a_time_and_in_small_steps(self):
        prompts = read_expected()["prompts"][:12]
        self.check_answers(harness.DEMO, "--max-num-seqs", 1, prompts=prompts)
        self.check_answers(harness.DEMO, "--max-num-batched-tokens", 5, prompts=prompts)

    def perplexity(self, folder):
        """Each line alone, with its end-of-sequence token; the first token of a line is not scored."""
        with open(os.path.join(harness.DEMO, "heldout.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        quoted = "\n".join(map(json.dumps, lines)) + "\n"
        encoded = self.run_json("tokenize", "--model", folder, stdin=quoted)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            eos = json.load(file)["eos_token_id"]
        total = count = 0
        for first in range(0, len(encoded), 100):
            ids = []
            for line in encoded[first:first + 100]:
                ids += ["--token-ids", ",".join(map(str, line + [eos]))]
            for result in self.run_json("generate", "--model", folder, *harness.ON, "--dtype", harness.DTYPE,
                                        "--max-tokens", 0, "--prompt-logprobs", 0, *ids):
                total += sum(token["logprob"] for token in result["prompt_logprobs"])
                count += len(result["prompt_logprobs"])
        return math.exp(-total / count)

    def test_perplexity_is_that_of_transformers(self):
        if harness.is_sanitized(self.yoke):
            self.skipTest("a sanitizer has nothing to tell of the number")
        expected = read_expected()["perplexity"]
        delta = 1e-3 if harness.ON_CPU else 5e-3
        self.assertAlmostEqual(self.perplexity(harness.DEMO), expected["awq"], delta=delta)
        if os.path.exists(FP16):
            self.assertAlmostEqual(self.perplexity(FP16), expected["fp16"], delta=delta)


if __name__ == "__main__":
    harness.main()
