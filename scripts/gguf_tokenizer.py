"""tokenizer.json, tokenizer_config.json and the special tokens of a GGUF file. Part of convert_gguf.py.

Byte-level BPE ("gpt2") has its merges in the file; the regular expressions are those of the original models'
tokenizer.json. SentencePiece's BPE ("llama") has scores: a merge exists for each division of a normal piece into two
normal pieces, and the piece's score is its rank, as transformers' converter of SentencePiece models computes merges.
"""

from gguf_file import GgufError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
KEY = "tokenizer.ggml."
SPACE = "\u2581"  # SentencePiece's character for a space
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASES = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
         r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3, QWEN2 = WORDS + r"\p{N}{1,3}" + REST, WORDS + r"\p{N}" + REST
PATTERNS = {"llama-bpe": LLAMA3, "llama3": LLAMA3, "llama-v3": LLAMA3, "qwen2": QWEN2, "deepseek-r1-qwen": QWEN2,
            "tekken": CASES, "gpt-2": None, "smollm": None}  # None: the expression of ByteLevel itself
WHOLE_WORDS_FIRST = ("llama-bpe", "llama3", "llama-v3", "tekken")  # ignore_merges, and a first token by default
COMPOSED = ("qwen2", "deepseek-r1-qwen")
# The names by which llama.cpp recognises tokens that end an answer, in addition to eos, eot and eom.
ENDS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<|end_of_text|>")
SAMPLING = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
            "penalty_repeat": "repetition_penalty"}


class Vocabulary:
    """Tokens with their types; ids are places in the lists. Rows that the converter of llama.cpp added to fill the
    embedding have no token."""

    def __init__(self, metadata, n_rows):
        self.path = metadata.path
        self.texts = metadata.get(KEY + "tokens", list)
        self.types = metadata.get(KEY + "token_type", list, [NORMAL] * len(self.texts))
        self.scores = metadata.get(KEY + "scores", list, None)
        for key, values in (("token_type", self.types), ("scores", self.scores)):
            if values is not None and len(values) != len(self.texts):
                raise GgufError(f"{self.path}: key {KEY}{key}: expected {len(self.texts)} elements, one a token, "
                                f"found {len(values)}")
        if len(self.texts) > n_rows:
            raise GgufError(f"{self.path}: {len(self.texts)} tokens, but the embedding has {n_rows} rows")
        self.ids = {}
        for i, text in enumerate(self.texts):
            if self.types[i] == UNUSED and text == f"[PAD{i}]":
                continue
            if self.ids.setdefault(text, i) != i:
                raise GgufError(f"{self.path}: key {KEY}tokens: {text!r} has two ids, {self.ids[text]} and {i}")

    def added(self):
        """added_tokens of tokenizer.json: found in a text before any other token, and never merged."""
        return [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                 "special": self.types[i] != USER_DEFINED}
                for text, i in self.ids.items() if self.types[i] in (UNKNOWN, CONTROL, USER_DEFINED)]

    def special_id(self, metadata, name):
        """The id of a special token, or None."""
        value = metadata.integer(f"{KEY}{name}_token_id", None)
        if value is not None and not 0 <= value < len(self.texts):
            raise GgufError(f"{self.path}: key {KEY}{name}_token_id: {value} is not one of {len(self.texts)} tokens")
        return value


def scored_merges(vocabulary):
    """Pairs of pieces in the order of their merging: the best score first, then the lower id."""
    if vocabulary.scores is None:
        raise GgufError(f"{vocabulary.path}: key {KEY}scores is missing")
    normal = {text: i for text, i in vocabulary.ids.items() if vocabulary.types[i] == NORMAL}
    ranked = []
    for text, i in normal.items():
        for at in range(1, len(text)):
            if text[:at] in normal and text[at:] in normal:
                ranked.append((-vocabulary.scores[i], i, text[:at], text[at:]))
    return [[left, right] for _, _, left, right in sorted(ranked)]


def sentencepiece(metadata, vocabulary):
    """The parts of tokenizer.json for SentencePiece's BPE with bytes for unknown characters."""
    metadata.refuse_other(KEY + "remove_extra_whitespaces", False)
    has_prefix = metadata.get(KEY + "add_space_prefix", bool, True)
    unknown = vocabulary.special_id(metadata, "unknown")
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    decoders = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}]
    if has_prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, spaces]}
            if has_prefix else spaces,
            "pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {"type": "BPE", "dropout": None,
                      "unk_token": None if unknown is None else vocabulary.texts[unknown],
                      "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                      "byte_fallback": True, "ignore_merges": False, "vocab": vocabulary.ids,
                      "merges": scored_merges(vocabulary)}}


def read_merges(metadata, vocabulary):
    merges = []
    for line in metadata.get(KEY + "merges", list):
        pair = line.split(" ")
        if len(pair) != 2 or not all(text in vocabulary.ids for text in (*pair, "".join(pair))):
            raise GgufError(f"{metadata.path}: key {KEY}merges: {line!r} is not two tokens that make a third")
        merges.append(pair)
    return merges


def pre_tokenizer(name, has_prefix):
    last = {"type": "ByteLevel", "add_prefix_space": has_prefix, "trim_offsets": True,
            "use_regex": PATTERNS[name] is None}
    if PATTERNS[name]:
        first = {"type": "Split", "pattern": {"Regex": PATTERNS[name]}, "behavior": "Isolated", "invert": False}
    elif name == "smollm":
        first = {"type": "Digits", "individual_digits": True}
    else:
        return last
    return {"type": "Sequence", "pretokenizers": [first, last]}


def byte_level(metadata, vocabulary):
    """The parts of tokenizer.json for byte-level BPE. Added tokens are not in the model's vocabulary, unless merges
    make them."""
    name = metadata.get(KEY + "pre", str)
    if name not in PATTERNS:
        raise GgufError(f"{metadata.path}: key {KEY}pre: pre-tokenizer {name!r} is not supported; supported: "
                        f"{', '.join(PATTERNS)}")
    merges = read_merges(metadata, vocabulary)
    made = {"".join(pair) for pair in merges}
    vocab = {text: i for text, i in vocabulary.ids.items()
             if vocabulary.types[i] not in (CONTROL, USER_DEFINED) or text in made}
    return {"normalizer": {"type": "NFC"} if name in COMPOSED else None,
            "pre_tokenizer": pre_tokenizer(name, metadata.get(KEY + "add_space_prefix", bool, False)),
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": name in WHOLE_WORDS_FIRST, "vocab": vocab, "merges": merges}}


MODELS = {"llama": sentencepiece, "gpt2": byte_level}


def template(first, last, texts):
    """post_processor of tokenizer.json: the ids before and after a text."""
    piece = {i: {"SpecialToken": {"id": texts[i], "type_id": 0}} for i in first + last}
    around = lambda which, kind: [*(piece[i] for i in first), {"Sequence": {"id": which, "type_id": kind}},
                                  *(piece[i] for i in last)]
    return {"type": "TemplateProcessing", "single": around("A", 0), "pair": around("A", 0) + around("B", 1),
            "special_tokens": {texts[i]: {"id": texts[i], "ids": [i], "tokens": [texts[i]]} for i in first + last}}


def special_files(metadata, vocabulary, special):
    """{file: content} of generation_config.json and tokenizer_config.json, without the flags for texts."""
    ends = [special[name] for name in ("eos", "eot", "eom") if special[name] is not None]
    ends += [i for text in ENDS if (i := vocabulary.ids.get(text)) is not None and vocabulary.types[i] == CONTROL]
    generation = {"bos_token_id": special["bos"], "eos_token_id": list(dict.fromkeys(ends)),
                  "pad_token_id": special["padding"]}
    sampling = {name: metadata.number(f"general.sampling.{key}", None) for key, name in SAMPLING.items()}
    sampling = {name: value for name, value in sampling.items() if value is not None}
    if sampling:
        generation.update(do_sample=sampling.get("temperature", 1) != 0, **sampling)
    text_of = lambda name: None if special[name] is None else vocabulary.texts[special[name]]
    tokens = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
              "bos_token": text_of("bos"), "eos_token": text_of("eos"), "unk_token": text_of("unknown"),
              "pad_token": text_of("padding"), "chat_template": metadata.get("tokenizer.chat_template", str, None)}
    return {"generation_config.json": {key: value for key, value in generation.items() if value not in (None, [])},
            "tokenizer_config.json": {key: value for key, value in tokens.items() if value is not None}}


def tokenizer_files(metadata, n_rows):
    """{file: content}; empty for a file without a tokenizer."""
    kind = metadata.get(KEY + "model", str, "no_vocab")
    if kind in ("no_vocab", "none"):
        return {}
    if kind not in MODELS:
        raise GgufError(f"{metadata.path}: key {KEY}model: tokenizer {kind!r} is not supported; supported: "
                        f"{', '.join(MODELS)}")
    vocabulary = Vocabulary(metadata, n_rows)
    special = {name: vocabulary.special_id(metadata, name)
               for name in ("bos", "eos", "eot", "eom", "unknown", "padding")}
    parts = MODELS[kind](metadata, vocabulary)
    has_first = metadata.get(KEY + "add_bos_token", bool,
                             kind == "llama" or metadata.get(KEY + "pre", str) in WHOLE_WORDS_FIRST)
    has_last = metadata.get(KEY + "add_eos_token", bool, False)
    around = [[special[name]] if is_wanted and special[name] is not None else []
              for is_wanted, name in ((has_first, "bos"), (has_last, "eos"))]
    files = special_files(metadata, vocabulary, special)
    files["tokenizer_config.json"].update(add_bos_token=bool(around[0]), add_eos_token=bool(around[1]))
    files["tokenizer.json"] = {"version": "1.0", "truncation": None, "padding": None,
                               "added_tokens": vocabulary.added(),
                               "post_processor": template(*around, vocabulary.texts) if any(around) else None, **parts}
    return files
