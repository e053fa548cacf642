"""A few layers of models of real widths, on GPUs in float16 against CPU ranks in float32.

Small models of the same families are no substitute: kernels are chosen by width and by numbers of experts and rows, and
some widths exceed the resources of a thread block. Rounding occasionally turns a near tie of a router, and then changes
the log-probabilities of that token and of those after it, and the next choice. Therefore the median and four fifths of
the differences must be small, in at least half of the tokens. On CPU ranks, noise of one unit in the last place of
float16 in the embeddings, norms and routers of MiniMax-M2 and of gpt-oss moves 1 of 59 and 6 of 46 tokens by more than
0.1, and parts 3 and 4 of 9 texts. If inputs are rounded to 8 bits, float16 and float32 round some of them to different
steps, and all limits are wider.

YOKE_REQUIRE_GPU=N makes fewer than N GPUs a failure; models on two ranks are skipped with one. No GPU, or no numpy:
exit code 77.
"""

import concurrent.futures
import json
import os
import random
import statistics
import subprocess
import sys

import harness

MAKE_MODEL = os.path.join(harness.TESTS_DIR, "..", "scripts", "make_random_model.py")
FEW_WORDS = {"vocab_size": 32768}  # real embeddings would be most of the test's time
GEMMA = {**FEW_WORDS, "tie_word_embeddings": False}  # a tied random lm_head repeats the last token with probability 1
MAMBA_EXPERTS_ATTENTION = {**FEW_WORDS, "hybrid_override_pattern": "ME*"}
# Preset, format and layers: one layer more than the dense ones for mixtures, and each kind of layer. Then options.
MODELS = [("qwen3-8b", "awq", 2), ("qwen3-32b", "awq", 1), ("qwen3-235b-a22b", "awq", 1),
          ("qwen2-57b-a14b", "awq", 1), ("mixtral-8x22b", "awq", 1), ("glm-4.5", "awq", 4), ("deepseek-v2", "awq", 2),
          ("deepseek-v3", "awq", 4), ("kimi-k2", "awq", 2), ("deepseek-v3", "fp8", 4), ("glm-4.5", "ct4", 4),
          ("mixtral-8x7b", "plain", 1), ("qwen3-235b-a22b", "gptq-act-order", 1), ("qwen2-57b-a14b", "w8a8", 1),
          ("qwen3.5-27b", "awq", 4, FEW_WORDS), ("qwen3.5-35b-a3b", "awq", 4, FEW_WORDS),
          ("nemotron-3-nano", "awq", 3, MAMBA_EXPERTS_ATTENTION, 64), ("gpt-oss-120b", "mxfp4", 2, FEW_WORDS),
          ("gemma-4-31b", "awq", 2, GEMMA), ("gemma-4-26b-a4b", "awq", 2, GEMMA, 64),
          ("minimax-m2", "awq", 1, FEW_WORDS), ("glm-4.7-flash", "awq", 2, FEW_WORDS)]
PROMPT_TOKENS, N_TOKENS = [40] * 8 + [300], 8  # of a prompt; of an answer
MEDIAN_LIMIT, LIMIT = 0.02, 0.1
N_WRONG_SHARE = 0.2  # fraction of the tokens that may be off by more than LIMIT
LEAST_SHARE = 0.5  # fraction of the tokens that must be compared before texts differ
WIDER = {"w8a8": 10}  # times the limits


def differences(expected, found):
    """Differences of log-probabilities of each prompt, up to the first different token."""
    result = []
    for one, other in zip(expected, found, strict=True):
        for step, (token, same) in enumerate(zip(one["token_ids"], other["token_ids"], strict=True)):
            if token != same:
                break
            result.append(abs(one["logprobs"][step]["logprob"] - other["logprobs"][step]["logprob"]))
    return result


def complaint(expected, found, wider=1):
    """Error of the answers found, or None. wider: factor of the limits."""
    errors = differences(expected, found)
    n_tokens = sum(len(one["token_ids"]) for one in expected)
    n_wrong = sum(error > LIMIT * wider for error in errors)
    if len(errors) < LEAST_SHARE / wider * n_tokens:
        return f"texts part after {len(errors)} of {n_tokens} tokens"
    if statistics.median(errors) > MEDIAN_LIMIT * wider or n_wrong > N_WRONG_SHARE * len(errors):
        return (f"log-probabilities are off by {statistics.median(errors):.4f} in the median, by more than "
                f"{LIMIT * wider} at {n_wrong} of {len(errors)} tokens")
    return None


class Widths(harness.Case):
    def generate(self, folder, prompts, *options):
        words = [word for prompt in prompts for word in ("--token-ids", ",".join(map(str, prompt)))]
        return self.run_json("generate", "--model", folder, "--temperature", 0, "--max-tokens", N_TOKENS, "--logprobs",
                             1, "--ignore-eos", "--max-model-len", 320, *words, *options)

    def check_model(self, preset, form, n_layers, config=None, group_size=128):
        folder = harness.scratch_folder(self.addCleanup)
        subprocess.run([sys.executable, MAKE_MODEL, "--preset", preset, "--format", form, "--layers", str(n_layers),
                        "--config", json.dumps(config or {}), "--group-size", str(group_size), "--out", folder],
                       check=True, stdout=subprocess.DEVNULL)
        random_ids = random.Random(7)
        prompts = [[random_ids.randrange(1000, 30000) for _ in range(n)] for n in PROMPT_TOKENS]
        on_gpus = ["--device", "cuda", "--dtype", "float16", "--kv-cache-bytes", "256MiB"]
        with concurrent.futures.ThreadPoolExecutor() as pool:  # most of the time is the CPU's
            on_cpu = pool.submit(self.generate, folder, prompts, "--device", "cpu", "--dtype", "float32")
            found = {"one by one": pool.submit(self.generate, folder, prompts, *on_gpus, "--max-num-seqs", 1),
                     "one rank": pool.submit(self.generate, folder, prompts, *on_gpus)}
        expected = on_cpu.result()
        found = {name: answers.result() for name, answers in found.items()}
        if min(harness.count_gpus(), int(os.environ.get("YOKE_REQUIRE_GPU", 2))) > 1:
            found["two ranks, one by one"] = self.generate(folder, prompts, *on_gpus, "--tp", 2, "--max-num-seqs", 1)
            found["two ranks"] = self.generate(folder, prompts, *on_gpus, "--tp", 2)
            found["two ranks, whole experts"] = self.generate(folder, prompts, *on_gpus, "--tp", 2, "--ep")
        failures = []
        for name, answers in found.items():
            errors = differences(expected, answers)
            wrong = complaint(expected, answers, WIDER.get(form, 1))
            print(f"{preset} {form}, {name}: {len(errors)} tokens, median {statistics.median(errors or [0]):.4f}, "
                  f"largest {max(errors, default=0):.4f}", flush=True)
            if wrong:
                failures.append(f"{preset} {form}, {name}: {wrong}")
        self.assertFalse(failures, "\n".join(failures))

    def test_a_wrong_answer_is_seen(self):
        """The comparison itself: finds wrong log-probabilities, and texts that differ."""
        def answer(token, logprob):
            return [{"token_ids": [token] * 4, "logprobs": [{"logprob": logprob}] * 4}]
        self.assertIsNone(complaint(answer(3, -1.0), answer(3, -1.01)))
        self.assertIsNotNone(complaint(answer(3, -1.0), answer(3, -1.05)))
        self.assertIsNotNone(complaint(answer(3, -1.0), answer(4, -1.0)))


def add_model_test(preset, form, *sizes):
    def test(self):
        self.check_model(preset, form, *sizes)
    setattr(Widths, "test_" + f"{preset}_{form}".replace("-", "_").replace(".", "_"), test)


for of_preset in MODELS:
    add_model_test(*of_preset)

if __name__ == "__main__":
    harness.gate(1)
    harness.need_package("numpy")
    harness.main()
