"""dump_logits against goldens from transformers in float32: all positions, in pieces and token by token, on CPU ranks.

Run as `python3 FILE PATH_OF_DUMP_LOGITS [unittest's arguments]`; needs the standard library only.
"""

import array
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

FAMILIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "families")
TOLERANCE = 1e-3


def complaint(logits, prompt, tolerance):
    """Error of the logits of a golden's prompt and output, or None."""
    ids, first = prompt["prompt_ids"] + prompt["output_ids"], len(prompt["prompt_ids"]) - 1
    for position, row in enumerate(logits[:-1]):
        largest = max(row)
        total = largest + math.log(sum(math.exp(logit - largest) for logit in row))
        expected = [(ids[position + 1], prompt["prompt_logprobs"][position])] if position < first \
            else prompt["top"][position - first]
        for token, logprob in expected:
            error = abs(row[token] - total - logprob)
            if not error <= tolerance:
                return f"position {position}, token {token}: log-probability {row[token] - total}, expected {logprob}"
    return None


class DumpLogits(unittest.TestCase):
    tool = None

    def run_tool(self, *arguments):
        command = [self.tool, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, timeout=240, check=False, text=True)

    def dump(self, name, prompts, *options):
        """(report, logits [sequence][position][vocabulary]) of the prompts with their outputs."""
        sequences = [prompt["prompt_ids"] + prompt["output_ids"] for prompt in prompts]
        with tempfile.TemporaryDirectory() as folder:
            ids, out = os.path.join(folder, "ids"), os.path.join(folder, "logits")
            with open(ids, "wb") as file:
                array.array("i", sum(sequences, [])).tofile(file)
            done = self.run_tool("--model", os.path.join(FAMILIES, name), "--ids", ids, "--out", out, "--device", "cpu",
                                 "--lengths", ",".join(str(len(s)) for s in sequences), "--dtype", "float32", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            report, values = json.loads(done.stdout), array.array("f")
            with open(out, "rb") as file:
                values.frombytes(file.read())
        vocab = report["vocab_size"]
        self.assertEqual(len(values), vocab * sum(map(len, sequences)))
        rows = iter([values[i:i + vocab] for i in range(0, len(values), vocab)])
        return report, [[next(rows) for _ in sequence] for sequence in sequences]

    def check(self, name, *options):
        with open(os.path.join(FAMILIES, name, "golden.json"), encoding="utf-8") as file:
            prompts = json.load(file)["prompts"]
        report, logits = self.dump(name, prompts, *options)
        for i, prompt in enumerate(prompts):
            self.assertIsNone(complaint(logits[i], prompt, TOLERANCE), f"{name}, prompt {i}")
        return prompts, report, logits

    def test_goldens(self):
        for name in ("llama", "qwen3", "qwen2", "llama_uneven"):
            for n_ranks in (1, 2, 3):
                self.check(name, "--tp", n_ranks, "--piece", 17, "--decode", 20)

    def test_pieces_and_decoded_tokens(self):
        """As many rows as positions, in few large steps or in many small ones; short sequences are decoded whole."""
        n = 4 * 24 + 1 + 7 + 40 + 130
        _, whole, _ = self.check("qwen3", "--piece", 1000, "--decode", 0)
        self.assertEqual((whole["prefill"]["rows"], whole["decode"]["rows"]), (n, 0))
        _, cut, _ = self.check("qwen3", "--piece", 50, "--decode", 40, "--max-num-batched-tokens", 13)
        self.assertEqual((cut["prefill"]["rows"], cut["decode"]["rows"]), (n - 25 - 31 - 80, 25 + 31 + 80))
        self.assertGreater(cut["prefill"]["steps"], 10)
        self.assertGreaterEqual(cut["decode"]["steps"], 40)

    def test_a_wrong_logit_is_seen(self):
        prompts, _, logits = self.check("llama")
        longest = logits[-1]
        for position in (3, len(longest) - 2):
            token = max(range(len(longest[position])), key=longest[position].__getitem__)
            longest[position][token] += 1
            self.assertIsNotNone(complaint(longest, prompts[-1], TOLERANCE))
            longest[position][token] -= 1

    def test_refusals(self):
        llama = os.path.join(FAMILIES, "llama")
        done = self.run_tool("--model", llama, "--ids", __file__, "--lengths", 3, "--out", os.devnull)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected 3 token ids, found more than 3", done.stderr)
        self.assertEqual(self.run_tool("--model", "x").returncode, 2)
        self.assertEqual(self.run_tool("--lengths", "3,0").returncode, 2)


if __name__ == "__main__":
    DumpLogits.tool = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
