"""yoke convert: every 4-bit format that is read gives the same answers as AWQ; models that AWQ cannot express are
refused by name; an interrupted run leaves no files."""

import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess

import harness
from safetensors_case import read_tensors, write_tensors

# Models that AWQ cannot hold are refused for one of these reasons; format_compressed_mixed has 100 outputs.
NOT_EXACT = "not exact in 4 bits"
REASONS = {"format_compressed_mixed": "100 outputs", "format_compressed_act_order": "not of neighbouring inputs",
           "format_gptq_act_order": "not of neighbouring inputs", "chatglm3_awq": "a module of several projections",
           "format_compressed_w4a8": "its inputs are rounded to 8 bits",
           "format_compressed_w4a8_int8": "its inputs are rounded to 8 bits",
           "format_msmodelslim_w8a8_chatglm": "a module of several projections",
           "format_msmodelslim_w8a16_group": "a module of several projections"}
IS_NOT_4_BIT_INTEGERS = re.compile(r"format_.*(8|fp4|modelopt)")
FORMATS = sorted(name for name in os.listdir(harness.FAMILIES)
                 if name.startswith("format_") and not IS_NOT_4_BIT_INTEGERS.match(name) and name not in REASONS
                 or name.endswith("_int4"))
REFUSED = {**{name: NOT_EXACT for name in os.listdir(harness.FAMILIES)
              if IS_NOT_4_BIT_INTEGERS.match(name) and "_kv_" not in name},
           **REASONS}
TOLERANCE = 1e-3  # of e2e/families.py
NIBBLES = (0, 4, 1, 5, 2, 6, 3, 7)  # of the eight columns of an AWQ word


def unpack_awq(tensor):
    """Rows of integers of a tensor of AWQ's words."""
    _, (n_rows, n_words), content = tensor
    words = struct.unpack(f"<{n_rows * n_words}I", content)
    return [[words[row * n_words + i // 8] >> 4 * NIBBLES[i % 8] & 15 for i in range(8 * n_words)]
            for row in range(n_rows)]


def pack(eights):
    """Words of eight integers each, the first in the lowest bits."""
    words = [sum(value << 4 * i for i, value in enumerate(eight)) for eight in eights]
    return struct.pack(f"<{len(words)}I", *words)


def write_as_gptq(family, folder):
    """A family's AWQ model in the packing of GPTQ: words of eight inputs, zeros in the order of outputs."""
    os.mkdir(folder)
    with open(os.path.join(harness.FAMILIES, family, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    group_size = config["quantization_config"]["group_size"]
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": group_size, "desc_act": False,
                                     "sym": False, "checkpoint_format": "gptq_v2"}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    tensors = read_tensors(os.path.join(harness.FAMILIES, family))
    for name, tensor in list(tensors.items()):
        if name.endswith(".qweight"):
            q = unpack_awq(tensor)
            eights = ([row[n] for row in q[k:k + 8]] for k in range(0, len(q), 8) for n in range(len(q[0])))
            tensors[name] = ("I32", [len(q) // 8, len(q[0])], pack(eights))
        elif name.endswith(".qzeros"):
            z = unpack_awq(tensor)
            tensors[name] = (tensor[0], tensor[1], pack(row[n:n + 8] for row in z for n in range(0, len(row), 8)))
    write_tensors(folder, tensors)
    return folder


class Convert(harness.Case):
    def setUp(self):
        self.scratch = harness.scratch_folder(self.addCleanup)
        self.out = os.path.join(self.scratch, "out")

    def convert(self, model, *options, to="awq", out=None):
        return self.run_yoke("convert", "--model", model, "--to", to, "-o", out or self.out, *options)

    def refused(self, model, *parts, to="awq"):
        self.assert_error(["convert", "--model", model, "--to", to, "-o", self.out], *parts)
        self.assertEqual([name for name in os.listdir(self.scratch) if name.startswith("out")], [])

    def test_every_format_answers_as_before(self):
        for name in FORMATS[::3] if harness.is_sanitized(self.yoke) else FORMATS:  # all are converted in test_convert.c
            with self.subTest(name):
                folder, out = os.path.join(harness.FAMILIES, name), os.path.join(self.scratch, name)
                self.convert(folder, "--shard-size", "30KB", out=out)
                with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
                    config = json.load(file)
                with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                    before = json.load(file)
                quantization = config.pop("quantization_config")
                before.pop("quantization_config")
                self.assertEqual(config, before)
                self.assertEqual([quantization[key] for key in ("quant_method", "version", "bits", "zero_point")],
                                 ["awq", "gemm", 4, True])
                if name == "format_auto_round_awq":
                    self.assertEqual(quantization["modules_to_not_convert"], ["model.layers.1.mlp.gate_proj"])
                self.check_golden(folder, out)

    def check_golden(self, folder, out):
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
            prompts = json.load(file)["prompts"]
        prompt = max(prompts, key=lambda prompt: len(prompt["prompt_ids"]))
        result = self.run_json("generate", "--model", out, "--device", "cpu", "--dtype", "float32", "--temperature", 0,
                               "-n", len(prompt["output_ids"]), "--ignore-eos", "--logprobs", 4, "--tp", 2,
                               "--token-ids", ",".join(map(str, prompt["prompt_ids"])))[0]
        for step, token in enumerate(prompt["output_ids"]):
            if result["token_ids"][step] != token:
                self.assertLessEqual(prompt["margins"][step], TOLERANCE, f"step {step}: another token")
                return
            self.assertAlmostEqual(result["logprobs"][step]["logprob"], prompt["top"][step][0][1], delta=TOLERANCE)

    def test_experts_and_latent_attention(self):
        """A model packed like GPTQ converts back to the AWQ tensors that it was made from, bit for bit."""
        for name in ("moe_qwen3", "moe_mixtral", "deepseek_v3"):
            with self.subTest(name):
                family, out = os.path.join(harness.FAMILIES, name), os.path.join(self.scratch, name)
                gptq = write_as_gptq(name, out + "-gptq")
                self.assertNotEqual(read_tensors(gptq), read_tensors(family))
                self.convert(gptq, out=out)
                self.assertEqual(read_tensors(out), read_tensors(family))
                with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
                    kept = json.load(file)["quantization_config"]["modules_to_not_convert"]
                routers = [tensor.removesuffix(".weight") for tensor in read_tensors(family)
                           if tensor.endswith("gate.weight")]
                self.assertEqual(sorted(kept), sorted(routers))
                self.check_golden(family, out)
                self.refused(family, "KuiperLLama", to="kuiper")

    def test_configuration_that_vllm_requires(self):
        """If all experts of a layer stay unquantised they have one entry; a quantised lm_head has a key; a partly
        quantised mixture is reported."""
        tensors = read_tensors(os.path.join(harness.FAMILIES, "moe_qwen3"))
        del tensors["lm_head.weight"]
        for part, dtype, shape in ("qweight", "I32", [64, 25]), ("qzeros", "I32", [2, 25]), ("scales", "F16", [2, 200]):
            tensors[f"lm_head.{part}"] = (dtype, shape, bytes(shape[0] * shape[1] * (2 if dtype == "F16" else 4)))
        for stays, kept in (("model.layers.0.mlp.experts.", ["model.layers.0.mlp.experts"]),
                            ("model.layers.2.mlp.experts.4.up_proj", ["model.layers.2.mlp.experts.4.up_proj"])):
            of_case, folder = dict(tensors), os.path.join(self.scratch, stays)
            out = folder + "-awq"
            os.mkdir(folder)
            for module in [name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")]:
                if module.startswith(stays):
                    k, n_words = of_case.pop(f"{module}.qweight")[1]
                    of_case[f"{module}.weight"] = ("F16", [8 * n_words, k], bytes(16 * n_words * k))
                    del of_case[f"{module}.qzeros"], of_case[f"{module}.scales"]
            write_tensors(folder, of_case)
            shutil.copy(os.path.join(harness.FAMILIES, "moe_qwen3", "config.json"), folder)
            err = self.convert(folder, out=out).err
            with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
                quantization = json.load(file)["quantization_config"]
            self.assertIs(quantization["lm_head"], True)
            self.assertEqual([name for name in quantization["modules_to_not_convert"] if ".experts" in name], kept)
            self.assertEqual(f"vLLM will not load this model: {stays} (1 modules" in err, "up_proj" in stays, err)

    def check_rounded(self, name):
        """A quantised model answers as before."""
        source, out = os.path.join(self.scratch, name), os.path.join(self.scratch, f"{name}_converted")
        self.run_yoke("quantize", os.path.join(harness.FAMILIES, name), "-o", source, "--method", "rtn",
                      "--group-size", 32)
        self.convert(source, out=out)
        arguments = ("--token-ids", "5,6,7", "--dtype", "float32", "--temperature", 0, "-n", 8, "--format", "json")
        answers = [json.loads(self.run_yoke("generate", model, "--device", "cpu", *arguments).out)["token_ids"]
                   for model in (source, out)]
        self.assertEqual(answers[0], answers[1])

    def test_norms_of_whole_rows(self):
        """Norms of q and k have the size of all heads."""
        self.check_rounded("minimax_m2")

    def test_mamba(self):
        """Mamba2, experts without a gate, and latent ones."""
        self.check_rounded("nemotron_latent")
        self.assert_error(["quantize", os.path.join(harness.FAMILIES, "nemotron_nano"), "-o", self.out, "--method",
                           "awq", "--group-size", 32, "--calibration", __file__], "networks without a gate are not "
                          "supported; supported: method rtn")

    def test_a_head_of_its_own(self):
        """tie_word_embeddings is true, but the files have a different head: the head is used, and the flag is
        corrected."""
        model, odd = os.path.join(self.scratch, "model"), '"odd": [NaN, 18446744073709551617, 1e400, 1.50]'
        shutil.copytree(os.path.join(harness.FAMILIES, "llama"), model)
        ask = ("--device", "cpu", "--token-ids", "5,6,7", "-n", 6)
        expected = self.run_yoke("generate", "--model", model, *ask).out
        path = os.path.join(model, "config.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = text.replace('"tie_word_embeddings": false', '"tie_word_embeddings": true')
        text = text.replace("{", "{" + odd + ",", 1)
        self.assertIn('"tie_word_embeddings": true', text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assertEqual(self.run_yoke("generate", "--model", model, *ask).out, expected)
        self.convert(model)
        self.assertEqual(self.run_yoke("generate", "--model", self.out, *ask).out, expected)
        with open(os.path.join(self.out, "config.json"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn('"tie_word_embeddings": false', text)
        self.assertIn("{" + odd.replace(" ", "") + ",", "".join(text.split()))  # numbers as they were written

    def test_other_files_of_the_folder_are_copied(self):
        model = harness.make_text_model(os.path.join(self.scratch, "text"))
        os.mkdir(os.path.join(model, "additional_chat_templates"))
        files = {"generation_config.json": '{"top_k": 3}', "chat_template.jinja": "{{ messages }}",
                 "additional_chat_templates/tool_use.jinja": "{{ tools }}", "tokenizer_config.json": "{}"}
        for name, text in {**files, "notes.txt": "mine", "quantize_config.json": "{}"}.items():
            with open(os.path.join(model, name), "w", encoding="utf-8") as file:
                file.write(text)
        shown = self.run_on_terminal("convert", "--model", model, "--to", "awq", "-o", self.out)
        self.assertIn("converting [###", shown)
        self.assertIn("KiB of weights", shown)
        self.assertEqual(sorted(os.listdir(self.out)),
                         sorted(["additional_chat_templates", "chat_template.jinja", "config.json", "tokenizer.json",
                                 "generation_config.json", "model.safetensors", "tokenizer_config.json"]))
        for name, text in files.items():
            with open(os.path.join(self.out, name), encoding="utf-8") as file:
                self.assertEqual(file.read(), text)
        ask = ("--device", "cpu", "--prompt", "the and", "-n", 6, "--seed", 1)
        self.assertEqual(self.run_yoke("generate", "--model", self.out, *ask).out,
                         self.run_yoke("generate", "--model", model, *ask).out)

    def test_a_zero_point_that_awq_does_not_have(self):
        """16 and an integer of 0 (GPTQ) do not both fit in AWQ's four bits."""
        model = os.path.join(self.scratch, "gptq")
        shutil.copytree(os.path.join(harness.FAMILIES, "format_gptq"), model)
        path = os.path.join(model, "model.safetensors")
        with open(path, "rb") as file:
            data = bytearray(file.read())
        length = int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8:8 + length]))
        for part, value in (("qzeros", 0xff), ("qweight", 0)):
            begin, end = header["model.layers.1.mlp.down_proj." + part]["data_offsets"]
            data[8 + length + begin:8 + length + end] = bytes([value]) * (end - begin)
        with open(path, "wb") as file:
            file.write(data)
        self.refused(model, "model.layers.1.mlp.down_proj.qweight", "zero point 16", "input 0")

    def test_refusals(self):
        family = lambda name: os.path.join(harness.FAMILIES, name)  # noqa: E731
        for name, reason in REFUSED.items():
            with self.subTest(name):
                self.refused(family(name), "layers.0.", reason)
        self.refused(family("qwen3_f32"), "none of its layers is quantised")
        self.refused(family("qwen3"), "rope_theta 10000", "1e6", to="kuiper")
        self.refused(os.path.join(self.scratch, "absent"), "absent: No such file or directory")

    def test_options(self):
        model = os.path.join(harness.FAMILIES, "qwen3")
        for arguments, part in (([], "--model"), (["-m", model], "--to: expected awq or kuiper"),
                                (["-m", model, "--to", "awq"], "--output"),
                                (["-m", model, "--to", "awq", "-o", ""], "--output"),
                                (["-m", model, "--to", "gguf", "-o", self.out], "awq, kuiper"),
                                (["-m", model, "--to", "awq", "-o", self.out, "--shard-size", "0"], "--shard-size"),
                                (["-m", model, "--to", "awq", "-o", self.out, "more"], "more")):
            self.assert_error(["convert", *arguments], part, expect=2)

    def test_a_full_disk_is_named(self):
        """By the limit on the size of a file."""
        done = subprocess.run(["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", self.yoke, "convert", "-m",
                               os.path.join(harness.FAMILIES, "qwen3"), "--to", "awq", "-o", self.out],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("model.safetensors: File too large", done.stderr)
        self.assertEqual(os.listdir(self.scratch), [])

    def test_a_killed_run_is_got_over(self):
        """Files left by a killed run are replaced, a run that is still writing is refused by name, other people's files
        are kept."""
        kuiper = os.path.join(harness.TESTS_DIR, "golden", "kuiper", "untied.bin")
        awq = os.path.join(harness.FAMILIES, "qwen3")
        part = self.out + ".part"
        for model, to in ((awq, "awq"), (kuiper, "kuiper")):
            with self.subTest(to):
                if to == "awq":
                    os.mkdir(part)
                    lock = os.open(part, os.O_RDONLY)
                    for name in ("convert.run", "model.safetensors.part"):
                        with open(os.path.join(part, name), "wb") as file:
                            file.write(b"left")
                else:
                    lock = os.open(part, os.O_RDWR | os.O_CREAT)
                    os.write(lock, b"x" * 10_000_000)
                fcntl.flock(lock, fcntl.LOCK_EX)
                self.assert_error(["convert", "-m", model, "--to", to, "-o", self.out],
                                  part + ": another run is writing it")
                self.assertFalse(os.path.exists(self.out))
                os.close(lock)  # as when a process ends
                self.convert(model, to=to)
                self.assertEqual(os.listdir(self.scratch), ["out"])
                self.assertNotIn("convert.run", os.listdir(self.out) if to == "awq" else [])
                shutil.rmtree(self.out) if to == "awq" else os.remove(self.out)
        os.mkdir(part)
        with open(os.path.join(part, "mine"), "wb"):
            pass
        self.assert_error(["convert", "-m", awq, "--to", "awq", "-o", self.out],
                          "out.part: expected an empty directory")
        self.assertEqual(os.listdir(part), ["mine"])

    def test_a_signal_leaves_nothing(self):
        """A pipe in place of the file blocks the writer until the signal has arrived."""
        model = os.path.join(harness.TESTS_DIR, "golden", "kuiper", "untied.bin")
        os.mkfifo(self.out + ".part")
        with subprocess.Popen([self.yoke, "convert", "-m", model, "--to", "kuiper", "-o", self.out],
                              stderr=subprocess.PIPE, text=True) as program:
            with open(self.out + ".part", "rb") as pipe:
                program.send_signal(signal.SIGINT)
                self.assertIn("stopping; a second signal", program.stderr.readline())
                self.assertLess(len(pipe.read()), os.path.getsize(model))
            self.assertIn("stopped; the unfinished output is removed", program.stderr.read())
        self.assertEqual(program.returncode, 128 + signal.SIGINT)
        self.assertEqual(os.listdir(self.scratch), [])


if __name__ == "__main__":
    harness.main()
