"""Logits that are not finite: the program names the request that has them, and everything else continues."""

import json
import os
import shutil
import struct

import batch_case
import harness

NAN_ID = 198


def make_unsound_model(folder):
    """A model of 200 tokens without a tokenizer; the embedding of one token is NaN."""
    shutil.copytree(os.path.join(harness.FAMILIES, "llama"), folder)
    path = os.path.join(folder, "model.safetensors")
    with open(path, "r+b") as file:
        header_bytes, = struct.unpack("<Q", file.read(8))
        tensor = json.loads(file.read(header_bytes))["model.embed_tokens.weight"]
        row_bytes = tensor["shape"][1] * 2
        file.seek(8 + header_bytes + tensor["data_offsets"][0] + NAN_ID * row_bytes)
        file.write(b"\x00\x7e" * tensor["shape"][1])
    return folder


class Unsound(batch_case.Base):
    def setUp(self):
        super().setUp()
        self.model = make_unsound_model(self.path("model"))

    def test_batch_writes_the_error_in_the_lines_place_and_goes_on(self):
        lines = [{"prompt": [5, 6, 7 + i], "max_tokens": 4} for i in range(20)]
        expected = self.batch(lines, model=self.model)
        for i in range(0, 20, 3):
            lines[i]["prompt"] = [5, NAN_ID, 7]
        results = self.batch(lines, model=self.model, expect=1)
        for i, (result, sound) in enumerate(zip(results, expected)):
            if i % 3 == 0:
                self.assertIn("a logit is NaN", result["error"]["message"])
                self.assertIn("position 2 ", result["error"]["message"])
            elif harness.ON_CPU:
                self.assertEqual({**result, "input_hash": 0}, {**sound, "input_hash": 0})
        self.batch_resumes()

    def batch_resumes(self):
        """A second run finds every line done, including those with an error."""
        before = self.results()
        self.run_yoke(*self.arguments(model=self.model), expect=1)
        self.assertEqual(self.results(), before)

    def test_generate_fails_the_one_prompt(self):
        results = self.run_json("generate", "-m", self.model, *harness.ON, *batch_case.SMALL, "-n", 4, "--token-ids",
                                "5,6", "--token-ids", f"5,{NAN_ID}", "--token-ids", "7", expect=1)
        self.assertEqual([result["finish_reason"] == "error" for result in results], [False, True, False])
        self.assertIn("prompt 2: position 1 ", self.last_err)
        self.assertIn("(1 failed)", self.last_err)

    def test_prompt_logprobs_and_score_name_the_position(self):
        results = self.run_json("generate", "-m", self.model, *harness.ON, *batch_case.SMALL, "-n", 1,
                                "--prompt-logprobs", 0, "--token-ids", f"5,6,{NAN_ID},8", "--token-ids", "5,6,7",
                                expect=1)
        self.assertIn("position 2 ", results[0]["error"]["message"])
        self.assertEqual(len(results[1]["prompt_logprobs"]), 2)
        self.assert_error(["score", "-m", self.model, *harness.ON, *batch_case.SMALL,
                           "--token-ids", f"5,6,{NAN_ID},8,9"], "tokens 0 to 4", "position 2 ", "NaN")

    def test_a_legal_penalty_makes_no_infinity(self):
        self.run_yoke("generate", "-m", harness.DEMO, *harness.ON, *batch_case.SMALL, "-p", "Sort: k b z a ->", "-p",
                      "1+1=", "-n", 8, "--repetition-penalty", "1e-38")


if __name__ == "__main__":
    harness.main()
