#!/usr/bin/env python3
"""Writes a model folder without weights whose byte-level BPE tokenizer has the vocabulary size of a large model.

The further ids are pairs of IN's tokens, most frequent first, each with its merge: a text has fewer tokens than before,
and masks of constraints have real sizes. Added tokens keep their order and have the last ids. OUT is a value for
`make_random_model.py --tokenizer`, so that `bench_clients --json-schema` can be measured without a downloaded model.

Usage: widen_tokenizer.py IN OUT VOCAB_SIZE
"""

import json
import os
import sys


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False)


def pairs_of(vocab):
    """Pairs of tokens in the order of the sum of their ids; a space only begins a token."""
    tokens = sorted(vocab, key=vocab.get)
    for total in range(2 * len(tokens) - 1):
        for first in range(max(0, total - len(tokens) + 1), min(total, len(tokens) - 1) + 1):
            pair = tokens[first], tokens[total - first]
            if "Ġ" not in pair[1] and "Ġ" != pair[0]:
                yield pair


def widen(model, first_id, size):
    """Adds tokens first_id to size - 1. merges has pairs, in tokenizer.json's newer form."""
    old = dict(model["vocab"])
    for left, right in pairs_of(old):
        if first_id == size:
            return
        if left + right not in model["vocab"]:
            model["vocab"][left + right] = first_id
            model["merges"].append([left, right])
            first_id += 1
    sys.exit(f"{size} ids: expected at most {first_id}, the number with all pairs of tokens")


def move_added(tokenizer, settings, config, size):
    """Gives the added tokens the last ids, and both configurations their new numbers."""
    added = sorted(tokenizer["added_tokens"], key=lambda token: token["id"])
    moved = {token["id"]: size - len(added) + i for i, token in enumerate(added)}
    for token in added:
        token["id"] = moved[token["id"]]
    for key in ("bos_token_id", "eos_token_id"):
        config[key] = moved.get(config[key], config[key])
    tokenizer["added_tokens"] = added
    listed = settings.get("added_tokens_decoder", {})
    settings["added_tokens_decoder"] = {str(moved[int(number)]): token for number, token in listed.items()}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, target, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    tokenizer, config = read(source, "tokenizer.json"), read(source, "config.json")
    settings = read(source, "tokenizer_config.json")
    widen(tokenizer["model"], max(tokenizer["model"]["vocab"].values()) + 1, size - len(tokenizer["added_tokens"]))
    move_added(tokenizer, settings, config, size)
    config["vocab_size"] = size
    os.makedirs(target, exist_ok=True)
    write(target, "tokenizer.json", tokenizer)
    write(target, "config.json", config)
    write(target, "tokenizer_config.json", settings)


if __name__ == "__main__":
    main()
