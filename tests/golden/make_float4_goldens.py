#!/usr/bin/env python3
"""Makes tiny random checkpoints with floats of 4 and 8 bits in blocks whose scales are 8-bit floats, and goldens of
`transformers`.

Each case becomes families/format_NAME/, as make_family_goldens.py describes it. Codes and scales are written by the
tools:

  nvfp4* mxfp4 mxfp8   compressed_tensors/compressors/{nvfp4,mxfp4,mxfp8}/base.py of compressed_tensors 0.20.1, scales
                       by its calculate_qparams and generate_gparam
  modelopt*            NVFP4QTensor, FP8QTensor and MXFP8QTensor of nvidia-modelopt 0.47.0, as its export stores them

The reference is float32 with code * scale, where the scale is that of the block times or over that of the tensor. The
product is written out here from the definition of the codes and compared with the tool's decompressed weights. Run with
transformers 5 (tried: 5.24.0), compressed_tensors and nvidia-modelopt installed.
"""

import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_float8_goldens as float8  # noqa: E402
import make_format_goldens as formats  # noqa: E402
import make_moe_goldens as moe  # noqa: E402

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def halves(packed):
    return E2M1[torch.stack((packed & 15, packed >> 4), -1).flatten(-2).long()]


def spread(scale, shape):
    return scale.repeat_interleave(shape[1] // scale.shape[1], 1)


def powers(codes):
    return torch.exp2(codes.float() - 127)


def require_alike(ours, tool):
    """The tools round the result to bfloat16."""
    if not torch.allclose(ours, tool.float(), rtol=2**-7, atol=0):
        raise AssertionError("the tool's weight is another one")
    return ours


def pack_compressed(preset, with_inputs=False):
    def pack(weight):
        schemes = formats.tool("compressed_tensors.quantization.quant_scheme")
        quantization = formats.tool("compressed_tensors.quantization")
        helpers = formats.tool("compressed_tensors.quantization.utils")
        name = {"NVFP4": "nvfp4.base.NVFP4Packed", "MXFP4": "mxfp4.base.MXFP4Packed",
                "MXFP8": "mxfp8.base.MXFP8Quantization"}
        module, cls = name[preset[:5]].rsplit(".", 1)
        compressor = getattr(formats.tool("compressed_tensors.compressors." + module), cls + "Compressor")
        args = schemes.PRESET_SCHEMES[preset]["weights"]
        scheme = quantization.QuantizationScheme(targets=["Linear"], weights=args)
        blocks = weight.unflatten(1, (-1, args.group_size))
        state = {"weight": weight}
        if preset.startswith("NV"):
            state["weight_global_scale"] = helpers.generate_gparam(weight.min(), weight.max())
        scale, _ = helpers.calculate_qparams(blocks.amin(-1), blocks.amax(-1), args,
                                             global_scale=state.get("weight_global_scale"))
        state = compressor.compress({**state, "weight_scale": scale}, scheme)
        tool = compressor.decompress(dict(state), scheme)["weight"]
        if preset.startswith("NV"):
            factors = state["weight_scale"].float() / state["weight_global_scale"]
        else:
            factors = powers(state["weight_scale"])
        numbers = state["weight"].float() if preset.startswith("MXFP8") else halves(state["weight_packed"])
        dense = require_alike(numbers * spread(factors, weight.shape), tool)
        if with_inputs:
            state["input_global_scale"] = torch.tensor([3.5])
        return state, dense
    return pack


def pack_modelopt(kind):
    def pack(weight):
        tensors = formats.tool("modelopt.torch.quantization.qtensor")
        if kind == "NVFP4":
            quantised, scale, factor = tensors.NVFP4QTensor.quantize(weight, 16)
            tool = quantised.dequantize(scale=scale, double_scale=factor, block_sizes={-1: 16}, dtype=torch.float32)
            state = {"weight": quantised._quantized_data, "weight_scale": scale, "weight_scale_2": factor,
                     "input_scale": torch.tensor(0.02)}
            dense = halves(state["weight"]) * spread(scale.float() * factor, weight.shape)
        elif kind == "MXFP8":
            quantised, scale = tensors.MXFP8QTensor.quantize(weight)
            tool = quantised.dequantize(dtype=torch.float32, scale=scale)
            state = {"weight": quantised._quantized_data, "weight_scale": scale}
            dense = state["weight"].float() * spread(powers(scale), weight.shape)
        elif kind == "FP8_PB_WO":
            sizes = [-(-n // 128) for n in weight.shape]
            padded = torch.nn.functional.pad(weight, (0, 128 * sizes[1] - weight.shape[1],
                                                      0, 128 * sizes[0] - weight.shape[0]))
            scale = padded.view(sizes[0], 128, sizes[1], 128).abs().amax((1, 3), keepdim=True) / 448
            quantised, _ = tensors.FP8QTensor.quantize(weight, scale.view(sizes), block_sizes={-1: 128, -2: 128})
            tool = quantised.dequantize(dtype=torch.float32, scale=scale.view(sizes), block_sizes={-1: 128, -2: 128})
            state = {"weight": quantised._quantized_data, "weight_scale": scale}
            dense = state["weight"].float() * float8.spread(scale.view(sizes), 128, 128, weight.shape)
        else:
            scale = (weight.abs().amax() / 448).float()
            quantised, _ = tensors.FP8QTensor.quantize(weight, scale)
            tool = quantised.dequantize(dtype=torch.float32, scale=scale)
            state = {"weight": quantised._quantized_data, "weight_scale": scale, "input_scale": torch.tensor(0.03)}
            dense = state["weight"].float() * scale
        return state, require_alike(dense, tool)
    return pack


def weights(**more):
    return {"num_bits": 4, "type": "float", "symmetric": True, "dynamic": False, "actorder": None,
            "block_structure": None, "observer": "minmax", "observer_kwargs": {}, **more}


NV = weights(strategy="tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn")
MX = weights(strategy="group", group_size=32, scale_dtype="torch.uint8")


def compressed(form, groups):
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "kv_cache_scheme": None, "global_compression_ratio": None, "ignore": ["lm_head"], "config_groups": groups}


def group_of(args, inputs=None, targets=("Linear",), **more):
    return {"targets": list(targets), "weights": args, "input_activations": inputs, "output_activations": None, **more}


NVFP4_INPUTS = {**NV, "dynamic": "local", "observer": "static_minmax"}
MIXED = {f"model.layers.{layer}.{name}": {"quant_algo": "NVFP4", "group_size": 16} if "mlp" in name else
         {"quant_algo": "FP8"} for layer in (0, 1) for name in (
             "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
             "mlp.up_proj", "mlp.down_proj") if (layer, name) != (1, "self_attn.o_proj")}

CASES = [
    float8.case("nvfp4", pack_compressed("NVFP4", with_inputs=True), compressed("nvfp4-pack-quantized", {
        "group_0": group_of(NV, NVFP4_INPUTS)}), family="qwen3", head_dim=20, num_attention_heads=8,
        num_key_value_heads=2, hidden_size=64, intermediate_size=80,
        about="compressed-tensors NVFP4, inputs of 4 bits too; FFN of 5 blocks, heads begin inside bytes and blocks"),
    float8.case("mxfp4", pack_compressed("MXFP4A16"), compressed("mixed-precision", {
        "group_0": group_of(MX, format="mxfp4-pack-quantized"),
        "group_1": group_of({**MX, "num_bits": 8}, targets=["re:.*(up|o)_proj"], format="mxfp8-quantized"),
        "NVFP4A16": ["model.layers.0.mlp.down_proj"]}), override={
            "up_proj": pack_compressed("MXFP8A16"), "o_proj": pack_compressed("MXFP8A16"),
            "layers.0.mlp.down_proj": pack_compressed("NVFP4A16")}, attention_bias=True,
        about="compressed-tensors, MXFP4 beside MXFP8 and NVFP4 (a preset); biases, FFN of 3 blocks", **formats.UNEVEN),
    float8.case("modelopt_nvfp4", pack_modelopt("NVFP4"), None, family="qwen2", skip=["layers.0.self_attn.o_proj"],
                about="ModelOpt NVFP4, described in hf_quant_config.json; one layer excluded; biases",
                intermediate_size=112),
    float8.case("modelopt_mixed", pack_modelopt("NVFP4"), {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": MIXED,
        "ignore": ["lm_head", "model.layers.1.self_attn.o*"], "producer": {"name": "modelopt", "version": "0.47.0"}},
        skip=["layers.1.self_attn.o"], override={"self_attn": pack_modelopt("FP8")},
        about="ModelOpt's mixture of NVFP4 and FP8, a layer left out"),
    float8.case("modelopt_mxfp8", pack_modelopt("MXFP8"), {"quant_method": "modelopt", "quant_algo": "MXFP8",
                "ignore": ["lm_head"]}, family="qwen3", head_dim=24, about="ModelOpt MXFP8"),
    float8.case("modelopt_fp8_blocks", pack_modelopt("FP8_PB_WO"), {
        "quant_method": "modelopt", "quant_algo": "fp8_pb_wo", "ignore": ["lm_head", "model.embed_tokens"]},
        family="qwen3", hidden_size=144, intermediate_size=160, head_dim=40,
        about="ModelOpt FP8 with a scale for 128 x 128 weights, in a tensor of four dimensions"),
    {**formats.case("nvfp4_experts", None, pack_compressed("NVFP4A16"), compressed("nvfp4-pack-quantized", {
        "group_0": group_of(NV, targets=[r"re:.*mlp\.experts\..*"])}), dtype="bfloat16",
        about="Qwen3-MoE with routed experts alone in NVFP4: 5 experts of 7 blocks, 2 a token"),
     "config": moe.case("", "", None, "bfloat16", None, "qwen3_moe", intermediate_size=72, num_experts=5, head_dim=16,
                        num_experts_per_tok=2, moe_intermediate_size=112, norm_topk_prob=True, decoder_sparse_step=1,
                        mlp_only_layers=[])["config"]},
]

HF_QUANT_CONFIG = {"producer": {"name": "modelopt", "version": "0.47.0"}, "quantization": {
    "quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16,
    "exclude_modules": ["lm_head", "model.layers.0.self_attn.o_proj*"]}}


def fused(config, state):
    """The experts as the class of transformers 5 holds them."""
    return moe.fuse({**config, "n_routed_experts": config["num_experts"]}, state)


def make_experts(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = dict(spec["config"], torch_dtype=spec["dtype"])
    plain = moe.draw({**spec, "group": None}, config, rng)
    tensors, dense = dict(plain), dict(plain)
    for name in plain:
        if ".mlp.experts." in name:
            packed, dense[name] = spec["pack"](tensors.pop(name).float())
            tensors.update({f"{name[:-len('weight')]}{key}": value.contiguous() for key, value in packed.items()})
    norm = "model.norm.weight"
    goldens.calibrate(families.reference_model(config, fused(config, dense)), tensors,
                       goldens.draw_ids(config, rng))
    dense[norm] = tensors[norm]
    goldens.write_weights(folder, tensors, spec["files"])
    model = families.reference_model(config, fused(config, dense))
    prompts = expert_choices.draw_prompts(config, model, rng, moe.PROMPT_LENGTHS)
    goldens.end_case(spec, folder, config, prompts, spec["quantization"])


def make_case(spec, out):
    if "experts" in spec["name"]:
        make_experts(spec, out)
        return
    formats.make_case(spec, out)
    if not spec["quantization"]:
        goldens.write_json(os.path.join(out, spec["name"], "hf_quant_config.json"), HF_QUANT_CONFIG)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
