"""A checkpoint as an ordinary transformers model: AWQ layers become plain weights s * (q - z), computed on the device.

Independent of Yoke: this file unpacks the words by the format's definition (see tests/models/awq_pack.py). Experts may
be separate modules, as in transformers 4, or one tensor per layer, as since version 5.
"""

import os
import re

import safetensors
import torch
import transformers

UNPACK_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # column j of a word's eight sits at bit 4 * UNPACK_ORDER[j]
EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(\w+)\.weight")
FUSED = {"gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1), "down_proj": ("down_proj", 0),
         "w1": ("gate_up_proj", 0), "w3": ("gate_up_proj", 1), "w2": ("down_proj", 0)}  # (tensor, place in its rows)
LOWERED_AT_ONCE = 1 << 26  # elements
FAULTS = {
    "order": "one projection's nibbles taken in the order of their bits",
    "scale": "in one projection every group gets the scales of the group before",
    "norm": "one layer's input norm left out",
}


def unpack(words, order=UNPACK_ORDER):
    """[rows, N/8] int32 -> [rows, N] integers 0..15."""
    shifts = torch.tensor(order, dtype=torch.int32, device=words.device) * 4
    return ((words.unsqueeze(-1) >> shifts) & 15).flatten(1)


def dequantize(qweight, qzeros, scales, fault=None):
    """The float32 weight [N, K] of torch.nn.Linear: (q - z) * s, exact except for the last product's rounding."""
    q = unpack(qweight, range(8) if fault == "order" else UNPACK_ORDER).float()
    z, s = unpack(qzeros).float(), scales.float()
    if fault == "scale":
        s = s.roll(1, 0)
    if q.shape[0] % s.shape[0] or z.shape != s.shape or q.shape[1] != s.shape[1]:
        raise ValueError(f"groups do not fit: q {tuple(q.shape)}, z {tuple(z.shape)}, s {tuple(s.shape)}")
    grouped = q.view(s.shape[0], -1, q.shape[1])
    return ((grouped - z.unsqueeze(1)) * s.unsqueeze(1)).flatten(0, 1).T.contiguous()


def weights_of(folder, device, plant=None):
    """(name, float32 weight) of a checkpoint, one by one. plant: a name of FAULTS, applied in the first layer."""
    packed = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with safetensors.safe_open(os.path.join(folder, name), framework="pt") as file:
            for key in file.keys():
                layer, _, kind = key.rpartition(".")
                tensor = file.get_tensor(key).to(device)
                if kind not in ("qweight", "qzeros", "scales"):
                    is_left_out = plant == "norm" and key == "model.layers.0.input_layernorm.weight"
                    yield key, torch.ones_like(tensor).float() if is_left_out else tensor.float()
                    continue
                parts = packed.setdefault(layer, {})
                parts[kind] = tensor
                if len(parts) == 3:
                    fault = plant if layer == "model.layers.0.self_attn.o_proj" else None
                    yield f"{layer}.weight", dequantize(**packed.pop(layer), fault=fault)
    if packed:
        raise ValueError(f"{folder}: incomplete AWQ layers {sorted(packed)}")


def read_weights(folder, device):
    """float32 state dict of a checkpoint, with its names."""
    return dict(weights_of(folder, device))


def place(state, wanted, name, weight):
    """Adds a weight to the state dict of a model by the model's names. wanted: the model's state dict on no device.

    An expert goes to its rows of the layer's tensor, if the model has one. Rows that no weight fills stay NaN.
    """
    if name not in wanted:
        name = name.replace(".block_sparse_moe.", ".mlp.")  # Mixtral's since version 5
    match = EXPERT.fullmatch(name)
    if name in wanted or not match:
        state[name] = weight
        return
    experts, number, role = match.groups()
    fused, part = FUSED[role]
    key, n_rows = f"{experts}.{fused}", weight.shape[0]
    if key not in state:
        state[key] = torch.full(wanted[key].shape, torch.nan, device=weight.device)
    state[key][int(number), part * n_rows:(part + 1) * n_rows] = weight


def choose_kernels(model, attention, experts):
    model.set_attn_implementation(attention)
    if hasattr(model, "set_experts_implementation") and any(".experts." in name for name in model.state_dict()):
        model.set_experts_implementation(experts)  # since version 5, of mixtures only


def load(folder, device, plant=None):
    """The float32 model, with plain attention and separate experts."""
    config = transformers.AutoConfig.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    if config.model_type == "deepseek_v2" and config.rope_scaling and transformers.__version__ < "5":
        raise SystemExit("DeepSeek-V2: transformers before 5 leaves out what yarn multiplies its scores by")
    with torch.device("meta"):  # its weights are assigned, never drawn
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    choose_kernels(model, "eager", "eager")
    state, wanted = {}, model.state_dict()
    past = f"model.layers.{config.num_hidden_layers}."  # a layer that predicts a further token: not part of the model
    for name, weight in weights_of(folder, device, plant):
        if not name.startswith(past):
            place(state, wanted, name, weight)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, assign=True)
    if config.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight  # one parameter, not two in the same memory
    for module in model.modules():
        if hasattr(module, "rotary_emb"):
            module.rotary_emb = type(module.rotary_emb)(config=model.config).to(device)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.device.type != torch.device(device).type or tensor.dtype != torch.float32:
            raise ValueError(f"{name}: expected float32 on {device}, found {tensor.dtype} on {tensor.device}")
    return model.eval()


def lower(model, dtype):
    """Converts it to the 16-bit model that users run: rounded weights, unrounded rotary frequencies, fused attention
    and experts.

    Rounds in place, because there is no memory for a second copy of a large layer's experts.
    """
    for parameter in model.parameters():
        wide = parameter.data.view(-1)
        low = wide.view(dtype)[:wide.numel()]
        for old, new in zip(wide.split(LOWERED_AT_ONCE), low.split(LOWERED_AT_ONCE)):
            new.copy_(old.to(dtype))  # the new tensor ends before the next old one begins, or where it begins
        parameter.data = low.view(parameter.shape)
    choose_kernels(model, "sdpa", "grouped_mm")


def logits_of(model, ids):
    """(logits [tokens, vocabulary] of one sequence in the model's type, the hidden states that are lm_head's input)."""
    seen = []
    hook = model.lm_head.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    ids = torch.as_tensor(ids, dtype=torch.long, device=model.lm_head.weight.device).unsqueeze(0)
    logits = model(input_ids=ids, use_cache=False).logits
    hook.remove()
    return logits[0], seen[0][0]
