#!/usr/bin/env python3
"""Make special_tokens.json: the ids of texts, and the texts of ids, if tokenizer_config.json and
special_tokens_map.json name tokens that tokenizer.json lacks. A list of
  {"tokenizer": a folder of tokenizer, "config": {...}, "map": {...} or null, "eos_id": id or null,
   "texts": [{"text", "ids", "decoded", "skipped": without special tokens}]}
The same version of the package gives the same file (made with transformers 5.24.0, tokenizers 0.23.3).

Needs: pip install transformers==5.24.0. Example: python3 make_special_token_goldens.py
"""
import json
import pathlib
import shutil
import tempfile

from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent / "tokenizer"
TEXTS = ["a<think>b", "<think> a </think>", " <think>  <tool> b<tool>", "<a><b>", "x<eos>y <pad>", "fox<think>fox",
         "<img>", "A<Think>b"]


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False,
            "special": False, **flags}


def next_ids(name):
    made = json.loads((HERE / name / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = set(made["model"]["vocab"].values()) | {token["id"] for token in made["added_tokens"]}
    return max(vocab) + 1, made


def cases(name):
    n, made = next_ids(name)
    known = made["added_tokens"][0] if made["added_tokens"] else None
    yield {"eos_token": "<eos>"}, None
    yield {"eos_token": {"__type": "AddedToken", **token("<eos>", lstrip=True)}, "pad_token": "<pad>"}, None
    yield {"eos_token": None}, {"eos_token": {"content": "<eos>", "lstrip": False, "rstrip": True},
                                "pad_token": "<pad>"}
    yield {"additional_special_tokens": ["<think>", "</think>"]}, None
    yield {"additional_special_tokens": ["<a>"], "extra_special_tokens": ["<think>"]}, None
    yield {"extra_special_tokens": ["<think>", "<tool>", "<think>"], "eos_token": "<eos>"}, None
    yield {"extra_special_tokens": {"image_token": "<img>", "think_token": "<think>"}, "bos_token": "<a>"}, None
    yield {"image_token": "<img>", "eos_token": "<eos>"}, None
    yield {}, {"additional_special_tokens": ["<a>", "<b>"], "eos_token": "<eos>"}
    yield {"added_tokens_decoder": {str(n): token("<think>"), str(n + 1): token("</think>", special=True)}}, None
    yield {"added_tokens_decoder": {str(n + 1): token("<tool>", lstrip=True, rstrip=True),
                                    str(n): token("<think>", single_word=True)},
           "eos_token": "<eos>", "additional_special_tokens": ["<think>", "<img>"]}, {"pad_token": "<pad>"}
    if known:
        flags = {key: value for key, value in known.items() if key != "id"}
        yield {"added_tokens_decoder": {str(known["id"]): {**flags, "lstrip": not flags["lstrip"]},
                                        str(n): token("<think>", special=True)}, "eos_token": known["content"]}, None


def main():
    found = []
    for name in ("gpt2", "llama2", "added"):
        texts = list(TEXTS)
        made = json.loads((HERE / name / "tokenizer.json").read_text(encoding="utf-8"))
        texts += [f" {token['content']} a" for token in made["added_tokens"][:2]]
        for config, special_map in cases(name):
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                shutil.copy(HERE / name / "tokenizer.json", folder)
                config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **config}
                (folder / "tokenizer_config.json").write_text(json.dumps(config))
                if special_map is not None:
                    (folder / "special_tokens_map.json").write_text(json.dumps(special_map))
                tokenizer = AutoTokenizer.from_pretrained(folder)
            shown = []
            for text in texts:
                ids = tokenizer.encode(text, add_special_tokens=False)
                shown.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids),
                              "skipped": tokenizer.decode(ids, skip_special_tokens=True)})
            eos_id = tokenizer.eos_token_id
            found.append({"tokenizer": name, "config": config, "map": special_map, "eos_id": eos_id, "texts": shown})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in found)
    (HERE.parent / "special_tokens.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(len(found), "cases")


if __name__ == "__main__":
    main()
