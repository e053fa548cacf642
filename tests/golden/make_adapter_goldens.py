#!/usr/bin/env python3
"""Makes small random low-rank adapters of models in families/, and goldens of the public `peft` in float32.

Each case becomes adapters/NAME/: the directory as peft saves it, and golden.json:

  family                       the model's folder in families/
  prompts[].prompt_ids         a prompt
  prompts[].prompt_logprobs    of its tokens but the first
  prompts[].output_ids         the greedy continuation
  prompts[].output_logprobs    of the continuation
  prompts[].margins            between the two best tokens of each step

The script checks that the adapter changes every prompt's numbers, and that every scale matters. Run with transformers 5
and peft (tried: 5.24.0, 0.21.2).
"""

import json
import os
import shutil
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
N_OUTPUT = 6
PROMPTS = [[5, 9, 3, 7, 100, 42, 8], [11, 150, 4], [*range(20, 60), 3, 199, 17]]
# name -> family, peft's options
CASES = {
    "all_linear": ("qwen3_f32", {"target_modules": "all-linear", "r": 3, "lora_alpha": 6}),
    "patterns": ("qwen2_bf16", {
        "target_modules": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"], "r": 4, "lora_alpha": 8,
        "use_rslora": True, "rank_pattern": {"down_proj": 2, "layers.0.self_attn.q_proj": 1},
        "alpha_pattern": {r"^model\.layers\.\d+\.mlp\.(?:up)_proj": 20, "self_attn.v_proj": 3}}),
    "one_layer": ("llama_f16", {"target_modules": ["q_proj", "k_proj", "gate_proj", "down_proj"], "r": 2,
                                "lora_alpha": 5, "layers_to_transform": [1]}),
    "fused": ("phi3", {"target_modules": r".*\.(qkv_proj|gate_up_proj|o_proj)", "r": 2, "lora_alpha": 4}),
    "interleaved": ("glm4", {"target_modules": ["q_proj", "k_proj", "gate_up_proj", "down_proj"], "r": 2,
                             "lora_alpha": 4}),
    "latent": ("glm4_moe_lite", {
        "target_modules": r".*self_attn\.(q_a_proj|q_b_proj|kv_a_proj_with_mqa|o_proj)",
        "r": 2, "lora_alpha": 4}),
    "delta": ("hybrid_qwen3_5", {
        "target_modules": r".*((linear_attn\.(in_proj_\w+|out_proj))|(self_attn\.[qkvo]_proj)|(mlp\.down_proj))",
        "r": 2, "lora_alpha": 4}),
}


def load_base(family):
    folder = os.path.join(HERE, "families", family)
    config = AutoConfig.from_pretrained(folder)
    config = getattr(config, "text_config", None) or config
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32,
                                                 attn_implementation="eager")
    return model.eval()


def fill(model, name):
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    for key, tensor in sorted(model.state_dict().items()):
        if "lora_" in key:
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.8 / tensor.shape[-1] ** 0.5)


def compute(model, prompt):
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(N_OUTPUT):
            logits = model(torch.tensor([ids]), use_cache=False).logits[0]
            ids.append(int(logits[-1].argmax()))
        logits = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0], -1)
    chosen = [float(logits[i, ids[i + 1]]) for i in range(len(ids) - 1)]
    best = torch.topk(logits[len(prompt) - 1:-1], 2).values
    return {"prompt_ids": prompt, "prompt_logprobs": [round(x, 6) for x in chosen[:len(prompt) - 1]],
            "output_ids": ids[len(prompt):], "output_logprobs": [round(x, 6) for x in chosen[len(prompt) - 1:]],
            "margins": [round(float(a - b), 6) for a, b in best]}


def distance(model, golden):
    """Largest difference of a prompt's log-probabilities on another model; the smallest over prompts."""
    found = [compute(model, prompt["prompt_ids"])["prompt_logprobs"] for prompt in golden]
    return min(max(abs(a - b) for a, b in zip(one["prompt_logprobs"], other)) for one, other in zip(golden, found))


def change_config(folder, changed):
    path = os.path.join(folder, "adapter_config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config.update(changed)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1, sort_keys=True)
        file.write("\n")


def make(name):
    family, options = CASES[name]
    folder = os.path.join(HERE, "adapters", name)
    shutil.rmtree(folder, ignore_errors=True)
    model = get_peft_model(load_base(family), LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        fill(model, name)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    change_config(folder, {"base_model_name_or_path": family})
    model = PeftModel.from_pretrained(load_base(family), folder).eval()
    golden = [compute(model, [i % model.config.vocab_size for i in prompt]) for prompt in PROMPTS]
    assert distance(load_base(family), golden) > 0.1, "the adapter changes too little"
    for key in ("use_rslora", "alpha_pattern", "lora_alpha"):
        if key not in options:
            continue
        with tempfile.TemporaryDirectory() as other:
            shutil.copytree(folder, other, dirs_exist_ok=True)
            change_config(other, {key: {"use_rslora": False, "alpha_pattern": {}, "lora_alpha": 1}[key]})
            assert distance(PeftModel.from_pretrained(load_base(family), other).eval(), golden) > 0.01, key
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as file:
        json.dump({"family": family, "prompts": golden}, file)
        file.write("\n")
    print(name, family, os.path.getsize(os.path.join(folder, "adapter_model.safetensors")))


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        make(case)
