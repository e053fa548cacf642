"""Checkpoints in other 4-bit and 8-bit formats, each with one fault: refused with a message that names the fault, on
any rank."""

import json
import math
import os
import shutil
import struct

import harness
from safetensors_case import read_tensors, write_tensors

LAYER = "model.layers.1."
AWQ, GPTQ, COMPRESSED = "qweight qzeros scales".split(), "qweight qzeros scales g_idx".split(), [
    "weight_packed", "weight_scale", "weight_shape"]
FP8, FP8_BLOCKS = ["weight", "weight_scale"], ["weight", "weight_scale_inv"]
# Format, module, its tensors.
FORMATS = [
    ("format_awq_no_zeros", "mlp.up_proj", ["qweight", "scales"]), ("format_awq_gemv", "mlp.down_proj", AWQ),
    ("format_awq_gemv_fast", "mlp.down_proj", AWQ), ("format_gptq", "mlp.down_proj", GPTQ),
    ("format_compressed", "mlp.down_proj", COMPRESSED),
    ("format_compressed_asym", "mlp.down_proj", COMPRESSED + ["weight_zero_point"]),
    ("format_auto_round", "self_attn.o_proj", AWQ), ("format_auto_round_awq", "self_attn.o_proj", AWQ),
    ("format_gptq8_dynamic", "mlp.down_proj", GPTQ),
    ("format_compressed8", "mlp.down_proj", COMPRESSED + ["weight_zero_point"]),
    ("format_fp8", "mlp.down_proj", FP8_BLOCKS), ("format_compressed_fp8_block", "mlp.up_proj", FP8),
    ("format_nvfp4", "mlp.down_proj", ["weight_packed", "weight_scale", "weight_global_scale"]),
    ("format_mxfp4", "mlp.down_proj", ["weight_packed", "weight_scale"]), ("format_mxfp4", "mlp.up_proj", FP8),
    ("format_modelopt_mixed", "mlp.down_proj", FP8 + ["weight_scale_2"])]
OPTIONAL = {"g_idx"}
NAN = {"F16": b"\x00\x7e", "BF16": b"\xc0\x7f", "F32": b"\x00\x00\xc0\x7f", "F8_E4M3": b"\x7f",
       "U8": b"\xff"}  # of U8: E8M0


class Formats(harness.Case):
    def setUp(self):
        self.scratch = harness.scratch_folder(self.addCleanup)

    def copy(self, name):
        self.folder = os.path.join(self.scratch, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(os.path.join(harness.FAMILIES, name), self.folder)

    def edit(self, change):
        """change(tensors: name -> [dtype, shape, bytes]), of the model's only file."""
        tensors = read_tensors(self.folder)
        change(tensors)
        write_tensors(self.folder, tensors)

    def edit_config(self, **changes):
        path = os.path.join(self.folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["quantization_config"].update(changes)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)

    def refused(self, *parts):
        for n_ranks in (1, 3):
            self.assert_error(["generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5", "-n", 2,
                               "--tp", n_ranks], *parts)

    def test_a_missing_tensor(self):
        for name, module, suffixes in FORMATS:
            for suffix in set(suffixes) - OPTIONAL:
                with self.subTest(name, suffix=suffix):
                    self.copy(name)
                    tensor = f"{LAYER}{module}.{suffix}"
                    self.edit(lambda tensors: tensors.pop(tensor))
                    self.refused(f"{LAYER}{module}" if suffix in ("qweight", "weight_packed") else tensor, "missing")

    def test_another_shape(self):
        def transpose(entry):
            entry[1] = entry[1][::-1] if len(entry[1]) == 2 and entry[1][0] != entry[1][1] else [1, *(entry[1] or [1])]
        for name, module, suffixes in FORMATS:
            for suffix in suffixes:
                with self.subTest(name, suffix=suffix):
                    self.copy(name)
                    tensor = f"{LAYER}{module}.{suffix}"
                    self.edit(lambda tensors: transpose(tensors[tensor]))
                    self.refused(tensor, "expected", "found")

    def test_another_type(self):
        def retype(entry):
            size = len(entry[2]) // math.prod(entry[1])
            entry[0] = "BOOL" if entry[0] == "U8" else {1: "U8", 2: "U16", 4: "U32", 8: "U64"}[size]
        for name, module, suffixes in FORMATS:
            for suffix in suffixes:
                with self.subTest(name, suffix=suffix):
                    self.copy(name)
                    tensor = f"{LAYER}{module}.{suffix}"
                    self.edit(lambda tensors: retype(tensors[tensor]))
                    self.refused(tensor, "expected", "found")

    def test_scales_that_are_no_numbers(self):
        def poison(entry):
            entry[2] = NAN[entry[0]] + entry[2][len(NAN[entry[0]]):]
        for name, module, suffixes in FORMATS:
            with self.subTest(name):
                self.copy(name)
                scales = next(suffix for suffix in suffixes if "scale" in suffix)
                self.edit(lambda tensors: poison(tensors[f"{LAYER}{module}.{scales}"]))
                self.refused(f"{LAYER}{module}", "scale of group 0, output 0", "finite")

    def test_zero_points_that_a_configuration_denies(self):
        """gptqmodel writes zero_point false and zeros nevertheless: the zeros count. Without zeros, each is 8."""
        def answer():
            return self.run_json("generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5,9", "-n", 8,
                                 "--temperature", 0, "--logprobs", 1)[0]["logprobs"]
        self.copy("llama")
        expected = answer()
        self.edit_config(zero_point=False)
        self.assertEqual(answer(), expected)
        self.edit(lambda tensors: [tensors.pop(name) for name in list(tensors) if name.endswith("qzeros")])
        self.assertNotEqual(answer(), expected)
        self.edit_config(zero_point=True)
        self.refused("qzeros", "missing")

    def test_groups_of_inputs(self):
        def put(index, value):
            def change(tensors):
                entry = next(entry for name, entry in tensors.items()
                             if name.startswith(LAYER + "mlp.down_proj.") and name.endswith("g_idx"))
                old, = struct.unpack_from("<i", entry[2], 4 * index)
                new = old ^ 1 if value is None else value  # None: the neighbouring group, with one input too many
                entry[2] = entry[2][:4 * index] + struct.pack("<i", new) + entry[2][4 * index + 4:]
            return change
        for name, value, parts in (
                ("format_gptq", 3, ["input 7", "0 to 2", "found 3"]), ("format_gptq", -1, ["found -1"]),
                ("format_gptq_act_order", 3, ["input 7", "0 to 2", "found 3"]),
                ("format_compressed_act_order", -1, ["input 7", "found -1"]),
                ("format_compressed_act_order", 5, ["0 to 4", "found 5"]),
                ("format_compressed_act_order", None, ["group_size", "found 33"])):
            with self.subTest(name, value=value):
                self.copy(name)
                self.edit(put(7, value))
                self.refused(LAYER + "mlp.down_proj", "g_idx", *parts)

    def test_an_order_of_another_type_or_shape(self):
        for change in (lambda entry: entry.__setitem__(0, "F32"), lambda entry: entry.__setitem__(1, [1] + entry[1])):
            self.copy("format_compressed_act_order")
            self.edit(lambda tensors: change(tensors[LAYER + "mlp.down_proj.weight_g_idx"]))
            self.refused(LAYER + "mlp.down_proj.weight_g_idx", "expected", "found")

    def test_groups_without_g_idx(self):
        """Without g_idx, groups are of neighbouring inputs, unless the configuration says otherwise."""
        for desc_act in (False, True):
            self.copy("format_gptq")
            self.edit_config(desc_act=desc_act)
            self.edit(lambda tensors: tensors.pop(LAYER + "mlp.down_proj.g_idx"))
            if desc_act:
                self.refused(LAYER + "mlp.down_proj.g_idx", "missing")
            else:
                self.run_yoke("generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5", "-n", 2)
        self.copy("format_compressed")
        self.edit_config(config_groups={"a": {"targets": ["Linear"], "weights": {
            "num_bits": 4, "group_size": 32, "actorder": "group"}}})
        self.refused("weight_g_idx", "missing")

    def test_shape_from_the_tensor(self):
        def change(tensors):
            entry = tensors[LAYER + "mlp.up_proj.weight_shape"]
            entry[2] = struct.pack("<qq", 96, 97)
        self.copy("format_compressed")
        self.edit(change)
        self.refused(LAYER + "mlp.up_proj.weight_shape", "found 96, 97")

    def test_a_configuration_of_another_format(self):
        for name, changes, parts in (
                ("format_compressed", {"quant_method": "gptq", "bits": 4, "group_size": 32, "format": None},
                 ["weight_packed", "expected", "qweight"]),
                ("format_gptq", {"quant_method": "awq"}, ["version", "gptq"]),
                ("format_gptq", {"bits": 3}, ["bits 3"]),
                ("format_gptq", {"bits": 8}, ["q_proj.qweight", "expected I32 [24, 192], found I32 [12, 192]"]),
                ("format_gptq8_dynamic", {"bits": 4}, ["_proj.qweight", "expected"]),
                ("format_gptq", {"group_size": 16}, ["found"]),
                ("format_awq_gemv", {"version": "gemm"}, ["q_proj.scales", "expected"]),
                ("format_auto_round", {"packing_format": "auto_round:auto_awq"}, ["qweight", "expected"]),
                ("format_fp8", {"weight_block_size": [64, 64]}, ["weight_scale_inv", "[3, 3]", "found F32 [2, 2]"]),
                ("format_fp8", {"weight_block_size": [64, 0]}, ["weight_block_size [64, 0]"]),
                ("format_fp8", {"quant_method": "awq", "bits": 4, "group_size": 32}, ["qweight", "found", ".weight"]),
                ("format_compressed_fp8_block", {"format": "pack-quantized"}, ["float", "pack-quantized"])):
            with self.subTest(name, changes=changes):
                self.copy(name)
                self.edit_config(**changes)
                self.refused(*parts)

    def test_tensors_decide_against_the_list_of_excluded_modules(self):
        """Quantised modules that the list excludes are read like the other quantised modules, with a warning."""
        def tokens():
            return self.run_json("generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5,6", "-n", 4,
                                 "--temperature", 0, "--ignore-eos", "--logprobs", 0)[0]["logprobs"]

        for name, pattern in (("format_compressed", "re:.*down_proj"), ("hybrid_qwen3_5_int4", "re:.*linear_attn.*")):
            self.copy(name)
            expected = tokens()
            self.edit_config(ignore=["lm_head", pattern])
            self.assertEqual(tokens(), expected)
            self.assertIn("is quantised, although quantization_config excludes it", self.last_err)

    def test_zero_points_with_a_symmetric_configuration(self):
        for name, group, key, tensor in (
                ("format_compressed_mixed", "group_1", "weights", "self_attn.q_proj.weight_zero_point"),
                ("format_w8a8_asym", "group_0", "input_activations", "self_attn.q_proj.input_zero_point")):
            self.copy(name)
            with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
                groups = json.load(file)["quantization_config"]["config_groups"]
            groups[group][key]["symmetric"] = True
            self.edit_config(config_groups=groups)
            self.refused(tensor, "symmetric")

    def test_8_bit_floats_that_are_none(self):
        """A code that is no number, at the end of a layer: named by row and column, on any rank."""
        def change(tensors):
            entry = tensors[LAYER + "mlp.down_proj.weight"]
            entry[2] = entry[2][:-1] + b"\xff"
        self.copy("format_fp8")
        self.edit(change)
        self.refused(LAYER + "mlp.down_proj.weight", "row 143, column 199", "0xFF")

    def test_scales_of_the_tensor(self):
        for name, suffix in (("format_nvfp4", "weight_global_scale"), ("format_modelopt_mixed", "weight_scale_2")):
            for value in (0.0, math.inf, math.nan):
                with self.subTest(name, value=value):
                    self.copy(name)
                    tensor = f"{LAYER}mlp.down_proj.{suffix}"
                    self.edit(lambda tensors: tensors[tensor].__setitem__(2, struct.pack("<f", value)))
                    self.refused(tensor, "other than 0")

    def test_8_bit_floats_of_another_kind(self):
        def change(tensors):
            tensors[LAYER + "mlp.down_proj.weight"][0] = "F8_E5M2"
        self.copy("format_fp8")
        self.edit(change)
        self.refused(LAYER + "mlp.down_proj.weight", "F8_E5M2 is not supported")

    def test_activations_that_stay_as_they_are(self):
        """The program reports that they are not rounded, and reads past their scales without a warning."""
        for name, bits in (("format_fp8_tensor", 8), ("format_compressed_fp8_mixed", 0), ("format_nvfp4", 4),
                           ("format_modelopt_nvfp4", 4), ("format_mxfp4", 0)):
            self.copy(name)
            self.run_json("generate", "--model", self.folder, "--device", "cpu", "--token-ids", "5", "-n", 2)
            self.assertEqual("stay 16 bits" in self.last_err, bits > 0)
            self.assertEqual(f"to {bits}-bit floats" in self.last_err, bits > 0)
            self.assertNotIn("ignored", self.last_err)

    def test_zero_points_of_16_with_integers_of_0(self):
        def change(tensors):
            for suffix, value in (("qzeros", b"\xff"), ("qweight", b"\0")):
                entry = tensors[f"{LAYER}mlp.down_proj.{suffix}"]
                entry[2] = value * len(entry[2])
        self.copy("format_gptq")
        self.edit(change)
        self.refused(LAYER + "mlp.down_proj.qweight", "zero point 16")

    def test_plans_of_act_order(self):
        """Without weights, each group is assumed to be spread evenly."""
        def planned(*options):
            return self.run_json("plan", "--model", self.folder, *options)[0]["ranks"][0]["weight_bytes"]
        self.copy("format_gptq_act_order")
        cuda, cpu = ("--device", "cuda", "--device-memory", "8GiB", "--tp", 2), ("--device", "cpu", "--tp", 2)
        with_weights = [planned(*cuda), planned(*cpu)]
        for device, n_bytes in zip((cuda, cpu), with_weights, strict=True):
            self.assertLess(n_bytes, 0.8 * planned(*device, "--weights", "f16"))
            self.assertNotIn("as 16 bits", self.run_json("plan", "--model", self.folder, *device)[0]["reason"])
        os.remove(os.path.join(self.folder, "model.safetensors"))
        for device, n_bytes in zip((cuda, cpu), with_weights, strict=True):
            self.assertLess(abs(planned(*device) - n_bytes), 0.1 * n_bytes)

    def test_plans(self):
        """The plan without weights equals the plan with weights."""
        for name, _, _ in FORMATS:
            with self.subTest(name):
                self.copy(name)
                plan = self.run_json("plan", "--model", self.folder, "--device", "cpu")
                os.remove(os.path.join(self.folder, "model.safetensors"))
                assumed = self.run_json("plan", "--model", self.folder, "--device", "cpu")
                for with_weights, without in zip(plan[:-1], assumed[:-1], strict=True):
                    self.assertEqual(with_weights["ranks"], without["ranks"])


if __name__ == "__main__":
    harness.main()
