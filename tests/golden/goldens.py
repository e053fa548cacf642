"""Tiny checkpoints with goldens of the public `transformers`: common functions of the scripts make_*_goldens.py. A
script draws the tensors of a case and makes the reference model; this module writes both and proves that a golden is
worth testing with: float64 agrees, no step is a near tie, dropping the case's feature changes the result.

make_family_goldens.py describes the files of a case.
"""

import argparse
import json
import os
import zlib

import numpy as np
import torch
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
N_OUTPUT_TOKENS = 24
N_TOP = 16
PROMPT_LENGTHS = (1, 7, 40, 130)
MAX_ROUNDING = 1e-4  # largest difference of a log-probability in float32 from float64
MIN_MARGIN = 0.01  # a prompt whose continuation is nearer to a tie than this is drawn again
LOGIT_STD = 2.6  # gives best tokens of probability about 0.05 to 0.95 in a vocabulary of 100 to 300
TORCH_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def begin_case(spec, out):
    """The case's random generator, and its folder, empty."""
    folder = os.path.join(out, spec["name"])
    os.makedirs(folder, exist_ok=True)
    for file in os.listdir(folder):
        os.remove(os.path.join(folder, file))
    return np.random.RandomState(zlib.crc32(spec["name"].encode())), folder


def draw_ids(config, rng):
    vocab = config.get("padded_vocab_size") or config["vocab_size"]
    return rng.randint(0, vocab, size=100).tolist()


def normals(rng, dtype):
    """A function that draws a normal tensor of a shape, with a standard deviation and a mean, in the type of a file."""
    def normal(shape, std, mean=0.0):
        return torch.from_numpy((mean + std * rng.standard_normal(shape)).astype(np.float32)).to(dtype)

    return normal


def fuse_experts(tensors, layer, n_experts):
    """Puts the experts of a layer, if it has them, into two tensors [experts, rows, columns]: gate and up, with
    consecutive rows; down."""
    prefix = f"model.layers.{layer}.mlp.experts."
    experts = [f"{prefix}{e}." for e in range(n_experts)]
    experts = [e for e in experts if e + "up_proj.weight" in tensors]
    if experts:
        gate_up = [torch.cat([tensors.pop(e + f"{name}_proj.weight") for name in ("gate", "up")]) for e in experts]
        tensors[prefix + "gate_up_proj"] = torch.stack(gate_up)
        tensors[prefix + "down_proj"] = torch.stack([tensors.pop(e + "down_proj.weight") for e in experts])


@torch.no_grad()
def logits_of(model, ids):
    """[tokens, vocab] float32 logits of one sequence, without a cache."""
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def calibrate(model, tensors, ids, norm="model.norm.weight"):
    """Scales the final norm's tensor of the model, so that logits are neither flat nor nearly certain."""
    std = logits_of(model, ids)[20:].std(dim=-1).mean().item()
    tensors[norm] = (tensors[norm].float() * (LOGIT_STD / std)).to(tensors[norm].dtype)


def golden_prompt(model, ids, n_tokens=N_OUTPUT_TOKENS, is_clear=lambda: True):
    """Greedy continuation of one prompt with its log-probabilities; None if a step is near a tie, or is_clear rejects
    the model's last forward."""
    sequence, margins, top = list(ids), [], []
    for _ in range(n_tokens):
        logprobs = torch.log_softmax(logits_of(model, sequence)[-1], dim=-1)
        values, indices = logprobs.topk(N_TOP)
        margin = (values[0] - values[1]).item()
        if margin < MIN_MARGIN or not is_clear():
            return None
        margins.append(round(margin, 6))
        top.append([[i, round(v, 6)] for i, v in zip(indices.tolist(), values.tolist())])
        sequence.append(indices[0].item())
    whole = torch.log_softmax(logits_of(model, sequence), dim=-1)
    doubled = model.double()
    precise = torch.log_softmax(logits_of(doubled, sequence), dim=-1)
    model.float()
    if (whole - precise).abs().max() > MAX_ROUNDING:
        raise AssertionError(f"float32 is off by {(whole - precise).abs().max()} from float64")
    following = whole[range(len(ids) - 1), ids[1:]].tolist()
    return {"prompt_ids": list(ids), "prompt_logprobs": [round(v, 6) for v in following],
            "output_ids": sequence[len(ids):], "margins": margins, "top": top}


def draw_prompts(model, vocab, rng, lengths=PROMPT_LENGTHS):
    prompts = []
    for length in lengths:
        prompt = None
        while prompt is None:
            prompt = golden_prompt(model, rng.randint(0, vocab, size=length).tolist())
        prompts.append(prompt)
    return prompts


def draw_rounded_prompt(model, vocab, length, rng, rounding, least_tie):
    """A golden prompt of a model that rounds: no rounded value comes nearer to a tie than least_tie.
    rounding.nearest_tie: the nearest since it was reset."""
    while True:
        ids = rng.randint(0, vocab, size=length).tolist()
        rounding.nearest_tie = 1.0
        try:
            prompt = golden_prompt(model, ids)
        except AssertionError:  # float64 rounds a value differently
            model.float()
            continue
        if prompt and rounding.nearest_tie >= least_tie:
            return prompt


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def write_weights(folder, tensors, files):
    """model.safetensors, or several files with their index."""
    metadata = {"format": "pt"}
    if files == 1:
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata=metadata)
        return
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    weight_map, parts, part_bytes = {}, [{}], 0
    for name, tensor in tensors.items():
        if part_bytes >= total / files:
            parts.append({})
            part_bytes = 0
        parts[-1][name] = tensor
        part_bytes += tensor.numel() * tensor.element_size()
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05d}-of-{len(parts):05d}.safetensors"
        save_file(part, os.path.join(folder, file), metadata=metadata)
        weight_map.update({name: file for name in part})
    if len(parts) != files:
        raise AssertionError(f"{len(parts)} files, expected {files}")
    write_json(os.path.join(folder, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})


def read_weights(folder):
    """All tensors of a written checkpoint, read back from its files."""
    tensors = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            tensors.update(load_file(os.path.join(folder, file)))
    return tensors


def write_golden(path, spec, prompts):
    """golden.json, one line per list for readable diffs."""
    def line(value):
        return json.dumps(value, separators=(",", ":"))

    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"case":{json.dumps(spec["name"])},\n"about":{json.dumps(spec["about"])},\n"prompts":[\n')
        for i, prompt in enumerate(prompts):
            fields = ",\n".join(f'"{key}":{line(value)}' for key, value in prompt.items())
            file.write("{" + fields + "}" + (",\n" if i + 1 < len(prompts) else "\n"))
        file.write("]}\n")


def end_case(spec, folder, config, prompts, quantization=None, note=""):
    """Writes configuration and answers. The end-of-sequence token is a token that no answer contains. Returns the
    tokens of the answers."""
    used = {token for prompt in prompts for token in prompt["output_ids"]}
    vocab = config.get("padded_vocab_size") or config["vocab_size"]
    config["eos_token_id"] = next(token for token in range(2, vocab) if token not in used)
    if quantization:
        config["quantization_config"] = quantization
    write_json(os.path.join(folder, "config.json"), config)
    write_golden(os.path.join(folder, "golden.json"), spec, prompts)
    size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
    print(f"{spec['name']:34s} {size / 1000:7.1f} kB   {len(used):3d} distinct tokens   {note}".rstrip())
    return used


def end_feature_case(spec, folder, config, prompts, quantization, model, dropped, ids):
    """Finishes a case. dropped: the model without the case's feature, which must give other results on ids."""
    have, without = (torch.log_softmax(logits_of(one, ids), -1) for one in (model, dropped))
    change = (without - have).abs().max().item()
    if change < 0.02:
        raise AssertionError(f"the feature moves log-probabilities by {change} only")
    end_case(spec, folder, config, prompts, quantization, f"feature {change:.2f}")


def make_cases(description, cases, make):
    """Shared main of such scripts: make(case, folder to write) for the requested cases."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases to make (default: all)")
    parser.add_argument("--out", default=os.path.join(HERE, "families"), help="folder to write (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    args = parser.parse_args()
    unknown = set(args.names) - {spec["name"] for spec in cases}
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}; see --list")
    torch.set_num_threads(1)  # one summation order, so that a run repeats
    for spec in cases:
        if args.list:
            print(f"{spec['name']:34s} {spec['about']}")
        elif not args.names or spec["name"] in args.names:
            make(spec, args.out)
