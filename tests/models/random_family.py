"""Small random models of the families with experts and latent attention, as tensors of floats by name.

Inputs of layers differ in size by up to 64 times, as with the norms of large models, so that scaling channels before
rounding reduces errors. Layers add small values to the residual, so that a small error stays small.
"""

import json
import math
import os
import random
import shutil
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = {"hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1024, "max_position_embeddings": 512,
          "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16", "tie_word_embeddings": True}
LATENT = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 24,
          "first_k_dense_replace": 1, "moe_intermediate_size": 32, "num_experts_per_tok": 2, "n_routed_experts": 4,
          "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.5}
FAMILIES = {
    "qwen2_moe": {"architectures": ["Qwen2MoeForCausalLM"], "num_experts": 5, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64, "decoder_sparse_step": 2},
    "qwen3_moe": {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 3, "head_dim": 32,
                  "moe_intermediate_size": 64, "num_key_value_heads": 2, "norm_topk_prob": True},
    "qwen3_next": {"architectures": ["Qwen3NextForCausalLM"], "num_experts": 4, "num_experts_per_tok": 3,
                   "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64, "num_key_value_heads": 2,
                   "head_dim": 32, "full_attention_interval": 2, "linear_num_key_heads": 2,
                   "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16},
    "mixtral": {"architectures": ["MixtralForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoeshared": {"architectures": ["GraniteMoeSharedForCausalLM"], "num_local_experts": 4,
                         "num_experts_per_tok": 2, "shared_intermediate_size": 64, "attention_multiplier": 0.25},
    "llama4_text": {"architectures": ["Llama4ForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 1,
                    "intermediate_size_mlp": 96, "interleave_moe_layer_step": 2, "no_rope_layers": [1, 0],
                    "attention_chunk_size": 32, "head_dim": 16},
    "glm4_moe": {"architectures": ["Glm4MoeForCausalLM"], "n_routed_experts": 6, "num_experts_per_tok": 2,
                 "n_shared_experts": 2, "moe_intermediate_size": 32, "n_group": 3, "topk_group": 2, "head_dim": 32,
                 "first_k_dense_replace": 1, "norm_topk_prob": True, "attention_bias": True},
    "ernie4_5_moe": {"architectures": ["Ernie4_5_MoeForCausalLM"], "moe_num_experts": 6, "moe_k": 2,
                     "moe_num_shared_experts": 2, "moe_intermediate_size": 32, "moe_layer_start_index": 1},
    "deepseek_v2": {"architectures": ["DeepseekV2ForCausalLM"], **LATENT, "q_lora_rank": None,
                    "topk_method": "greedy"},
    "deepseek_v3": {"architectures": ["DeepseekV3ForCausalLM"], **LATENT, "q_lora_rank": 32, "topk_method": "noaux_tc",
                    "scoring_func": "sigmoid", "norm_topk_prob": True},
}
NEVER_CHOSEN = 1  # an expert of the families whose routers have a correction; and the other expert of its group
RESIDUAL_SCALE = 0.2  # factor of the layers' outputs


def has_experts(config, layer):
    for first in ("first_k_dense_replace", "moe_layer_start_index"):
        if first in config:
            return layer >= config[first]
    step = config.get("decoder_sparse_step", config.get("interleave_moe_layer_step", 1))
    return (layer + 1) % step == 0


def n_experts(config):
    keys = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    return next(config[key] for key in keys if key in config)


class Model:
    """Random tensors of a family by name, [shape, values]; inputs of a layer differ in size."""

    def __init__(self, family):
        self.config, self.rng = {**COMMON, "model_type": family, **FAMILIES[family]}, random.Random(7)
        self.tensors = {}
        self.draw("model.embed_tokens.weight", 1024, 64, scale=1)
        self.draw("model.norm.weight", 64, scale=0.02, mean=0.2)
        for self.layer in range(2):
            self.norm("input_layernorm", 64)
            self.norm("post_attention_layernorm", 64)
            if "linear_num_key_heads" in self.config and self.layer == 0:
                self.delta_net()
            elif "kv_lora_rank" in self.config:
                self.latent_attention()
            else:
                self.attention()
            if has_experts(self.config, self.layer):
                self.experts()
            else:
                self.network("feed_forward" if family == "llama4_text" else "mlp", 96)

    def draw(self, name, *shape, scale=0.1, mean=0.0):
        self.tensors[name] = (list(shape), [mean + self.rng.gauss(0, scale) for _ in range(math.prod(shape))])

    def norm(self, name, n):
        offset = 1 if "linear_num_key_heads" in self.config else 0  # stored less 1
        values = [4 ** self.rng.uniform(-1.5, 1.5) - offset for _ in range(n)]
        self.tensors[f"model.layers.{self.layer}.{name}.weight"] = ([n], values)

    def linear(self, name, k, n, scale=1.0):
        self.draw(f"model.layers.{self.layer}.{name}.weight", n, k, scale=scale / math.sqrt(k))

    def network(self, name, size, parts=("gate_proj", "up_proj", "down_proj")):
        self.linear(f"{name}.{parts[0]}", 64, size)
        self.linear(f"{name}.{parts[1]}", 64, size)
        self.linear(f"{name}.{parts[2]}", size, 64, scale=RESIDUAL_SCALE)

    def attention(self):
        config = self.config
        head = config.get("head_dim", 16)
        q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
        is_hybrid = config["model_type"] == "qwen3_next"
        for name, n in (("q", 2 * q if is_hybrid else q), ("k", kv), ("v", kv)):
            self.linear(f"self_attn.{name}_proj", 64, n)
            if config["model_type"] == "qwen2_moe" or config.get("attention_bias"):
                self.draw(f"model.layers.{self.layer}.self_attn.{name}_proj.bias", n)
        self.linear("self_attn.o_proj", q, 64, scale=RESIDUAL_SCALE)
        if config["model_type"] in ("qwen3_moe", "qwen3_next"):
            self.norm("self_attn.q_norm", head)
            self.norm("self_attn.k_norm", head)

    def delta_net(self):
        name = f"model.layers.{self.layer}.linear_attn"
        self.linear("linear_attn.in_proj_qkvz", 64, 2 * 32 + 2 * 64)
        self.linear("linear_attn.in_proj_ba", 64, 8)
        self.draw(f"{name}.conv1d.weight", 2 * 32 + 64, 1, 4, scale=0.5)
        self.draw(f"{name}.A_log", 4, scale=1)
        self.draw(f"{name}.dt_bias", 4, scale=1)
        self.draw(f"{name}.norm.weight", 16, scale=0.05, mean=1)
        self.linear("linear_attn.out_proj", 64, 64, scale=RESIDUAL_SCALE)

    def latent_attention(self):
        config = self.config
        heads, q_rank, kv_rank = config["num_attention_heads"], config["q_lora_rank"], config["kv_lora_rank"]
        q = heads * (config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
        if q_rank:
            self.linear("self_attn.q_a_proj", 64, q_rank)
            self.norm("self_attn.q_a_layernorm", q_rank)
            self.linear("self_attn.q_b_proj", q_rank, q)
        else:
            self.linear("self_attn.q_proj", 64, q)
        self.linear("self_attn.kv_a_proj_with_mqa", 64, kv_rank + config["qk_rope_head_dim"])
        self.norm("self_attn.kv_a_layernorm", kv_rank)
        self.linear("self_attn.kv_b_proj", kv_rank, heads * (config["qk_nope_head_dim"] + config["v_head_dim"]))
        self.linear("self_attn.o_proj", heads * config["v_head_dim"], 64, scale=RESIDUAL_SCALE)

    def experts(self):
        config, n = self.config, n_experts(self.config)
        if config["model_type"] == "mixtral":
            self.linear("block_sparse_moe.gate", 64, n, scale=0.5)
            for expert in range(n):
                self.network(f"block_sparse_moe.experts.{expert}", 96, ("w1", "w3", "w2"))
            return
        if config["model_type"] == "llama4_text":
            experts = f"model.layers.{self.layer}.feed_forward.experts"
            self.linear("feed_forward.router", 64, n, scale=0.5)
            self.draw(f"{experts}.gate_up_proj", n, 64, 2 * 96, scale=1 / 8)
            self.draw(f"{experts}.down_proj", n, 96, 64, scale=RESIDUAL_SCALE / 10)
            self.network("feed_forward.shared_expert", 96)
            return
        if config["model_type"] == "granitemoeshared":
            layer = f"model.layers.{self.layer}"
            self.linear("block_sparse_moe.router.layer", 64, n, scale=0.5)
            self.draw(f"{layer}.block_sparse_moe.input_linear.weight", n, 2 * 96, 64, scale=1 / 8)
            self.draw(f"{layer}.block_sparse_moe.output_linear.weight", n, 64, 96, scale=RESIDUAL_SCALE / 10)
            self.linear("shared_mlp.input_linear", 64, 2 * 64)
            self.linear("shared_mlp.output_linear", 64, 64, scale=RESIDUAL_SCALE)
            return
        self.linear("mlp.gate", 64, n, scale=0.5)
        for expert in range(n):
            self.network(f"mlp.experts.{expert}", config["moe_intermediate_size"])
        if "shared_expert_intermediate_size" in config:
            self.network("mlp.shared_expert", config["shared_expert_intermediate_size"])
            self.linear("mlp.shared_expert_gate", 64, 1)
        n_shared = config.get("n_shared_experts") or config.get("moe_num_shared_experts")
        if n_shared:
            self.network("mlp.shared_experts", n_shared * config["moe_intermediate_size"])
        if config["model_type"] in ("glm4_moe", "deepseek_v3", "ernie4_5_moe"):
            correction = [-9.0 if expert == NEVER_CHOSEN else 0.0 for expert in range(n)]
            is_ernie = config["model_type"] == "ernie4_5_moe"
            name = f"model.layers.{self.layer}.mlp.{'moe_statics' if is_ernie else 'gate'}.e_score_correction_bias"
            self.tensors[name] = ([1, n] if is_ernie else [n], correction)


def write_model(folder, config, tensors):
    """A directory with the demo model's tokenizer and these values as float16."""
    os.makedirs(folder)
    shutil.copy(os.path.join(HERE, "demo-fp16", "tokenizer.json"), folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}e", *values)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return folder
