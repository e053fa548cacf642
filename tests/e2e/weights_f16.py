"""--weights f16: an AWQ checkpoint gives the same results as the checkpoint with weights dequantised and rounded
beforehand, and its plan has the right size."""

import json
import os
import struct

import harness
from safetensors_case import read_tensors, write_tensors

MODEL = os.path.join(harness.FAMILIES, "qwen3")
UNPACK_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # column j of a word's eight is nibble UNPACK_ORDER[j]
SAME_SHARDS = (1, 3) if harness.ON_CPU else (1,)  # two ranks would cut the FFN of a plain checkpoint elsewhere


def nibbles(words, columns):
    """Rows of 4-bit numbers; columns in order."""
    words = struct.unpack(f"<{len(words) // 4}I", words)
    flat = [word >> 4 * UNPACK_ORDER[j] & 15 for word in words for j in range(8)]
    return [flat[i:i + columns] for i in range(0, len(flat), columns)]


def dequantise(qweight, qzeros, scales):
    """A float16 weight [N, K] as in a checkpoint: scale * (q - zero) is exact in a double, then rounded once."""
    n_rows, n_columns = qweight[1][0], qweight[1][1] * 8
    q, zeros = nibbles(qweight[2], n_columns), nibbles(qzeros[2], n_columns)
    group = n_rows // len(zeros)
    scale = struct.unpack(f"<{len(zeros) * n_columns}e", scales[2])
    values = [scale[k // group * n_columns + n] * (q[k][n] - zeros[k // group][n])
              for n in range(n_columns) for k in range(n_rows)]
    return "F16", [n_columns, n_rows], struct.pack(f"<{len(values)}e", *values)


def write_dequantised(source, folder):
    os.mkdir(folder)
    tensors = read_tensors(source)
    plain = {name: tensor for name, tensor in tensors.items() if not name.endswith((".qweight", ".qzeros", ".scales"))}
    for name in tensors:
        if name.endswith(".qweight"):
            layer = name[:-len(".qweight")]
            plain[layer + ".weight"] = dequantise(*(tensors[f"{layer}.{part}"]
                                                    for part in ("qweight", "qzeros", "scales")))
    write_tensors(folder, plain)
    with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    del config["quantization_config"]
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return folder


class WeightsF16(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.plain = write_dequantised(MODEL, os.path.join(harness.scratch_folder(cls.addClassCleanup), "plain"))

    def score(self, model, *options):
        """All log-probabilities of a prompt in one step and of tokens one by one."""
        return self.run_json("generate", "--model", model, *harness.ON, "--temperature", 0, "--logprobs", 20,
                             "--prompt-logprobs", 20, "-n", 12, "--token-ids", ",".join(map(str, range(5, 60))),
                             "--token-ids", "7", *options)

    def answers(self, model, *options):
        return [{key: result[key] for key in ("token_ids", "logprobs", "prompt_logprobs")}
                for result in self.score(model, *options)]

    def test_same_as_dequantised_before(self):
        for n_ranks in SAME_SHARDS:
            for dtype in ("float16", "float32")[:2 if harness.ON_CPU else 1]:
                with self.subTest(n_ranks=n_ranks, dtype=dtype):
                    options = ("--dtype", dtype, "--tp", n_ranks)
                    self.assertEqual(self.answers(MODEL, "--weights", "f16", *options),
                                     self.answers(self.plain, *options))

    def test_close_to_four_bits_on_many_ranks(self):
        for n_ranks in (2, 4, 8) if harness.ON_CPU else (harness.RANKS,):
            options = ("--dtype", harness.DTYPE, "--tp", n_ranks)
            for a, b in zip(self.answers(MODEL, "--weights", "f16", *options), self.answers(MODEL, *options),
                            strict=True):
                for found, expected in zip(a["prompt_logprobs"][1:], b["prompt_logprobs"][1:], strict=True):
                    self.assertAlmostEqual(found["logprob"], expected["logprob"], delta=0.02)

    @harness.of_the_program
    def test_close_where_inputs_are_ordered(self):
        """Dequantised weights keep their order of inputs; others are sorted by group."""
        model = os.path.join(harness.FAMILIES, "format_gptq_act_order")
        for n_ranks in (1, 3):
            options = ("--device", "cpu", "--dtype", "float32", "--tp", n_ranks)
            for a, b in zip(self.answers(model, "--weights", "f16", *options), self.answers(model, *options),
                            strict=True):
                for found, expected in zip(a["prompt_logprobs"][1:], b["prompt_logprobs"][1:], strict=True):
                    self.assertAlmostEqual(found["logprob"], expected["logprob"], delta=0.02)

    def weight_bytes(self, model, *options):
        return sum(rank["weight_bytes"]
                   for rank in self.run_json("plan", "--model", model, "--no-link-test", *options)[0]["ranks"])

    @harness.of_the_program
    def test_plan(self):
        for device in (["--device", "cpu"], ["--device", "cuda", "--device-memory", "8GiB"]):
            for n_ranks in (1, 3):
                options = (*device, "--tp", n_ranks, "--dtype", "float16")
                packed = self.weight_bytes(MODEL, *options)
                as_16_bits = self.weight_bytes(MODEL, *options, "--weights", "f16")
                self.assertEqual(as_16_bits, self.weight_bytes(self.plain, *options))
                self.assertGreater(as_16_bits, packed)
                self.assertEqual(packed, self.weight_bytes(MODEL, *options, "--weights", "auto"))

    @harness.of_the_program
    def test_plan_of_8_bits(self):
        """Ranks keep them. GPUs keep those whose groups their GEMM supports, and the others as 16 bits, which is
        reported."""
        for name, gpus_keep in (("format_gptq8_v2_channel", True), ("format_fp8_tensor", True), ("format_fp8", False)):
            with self.subTest(name):
                self.check_plan_of_8_bits(os.path.join(harness.FAMILIES, name), gpus_keep)

    def check_plan_of_8_bits(self, model, gpus_keep):
        for device in ("cpu", "cuda"):
            options = ("--device", device, "--device-memory", "8GiB", "--dtype", "float16")
            same = self.weight_bytes(model, *options) == self.weight_bytes(model, *options, "--weights", "f16")
            self.assertEqual(same, device == "cuda" and not gpus_keep)
            for weights in ("auto", "f16"):
                plan = self.run_json("plan", "--model", model, "--no-link-test", *options, "--weights", weights)[0]
                is_reported = (device, weights, gpus_keep) == ("cuda", "auto", False)
                self.assertEqual(is_reported, "14 weights are kept as 16 bits: GPUs have no GEMM" in plan["reason"])
                self.assertEqual(is_reported, "16 bits" in plan["reason"])

    @harness.of_the_program
    def test_plan_of_8_bit_inputs(self):
        """If weights are to be 16 bits, inputs stay floats, which is reported."""
        model = os.path.join(harness.FAMILIES, "format_w8a8")
        for device in ("cpu", "cuda"):
            for weights in ("auto", "f16"):
                plan = self.run_json("plan", "--model", model, "--no-link-test", "--device", device, "--device-memory",
                                     "8GiB", "--dtype", "float16", "--weights", weights, "--tp", 2)[0]
                self.assertEqual(weights == "f16", "inputs of 14 weights stay floats" in plan["reason"])

    @harness.of_the_program
    def test_refusals(self):
        self.assert_usage_error(["generate", "--model", MODEL, "--weights", "int8"], "--weights", "auto", "f16", "int8")


if __name__ == "__main__":
    harness.main()
