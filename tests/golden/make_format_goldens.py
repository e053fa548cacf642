#!/usr/bin/env python3
"""Makes tiny random checkpoints in 4-bit and 8-bit formats of public tools, and goldens of `transformers`.

Each case becomes families/format_NAME/, as make_family_goldens.py describes it. The words of every layer are written by
the packing code of the tool itself, from a float weight that rounds to integers drawn here:

  awq_*              awq/modules/linear/{gemv,gemv_fast}.py of autoawq 0.2.9
  gptq*              auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py of auto_gptq 0.7.1, zeros less one; version 2 is
                     the same with the zeros themselves (gptqmodel/utils/model.py: convert_gptq_v1_to_v2_format_module)
  gptq_act_order     auto_gptq/nn_modules/qlinear/qlinear_cuda.py of the same: inputs in groups that g_idx names
  compressed_*       compressed_tensors/compressors/pack_quantized/base.py of compressed_tensors 0.20.0
  compressed_act_*   compressed_tensors/compressors/quantized_compressors/pack_quantized.py of compressed_tensors
                     0.12.2, which still writes act order: format_compressed_act_order is made by a separate run
                     auto_round*        auto_round_extension/torch/{qlinear_torch,qlinear_torch_zp}.py and
                     auto_round/export/export_to_awq/utils.py of auto_round 0.16.1

The reference is float32 with exactly s * (q - z) of the integers and the scales that were drawn, so that a packing that
this project and a tool interpret differently is detected. Run with these packages on PYTHONPATH (pip install --no-deps,
or unpacked); packages that they import and packing does not need are stood in for.
"""

import importlib.machinery
import importlib.util
import math
import os
import sys
import types
from unittest import mock

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402


def case(name, group, pack, quantization, override=None, dtype="float16", zeros="drawn", skip=(), bits=4, order=None,
         **config):
    """pack: (q, z, s, group, bits) of numpy -> tensors of a module. override: {part of a module's name: (group, zeros)
    or (group, zeros, bits)}. zeros: "drawn", "with 16" (for 4 bits, with integers of at least 1; 256 for 8 bits) or
    "eight" (the middle). quantization: of config.json. order: (rng, module, K, group) -> the group of each input, or
    None; pack then takes it too."""
    return {"name": "format_" + name, "family": config.pop("family", "llama"), "group": group, "pack": pack,
            "quantization": quantization, "override": override or {}, "dtype": dtype, "zeros": zeros, "bits": bits,
            "order": order,
            "skip": list(skip), "files": config.pop("files", 1), "without": None, "about": config.pop("about"),
            "config": config}


def tool(module):
    """A module of a tool. Its imports other than torch and itself are replaced by stubs if they are not installed."""
    root = module.split(".")[0]
    if root == "auto_gptq" and root not in sys.modules:  # its package imports names that newer transformers lack
        spec = importlib.machinery.ModuleSpec(root, None, is_package=True)
        spec.submodule_search_locations += [os.path.join(folder, root) for folder in sys.path]
        sys.modules[root] = importlib.util.module_from_spec(spec)
    while True:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] == root or error.name in sys.modules:
                raise
            sys.modules[error.name] = mock.MagicMock()


def awq_module(name):
    """autoawq's module by its file, because its package imports models that newer transformers lack."""
    if "awq.utils.module" not in sys.modules:
        for package in ("awq", "awq.utils"):
            sys.modules[package] = types.ModuleType(package)
        sys.modules["awq.utils.module"] = types.SimpleNamespace(try_import=lambda _: (None, ""))
    for folder in sys.path:
        path = os.path.join(folder, "awq", "modules", "linear", name + ".py")
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location("tool_" + name, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ModuleNotFoundError("awq")


def linear_of(q, z, s, group, g_idx=None):
    """A torch.nn.Linear that rounds to q; scales and zeros [N, K/g] in the tools' form."""
    g_idx = np.arange(q.shape[0]) // group if g_idx is None else g_idx
    weight = s[g_idx] * (q.astype(np.float32) - z[g_idx])
    linear = torch.nn.Linear(q.shape[0], q.shape[1], bias=False)
    linear.weight.data = torch.from_numpy(np.ascontiguousarray(weight.T.astype(np.float32)))
    return linear, torch.from_numpy(s.T.copy()), torch.from_numpy(z.T.astype(np.float32))


def pack_awq_words(q, z, s, group, bits):
    """autoawq's gemm words of q without zeros, as in files with zero_point false."""
    assert (z == 8).all() and bits == 4
    return {"qweight": torch.from_numpy(families.awq_pack.pack(q)), "scales": torch.from_numpy(s)}


def pack_gemv(name, cls):
    def pack(q, z, s, group, bits):
        linear, scales, zeros = linear_of(q, z, s, group)
        layer = getattr(awq_module(name), cls).from_linear(linear, bits, group, scales=scales, zeros=zeros)
        return {key: getattr(layer, key) for key in ("qweight", "qzeros", "scales")}
    return pack


def pack_gptq(version):
    def pack(q, z, s, group, bits):
        linear, scales, zeros = linear_of(q, z, s, group)
        module = tool("auto_gptq.nn_modules.qlinear.qlinear_cuda_old")
        layer = module.QuantLinear(bits, group, q.shape[0], q.shape[1], False, weight_dtype=torch.float32)
        layer.pack(linear, scales, zeros, None)
        qzeros = layer.qzeros
        if version == 2:
            ones = np.uint32(0x11111111 if bits == 4 else 0x01010101)
            qzeros = torch.from_numpy((layer.qzeros.numpy().view(np.uint32) + ones).view(np.int32))
        g_idx = torch.arange(q.shape[0], dtype=torch.int32) // group
        return {"qweight": layer.qweight, "qzeros": qzeros, "scales": layer.scales, "g_idx": g_idx}
    return pack


def pack_gptq_act_order(q, z, s, group, bits, g_idx):
    linear, scales, zeros = linear_of(q, z, s, group, g_idx)
    module = tool("auto_gptq.nn_modules.qlinear.qlinear_cuda")
    layer = module.QuantLinear(bits, group, q.shape[0], q.shape[1], False, weight_dtype=torch.float32)
    layer.pack(linear, scales, zeros, torch.from_numpy(g_idx.astype(np.int32)))
    return {key: getattr(layer, key) for key in ("qweight", "qzeros", "scales", "g_idx")}


def pack_compressed_act_order(q, z, s, group, bits, g_idx):
    """For groups of neighbouring inputs, g_idx keeps its initial value: -1 everywhere."""
    module = tool("compressed_tensors.compressors.quantized_compressors.pack_quantized")
    args = tool("compressed_tensors.quantization").QuantizationArgs(
        num_bits=bits, type="int", symmetric=True, strategy="group", group_size=group, actorder="group")
    linear, scales, zeros = linear_of(q, z, s, group, g_idx)
    is_set = (np.arange(len(g_idx)) // group != g_idx).any()
    index = torch.from_numpy(g_idx.astype(np.int32)) if is_set else torch.full((len(g_idx),), -1, dtype=torch.int32)
    compressor = module.PackedQuantizationCompressor.__new__(module.PackedQuantizationCompressor)
    packed = compressor.compress_weight(linear.weight.data, scales, args, torch.zeros_like(scales, dtype=torch.int8),
                                        index)
    return {**packed, "weight_scale": scales, "weight_g_idx": index}


def orders_of_gptq(rng, module, k, group):
    """As in GPTQ, the same for modules of the same input, except for two of them; down_proj's groups of layer 1 have
    any size, one is empty."""
    if "layers.1.mlp.down_proj" in module:
        return np.where((g_idx := rng.randint(0, k // group, size=k)) == 1, 0, g_idx)
    if "v_proj" not in module and "up_proj" not in module:
        rng = np.random.RandomState(k)
    g_idx = np.empty(k, dtype=np.int64)
    g_idx[rng.permutation(k)] = np.arange(k) // group
    return g_idx


def orders_of_compressed(rng, module, k, group):
    return np.arange(k) // group if "layers.1.self_attn.q_proj" in module else rng.permutation(k) // group


def pack_compressed(symmetric):
    def pack(q, z, s, group, bits):
        module = tool("compressed_tensors.compressors.pack_quantized.base")
        quantization = tool("compressed_tensors.quantization")
        k = q.shape[0]
        args = quantization.QuantizationArgs(num_bits=bits, type="int", symmetric=symmetric,
                                             strategy="channel" if group == k else "group",
                                             group_size=None if group == k else group)
        linear, scales, zeros = linear_of(q, z, s, group)
        state = {"weight": linear.weight.data, "weight_scale": scales}
        if not symmetric:
            state["weight_zero_point"] = (zeros - 2**(bits - 1)).to(torch.int8)
        scheme = quantization.QuantizationScheme(targets=["Linear"], weights=args)
        return module.PackedQuantizationCompressor.compress(state, scheme)
    return pack


def pack_auto_round(name):
    def pack(q, z, s, group, bits):
        linear, scales, zeros = linear_of(q, z, s, group)
        if name == "awq":
            cls = tool("auto_round.export.export_to_awq.utils").WQLinear_GEMM
            layer = cls.from_linear(linear, bits, group, scales=scales.t(), zeros=zeros.t(), device="cpu")
        else:
            module = tool("auto_round_extension.torch." + name)
            layer = module.QuantLinear(bits, group, q.shape[0], q.shape[1], False)
            layer.device = torch.device("cpu")
            layer.pack(linear, scales, zeros.clone(), None, "cpu")
        return {key: getattr(layer, key) for key in ("qweight", "qzeros", "scales")}
    return pack


GPTQ = {"quant_method": "gptq", "bits": 4, "desc_act": False, "sym": False}
WEIGHTS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False,
           "actorder": None, "observer": "minmax", "block_structure": None}
COMPRESSED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
              "kv_cache_scheme": None, "global_compression_ratio": None}
ROUND = {"quant_method": "auto-round", "bits": 4, "data_type": "int", "act_bits": 16, "iters": 200}
UNEVEN = {"num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 96, "intermediate_size": 96}


def group_of(targets, **weights):
    return {"targets": targets, "weights": {**WEIGHTS, **weights}, "input_activations": None,
            "output_activations": None}


CASES = [
    case("awq_no_zeros", 32, pack_awq_words, {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": False,
         "version": "gemm"}, zeros="eight", dtype="bfloat16", about="AWQ without zero points, bfloat16 scales"),
    case("awq_gemv", 32, pack_gemv("gemv", "WQLinear_GEMV"), {"quant_method": "awq", "bits": 4, "group_size": 32,
         "zero_point": True, "version": "gemv"}, about="AWQ gemv; FFN of three groups", **UNEVEN),
    case("awq_gemv_fast", 64, pack_gemv("gemv_fast", "WQLinear_GEMVFast"), {"quant_method": "awq", "bits": 4,
         "group_size": 64, "zero_point": True, "version": "gemv_fast"}, about="AWQ gemv_fast", hidden_size=128,
         intermediate_size=192, head_dim=32),
    case("gptq", 32, pack_gptq(1), {**GPTQ, "group_size": 32, "checkpoint_format": "gptq"}, zeros="with 16",
         about="GPTQ version 1, zero points of 5 to 11 and 16; FFN of three groups", head_dim=32, **UNEVEN),
    case("gptq_v2_channel", -1, pack_gptq(2), {**GPTQ, "group_size": -1, "checkpoint_format": "gptq_v2"},
         dtype="bfloat16", about="GPTQ version 2, a group for each output, bfloat16 model"),
    case("gptq_dynamic", 32, pack_gptq(1), {**GPTQ, "group_size": 32, "sym": True, "dynamic": {
         r"-:.*layers\.0\.self_attn\.k_proj": {}, r"+:.*up_proj": {"bits": 4, "group_size": 64},
         r".*layers\.1.*down_proj": {"group_size": 64}}}, skip=["layers.0.self_attn.k_proj"], zeros="eight",
         override={"up_proj": (64, "eight"), "layers.1.mlp.down_proj": (64, "eight")}, hidden_size=128, files=2,
         intermediate_size=192, head_dim=32, about="dynamic: k plain beside quantised q and v, gate and up in "
         "different groups"),
    case("gptq_act_order", 32, pack_gptq_act_order, {**GPTQ, "desc_act": True, "group_size": 32,
         "checkpoint_format": "gptq", "dynamic": {r"+:.*layers\.0.*(up_proj|down_proj)": {"bits": 8},
                                                  r"+:.*layers\.1.*(o_proj|v_proj)": {"bits": 8}}}, zeros="with 16",
         order=orders_of_gptq, override={name: (32, "with 16", 8) for name in (
             "layers.0.mlp.up_proj", "layers.0.mlp.down_proj", "layers.1.self_attn.o_proj",
             "layers.1.self_attn.v_proj")}, head_dim=32, **UNEVEN, about="GPTQ with desc_act, of 4 and 8 bits: an "
         "order for each input, two of their own, groups of any size"),
    case("compressed_act_order", 32, pack_compressed_act_order, {**COMPRESSED,
         "ignore": ["lm_head", r"re:.*layers\.0.*up_proj"], "config_groups": {
             "group_0": group_of(["Linear"], actorder="group")}}, zeros="eight", skip=["layers.0.mlp.up_proj"],
         dtype="bfloat16", order=orders_of_compressed, mlp_bias=True, attention_bias=True, intermediate_size=160,
         head_dim=24, num_attention_heads=8, num_key_value_heads=2, hidden_size=64,
         about="compressed-tensors, actorder group; up plain beside a gate, biases, an order that was not set"),
    case("compressed", 32, pack_compressed(True), {**COMPRESSED, "ignore": ["lm_head", r"re:.*layers\.1.*v_proj"],
         "config_groups": {"group_0": group_of(["Linear"])}}, zeros="eight", skip=["layers.1.self_attn.v_proj"],
         dtype="bfloat16", family="qwen3", head_dim=20, num_attention_heads=8, num_key_value_heads=2, hidden_size=96,
         tie_word_embeddings=False, about="compressed-tensors, symmetric; heads begin inside words and groups"),
    case("compressed_asym", 128, pack_compressed(False), {**COMPRESSED, "ignore": ["lm_head"],
         "config_groups": {"W4A16_ASYM": ["Linear"]}}, hidden_size=128, intermediate_size=384, head_dim=64,
         num_key_value_heads=1, num_attention_heads=4, about="compressed-tensors, preset W4A16_ASYM"),
    case("compressed_mixed", 32, None, {**COMPRESSED, "ignore": ["lm_head"], "config_groups": {
         "group_0": group_of(["Linear"], actorder="weight"),
         "group_1": group_of([r"re:.*(q_proj|down_proj)"], strategy="channel", group_size=None, symmetric=False),
         "group_2": group_of(["model.layers.1.self_attn.q_proj"], group_size=64)}}, zeros="eight",
         override={"layers.1.self_attn.q_proj": (64, "eight"), "q_proj": (-1, "drawn"), "down_proj": (-1, "drawn")},
         hidden_size=64, intermediate_size=100, vocab_size=199,
         about="compressed-tensors, three groups; a name beats an expression beats a class; FFN of 100"),
    case("auto_round", 32, pack_auto_round("qlinear_torch"), {**ROUND, "group_size": 32, "sym": False,
         "packing_format": "auto_round"}, family="qwen2", about="auto-round's own packing, biases"),
    case("auto_round_gptq", 32, pack_auto_round("qlinear_torch_zp"), {**ROUND, "group_size": 32, "sym": False,
         "packing_format": "auto_round:auto_gptq", "extra_config": {
             "model.layers.0.mlp.down_proj": {"bits": 16}, ".*o_proj": {"group_size": 64}}},
         skip=["layers.0.mlp.down_proj"], override={"o_proj": (64, "drawn")},
         about="auto-round as GPTQ, extra_config by name and by expression"),
    case("auto_round_awq", 32, pack_auto_round("awq"), {**ROUND, "group_size": 32, "sym": False,
         "packing_format": "auto_round:auto_awq", "modules_to_not_convert": [r"layers\.1\.mlp\.gate"]},
         skip=["layers.1.mlp.gate_proj"], about="auto-round as AWQ; gate plain beside a quantised up"),
    case("gptq8_dynamic", 32, pack_gptq(1), {**GPTQ, "bits": 8, "group_size": 32, "checkpoint_format": "gptq",
         "dynamic": {r"+:.*(up|q)_proj": {"bits": 4}, r"+:.*layers\.1.*o_proj": {"group_size": 64}}}, bits=8,
         zeros="with 16", override={"up_proj": (32, "drawn", 4), "q_proj": (32, "drawn", 4),
                                    "layers.1.self_attn.o_proj": (64, "drawn", 8)},
         about="GPTQ version 1, 8 bits, zero points of 96 to 159 and 256; up and q of 4 bits; FFN of three groups",
         head_dim=32, **UNEVEN),
    case("gptq8_v2_channel", -1, pack_gptq(2), {**GPTQ, "bits": 8, "group_size": -1, "checkpoint_format": "gptq_v2"},
         bits=8, dtype="bfloat16", about="GPTQ version 2 with 8 bits, a group for each output, bfloat16 model"),
    case("compressed8", 32, None, {**COMPRESSED, "format": "mixed-precision", "ignore": ["lm_head"], "config_groups": {
         "group_0": {**group_of(["Linear"], num_bits=8), "format": "pack-quantized"},
         "group_1": {**group_of([r"re:.*(q_proj|down_proj)"], num_bits=8, strategy="channel", group_size=None,
                                symmetric=False), "format": "pack-quantized"},
         "group_2": {**group_of([r"re:.*up_proj"]), "format": "pack-quantized"},
         "W8A16": ["model.layers.1.self_attn.k_proj"]}}, bits=8, zeros="eight",
         override={"up_proj": (32, "eight", 4), "q_proj": (-1, "drawn", 8), "down_proj": (-1, "drawn", 8),
                   "layers.1.self_attn.k_proj": (-1, "eight", 8)},
         dtype="bfloat16", family="qwen3", head_dim=20, num_attention_heads=8, num_key_value_heads=2, hidden_size=96,
         intermediate_size=100, vocab_size=199, tie_word_embeddings=False,
         about="compressed-tensors, 8 bits by group and by channel beside 4 bits, a preset; FFN of 100, heads of 20"),
    case("auto_round8", 32, pack_auto_round("qlinear_torch_zp"), {**ROUND, "bits": 8, "group_size": 32, "sym": False,
         "packing_format": "auto_round:auto_gptq", "extra_config": {
             "model.layers.0.mlp.down_proj": {"bits": 16}, ".*o_proj": {"bits": 4, "group_size": 64}}}, bits=8,
         skip=["layers.0.mlp.down_proj"], override={"o_proj": (64, "drawn", 4)}, family="qwen2",
         about="auto-round as GPTQ with 8 bits, extra_config with 4 and 16 bits"),
]


def draw_integers(rng, g_idx, n, group, gain, zeros_are, dtype, bits):
    """q [K, N], z and s [K/g, N]; s of dtype, as float32. g_idx [K]: the group of each input."""
    k = len(g_idx)
    groups, top = k // group, 2**bits
    spread, low, high = (3.2, 5, 12) if bits == 4 else (35.0, 96, 160)
    zeros = np.full((groups, n), top // 2) if zeros_are == "eight" else rng.randint(low, high, size=(groups, n))
    if zeros_are == "with 16":
        zeros = np.where(rng.random_sample((groups, n)) < 0.05, top, zeros)
    q = np.rint(zeros[g_idx] + rng.standard_normal((k, n)) * spread)
    q = np.clip(q, zeros[g_idx] == top, top - 1).astype(np.uint8)
    scales = gain / math.sqrt(k) / spread * np.exp(0.25 * rng.standard_normal((groups, n)))
    rounded = torch.from_numpy(scales.astype(np.float32)).to(dtype)
    return q, zeros.astype(np.uint16), rounded.float().numpy()


def layout_of(spec, module):
    """(group, zeros, bits) of a module: the longest override that is part of its name, else the case's."""
    parts = [part for part in spec["override"] if part in module]
    layout = spec["override"][max(parts, key=len)] if parts else (spec["group"], spec["zeros"])
    return (*layout, spec["bits"])[:3]


def draw(spec, config, rng):
    """Tensors of the file by name, and float32 weights of the quantised modules."""
    dtype = goldens.TORCH_DTYPES[spec["dtype"]]
    plain = {**spec, "group": None, "scale_dtype": spec["dtype"]}
    tensors, dense = families.draw_checkpoint(plain, config, rng), {}
    for layer in range(config["num_hidden_layers"]):
        for name, k, n, _ in families.projections(config):
            module = f"model.layers.{layer}.{name}"
            if any(part in module for part in spec["skip"]):
                continue
            group, zeros, bits = layout_of(spec, module)
            group = k if group == -1 else group
            gain = families.GAINS[name.split(".")[1]]
            order = (spec["order"](rng, module, k, group),) if spec["order"] else ()
            g_idx = order[0] if order else np.arange(k) // group
            q, z, s = draw_integers(rng, g_idx, n, group, gain, zeros, dtype, bits)
            dense[module + ".weight"] = (s[g_idx] * (q.astype(np.float32) - z[g_idx])).T
            pack = spec["pack"] or pack_compressed(zeros == "eight")
            del tensors[module + ".weight"]
            for key, value in pack(q, z, s, group, bits, *order).items():
                value = value.to(dtype) if value.is_floating_point() else value
                tensors[f"{module}.{key}"] = value.contiguous()
    return tensors, dense


def reference(config, tensors, dense):
    """The float32 model: the file's plain tensors, and dense."""
    plain = {name: tensor for name, tensor in tensors.items()
             if name.endswith((".bias", "norm.weight", "embed_tokens.weight", "lm_head.weight")) or
             (name.endswith(".weight") and name not in dense)}
    state = {**plain, **{name: torch.from_numpy(np.ascontiguousarray(w)) for name, w in dense.items()}}
    return families.reference_model(config, state)


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = families.make_config(spec)
    tensors, dense = spec.get("draw", draw)(spec, config, rng)
    model = reference(config, tensors, dense)
    goldens.calibrate(model, tensors, goldens.draw_ids(config, rng))
    goldens.write_weights(folder, tensors, spec["files"])
    model = reference(config, goldens.read_weights(folder), dense)
    prompts = goldens.draw_prompts(model, config["vocab_size"], rng)
    goldens.end_case(spec, folder, config, prompts, spec["quantization"])


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
