#!/usr/bin/env python3
"""Evaluates the demo model with transformers and writes the expected results for tests into demo/.

  python3 make_demo_goldens.py

expected.json
  prompts[]    task, prompt, answer (the truth, from demo_text.py), held_out, prompt_ids, output_ids (greedy, with the
               end token), margins (log-probability of the best token less the second best, per output token), logprobs
               (of the output tokens), fp16_logprobs (of the same tokens, by the float16 twin).  Only prompts that both
               models answer correctly and far from a tie are listed.
  accuracy     share of right answers over all prompts tried, near a tie or not
  perplexity   of heldout.txt: for each line the model reads the line's tokens and the end token, alone, from position
               0; exp of the mean negative log-probability of all tokens but each line's first (n_tokens of them)
heldout.txt    held-out documents, one per line

The reference is Qwen3ForCausalLM in float32 with eager attention: for AWQ with s * (q - z) in float32, for the twin
with the float16 weights widened.
"""

import argparse
import json
import math
import os
import random
import sys

import torch
from tokenizers import Tokenizer

import demo_text

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "golden"))
import goldens  # noqa: E402
import make_family_goldens as families  # noqa: E402

END = "<|endoftext|>"
MIN_MARGIN = 0.5  # of listed prompts: float16 devices must get the same tokens
HELD_OUT_BYTES = 30000
SHOWN_FACTS = ("The capital of Colombia is", "The capital of Iceland is", "The day after Friday is",
               "The opposite of early is")


def load(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return families.reference_model(json.load(file), goldens.read_weights(folder))


@torch.no_grad()
def greedy(model, prompt_ids, end, limit):
    """(output ids including the end token, margins, log-probabilities); with the model's cache."""
    ids, cache = torch.tensor([prompt_ids]), None
    output, margins, logprobs = [], [], []
    while len(output) < limit and (not output or output[-1] != end):
        result = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        values, indices = torch.log_softmax(result.logits[0, -1], dim=-1).topk(2)
        output.append(indices[0].item())
        margins.append(round((values[0] - values[1]).item(), 5))
        logprobs.append(round(values[0].item(), 6))
        ids = indices[:1][None]
    return output, margins, logprobs


def logprobs_of(model, prompt_ids, output_ids):
    """Log-probabilities of output_ids after prompt_ids, and whether each is the best token."""
    logits = goldens.logits_of(model, prompt_ids + output_ids)[len(prompt_ids) - 1:-1]
    logprobs = torch.log_softmax(logits, dim=-1)
    rows = range(len(output_ids))
    return [round(v, 6) for v in logprobs[rows, output_ids].tolist()], logits.argmax(dim=-1).tolist() == output_ids


def prompts_of(task, n):
    if task == "fact":
        return [pair for pair in demo_text.FACTS if pair[0] in SHOWN_FACTS]
    return demo_text.held_out_documents(random.Random(f"expected {task}"), task, n)


def expected_prompts(awq, twin, tokenizer, per_task, listed):
    end = tokenizer.token_to_id(END)
    accuracy, prompts = {}, []
    for task in demo_text.TASKS:
        documents, n_listed, right = prompts_of(task, per_task), 0, {"awq": 0, "fp16": 0}
        for prompt, answer in documents:
            prompt_ids, answer_ids = tokenizer.encode(prompt).ids, tokenizer.encode(answer).ids + [end]
            output, margins, logprobs = greedy(awq, prompt_ids, end, len(answer_ids) + 8)
            twin_logprobs, twin_right = logprobs_of(twin, prompt_ids, answer_ids)
            right["awq"] += output == answer_ids
            right["fp16"] += twin_right
            if output == answer_ids and twin_right and min(margins) >= MIN_MARGIN and n_listed < listed:
                n_listed += 1
                prompts.append({"task": task, "prompt": prompt, "answer": answer, "held_out": task != "fact",
                                "prompt_ids": prompt_ids, "output_ids": output, "margins": margins,
                                "logprobs": logprobs, "fp16_logprobs": twin_logprobs})
        accuracy[task] = {"prompts": len(documents), **{k: round(v / len(documents), 4) for k, v in right.items()}}
        print(f"{task:14s} {accuracy[task]}  {n_listed} listed", flush=True)
    return accuracy, prompts


def held_out_lines():
    """Held-out documents in the proportions of training, about HELD_OUT_BYTES bytes."""
    rng = random.Random("held out text")
    tasks = [task for task in demo_text.TASKS if task != "fact"]
    weights = [demo_text.TASKS[task][1] for task in tasks]
    lines, size = [], 0
    while size < HELD_OUT_BYTES:
        prompt, answer = demo_text.draw(rng, rng.choices(tasks, weights)[0])
        if demo_text.is_held_out(prompt):
            lines.append(prompt + answer)
            size += len((prompt + answer).encode("utf-8")) + 1
    return lines


def perplexity(model, tokenizer, lines):
    """(perplexity, tokens scored)."""
    total, count, end = 0.0, 0, tokenizer.token_to_id(END)
    for line in lines:
        ids = tokenizer.encode(line).ids + [end]
        logprobs = torch.log_softmax(goldens.logits_of(model, ids)[:-1], dim=-1)
        total -= logprobs[range(len(ids) - 1), ids[1:]].double().sum().item()
        count += len(ids) - 1
    return math.exp(total / count), count


def write_expected(path, accuracy, ppl, prompts):
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"accuracy":{\n')
        file.write(",\n".join(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in accuracy.items()))
        file.write(f'}},\n"perplexity":{json.dumps(ppl)},\n"prompts":[\n')
        for i, prompt in enumerate(prompts):
            fields = ",\n".join(f"{json.dumps(k)}:{json.dumps(v, ensure_ascii=False, separators=(',', ':'))}"
                                for k, v in prompt.items())
            file.write("{" + fields + "}" + (",\n" if i + 1 < len(prompts) else "\n"))
        file.write("]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=HERE, help="folder with demo/ and demo-fp16/ (default: the script's)")
    parser.add_argument("--per-task", type=int, default=40, help="held-out prompts tried a task (default: 40)")
    parser.add_argument("--listed", type=int, default=8, help="of these at most listed (default: 8)")
    args = parser.parse_args()
    torch.set_num_threads(1)  # one summation order, so that a run repeats
    folder = os.path.join(args.models, "demo")
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    awq, twin = load(folder), load(os.path.join(args.models, "demo-fp16"))
    accuracy, prompts = expected_prompts(awq, twin, tokenizer, args.per_task, args.listed)
    lines = held_out_lines()
    with open(os.path.join(folder, "heldout.txt"), "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    ppl = {}
    for name, model in (("awq", awq), ("fp16", twin)):
        ppl[name], ppl["n_tokens"] = perplexity(model, tokenizer, lines)
    ppl["n_lines"] = len(lines)
    write_expected(os.path.join(folder, "expected.json"), accuracy, ppl, prompts)
    print(f"{len(prompts)} prompts; perplexity {ppl}")


if __name__ == "__main__":
    main()
