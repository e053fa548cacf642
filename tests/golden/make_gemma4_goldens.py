#!/usr/bin/env python3
"""Makes tiny random checkpoints of Gemma 4 (text) and goldens of the public `transformers`.

Each case becomes families/NAME/, as make_family_goldens.py describes it. The reference is Gemma4ForCausalLM in float32.
Cases within a model that also reads images have the names and the keys of its published files, and a tensor of each
tower. Run with transformers 5 (tried: 5.24.0).
"""

import json
import math
import os
import sys

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import goldens  # noqa: E402
import make_format_goldens as formats  # noqa: E402
import make_relative_goldens as relatives  # noqa: E402

ROPE = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000.0}}
COMMON = {"hidden_activation": "gelu_pytorch_tanh", "hidden_size": 72, "intermediate_size": 64,
          "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 16, "global_head_dim": 32,
          "vocab_size": 200, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "sliding_window": 16,
          "rope_parameters": ROPE, "attention_bias": False, "bos_token_id": 2, "pad_token_id": 0,
          "tie_word_embeddings": True, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
          "attention_k_eq_v": False, "enable_moe_block": False, "final_logit_softcapping": 6.0,
          "use_bidirectional_attention": None}
N_MIXTURE_TOKENS = 12  # of an answer: each further row makes clear answers rarer
MIN_GAP = 0.002  # of a router's logits: ranks and instruction sets round differently
LAYER_TYPES = {"s": "sliding_attention", "f": "full_attention"}


def case(name, about, without, layers, inside=True, saved=False, int4=None, **config):
    """without: changes of the configuration that drop the feature of the case; "zeros": the end of the names of tensors
    that are zeros without it. layers: s for each layer with a window,
    f for each without. inside: the keys stand in text_config. saved: as transformers saves a configuration, with the
    widths of each layer, rather than as published. int4: the group of 4-bit integers of compressed-tensors, None:
    plain."""
    config = {**COMMON, "num_hidden_layers": len(layers), "layer_types": [LAYER_TYPES[kind] for kind in layers],
              **config}
    return {"name": name, "about": about, "without": without, "inside": inside, "saved": saved, "int4": int4,
            "model_type": "gemma4_text", "dtype": config.pop("dtype", "bfloat16"), "config": config}


CASES = [
    case("gemma4", "Gemma 4, dense: heads of 16 with a window and of 32 without, whose values are their keys; norms "
         "of values, proportional rotation, factors of layers, a cap of logits", {"final_logit_softcapping": None},
         "ssfsf", attention_k_eq_v=True, num_global_key_value_heads=2, use_bidirectional_attention="vision"),
    case("gemma4_moe", "Gemma 4 with experts beside the FFN of each layer: norms of both results, a scaled router, a "
         "factor of each expert", {"top_k_experts": 1}, "sfsf", inside=False, saved=True, attention_k_eq_v=True,
         num_global_key_value_heads=1, enable_moe_block=True, num_experts=5, top_k_experts=2,
         moe_intermediate_size=24, num_attention_heads=4, num_key_value_heads=2, dtype="float16"),
    case("gemma4_e2b", "Gemma 4 with embeddings of each layer; 2 layers that read the cache of others, with an FFN "
         "of twice the size", {"zeros": "per_layer_projection.weight"}, "sfssf", num_kv_shared_layers=2,
         use_double_wide_mlp=True,
         hidden_size_per_layer_input=24, vocab_size_per_layer_input=200, num_attention_heads=4, num_key_value_heads=1,
         hidden_size=64, final_logit_softcapping=None),
    case("gemma4_e4b", "Gemma 4 with embeddings of each layer, whose first three layers may be in three stages; the "
         "last layer reads the cache of the third", {"zeros": "per_layer_projection.weight"}, "ssff",
         num_kv_shared_layers=1,
         hidden_size_per_layer_input=16, vocab_size_per_layer_input=200, num_attention_heads=4, num_key_value_heads=2,
         hidden_size=48, intermediate_size=40, dtype="float16"),
    case("gemma4_w4a16", "Gemma 4 as its QAT uploads: W4A16 of compressed-tensors in groups of 32",
         {"final_logit_softcapping": None}, "sf", int4=32, attention_k_eq_v=True, num_global_key_value_heads=1,
         hidden_size=64, num_attention_heads=4, num_key_value_heads=2),
]


def make_model(config):
    made = transformers.Gemma4TextConfig.from_dict(json.loads(json.dumps(config)))
    made._attn_implementation = made._experts_implementation = "eager"
    return transformers.Gemma4ForCausalLM(made).float().eval()


def spread_of(name, shape):
    """Mean and standard deviation of a tensor."""
    part = name.removesuffix(".weight").split(".")[-1]
    if part in ("q_norm", "k_norm"):
        return 0.7, 0.1
    if "norm" in part or part in ("scale", "per_expert_scale"):
        return 1.0, 0.2
    if part == "layer_scalar":
        return 0.8, 0.1
    if part in ("embed_tokens", "embed_tokens_per_layer"):
        return 0.0, 0.25 / math.sqrt(shape[-1])
    return 0.0, 1.3 / math.sqrt(shape[-1])


def is_in_groups(spec, name):
    return spec["int4"] and ".layers." in name and name.endswith("_proj.weight")


def draw(spec, model, rng):
    tensors = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        mean, std = spread_of(name, value.shape)
        drawn = torch.from_numpy((mean + std * rng.standard_normal(tuple(value.shape))).astype(np.float32))
        if is_in_groups(spec, name):
            tensors[name] = relatives.in_groups(spec, name, drawn)
        else:
            tensors[name] = drawn.to(goldens.TORCH_DTYPES[spec["dtype"]])
    return tensors


def load(config, tensors):
    model = make_model(config)
    floats = {name: tensor.float() for name, tensor in tensors.items()}
    missing, unexpected = model.load_state_dict(floats, strict=False)
    if [name for name in missing if name != "lm_head.weight"] or unexpected:
        raise AssertionError(f"missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model


class Choices:
    """Whether no row of the model's last forward was near a tie between experts."""

    def __init__(self, config, model):
        self.n_chosen, self.smallest = config["top_k_experts"], math.inf
        model.register_forward_pre_hook(lambda module, args: setattr(self, "smallest", math.inf))
        for name, module in model.named_modules():
            if name.endswith("router.proj"):
                module.register_forward_hook(self.note)

    def note(self, router, args, logits):
        ordered = logits.sort(-1, descending=True).values
        gap = (ordered[:, self.n_chosen - 1] - ordered[:, self.n_chosen]).min().item()
        self.smallest = min(self.smallest, gap)

    def are_clear(self):
        return self.smallest > MIN_GAP


def draw_prompts(config, model, rng):
    if not config["enable_moe_block"]:
        return goldens.draw_prompts(model, config["vocab_size"], rng)
    choices, prompts = Choices(config, model), []
    for length in (1, 7, 20):
        prompt = None
        while prompt is None:
            ids = rng.randint(0, config["vocab_size"], size=length).tolist()
            prompt = goldens.golden_prompt(model, ids, N_MIXTURE_TOKENS, choices.are_clear)
        prompts.append(prompt)
    return prompts


def as_published(spec, tensors, rng):
    for name in [name for name in tensors if is_in_groups(spec, name)]:
        tensors = {**tensors, **relatives.pack_groups(spec, name, tensors[name])}
        del tensors[name]
    if not spec["inside"]:
        return tensors
    published = {"model.language_model." + name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    normal = goldens.normals(rng, goldens.TORCH_DTYPES[spec["dtype"]])
    for name in ("model.vision_tower.patch_embedder.input_proj", "model.embed_vision.embedding_projection",
                 "model.audio_tower.output_proj", "model.embed_audio.embedding_projection"):
        published[name + ".weight"] = normal((4, 4), 1.0)
    return published


def file_config(spec):
    config = dict(spec["config"])
    if spec["saved"]:
        config = transformers.Gemma4TextConfig.from_dict(json.loads(json.dumps(config))).to_dict()
        config = {key: value for key, value in config.items() if key in spec["config"] or key == "per_layer_config"}
    if not spec["inside"]:
        return {"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", **config,
                "torch_dtype": spec["dtype"]}
    return {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "dtype": spec["dtype"],
            "image_token_id": 150, "text_config": {**config, "model_type": "gemma4_text"},
            "tie_word_embeddings": True, "vision_config": {"model_type": "gemma4_vision"},
            "vocab_size": config["vocab_size"]}


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = spec["config"]
    tensors = draw(spec, make_model(config), rng)
    ids = goldens.draw_ids(config, rng)
    uncapped = load({**config, "final_logit_softcapping": None}, tensors)
    goldens.calibrate(uncapped, tensors, ids)
    goldens.write_weights(folder, as_published(spec, tensors, rng), 1)
    model = load(config, tensors)
    prompts = draw_prompts(config, model, rng)
    without = dict(spec["without"])
    zeros = without.pop("zeros", "(none)")
    kept = {name: tensor * 0 if name.endswith(zeros) else tensor for name, tensor in tensors.items()}
    dropped = load({**config, **without}, kept)
    quantization = None
    if spec["int4"]:
        quantization = {**formats.COMPRESSED, "ignore": ["lm_head", "re:.*vision.*", "re:.*audio.*", "re:.*embed.*"],
                        "config_groups": {"group_0": formats.group_of(["Linear"], group_size=spec["int4"])}}
    goldens.end_feature_case(spec, folder, file_config(spec), prompts, quantization, model, dropped, ids)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
