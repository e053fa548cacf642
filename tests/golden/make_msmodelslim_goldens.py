#!/usr/bin/env python3
"""Makes tiny random checkpoints in msmodelslim's format, and goldens by definition.

Each case becomes families/format_msmodelslim_NAME/, as make_family_goldens.py describes it. The tool runs on NPUs, so
its files are written here according to their public readers: vllm-ascend, vllm_ascend/quantization/{quant_config,w8a16,
w8a8,w8a8_dynamic,func_wrapper}.py, and the operators' definitions in the documents of torch_npu (npu_weight_quant_
batchmatmul, npu_quantize, npu_quant_matmul). For a layer with inputs x:

  W8A16          y = x ((q - offset) scale)^T + bias       scale, offset f32 [N, 1], or [N, K/g]
  W8A8, W8A8S    x_q = clamp(round(x / input_scale + input_offset), -128, 127)
                 y = (x_q q^T + quant_bias) deq_scale      quant_bias i32 [N], deq_scale f32 [N] or i64 whose lower half
                                                           is the float; quant_bias holds bias and - input_offset sum(q)
  W8A8_DYNAMIC   x_q = round(x / s), s = max|x| / 127 of the row; y = (x_q q^T) s scale + bias

Norms: NORM.module.weight and .module.bias are what quantised layers read, NORM.weight what layers of floats read; in
newer files NORM.weight and NORM.bias are what all read. Models are those of make_family_goldens and make_glm_goldens,
in float32. Inputs that come near the middle of two integers could be rounded either way: such prompts are drawn again.
"""

import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_glm_goldens as glm  # noqa: E402

PROMPT_LENGTHS = (1, 7, 24)
MIN_TIE = 4e-5  # of the distance between two integers


def case(name, about, family, kinds, group=0, norms="module", files=1, dtype="float16", deq="i64", **config):
    """kinds: [(part of a module's name, kind)]: the first that fits decides. norms: the form of norms' offsets,
    "module", "plain", or None: norms have none. deq: type of deq_scale."""
    return {"name": "format_msmodelslim_" + name, "about": about, "family": family, "kinds": kinds, "group": group,
            "norms": norms, "files": files, "dtype": dtype, "deq": deq, "config": config, "scale_dtype": dtype,
            "style": None, "skip": [], "without": None}


CASES = [
    case("w8a16", "W8A16 for each output, norms with offsets beside plain ones, layers of floats, two files", "qwen2",
         [("layers.0.mlp.down_proj", "FLOAT"), ("layers.1.self_attn.", "FLOAT"), ("", "W8A16")], files=2,
         num_attention_heads=6, num_key_value_heads=3, hidden_size=96, intermediate_size=100),
    case("w8a16_group", "W8A16 in groups of 32, names of ChatGLM, newer norms with offsets", "chatglm",
         [("", "W8A16")], group=32, norms="plain", num_attention_heads=6, multi_query_group_num=3, kv_channels=32),
    case("w8a8", "W8A8, W8A8S and W8A8_DYNAMIC beside layers of floats; biases in quant_bias", "qwen2",
         [("layers.0.mlp.down_proj", "FLOAT"), ("layers.0.", "W8A8"), ("layers.1.self_attn.o_proj", "W8A8S"),
          ("layers.1.", "W8A8_DYNAMIC")], norms=None, num_attention_heads=6, num_key_value_heads=3, hidden_size=96,
         intermediate_size=104),
    case("w8a8_chatglm", "W8A8 with names of ChatGLM and float32 scales", "chatglm", [("dense_4h_to_h", "W8A8_DYNAMIC"),
         ("", "W8A8")], norms=None, deq="f32", dtype="bfloat16"),
]


def kind_of(spec, module):
    return next(kind for part, kind in spec["kinds"] if part in module)


def is_quantised(spec, module):
    return kind_of(spec, module) != "FLOAT"


def names_of(spec):
    return glm.NAMES["chatglm" if spec["family"] == "chatglm" else "glm"]


def modules_of(spec, config):
    """Linear layers, as (module, its norm or None, whether it has a bias)."""
    prefix, found = names_of(spec)[0], []
    chatglm = spec["family"] == "chatglm"
    for layer in range(config["num_layers"] if chatglm else config["num_hidden_layers"]):
        linears = [(name, bias) for name, _, _, bias, _ in glm.modules_of(config)] if chatglm else \
            [(name, bias) for name, _, _, bias in families.projections(config)]
        for name, bias in linears:
            norm = None
            if name.endswith(("q_proj", "k_proj", "v_proj", "query_key_value")):
                norm = f"{prefix}{layer}.input_layernorm"
            elif name.endswith(("gate_proj", "up_proj", "dense_h_to_4h")):
                norm = f"{prefix}{layer}.post_attention_layernorm"
            found.append((f"{prefix}{layer}.{name}", norm, bias))
    return found


def quantise_groups(weight, group):
    """W8A16: q, scale and offset of [N, K/g]."""
    n, k = weight.shape
    rows = weight.reshape(n, -1, group or k)
    low, high = rows.amin(-1).clamp(max=0), rows.amax(-1).clamp(min=0)
    scale = (high - low) / 255
    offset = torch.round(-128 - low / scale)
    q = torch.round(rows / scale[..., None] + offset[..., None]).clamp(-128, 127)
    return q.reshape(n, k).to(torch.int8), scale.float(), offset.float()


def quantise_rows(weight):
    scale = weight.abs().amax(1, keepdim=True) / 127
    return torch.round(weight / scale).clamp(-128, 127).to(torch.int8), scale.float()


def written(spec, module, weight, bias, limits):
    """A quantised module's tensors, by suffix."""
    kind = kind_of(spec, module)
    if kind == "W8A16":
        q, scale, offset = quantise_groups(weight, spec["group"])
        return {"weight": q, "weight_scale": scale, "weight_offset": offset}
    q, scale = quantise_rows(weight)
    if kind == "W8A8_DYNAMIC":
        return {"weight": q, "weight_scale": scale, "weight_offset": torch.zeros_like(scale)}
    low, high = min(limits[0], 0.0), max(limits[1], 0.0)
    input_scale = torch.tensor([(high - low) / 255], dtype=torch.float32)
    input_offset = torch.round(-128 - low / input_scale)
    deq = (scale[:, 0] * input_scale).float()
    sums = q.double().sum(1)
    quant_bias = torch.round((bias.double() if bias is not None else 0) / deq.double() - input_offset.double() * sums)
    as_written = deq
    if spec["deq"] == "i64":
        as_written = torch.from_numpy(deq.numpy().view(np.int32).astype(np.int64) & 0xFFFFFFFF)
    return {"weight": q, "input_scale": input_scale, "input_offset": input_offset,
            "quant_bias": quant_bias.to(torch.int32), "deq_scale": as_written}


class QuantLinear(torch.nn.Module):
    """A layer by its definition, from the tensors of the file."""

    nearest_tie = 1.0  # over all layers, since the caller reset it

    def __init__(self, spec, tensors, module):
        super().__init__()
        self.kind = kind_of(spec, module)
        self.tensors = {name[len(module) + 1:]: tensor for name, tensor in tensors.items()
                        if name.startswith(module + ".")}
        if "deq_scale" in self.tensors and self.tensors["deq_scale"].dtype == torch.int64:
            lower = self.tensors["deq_scale"].numpy().astype(np.uint64).astype(np.uint32)
            self.tensors["deq_scale"] = torch.from_numpy(lower.view(np.float32))

    def integers(self, scaled):
        inside = scaled[scaled.abs() < 127]
        ties = ((inside - torch.floor(inside)) - 0.5).abs()
        QuantLinear.nearest_tie = min(QuantLinear.nearest_tie, ties.min().item())
        return torch.round(scaled).clamp(-128, 127).double()

    def forward(self, x):
        t = self.tensors
        q = t["weight"].double()
        if self.kind == "W8A16":
            n, k = q.shape
            rows = (q.reshape(n, t["weight_scale"].shape[1], -1) - t["weight_offset"][..., None].double())
            weight = (rows * t["weight_scale"][..., None].double()).reshape(n, k).to(x.dtype)
            y = x @ weight.T
        elif self.kind == "W8A8_DYNAMIC":
            scale = x.abs().amax(dim=-1, keepdim=True) / 127
            y = (self.integers(x / scale) @ q.T).to(x.dtype) * scale * t["weight_scale"][:, 0].to(x.dtype)
        else:
            x_q = self.integers(x / t["input_scale"].to(x.dtype) + t["input_offset"].to(x.dtype))
            return ((x_q @ q.T + t["quant_bias"].double()) * t["deq_scale"].double()).to(x.dtype)
        return y + t["bias"].to(x.dtype) if "bias" in t else y


class QuantChatGLM(glm.ChatGLM):
    def __init__(self, spec, config, tensors, layers, offsets):
        state = {name: tensor.float() for name, tensor in tensors.items() if tensor.is_floating_point()}
        super().__init__(config, state)
        self.spec, self.tensors, self.layers, self.offsets = spec, tensors, layers, offsets

    def double(self):
        other = QuantChatGLM(self.spec, self.config, self.tensors, self.layers, self.offsets)
        other.state = {name: tensor.double() for name, tensor in self.state.items()}
        return other

    def linear(self, name, x):
        for hook in self.layers.get("hooks", []):
            hook(name, x)
        return self.layers[name](x) if name in self.layers else super().linear(name, x)

    def norm(self, name, x):
        y = super().norm(name, x)
        return y + self.offsets[name].to(y.dtype) if name in self.offsets else y


def reference(spec, config, tensors, quantised=True):
    """The float32 model. Modules that are not quantised have float tensors."""
    layers = {module: QuantLinear(spec, tensors, module) for module, _, _ in modules_of(spec, config)
              if quantised and is_quantised(spec, module)}
    state, offsets = {}, {}
    for name, tensor in tensors.items():
        module = name.rpartition(".")[0]
        if module in layers:
            state[module + ".weight"] = torch.zeros(tensors[module + ".weight"].shape)
            if name.endswith(".bias"):
                state[name] = tensor
        elif ".module." not in name and not (name.endswith("norm.bias")):
            state[name] = tensor
    for module, norm, bias in modules_of(spec, config):
        if bias and module in layers and module + ".bias" not in tensors:  # it is in quant_bias
            state[module + ".bias"] = torch.zeros(tensors[module + ".weight"].shape[0])
        if norm and norm + ".module.weight" in tensors and is_quantised(spec, module):
            state[norm + ".weight"], offsets[norm] = tensors[norm + ".module.weight"], tensors[norm + ".module.bias"]
        elif norm and norm + ".bias" in tensors:
            offsets[norm] = tensors[norm + ".bias"]
    if spec["family"] == "chatglm":
        return QuantChatGLM(spec, config, {**tensors, **state}, layers, offsets)
    model = families.reference_model(config, state)
    for name, layer in layers.items():
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, layer)
    for norm, offset in offsets.items():
        model.get_submodule(norm).register_forward_hook(lambda _, args, out, offset=offset: out + offset.to(out.dtype))
    return model


def ranges_of(spec, config, tensors, ids):
    """Smallest and largest input of each layer, slightly narrowed, so that some values are clamped."""
    found, model = {}, reference(spec, config, tensors, quantised=False)
    if spec["family"] == "chatglm":
        model.layers = {"hooks": [lambda name, x: found.update({name: (x.min().item() * 0.8, x.max().item() * 0.8)})]}
    else:
        for module, _, _ in modules_of(spec, config):
            def note(_, args, module=module):
                found[module] = (args[0].min().item() * 0.8, args[0].max().item() * 0.8)
            model.get_submodule(module).register_forward_pre_hook(note)
    goldens.logits_of(model, ids)
    return found


def draw(spec, config, rng, ids):
    """Tensors of the file, and their kinds."""
    dtype = goldens.TORCH_DTYPES[spec["dtype"]]
    if spec["family"] == "chatglm":
        tensors = glm.draw({**spec, "group": None}, config, rng)
        del tensors["transformer.rotary_pos_emb.inv_freq"]
    else:
        tensors = families.draw_checkpoint({**spec, "group": None}, config, rng)
    norms = sorted({norm for _, norm, _ in modules_of(spec, config) if norm}) if spec["norms"] else []
    for norm in norms:  # scaled, with an offset
        plain = tensors[norm + ".weight"]
        at = norm + (".module" if spec["norms"] == "module" else "")
        tensors[at + ".weight"] = (plain.float() * torch.from_numpy(rng.uniform(0.7, 1.4, plain.shape))).to(dtype)
        tensors[at + ".bias"] = torch.from_numpy(rng.standard_normal(plain.shape) * 0.2).to(dtype)
    kinds = {name: "FLOAT" for name in tensors}
    limits = ranges_of(spec, config, tensors, ids)
    for module, _, bias in modules_of(spec, config):
        kind = kind_of(spec, module)
        if kind == "FLOAT":
            continue
        own_bias = tensors[module + ".bias"].float() if bias else None
        packed = written(spec, module, tensors.pop(module + ".weight").float(), own_bias, limits[module])
        if "quant_bias" in packed and bias:
            del tensors[module + ".bias"], kinds[module + ".bias"]
        tensors.update({f"{module}.{key}": value.contiguous() for key, value in packed.items()})
        kinds.update({f"{module}.{key}": kind for key in packed})
    return tensors, kinds


def write_files(folder, spec, tensors, kinds):
    goldens.write_weights(folder, tensors, spec["files"])
    suffix = "_" + spec["kinds"][-1][1].lower()
    for name in os.listdir(folder):
        if name.endswith((".safetensors", ".index.json")):
            new = name.replace("model", "quant_model_weight" + suffix, 1)
            os.rename(os.path.join(folder, name), os.path.join(folder, new))
            if name.endswith(".index.json"):
                path = os.path.join(folder, new)
                with open(path, encoding="utf-8") as file:
                    text = file.read().replace('"model-0', f'"quant_model_weight{suffix}-0')
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    description = {"model_quant_type": spec["kinds"][-1][1], "version": "1.0.0"}
    if spec["group"]:
        description["group_size"] = spec["group"]
    goldens.write_json(os.path.join(folder, f"quant_model_description{suffix}.json"), {**description, **kinds})


def draw_prompt(model, vocab, length, rng):
    for _ in range(4000):
        ids = rng.randint(0, vocab, size=length).tolist()
        QuantLinear.nearest_tie = 1.0
        try:
            prompt = goldens.golden_prompt(model, ids)
        except AssertionError:  # float64 rounds an input differently
            model.float()
            continue
        if prompt and QuantLinear.nearest_tie >= MIN_TIE:
            return prompt
    raise AssertionError("no prompt is far enough from a tie")


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    if spec["family"] == "chatglm":
        config = {**glm.CHATGLM, **spec["config"], "torch_dtype": spec["dtype"]}
    else:
        config = families.make_config(spec)
    vocab = config.get("padded_vocab_size") or config["vocab_size"]
    ids = goldens.draw_ids(config, rng)
    tensors, kinds = draw(spec, config, rng, ids)
    goldens.calibrate(reference(spec, config, tensors), tensors, ids, names_of(spec)[2] + ".weight")
    write_files(folder, spec, tensors, kinds)
    model = reference(spec, config, goldens.read_weights(folder))
    prompts = [draw_prompt(model, vocab, length, rng) for length in PROMPT_LENGTHS]
    goldens.end_case(spec, folder, config, prompts)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
