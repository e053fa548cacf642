"""yoke quantize: the program's additions to yk_quantize (unit/test_quantize.c), which are options, messages, exit
codes, signals, and full disks; and answers of a quantised model."""

import fcntl
import json
import math
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

import harness
from quantize_case import CPU, FLOAT, ON, QuantizeCase, read_model, write_model
from safetensors_case import read_tensors, write_tensors

SHAPE = {"rms_norm_eps": 1e-06, "model_type": "llama"}


def write_checkpoint(folder, shapes):
    """Zeros of these shapes as float16, in one file."""
    os.makedirs(folder)
    header, at = {}, 0
    for name, shape in shapes.items():
        n_bytes = 2 * shape[0] * shape[1]
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + n_bytes]}
        at += n_bytes
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(SHAPE, file)
    return folder


def yoke_layer(name):
    """The layer that a tensor belongs to, or -1."""
    return int(name.split(".")[2]) if name.startswith("model.layers.") else -1


def tree(folder):
    """Every file's bytes."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                found[os.path.relpath(os.path.join(place, name), folder)] = file.read()
    return found


def refuse_long_files():
    """Like a disk that is full after 1 MB: a write fails."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


class Quantize(QuantizeCase):
    def test_the_model_answers(self):
        out = self.place("answers")
        said = self.quantize(FLOAT, out, "--group-size", 64)
        self.assertRegex(said, r"42 layers at 4 bits in groups of 64, 0 kept; .* from .* in .* s, .* GB/s")
        said = self.run_json("generate", "-m", out, "--device", "cpu", "--prompt", "348+275=", "--max-tokens", 3)
        self.assertEqual(said[0]["text"], "623")

    def test_gemma_4(self):
        """Experts in parallel with a dense FFN become a layer each; routers and the layers' embeddings stay."""
        for family, expected in (("gemma4_moe", "86 layers at 4 bits in one group a row, 4 kept;"),
                                 ("gemma4_e2b", "31 layers at 4 bits in one group a row, 10 kept;")):
            model, out = os.path.join(harness.FAMILIES, family), self.place(family)
            said = self.quantize(model, out, "--group-size", -1)
            self.assertIn(expected, said)
            self.assertNotIn("stays as it is", said)
            said = self.run_json("generate", "-m", out, "--device", "cpu", "--token-ids", "5,6,7", "--max-tokens", 3)
            self.assertEqual(len(said[0]["token_ids"]), 3)
        narrow = self.quantize(os.path.join(harness.FAMILIES, "llama_f16"), self.place("narrow"), "--group-size", -1)
        self.assertIn("(4 modules in all) stays as it is: its outputs are no multiple of 8", narrow)
        names = read_tensors(self.place("gemma4_moe"))
        self.assertIn("model.layers.3.experts.4.down_proj.qweight", names)
        self.assertIn("model.layers.3.router.proj.weight", names)

    @unittest.skipIf(harness.ON_CPU, "compares with a GPU")
    def test_devices_write_the_same(self):
        for size in (32, 64, 128, -1):
            self.quantize(FLOAT, self.place(f"cpu{size}"), "--group-size", size, on=CPU)
            self.quantize(FLOAT, self.place(f"cuda{size}"), "--group-size", size)
            self.assertEqual(tree(self.place(f"cpu{size}")), tree(self.place(f"cuda{size}")))
        for name in ("once", "again"):
            self.quantize(FLOAT, self.place(name), "--method", "awq", "--calibration", self.text)
        self.assertEqual(tree(self.place("once")), tree(self.place("again")))

    def test_scaling_keeps_channels_that_matter(self):
        """The demo model's first layer computes the same function with a few large channels of its norms and
        correspondingly small weights, which plain rounding loses."""
        config, tensors = read_model(FLOAT)
        for norm, linears in (("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
                              ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj"))):
            for name, factor in ((norm, 64), *((linear, 1 / 64) for linear in linears)):
                _, values = tensors[f"model.layers.0.{name}.weight"]
                for i in range(5, len(values), 32):  # of 256
                    values[i] *= factor
        tensors = {name: value for name, value in tensors.items() if yoke_layer(name) <= 0}
        model = write_model(self.place("outliers"), {**config, "num_hidden_layers": 1}, tensors)
        rounded, scaled = self.distances(model, "--calibration-tokens", 400)
        self.assertLess(scaled, 0.42 * rounded)  # 0.45 without per-group limits

    def test_scaling_changes_nothing_else(self):
        """A random model with as many KV heads as heads, and biases: values and their bias are scaled too."""
        rng, tensors = random.Random(5), {}
        config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 64,
                  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
                  "vocab_size": 1024, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
                  "tie_word_embeddings": True}

        def draw(name, *shape, scale=0.06, mean=0.0):
            spread = [scale * 4 ** rng.uniform(-1, 1) for _ in range(shape[-1])]  # channels that differ
            tensors[name] = (list(shape), [mean + rng.gauss(0, spread[i % shape[-1]]) for i in range(math.prod(shape))])

        draw("model.embed_tokens.weight", 1024, 64)
        draw("model.norm.weight", 64, mean=1)
        for layer in ("model.layers.0.", "model.layers.1."):
            for name in ("input_layernorm", "post_attention_layernorm"):
                draw(f"{layer}{name}.weight", 64, mean=1, scale=0.5)
            for name in "qkvo":
                draw(f"{layer}self_attn.{name}_proj.weight", 64, 64)
            for name in "qkv":
                draw(f"{layer}self_attn.{name}_proj.bias", 64, scale=1)
            draw(f"{layer}mlp.gate_proj.weight", 96, 64)
            draw(f"{layer}mlp.up_proj.weight", 96, 64)
            draw(f"{layer}mlp.down_proj.weight", 64, 96)
        rounded, scaled = self.distances(write_model(self.place("values"), config, tensors), "--group-size", 32)
        self.assertLess(scaled, rounded)

    def test_a_full_disk_loses_nothing_that_is_finished(self):
        whole, out = self.place("whole"), self.place("full")
        self.quantize(FLOAT, whole)
        said = self.quantize(FLOAT, out, expect=1, preexec_fn=refuse_long_files)
        self.assertIn("File too large", said)
        self.assertEqual(sorted(tree(out)), ["quantize.part/run.json"])  # and no file of a rank
        self.quantize(FLOAT, out)
        self.assertEqual(tree(out), tree(whole))

    def test_a_head_of_its_own(self):
        """tie_word_embeddings is true, but the file has a different head: the head is kept, and the flag is
        corrected."""
        model, out = self.place("headed"), self.place("headed_out")
        shutil.copytree(FLOAT, model)
        tensors = read_tensors(model)
        dtype, shape, content = tensors["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = [dtype, shape, content[:-2] + b"\0\x40"]
        write_tensors(model, tensors)
        self.quantize(model, out)
        with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
            self.assertIs(json.load(file)["tie_word_embeddings"], False)
        self.assertEqual(read_tensors(out)["lm_head.weight"], tensors["lm_head.weight"])

    def test_one_run_at_a_time(self):
        out = self.place("held")
        os.makedirs(os.path.join(out, "quantize.part"))
        lock = os.open(os.path.join(out, "quantize.part"), os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.assertIn("quantize.part: another run is writing it", self.quantize(FLOAT, out, expect=1))
        os.close(lock)
        self.quantize(FLOAT, out)

    @harness.of_the_program
    def test_interrupted(self):
        """The program blocks in its first message, because stderr is not read, until it has the signal."""
        out = self.place("it's")
        shapes = {f"model.layers.0.mlp.{name}_proj.weight": [64, 64] for name in ("up", "down")}
        model = write_checkpoint(self.place("odd"), {**shapes, "model.layers.0.self_attn.q_proj.weight": [64, 100]})
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        filled = 0
        try:
            while True:
                filled += os.write(write_end, b" " * 4096)
        except BlockingIOError:
            os.set_blocking(write_end, True)
        run = subprocess.Popen([self.yoke, "quantize", "-m", model, "-o", out, "--group-size", "64", *map(str, ON)],
                               stderr=write_end)
        os.close(write_end)
        self.wait_until_asleep(run.pid)  # one thread waits for signals
        run.send_signal(signal.SIGINT)
        self.wait_until_asleep(run.pid)
        with os.fdopen(read_end, encoding="utf-8") as pipe:
            said = pipe.read()[filled:]
        self.assertEqual(run.wait(harness.TIMEOUT_S), 130, said)
        self.assertIn("stopped with 0 of 1 weight files done; to continue:", said)
        command = said.strip().splitlines()[-1].removeprefix("yoke: warning: ")
        self.assertTrue(command.startswith("yoke quantize -m "), command)
        again = subprocess.run(["sh", "-c", f'PATH="{os.path.dirname(self.yoke)}:$PATH"; {command}'],
                               capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("model.layers.0.self_attn.q_proj.weight (1 modules in all) stays as it is", again.stderr)
        self.assertEqual(sorted(os.listdir(out)), ["config.json", "model.safetensors"])

    def wait_until_asleep(self, pid):
        """Waits until several threads exist that all sleep for a while, without pending signals."""
        deadline, n_times = time.monotonic() + harness.TIMEOUT_S, 0
        while n_times < 20:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
            n_times = n_times + 1 if self.is_asleep(pid) else 0

    @staticmethod
    def is_asleep(pid):
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
                fields = dict(line.split(":", 1) for line in file)
            if fields["State"].split()[0] != "S" or int(fields["SigPnd"], 16) or int(fields["ShdPnd"], 16):
                return False
        return len(threads) > 1

    def test_wrong_commands(self):
        out = self.place("never")
        cases = [(["--group-size", 48], "--group-size: expected 32, 64, 128 or -1, found 48"),
                 (["--method", "gptq"], "--method"), (["--method", "awq"], "expected --calibration FILE"),
                 (["--calibration", self.text], "expected --method awq"), (["--keep", ""], "--keep"),
                 (["--device", "gpu"], "--device"), (["--ranks", 65], "--ranks"), (["--devices", "0,0"], "--devices"),
                 (["--device", "cpu", "--devices", "0"],
                  "--devices: expected --device auto or cuda with it, found cpu"),
                 (["--ranks", 3, "--devices", "0,1"],
                  "--devices: expected 3 devices, one for each rank (--ranks), found 2"),
                 (["extra"], "unexpected argument")]
        for options, words in cases:
            self.assertIn(words, self.quantize(FLOAT, out, *options, expect=2, on=[]))
        missing = subprocess.run([self.yoke, "quantize", "-m", FLOAT], capture_output=True, text=True, timeout=60)
        self.assertEqual((missing.returncode, "--output" in missing.stderr), (2, True))
        self.assertFalse(os.path.exists(out))

    def glm(self):
        """A model of a family with fused tensors, with the parts that are read before it is refused."""
        model = self.place("glm")
        os.makedirs(model)
        with open(os.path.join(harness.FAMILIES, "glm", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        del config["quantization_config"]
        config.update(hidden_size=128, num_attention_heads=2, num_key_value_heads=2, head_dim=64)
        with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        n_bytes = 128 * 128 * 2
        header = json.dumps({"model.layers.0.self_attn.o_proj.weight": {
            "dtype": "F16", "shape": [128, 128], "data_offsets": [0, n_bytes]}}).encode()
        with open(os.path.join(model, "model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(n_bytes))
        return model

    def test_refusals(self):
        out, awq = self.place("never"), ["--method", "awq", "--calibration"]
        empty = self.place("empty")
        os.makedirs(empty)
        cases = [(harness.DEMO, [], "quantised checkpoint (awq)"), (empty, [], "config.json"),
                 (self.place("absent"), [], "absent"), (FLOAT, [*awq, self.place("no.txt")], "no.txt"),
                 (FLOAT, ["--keep", "layers.9."], "layers.9."),
                 (self.glm(), [*awq, __file__], "one tensor of gate and up")]
        for model, options, words in cases:
            self.assertIn(words, self.quantize(model, out, *options, expect=1))
            self.assertFalse(os.path.exists(out))
        shutil.copytree(FLOAT, self.place("taken"))
        self.assertIn("expected an empty directory", self.quantize(FLOAT, self.place("taken"), expect=1))


if __name__ == "__main__":
    harness.main()
