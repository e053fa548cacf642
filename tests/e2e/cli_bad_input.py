"""Broken checkpoints through the program: each is refused with exit code 1 and a message that names the fault.

Every case starts from a valid model and introduces one fault, so that the fault is the only possible reason.
"""

import json
import os
import shutil
import socket
import struct
import subprocess

import harness
from safetensors_case import read_tensors, write_tensors

SINGLE = os.path.join(harness.FAMILIES, "llama")
SHARDED = os.path.join(harness.FAMILIES, "qwen3_bf16")


class Broken(harness.Case):
    def setUp(self):
        self.scratch = harness.scratch_folder(self.addCleanup)

    def copy(self, model=SINGLE):
        self.folder = os.path.join(self.scratch, "model")
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(model, self.folder)
        return self.folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def refused(self, *parts, options=("--tp", 2)):
        self.assert_error(["generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5", "-n", 2,
                           *options],
                          *parts)

    # ---- recurrent layers ----

    def rename(self, model, change):
        """A copy of the model with other names of its tensors, None: without the tensor. Returns the tokens that the
        program generates."""
        self.copy(os.path.join(harness.FAMILIES, model))
        tensors = {change(name): tensor for name, tensor in read_tensors(self.folder).items()}
        tensors.pop(None, None)
        write_tensors(self.folder, tensors)

    def tokens(self):
        return self.run_json("generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5,6,7", "-n", 4,
                             "--ignore-eos", "--temperature", 0)[0]["token_ids"]

    def test_tensors_of_gated_delta_nets(self):
        self.rename("hybrid_qwen3_5", lambda name: None if name.endswith("layers.1.linear_attn.A_log") else name)
        self.refused("model.language_model.layers.1.linear_attn.A_log is missing, expected F16, BF16 or F32 [9]")
        self.rename("hybrid_qwen3_5", lambda name: name.replace("in_proj_qkv", "in_projection"))
        self.refused("model.language_model.layers.0.linear_attn.in_proj_qkv.weight or ", "in_proj_qkvz.weight",
                     "found neither")

    def test_tensors_of_mamba(self):
        for name, shape in (("A_log", "[6]"), ("dt_bias", "[6]"), ("D", "[6]"), ("conv1d.bias", "[192]"),
                            ("conv1d.weight", "[192, 1, 4]"), ("norm.weight", "[96]")):
            tensor = f"backbone.layers.3.mixer.{name}"
            self.rename("nemotron_nano", lambda found: None if found == tensor else found)
            self.refused(f"{tensor} is missing, expected F16, BF16 or F32 {shape}")
        self.rename("nemotron_nano", lambda name: name)
        expected = self.tokens()
        self.rename("nemotron_nano", lambda name: name.replace("backbone.", "model."))
        self.assertEqual(self.tokens(), expected)

    def test_other_names_of_the_text_part(self):
        """A pure text model under the class of models that read images."""
        self.rename("hybrid_qwen3_5", lambda name: name)
        expected = self.tokens()
        self.assertIn("ignored: 2 tensors of parts that the text model does not use", self.last_err)
        self.rename("hybrid_qwen3_5", lambda name: name.replace("model.language_model.", "model."))
        self.assertEqual(self.tokens(), expected)

    # ---- files ----

    def edit_header(self, change, name="model.safetensors"):
        """Rewrite a safetensors header; change(header text) gives the new one."""
        with open(self.path(name), "rb") as file:
            data = file.read()
        length = struct.unpack("<Q", data[:8])[0]
        header = change(data[8:8 + length].decode())
        with open(self.path(name), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + data[8 + length:])

    def edit_tensors(self, change):
        def rewrite(text):
            header = json.loads(text)
            change(header)
            return json.dumps(header).encode()
        self.edit_header(rewrite)

    def write_float(self, tensor, position, value, name="model.safetensors"):
        """Overwrite one element of a float32 tensor."""
        with open(self.path(name), "r+b") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            begin = json.loads(file.read(length))[tensor]["data_offsets"][0]
            file.seek(8 + length + begin + 4 * position)
            file.write(struct.pack("<f", value))

    def test_the_copies_work(self):
        for model in (SINGLE, SHARDED):
            self.copy(model)
            self.run_yoke("generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5", "-n", 2)

    def test_truncated(self):
        size = os.path.getsize(os.path.join(SINGLE, "model.safetensors"))
        for length in (0, 7, 8, 100, size // 2, size - 1):
            with self.subTest(length):
                self.copy()
                os.truncate(self.path("model.safetensors"), length)
                self.refused("model.safetensors")

    def test_longer_than_its_tensors(self):
        self.copy()
        with open(self.path("model.safetensors"), "ab") as file:
            file.write(b"\0")
        self.refused("model.safetensors")

    def test_header_length(self):
        for n in (0, 100_000_001, 2**63, 2**64 - 1):
            with self.subTest(n):
                self.copy()
                with open(self.path("model.safetensors"), "r+b") as file:
                    file.write(struct.pack("<Q", n))
                self.refused("model.safetensors")

    def test_header_text(self):
        self.copy()
        self.edit_header(lambda text: text.replace("model.norm.weight", "model.n\xffrm.weight").encode("latin-1"))
        self.refused("model.safetensors")
        self.copy()
        self.edit_header(lambda text: b"[" + text.encode() + b"]")
        self.refused("model.safetensors")
        self.copy()
        self.edit_header(lambda text: text.replace("model.layers.1.input_layernorm.weight",
                                                   "model.layers.0.input_layernorm.weight").encode())
        self.refused("model.safetensors", "duplicate")

    def test_offsets(self):
        def overlap(header):
            header["model.norm.weight"]["data_offsets"][0] -= 2
            header["model.norm.weight"]["data_offsets"][1] -= 2

        def huge(header):
            header["model.norm.weight"]["data_offsets"][1] = 2**63 - 1

        def huge_shape(header):
            header["model.norm.weight"]["shape"] = [2**40, 2**40]

        for change in (overlap, huge, huge_shape):
            with self.subTest(change.__name__):
                self.copy()
                self.edit_tensors(change)
                self.refused("model.safetensors", "model.norm.weight")

    def test_missing_tensor(self):
        for name in ("model.norm.weight", "model.layers.1.mlp.down_proj.scales", "model.embed_tokens.weight"):
            with self.subTest(name):
                self.copy()
                self.edit_tensors(lambda header, name=name: header.update({name + "x": header.pop(name)}))
                self.refused(name)

    def test_wrong_shape_and_dtype(self):
        def shape(header):
            header["model.norm.weight"]["shape"] = [32, 2]

        def dtype(header):
            header["model.layers.0.self_attn.q_proj.qweight"]["dtype"] = "F32"

        for change, name in ((shape, "model.norm.weight"), (dtype, "model.layers.0.self_attn.q_proj.qweight")):
            with self.subTest(name):
                self.copy()
                self.edit_tensors(change)
                self.refused(name, "expected", "found")

    def test_missing_shard(self):
        self.copy(SHARDED)
        os.remove(self.path("model-00002-of-00003.safetensors"))
        self.refused("model-00002-of-00003.safetensors")

    def test_shard_names(self):
        for name in ("../model-00001-of-00003.safetensors", "/etc/passwd", "a\0b", ""):
            with self.subTest(name):
                self.copy(SHARDED)
                with open(self.path("model.safetensors.index.json"), encoding="utf-8") as file:
                    index = json.load(file)
                index["weight_map"]["model.norm.weight"] = name
                with open(self.path("model.safetensors.index.json"), "w", encoding="utf-8") as file:
                    json.dump(index, file)
                self.refused("model.safetensors.index.json")

    def test_other_formats(self):
        self.copy()
        os.rename(self.path("model.safetensors"), self.path("pytorch_model.bin"))
        self.refused("pytorch_model.bin", "safetensors")
        for name in ("gguf", "bin"):  # a file in place of the directory
            self.folder = os.path.join(self.scratch, f"model-Q4_K_M.{name}")
            with open(self.folder, "wb") as file:
                file.write(b"GGUF")
            parts = ["expected a local checkpoint directory"]
            if name == "gguf":
                parts = ["GGUF is not read", "save_pretrained"]
            self.refused(*parts)
            lines = os.path.join(self.scratch, "lines.jsonl")
            with open(lines, "w", encoding="utf-8") as file:
                file.write('{"prompt": [5]}\n')
            for command in (["plan"], ["plan", "--device-memory", "80GiB"], ["score", "--text", "a"],
                            ["batch", lines, "-o", os.path.join(self.scratch, f"out_{name}.jsonl")]):
                self.assert_error([*command, "--model", self.folder], *parts)

    def test_the_cause_comes_first(self):
        for changes, *parts in (
                ({"architectures": ["MambaForCausalLM"]}, 'unsupported architecture "MambaForCausalLM"'),
                ({"architectures": ["A" * 28]}, '"' + "A" * 28 + '"; supported: Llama', "FM9G, Phi-3"),
                ({"architectures": ["A" * 29]}, '"' + "A" * 25 + '..."; supported: Llama', "FM9G, Phi-3"),
                ({"quantization_config": {"quant_method": "hqq"}}, "hqq", "not supported")):
            for weights in ("model.safetensors.index.json", "pytorch_model.bin", "model.gguf", "notes.txt"):
                with self.subTest(parts[0], weights=weights):
                    self.copy()
                    self.edit_config(**changes)
                    os.rename(self.path("model.safetensors"), self.path(weights))
                    self.refused(*parts)

    # ---- paths that are no file ----

    def replace(self, name, kind):
        path = self.path(name)
        if os.path.lexists(path):
            os.remove(path)
        if kind == "a named pipe":
            os.mkfifo(path)
        elif kind == "a socket":
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(path)
        elif kind == "a directory":
            os.mkdir(path)
        else:
            os.symlink("/dev/zero", path)

    def test_missing_files_are_refused_at_once(self):
        shard = "model-00002-of-00003.safetensors"
        for model, names in ((SINGLE, ("config.json", "generation_config.json", "quantize_config.json",
                                       "quant_config.json", "model.safetensors")),
                             (SHARDED, ("model.safetensors.index.json", shard))):
            for name in names:
                for kind in ("a named pipe", "a socket", "a device", "a directory"):
                    with self.subTest(name, kind=kind):
                        self.copy(model)
                        self.replace(name, kind)
                        for command in (["generate", "--token-ids", "5", "-n", 2], ["plan"]):
                            done = subprocess.run([self.yoke, *map(str, command), "--model", self.folder], timeout=20,
                                                  capture_output=True, text=True, check=False)
                            self.assertEqual(done.returncode, 1)
                            self.assertIn(f"{name}: expected a regular file, found {kind}", done.stderr)

    # ---- tokenizers ----

    def test_a_tokenizer_that_cannot_be_read_stops_text_alone(self):
        def write(name, text):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)

        for change, part in ((lambda: write("tokenizer.json", "{"), "tokenizer.json: line 1"),
                             (lambda: write("tokenizer.json", '{"model": {"type": "Unigram"}}'), "Unigram"),
                             (lambda: write("tokenizer.model", "x"), "tokenizer.model but no tokenizer.json"),
                             (lambda: self.replace("tokenizer.json", "a named pipe"), "found a named pipe"),
                             (lambda: self.replace("tokenizer.json", "a directory"), "found a directory")):
            with self.subTest(part):
                self.copy()
                expected = self.run_yoke("generate", "--model", self.folder, "--token-ids", 5, "-n", 4).out
                change()
                command = ["generate", "--model", self.folder, "-n", 4]
                done = self.run_yoke(*command, "--token-ids", 5)
                self.assertEqual(done.out, expected)
                self.assertEqual(done.err.count("warning: text is not available, only token ids: "), 1)
                self.assertIn(part, done.err)
                self.assertIn(f"text: {done.err.split('only token ids: ')[1].splitlines()[0][:60]}",
                              self.run_yoke(*command, "--prompt", "Hello", expect=1).err)
                self.assertIn(part, self.run_yoke(*command, "--token-ids", 5, "--stop", "a", expect=1).err)

    # ---- warnings ----

    def test_tensors_without_use(self):
        for source in (SINGLE, os.path.join(harness.FAMILIES, "deepseek_v3")):  # deepseek_v3: layer 1 has experts
            self.copy(source)
            names = read_tensors(self.folder)
            self.edit_config(num_hidden_layers=1)
            n_beyond = sum(name.startswith(("model.layers.1.", "model.layers.2.")) for name in names)
            done = self.run_yoke("generate", "--model", self.folder, "--token-ids", 5, "-n", 2)
            self.assertEqual(done.err.count("warning: "), 1)
            self.assertIn(f"ignored: {n_beyond} tensors of layers beyond num_hidden_layers; the first is "
                          "model.layers.1.", done.err)

    def test_generation_values_out_of_range(self):
        self.copy()
        values = {"temperature": 1000, "top_p": 1.5, "min_p": -1, "top_k": -7, "repetition_penalty": 50,
                  "max_new_tokens": -1}
        with open(self.path("generation_config.json"), "w", encoding="utf-8") as file:
            json.dump(values, file)
        done = self.run_yoke("generate", "--model", self.folder, "--token-ids", 5, "--token-ids", 6)
        self.assertIn("2 requests (0 failed)", done.err)
        for name in values:
            self.assertEqual(done.err.count(f"warning: generation_config.json: {name}: expected "), 1)

    def test_no_weights(self):
        self.copy()
        os.remove(self.path("model.safetensors"))
        self.refused(self.folder)

    def test_no_directory(self):
        self.folder = os.path.join(SINGLE, "config.json")
        self.refused("config.json")

    # ---- configuration ----

    def test_latent_attention_takes_no_other_cache(self):
        self.folder = os.path.join(harness.FAMILIES, "deepseek_v3")
        for dtype in ("int8", "fp8"):
            self.refused(f"--kv-cache-dtype {dtype}", "latent attention", "supported: bfloat16, auto\n",
                         options=("--kv-cache-dtype", dtype))
        self.refused("--kv-cache-dtype float16", "activations are bfloat16", "supported: bfloat16, auto\n",
                     options=("--kv-cache-dtype", "float16"))

    def edit_config(self, **changes):
        with open(self.path("config.json"), encoding="utf-8") as file:
            config = json.load(file)
        for key, value in changes.items():
            if value is None:
                del config[key]
            else:
                config[key] = value
        with open(self.path("config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)

    def test_config_numbers(self):
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"):
            for value in (0, -1, 2**40, "many", 1.5, None):
                with self.subTest(key=key, value=value):
                    self.copy()
                    self.edit_config(**{key: value})
                    self.refused("config.json", key)
        self.copy()
        self.edit_config(rms_norm_eps=-1.0)
        self.refused("config.json", "rms_norm_eps")

    def test_config_text(self):
        for text in ("", "{", "[]", '{"a": 1, "a": 2}', "\xff"):
            with self.subTest(text):
                self.copy()
                with open(self.path("config.json"), "w", encoding="latin-1") as file:
                    file.write(text)
                self.refused("config.json")
        self.copy()
        os.remove(self.path("config.json"))
        self.refused("config.json")

    def test_unknown_architecture(self):
        self.copy()
        self.edit_config(architectures=["MambaForCausalLM"], model_type="mamba")
        self.refused("MambaForCausalLM", "supported: Llama, ")

    def test_unknown_quantisation(self):
        for changes, *parts in (({"quant_method": "hqq"}, "hqq", "awq"), ({"bits": 8}, "bits", "8"),
                                ({"version": "marlin"}, "marlin", "gemm"), ({"zero_point": 0}, "zero_point"),
                                ({"group_size": 48}, "group_size", "48"), ({"group_size": 0}, "group_size")):
            with self.subTest(changes):
                self.copy()
                with open(self.path("config.json"), encoding="utf-8") as file:
                    quantisation = json.load(file)["quantization_config"]
                self.edit_config(quantization_config={**quantisation, **changes})
                self.refused(*parts)

    # ---- experts ----

    def test_experts(self):
        name = "model.layers.0.block_sparse_moe.experts.3.w2"
        self.copy(os.path.join(harness.FAMILIES, "moe_mixtral"))
        self.edit_tensors(lambda header: header.update({"unused": header.pop(name + ".qweight")}))
        for options in (("--tp", 1), ("--tp", 4, "--enable-expert-parallel")):
            self.refused(name, "missing", options=options)
        self.edit_config(num_experts_per_tok=5)
        self.refused("num_experts_per_tok", "4 experts", "5")
        self.copy(os.path.join(harness.FAMILIES, "moe_glm4"))
        self.edit_tensors(lambda header: header["model.layers.1.mlp.gate.weight"].update(shape=[64, 6]))
        self.refused("model.layers.1.mlp.gate.weight", "[6, 64]", "[64, 6]")
        self.copy(os.path.join(harness.FAMILIES, "moe_glm4"))
        bias = "model.layers.2.mlp.gate.e_score_correction_bias"
        self.write_float(bias, 4, float("nan"))
        self.refused(bias, "NaN at 4")
        self.edit_tensors(lambda header: header[bias].update(shape=[3, 2]))
        self.refused(bias, "[6]", "[3, 2]")
        self.edit_tensors(lambda header: header.update({"unused": header.pop(bias)}))
        self.refused(bias, "missing")

    def test_experts_of_two_formats(self):
        self.folder = os.path.join(self.scratch, "quantised")
        self.run_yoke("quantize", "--model", os.path.join(harness.FAMILIES, "moe_qwen2"), "--output", self.folder,
                      "--group-size", -1, "--keep", "experts.3", "--device", "cpu")
        self.refused("model.layers.1.mlp.experts.3.gate_proj", "expert 0", "4-bit integers, groups of 64", "floats")

    # ---- ranks and memory ----

    def test_memory(self):
        self.copy()
        self.refused("--kv-cache-bytes: expected at least", options=("--kv-cache-bytes", "100"))
        self.refused("--max-model-len: expected at most 256, the model's own limit, found 257",
                     options=("--max-model-len", "257"))
        self.refused("128", options=("--kv-cache-bytes", 128 * 768, "--dtype", "float32", "--max-model-len", 200))

    def test_context_lowered_to_the_memory(self):
        self.copy()
        done = self.run_yoke("generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5", "-n", -1,
                             "--ignore-eos", "--kv-cache-bytes", 128 * 768, "--dtype", "float32")
        self.assertIn("128", done.err)
        self.assertEqual(len(done.out.split()), 127)


if __name__ == "__main__":
    harness.main()
