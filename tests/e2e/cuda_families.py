"""Every model family on GPUs against goldens from transformers in float32, and the demo model against CPU ranks.

float16: the log-probability of each reference token within 0.02 of the golden, those of the alternatives (whose logits
are smaller, so that rounding weighs more) within 0.06, and the golden's greedy token wherever its two best tokens
differ by more than 0.04, since each of the two may be off. If CPU ranks in float16 differ from the golden by more than
0.007, three times their difference replaces the 0.02, and three times that of the alternatives the 0.06: gated delta
nets amplify roundings, since their norm divides results that are nearly 0, and GPUs round products of chunks that CPU
ranks keep in float32. bfloat16 keeps three bits less: eight times as much.
One case's prompts run in one batch.

YOKE_REQUIRE_GPU=N makes fewer than N GPUs a failure; rank counts beyond it are skipped. No GPU: exit code 77.
"""

import concurrent.futures
import json
import os

import harness
from families import case_names

TOLERANCES = {"float16": 0.02, "bfloat16": 0.16}
ALTERNATIVES = 3  # times the tolerance
OF_CPU = 3  # times the difference of CPU ranks
N_TOP = 16
N_PARALLEL = min(16, max(4, (os.cpu_count() or 1) // 4))  # programs at once
DEMO_PROMPTS = ["Once upon a time", "The", "1 + 1 ="]


def compare(expected, result, margin_limit):
    """(largest error of reference tokens, of alternatives, a sentence on a different token or None).

    expected: (token, margin, top as [[id, logprob]...]) of each step.
    """
    worst, worst_alternative = 0.0, 0.0
    if len(result["token_ids"]) != len(expected):
        return worst, worst_alternative, f"expected {len(expected)} tokens, found {len(result['token_ids'])}"
    for step, (token, margin, top) in enumerate(expected):
        found = result["logprobs"][step]
        if result["token_ids"][step] != token:
            sentence = f"step {step}: expected token {token} (margin {margin}), found {result['token_ids'][step]}"
            # The texts differ after a tie.
            return worst, worst_alternative, sentence if margin > margin_limit else None
        worst = max(worst, abs(found["logprob"] - top[0][1]))
        found_top = dict(map(tuple, found["top"]))
        for token_id, logprob in top:
            # A missing alternative must have been in a near tie for the last place.
            error = abs(found_top.get(token_id, min(found_top.values())) - logprob)
            worst_alternative = max(worst_alternative, error)
    return worst, worst_alternative, None


def complaint(expected, result, tolerance, alternatives=0):
    """Error of a result, or None. alternatives: tolerance for these if more than ALTERNATIVES times the other."""
    worst, worst_alternative, sentence = compare(expected, result, 2 * tolerance)
    if sentence:
        return sentence
    if worst > tolerance:
        return f"a log-probability is off by {worst:.4f}"
    if worst_alternative > max(ALTERNATIVES * tolerance, alternatives):
        return f"a log-probability of an alternative is off by {worst_alternative:.4f}"
    return None


class CudaFamilies(harness.Case):
    cpu_results = {}  # answers of CPU ranks by (folder, dtype)

    def generate(self, device, folder, dtype, n_ranks, n_tokens, prompts, *options):
        return self.run_json("generate", "--model", folder, "--device", device, "--dtype", dtype, "--tp", n_ranks,
                             "--temperature", 0, "--max-tokens", n_tokens, "--logprobs", N_TOP, "--ignore-eos",
                             *prompts, *options)

    def complaints(self, name, dtype, n_ranks, *options):
        folder = os.path.join(harness.FAMILIES, name)
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
            golden = json.load(file)
        prompts = []
        for prompt in golden["prompts"]:
            prompts += ["--token-ids", ",".join(map(str, prompt["prompt_ids"]))]
        n_tokens = len(golden["prompts"][0]["output_ids"])
        results = self.generate("cuda", folder, dtype, n_ranks, n_tokens, prompts, *options)
        if (folder, dtype) not in self.cpu_results:
            self.cpu_results[folder, dtype] = self.generate("cpu", folder, dtype, 1, n_tokens, prompts)
        on_cpu = self.cpu_results[folder, dtype]
        expected = [list(zip(prompt["output_ids"], prompt["margins"], prompt["top"])) for prompt in golden["prompts"]]
        of_cpu = [compare(steps, result, 1) for steps, result in zip(expected, on_cpu)]
        tolerance = max(TOLERANCES[dtype], OF_CPU * max(worst for worst, *_ in of_cpu))
        alternatives = OF_CPU * max(worst for _, worst, _ in of_cpu)
        found = []
        for i, (steps, result) in enumerate(zip(expected, results)):
            wrong = complaint(steps, result, tolerance, alternatives)
            if wrong:
                found.append(f"{name} {dtype} on {n_ranks}: prompt {i}: {wrong}")
        return found if len(results) == len(golden["prompts"]) else found + [f"{name}: {len(results)} results"]

    def check_all(self, dtype, n_ranks, *options):
        with concurrent.futures.ThreadPoolExecutor(N_PARALLEL) as pool:
            runs = [pool.submit(self.complaints, name, dtype, n_ranks, *options) for name in case_names()]
        failures = []
        for run in runs:
            try:
                failures += run.result()
            except AssertionError as error:
                failures.append(str(error))
        self.assertFalse(failures, "\n".join(failures[:20]))

    def test_a_wrong_golden_is_seen(self):
        """The comparison itself: finds a wrong token and a wrong log-probability."""
        result = {"token_ids": [3], "logprobs": [{"logprob": -0.5, "top": [[3, -0.5], [4, -1.5]]}]}
        self.assertIsNone(complaint([(3, 1.0, [[3, -0.5]])], result, 0.02))
        self.assertIsNotNone(complaint([(4, 1.0, [[4, -0.5]])], result, 0.02))
        self.assertIsNotNone(complaint([(3, 1.0, [[3, -0.53]])], result, 0.02))
        self.assertIsNotNone(complaint([(3, 1.0, [[3, -0.5], [4, -1.4]])], result, 0.02))

    def test_small_steps(self):
        """Prompts split into chunks of a few tokens, and fewer requests at once than there are."""
        self.check_all("float16", 1, "--max-num-batched-tokens", 13, "--max-num-seqs", 3)

    def test_bfloat16(self):
        self.check_all("bfloat16", 1)

    def test_the_demo_model_answers_as_on_cpu(self):
        if not os.path.exists(os.path.join(harness.DEMO, "config.json")):
            self.skipTest("no demo model here")
        prompts = [word for prompt in DEMO_PROMPTS for word in ("--prompt", prompt)]
        on_cpu = self.generate("cpu", harness.DEMO, "float32", 1, 40, prompts)
        for n_ranks in range(1, harness.count_gpus() + 1):
            results = self.generate("cuda", harness.DEMO, "float16", n_ranks, 40, prompts)
            for expected, result in zip(on_cpu, results, strict=True):
                steps = [(token, at["top"][0][1] - at["top"][1][1], at["top"])
                         for token, at in zip(expected["token_ids"], expected["logprobs"])]
                self.assertIsNone(complaint(steps, result, TOLERANCES["float16"]))

    def test_refusals(self):
        folder = os.path.join(harness.FAMILIES, "llama")
        self.assert_error(["generate", "--model", folder, "--device", "cuda", "--dtype", "float32", "--token-ids", "1"],
                          "float32")
        n_gpus = harness.count_gpus()
        if n_gpus < 8:
            self.assert_error(["generate", "--model", folder, "--device", "cuda", "--tp", n_gpus + 1,
                               "--token-ids", "1"], f"{n_gpus + 1} ranks", f"has {n_gpus}")
            self.assert_error(["generate", "--model", folder, "--devices", n_gpus, "--token-ids", "1"], str(n_gpus))


def add_rank_test(n_ranks):
    def test(self):
        if n_ranks > min(harness.count_gpus(), int(os.environ.get("YOKE_REQUIRE_GPU", n_ranks))):
            self.skipTest(f"needs {n_ranks} GPUs")
        self.check_all("float16", n_ranks)
    setattr(CudaFamilies, f"test_float16_on_{n_ranks}", test)


for n in range(1, 5):
    add_rank_test(n)

if __name__ == "__main__":
    harness.gate(1)
    harness.main()
