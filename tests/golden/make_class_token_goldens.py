#!/usr/bin/env python3
"""Makes chat/class_tokens.json: the special tokens that `transformers` passes to chat templates if
tokenizer_config.json leaves some to its "tokenizer_class".

A list of {"config": contents of that file, "tokens": {...}}.

Needs: pip install transformers==4.57.1 sentencepiece. Example: python3 make_class_token_goldens.py
"""
import argparse
import json
import pathlib
import shutil
import tempfile

from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent
CLASSES = ["LlamaTokenizer", "CodeLlamaTokenizer", "Qwen2Tokenizer", "GPT2Tokenizer",
           "CodeGenTokenizer", "GemmaTokenizer", "BloomTokenizerFast", "CohereTokenizerFast",
           "GPTNeoXTokenizerFast", "PreTrainedTokenizerFast"]
GIVEN = [{}, {"bos_token": "<given>", "pad_token": {"__type": "AddedToken", "content": "<pad me>"}},
         {"eos_token": None, "unk_token": None}]


def tokens_of(config):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "tokenizer" / "qwen3" / "tokenizer.json", folder)
        (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        names = ("bos_token", "eos_token", "unk_token", "pad_token")
        tokenizer.chat_template = "{{ [%s] | tojson }}" % ", ".join(f"{name} or none" for name in names)
        seen = json.loads(tokenizer.apply_chat_template([{"role": "user", "content": ""}], tokenize=False))
        return dict(zip(names, seen, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "chat" / "class_tokens.json")
    out = parser.parse_args().out
    lines = []
    for name in CLASSES + [name + "Fast" for name in CLASSES if not name.endswith("Fast")]:
        for given in GIVEN:
            config = {"tokenizer_class": name, **given}
            lines.append(json.dumps({"config": config, "tokens": tokens_of(config)}, ensure_ascii=False))
    out.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
