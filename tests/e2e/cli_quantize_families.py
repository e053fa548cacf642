"""yoke quantize --method awq for mixtures of experts and latent attention: the set of tensors, scales that change
nothing except for rounding, and unchanged routing."""

import json
import math
import os
import struct
import sys

import harness
from quantize_case import QuantizeCase, write_model
from safetensors_case import read_tensors

sys.path.insert(0, os.path.join(harness.TESTS_DIR, "models"))
from random_family import NEVER_CHOSEN, Model  # noqa: E402

def read_floats(folder):
    """The float16 tensors of a model in one file, by name; and the names of all."""
    tensors = read_tensors(folder)
    floats = {name: struct.unpack(f"<{math.prod(shape)}e", content)
              for name, (dtype, shape, content) in tensors.items() if dtype == "F16" and not name.endswith(".scales")}
    return floats, set(tensors)


class Families(QuantizeCase):
    def check_names(self, model, floats, names):
        """A separate layer for every linear layer, except for routers, the gates of shared experts and the embedding.
        Experts in one tensor become one by one."""
        fused = {name for name, (shape, _) in model.tensors.items() if len(shape) == 3 and
                 name.endswith(("put_linear.weight", ".experts.gate_up_proj", ".experts.down_proj"))}
        for name in fused:
            is_first = "input" in name or "gate_up" in name
            parts = (("w1", "w3"), ("w2",)) if "linear" in name else (("gate_proj", "up_proj"), ("down_proj",))
            for part in parts[0 if is_first else 1]:
                before = name.removesuffix(".weight").rpartition(".")[0].removesuffix(".experts")
                expert = f"{before}.experts.3.{part}"
                self.assertLessEqual({f"{expert}.qweight", f"{expert}.qzeros", f"{expert}.scales"}, names)
        for name in set(model.tensors) - fused:
            module = name.removesuffix(".weight")
            stays = (len(model.tensors[name][0]) != 2 or
                     module.endswith(("embed_tokens", "mlp.gate", "shared_expert_gate", "block_sparse_moe.gate",
                                      "in_proj_ba", "e_score_correction_bias", "router.layer", "feed_forward.router")))
            self.assertEqual(name in floats, stays, name)
            self.assertEqual({f"{module}.{part}" for part in ("qweight", "qzeros", "scales")} <= names, not stays, name)

    def check_routing(self, before, after, offset):
        """In layers of experts, the norm's divisor and the router's factor are the same power of two. offset: added to
        a norm's elements."""
        ends = ("gate.weight", "router.layer.weight", "router.weight")
        for router in (name for name in after if name.endswith(ends)):
            norm = ".".join(router.split(".")[:3]) + ".post_attention_layernorm.weight"
            ratios = [(offset + a) / (offset + b) for a, b in zip(before[norm], after[norm])]
            self.assertGreater(len(set(ratios)), 2)
            self.assertEqual({math.frexp(ratio)[0] for ratio in ratios}, {0.5})
            scaled = [w * ratios[i % 64] for i, w in enumerate(before[router])]
            self.assertEqual(scaled, list(after[router]))

    def check_family(self, family):
        model = Model(family)
        folder = write_model(self.place(family), model.config, model.tensors)
        rounded, scaled = self.distances(folder, "--group-size", 32)
        self.assertLess(scaled, 0.9 * rounded)
        floats, names = read_floats(folder + "-awq")
        self.check_names(model, floats, names)
        self.check_routing(read_floats(folder)[0], floats, 1 if family == "qwen3_next" else 0)

    def test_qwen2_moe(self):
        self.check_family("qwen2_moe")

    def test_qwen3_moe(self):
        self.check_family("qwen3_moe")

    def test_qwen3_next(self):
        self.check_family("qwen3_next")

    def test_mixtral(self):
        self.check_family("mixtral")

    def test_glm4_moe(self):
        self.check_family("glm4_moe")

    def test_granite_moe(self):
        self.check_family("granitemoeshared")

    def test_llama4(self):
        """Transposed experts, whose inputs are weighted."""
        self.check_family("llama4_text")

    def test_ernie4_5_moe(self):
        self.check_family("ernie4_5_moe")

    def test_deepseek_v2(self):
        self.check_family("deepseek_v2")

    def test_deepseek_v3(self):
        self.check_family("deepseek_v3")

    def test_experts_that_no_token_reaches(self):
        """They are rounded without scales, and the program reports it."""
        model = Model("glm4_moe")
        folder = write_model(self.place("unreached"), model.config, model.tensors)
        awq = ["--method", "awq", "--calibration", self.text, "--group-size", 32]
        said = self.quantize(folder, folder + "-awq", *awq)
        self.assertIn("2 of 6 experts were chosen by none of the ", said)
        self.quantize(folder, folder + "-rtn", "--group-size", 32)
        for reached in (False, True):
            module = f"model.layers.1.mlp.experts.{2 if reached else NEVER_CHOSEN}.down_proj.qweight"
            words = [self.words_of(folder + suffix, module) for suffix in ("-awq", "-rtn")]
            self.assertEqual(words[0] != words[1], reached)

    @staticmethod
    def words_of(folder, name):
        with open(os.path.join(folder, "model.safetensors"), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            return file.read()[slice(*header[name]["data_offsets"])]


if __name__ == "__main__":
    harness.main()
