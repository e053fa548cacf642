"""scripts/convert_gguf.py: models of each architecture come back from GGUF bit for bit and answer as their goldens of
transformers; quantised types, rotary scalings, tokenizers against goldens of `tokenizers`, split files; unsupported
files are refused by name and leave no output. Needs the packages numpy and gguf.
"""

import json
import os
import re
import struct
import subprocess
import sys

import harness

for package in ("numpy", "gguf"):
    harness.need_package(package)

import gguf  # noqa: E402
import gguf_case  # noqa: E402
import numpy as np  # noqa: E402
from safetensors_case import read_tensors  # noqa: E402

SCRIPT = os.path.join(harness.TESTS_DIR, "..", "scripts", "convert_gguf.py")
TOKENIZERS = os.path.join(harness.TESTS_DIR, "golden", "tokenizer")
TOLERANCE = 1e-3  # of e2e/families.py
TYPES = gguf.GGMLQuantizationType


def tiny_model(model_type="llama", **changes):
    """(configuration, tensors) of random weights; matrices have rows of whole blocks of every quantised type."""
    config = {"model_type": model_type, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 40,
              "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, **changes}
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape, np.float32).astype(np.float16).astype(np.float32)
    tensors = {"model.embed_tokens.weight": draw(40, 64), "model.norm.weight": draw(64)}
    for i in range(2):
        layer = f"model.layers.{i}."
        shapes = {"input_layernorm": (64,), "post_attention_layernorm": (64,), "self_attn.q_proj": (64, 64),
                  "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64)}
        if model_type == "qwen3_moe":
            shapes.update({"self_attn.q_norm": (16,), "self_attn.k_norm": (16,), "mlp.gate": (3, 64)})
        for e in range(3) if model_type == "qwen3_moe" else [None]:
            place = "mlp" if e is None else f"mlp.experts.{e}"
            shapes.update({f"{place}.gate_proj": (96, 64), f"{place}.up_proj": (96, 64),
                           f"{place}.down_proj": (64, 96)})
        tensors.update((f"{layer}{name}.weight", draw(*shape)) for name, shape in shapes.items())
    return config, tensors


def halves(tensors):
    """The tensors rounded to float16."""
    return {name: values.astype(np.float16).astype(np.float32) for name, values in tensors.items()}


class Convert(harness.Case):
    def setUp(self):
        self.scratch = harness.scratch_folder(self.addCleanup)
        self.path, self.out = os.path.join(self.scratch, "model.gguf"), os.path.join(self.scratch, "out")

    def write(self, config, tensors, kind=TYPES.F32, **keys):
        """Keys of **keys may be whole names or None, which removes one."""
        architecture = gguf_case.ARCHITECTURES[config["model_type"]]
        keys = {**gguf_case.gguf_keys(config), **keys}
        return gguf_case.write_gguf(self.path, architecture, {k: v for k, v in keys.items() if v is not None},
                                    gguf_case.gguf_tensors(config, tensors), kind)

    def run_script(self, *arguments, out=None):
        command = [sys.executable, "-B", SCRIPT, *map(str, arguments), "--out", out or self.out]
        return subprocess.run(command, capture_output=True, text=True, timeout=harness.TIMEOUT_S, check=False)

    def convert(self, *arguments, out=None):
        """(configuration, tensors in float32) of the result."""
        done = self.run_script(*arguments or [self.path], out=out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return gguf_case.read_model(out or self.out)

    def refused(self, *parts, arguments=None):
        """One line that contains all parts, and no new file."""
        before = sorted(os.listdir(self.scratch))
        done = self.run_script(*arguments or [self.path])
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(sorted(os.listdir(self.scratch)), before)

    def assert_same_tensors(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, values in expected.items():
            self.assertTrue(np.array_equal(found[name], values), name)

    def check_golden(self, name, tolerance=TOLERANCE):
        with open(os.path.join(harness.FAMILIES, name, "golden.json"), encoding="utf-8") as file:
            prompts = json.load(file)["prompts"]
        prompt = max(prompts, key=lambda prompt: len(prompt["prompt_ids"]))
        result = self.run_json("generate", "--model", self.out, "--device", "cpu", "--dtype", "float32",
                               "--temperature", 0, "-n", len(prompt["output_ids"]), "--ignore-eos", "--logprobs", 4,
                               "--tp", 2, "--token-ids", ",".join(map(str, prompt["prompt_ids"])))[0]
        for step, token in enumerate(prompt["output_ids"]):
            if result["token_ids"][step] != token:
                self.assertLessEqual(prompt["margins"][step], tolerance, f"step {step}: another token")
                return
            self.assertAlmostEqual(result["logprobs"][step]["logprob"], prompt["top"][step][0][1], delta=tolerance)

    def test_models_answer_as_before(self):
        """The weights of qwen3_f32 are rounded to float16, those of the others are exact."""
        for name, kind, dtype, tolerance in (("llama_f16", TYPES.F16, "float16", TOLERANCE),
                                             ("qwen2_bf16", TYPES.BF16, "bfloat16", TOLERANCE),
                                             ("qwen3_f32", TYPES.F32, "float16", 1e-2)):
            with self.subTest(name):
                self.out = os.path.join(self.scratch, name)
                config, tensors = gguf_case.read_model(os.path.join(harness.FAMILIES, name))
                self.write(config, tensors, kind)
                found, converted = self.convert()
                self.assertEqual(found["torch_dtype"], dtype)
                if dtype == "float16":
                    tensors = halves(tensors)
                self.assert_same_tensors(converted, tensors)
                self.check_golden(name, tolerance)

    def test_gemma3(self):
        """The family's scale of scores is not that of llama.cpp, 1 / sqrt(head_dim): the norm of q contains the
        remaining factor."""
        config, tensors = gguf_case.read_model(os.path.join(harness.FAMILIES, "gemma3"))
        factor = np.float32((config["head_dim"] / config["query_pre_attn_scalar"]) ** 0.5)
        for name in [name for name in tensors if "q_norm" in name]:
            tensors[name] = (1 + tensors[name]) * factor - 1
        self.write(config, tensors)
        self.assertEqual(self.convert()[0]["torch_dtype"], "bfloat16")
        self.out += "-f16"
        found, converted = self.convert(self.path, "--dtype", "f16")
        for name, values in tensors.items():
            exact = (1 + values) - 1 if "norm" in name else values
            self.assertTrue(np.allclose(converted[name], exact, rtol=2**-11, atol=2**-23), name)
        self.assertEqual(found["layer_types"], ["sliding_attention", "full_attention", "sliding_attention"])
        self.check_golden("gemma3")

    def test_experts(self):
        config, tensors = tiny_model("qwen3_moe", num_experts=3, num_experts_per_tok=2, moe_intermediate_size=96)
        self.write(config, tensors)
        found, converted = self.convert()
        self.assert_same_tensors(converted, tensors)
        self.assertEqual([found[key] for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size",
                                                 "norm_topk_prob", "tie_word_embeddings")], [3, 2, 96, True, True])
        result = self.run_json("generate", "--model", self.out, "--device", "cpu", "--token-ids", "1,2,3", "-n", 4)
        self.assertEqual(result[0]["usage"]["prompt_tokens"], 3)

    def test_quantised_types(self):
        """Rows are permuted as quantised blocks: bit for bit equal to the result of the package's dequantiser for the
        tensor."""
        config, tensors = tiny_model()
        tensors.update((f"model.layers.{i}.self_attn.{part}_proj.bias", np.arange(n, dtype=np.float32))
                       for i in range(2) for part, n in (("q", 64), ("k", 32), ("v", 32), ("o", 64)))
        for kind in (TYPES.Q8_0, TYPES.Q4_0, TYPES.Q5_1):
            with self.subTest(kind.name):
                self.out = os.path.join(self.scratch, kind.name)
                self.write(config, tensors, kind)
                found, converted = self.convert()
                self.assertTrue(found["attention_bias"])
                expected = {name: gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind)
                            if values.ndim > 1 else values for name, values in tensors.items()}
                self.assert_same_tensors(converted, halves(expected))

    def test_rotary_scaling(self):
        config, tensors = tiny_model(head_dim=32, rope_theta=500000.0, hidden_size=64, num_attention_heads=2,
                                     num_key_value_heads=1)
        key = "rope.scaling."
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0}
        for keys, expected in (({}, None), ({key + "type": "none"}, None),
                               ({key + "type": "linear", key + "factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
                               ({"rope.scale_linear": 2.0}, {"rope_type": "linear", "factor": 2.0}),
                               ({key + "type": "yarn", key + "factor": 4.0, key + "original_context_length": 64,
                                 key + "yarn_beta_fast": 8.0}, yarn)):
            with self.subTest(keys):
                self.out += "-"
                self.write(config, tensors, **keys)
                self.assertEqual(self.convert()[0]["rope_scaling"], expected)
        self.out += "-"
        self.write(config, tensors, **{key + "type": "longrope", key + "factor": 4.0})
        self.refused("rotary scaling longrope is not supported")
        self.write(config, tensors, **{key + "type": "yarn", key + "factor": 4.0, key + "attn_factor": 1.5})
        self.refused("llama.rope.scaling.attn_factor: 1.5")

    def test_llama3_rotary_scaling(self):
        """rope_freqs.weight, by the loop of Llama 3.1's reference code."""
        config, tensors = tiny_model(head_dim=64, rope_theta=500000.0, num_attention_heads=1, num_key_value_heads=1)
        for name in list(tensors):
            if "k_proj" in name or "v_proj" in name:
                tensors[name] = np.concatenate([tensors[name]] * 2)
        factors = []
        for i in range(0, 64, 2):
            wavelength = 2 * np.pi * 500000.0 ** (i / 64)
            smooth = (8192 / wavelength - 1) / 3
            factors.append(1 if wavelength < 2048 else 8 if wavelength > 8192 else 1 / ((1 - smooth) / 8 + smooth))
        content = gguf_case.gguf_tensors(config, tensors)
        for change in (1, 1.001):
            content["rope_freqs.weight"] = np.array(factors, np.float32) * np.float32(change)
            gguf_case.write_gguf(self.path, "llama", gguf_case.gguf_keys(config), content)
            if change == 1:
                rope = self.convert()[0]["rope_scaling"]
                self.assertEqual([rope[key] for key in ("rope_type", "factor", "original_max_position_embeddings")],
                                 ["llama3", 8, 8192])
                self.out += "-changed"
        self.refused("tensor rope_freqs.weight")

    def test_split_files(self):
        config, tensors = tiny_model()
        content = list(gguf_case.gguf_tensors(config, tensors).items())
        paths = [os.path.join(self.scratch, f"m-{i}-of-00002.gguf") for i in ("00001", "00002")]
        for i, path in enumerate(paths):
            keys = {"split.no": i, "split.count": 2, "split.tensors.count": len(content)}
            gguf_case.write_gguf(path, "llama", {**gguf_case.gguf_keys(config), **keys} if i == 0 else keys,
                                 dict(content[i * 7:7 if i == 0 else None]))
        for i, arguments in enumerate((paths[:1], paths, paths[::-1])):
            self.assert_same_tensors(self.convert(*arguments, out=f"{self.out}{i}")[1], tensors)
        os.rename(paths[1], self.path)
        self.refused("No such file", "m-00002-of-00002.gguf", arguments=paths[:1])

    def check_tokenizer(self, name, model, pre, **keys):
        """The ids of `tokenizers` for the golden's texts, through a model that has the tokenizer from GGUF keys."""
        with open(os.path.join(TOKENIZERS, name, "tokenizer.json"), encoding="utf-8") as file:
            tokenizer = json.load(file)
        with open(os.path.join(TOKENIZERS, name, "cases.jsonl"), encoding="utf-8") as file:
            cases = [case for case in map(json.loads, file) if "t" in case]
        keys = {**gguf_case.tokenizer_keys(tokenizer, model, pre), **keys}
        config, tensors = tiny_model(vocab_size=len(keys["tokenizer.ggml.tokens"]) + 24)
        tensors["model.embed_tokens.weight"] = np.zeros((config["vocab_size"], 64), np.float32)
        self.write(config, tensors, **keys)
        self.out = os.path.join(self.scratch, name)
        self.convert()
        done = self.run_yoke("tokenize", "--model", self.out, "--format", "json",
                             stdin="".join(json.dumps(case["t"]) + "\n" for case in cases))
        for line, case in zip(done.out.splitlines(), cases, strict=True):
            self.assertEqual(json.loads(line), case["i"], case["t"])
        with open(os.path.join(self.out, "tokenizer.json"), encoding="utf-8") as file:
            return tokenizer, json.load(file)

    def test_tokenizers(self):
        first = {"tokenizer.ggml.bos_token_id": 1202, "tokenizer.ggml.eos_token_id": 1203,
                 "tokenizer.ggml.eot_token_id": 1206, "tokenizer.chat_template": "{{ messages }}"}
        self.check_tokenizer("llama3", "gpt2", "llama-bpe", **first)
        generation = os.path.join(self.out, "generation_config.json")
        with open(generation, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"bos_token_id": 1202, "eos_token_id": [1203, 1206]})
        with open(os.path.join(self.out, "tokenizer_config.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual([found[key] for key in ("bos_token", "eos_token", "chat_template", "add_bos_token")],
                         ["<|begin_of_text|>", "<|end_of_text|>", "{{ messages }}", True])
        before, after = self.check_tokenizer("qwen3", "gpt2", "qwen2")
        self.assertEqual(after["model"]["merges"], before["model"]["merges"])
        before, after = self.check_tokenizer("llama2", "llama", None, **{"tokenizer.ggml.bos_token_id": 1,
                                                                          "tokenizer.ggml.unknown_token_id": 0})
        self.assertEqual(after["decoder"], before["decoder"])

    def test_refused_files(self):
        """Cut anywhere, a file is refused by the part that is missing."""
        self.write(*tiny_model(), **{"tokenizer.ggml.model": "no_vocab"})
        with open(self.path, "rb") as file:
            content = file.read()
        for size in (0, 3, 20, 100, 900, len(content) // 2, len(content) - 1000):
            with open(self.path, "wb") as file:
                file.write(content[:size])
            self.refused("model.gguf: truncated or damaged")
        for change, *parts in ((lambda c: b"PK\3\4" + c[4:], "expected a GGUF file", "cat"),
                               (lambda c: c[:4] + struct.pack(">I", 3) + c[8:], "version 50331648"),
                               (lambda c: c.replace(b"general.architecture", b"general.architecturf"),
                                "key general.architecture is missing"),
                               (lambda c: re.sub(rb"(?<=output_norm\.weight.{12}).{4}", b"\xe7\3\0\0", c, flags=re.S),
                                "tensor output_norm.weight: unknown tensor type 999")):
            with open(self.path, "wb") as file:
                file.write(change(content))
            self.refused(*parts)

    def test_refused_models(self):
        config, tensors = tiny_model()
        without = lambda *names: {name: values for name, values in tensors.items() if name not in names}
        keys = gguf_case.gguf_keys(config)
        for changes, other, *parts in (
                ({"block_count": None}, tensors, "key llama.block_count is missing"),
                ({"block_count": "two"}, tensors, "key llama.block_count", "'two'"),
                ({"attention.head_count_kv": [2, 1]}, tensors, "key llama.attention.head_count_kv", "for all layers"),
                ({"attention.mystery": 1}, tensors, "key llama.attention.mystery is not supported"),
                ({"expert_count": 8}, tensors, "key llama.expert_count: 8"),
                ({"rope.dimension_count": 8}, tensors, "key llama.rope.dimension_count: 8"),
                ({"tokenizer.ggml.model": "bert"}, tensors, "tokenizer 'bert'", "llama, gpt2"),
                ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.pre": "odd"}, tensors,
                 "pre-tokenizer 'odd'", "llama-bpe"),
                ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a", "a"]}, tensors, "'a' has two ids"),
                ({}, without("model.layers.1.mlp.up_proj.weight"), "tensor blk.1.ffn_up.weight is missing"),
                ({}, {**tensors, "model.layers.0.self_attn.q_norm.weight": np.ones(16, np.float32)},
                 "tensor blk.0.attn_q_norm.weight is not a part"),
                ({}, {**tensors, "model.norm.weight": np.ones(32, np.float32)}, "tensor output_norm.weight", "[64]",
                 "[32]"),
                ({}, {**tensors, "model.norm.weight": np.full(64, 1e5, np.float32)}, "tensor output_norm.weight",
                 "not finite in f16", "--dtype bf16")):
            with self.subTest(parts[0]):
                self.write(config, other, **changes)
                self.refused(*parts)
        gguf_case.write_gguf(self.path, "falcon", keys, {})
        self.refused("architecture falcon is not supported", "llama, qwen2, qwen3, qwen3moe, gemma3")
        self.write(config, tensors)
        os.mkdir(self.out)
        self.refused("out exists")


if __name__ == "__main__":
    harness.main()
