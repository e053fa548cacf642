"""--activations fp8, int8: the demo model's text is as probable as with inputs in 16 bits; answers of one step and of
many agree on CPU ranks; refusals, by name."""

import json
import os
import re
import shutil

import harness

DEMO = os.path.join(harness.TESTS_DIR, "models", "demo")
W4A8_INT8 = os.path.join(harness.FAMILIES, "format_compressed_w4a8_int8")
W4A8 = os.path.join(harness.FAMILIES, "format_compressed_w4a8")
PLAIN = os.path.join(harness.FAMILIES, "gemma3")  # without quantised weights
FP8 = ("--activations", "fp8")
INT8 = ("--activations", "int8")


class ActivationsFp8(harness.Case):
    def perplexity(self, *options):
        with open(os.path.join(DEMO, "heldout.txt"), encoding="utf-8") as file:
            text = file.read(800 if harness.is_sanitized(self.yoke) else 8000)
        return self.run_json("score", "--model", DEMO, *harness.ON, "--dtype", harness.DTYPE, *options,
                             stdin=text)[0]["perplexity"]

    def test_perplexity(self):
        """4 significant bits of an input are wrong by 2 % on average, and steps of 1/127 of a row's largest input by
        less, in any direction: far less than 1 % of the perplexity. GPUs keep 16 bits in layers as small as the
        demo's."""
        floats = self.perplexity()
        for n_ranks in (1, 2) if harness.ON_CPU else (1, harness.RANKS):
            found = {floats}
            for option in (FP8, INT8):
                rounded = self.perplexity(*option, "--tp", n_ranks)
                found.add(rounded)
                if not harness.is_sanitized(self.yoke):  # a short text
                    self.assertLess(abs(rounded / floats - 1), 0.01)
            if harness.ON_CPU:
                self.assertEqual(len(found), 3)

    @harness.of_the_program
    def test_steps_do_not_matter(self):
        """A row's rounding depends on the row alone."""
        for rounding in (FP8, INT8):
            logprobs = []
            for options in ((), ("--max-num-batched-tokens", 16)):
                result = self.run_json("generate", "--model", DEMO, *harness.ON, *rounding, "--temperature", 0, "-n", 8,
                                       "--prompt-logprobs", 0, "--logprobs", 1, "--token-ids",
                                       ",".join(map(str, range(5, 60))), *options)[0]
                logprobs.append([entry["logprob"] for entry in result["prompt_logprobs"][1:] + result["logprobs"]])
            self.assertEqual(*logprobs)

    @harness.of_the_program
    def test_refusals(self):
        for rounding in ("fp8", "int8"):
            expected = f"--activations {rounding}: expected weights of 4-bit integers, "
            generate = ["generate", "--device", "cpu", "--token-ids", "5", "-n", 1, "--activations", rounding,
                        "--model"]
            self.assert_error([*generate, PLAIN], expected + "which this model does not have; supported: auto")
            self.assert_error([*generate, DEMO, "--weights", "f16"], expected + "found weights f16; supported: auto")
        self.assert_usage_error(["generate", "--model", DEMO, "--activations", "fp4"], "--activations")

    @harness.of_the_program
    def test_checkpoints_that_request_it(self):
        """A W4A8 checkpoint has fp8 unless an option overrides this; families.py has the goldens."""
        def logprobs(*options):
            result = self.run_json("generate", "--model", W4A8, "--device", "cpu", "--dtype", "float32",
                                   "--temperature", 0, "-n", 4, "--prompt-logprobs", 0, "--ignore-eos", "--token-ids",
                                   "5,6,7,8,9", *options)[0]
            return [entry["logprob"] for entry in result["prompt_logprobs"][1:]]

        stay, rounded, kept = "inputs of {} weights stay floats", logprobs(), logprobs("--activations", "dtype")
        self.assertIn(stay.format(13), self.last_err)
        everywhere = logprobs(*FP8)
        self.assertIn(stay.format(1), self.last_err)
        self.assertNotEqual(rounded, kept)
        self.assertNotEqual(rounded, everywhere)  # the layer without a request too
        self.assertNotEqual(logprobs(*INT8), everywhere)
        self.assertEqual(logprobs("--weights", "f16"), logprobs("--weights", "f16", "--activations", "dtype"))

    @harness.of_the_program
    def test_experts_stay_floats(self):
        """In a mixture the other layers round their inputs; the log has the number of those that do not."""
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "mixture")
        shutil.copytree(os.path.join(harness.FAMILIES, "hybrid_qwen3_next_int4"), folder)
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["quantization_config"]["config_groups"]["group_0"]["input_activations"] = {
            "num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "symmetric": True}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        found = []
        for options in ((), ("--activations", "dtype")):
            result = self.run_json("generate", "--model", folder, "--device", "cpu", "--dtype", "float32", "-n", 1,
                                   "--prompt-logprobs", 0, "--token-ids", "5,6,7,8,9", *options)[0]
            n_floats = re.search("inputs of ([0-9]+) weights stay floats", self.last_err)
            found.append((int(n_floats[1]), [entry["logprob"] for entry in result["prompt_logprobs"][1:]]))
        self.assertLess(0, found[0][0])
        self.assertLess(found[0][0], found[1][0])
        self.assertNotEqual(found[0][1], found[1][1])

    @harness.of_the_program
    def test_figures_name_it(self):
        folder = harness.scratch_folder(self.addCleanup)
        for choice, model, resolved in (("auto", DEMO, "dtype"), ("fp8", DEMO, "fp8"), ("int8", DEMO, "int8"),
                                        ("auto", W4A8, "fp8"), ("dtype", W4A8, "dtype"),
                                        ("int8", W4A8, "int8"), ("auto", W4A8_INT8, "int8")):
            path = os.path.join(folder, "figures.json")
            self.run_yoke("bench", "--model", model, "--device", "cpu", "--batch", 1, "--input-len", 4, "--output-len",
                          4, "--repeats", 1, "--output", path, "--activations", choice)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["activations"], resolved)


if __name__ == "__main__":
    harness.main()
