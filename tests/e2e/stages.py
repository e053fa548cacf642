"""Pipeline stages: the same tokens and log-probabilities, bit for bit, as one stage whose ranks split the layers in the
same way.

Every model family runs in two stages, of one rank and of two; those with a third layer, and the demo model with its
six, in more. The log-probabilities of whole prompts and of a greedy continuation are compared, and drawn tokens with
penalties, which the last stage's first rank counts.
"""

import json
import os

import harness
from families import case_names

DRAWS = ("--temperature", 1, "--seed", 5, "--top-p", 0.9, "--repetition-penalty", 1.2, "--frequency-penalty", 0.3)



def most_stages(folder):
    """The number of layers; layers that read the KV cache of others are in one stage with these and all between."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config = config.get("text_config", config)
    blocks = config.get("layers_block_type") or config.get("hybrid_override_pattern") or ()  # of Nemotron-H
    n_layers = config.get("num_hidden_layers") or config.get("num_layers") or len(blocks)
    if not config.get("num_kv_shared_layers"):
        return n_layers
    owners = config["layer_types"][:n_layers - config["num_kv_shared_layers"]]
    readers = config["layer_types"][len(owners):]
    return min(len(owners) - owners[::-1].index(kind) for kind in readers)


class Stages(harness.Case):
    def answers(self, folder, n_ranks, n_stages, *options):
        prompts = ("3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3,2,3,8,4", "2,7,1,8,2,8,1,8,2,8", "1,6,1,8")
        results = self.run_json("generate", "--model", folder, "--device", "cpu", "--dtype", "float32", "--tp", n_ranks,
                                "--pipeline-parallel-size", n_stages, "--threads", 1, "--logprobs", 2, "--ignore-eos",
                                "--prompt-logprobs", 0, "--max-tokens", 6, "--kv-cache-bytes", "1MiB",
                                "--max-num-batched-tokens", 16, *options,
                                *(part for ids in prompts for part in ("--token-ids", ids)))
        return [(result["token_ids"], result["logprobs"], result["prompt_logprobs"]) for result in results]

    def check(self, folder, n_ranks, stages, *options):
        expected = self.answers(folder, n_ranks, 1, *options)
        self.assertEqual([len(token_ids) for token_ids, _, _ in expected], [6, 6, 6])
        for n_stages in stages:
            with self.subTest(folder=folder, n_ranks=n_ranks, n_stages=n_stages):
                self.assertEqual(self.answers(folder, n_ranks, n_stages, *options), expected)

    def test_families_in_two_stages(self):
        names = case_names()
        if harness.is_sanitized(self.yoke):
            names = ["llama_tied", "moe_qwen3", "deepseek_v3"]
        self.assertTrue(names)
        for name in names:
            folder = os.path.join(harness.FAMILIES, name)
            self.check(folder, 1, [n for n in (2, 3) if n <= most_stages(folder)], *DRAWS)

    def test_families_in_two_stages_of_two_ranks(self):
        names = [name for name in case_names() if not name.startswith(("format_", "llama_", "qwen3_"))]
        for name in ["moe_qwen3"] if harness.is_sanitized(self.yoke) else [*names, "format_w8a8", "llama_tied"]:
            self.check(os.path.join(harness.FAMILIES, name), 2, [2], "--temperature", 0)

    def test_six_layers(self):
        """Layers that do not divide, and a layer a stage; greedy rows alone, whose best logits the last stage finds."""
        self.check(harness.DEMO, 1, [3, 4, 5, 6], "--temperature", 0)
        self.check(harness.DEMO, 2, [4], *DRAWS)

    def test_experts_and_whole_experts(self):
        folder = os.path.join(harness.FAMILIES, "moe_glm4")
        self.check(folder, 2, [2], "--temperature", 0, "--enable-expert-parallel")

    def test_plan(self):
        """Memory of each stage: the embedding on the first, lm_head on the last, and no layer twice."""
        def plan(*options):
            return self.run_json("plan", "-m", harness.DEMO, "--device", "cpu", "--kv-cache-bytes", "16MiB",
                                 *options)[0]
        one, three = plan("--tp", 1), plan("--tp", 1, "-pp", 3)
        self.assertEqual((one["n_stages"], three["n_stages"], three["n_ranks"]), (1, 3, 3))
        whole = one["ranks"][0]
        self.assertEqual(sum(rank["kv_bytes_per_token"] for rank in three["ranks"]), whole["kv_bytes_per_token"])
        self.assertGreaterEqual(sum(rank["weight_bytes"] for rank in three["ranks"]), whole["weight_bytes"])
        self.assertLess(max(rank["weight_bytes"] for rank in three["ranks"]), whole["weight_bytes"])
        self.assertLess(three["ranks"][0]["workspace_bytes"], three["ranks"][2]["workspace_bytes"])

    def test_bench(self):
        bench = ("bench", harness.DEMO, "--device", "cpu", "--tp", 1, "-pp", 2, "--input-len", 8, "--output-len", 4,
                 "--batch", 4, "--kv-cache-bytes", "4MiB")
        self.assertRegex(self.run_yoke(*bench).out, r"^qwen3 on 2 cpu ranks in 2 pipeline stages, ")

    def test_refused(self):
        self.assert_error(["plan", "-m", os.path.join(harness.FAMILIES, "gemma4_e2b"), "--device", "cpu", "--tp", 1,
                           "-pp", 3], "--pipeline-parallel-size: expected at most 2", "share a KV cache, found 3")
        self.assert_error(["plan", "-m", harness.DEMO, "--device", "cpu", "--tp", 1, "-pp", 7],
                          "--pipeline-parallel-size: expected at most 6, one for each layer", "found 7")
        self.assert_usage_error(["plan", "-m", harness.DEMO, "--tp", 8, "-pp", 16],
                                "--tensor-parallel-size times --pipeline-parallel-size", "at most 64", "found 128")
        self.assert_usage_error(["plan", "-m", harness.DEMO, "--tp", 1, "-pp", 0], "--pipeline-parallel-size")
        self.assert_usage_error(["plan", "-m", harness.DEMO, "--tp", 2, "-pp", 2, "--devices", "0,1,2"],
                                "expected 4 devices", "--tensor-parallel-size times --pipeline-parallel-size")


if __name__ == "__main__":
    harness.main()
