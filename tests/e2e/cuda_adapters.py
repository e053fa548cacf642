"""Low-rank adapters on GPUs: goldens of peft, and requests with several adapters and none in the same steps.

float16: the log-probability of each token within 0.04 of the golden, or within three times the difference of CPU ranks
in float16 if that is more, up to a near tie. Requests in company are compared with the same requests alone, which GPUs
round differently.

YOKE_REQUIRE_GPU=N makes fewer than N GPUs a failure; rank counts beyond it are skipped. No GPU: exit code 77.
"""

import json
import os

import harness
from adapters import case_names, golden, path_of, scaled_copy, with_adapters

TOLERANCE, OF_CPU = 0.04, 3
IN_COMPANY = 0.03
N_TOKENS = 24


def difference(prompt, result):
    """The largest difference of a log-probability from the golden's; infinite if a token differs without a tie."""
    steps = zip(result["prompt_logprobs"], prompt["prompt_logprobs"], strict=True)
    worst = max(abs(step["logprob"] - expected) for step, expected in steps)
    for i, token in enumerate(prompt["output_ids"]):
        if result["token_ids"][i] != token:
            return worst if prompt["margins"][i] < 2 * TOLERANCE else float("inf")
        worst = max(worst, abs(result["logprobs"][i]["logprob"] - prompt["output_logprobs"][i]))
    return worst


class CudaAdapters(harness.Case):
    def generate(self, name, device, *options):
        wanted = golden(name)
        ids = [part for prompt in wanted["prompts"]
               for part in ("--token-ids", ",".join(map(str, prompt["prompt_ids"])))]
        found = self.run_json("generate", "--model", os.path.join(harness.FAMILIES, wanted["family"]), "--device",
                              device, "--dtype", "float16", "--temperature", 0, "-n", 6, "--logprobs", 0,
                              "--prompt-logprobs", 0, "--ignore-eos", *ids, *with_adapters(x=path_of(name)),
                              "--adapter", "x", *options)
        return max(difference(prompt, result) for prompt, result in zip(wanted["prompts"], found, strict=True))

    def test_goldens(self):
        most = min(harness.count_gpus(), int(os.environ.get("YOKE_REQUIRE_GPU", 4)), 4)
        names = case_names()
        self.assertIn("all_linear", names)
        for name in names:
            limit = max(TOLERANCE, OF_CPU * min(self.generate(name, "cpu"), 1.0))
            for n_ranks in range(1, most + 1):
                with self.subTest(name=name, n_ranks=n_ranks):
                    self.assertLess(self.generate(name, "cuda", "--tp", n_ranks), limit)

    def batch(self, lines, *options):
        """Lines of (prompt, adapter or None, tokens): token ids and log-probabilities of the answers."""
        text = "".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {
            "prompt": ids, "model": name or "m", "max_tokens": n, "temperature": 0, "ignore_eos": True, "logprobs": 0,
            "return_token_ids": True}}) + "\n" for i, (ids, name, n) in enumerate(lines))
        done = self.run_yoke("batch", "--model", os.path.join(harness.FAMILIES, "qwen3_f32"), "-", "--device", "cuda",
                             "--dtype", "float16", *options, stdin=text)
        answers = {int(answer["custom_id"]): answer["response"]["body"]["choices"][0] for answer in
                   map(json.loads, done.out.splitlines())}
        return [(answers[i]["token_ids"], answers[i]["logprobs"]["token_logprobs"]) for i in range(len(lines))]

    def assert_close(self, found, expected, least, what):
        """The same tokens and log-probabilities for at least `least` of them, after which a near tie may part both."""
        for i, (token, logprob) in enumerate(zip(*found)):
            if token != expected[0][i]:
                self.assertGreaterEqual(i, least, what)
                return
            self.assertAlmostEqual(logprob, expected[1][i], delta=IN_COMPANY, msg=f"{what} token {i}")

    def test_company(self):
        """Answers end after different numbers of tokens, so that a recorded step serves different sequences."""
        prompts = [prompt["prompt_ids"] for prompt in golden("all_linear")["prompts"]]
        other = scaled_copy("all_linear", os.path.join(harness.scratch_folder(self.addCleanup), "other"), lora_alpha=-3)
        adapters = with_adapters(x=path_of("all_linear"), y=other)
        plain = self.batch([(prompt, None, N_TOKENS) for prompt in prompts])
        alone = {name: self.batch([(prompt, name, N_TOKENS) for prompt in prompts], "--max-num-seqs", 1, *adapters)
                 for name in ("x", "y", None)}
        for name, expected in alone.items():
            for other_name, answers in alone.items():
                if name != other_name:
                    self.assertNotEqual(expected, answers)
        names = ("x", None, "y", "x", None)
        lines = [(prompt, name, N_TOKENS - (3 * at + i) % 11) for at, prompt in enumerate(prompts)
                 for i, name in enumerate(names)]
        for options in ((), ("--max-num-batched-tokens", 9, "--max-num-seqs", 3)):
            found = self.batch(lines, *adapters, *options)
            for i, (prompt, name, _) in enumerate(lines):
                expected = alone[name][prompts.index(prompt)]
                self.assert_close(found[i], expected, 2, f"{options} line {i}, adapter {name}")
        for prompt, expected in enumerate(plain):
            self.assert_close(alone[None][prompt], expected, 2, f"prompt {prompt} without adapter")


if __name__ == "__main__":
    harness.gate(1)
    harness.main()
