"""yoke score: log-probabilities and perplexity, against goldens from transformers and an independent windowing."""

import json
import math
import os
import random

import harness

# A log-probability against its golden, and against the same in another window.
TOLERANCE, SAME = (1e-3, 1e-4) if harness.ON_CPU else (0.06, 0.06)
TINY = os.path.join(harness.FAMILIES, "qwen3")  # 200 tokens, context of 256, no tokenizer
CONTEXT = 256
SMALL = ("--kv-cache-bytes", "16MiB")  # several programs share a GPU


def case_names():
    return sorted(name for name in os.listdir(harness.FAMILIES)
                  if os.path.exists(os.path.join(harness.FAMILIES, name, "golden.json")))


def id_list(ids):
    return ",".join(map(str, ids))


class Score(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.scratch = harness.scratch_folder(cls.addClassCleanup)
        cls.plain = harness.make_text_model(os.path.join(cls.scratch, "plain"))
        cls.with_bos = harness.make_text_model(os.path.join(cls.scratch, "bos"), add_bos=True)

    def score(self, *options, model=TINY, stdin="", expect=0):
        return self.run_json("score", "--model", model, *harness.ON, "--dtype", harness.DTYPE, *options, stdin=stdin,
                             expect=expect)[0]

    def prompt_logprobs(self, windows, model):
        """Each window separately, by yoke generate: the log-probabilities of its tokens except the first."""
        parts = []
        for ids in windows:
            parts += ["--token-ids", id_list(ids)]
        results = self.run_json("generate", "--model", model, *harness.ON, "--dtype", harness.DTYPE, "--max-tokens", 0,
                                "--prompt-logprobs", 0, *SMALL, *parts)
        return [[step["logprob"] for step in result["prompt_logprobs"]] for result in results]

    def check_totals(self, result, logprobs, tolerance=TOLERANCE):
        """The printed figures follow from the tokens' log-probabilities."""
        n = len(logprobs)
        self.assertEqual(result["scored_tokens"], n)
        self.assertEqual(result["tokens"], n + 1)
        self.assertAlmostEqual(result["logprob"], math.fsum(logprobs), delta=tolerance * n)
        self.assertAlmostEqual(result["mean_logprob"], math.fsum(logprobs) / n, delta=tolerance)
        self.assertAlmostEqual(result["perplexity"] / math.exp(-result["mean_logprob"]), 1, delta=1e-6)

    @harness.of_the_program
    def test_a_terminal_sees_how_far_it_is(self):
        seen = self.run_on_terminal("score", "--model", TINY, *harness.ON, "--window", 16, "--stride", 8, "--token-ids",
                                    id_list([i % 190 for i in range(400)]))
        self.assertIn("loading [", seen)
        self.assertIn("of 400 tokens", seen)
        self.assertIn("\r\x1b[K", seen[seen.rindex("%"):])  # the last bar is erased

    # ---- goldens ----

    def longest_scored_prompt(self, name):
        with open(os.path.join(harness.FAMILIES, name, "golden.json"), encoding="utf-8") as file:
            prompts = json.load(file)["prompts"]
        return max(prompts, key=lambda prompt: len(prompt["prompt_logprobs"] or []))

    def check_goldens(self, *options):
        prompts = {name: self.longest_scored_prompt(name) for name in case_names()}
        prompts = {name: prompt for name, prompt in prompts.items() if prompt["prompt_logprobs"]}
        self.assertGreater(len(prompts), 25)

        def score(name):
            return self.score("--token-ids", id_list(prompts[name]["prompt_ids"]), "--tokens", *SMALL, *options,
                              model=os.path.join(harness.FAMILIES, name))

        def worst_of(result, prompt):
            pairs = zip(result["logprobs"][1:], prompt["prompt_logprobs"], strict=True)
            return max(abs(found - expected) for found, expected in pairs)
        for name, result in zip(prompts, self.in_parallel(score, prompts), strict=True):
            with self.subTest(case=name, options=options):
                prompt = prompts[name]
                self.assertEqual(result["token_ids"], prompt["prompt_ids"])
                self.assertIsNone(result["logprobs"][0])
                worst, tolerance = worst_of(result, prompt), TOLERANCE
                # Inputs rounded to 8 bits amplify a rounding to 16 bits, on CPU ranks too.
                if worst > TOLERANCE and not harness.ON_CPU:
                    on_cpu = self.run_json("score", "--model", os.path.join(harness.FAMILIES, name), "--device", "cpu",
                                           "--dtype", harness.DTYPE, "--token-ids", id_list(prompt["prompt_ids"]),
                                           "--tokens", *SMALL)[0]
                    tolerance = max(TOLERANCE, 2 * worst_of(on_cpu, prompt))
                self.assertLessEqual(worst, tolerance)
                self.check_totals(result, prompt["prompt_logprobs"], tolerance)

    def test_goldens(self):
        ranks_of_cpu = (2,) if harness.is_sanitized(self.yoke) else (1, 2, 3)  # families.py tests the others
        for ranks in ranks_of_cpu if harness.ON_CPU else (harness.RANKS,):
            self.check_goldens("--tp", ranks)

    def test_goldens_small_steps(self):
        if harness.is_sanitized(self.yoke):
            self.skipTest("sanitizers see the code, not the numbers: families.py takes these steps")
        self.check_goldens("--tp", harness.RANKS or 2, "--max-num-batched-tokens", 13)

    # ---- windows ----

    def windowed(self, ids, window, stride, model):
        """Strided perplexity in its usual form: each window scores the tokens that no earlier window has scored."""
        spans, scored_end = [], 0
        for begin in range(0, len(ids), stride):
            end = min(begin + window, len(ids))
            spans.append((begin, end, max(scored_end, 1)))
            scored_end = end
            if end == len(ids):
                break
        logprobs = [None] * len(ids)
        alone = self.prompt_logprobs([ids[begin:end] for begin, end, _ in spans], model)
        for (begin, end, first), found in zip(spans, alone):
            for at in range(first, end):
                self.assertIsNone(logprobs[at])  # once each
                logprobs[at] = found[at - begin - 1]
        self.assertNotIn(None, logprobs[1:])
        return logprobs

    def check_windows(self, n_tokens, window=None, stride=None, options=SMALL, model=TINY):
        numbers = random.Random(n_tokens)
        ids = [numbers.randrange(200) for _ in range(n_tokens)]
        options = [*options, *(["--window", window] if window else []), *(["--stride", stride] if stride else [])]
        window = window or CONTEXT
        stride = stride or window // 2
        asked = f"{n_tokens} tokens, window {window}, stride {stride}"
        result = self.score("--token-ids", id_list(ids), "--tokens", *options, model=model)
        self.assertEqual((result["window"], result["stride"]), (window, stride), asked)
        expected = self.windowed(ids, window, stride, model)
        for found, want in zip(result["logprobs"][1:], expected[1:], strict=True):
            self.assertAlmostEqual(found, want, delta=SAME, msg=asked)
        self.check_totals(result, expected[1:])

    def test_windows(self):
        self.in_parallel(lambda case: self.check_windows(*case),
                         ((2, None, None), (2, 2, 1), (3, 2, 1), (9, 2, 1), (10, 4, 1), (10, 4, 2), (10, 4, 3),
                          (11, 4, 3), (64, 16, 8), (65, 16, 8), (63, 16, 15), (100, 7, None), (100, 256, None),
                          (256, None, None), (257, None, None), (1000, None, None), (600, None, 200), (300, 256, 255)))

    def test_many_windows(self):
        """More requests than run at once, and more than fit in memory at once."""
        for name in harness.TINY_MODELS:
            model = os.path.join(harness.FAMILIES, name)
            self.check_windows(500, 20, 5, model=model)
            self.check_windows(500, 20, 5, options=("--kv-cache-bytes", "256KiB", "--max-model-len", 64), model=model)

    def test_the_context_bounds_the_window(self):
        result = self.score("--token-ids", id_list([5] * 50), "--max-model-len", 20)
        self.assertEqual((result["window"], result["stride"]), (20, 10))
        self.assert_error(["score", "-m", TINY, *harness.ON, "--token-ids", "5,6", "--window", 257], "--window",
                          "256", "257")
        self.assert_error(["score", "-m", TINY, *harness.ON, "--token-ids", "5,6", "--stride", 256], "--stride",
                          "256")

    # ---- texts ----

    TEXT = "the band and the hand in the end\né 12"

    def test_text(self):
        ids = self.run_json("tokenize", "--model", self.plain, self.TEXT)[0]
        result = self.score("--text", self.TEXT, "--tokens", model=self.plain)
        self.assertEqual(result["token_ids"], ids)
        by_ids = self.score("--token-ids", id_list(ids), "--tokens", model=self.plain)
        self.assertEqual(result["logprobs"], by_ids["logprobs"])
        n_bytes = len(self.TEXT.encode())
        self.assertEqual(result["bytes"], n_bytes)
        self.assertAlmostEqual(result["bits_per_byte"], -result["logprob"] / math.log(2) / n_bytes, delta=1e-6)
        self.assertNotIn("bits_per_byte", by_ids)

    @harness.of_the_program
    def test_sources(self):
        by_text = self.score("--text", self.TEXT, model=self.plain)
        path = os.path.join(self.scratch, "text.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.TEXT + "\n")
        self.assertEqual(self.score("--text-file", path, model=self.plain), by_text)
        self.assertEqual(self.score(stdin=self.TEXT + "\n", model=self.plain), by_text)
        self.assertEqual(self.score("--text-file", "-", stdin="\ufeff" + self.TEXT, model=self.plain), by_text)
        self.assertNotEqual(self.score(stdin=self.TEXT + "\n\n", model=self.plain), by_text)

    def test_bos(self):
        """If a model begins texts with a token, all tokens of the text itself are scored."""
        plain = self.score("--text", self.TEXT, "--tokens", model=self.plain)
        bos = self.score("--text", self.TEXT, "--tokens", model=self.with_bos)
        self.assertEqual(bos["token_ids"], [1, *plain["token_ids"]])
        self.assertEqual(bos["scored_tokens"], plain["tokens"])

    @harness.of_the_program
    def test_text_format(self):
        result = self.score("--text", self.TEXT, model=self.plain)
        done = self.run_yoke("score", "--model", self.plain, *harness.ON, "--dtype", harness.DTYPE, "--text", self.TEXT)
        lines = dict(line.split("  ", 1) for line in done.out.splitlines())
        self.assertEqual(list(lines), ["tokens", "log-probability", "perplexity", "bits per byte"])
        self.assertIn(f"{result['tokens']}, {result['scored_tokens']} of them scored", lines["tokens"])
        self.assertAlmostEqual(float(lines["perplexity"]) / result["perplexity"], 1, delta=1e-6)
        self.assertAlmostEqual(float(lines["bits per byte"]), result["bits_per_byte"], delta=1e-5)
        self.assertAlmostEqual(float(lines["log-probability"].split(",")[0]), result["logprob"], delta=1e-4)

    # ---- refusals ----

    @harness.of_the_program
    def test_usage(self):
        for arguments, *parts in ((["--text", "a", "--token-ids", "5"], "one text", "2"),
                                  (["--tokens", "--text", "a"], "--tokens", "--format json"),
                                  (["--text", "a", "--window", "1"], "--window", "2 to"),
                                  (["--text", "a", "--stride", "0"], "--stride", "1 to"),
                                  (["--text", "a", "--window", "8", "--stride", "8"], "--stride", "8"),
                                  (["a text"], "a text", "--text")):
            self.assert_usage_error(["score", "-m", TINY, *arguments], *parts)
        self.assert_usage_error(["score", "--text", "a"], "--model")

    @harness.of_the_program
    def test_texts_that_cannot_be_scored(self):
        command = ["score", "-m", TINY, *harness.ON]
        self.assert_error([*command, "--token-ids", "5"], "at least two tokens", "1")
        self.assert_error([*command, "--token-ids", "5,200"], "200")
        self.assert_error([*command, "--text", "a text"], "tokenizer")
        self.assert_error([*command, "--text-file", "/no/such/file"], "/no/such/file")
        self.assert_error(["score", "-m", self.plain, *harness.ON, "--text", ""], "at least two tokens")


if __name__ == "__main__":
    harness.main()
