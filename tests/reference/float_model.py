"""A checkpoint as an ordinary transformers model: AWQ layers become plain weights s * (q - z), computed on the device.

Independent of Yoke: the packed words are taken apart here, by the format's definition (see tests/models/awq_pack.py).
"""

import os

import safetensors
import torch
import transformers

UNPACK_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # column j of a word's eight sits at bit 4 * UNPACK_ORDER[j]
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
    """The float32 weight [N, K] of torch.nn.Linear: (q - z) * s, exact but for the last product's rounding."""
    q = unpack(qweight, range(8) if fault == "order" else UNPACK_ORDER).float()
    z, s = unpack(qzeros).float(), scales.float()
    if fault == "scale":
        s = s.roll(1, 0)
    if q.shape[0] % s.shape[0] or z.shape != s.shape or q.shape[1] != s.shape[1]:
        raise ValueError(f"groups do not fit: q {tuple(q.shape)}, z {tuple(z.shape)}, s {tuple(s.shape)}")
    grouped = q.view(s.shape[0], -1, q.shape[1])
    return ((grouped - z.unsqueeze(1)) * s.unsqueeze(1)).flatten(0, 1).T.contiguous()


def read_weights(folder, device, plant=None):
    """float32 state dict of a checkpoint. plant: a name of FAULTS, to be made in the first layer."""
    state, packed = {}, {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with safetensors.safe_open(os.path.join(folder, name), framework="pt") as file:
            for key in file.keys():
                layer, _, kind = key.rpartition(".")
                if kind not in ("qweight", "qzeros", "scales"):
                    state[key] = file.get_tensor(key).to(device).float()
                    continue
                parts = packed.setdefault(layer, {})
                parts[kind] = file.get_tensor(key).to(device)
                if len(parts) == 3:
                    fault = plant if layer == "model.layers.0.self_attn.o_proj" else None
                    state[f"{layer}.weight"] = dequantize(**packed.pop(layer), fault=fault)
    if packed:
        raise ValueError(f"{folder}: incomplete AWQ layers {sorted(packed)}")
    if plant == "norm":
        state["model.layers.0.input_layernorm.weight"].fill_(1)
    return state


def load(folder, device, plant=None):
    """The float32 model, with attention written out."""
    config = transformers.AutoConfig.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):  # weights are given to it, never drawn
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    state = read_weights(folder, device, plant)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    past = f"model.layers.{config.num_hidden_layers}."  # a layer that predicts a further token: not the model's
    model.load_state_dict({key: value for key, value in state.items() if not key.startswith(past)}, assign=True)
    for module in model.modules():
        if hasattr(module, "rotary_emb"):
            module.rotary_emb = type(module.rotary_emb)(config=model.config).to(device)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.device.type != torch.device(device).type or tensor.dtype != torch.float32:
            raise ValueError(f"{name}: expected float32 on {device}, found {tensor.dtype} on {tensor.device}")
    return model.eval()


def lower(model, dtype):
    """Make it the 16-bit model that users run: weights rounded, rotary frequencies kept, fused attention."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    model.set_attn_implementation("sdpa")


def logits_of(model, ids):
    """(logits [tokens, vocabulary] of one sequence in the model's type, the hidden states that lm_head got)."""
    seen = []
    hook = model.lm_head.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    ids = torch.as_tensor(ids, dtype=torch.long, device=model.lm_head.weight.device).unsqueeze(0)
    logits = model(input_ids=ids, use_cache=False).logits
    hook.remove()
    return logits[0], seen[0][0]
