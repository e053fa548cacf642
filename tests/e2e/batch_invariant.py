"""--batch-invariant: answers with the same bits for any other requests, and on any number of ranks.

A random model of 4-bit weights and one of 16-bit weights, whose layers can be divided among 1, 2, 4 and 8 ranks, answer
prompts alone, together, in steps of few rows, and on several ranks. The log-probabilities of whole prompts and of
continuations must be equal. On GPUs ranks share one GPU, unless YOKE_TEST_RANKS gives a number of GPUs.
"""

import json
import os
import random
import struct

import harness

HIDDEN, CHANNELS, HEADS, KV_HEADS, HEAD_DIM, LAYERS, VOCAB, GROUP = 256, 1024, 16, 8, 64, 2, 512, 64
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "attention_bias": False,
          "bos_token_id": 1, "eos_token_id": 2, "hidden_size": HIDDEN, "intermediate_size": CHANNELS,
          "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
          "head_dim": HEAD_DIM, "vocab_size": VOCAB, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
          "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "float16"}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}
RANKS = [n for n in (1, 2, 4, 8) if harness.ON_CPU or n <= max(harness.RANKS, 2)]


def halves(seed, count, largest):
    """Float16 of either sign between 2^(largest - 3) and 2^(largest + 1), as bytes."""
    high = bytes((byte & 0x80) | ((largest + 15 - byte % 3) << 2 & 0x7C) | (byte >> 3 & 3) for byte in range(256))
    data = bytearray(random.Random(seed).randbytes(2 * count))
    data[1::2] = data[1::2].translate(high)
    return bytes(data)


def module(name, n_outputs, n_inputs, is_quantised):
    """Tensors of a linear layer: (name, dtype, shape, bytes)."""
    if not is_quantised:
        return [(f"{name}.weight", "F16", [n_outputs, n_inputs], halves(name, n_outputs * n_inputs, -5))]
    groups, source = n_inputs // GROUP, random.Random(name)
    scales = bytearray(halves(name, groups * n_outputs, -8))
    scales[1::2] = scales[1::2].translate(bytes(byte & 0x7F for byte in range(256)))
    return [(f"{name}.qweight", "I32", [n_inputs, n_outputs // 8], source.randbytes(n_inputs * n_outputs // 2)),
            (f"{name}.qzeros", "I32", [groups, n_outputs // 8], source.randbytes(groups * n_outputs // 2)),
            (f"{name}.scales", "F16", [groups, n_outputs], bytes(scales))]


def make_model(folder, is_quantised, n_layers=LAYERS):
    ones = b"\x00\x3c"
    tensors = [("model.embed_tokens.weight", "F16", [VOCAB, HIDDEN], halves("embedding", VOCAB * HIDDEN, -3)),
               ("model.norm.weight", "F16", [HIDDEN], ones * HIDDEN)]
    for layer in range(n_layers):
        name = f"model.layers.{layer}"
        for norm, size in (("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN),
                           ("self_attn.q_norm", HEAD_DIM), ("self_attn.k_norm", HEAD_DIM)):
            tensors.append((f"{name}.{norm}.weight", "F16", [size], ones * size))
        for linear, n_outputs, n_inputs in (
                ("self_attn.q_proj", HEADS * HEAD_DIM, HIDDEN), ("self_attn.k_proj", KV_HEADS * HEAD_DIM, HIDDEN),
                ("self_attn.v_proj", KV_HEADS * HEAD_DIM, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM),
                ("mlp.gate_proj", CHANNELS, HIDDEN), ("mlp.up_proj", CHANNELS, HIDDEN),
                ("mlp.down_proj", HIDDEN, CHANNELS)):
            tensors += module(f"{name}.{linear}", n_outputs, n_inputs, is_quantised)
    header, data = {}, b""
    for name, dtype, shape, tensor in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(tensor)]}
        data += tensor
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        quantisation = {"quantization_config": AWQ} if is_quantised else {}
        json.dump({**CONFIG, **quantisation, "num_hidden_layers": n_layers}, file)
    return folder


PROMPTS = [[random.Random(i).randrange(3, VOCAB) for _ in range(size)] for i, size in enumerate((1, 2, 17, 140))]
N_COPIES, ROWS = (3, (7,)) if harness.ON_CPU else (50, (1, 7, 64))
DEVICE = ["--device", "cpu", "--dtype", "float32"] if harness.ON_CPU else ["--device", "cuda", "--dtype", "float16"]


class BatchInvariant(harness.Case):
    def answers(self, folder, prompts, *options):
        if not harness.ON_CPU:
            os.environ["YOKE_SHARED_GPUS"] = "1"
        results = self.run_json("generate", "--model", folder, *DEVICE, "--batch-invariant", "--max-tokens", 6,
                                "--logprobs", 3, "--prompt-logprobs", 0, "--ignore-eos", "--temperature", 0,
                                "--max-model-len", 512, "--kv-cache-bytes", "64MiB", *options,
                                *(word for ids in prompts for word in ("--token-ids", ",".join(map(str, ids)))))
        return [(one["token_ids"], one["logprobs"], one["prompt_logprobs"]) for one in results]

    def check(self, folder, ranks, rows):
        """rows: of the steps in which prompts are computed."""
        expected = [self.answers(folder, [prompt])[0] for prompt in PROMPTS]
        self.assertEqual(len({json.dumps(one) for one in expected}), len(PROMPTS))
        for n_ranks in ranks:
            with self.subTest("together", n_ranks=n_ranks):
                self.assertEqual(self.answers(folder, PROMPTS, "--tp", n_ranks), expected)
        for n_rows in rows:
            with self.subTest("in steps of few rows", n_rows=n_rows):
                self.assertEqual(self.answers(folder, PROMPTS, "--max-num-batched-tokens", n_rows), expected)
        with self.subTest("many of each, without reuse of prefixes, in too little memory"):
            self.assertEqual(self.answers(folder, N_COPIES * PROMPTS, "--max-num-seqs", 256, "--no-prefix-reuse",
                                          "--kv-cache-bytes", "6MiB"), N_COPIES * expected)

    def test_4_bits(self):
        self.check(make_model(harness.scratch_folder(self.addCleanup), True), RANKS, ROWS)

    def test_16_bits(self):
        self.check(make_model(harness.scratch_folder(self.addCleanup), False), RANKS[-1:], ROWS[-1:])

    def test_refusals(self):
        families = [("moe_qwen3", "mixtures of experts"), ("deepseek_v3", "mixtures of experts"),
                    ("hybrid_qwen3_5", "recurrent states"), ("gemma4_e2b", "embeddings of layers"),
                    ("format_gptq_act_order", "act order"), ("format_w8a8", "quantised inputs"),
                    ("format_kv_c8", "a KV cache in 8 bits (kv_cache_dtype can be that of activations)")]
        for name, reason in families:
            self.refused(os.path.join(harness.FAMILIES, name), reason)
        self.refused(harness.DEMO, "640 channels) can be split over 1 rank alone, found 2", "--tp", 2)
        self.refused(harness.DEMO, "a KV cache in 8 bits", "--kv-cache-dtype", "fp8")
        self.refused(harness.DEMO, "lm_head int8", "--lm-head", "int8")
        self.refused(harness.DEMO, "adapters", "--enable-lora")

    @harness.of_the_program
    def test_inputs_that_activations_keeps(self):
        for name in ("format_compressed_w4a8", "format_compressed_w4a8_int8"):
            options = ("--model", os.path.join(harness.FAMILIES, name), "--token-ids", "5,6", "--max-tokens", 2,
                       "--activations", "dtype", *DEVICE[:2])
            (result,) = self.run_json("generate", "--batch-invariant", *options)
            self.assertEqual(len(result["token_ids"]), 2)

    @harness.of_the_program
    def test_plan(self):
        """A table without numbers of ranks that are refused."""
        model = make_model(harness.scratch_folder(self.addCleanup), True)
        lines = self.run_yoke("plan", "--model", model, "--device", "cpu", "--device-memory", "8GiB",
                              "--batch-invariant", "--format", "json").out.splitlines()
        self.assertEqual([plan["n_ranks"] for plan in map(json.loads, lines) if "n_ranks" in plan], [1, 2, 4, 8])
        self.assert_error(("plan", "--model", harness.DEMO, "--goal", "latency", "--gpu", "H200", "--batch-invariant"),
                          "--batch-invariant: ", "leave it out", expect=2)

        tight = self.run_yoke("plan", "--model", harness.DEMO, "--device", "cpu", "--device-memory", "1MiB",
                              "--batch-invariant", expect=1)
        self.assertIn("nothing fits; on 1 rank: weights", tight.err)
        self.assert_error(("plan", "--model", model, "--device", "cuda", "--device-memory", "80GiB", "--tp", 4,
                           "--disable-custom-all-reduce", "--batch-invariant"), "a stage has 1 or 2 ranks, found 4")

    @harness.of_the_program
    def test_plan_of_gpus(self):
        """A plan refuses formats that GPUs cannot divide, by option and tensor."""
        for name, weights in (("format_gptq8_v2_channel", "8-bit integers"), ("format_mxfp4", "4-bit floats")):
            options = ("plan", "--model", os.path.join(harness.FAMILIES, name), "--device", "cuda", "--device-memory",
                       "80GiB", "--tp", 1, "--batch-invariant")
            self.assert_error(options, "--batch-invariant: ", weights, "cuda device: model.layers.0.self_attn.q_proj.")
            self.assertIn("yes", self.run_yoke(*options, "--weights", "f16").out)

    @harness.of_the_program
    def test_plan_of_sums(self):
        """All layers of a rank share the memory of the sums of slices."""
        sizes = {}
        for n_layers in (1, 5):
            model = make_model(harness.scratch_folder(self.addCleanup), False, n_layers)
            for options in ((), ("--batch-invariant",)):
                line = self.run_yoke("plan", "--model", model, "--device", "cpu", "--device-memory", "8GiB", "--tp", 1,
                                     "--format", "json", *options).out.splitlines()[0]
                (rank,) = json.loads(line)["ranks"]
                sizes[n_layers, options] = (rank["weight_bytes"], rank["workspace_bytes"])
        weights, workspace = ([sizes[n, ("--batch-invariant",)][i] - sizes[n, ()][i] for n in (1, 5)] for i in (0, 1))
        self.assertEqual(workspace[0], workspace[1])
        self.assertGreater(workspace[0], 64 * 2 * 2 * CHANNELS * 4)  # of gate and up: rows, slices, columns
        n_columns = (HEADS + 2 * KV_HEADS) * HEAD_DIM + 2 * CHANNELS + 2 * HIDDEN
        self.assertEqual(weights, [4 * n_columns, 5 * 4 * n_columns])  # biases alone

    def refused(self, folder, reason, *options):
        with self.subTest(folder=folder, reason=reason):
            self.assert_error(("generate", "--model", folder, "--token-ids", "5,6", "--batch-invariant", *DEVICE[:2],
                               *options), "--batch-invariant: ", reason)


if __name__ == "__main__":
    if not harness.ON_CPU:
        harness.gate(1)
    harness.main()
