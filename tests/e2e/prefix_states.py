"""Prefix caching with recurrent states: answers from snapshots equal those that compute every prompt whole.

The models have the kinds of layers and the heads of Qwen3.5 and Nemotron 3, with few columns. CPU ranks give the same
bits. GPUs compute a prompt's rows in GEMMs of other sizes: tokens up to a near tie, and log-probabilities within 0.03.

YOKE_TEST_DEVICE=cuda and YOKE_TEST_RANKS: as in harness.py. No numpy: exit code 77.
"""

import json
import os
import random
import subprocess
import sys

import harness
from server_case import Case

MAKE_MODEL = os.path.join(harness.TESTS_DIR, "..", "scripts", "make_random_model.py")
SMALL = {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 512, "max_position_embeddings": 8192,
         "bos_token_id": 1, "eos_token_id": 2}
MODELS = {
    "qwen3.5-9b": {**SMALL, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
                   "linear_num_key_heads": 2, "linear_num_value_heads": 6},
    "nemotron-3-nano": {**SMALL, "num_hidden_layers": 4, "hybrid_override_pattern": "M*M-", "mamba_num_heads": 8,
                        "n_groups": 2, "num_attention_heads": 4},
}
TOLERANCE = 1e-6 if harness.ON_CPU else 0.03
N_TOKENS = 12
SHARED, LONG = 259, 2307  # tokens; snapshots are at multiples of 64, and at 2048. Few rows follow: states matter


class PrefixStates(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folders = {}
        for preset, config in MODELS.items():
            cls.folders[preset] = harness.scratch_folder(cls.addClassCleanup)
            subprocess.run([sys.executable, MAKE_MODEL, "--preset", preset, "--config", json.dumps(config), "--format",
                            "plain", "--out", cls.folders[preset]], check=True, stdout=subprocess.DEVNULL)

    def ask(self, server, prompt, **fields):
        """The choices of an answer, and the number of prompt tokens that were found computed."""
        answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": N_TOKENS, "ignore_eos": True,
                                                 "temperature": 0, "logprobs": 0, "return_token_ids": True, **fields})
        self.assertEqual(answer.status, 200, answer.text)
        return ([(choice["token_ids"], choice["logprobs"]["token_logprobs"]) for choice in answer.value["choices"]],
                answer.value["usage"]["prompt_tokens_details"]["cached_tokens"])

    def assert_close(self, found, expected, what, drawn=False):
        """drawn: on GPUs, tokens may part at any draw near a border, but not the first tokens of most choices."""
        self.assertEqual(len(found), len(expected), what)
        if drawn and not harness.ON_CPU:
            n_same = sum(one[0][0] == other[0][0] for one, other in zip(found, expected))
            self.assertGreater(2 * n_same, len(found), what)
        for (tokens, logprobs), (other_tokens, other_logprobs) in zip(found, expected):
            if harness.ON_CPU or not drawn:
                self.assert_same_tokens(tokens, other_tokens)
            for i, (token, other) in enumerate(zip(tokens, other_tokens)):
                if token != other:
                    break
                self.assertAlmostEqual(logprobs[i], other_logprobs[i], delta=TOLERANCE, msg=f"{what}, token {i}")

    def check(self, preset, *options, n_shared=SHARED):
        """Prompts that part after a common beginning, then the same ones again, and several samples of one."""
        draw = random.Random(5)

        def tokens(n):
            return [draw.randrange(3, SMALL["vocab_size"]) for _ in range(n)]

        shared = tokens(n_shared)
        prompts = [shared + tokens(n) for n in (79, 24, 18)]
        options = ("--max-num-seqs", 8, "--enable-prompt-tokens-details", *options)
        whole, reusing = (self.serve(*options, "--state-cache-bytes", size, model=self.folders[preset])
                          for size in (0, "64MiB"))
        cached = []
        for number in (0, 1, 2, 0, 1):
            what = f"{preset} {options}, prompt {number}"
            expected, of_whole = self.ask(whole, prompts[number])
            found, n_cached = self.ask(reusing, prompts[number])
            self.assertEqual(of_whole, 0, what)
            self.assert_close(found, expected, what)
            cached.append(n_cached)
        # The second prompt reveals the branch point. The third begins there; repetitions begin at the end of their own
        # prompts.
        place = n_shared // 64 * 64
        ends = [(len(prompt) - 16) // 64 * 64 for prompt in prompts]
        self.assertEqual(cached[2:], [place, ends[0], ends[1]], preset)
        samples = {"n": 3, "temperature": 1, "seed": 11}
        found, n_cached = self.ask(reusing, prompts[2], **samples)
        self.assertGreaterEqual(n_cached, ends[2])
        self.assert_close(found, self.ask(whole, prompts[2], **samples)[0], f"{preset} {options}, samples",
                          drawn=True)
        self.assertEqual(whole.metric("state_cache_hits_total"), 0)
        self.assertGreaterEqual(reusing.metric("state_cache_hits_total"), 4)
        for server in (whole, reusing):
            self.end(server)

    def test_a_shared_beginning(self):
        for preset in MODELS:
            self.check(preset)

    def test_small_steps(self):
        for preset in MODELS:
            self.check(preset, "--max-num-batched-tokens", 110)

    def test_kv_in_8_bits(self):
        for preset in MODELS:
            self.check(preset, "--kv-cache-dtype", "int8")

    def test_a_long_beginning(self):
        self.check("qwen3.5-9b", n_shared=LONG)


if __name__ == "__main__":
    harness.need_package("numpy")
    harness.main()
