#!/usr/bin/env python3
"""Makes tiny random checkpoints of gpt-oss, with MXFP4 experts and with plain ones, and goldens of `transformers`.

Each case becomes families/NAME/, as make_family_goldens.py describes it. The reference is the family's own class in
float32 with the experts that `convert_moe_packed_tensors` of transformers makes of the blocks. Each feature is dropped
once, and must then change the result. Run with transformers 5 (tried: 5.24.0).
"""

import math
import os
import sys

import numpy as np
import torch
import transformers
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import expert_choices  # noqa: E402
import goldens  # noqa: E402

DTYPE = torch.bfloat16
CONFIG = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_act": "silu", "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
          "head_dim": 16, "vocab_size": 200, "max_position_embeddings": 256, "initial_context_length": 64,
          "rms_norm_eps": 1e-5, "rope_theta": 150000.0, "tie_word_embeddings": False, "attention_bias": True,
          "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                           "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
          "sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"], "num_local_experts": 5,
          "num_experts_per_tok": 2, "experts_per_token": 2, "swiglu_limit": 1.5, "pad_token_id": 0}
WITHOUT = ({"sliding_window": 200}, {"swiglu_limit": 7.0}, {"swiglu_alpha": 1.0},
           {"layer_types": ["full_attention", "sliding_attention"]},
           {"rope_scaling": {**CONFIG["rope_scaling"], "truncate": True}})
SPEC = {"name": "gpt_oss", "about": "gpt-oss: sinks, alternating windows, YaRN with exact bounds; experts of 3 MXFP4 "
        "blocks with biases, clamped SwiGLU", "files": 1, "dtype": "bfloat16", "config": CONFIG, "is_plain": False}
PLAIN = {**SPEC, "name": "gpt_oss_plain", "about": "gpt-oss as fine-tuned: plain experts, transposed in one tensor",
         "is_plain": True}
QUANTIZATION = {"quant_method": "mxfp4", "modules_to_not_convert": [
    "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
GAINS = {"q_proj": 1.3, "k_proj": 1.3, "v_proj": 1.4, "o_proj": 2.2, "router": 1.5}


def make_model(config):
    made = transformers.GptOssConfig.from_dict(dict(config))
    made._attn_implementation = made._experts_implementation = "eager"
    return transformers.GptOssForCausalLM(made).float().eval()


def spread_of(name, shape):
    """Mean and standard deviation of a tensor."""
    part = name.split(".")[-2]
    if name.endswith("sinks"):
        return 0.0, 1.0
    if name.endswith("bias"):
        return 0.0, 0.3
    if "norm" in part:
        return 1.0, 0.2
    return 0.0, 1.0 if part == "embed_tokens" else GAINS.get(part, 1.0) / math.sqrt(shape[-1])


def draw_blocks(rng, rows, inputs, exponents):
    """Codes of 4 bits, two in a byte, and powers of 2 for blocks of 32, of each expert."""
    n = CONFIG["num_local_experts"]
    blocks = torch.from_numpy(rng.randint(0, 256, size=(n, rows, inputs // 32, 16)).astype(np.uint8))
    return blocks, torch.from_numpy((127 + rng.choice(exponents, size=(n, rows, inputs // 32))).astype(np.uint8))


def draw(rng):
    """The tensors of the file."""
    tensors = {}
    for name, value in make_model(CONFIG).state_dict().items():
        if name.endswith(("gate_up_proj", "down_proj")):
            inputs, rows = value.shape[1:]
            exponents = (-5, -5, -4) if name.endswith("gate_up_proj") else (-4, -4, -3)
            tensors[name + "_blocks"], tensors[name + "_scales"] = draw_blocks(rng, rows, inputs, exponents)
        else:
            mean, std = spread_of(name, value.shape)
            drawn = mean + std * rng.standard_normal(tuple(value.shape))
            tensors[name] = torch.from_numpy(drawn.astype(np.float32)).to(DTYPE)
    return tensors


def dequantised(tensors, dtype):
    """The tensors with plain experts [experts, inputs, outputs], which bfloat16 holds exactly."""
    plain = {}
    for name, tensor in tensors.items():
        if name.endswith("_blocks"):
            stem = name.removesuffix("_blocks")
            plain[stem] = convert_moe_packed_tensors(tensor, tensors[stem + "_scales"], dtype=dtype).contiguous()
        elif not name.endswith("_scales"):
            plain[name] = tensor.to(dtype)
    return plain


def load(config, tensors, has_sinks=True):
    state = dequantised(tensors, torch.float32)
    for name in [name for name in state if name.endswith("sinks") and not has_sinks]:
        state[name].fill_(-math.inf)
    model = make_model(config)
    model.load_state_dict(state)
    return model


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    tensors = draw(rng)
    ids = goldens.draw_ids(CONFIG, rng)
    goldens.calibrate(load(CONFIG, tensors), tensors, ids)
    goldens.write_weights(folder, dequantised(tensors, DTYPE) if spec["is_plain"] else tensors, spec["files"])
    model = load(CONFIG, tensors)
    prompts = expert_choices.draw_prompts(CONFIG, model, rng, (7, 40))
    have = torch.log_softmax(goldens.logits_of(model, ids), -1)
    others = [load({**CONFIG, **change}, tensors) for change in WITHOUT] + [load(CONFIG, tensors, has_sinks=False)]
    changes = [(torch.log_softmax(goldens.logits_of(other, ids), -1) - have).abs().max().item() for other in others]
    if min(changes) < 0.02:
        raise AssertionError(f"the features move log-probabilities by {changes}")
    config = {**CONFIG, "torch_dtype": spec["dtype"]}
    goldens.end_case(spec, folder, config, prompts, None if spec["is_plain"] else QUANTIZATION,
                     f"features {min(changes):.2f}")


if __name__ == "__main__":
    goldens.make_cases(__doc__, [SPEC, PLAIN], make_case)
