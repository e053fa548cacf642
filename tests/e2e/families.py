"""Every model family against goldens from transformers in float32, through the program, on 1 to 8 CPU ranks.

Compares the prompts' log-probabilities and those of the greedy continuation. Greedy tokens must be those of the golden
wherever its two best tokens differ by more than TOLERANCE, and each log-probability must be within TOLERANCE. A case's
prompts run together in one batch.
"""

import itertools
import json
import os

import harness

TOLERANCE = 1e-3
N_TOP = 16
# Cut like other families.
RELATIVES = ("gemma3", "seed_oss", "ernie4_5", "ernie4_5_moe", "granite", "granite_moe", "granite_hybrid",
             "granite_hybrid_groups",
             "phi3", "glm4_moe_lite", "deepseek_v32", "glm_moe_dsa", "kimi_k25",
             "glm4", "glm4_awq", "phi3_longrope", "ministral3", "ministral3_awq", "mistral3", "mistral4",
             "hunyuan", "hunyuan_moe",
             "minimax_m2", "minimax_m2_fp8", "gemma3_vl", "gemma4", "nemotron_latent",
             "nemotron_nano_fp8", "llama4", "llama4_maverick", "llama4_w4a16",
             "phi3_longrope_w4a16", "ernie4_5_moe_w4a16", "granite_moe_w4a16", "hunyuan_moe_w4a16",
             "kimi_k25_w4a16", "gemma4_w4a16", "gemma4_moe", "gemma4_e2b", "gemma4_e4b", "gpt_oss_plain")


def case_names():
    return sorted(name for name in os.listdir(harness.FAMILIES)
                  if os.path.exists(os.path.join(harness.FAMILIES, name, "golden.json")))


class Families(harness.Case):
    def generate(self, folder, prompts, *options):
        ids = []
        for prompt in prompts:
            ids += ["--token-ids", ",".join(map(str, prompt["prompt_ids"]))]
        scored = ("--prompt-logprobs", 0) if prompts[0]["prompt_logprobs"] is not None else ()
        return self.run_json("generate", "--model", folder, "--device", "cpu", "--dtype", "float32", "--temperature", 0,
                             "--max-tokens", len(prompts[0]["output_ids"]), "--logprobs", N_TOP,
                             "--ignore-eos", *scored, *ids, *options)

    def check(self, prompt, result):
        self.assertIsNone(result["text"])
        self.assertEqual(result["finish_reason"], "length")
        self.assertEqual(result["usage"]["prompt_tokens"], len(prompt["prompt_ids"]))
        self.assertEqual(len(result["token_ids"]), len(prompt["output_ids"]))
        if prompt["prompt_logprobs"] is not None:
            self.check_prompt(prompt, result["prompt_logprobs"])
        for step, token in enumerate(prompt["output_ids"]):
            expected = prompt["top"][step]
            found = result["logprobs"][step]
            found_top = dict(map(tuple, found["top"]))
            if result["token_ids"][step] != token:
                self.assertLessEqual(prompt["margins"][step], TOLERANCE, f"step {step}: another token")
                return  # a tie: the texts differ from here on
            self.assertEqual(found["token_id"], token)
            self.assertAlmostEqual(found["logprob"], expected[0][1], delta=TOLERANCE, msg=f"step {step}")
            self.assertEqual(len(found_top), N_TOP)
            for token_id, logprob in expected:
                # A missing alternative must have been in a near tie for the last place.
                self.assertAlmostEqual(found_top.get(token_id, min(found_top.values())), logprob, delta=TOLERANCE,
                                       msg=f"step {step} token {token_id}")

    def check_prompt(self, prompt, found):
        self.assertEqual([step["token_id"] for step in found], prompt["prompt_ids"][1:])
        for position, (step, expected) in enumerate(zip(found, prompt["prompt_logprobs"])):
            self.assertAlmostEqual(step["logprob"], expected, delta=TOLERANCE, msg=f"prompt position {position}")

    def check_case(self, name, *options, choose=lambda prompts: prompts, golden="golden.json"):
        folder = os.path.join(harness.FAMILIES, name)
        with open(os.path.join(folder, golden), encoding="utf-8") as file:
            prompts = choose(json.load(file)["prompts"])
        with self.subTest(case=name, options=options):
            results = self.generate(folder, prompts, *options)
            self.assertEqual(len(results), len(prompts))
            for prompt, result in zip(prompts, results):
                self.check(prompt, result)

    def check_all(self, *options, names=None):
        for name in names or case_names():
            self.check_case(name, *options)

    def test_there_are_cases(self):
        self.assertGreater(len(case_names()), 25)

    def test_small_steps(self):
        """Prompts split into chunks of a few tokens, and fewer requests at once than there are."""
        if harness.is_sanitized(self.yoke):
            self.skipTest("steps are the engine's, which test_engine cuts alike")
        self.check_all("--tp", 2, "--max-num-batched-tokens", 13, "--max-num-seqs", 3)

    def test_integers_are_alike_on_any_ranks(self):
        """If all of a model's row-parallel layers multiply integers, other rank counts change no bit."""
        for name, dtype in (("format_w8a8", "float32"), ("format_w8a8_static", "float16"),
                            ("hybrid_qwen3_5_w8a8", "bfloat16")):
            with open(os.path.join(harness.FAMILIES, name, "golden.json"), encoding="utf-8") as file:
                prompts = json.load(file)["prompts"]
            found = [[(result["token_ids"], result["logprobs"], result["prompt_logprobs"]) for result in
                      self.generate(os.path.join(harness.FAMILIES, name), prompts, "--tp", n_ranks, "--dtype", dtype)]
                     for n_ranks in (1, 3, 4)]
            self.assertEqual(found[1], found[0])
            self.assertEqual(found[2], found[0])

    def test_states_are_alike_in_any_company(self):
        """Recurrent states: other steps, requests, threads, stages and repetitions change no bit."""
        for name in ("hybrid_qwen3_5", "hybrid_qwen3_next", "nemotron_nano", "nemotron_h", "granite_hybrid",
                     "granite_hybrid_groups"):
            folder = os.path.join(harness.FAMILIES, name)
            with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
                prompts = json.load(file)["prompts"]

            def results(prompts, *options):
                found = self.generate(folder, prompts, "--tp", 2, "--dtype", "bfloat16", *options)
                return [(result["token_ids"], result["logprobs"], result.get("prompt_logprobs")) for result in found]

            alone = [results([prompt])[0] for prompt in prompts]
            for options in (("--max-num-batched-tokens", 7, "--max-num-seqs", 2), ("--threads", 3), ("--pp", 2)):
                self.assertEqual(results(prompts, *options), alone, f"{name} {options}")
            again = [without_prompt_logprobs(prompt) for prompt in prompts * 2]
            for options in ((), ("--max-num-seqs", 1), ("--state-cache-bytes", 0)):
                self.assertEqual([result[:2] for result in results(again, *options)],
                                 [result[:2] for result in alone * 2], f"{name} {options}")
            samples = ("--temperature", 1, "--seed", 3, "--n", 4)
            self.assertEqual(results(again, *samples), results(again, *samples, "--state-cache-bytes", 0))

    def test_whole_experts(self):
        """Whole experts distributed over ranks: 3 and 2, 2 each, some to 4 of 6 ranks, together with uneven heads of
        latent attention."""
        for name, n_ranks in (("moe_qwen3", 2), ("moe_glm4", 3), ("moe_qwen2", 4), ("moe_mixtral", 6),
                              ("deepseek_v2", 3), ("deepseek_v2_act_order", 4), ("deepseek_v3", 5),
                              ("format_w8a8_experts", 3), ("gpt_oss", 4), ("ernie4_5_moe", 3),
                              ("granite_moe", 2), ("hunyuan_moe", 3), ("nemotron_latent", 3),
                              ("llama4_w4a16", 2), ("gemma4_moe", 2)):
            self.check_case(name, "--tp", n_ranks, "--enable-expert-parallel")

    def test_inputs_of_8_bits(self):
        """Checkpoints of W4A8, with floats and integers: a row's scale is that of the rank's part of the row, hence
        goldens for each number of ranks."""
        for name, n_ranks in itertools.product(("format_compressed_w4a8", "format_compressed_w4a8_int8"), (1, 2, 3)):
            self.check_case(name, "--tp", n_ranks, golden=f"golden_{n_ranks}.json")
            self.assertIn("inputs of 1 weights stay floats, although the checkpoint requests 8-bit inputs",
                          self.last_err)
            self.check_case(name, "--tp", n_ranks, "--activations", "dtype", golden="golden_dtype.json")

    def test_longrope(self):
        """A context is as long as the factors for short contexts permit, unless the caller requests the factors for
        long contexts, which transformers applies to all tokens of a longer sequence."""
        name = "phi3_longrope"
        self.check_case(name)
        self.assertIn("the longest context is 64 tokens (original_max_position_embeddings)", self.last_err)
        self.assertIn("--max-model-len permits up to 256", self.last_err)
        for n_ranks in (1, 2, 3):
            self.check_case(name, "--tp", n_ranks, "--max-model-len", 256, golden="golden_long.json")
            self.assertIn("in contexts of up to 64 tokens (original_max_position_embeddings) answers differ",
                          self.last_err)
        self.assert_error(["generate", "--model", os.path.join(harness.FAMILIES, name), "--device", "cpu",
                           "--token-ids", ",".join(65 * "1")], "64")

    def test_waiting_for_memory(self):
        """KV for little more than the longest request: the others wait."""
        bytes_per_token = 3 * 2 * 2 * 16 * 4  # layers, K and V, KV heads, head_dim, float32
        self.check_case("llama", "--kv-cache-bytes", 160 * bytes_per_token, "--max-model-len", 160)

    def test_prefix_reuse(self):
        """The same prompts repeatedly, at once and one after another."""
        for name, at_once in (("qwen3", 1), ("qwen3", 5), ("moe_qwen3", 5), ("deepseek_v3", 5), ("hybrid_qwen3_5", 1),
                              ("hybrid_qwen3_5", 5), ("nemotron_h", 1), ("nemotron_h", 5), ("llama4", 1)):
            self.check_case(name, "--max-num-seqs", at_once, "--kv-cache-bytes", "4MiB",
                            choose=lambda prompts: [without_prompt_logprobs(prompt) for prompt in prompts * 3])
            self.assertIn("were found computed", self.last_err)


def without_prompt_logprobs(prompt):
    """Log-probabilities of a prompt require that all of it is computed."""
    return {**prompt, "prompt_logprobs": None}


def add_rank_test(n_ranks):
    def test(self):
        names = case_names()
        if n_ranks != 3 and harness.is_sanitized(self.yoke):
            self.skipTest("sanitizers see the code, not the numbers: one rank count does")
        if n_ranks > 4:  # other packings of a family's weights: cut like those of fewer ranks, with few exceptions
            names = [name for name in names if name not in RELATIVES and
                     (not name.startswith("format_") or name.endswith(("act_order", "w8a8_experts")))]
            names = names[n_ranks % 2::2]  # half of them on 5 and 7 ranks, the others on 6 and 8
        self.check_all("--tp", n_ranks, names=names)

    setattr(Families, f"test_{n_ranks}_ranks", test)


for n in range(1, 9):
    add_rank_test(n)

if __name__ == "__main__":
    harness.main()
