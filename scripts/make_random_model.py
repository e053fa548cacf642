#!/usr/bin/env python3
"""Writes a Hugging Face checkpoint of a named real model's shape with random weights, for speed measurements.

  scripts/make_random_model.py --preset qwen3-8b --out /tmp/qwen3-8b-random
  scripts/make_random_model.py --preset qwen3-32b --layers 4 --group-size 64 --out /tmp/four-layers
  scripts/make_random_model.py --preset qwen3-8b --format w8a8 --out /tmp/w8a8

Formats: awq (gemm; 4 bits, uniform over 0..15, zero points 6..9), gptq (4 bits, version 1), gptq-act-order (desc_act),
gptq8, ct4 and ct8 (compressed-tensors, packed and symmetric), w8a8 (compressed-tensors, inputs quantised per token),
fp8 (blocks of 128 x 128), fp8-channel (compressed-tensors), plain (16 bits), mxfp4 (gpt-oss only). Embedding, norms,
lm_head and routers of experts have 16 bits in every format. Weights are drawn so that every layer adds about as much as
the previous layer (activations grow as the square root of the depth, well inside float16) and so that the best token's
probability is neither near 1 nor near the others'. There is no tokenizer, and the model
runs on token ids, unless --tokenizer names a model, whose tokenizer and vocabulary size are then used.

Every piece of a tensor has its own generator, seeded by --seed and the tensor's name. The bytes depend on the arguments
alone, not on the machine or the number of threads, and a model of fewer layers has the same first layers. Needs numpy
only.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import shutil
import time
import zlib

import numpy as np

from random_model_formats import DTYPE_BYTES, FORMATS, Settings, Tensor, draw_normal, mxfp4_experts
from random_model_presets import PRESETS, has_experts, has_own_kv, is_delta_net, n_experts

LOGIT_STD = 2.5
CHUNK = 1 << 22  # elements that one task draws
STEP_BIAS = (-4.6, 1.2)  # of recurrent layers: time steps of 0.001 to 0.1, with which models begin their training
MORE_NORMS = {"gemma3_text": ("pre_feedforward_layernorm", "post_feedforward_layernorm"),
              "gemma4_text": ("pre_feedforward_layernorm", "post_feedforward_layernorm"),
              "glm4": ("post_self_attn_layernorm", "post_mlp_layernorm")}


def tensor_bytes(tensor):
    return math.prod(tensor.shape) * DTYPE_BYTES[tensor.dtype]


class ModelTensors:
    """The tensors of one model, gathered in the order of use."""

    def __init__(self, config, linear_tensors, settings):
        self.config, self.linear_tensors, self.settings = config, linear_tensors, settings
        self.hidden = config["hidden_size"]
        self.tensors = []

    def normal(self, name, shape, mean, std):
        dtype = self.settings.dtype
        self.tensors.append(Tensor(f"{name}.weight", dtype, shape, draw_normal(mean, std, dtype)))

    def norm(self, name, n):
        """Models with gated delta nets, and Gemma, store weights less 1."""
        less_1 = "linear_num_key_heads" in self.config or self.config["model_type"] == "gemma3_text"
        self.normal(name, (n,), 0.0 if less_1 else 1.0, 0.05)

    def linear(self, name, k, n, has_bias=False):
        self.tensors += self.linear_tensors(name, k, n, self.settings)
        if has_bias:
            dtype = self.settings.dtype
            self.tensors.append(Tensor(f"{name}.bias", dtype, (n,), draw_normal(0.0, 0.1, dtype)))

    def attention(self, layer):
        config, hidden, heads = self.config, self.hidden, self.config["num_attention_heads"]
        head = config.get("head_dim", hidden // heads)
        q, kv = heads * head, config["num_key_value_heads"] * head
        has_bias = config.get("attention_bias", config["model_type"].startswith("qwen2"))
        has_gates = "linear_num_key_heads" in config
        if config["model_type"] == "phi3":
            self.linear(f"{layer}.qkv_proj", hidden, q + 2 * kv)
            self.linear(f"{layer}.o_proj", q, hidden)
            return
        self.linear(f"{layer}.q_proj", hidden, 2 * q if has_gates else q, has_bias)
        self.linear(f"{layer}.k_proj", hidden, kv, has_bias)
        self.linear(f"{layer}.v_proj", hidden, kv, has_bias)
        is_hunyuan = config["model_type"].startswith("hunyuan")
        if is_hunyuan:
            self.norm(f"{layer}.query_layernorm", head)
            self.norm(f"{layer}.key_layernorm", head)
        elif config["model_type"] != "llama4_text" and config.get(
                "use_qk_norm", config["model_type"].startswith(("qwen3", "gemma3"))):
            is_of_rows = config["model_type"] == "minimax_m2"
            self.norm(f"{layer}.q_norm", q if is_of_rows else head)
            self.norm(f"{layer}.k_norm", kv if is_of_rows else head)
        is_gpt_oss = config["model_type"] == "gpt_oss"
        self.linear(f"{layer}.o_proj", q, hidden, is_gpt_oss)
        if is_gpt_oss:
            dtype = self.settings.dtype
            self.tensors.append(Tensor(f"{layer}.sinks", dtype, (heads,), draw_normal(0.0, 1.0, dtype)))

    def gemma4_attention(self, layer, index):
        """Widths by the kind of the layer; the last layers read the keys and values of earlier layers."""
        config, hidden, heads = self.config, self.hidden, self.config["num_attention_heads"]
        is_global = (index + 1) % 6 == 0
        if "layer_types" in config:
            is_global = config["layer_types"][index] == "full_attention"
        is_global = is_global or index + 1 == config["num_hidden_layers"]
        has_own = has_own_kv(config, index)
        head = config["global_head_dim"] if is_global else config["head_dim"]
        keys_alone = is_global and config["attention_k_eq_v"]
        kv = config["num_global_key_value_heads" if keys_alone else "num_key_value_heads"] * head
        self.linear(f"{layer}.q_proj", hidden, heads * head)
        self.norm(f"{layer}.q_norm", head)
        if has_own:
            self.linear(f"{layer}.k_proj", hidden, kv)
            self.norm(f"{layer}.k_norm", head)
        if has_own and not keys_alone:
            self.linear(f"{layer}.v_proj", hidden, kv)
        self.linear(f"{layer}.o_proj", heads * head, hidden)

    def gemma4_rest(self, layer):
        """The layer's factor, its experts in parallel with the FFN, and the part that adds its embeddings."""
        config, hidden, dtype = self.config, self.hidden, self.settings.dtype
        self.tensors.append(Tensor(f"{layer}.layer_scalar", dtype, (1,), draw_normal(0.8, 0.1, dtype)))
        if config.get("enable_moe_block"):
            self.normal(f"{layer}.router.proj", (config["num_experts"], hidden), 0.0, 1.0)
            for name, n in (("scale", hidden), ("per_expert_scale", config["num_experts"])):
                self.tensors.append(Tensor(f"{layer}.router.{name}", dtype, (n,), draw_normal(1.0, 0.1, dtype)))
            for i in range(config["num_experts"]):
                self.ffn(f"{layer}.experts.{i}", config["moe_intermediate_size"])
            for name in ("post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"):
                self.norm(f"{layer}.{name}", hidden)
        if config["hidden_size_per_layer_input"]:
            self.linear(f"{layer}.per_layer_input_gate", hidden, config["hidden_size_per_layer_input"])
            self.linear(f"{layer}.per_layer_projection", config["hidden_size_per_layer_input"], hidden)
            self.norm(f"{layer}.post_per_layer_input_norm", hidden)

    def gemma4_layer_inputs(self):
        n = self.config["num_hidden_layers"] * self.config["hidden_size_per_layer_input"]
        if n:
            self.normal("model.embed_tokens_per_layer", (self.config["vocab_size"], n), 0.0, 0.1)
            self.normal("model.per_layer_model_projection", (n, self.hidden), 0.0, 1.0 / math.sqrt(self.hidden))
            self.norm("model.per_layer_projection_norm", self.config["hidden_size_per_layer_input"])

    def delta_net(self, layer):
        config, hidden, n_values = self.config, self.hidden, self.config["linear_num_value_heads"]
        keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
        values = n_values * config["linear_value_head_dim"]
        if config["model_type"] == "qwen3_next":
            self.linear(f"{layer}.in_proj_qkvz", hidden, 2 * keys + 2 * values)
            self.linear(f"{layer}.in_proj_ba", hidden, 2 * n_values)
        else:
            self.linear(f"{layer}.in_proj_qkv", hidden, 2 * keys + values)
            self.linear(f"{layer}.in_proj_z", hidden, values)
            self.linear(f"{layer}.in_proj_b", hidden, n_values)
            self.linear(f"{layer}.in_proj_a", hidden, n_values)
        self.normal(f"{layer}.conv1d", (2 * keys + values, 1, config["linear_conv_kernel_dim"]), 0.0, 0.5)
        self.tensors.append(Tensor(f"{layer}.A_log", "F32", (n_values,), draw_normal(0.0, 1.0, "F32")))
        self.tensors.append(Tensor(f"{layer}.dt_bias", "F32", (n_values,), draw_normal(*STEP_BIAS, "F32")))
        self.normal(f"{layer}.norm", (config["linear_value_head_dim"],), 1.0, 0.05)
        self.linear(f"{layer}.out_proj", values, hidden)

    def mamba(self, layer):
        """Nemotron-H and Granite have other keys for the same sizes."""
        keys = ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")
        if "mamba_n_heads" in self.config:
            keys = ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
        heads, head, groups, states, taps = (self.config[key] for key in keys)
        width = heads * head
        channels = width + 2 * groups * states
        self.linear(f"{layer}.in_proj", self.hidden, width + channels + heads)
        self.normal(f"{layer}.conv1d", (channels, 1, taps), 0.0, 0.5)
        vectors = (("conv1d.bias", channels, 0.0, 0.1, self.settings.dtype), ("A_log", heads, 0.0, 1.0, "F32"),
                   ("dt_bias", heads, *STEP_BIAS, "F32"), ("D", heads, 1.0, 0.1, "F32"))
        for name, n, mean, std, dtype in vectors:
            self.tensors.append(Tensor(f"{layer}.{name}", dtype, (n,), draw_normal(mean, std, dtype)))
        self.norm(f"{layer}.norm", width)
        self.linear(f"{layer}.out_proj", width, self.hidden)

    def block(self, layer, kind):
        """A block of Nemotron-H, which is one sublayer."""
        config, networks = self.config, []
        self.norm(f"{layer}.norm", self.hidden)
        if kind == "M":
            self.mamba(f"{layer}.mixer")
        elif kind == "*":
            self.attention(f"{layer}.mixer")
        elif kind == "-":
            networks = [("", config["intermediate_size"])]
        else:
            self.router(f"{layer}.mixer.gate", n_experts(config))
            self.tensors.append(Tensor(f"{layer}.mixer.gate.e_score_correction_bias", "F32", (n_experts(config),),
                                       draw_normal(0.0, 0.05, "F32")))
            networks = [(f".experts.{i}", config["moe_intermediate_size"]) for i in range(n_experts(config))]
            networks.append((".shared_experts", config["moe_shared_expert_intermediate_size"]))
        latent = config.get("moe_latent_size")
        if latent and kind == "E":
            self.linear(f"{layer}.mixer.fc1_latent_proj", self.hidden, latent)
            self.linear(f"{layer}.mixer.fc2_latent_proj", latent, self.hidden)
        for name, size in networks:
            width = latent if latent and name.startswith(".experts") else self.hidden
            self.linear(f"{layer}.mixer{name}.up_proj", width, size)
            self.linear(f"{layer}.mixer{name}.down_proj", size, width)

    def nemotron(self):
        head_std = LOGIT_STD / math.sqrt(self.hidden)
        self.normal("backbone.embeddings", (self.config["vocab_size"], self.hidden), 0.0, head_std)
        for i, kind in enumerate(self.config["hybrid_override_pattern"]):
            self.block(f"backbone.layers.{i}", kind)
        self.norm("backbone.norm_f", self.hidden)
        self.normal("lm_head", (self.config["vocab_size"], self.hidden), 0.0, head_std)
        return self.tensors

    def latent_attention(self, layer):
        config, hidden, heads = self.config, self.hidden, self.config["num_attention_heads"]
        nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
        latent = config["kv_lora_rank"]
        if config["q_lora_rank"]:
            self.linear(f"{layer}.q_a_proj", hidden, config["q_lora_rank"])
            self.norm(f"{layer}.q_a_layernorm", config["q_lora_rank"])
            self.linear(f"{layer}.q_b_proj", config["q_lora_rank"], heads * (nope + rope))
        else:
            self.linear(f"{layer}.q_proj", hidden, heads * (nope + rope))
        self.linear(f"{layer}.kv_a_proj_with_mqa", hidden, latent + rope)
        self.norm(f"{layer}.kv_a_layernorm", latent)
        self.linear(f"{layer}.kv_b_proj", latent, heads * (nope + value))
        self.linear(f"{layer}.o_proj", heads * value, hidden)

    def ffn(self, name, size, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = names
        if self.config["model_type"] in ("phi3", "glm4"):
            self.linear(f"{name}.gate_up_proj", self.hidden, 2 * size)
        else:
            self.linear(f"{name}.{gate}", self.hidden, size)
            self.linear(f"{name}.{up}", self.hidden, size)
        self.linear(f"{name}.{down}", size, self.hidden)

    def router(self, name, n):
        """Its logits for normed activations have standard deviation 1."""
        self.normal(name, (n, self.hidden), 0.0, 1 / math.sqrt(self.hidden))

    def experts(self, name):
        """A router, separate experts, and shared experts."""
        config = self.config
        size = config["moe_intermediate_size"]
        is_hunyuan = config["model_type"] == "hunyuan_v1_moe"
        self.router(f"{name}.gate.wg" if is_hunyuan else f"{name}.gate", n_experts(config))
        if is_hunyuan:
            self.ffn(f"{name}.shared_mlp", config["intermediate_size"])
        is_ernie = config["model_type"] == "ernie4_5_moe"
        if config.get("topk_method") == "noaux_tc" or config["model_type"] == "glm4_moe" or is_ernie:
            correction, shape = f"{name}.gate.e_score_correction_bias", (n_experts(config),)
            if is_ernie:
                correction, shape = f"{name}.moe_statics.e_score_correction_bias", (1, n_experts(config))
            self.tensors.append(Tensor(correction, "F32", shape, draw_normal(0.0, 0.05, "F32")))
        for i in range(n_experts(config)):
            self.ffn(f"{name}.experts.{i}", size)
        n_shared = config.get("n_shared_experts") or config.get("moe_num_shared_experts")
        if n_shared:
            self.ffn(f"{name}.shared_experts", n_shared * size)
        if config.get("shared_expert_intermediate_size"):
            self.ffn(f"{name}.shared_expert", config["shared_expert_intermediate_size"])
            self.router(f"{name}.shared_expert_gate", 1)

    def mixtral_experts(self, name):
        """Mixtral's, and Granite's one by one as quantisers write them."""
        is_granite = self.config["model_type"].startswith("granitemoe")
        self.router(f"{name}.router.layer" if is_granite else f"{name}.gate", n_experts(self.config))
        if self.config["model_type"] == "minimax_m2":
            self.tensors.append(Tensor(f"{name}.e_score_correction_bias", "F32", (n_experts(self.config),),
                                       draw_normal(0.0, 0.05, "F32")))
        for i in range(n_experts(self.config)):
            self.ffn(f"{name}.experts.{i}", self.config["intermediate_size"], ("w1", "w3", "w2"))

    def granite_hybrid_ffn(self, layer):
        size = self.config["shared_intermediate_size"]
        self.mixtral_experts(f"{layer}.block_sparse_moe")
        self.linear(f"{layer}.shared_mlp.input_linear", self.hidden, 2 * size)
        self.linear(f"{layer}.shared_mlp.output_linear", size, self.hidden)

    def llama4_ffn(self, name, layer):
        config, size = self.config, self.config["intermediate_size"]
        if (layer + 1) % config["interleave_moe_layer_step"] != 0:
            self.ffn(name, config["intermediate_size_mlp"])
            return
        self.router(f"{name}.router", n_experts(config))
        for i in range(n_experts(config)):
            self.ffn(f"{name}.experts.{i}", size)
        self.ffn(f"{name}.shared_expert", size)

    def gpt_oss_experts(self, name):
        n, size, dtype = n_experts(self.config), self.config["intermediate_size"], self.settings.dtype
        self.router(f"{name}.router", n)
        self.tensors.append(Tensor(f"{name}.router.bias", dtype, (n,), draw_normal(0.0, 0.1, dtype)))
        for part, inputs, rows in (("gate_up", self.hidden, 2 * size), ("down", size, self.hidden)):
            self.tensors += mxfp4_experts(f"{name}.experts.{part}_proj", n, inputs, rows)
            self.tensors.append(Tensor(f"{name}.experts.{part}_proj_bias", dtype, (n, rows),
                                       draw_normal(0.0, 0.1, dtype)))

    def model(self):
        config, hidden, vocab = self.config, self.hidden, self.config["vocab_size"]
        if "hybrid_override_pattern" in config:
            return self.nemotron()
        head_std = LOGIT_STD / math.sqrt(hidden)  # also of a tied embedding; the first layer's norm compensates
        self.normal("model.embed_tokens", (vocab, hidden), 0.0, head_std)
        if config["model_type"] == "gemma4_text":
            self.gemma4_layer_inputs()
        for i in range(config["num_hidden_layers"]):
            layer = f"model.layers.{i}"
            self.norm(f"{layer}.input_layernorm", hidden)
            if is_delta_net(config, i):
                self.delta_net(f"{layer}.linear_attn")
            elif config["model_type"] == "gemma4_text":
                self.gemma4_attention(f"{layer}.self_attn", i)
            elif "kv_lora_rank" in config:
                self.latent_attention(f"{layer}.self_attn")
            elif config.get("layer_types", [""] * (i + 1))[i] == "mamba":
                self.mamba(f"{layer}.mamba")
            else:
                self.attention(f"{layer}.self_attn")
            self.norm(f"{layer}.post_attention_layernorm", hidden)
            for name in MORE_NORMS.get(config["model_type"], ()):
                self.norm(f"{layer}.{name}", hidden)
            if config["model_type"] == "gemma4_text":
                self.gemma4_rest(layer)
            if config["model_type"] in ("mixtral", "granitemoe", "minimax_m2"):
                self.mixtral_experts(f"{layer}.block_sparse_moe")
            elif config["model_type"] == "granitemoehybrid":
                self.granite_hybrid_ffn(layer)
            elif config["model_type"] == "llama4_text":
                self.llama4_ffn(f"{layer}.feed_forward", i)
            elif config["model_type"] == "gpt_oss":
                self.gpt_oss_experts(f"{layer}.mlp")
            elif has_experts(config, i) and config["model_type"] != "gemma4_text":
                self.experts(f"{layer}.mlp")
            else:
                is_wide = config.get("use_double_wide_mlp") and not has_own_kv(config, i)
                self.ffn(f"{layer}.mlp", (2 if is_wide else 1) * config["intermediate_size"])
        self.norm("model.norm", hidden)
        if not config["tie_word_embeddings"]:
            self.normal("lm_head", (vocab, hidden), 0.0, head_std)
        return self.tensors


def split_files(tensors, file_bytes):
    """Consecutive lists of tensors of at most file_bytes each (one tensor at least)."""
    files, used = [[]], 0
    for tensor in tensors:
        if files[-1] and used + tensor_bytes(tensor) > file_bytes:
            files.append([])
            used = 0
        files[-1].append(tensor)
        used += tensor_bytes(tensor)
    return files


def safetensors_header(tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        end = offset + tensor_bytes(tensor)
        header[tensor.name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # aligns the data
    return len(text).to_bytes(8, "little") + text


def write_file(path, tensors, seed, pool, n_threads):
    """Writes one safetensors file. The pool draws pieces of tensors ahead; they are written in order."""
    def draw(tensor, begin):
        rng = np.random.Generator(np.random.SFC64([seed, zlib.crc32(tensor.name.encode()), begin]))
        return tensor.draw(rng, min(CHUNK, math.prod(tensor.shape) - begin))

    pieces = ((tensor, begin) for tensor in tensors for begin in range(0, math.prod(tensor.shape), CHUNK))
    ahead = collections.deque()
    with open(path, "wb") as file:
        file.write(safetensors_header(tensors))
        for piece in pieces:
            ahead.append(pool.submit(draw, *piece))
            if len(ahead) > 2 * n_threads:
                file.write(ahead.popleft().result().data)
        for rest in ahead:
            file.write(rest.result().data)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def write_model(config, tensors, args):
    os.makedirs(args.out, exist_ok=True)
    write_json(os.path.join(args.out, "config.json"), config)
    write_json(os.path.join(args.out, "generation_config.json"),
               {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"], "do_sample": False})
    for old in os.listdir(args.out):  # an index or shards of an earlier run would shadow the new ones
        if old.startswith("model") and old.endswith((".safetensors", ".safetensors.index.json")):
            os.remove(os.path.join(args.out, old))
    files = split_files(tensors, int(args.file_gb * 1e9))
    names = [f"model-{i + 1:05d}-of-{len(files):05d}.safetensors" for i in range(len(files))]
    if len(files) == 1:
        names = ["model.safetensors"]
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        for name, part in zip(names, files):
            write_file(os.path.join(args.out, name), part, args.seed, pool, args.threads)
    if len(files) > 1:
        weight_map = {tensor.name: name for name, part in zip(names, files) for tensor in part}
        write_json(os.path.join(args.out, "model.safetensors.index.json"),
                   {"metadata": {"total_size": sum(map(tensor_bytes, tensors))}, "weight_map": weight_map})
    return len(files)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", required=True, choices=sorted(PRESETS), help="whose shape")
    parser.add_argument("--out", required=True, help="directory to write; an earlier model there is replaced")
    parser.add_argument("--layers", type=int, help="number of layers instead of the real one")
    parser.add_argument("--config", metavar="JSON", type=json.loads, default={},
                        help="object whose keys replace the preset's, for smaller models of the same kind")
    parser.add_argument("--format", choices=list(FORMATS),
                        help="of the projections (default: awq; mxfp4 of gpt-oss)")
    parser.add_argument("--group-size", type=int, default=128,
                        help="of formats with groups, -1 for all of K (default: 128)")
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16",
                        help="type of scales and plain weights (default: f16)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--tokenizer", metavar="DIR", help="a model whose tokenizer and vocabulary size are taken")
    parser.add_argument("--file-gb", type=float, default=4.0, help="largest file in 10^9 bytes (default: 4)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: one a processor")
    args = parser.parse_args()
    if args.layers is not None and args.layers < 1:
        parser.error("--layers must be at least 1")
    if args.group_size != -1 and args.group_size < 1:
        parser.error("--group-size must be positive, or -1")
    if args.seed < 0 or args.threads < 1 or args.file_gb <= 0:
        parser.error("--seed must not be negative; --threads and --file-gb must be positive")
    is_gpt_oss = PRESETS[args.preset]["model_type"] == "gpt_oss"
    args.format = args.format or ("mxfp4" if is_gpt_oss else "awq")
    if (args.format == "mxfp4") != is_gpt_oss:
        parser.error("--format mxfp4 is the one format of gpt-oss, and of no other model")
    return args


def take_tokenizer(config, folder, out):
    """Copies a model's tokenizer. The vocabulary's size and special ids become those of that model."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        other = json.load(file)
    config.update({key: other[key] for key in ("vocab_size", "bos_token_id", "eos_token_id")})
    os.makedirs(out, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(folder, name), os.path.join(out, name))


def main():
    args = parse_arguments()
    config = {**PRESETS[args.preset], **args.config}
    if args.tokenizer:
        take_tokenizer(config, args.tokenizer, args.out)
    if args.layers:
        if config.get("num_kv_shared_layers"):
            n_own = config["num_hidden_layers"] - config["num_kv_shared_layers"]
            config["num_kv_shared_layers"] = max(0, args.layers - n_own)
        config["num_hidden_layers"] = args.layers
        if "max_window_layers" in config:
            config["max_window_layers"] = args.layers
        for key in {"hybrid_override_pattern", "layer_types"} & config.keys():
            config[key] = config[key][:args.layers]
    config["torch_dtype"] = {"f16": "float16", "bf16": "bfloat16"}[args.dtype]
    settings = Settings(args.group_size, args.dtype.upper())
    linear_tensors, quantization = FORMATS[args.format]
    if quantization:
        config["quantization_config"] = quantization(settings)
    tensors = ModelTensors(config, linear_tensors, settings).model()
    begin = time.monotonic()
    n_files = write_model(config, tensors, args)
    total = sum(map(tensor_bytes, tensors))
    print(f"{args.out}: {args.preset}, {args.format}, {config['num_hidden_layers']} layers, {total / 1e9:.2f} GB in "
          f"{n_files} file(s), {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
