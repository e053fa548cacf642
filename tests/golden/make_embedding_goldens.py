#!/usr/bin/env python3
"""Makes tiny random models that make embeddings, and goldens of the public `sentence-transformers`.

Each case becomes embeddings/NAME/: a directory as its authors publish it, and golden.json with float32 results:

  texts[].text         the text
  texts[].token_ids    its tokens, with those that the tokenizer adds
  texts[].embedding    the embedding
  texts[].shortened    its first N_SHORTENED numbers, of length 1 if the model normalises

The tokenizer is that of tests/models/demo with the end token after every text.  The script checks that the results
depend on the tested feature: a different token, or no normalisation, changes the numbers.
"""

import json
import os
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from transformers import Qwen3Config, Qwen3Model

HERE = os.path.dirname(os.path.abspath(__file__))
DEMO = os.path.join(HERE, "..", "models", "demo")
N_SHORTENED = 24
TEXTS = ["The capital of China is Beijing.", "a", "",
         "Instruct: Given a web search query, retrieve passages that answer the query\nQuery: What is gravity?",
         "Gravity is a force that attracts two bodies towards each other. " * 6, "Größe, 重力, naïve \U0001f600"]
COMMON = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6,
          "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1024, "max_position_embeddings": 512,
          "rms_norm_eps": 1e-6, "bos_token_id": 920, "eos_token_id": 920}
FLAGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
OLDER_POOLING = {"word_embedding_dimension": 64, **{"pooling_mode_" + name: name == "lasttoken" for name in FLAGS},
                 "include_prompt": True}
POOLING = {"embedding_dimension": 64, "pooling_mode": "lasttoken", "include_prompt": True}
# name, whether lm_head is the embedding, modules, form of the pooling's configuration
CASES = [("tied", True, ("Transformer", "Pooling", "Normalize"), OLDER_POOLING),
         ("headless", False, ("Transformer", "Pooling"), POOLING)]


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")


def write_tokenizer(folder):
    with open(os.path.join(DEMO, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    end = next(token for token in tokenizer["added_tokens"] if token["id"] == COMMON["eos_token_id"])
    template = {"type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "A", "type_id": 0}},
                           {"SpecialToken": {"id": end["content"], "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                "special_tokens": {end["content"]: {"id": end["content"], "ids": [end["id"]],
                                                    "tokens": [end["content"]]}}}
    tokenizer["post_processor"] = {"type": "Sequence", "processors": [tokenizer["post_processor"], template]}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file, ensure_ascii=False)
    write_json(os.path.join(folder, "tokenizer_config.json"),
               {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": end["content"], "eos_token": end["content"],
                "padding_side": "left", "model_max_length": COMMON["max_position_embeddings"]})


def write_model(folder, name, is_tied):
    """Names without the prefix "model.", and no head: the files of the model inside a model for text."""
    config = Qwen3Config(**COMMON, tie_word_embeddings=is_tied)
    random = np.random.RandomState(sum(map(ord, name)))
    tensors = {}
    for key, tensor in Qwen3Model(config).state_dict().items():
        gain = 1.0 if "norm" not in key else 0.0
        drawn = random.standard_normal(tuple(tensor.shape)) * gain * 1.6 / max(tensor.shape[-1], 1) ** 0.5
        drawn = drawn if gain else 1 + 0.3 * random.standard_normal(tuple(tensor.shape))
        tensors[key] = torch.tensor(drawn, dtype=torch.bfloat16)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(os.path.join(folder, "config.json"),
               {**COMMON, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
                "attention_bias": False, "rope_theta": 1000000, "tie_word_embeddings": is_tied,
                "torch_dtype": "bfloat16"})


def make(name, is_tied, modules, pooling):
    folder = os.path.join(HERE, "embeddings", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    write_model(folder, name, is_tied)
    write_tokenizer(folder)
    write_json(os.path.join(folder, "modules.json"),
               [{"idx": i, "name": str(i), "path": f"{i}_{module}" if i else "",
                 "type": "sentence_transformers.models." + module} for i, module in enumerate(modules)])
    write_json(os.path.join(folder, "1_Pooling", "config.json"), pooling)
    model = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.float32,
                                                                    "attn_implementation": "eager"})
    normalises = "Normalize" in modules
    whole = model.encode(TEXTS, batch_size=len(TEXTS))
    shortened = model.encode(TEXTS, truncate_dim=N_SHORTENED, normalize_embeddings=normalises)
    alone = np.concatenate([model.encode([text]) for text in TEXTS])
    assert np.abs(whole - alone).max() < 1e-5, "padding changes an embedding"
    lengths = np.linalg.norm(whole, axis=1)
    assert np.allclose(lengths, 1) if normalises else (lengths > 2).all(), lengths
    distances = [np.abs(whole[i] / lengths[i] - whole[j] / lengths[j]).max() for i in range(len(TEXTS))
                 for j in range(i)]
    assert min(distances) > 0.05, "two texts have nearly the same embedding"
    texts = []
    for i, text in enumerate(TEXTS):
        ids = model.tokenizer(text)["input_ids"]
        assert ids[-1] == COMMON["eos_token_id"], ids
        texts.append({"text": text, "token_ids": ids, "embedding": [float(f"{x:.8g}") for x in whole[i]],
                      "shortened": [float(f"{x:.8g}") for x in shortened[i]]})
    write_json(os.path.join(folder, "golden.json"), {"normalises": normalises, "texts": texts})
    print(name, whole.shape, lengths)


if __name__ == "__main__":
    for case in CASES:
        make(*case)
