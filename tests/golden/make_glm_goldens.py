#!/usr/bin/env python3
"""Makes tiny random checkpoints of the ChatGLM2 family and of GLM-4, and goldens of public definitions.

Each case becomes families/NAME/, as make_family_goldens.py describes it. GLM-4's reference is the class of the public
`transformers`. ChatGLM2 and ChatGLM3 are not in it: the model below follows modeling_chatglm.py, which is published
with their weights (huggingface.co/THUDM/chatglm3-6b), and must give the results of transformers' GLM for the same
weights under its own names, which are those of transformers' conversion of GLM-4 (convert_glm_weights_to_hf.py).
"""

import math
import os
import sys
import types

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402

families.ARCHITECTURES["glm"] = "GlmForCausalLM"


def case(name, about, group, dtype, without, **config):
    """group: of AWQ gemm words, None: plain. without: changes of config.json that drop the feature of the case."""
    return {"name": name, "about": about, "group": group, "dtype": dtype, "without": without, "files": 1,
            "config": config}


CHATGLM = {"architectures": ["ChatGLMModel"], "model_type": "chatglm", "add_bias_linear": False, "add_qkv_bias": True,
           "apply_query_key_layer_scaling": True, "apply_residual_connection_post_layernorm": False,
           "ffn_hidden_size": 96, "fp32_residual_connection": False, "hidden_size": 64, "kv_channels": 16,
           "layernorm_epsilon": 1e-5, "multi_query_attention": True, "multi_query_group_num": 2,
           "num_attention_heads": 4, "num_layers": 2, "original_rope": True, "padded_vocab_size": 200,
           "post_layer_norm": True, "quantization_bit": 0, "pre_seq_len": None, "rmsnorm": True, "seq_length": 256,
           "tie_word_embeddings": False}
GLM = {"architectures": ["GlmForCausalLM"], "model_type": "glm", "attention_bias": True, "head_dim": 16,
       "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 256,
       "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "partial_rotary_factor": 0.5,
       "pad_token_id": 0, "rms_norm_eps": 1.5625e-7, "rope_theta": 10000.0, "tie_word_embeddings": False,
       "vocab_size": 200}

CASES = [
    case("chatglm2", "ChatGLM2: fused q, k, v with bias, fused gate and up, half of each head rotates as neighbours",
         None, "float16", {"kv_rotation": "all"}, **CHATGLM),
    case("chatglm3_awq", "ChatGLM3, AWQ: rope_ratio, every bias; heads of 20 begin inside words, up at output 100",
         -1, "bfloat16", {"rope_ratio": 1}, **{
             **CHATGLM, "rope_ratio": 8, "num_attention_heads": 6, "kv_channels": 20, "multi_query_group_num": 3,
             "add_bias_linear": True, "ffn_hidden_size": 100, "padded_vocab_size": 203}),
    case("glm", "GLM-4 as transformers names it, AWQ: fused gate and up, a quarter of each head rotates", 32, "float16",
         {"partial_rotary_factor": 1.0}, **{**GLM, "head_dim": 24, "partial_rotary_factor": 0.25}),
]


def modules_of(config):
    """(name within a layer, K, N, has bias, gain) of the linear layers of a checkpoint."""
    if config["model_type"] == "glm":
        hidden, ffn, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
        q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
        return [("self_attn.q_proj", hidden, q, True, 1.3), ("self_attn.k_proj", hidden, kv, True, 1.3),
                ("self_attn.v_proj", hidden, kv, True, 1.4), ("self_attn.o_proj", q, hidden, False, 2.2),
                ("mlp.gate_up_proj", hidden, 2 * ffn, False, 1.2), ("mlp.down_proj", ffn, hidden, False, 2.0)]
    hidden, ffn, bias = config["hidden_size"], config["ffn_hidden_size"], config["add_bias_linear"]
    q = config["num_attention_heads"] * config["kv_channels"]
    kv = config["multi_query_group_num"] * config["kv_channels"]
    return [("self_attention.query_key_value", hidden, q + 2 * kv, bias or config["add_qkv_bias"], 1.3),
            ("self_attention.dense", q, hidden, bias, 2.2), ("mlp.dense_h_to_4h", hidden, 2 * ffn, bias, 1.2),
            ("mlp.dense_4h_to_h", ffn, hidden, bias, 2.0)]


NAMES = {"glm": ("model.layers.", "model.embed_tokens", "model.norm", "lm_head"),
         "chatglm": ("transformer.encoder.layers.", "transformer.embedding.word_embeddings",
                     "transformer.encoder.final_layernorm", "transformer.output_layer")}


def draw(spec, config, rng):
    """All tensors of the checkpoint, by name, in the form of the file."""
    dtype = goldens.TORCH_DTYPES[spec["dtype"]]
    prefix, embedding, norm, head = NAMES[config["model_type"]]
    hidden, vocab = config["hidden_size"], config.get("padded_vocab_size") or config["vocab_size"]
    normal = goldens.normals(rng, dtype)
    tensors = {embedding + ".weight": normal((vocab, hidden), 1.0), norm + ".weight": normal((hidden,), 0.15, 1.0),
               head + ".weight": normal((vocab, hidden), 1.0 / math.sqrt(hidden))}
    if config["model_type"] == "chatglm":  # in files, but unused
        tensors["transformer.rotary_pos_emb.inv_freq"] = torch.ones(config["kv_channels"] // 4).to(dtype)
    for layer in range(config.get("num_layers") or config["num_hidden_layers"]):
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{layer}.{name}.weight"] = normal((hidden,), 0.2, 1.0)
        for name, k, n, bias, gain in modules_of(config):
            module = f"{prefix}{layer}.{name}"
            if spec["group"] is None:
                tensors[module + ".weight"] = normal((n, k), gain / math.sqrt(k))
            else:
                for key, value in families.draw_awq(rng, k, n, spec["group"], gain, dtype).items():
                    tensors[f"{module}.{key}"] = value
            if bias:
                tensors[module + ".bias"] = normal((n,), 0.3)
    return tensors


class ChatGLM:
    """modeling_chatglm.py: ChatGLMForConditionalGeneration without cache, dropout or prefix."""

    def __init__(self, config, state):
        self.config, self.state = config, state

    def double(self):
        return ChatGLM(self.config, {name: tensor.double() for name, tensor in self.state.items()})

    def float(self):
        return self

    def linear(self, name, x):
        return F.linear(x, self.state[name + ".weight"], self.state.get(name + ".bias"))

    def norm(self, name, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config["layernorm_epsilon"])
        return x * self.state[name + ".weight"]

    def rotation(self, n, dtype):
        """RotaryEmbedding.forward_impl: (cos, sin) [tokens, 1, rotated pairs]; half of the head's elements rotate."""
        elements = self.config["kv_channels"] // (1 if self.config.get("kv_rotation") == "all" else 2)
        base = 10000 * self.config.get("rope_ratio", 1)
        theta = 1.0 / (base ** (torch.arange(0, elements, 2, dtype=torch.float) / elements))
        angles = torch.outer(torch.arange(n, dtype=torch.float), theta).float()
        return torch.cos(angles)[:, None].to(dtype), torch.sin(angles)[:, None].to(dtype)

    @staticmethod
    def rotate(x, cos, sin):
        """apply_rotary_pos_emb: neighbours are a pair; elements after the rotated ones are unchanged."""
        rotated, rest = x[..., :2 * cos.shape[-1]], x[..., 2 * cos.shape[-1]:]
        a, b = rotated[..., 0::2], rotated[..., 1::2]
        return torch.cat((torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2), rest), -1)

    def attention(self, name, x):
        c, n = self.config, x.shape[0]
        heads, groups, d = c["num_attention_heads"], c["multi_query_group_num"], c["kv_channels"]
        fused = self.linear(name + "query_key_value", x)
        q, k, v = fused.split([heads * d, groups * d, groups * d], dim=-1)
        cos, sin = self.rotation(n, x.dtype)
        q, k = self.rotate(q.view(n, heads, d), cos, sin), self.rotate(k.view(n, groups, d), cos, sin)
        k = k.repeat_interleave(heads // groups, 1)
        v = v.reshape(n, groups, d).repeat_interleave(heads // groups, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(d)
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        attended = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)
        return self.linear(name + "dense", attended.reshape(n, heads * d))

    def __call__(self, input_ids, use_cache):
        prefix, embedding, norm, head = NAMES["chatglm"]
        x = self.state[embedding + ".weight"][input_ids[0]]
        for layer in range(self.config["num_layers"]):
            name = f"{prefix}{layer}."
            x = x + self.attention(name + "self_attention.", self.norm(name + "input_layernorm", x))
            gate, up = self.linear(name + "mlp.dense_h_to_4h",
                                   self.norm(name + "post_attention_layernorm", x)).chunk(2, -1)
            x = x + self.linear(name + "mlp.dense_4h_to_h", F.silu(gate) * up)
        return types.SimpleNamespace(logits=self.linear(head, self.norm(norm, x))[None])


def as_glm(config, state):
    """The same model under transformers' names; it has no biases except those of q, k and v."""
    q = config["num_attention_heads"] * config["kv_channels"]
    kv = config["multi_query_group_num"] * config["kv_channels"]
    renamed = {"self_attention.dense": "self_attn.o_proj", "mlp.dense_h_to_4h": "mlp.gate_up_proj",
               "mlp.dense_4h_to_h": "mlp.down_proj", **dict(zip(NAMES["chatglm"], NAMES["glm"]))}
    glm = {}
    for name, tensor in state.items():
        if name.endswith("inv_freq"):
            continue
        for old, new in renamed.items():
            name = name.replace(old, new)
        if "query_key_value" in name:
            for part, rows in zip(("q", "k", "v"), tensor.split([q, kv, kv])):
                glm[name.replace("self_attention.query_key_value", f"self_attn.{part}_proj")] = rows.clone()
        else:
            glm[name] = tensor
    plain = {**GLM, "head_dim": config["kv_channels"], "hidden_size": config["hidden_size"],
             "intermediate_size": config["ffn_hidden_size"], "num_hidden_layers": config["num_layers"],
             "num_attention_heads": config["num_attention_heads"], "rms_norm_eps": config["layernorm_epsilon"],
             "num_key_value_heads": config["multi_query_group_num"], "vocab_size": config["padded_vocab_size"],
             "rope_theta": 10000.0 * config.get("rope_ratio", 1)}
    return families.reference_model(plain, glm)


def reference(config, tensors):
    if config["model_type"] == "glm":
        return families.reference_model(config, tensors)
    return ChatGLM(config, families.dense_weights(tensors))


def check_against_glm(config, tensors, ids):
    """Without the biases that transformers' GLM lacks."""
    state = {name: tensor for name, tensor in families.dense_weights(tensors).items()
             if not name.endswith(".bias") or "query_key_value" in name}
    ours = goldens.logits_of(ChatGLM(config, state), ids)
    theirs = goldens.logits_of(as_glm(config, state), ids)
    if (ours - theirs).abs().max() > 1e-4:
        raise AssertionError(f"the two definitions are {(ours - theirs).abs().max()} apart")


def make_case(spec, out):
    rng, folder = goldens.begin_case(spec, out)
    config = dict(spec["config"], torch_dtype=spec["dtype"])
    tensors = draw(spec, config, rng)
    ids = goldens.draw_ids(config, rng)
    goldens.calibrate(reference(config, tensors), tensors, ids, NAMES[config["model_type"]][2] + ".weight")
    goldens.write_weights(folder, tensors, spec["files"])
    tensors = goldens.read_weights(folder)
    model = reference(config, tensors)
    if config["model_type"] == "chatglm":
        check_against_glm(config, tensors, ids)
    prompts = goldens.draw_prompts(model, config.get("padded_vocab_size") or config["vocab_size"], rng)
    dropped = reference({**config, **spec["without"]}, tensors)
    goldens.end_feature_case(spec, folder, config, prompts, families.awq_gemm(spec["group"]), model, dropped, ids)


if __name__ == "__main__":
    goldens.make_cases(__doc__, CASES, make_case)
