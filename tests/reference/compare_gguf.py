#!/usr/bin/env python3
"""Compares a model that scripts/convert_gguf.py converted with public software, by hand.

  python3 tests/reference/compare_gguf.py --yoke build/release/bin/yoke --gguf gemma-3-270m-q4_k_m.gguf --tp 1,2

The GGUF file is converted into a temporary folder (or --model names an earlier result). Then

  weights       every tensor against the one that transformers itself reads from the GGUF file, bit for bit after
                rounding to the same 16 bits
  tokenizer     ids of thousands of texts, mixed, of tokens, of random characters, and of runs: the program's against
                `tokenizers` on the rebuilt tokenizer.json, all equal; for SentencePiece's vocabularies also against
                SentencePiece itself, which gets pieces and scores from the GGUF file
  continuation  greedy tokens of several prompts and their log-probabilities in float32, on each number of ranks,
                against transformers on the converted directory: within 1e-3, the best tokens up to near ties

--plant damages the converted model in one way, which the comparison must detect. Exit code: 0 if all agree, else 1. A
part whose packages are missing is skipped by name. Needs gguf, numpy, tokenizers; sentencepiece and protobuf; torch,
transformers, accelerate. `compare_transformers.py --model DIR --device cpu --dtype float32` compares all logits of
random ids.
"""

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from gguf_file import open_parts  # noqa: E402

TOLERANCE = 1e-3
PROMPTS = ("The capital of France is", "def fibonacci(n):\n", "Es war einmal ein König, der", "1, 2, 4, 8, 16,",
           "<h1>Title</h1>\n\n<p>", "今日はとても")
TEXTS = ("", " ", "\n", "Hello, world!", " leading", "trailing  ", "a  b   c\n\n\n\td\t\t e", "\r\n\r\n",
         "don't I'LL 3.14 12345",
         "naïve café — “quotes” 你好，世界 🤽🏽‍♀️ \x00\x01", "नमस्ते สวัสดี привет שלום",
         "<h1>t</h1>\u00a0x")
N_RANDOM = 1000
PLANTS = {"rows": "two rows of the first q_proj are exchanged", "merge": "the first merge is the last"}


def has(*packages):
    missing = [name for name in packages if not importlib.util.find_spec(name)]
    if missing:
        print(f"  skipped: no package {', '.join(missing)}")
    return not missing


def texts_of(tokenizer, seed):
    """The fixed texts, pieces of this repository's files, runs, random tokens and random characters."""
    rng, texts = random.Random(seed), list(TEXTS)
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        source = file.read()
    begins = (rng.randrange(len(source)) for _ in range(N_RANDOM // 4))
    texts += [source[at:at + rng.randrange(1, 400)] for at in begins]
    texts += [character * n for character in "aho.-= \n\t" for n in range(1, 60)]
    size = tokenizer.get_vocab_size()
    texts += [tokenizer.decode([rng.randrange(size) for _ in range(rng.randrange(1, 12))]) for _ in range(N_RANDOM)]
    ranges = ((32, 127), (160, 0x3000), (0x3000, 0xD7FF), (0x1F300, 0x1FA00))
    return texts + ["".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(1, 20)))
                    for _ in range(N_RANDOM)]


def sentencepiece_of(values):
    """SentencePiece's processor of a GGUF file's vocabulary. Its user-defined pieces have SentencePiece's character for
    a space; the score has no meaning for them."""
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2  # pylint: disable=import-outside-toplevel
    key = "tokenizer.ggml."
    model = sentencepiece_model_pb2.ModelProto()
    unknown = values[key + "unknown_token_id"]
    rows = zip(values[key + "tokens"], values[key + "scores"], values[key + "token_type"])
    for i, (text, score, kind) in enumerate(rows):
        piece = model.pieces.add()
        piece.piece, piece.score, piece.type = text.replace(" ", "\u2581"), score, 2 if i == unknown else kind
    trainer = model.trainer_spec
    trainer.model_type, trainer.byte_fallback, trainer.vocab_size = 2, True, len(model.pieces)
    for name, short in (("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")):
        i = values.get(f"{key}{name}_token_id", -1)
        setattr(trainer, f"{short}_id", i)
        setattr(trainer, f"{short}_piece", model.pieces[i].piece if i >= 0 else f"<{short}>")
    spec = model.normalizer_spec
    spec.name, spec.escape_whitespaces, spec.remove_extra_whitespaces = "identity", True, False
    spec.add_dummy_prefix = values.get(key + "add_space_prefix", True)
    return SentencePieceProcessor(model_proto=model.SerializeToString())


def compare_tokenizer(args, folder, values):
    if not has("tokenizers"):
        return True
    from tokenizers import Tokenizer  # pylint: disable=import-outside-toplevel
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    texts = texts_of(tokenizer, args.seed)
    command = [args.yoke, "tokenize", "--model", folder, "--format", "json", "--no-special-tokens"]
    done = subprocess.run(command, input="".join(json.dumps(text) + "\n" for text in texts), text=True,
                          stdout=subprocess.PIPE, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    is_good = report("tokenizers, from tokenizer.json", texts, found, expected)
    if values["tokenizer.ggml.model"] == "llama" and has("sentencepiece", "google.protobuf"):
        control = [text for text, kind in zip(values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"])
                   if kind == 3]
        plain = [i for i, text in enumerate(texts) if "\u2581" not in text and not ("<" in text and any(
            name in text for name in control))]  # others are no plain text, for one of both
        processor = sentencepiece_of(values)
        is_good &= report("SentencePiece, from the GGUF file", [texts[i] for i in plain], [found[i] for i in plain],
                          [processor.encode(texts[i]) for i in plain])
    return is_good


def report(name, texts, found, expected):
    different = [text for text, a, b in zip(texts, found, expected, strict=True) if a != b]
    print(f"  {name}: {len(different)} of {len(texts)} texts differ{': ' if different else ''}"
          + ", ".join(repr(text[:60]) for text in different[:5]))
    return not different


def compare_weights(args, folder):
    if not has("torch", "transformers", "accelerate"):
        return True
    import torch  # pylint: disable=import-outside-toplevel
    from safetensors.torch import load_file  # pylint: disable=import-outside-toplevel
    from transformers import AutoModelForCausalLM  # pylint: disable=import-outside-toplevel
    path = os.path.abspath(args.gguf[0])
    expected = AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path),
                                                    dtype=torch.float32).state_dict()
    found = load_file(os.path.join(folder, "model.safetensors"))
    if "lm_head.weight" not in found:  # tied
        expected.pop("lm_head.weight", None)
    different = sorted(set(found) ^ set(expected))
    different += [name for name in sorted(set(found) & set(expected))
                  if not torch.equal(found[name], expected[name].to(found[name].dtype))]
    print(f"  transformers' reader of GGUF: {len(different)} of {len(found)} tensors differ "
          + ", ".join(different[:5]))
    return not different


def check_steps(model, ids, result):
    """(largest difference of a log-probability, tokens that are not the best ones of transformers, near ties aside) of
    one answer, whose tokens transformers reads at once."""
    import torch  # pylint: disable=import-outside-toplevel
    tokens = result["token_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([ids + tokens[:-1]]), logits_to_keep=len(tokens)).logits[0]
    logprobs = torch.log_softmax(logits.double(), -1)
    of_tokens = logprobs[range(len(tokens)), tokens]
    found = torch.tensor([step["logprob"] for step in result["logprobs"]], dtype=torch.float64)
    others = (logprobs.amax(-1) - of_tokens > TOLERANCE).sum().item()
    return (found - of_tokens).abs().max().item(), others


def compare_continuations(args, folder):
    if not has("torch", "transformers"):
        return True
    import torch  # pylint: disable=import-outside-toplevel
    from transformers import AutoModelForCausalLM, AutoTokenizer  # pylint: disable=import-outside-toplevel
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer, is_good = AutoTokenizer.from_pretrained(folder), True
    all_ids = [tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
    for n_ranks in args.tp.split(","):
        command = [args.yoke, "generate", "--model", folder, "--device", "cpu", "--dtype", "float32", "--tp", n_ranks,
                   "--temperature", "0", "-n", str(args.tokens), "--ignore-eos", "--logprobs", "0", "--format", "json"]
        for prompt in PROMPTS:
            command += ["-p", prompt]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        others = sum(result["usage"]["prompt_tokens"] != len(ids) for ids, result in zip(all_ids, results, strict=True))
        checked = [check_steps(model, ids, result) for ids, result in zip(all_ids, results)]
        largest, others = max(largest for largest, _ in checked), others + sum(count for _, count in checked)
        print(f"  {n_ranks} ranks, {len(PROMPTS)} prompts, {args.tokens} tokens each: {others} are not the best ones; "
              f"largest difference of a log-probability {largest:.1e}", flush=True)
        is_good &= not others and largest <= TOLERANCE
    return is_good


def plant(folder, kind):
    """Damages the model in folder. The program and `tokenizers` read the same merges: SentencePiece notices."""
    name = os.path.join(folder, "tokenizer.json" if kind == "merge" else "model.safetensors")
    if kind == "merge":
        with open(name, encoding="utf-8") as file:
            value = json.load(file)
        merges = value["model"]["merges"]
        merges.append(merges.pop(0))
        with open(name, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return
    from safetensors.torch import load_file, save_file  # pylint: disable=import-outside-toplevel
    tensors = load_file(name)
    rows = tensors["model.layers.0.self_attn.q_proj.weight"]
    rows[[0, 1]] = rows[[1, 0]]
    save_file(tensors, name, {"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", nargs="+", required=True, metavar="IN.gguf")
    parser.add_argument("--yoke", required=True, help="the program")
    parser.add_argument("--model", help="an earlier result of convert_gguf.py")
    parser.add_argument("--tp", default="1,2", help="numbers of ranks (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=24, help="of each continuation (default: %(default)s)")
    parser.add_argument("--parts", default="tokenizer,weights,continuation", help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of texts (default: %(default)s)")
    parser.add_argument("--plant", choices=PLANTS, help="; ".join(map(": ".join, PLANTS.items())))
    args = parser.parse_args()
    if args.plant and args.model:
        parser.error("--plant damages a model of its own, not --model")
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.model or os.path.join(scratch, "model")
        if not args.model:
            script = os.path.join(ROOT, "scripts", "convert_gguf.py")
            subprocess.run([sys.executable, script, *args.gguf, "--out", folder], check=True)
        if args.plant:
            plant(folder, args.plant)
        metadata, _ = open_parts(args.gguf)
        is_good = True
        parts = {"tokenizer": lambda: compare_tokenizer(args, folder, metadata.values),
                 "weights": lambda: compare_weights(args, folder),
                 "continuation": lambda: compare_continuations(args, folder)}
        for name in args.parts.split(","):
            print(name, flush=True)
            is_good &= parts[name]()
    print("all agree" if is_good else "DIFFERENT")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
