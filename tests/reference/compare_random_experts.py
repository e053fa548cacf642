#!/usr/bin/env python3
"""Compares mixtures of experts and latent attention of random small sizes with the public transformers in float32.

  python3 tests/reference/compare_random_experts.py --yoke build/release/bin/yoke --cases 200
  python3 tests/reference/compare_random_experts.py --yoke build/release/bin/yoke --first 7 --cases 1 --keep kept

The goldens of tests/golden/families are a few chosen cases; here the number of a case is the seed of its family, sizes,
counts of experts, groups and shared experts, format (AWQ, 16 bits, for DeepSeek also GPTQ with act order) and numbers
of ranks, with experts cut between ranks, and with whole experts distributed over ranks. `yoke score` on CPU ranks must
give each token of a random text the log-probability of transformers, within 1e-3.

In one point Yoke follows vLLM instead of transformers, which ranks experts of unchosen groups with a score of 0, so
that an expert with a negative score in a chosen group may lose to them. Correction biases are therefore drawn positive
here.

Exit code: 0 if all cases agree, else 1. Needs numpy, torch, transformers and safetensors, and auto_gptq 0.7.1 on
PYTHONPATH (make_format_goldens.py).
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import goldens  # noqa: E402
import make_deepseek_goldens as deepseek  # noqa: E402
import make_family_goldens as families  # noqa: E402
import make_moe_goldens as moe  # noqa: E402

TOLERANCE = 1e-3
N_TOKENS = 60
GROUP = 32
GPTQ_OUTPUTS = 32  # auto_gptq packs multiples of it
FAMILIES = ("qwen2_moe", "qwen3_moe", "mixtral", "glm4_moe", "deepseek_v2", "deepseek_v3")


def draw_routing(choose, family):
    """Keys of config.json about experts, groups and the number of experts per token."""
    if family not in ("glm4_moe", "deepseek_v2", "deepseek_v3"):
        n_experts = choose.randint(2, 9)
        key = "num_local_experts" if family == "mixtral" else "num_experts"
        keys = {key: n_experts, "num_experts_per_tok": choose.randint(1, n_experts)}
        return keys if family == "mixtral" else {**keys, "norm_topk_prob": choose.random() < 0.5}
    n_groups = choose.randint(1, 3)
    of_group = choose.randint(3 if family == "glm4_moe" else 2, 4)
    n_experts = max(6, n_groups * of_group) if family == "glm4_moe" else n_groups * of_group
    n_experts -= n_experts % n_groups
    top_groups = choose.randint(1, n_groups)
    return {"n_routed_experts": n_experts, "n_group": n_groups, "topk_group": top_groups,
            "num_experts_per_tok": choose.randint(1, top_groups * n_experts // n_groups),
            "n_shared_experts": choose.randint(1, 3), "norm_topk_prob": family != "deepseek_v2",
            "routed_scaling_factor": choose.choice((1.0, 1.7, 2.5)), "first_k_dense_replace": choose.randint(0, 1)}


def draw_latent(choose, family, is_quantised):
    n_heads = 4 if is_quantised else choose.randint(3, 6)
    methods = ("noaux_tc",) if family == "deepseek_v3" else ("greedy", "group_limited_greedy")
    return {**deepseek.COMMON, "num_attention_heads": n_heads, "num_key_value_heads": n_heads,
            "q_lora_rank": choose.choice((None, 32)), "kv_lora_rank": choose.choice((32, 64)),
            "qk_nope_head_dim": 16 if is_quantised else choose.choice((16, 24)),
            "qk_rope_head_dim": choose.choice((8, 16)),
            "v_head_dim": choose.choice((16, 32) if is_quantised else (16, 20, 36)),
            "rope_scaling": choose.choice((None, deepseek.YARN)), "topk_method": choose.choice(methods),
            "scoring_func": "sigmoid" if family == "deepseek_v3" else "softmax"}


def draw_grouped(choose, family, hidden, is_quantised):
    heads, kv_heads = choose.choice(((4, 2), (6, 2), (4, 4), (8, 2)) if family != "qwen2_moe" else ((4, 2), (8, 4)))
    keys = {"hidden_act": "silu", "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": 200,
            "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
            "bos_token_id": 1, "head_dim": choose.choice((16, 32) if is_quantised else (16, 24, 32))}
    if family == "qwen2_moe":
        keys["head_dim"] = hidden // heads
    if family == "glm4_moe":
        keys.update(attention_bias=choose.random() < 0.5, use_qk_norm=choose.random() < 0.5, partial_rotary_factor=0.5)
    return keys


def draw_case(seed):
    """The specification of a case in the form of make_moe_goldens.py."""
    choose = random.Random(seed)
    family, is_quantised = choose.choice(FAMILIES), choose.random() < 0.6
    hidden, width = choose.choice((64, 96)), choose.choice((32, 64, 96) if is_quantised else (24, 32, 40, 72))
    config = {"architectures": [families.ARCHITECTURES[family]], "model_type": family}
    config.update(draw_latent(choose, family, is_quantised) if is_latent(config) else
                  draw_grouped(choose, family, hidden, is_quantised))
    config.update(draw_routing(choose, family), hidden_size=hidden, num_hidden_layers=choose.randint(2, 3),
                  intermediate_size=width if family == "mixtral" else 96)
    if family != "mixtral":
        config["moe_intermediate_size"] = width
    if family == "mixtral":
        config["sliding_window"] = None
    if family in ("qwen2_moe", "qwen3_moe"):
        config.update(decoder_sparse_step=choose.randint(1, 2), mlp_only_layers=choose.choice(([], [1])))
    if family == "qwen2_moe":
        other_width = 96 if is_quantised else 56
        config["shared_expert_intermediate_size"] = choose.choice((width, 2 * width, 4 * width, other_width))
    dtype = "float16" if is_quantised else choose.choice(("float16", "bfloat16"))
    ranks = [(1, False), (choose.randint(2, 3), False), (choose.randint(2, 7), True), (choose.randint(4, 8), False)]
    quantization = None
    if is_quantised:
        quantization = choose.choice((deepseek.AWQ, deepseek.GPTQ)) if is_latent(config) else families.awq_gemm(GROUP)
    if quantization is deepseek.GPTQ:
        config["qk_rope_head_dim"] = GPTQ_OUTPUTS
    return {"group": GROUP if is_quantised else None, "quantization": quantization, "dtype": dtype, "config": config,
            "ranks": ranks}


def is_latent(config):
    return config["model_type"].startswith("deepseek")


def draw_tensors(spec, config, rng):
    """Tensors of the file by name, and those of the computation."""
    tensors, dense = deepseek.draw(spec, config, rng) if is_latent(config) else (moe.draw(spec, config, rng), None)
    for name, tensor in tensors.items():
        if name.endswith("e_score_correction_bias"):
            tensors[name] = tensor.abs()
    return tensors, deepseek.as_floats(tensors, dense) if is_latent(config) else tensors


def reference_logprobs(config, tensors, ids):
    """Log-probabilities of all tokens except the first, by transformers."""
    model = (deepseek if is_latent(config) else moe).reference(config, tensors)
    with torch.no_grad():
        logprobs = torch.log_softmax(goldens.logits_of(model, ids).double(), dim=-1)
    return [logprobs[i, token].item() for i, token in enumerate(ids[1:])]


def write_checkpoint(folder, spec, config, tensors):
    goldens.write_weights(folder, tensors, 1)
    if spec["quantization"]:
        config = {**config, "quantization_config": spec["quantization"]}
    goldens.write_json(os.path.join(folder, "config.json"), config)


def complaint(yoke, folder, ids, expected, n_ranks, whole_experts):
    """Error of Yoke's log-probabilities, or None."""
    command = [yoke, "score", "--model", folder, "--device", "cpu", "--dtype", "float32", "--threads", "2", "--tokens",
               "--format", "json", "--token-ids", ",".join(map(str, ids)), "--tp", str(n_ranks), "--log-level", "error"]
    run = subprocess.run(command + ["--enable-expert-parallel"] * whole_experts, capture_output=True, text=True,
                         check=False)
    if run.returncode != 0:
        return f"exit code {run.returncode}: {run.stderr.strip()}"
    found = json.loads(run.stdout)["logprobs"][1:]
    errors = [abs(a - b) for a, b in zip(found, expected)]
    if len(found) != len(expected) or not max(errors) <= TOLERANCE:
        return f"log-probabilities differ by up to {max(errors):.2g}, first at token {1 + errors.index(max(errors))}"
    return None


def run_case(yoke, seed, folder):
    """Returns the number of errors."""
    spec, rng = draw_case(seed), np.random.RandomState(seed)
    config = dict(spec["config"], torch_dtype=spec["dtype"])
    tensors, floats = draw_tensors(spec, config, rng)
    ids = rng.randint(0, config["vocab_size"], size=N_TOKENS).tolist()
    expected = reference_logprobs(config, floats, ids)
    write_checkpoint(folder, spec, config, tensors)
    n_wrong = 0
    for n_ranks, whole_experts in spec["ranks"]:
        wrong = complaint(yoke, folder, ids, expected, n_ranks, whole_experts)
        if wrong:
            print(f"case {seed}, {config['model_type']}, {n_ranks} ranks, "
                  f"{'whole experts' if whole_experts else 'experts cut'}: {wrong}", flush=True)
            n_wrong += 1
    return n_wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yoke", required=True, help="the program")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (0)")
    parser.add_argument("--cases", type=int, default=100, help="how many (100)")
    parser.add_argument("--keep", help="folder in which checkpoints of wrong cases are kept")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    n_wrong = 0
    for seed in range(arguments.first, arguments.first + arguments.cases):
        with tempfile.TemporaryDirectory() as folder:
            is_wrong = run_case(arguments.yoke, seed, folder) > 0
            n_wrong += is_wrong
            if is_wrong and arguments.keep:
                shutil.copytree(folder, os.path.join(arguments.keep, str(seed)), dirs_exist_ok=True)
    print(f"{arguments.cases} cases, {n_wrong} wrong")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
