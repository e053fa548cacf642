#!/usr/bin/env python3
"""Trains the demo model and writes it as two Hugging Face directories: demo (AWQ) and demo-fp16 (its 16-bit twin).

  python3 make_demo.py --out OUT                   the committed model: about five minutes on one large GPU
  python3 make_demo.py --out OUT --steps 20 --documents 20000 --rows 16 --device cpu       a quick trial

A Qwen3-architecture model of 5 million parameters learns the tasks of demo_text.py.  In the last part of training most
steps see its projections rounded to 4 bits (straight-through gradients), so that plain round-to-nearest quantisation
afterwards costs almost nothing.  The twin holds the same weights in float16 before rounding.

Text, tokenizer and initial weights are fixed by --seed; the arithmetic of a GPU is not repeatable to the bit, so
another run gives another model of the same quality.  report.json has the loss and the accuracy on held-out prompts.
make_demo_goldens.py then evaluates both directories with transformers.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import shutil
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import awq_pack
import demo_text

GROUP = 64
ROW_SHORT, ROW_LONG = 256, 1024  # tokens of a training row; short rows keep documents apart, long ones do not
END = "<|endoftext|>"
SPECIAL = [END, "<|im_start|>", "<|im_end|>"]
ANSWER_BIT = 1 << 15  # marks tokens of answers in training rows, whose loss has full weight
PROMPT_WEIGHT = 0.1
QWEN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                r"|\s+(?!\S)|\s+")
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "attention_bias": False,
          "attention_dropout": 0.0, "bos_token_id": None, "eos_token_id": None, "hidden_size": 256,
          "intermediate_size": 640, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2,
          "head_dim": 64, "vocab_size": 1024, "max_position_embeddings": ROW_LONG, "rms_norm_eps": 1e-6,
          "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": True, "use_sliding_window": False,
          "sliding_window": None, "max_window_layers": 6, "initializer_range": 0.02, "use_cache": True,
          "torch_dtype": "float16"}
QUANTIZATION = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm",
                "modules_to_not_convert": None}


# --- tokenizer and training rows ----------------------------------------------------------------------------------


def train_tokenizer(seed):
    """A byte-level BPE tokenizer like Qwen's, of 1000 tokens and the special ones, from the training text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(QWEN_PATTERN), behavior="isolated", invert=False),
         pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    rng = random.Random(f"{seed} tokenizer")
    text = ("".join(demo_text.training_document(rng)) for _ in range(60000))
    tokenizer.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def training_rows(job):
    """One worker's part: uint16 rows of whole documents, each document followed by the end token; the end token also
    fills the row."""
    tokenizer_json, seed, n_documents, row_tokens = job
    tokenizer = Tokenizer.from_str(tokenizer_json)
    end = tokenizer.token_to_id(END)
    rng = random.Random(seed)
    rows, row = [], []
    for _ in range(0, n_documents, 1000):
        pairs = [demo_text.training_document(rng) for _ in range(1000)]
        prompts = tokenizer.encode_batch([prompt for prompt, _ in pairs])
        answers = tokenizer.encode_batch([answer for _, answer in pairs])
        for prompt, answer in zip(prompts, answers):
            ids = prompt.ids + [token | ANSWER_BIT for token in answer.ids] + [end | ANSWER_BIT]
            if len(row) + len(ids) > row_tokens:
                rows.append(row + [end] * (row_tokens - len(row)))
                row = []
            row += ids
    return np.array(rows, dtype=np.uint16)


def make_rows(tokenizer, args):
    """(short rows, long rows): four of five documents go to short rows."""
    text = tokenizer.to_str()
    n_jobs = 32
    jobs = [(text, f"{args.seed} rows {i}", args.documents // n_jobs, ROW_LONG if i % 5 == 4 else ROW_SHORT)
            for i in range(n_jobs)]
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are parallel already
    with multiprocessing.Pool() as pool:
        parts = pool.map(training_rows, jobs, chunksize=1)
    return [torch.from_numpy(np.concatenate([part for part in parts if part.shape[1] == tokens]).astype(np.int32))
            for tokens in (ROW_SHORT, ROW_LONG)]


# --- model ----------------------------------------------------------------------------------------------------------


def quantize(weight):
    """Round to nearest, asymmetric, in groups along K.  weight [N, K] -> q [N, K/g, g], z and s [N, K/g, 1], floats.
    The scale is rounded to float16 first, as it is stored; the range always includes 0, so that z is within 0..15."""
    w = weight.float().view(weight.shape[0], -1, GROUP)
    low = w.amin(dim=-1, keepdim=True).clamp(max=0)
    high = w.amax(dim=-1, keepdim=True).clamp(min=0)
    s = ((high - low) / 15).clamp(min=1e-6).half().float()
    z = torch.round(-low / s).clamp(0, 15)
    return torch.round(w / s + z).clamp(0, 15), z, s


def quantized(weight):
    """The weight after rounding to 4 bits; gradients pass straight through."""
    q, z, s = quantize(weight.detach())
    rounded = ((q - z) * s).view(weight.shape).to(weight.dtype)
    return weight + (rounded - weight).detach()


class Projection(torch.nn.Linear):
    def __init__(self, k, n):
        super().__init__(k, n, bias=False)

    def forward(self, x, four_bits):
        return F.linear(x, quantized(self.weight) if four_bits else self.weight)


class Norm(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(n))

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight, CONFIG["rms_norm_eps"]).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, head = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.n_heads, self.n_kv_heads, self.head = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"], head
        self.q_proj = Projection(hidden, self.n_heads * head)
        self.k_proj = Projection(hidden, self.n_kv_heads * head)
        self.v_proj = Projection(hidden, self.n_kv_heads * head)
        self.o_proj = Projection(self.n_heads * head, hidden)
        self.q_norm, self.k_norm = Norm(head), Norm(head)

    def forward(self, x, cos, sin, mask, four_bits):
        rows, tokens, _ = x.shape
        q = self.q_norm(self.q_proj(x, four_bits).view(rows, tokens, self.n_heads, self.head)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x, four_bits).view(rows, tokens, self.n_kv_heads, self.head)).transpose(1, 2)
        v = self.v_proj(x, four_bits).view(rows, tokens, self.n_kv_heads, self.head).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        repeat = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.o_proj(y.transpose(1, 2).reshape(rows, tokens, -1), four_bits)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, ffn = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj, self.up_proj = Projection(hidden, ffn), Projection(hidden, ffn)
        self.down_proj = Projection(ffn, hidden)

    def forward(self, x, four_bits):
        return self.down_proj(F.silu(self.gate_proj(x, four_bits)) * self.up_proj(x, four_bits), four_bits)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), Mlp()
        self.input_layernorm, self.post_attention_layernorm = Norm(CONFIG["hidden_size"]), Norm(CONFIG["hidden_size"])

    def forward(self, x, cos, sin, mask, four_bits):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask, four_bits)
        return x + self.mlp(self.post_attention_layernorm(x), four_bits)


class Model(torch.nn.Module):
    """Qwen3 with a tied head; parameter names are those of the checkpoint without the leading 'model.'."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.layers = torch.nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = Norm(CONFIG["hidden_size"])
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                torch.nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * len(self.layers)) if deep else 1))

    def forward(self, ids, mask=None, four_bits=False):
        """ids [rows, tokens] -> logits [rows, tokens, vocab].  mask [rows, 1, tokens, tokens] or causal."""
        head = CONFIG["head_dim"]
        frequencies = CONFIG["rope_theta"] ** (-torch.arange(0, head, 2, device=ids.device) / head)
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device), frequencies).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask, four_bits)
        return F.linear(self.norm(x), self.embed_tokens.weight)


# --- training -------------------------------------------------------------------------------------------------------


def document_mask(ids, end):
    """[rows, 1, tokens, tokens]: a token attends to its own document only, which includes the end token."""
    document = torch.cumsum(ids == end, dim=1) - (ids == end).int()
    same = document[:, :, None] == document[:, None, :]
    return (same & torch.ones(same.shape[1:], dtype=torch.bool, device=ids.device).tril())[:, None]


def row_loss(model, rows, end, apart, four_bits):
    """Weighted cross entropy of rows whose answers are marked."""
    ids = rows & (ANSWER_BIT - 1)
    logits = model(ids, document_mask(ids, end) if apart else None, four_bits)
    target = ids[:, 1:]
    weight = torch.where(rows[:, 1:] >= ANSWER_BIT, 1.0, PROMPT_WEIGHT)
    weight = weight * ~((ids[:, :-1] == end) & (target == end))  # padding
    loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), target.flatten().long(), reduction="none")
    return (loss * weight.flatten()).sum() / weight.sum()


def learning_rate(progress, args):
    warm = min(1.0, progress / 0.02)
    return args.lr * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


def train(model, rows, end, args):
    """Trains in place; a schedule over steps or minutes, whichever ends first.  Returns [(step, loss), ...]."""
    device = next(model.parameters()).device
    cuda = device.type == "cuda"
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
                                  lr=args.lr, betas=(0.9, 0.98), fused=cuda)
    if cuda:
        for layer in model.layers:  # equal shapes, so one compilation serves all six
            layer.compile(dynamic=False)
    rows = [part.to(device) for part in rows]
    n_rows = [args.rows, max(1, args.rows * ROW_SHORT // ROW_LONG)]
    generator, choice = torch.Generator(device=device), random.Random(f"{args.seed} steps")
    generator.manual_seed(args.seed)
    begin, step, history = time.monotonic(), 0, []
    while True:
        progress = max(step / args.steps, (time.monotonic() - begin) / (60 * args.minutes))
        if progress >= 1:
            return history
        four_bits = progress > 0.7 and choice.random() < 0.8
        long = choice.random() < 0.2
        part = rows[long]
        batch = part[torch.randint(len(part), (n_rows[long],), device=device, generator=generator)]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(progress, args)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cuda):
            loss = row_loss(model, batch, end, not long, four_bits)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0 or step <= 3:
            history.append((step, round(loss.item(), 4)))
            print(f"step {step:6d}  {progress:5.1%}  {time.monotonic() - begin:6.1f} s  loss {history[-1][1]:.4f}"
                  f"{'  4 bits' if four_bits else ''}", flush=True)


# --- evaluation and export ------------------------------------------------------------------------------------------


@torch.no_grad()
def accuracy(model, tokenizer, task, n, four_bits):
    """Share of held-out prompts of a task whose greedy continuation is the answer followed by the end token."""
    device = next(model.parameters()).device
    end = tokenizer.token_to_id(END)
    documents = demo_text.held_out_documents(random.Random(f"accuracy {task}"), task, n)
    prompts = [tokenizer.encode(prompt).ids for prompt, _ in documents]
    answers = [tokenizer.encode(answer).ids + [end] for _, answer in documents]
    longest = max(len(p) + len(a) for p, a in zip(prompts, answers))
    ids = torch.full((n, longest + 1), end, device=device)
    for i, prompt in enumerate(prompts):
        ids[i, :len(prompt)] = torch.tensor(prompt)
    position = torch.tensor([len(prompt) for prompt in prompts], device=device)
    row = torch.arange(n, device=device)
    for _ in range(max(map(len, answers))):  # rows of unequal length; causal attention ignores padding
        logits = model(ids, None, four_bits)
        ids[row, position] = logits[row, position - 1].argmax(dim=-1)
        position = (position + 1).clamp(max=longest)
    got = ids.tolist()
    right = sum(got[i][len(p):len(p) + len(a)] == a for i, (p, a) in enumerate(zip(prompts, answers)))
    return right / n


def checkpoint_tensors(model):
    """(float16 tensors, AWQ tensors) of the model; both from the weights rounded to float16."""
    plain = {"model." + name: parameter.detach().half().cpu().contiguous()
             for name, parameter in model.named_parameters()}
    packed = {}
    for name, tensor in plain.items():
        if not name.endswith("_proj.weight"):
            packed[name] = tensor
            continue
        q, z, s = quantize(tensor)
        base = name[: -len("weight")]
        packed[base + "qweight"] = torch.from_numpy(awq_pack.pack(q.flatten(1).T.to(torch.uint8).numpy()))
        packed[base + "qzeros"] = torch.from_numpy(awq_pack.pack(z.squeeze(-1).T.to(torch.uint8).numpy()))
        packed[base + "scales"] = s.squeeze(-1).T.half().contiguous()
        again = awq_pack.dequantize(*(packed[base + key].numpy() for key in ("qweight", "qzeros", "scales")))
        if not np.array_equal(again.T, quantized(tensor.float()).numpy()):
            raise AssertionError(f"{name}: the packed weight is not the quantised one")
    return plain, packed


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def write_checkpoint(folder, tensors, quantization, tokenizer):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    end, turn_end = tokenizer.token_to_id(END), tokenizer.token_to_id("<|im_end|>")
    config = {**CONFIG, "bos_token_id": end, "eos_token_id": end}
    if quantization:
        config["quantization_config"] = quantization
    write_json(os.path.join(folder, "config.json"), config)
    write_json(os.path.join(folder, "generation_config.json"),
               {"bos_token_id": end, "eos_token_id": [end, turn_end], "pad_token_id": end, "do_sample": False})
    write_json(os.path.join(folder, "tokenizer_config.json"),
               {"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False, "bos_token": None, "eos_token": END,
                "pad_token": END, "unk_token": None, "clean_up_tokenization_spaces": False,
                "model_max_length": CONFIG["max_position_embeddings"],
                "added_tokens_decoder": {str(tokenizer.token_to_id(token)): {
                    "content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                    "special": True} for token in SPECIAL}})
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for demo/, demo-fp16/ and report.json")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--steps", type=int, default=14500, help="training steps (default: 14500)")
    parser.add_argument("--minutes", type=float, default=60.0, help="training stops by then (default: 60)")
    parser.add_argument("--rows", type=int, default=256, help=f"rows of {ROW_SHORT} tokens a step (default: 256)")
    parser.add_argument("--documents", type=int, default=4000000, help="training documents (default: 4000000)")
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate (default: 0.002)")
    parser.add_argument("--prompts", type=int, default=500, help="held-out prompts a task (default: 500)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def main():
    args = parse_arguments()
    begin = time.monotonic()
    tokenizer = train_tokenizer(args.seed)
    rows = make_rows(tokenizer, args)
    end = tokenizer.token_to_id(END)
    tokens = sum(((part & (ANSWER_BIT - 1)) != end).sum().item() for part in rows)
    print(f"{tokenizer.get_vocab_size()} tokens; text of {tokens / 1e6:.1f} M tokens in {len(rows[0])} short and "
          f"{len(rows[1])} long rows; {time.monotonic() - begin:.1f} s", flush=True)
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    model = Model().to(args.device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    history = train(model, rows, end, args)

    torch.set_float32_matmul_precision("highest")
    plain, packed = checkpoint_tensors(model)
    write_checkpoint(os.path.join(args.out, "demo"), packed, QUANTIZATION, tokenizer)
    write_checkpoint(os.path.join(args.out, "demo-fp16"), plain, None, tokenizer)
    settings = {key: value for key, value in vars(args).items() if key != "out"}
    report = {"arguments": settings, "torch": torch.__version__, "seconds": round(time.monotonic() - begin, 1),
              "loss": history, "accuracy": {}}
    model = Model().to(args.device)  # a fresh model: not compiled, with the weights in the files
    model.load_state_dict({name[len("model."):]: tensor.float() for name, tensor in plain.items()})
    for task in demo_text.TASKS:
        if task != "fact":
            n = min(args.prompts, 60) if task == "following" else args.prompts  # that task has few held-out prompts
            got = {name: accuracy(model, tokenizer, task, n, bits) for name, bits in (("fp16", False), ("awq", True))}
            report["accuracy"][task] = {"prompts": n, **got}
            print(f"{task:14s} fp16 {got['fp16']:7.2%}  awq {got['awq']:7.2%}", flush=True)
    write_json(os.path.join(args.out, "report.json"), report)


if __name__ == "__main__":
    main()
