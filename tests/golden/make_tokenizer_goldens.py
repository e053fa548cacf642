#!/usr/bin/env python3
"""Makes the tokenizer goldens: for each kind of tokenizer.json a small trained one, and the results of the public
`tokenizers` package for thousands of strings.

Each kind is a folder of --out with tokenizer.json and cases.jsonl. A line of the latter is one of
  {"t": text, "i": ids, "n": ids without special tokens, "d": decoded, "s": decoded without special tokens}
  {"x": ids, "d": decoded, "s": decoded without special tokens}
where "n" is left out if it equals "i", "d" if it equals "t", "s" if it equals "d".

Most strings hold characters of Unicode 14, which Python 3.11 has; the last ones of each kind hold later characters too.
The same seed gives the same files with the same version of the package (made with tokenizers 0.23.3).

Needs: pip install tokenizers unicodedata2==18.0.0. Example:
python3 make_tokenizer_goldens.py --out /tmp/goldens --strings 20000 --seed 7
"""
import argparse
import collections
import json
import pathlib
import random
import unicodedata

import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPACE = "\u2581"  # SentencePiece's symbol for a space

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        r"\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_V3 = [
    r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
]
DEEPSEEK_LLM = [
    "[\r\n]", "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u0370-\u0373\u0386\u0388-\u03ff\u0400-\u0481]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", "\\s+$",
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
]

WORDS = {
    "en": "the quick brown fox jumps over a lazy dog and then some while it's raining we'll they've don't isn't I'm "
          "you'd tokenizer model language running faster lower newest widest unbelievable information station nation",
    "de": "der schnelle braune Fuchs springt über den faulen Hund größer Straße Mädchen Übung Wörterbuch nicht schön",
    "fr": "le petit garçon a mangé une pêche à l'école déjà où naïve œuvre c'est qu'il aujourd'hui français",
    "es": "el niño comió mañana ¿qué? ¡hola! corazón español año",
    "pl": "zażółć gęślą jaźń pchnąć w tę łódź jeża lub ośm skrzyń fig",
    "vi": "tiếng Việt không phải là một ngôn ngữ khó học",
    "ru": "съешь ещё этих мягких французских булок да выпей чаю быстрая лиса",
    "el": "η γρήγορη αλεπού πηδάει πάνω από το σκυλί Ελληνικά",
    "ar": "الثعلب البني السريع يقفز فوق الكلب الكسول مُحَمَّد ١٢٣",
    "he": "שועל חום מהיר קופץ מעל כלב עצלן בְּרֵאשִׁית",
    "hi": "तेज़ भूरी लोमड़ी आलसी कुत्ते पर कूदती है १२३",
    "th": "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ",
    "zh": "快速的棕色狐狸跳过了懒狗 人工智能 模型 语言 今天 天气 很 好 我们 去 公园 散步",
    "ja": "素早い茶色の狐がのろまな犬を飛び越える カタカナ ひらがな 東京 コンピュータ が ガ",
    "ko": "빠른 갈색 여우가 게으른 개를 뛰어넘는다 한국어 안녕하세요",
    "code": "def main(self): return {} != [] && x->y; printf(\"%d\\n\", i++); // TODO: fix #include <stdio.h> 0x1F "
            "a_b__c",
    "num": "1 12 123 1234 12345 3.14159 1,000,000 2024-01-31 10:30 +1-555-0100 50% ½ ² Ⅷ ٣ 三 ①",
    "emoji": "😀 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ☕️ 1️⃣ 🤷🏿‍♂️",
}

HARD = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", " \n", "\n ", "\t", " \t \n\n  x", "a", " a", "a ", "  a", "a  b",
    "a\n\nb",
    "\u00a0", "\u3000a", "\u2003 \u2003", "a\u0085b", "a\u2028b\u2029c", "\u180e", "a\u180eb", " \u180e ", "\ufeffa",
    "a\u200bb",
    "\u200d", "a\u200cb", "\x00", "a\x00b", "\x00\x00", "\x01\x02\x7f\x80\x9f\xad", "\x1b[0m", "'s", "it's", "IT'S",
    "it'S 'T 'RE",
    "'\u017f", "it'\u017fx", "'ll'LL'lL", "don''t", "'''", "\u2019s it\u2019s", "a'b'c'd", "'d've",
    "Don't you'd we'll I'm they've",
    "e\u0301", "\u00e9", "e\u0301\u0323", "e\u0323\u0301", "\u1e69\u0323\u0307", "s\u0323\u0307", "s\u0307\u0323",
    "\u0301", " \u0301",
    "\u0344", "\u212b\u2126", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u1100\uac00", "\u0915\u093c", "\u0958",
    "\ufb01\ufb03", "\u2460\u00bd",
    "\uff21\uff42\uff13", "\ufdfa", "\u3307", "a\u0340\u0341b", "\u0f43", "\u2adc", "\U0001d15e", "\U0002f800",
    "\ufb1d",
    "\u4e2d\u6587", "\u4e2d\u6587 \u4e2d\u6587", "\u3042\u30a2", "\u304c\u304b\u3099", "\ud55c\uae00",
    "\u1112\u1161\u11ab", "\u9fa5\u9fa6\u9fff",
    "\U00020000", "\u0e01\u0e33", "1234567890", "12 345 6", "1 2 3", "\u0661\u0662", "\u00b2\u00b3\u00b9", "\u2167",
    "1.5e-10", "a1b2c3",
    "x=1", "x = 1", "!?", " !?", "!?\n", "!?\r\n\n x", "...", ". . .", "--", "->", "<|", "<|im", "<|im_start", "|>",
    "<s", "</s", "s>",
    "<", ">", "<<s>>", "\ue000\uf8ff", "\U000f0000\U0010fffd", "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001f44d\U0001f3fd", "\u00df\u1e9e", "\u0130\u0131",
    "\u01c5\u01c8", "\u02b0\u02bc",
    SPACE, SPACE * 3, "a" + SPACE + "b", " " + SPACE, SPACE + " ", "<0x0A>", "<0x41>", "\u00c4\u00d6\u00dc",
    "\u0100\u0101\u0120\u0143",
    "\u0120hello\u010aworld", "a" * 100, "ab" * 60, " " * 70, "\n" * 40, "\u4e2d" * 50, "\u0301" * 20, "=" * 64,
    "a " * 40, "0" * 30,
    "The quick brown fox.\n\nJumps over:\n\t- the lazy dog\n\t- 12,345 cats\r\n", "x\n  y\n    z\n", "  leading",
    "trailing  ",
    "https://example.org/a?b=c&d=%20#e", "C:\\dir\\file.txt", "a@b.c", "$1,000.00", "f(x)=\u2211x\u00b2",
    "\u20ac5 \u00a33 \u00a57",
]


def training_text(rng, n_lines):
    languages = list(WORDS)
    for _ in range(n_lines):
        words = WORDS[rng.choice(languages)].split(" ")
        line = " ".join(rng.choice(words) for _ in range(rng.randint(3, 14)))
        yield line + rng.choice(["", ".", "!\n", "?", "\n\n", ", "])


ASSIGNED = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
COMMON = [c for c in ASSIGNED if c < 0x3100 or 0xfe00 <= c < 0x10000 or 0x1f000 <= c < 0x1fb00]
MARKS = [c for c in ASSIGNED if unicodedata.combining(chr(c))]
SPACES = [c for c in ASSIGNED if chr(c).isspace()] + [0x180e, 0x200b, 0x2581]
LATER = {}  # characters by category that Unicode 14 lacks
for later in range(0x110000):
    if unicodedata.category(chr(later)) == "Cn" != unicodedata2.category(chr(later)):
        LATER.setdefault(unicodedata2.category(chr(later)), []).append(later)


def random_unicode(rng):
    pools = rng.choices([ASSIGNED, COMMON, MARKS, SPACES, range(128), range(256), range(0x4e00, 0x9fd0)],
                        k=rng.randint(1, 4))
    return "".join(chr(rng.choice(rng.choice(pools))) for _ in range(rng.randint(1, 14)))


def random_mixture(rng, added):
    parts = []
    for _ in range(rng.randint(1, 9)):
        kind = rng.randrange(9)
        if kind < 3:
            parts.append(rng.choice(WORDS[rng.choice(list(WORDS))].split(" ")))
        elif kind == 3:
            parts.append(rng.choice([" ", "  ", "\n", "\t", "\r\n", "\u00a0", " \n ", "   "]))
        elif kind == 4:
            parts.append(rng.choice(HARD)[:12])
        elif kind == 5:
            parts.append(chr(rng.choice(COMMON)))
        elif kind == 6:
            parts.append(rng.choice("'\"<>|_-.,!?()[]{}/\\@#$%^&*+=~`;:0123456789ABCxyz "))
        elif added:
            token = rng.choice(added)
            a, b = (0, len(token)) if rng.random() < 0.7 else sorted(rng.choices(range(len(token) + 1), k=2))
            parts.append(token[a:b])
    return "".join(parts)


def random_later(rng):
    """Later characters of all categories next to others from which they may be cut or with which they may be joined."""
    parts = []
    for _ in range(rng.randint(1, 10)):
        if rng.random() < 0.6:
            parts.append(chr(rng.choice(LATER[rng.choice(list(LATER))])))
        else:
            parts.append(chr(rng.choice(rng.choice([MARKS, SPACES, range(0x21, 0x7f), range(0x30, 0x3a)]))))
    return "".join(parts)


def byte_level(vocab_size, **options):
    return Tokenizer(models.BPE(**options)), trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)


def sentencepiece(lines, vocab_size, first_tokens, n_characters=150, **options):
    """The most frequent characters have tokens. They are chosen here, because the trainer breaks ties at random."""
    counts = collections.Counter(unicodedata.normalize("NFKD", "".join(lines)) + "".join(lines))
    ranked = sorted(counts, key=lambda c: (-counts[c], c))
    alphabet = ([SPACE] + [c for c in ranked if not c.isspace()])[:n_characters]
    return Tokenizer(models.BPE(**options)), trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=first_tokens, initial_alphabet=alphabet, limit_alphabet=n_characters,
        show_progress=False)


def with_bos(token, token_id):
    return processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1",
                                         special_tokens=[(token, token_id)])


def special(text, **flags):
    return AddedToken(text, special=True, **{"normalized": False, **flags})


def plain(text, **flags):
    return AddedToken(text, special=False, **{"normalized": False, **flags})


BYTES = [f"<0x{b:02X}>" for b in range(256)]
LLAMA2_DECODER = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]


def drop_added(data, texts):
    """The trainer marks its given tokens as added; byte tokens are ordinary tokens."""
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] not in texts]


def legacy_merges(data):
    data["model"]["merges"] = [" ".join(merge) for merge in data["model"]["merges"]]


# Each kind: a function that trains a tokenizer and returns it, with an optional edit of its JSON.
def make_qwen3(lines):
    tokenizer, trainer = byte_level(1500)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(QWEN), "isolated"), 
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([special(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>",
                                                       "<|object_ref_start|>")])
    tokenizer.add_tokens([plain(t) for t in ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im|>")])
    return tokenizer, None


def make_llama3(lines):
    tokenizer, trainer = byte_level(1200, ignore_merges=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                                    with_bos("<|begin_of_text|>", 0)])

    def edit(data):
        vocab = data["model"]["vocab"]  # some whole words without merges that lead to them
        for word in ("\u0120fox", "\u0120unbelievable", "123"):
            if word in vocab:
                data["model"]["merges"] = [m for m in data["model"]["merges"] if "".join(m) != word]
            vocab.setdefault(word, len(vocab))
        names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
        names += [f"<|reserved_special_token_{i}|>" for i in range(12)]
        data["added_tokens"] = [{"id": len(vocab) + i, "content": name, "single_word": False, "lstrip": False,
                                 "rstrip": False, "normalized": False, "special": True} for i, name in enumerate(names)]
        template = data["post_processor"]["processors"][1]
        template["special_tokens"]["<|begin_of_text|>"]["ids"] = [len(vocab)]
        legacy_merges(data)

    return tokenizer, edit


def make_o200k(lines):
    tokenizer, trainer = byte_level(800)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(O200K), "removed", invert=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([special(t) for t in ("<|startoftext|>", "<|return|>", "<|message|>")])
    return tokenizer, None


def make_gpt2(lines):
    tokenizer, trainer = byte_level(700)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([special("<|endoftext|>", normalized=True)])

    def edit(data):
        del data["model"]["type"], data["version"]  # the first files had neither
        data["model"]["merges"] = ["#version: 0.2"] + [" ".join(merge) for merge in data["model"]["merges"]]

    return tokenizer, edit


def make_deepseek(lines, patterns, digits, vocab_size):
    tokenizer, trainer = byte_level(vocab_size)
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps += [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainer)
    names = ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
             "<\uff5cUser\uff5c>"]
    tokenizer.add_special_tokens([special(t) for t in names])
    tokenizer.add_tokens([plain("<think>"), plain("<\uff5ctool\u2581sep\uff5c>"),
                          AddedToken("\u00f8", normalized=True, special=False)])
    tokenizer.post_processor = with_bos(names[0], tokenizer.token_to_id(names[0]))
    return tokenizer, None


def make_llama2(lines):
    tokenizer, trainer = sentencepiece(lines, 1300, ["<unk>", "<s>", "</s>"] + BYTES, unk_token="<unk>",
                                       byte_fallback=True, fuse_unk=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = with_bos("<s>", 1)

    def edit(data):
        drop_added(data, BYTES)
        legacy_merges(data)

    return tokenizer, edit


def make_metaspace_first(lines):
    tokenizer, trainer = sentencepiece(lines, 1000, ["<unk>", "<s>", "</s>"] + BYTES, unk_token="<unk>",
                                       byte_fallback=True, fuse_unk=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens([plain("[INST]"), plain("[/INST]"), plain("<br>", lstrip=True, rstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B:1",
                                                             special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer, lambda data: drop_added(data, BYTES)


def make_metaspace_always(lines):
    tokenizer, trainer = sentencepiece(lines, 700, ["<unk>", "<s>"], unk_token="<unk>")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(SPACE, prepend_scheme="always")
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer, None


def make_metaspace_never(lines):
    tokenizer, trainer = sentencepiece(lines, 500, ["<unk>"], unk_token="<unk>", fuse_unk=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("\u00b7", prepend_scheme="never")])
    tokenizer.decoder = decoders.Metaspace("\u00b7", prepend_scheme="never")
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer, None


def make_metaspace_pieces(lines):
    """A prefix only at the start of the text, after other steps have cut it and added tokens were extracted."""
    tokenizer, trainer = sentencepiece(lines, 500, ["<unk>"], unk_token="<unk>", fuse_unk=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"[a-c]|\p{N}+|\p{P}"), "merged_with_previous"),
         pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=True)])
    tokenizer.decoder = decoders.Metaspace(SPACE, prepend_scheme="first")
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens([plain("fox"), plain("the", normalized=True)])
    return tokenizer, None


def make_added(lines):
    """Every flag of added tokens, some of which overlap or share a prefix; no decoder."""
    tokenizer, trainer = byte_level(500)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([special("<l>", lstrip=True), special("<r>", rstrip=True),
                                  special("<lr>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([
        plain("word", single_word=True), plain("wordy"), plain("ab"), plain("abc"), plain("abcd", single_word=True),
        plain("bcde"),
        plain("\n\n"), plain("  "), plain("\t", lstrip=True, rstrip=True), plain("e\u0301", normalized=True),
        plain("caf\u00e9", normalized=True, single_word=True),
        plain("\u4e2d\u6587", single_word=True), plain("fox", normalized=True),
        plain("s\u0323\u0307", normalized=True, lstrip=True),
        plain("nn", rstrip=True), plain("the", single_word=True, lstrip=True, rstrip=True),
        special("<n>", normalized=True)])
    return tokenizer, None


def make_added_prepend(lines):
    """Added tokens that the normaliser changes, special ones among them."""
    tokenizer, trainer = sentencepiece(lines, 600, ["<unk>"] + BYTES, unk_token="<unk>", byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([special("<s>", normalized=True), special("</s>", normalized=True), special("<pad>"),
                                  special(" <m>", normalized=True, rstrip=True)])
    tokenizer.add_tokens([plain("the", normalized=True), plain("fox dog", normalized=True),
                          plain("\u2581x", normalized=False), plain("ox", single_word=True)])
    return tokenizer, lambda data: drop_added(data, BYTES)


def make_splits(lines):
    """Every behaviour of Split, also inverted."""
    tokenizer, trainer = byte_level(400)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("-", "merged_with_next"), pre_tokenizers.Split("_", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[.,]"), "contiguous"), pre_tokenizers.Split(";", "removed"),
        pre_tokenizers.Split(Regex(r"\d+"), "merged_with_next", invert=True),
        pre_tokenizers.Split(Regex(r"\w+"), "contiguous", invert=True),
        pre_tokenizers.Split(Regex(r"[\s\u0301]"), "merged_with_previous", invert=True),
        pre_tokenizers.Split(Regex(r"(?=[A-Z])"), "isolated"), pre_tokenizers.Split(Regex(r"a*(?=A)"), "removed"),
        pre_tokenizers.Split(Regex(r"\p{Han}|\p{^L}(?<!\S)|[\h]{4}|$"), "isolated"),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    # Trained without the splits, on text full of delimiters: merges cross every cut, so that cuts change the ids.
    splits = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    rng = random.Random(5)
    delimiters = ["-", "--", "---", "_", "__", ".", ",", ".,", "...", ";", ";;", " ", "  ", "1", "12", "345", "A", "aa",
                  "\n"]
    tokenizer.train_from_iterator(("".join(rng.choice(delimiters) + rng.choice(["", "x", "y", "xy", "\u4e2d"])
                                           for _ in range(9))
                                   for _ in range(4000)), trainer)
    tokenizer.pre_tokenizer = splits
    return tokenizer, None


def make_whitespace(lines):
    tokenizer, trainer = sentencepiece(lines, 500, [], n_characters=400)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.normalizer = normalizers.NFD()
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer, None


def make_nfkc(lines):
    tokenizer, trainer = sentencepiece(lines, 600, ["<unk>"] + BYTES, unk_token="<unk>", byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace(" ", SPACE),
         normalizers.Prepend(SPACE)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Replace(Regex(f"{SPACE}+"), " "), decoders.Strip(" ", 0, 1), decoders.Fuse(),
         decoders.Strip("a", 2, 0)])
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer, lambda data: drop_added(data, BYTES)


def make_partial_bytes(lines, fuse_unk):
    """Byte fallback without most of the bytes, so that unknown characters and bytes mix."""
    tokenizer, trainer = sentencepiece(lines, 400, ["<unk>"] + BYTES[::3], n_characters=60, unk_token="<unk>",
                                       byte_fallback=True, fuse_unk=fuse_unk)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE, prepend_scheme="first"),
                                           decoders.Fuse()])
    tokenizer.train_from_iterator(lines, trainer)

    def edit(data):
        drop_added(data, BYTES)
        for text in ("<0x+5>", "<0xG1>", "<0xe2>", "<0x\u00e9>", "<0x041>"):  # names of bytes, or almost
            data["model"]["vocab"][text] = len(data["model"]["vocab"])

    return tokenizer, edit


KINDS = {
    "qwen3": (make_qwen3, 4),
    "llama3": (make_llama3, 4),
    "llama2": (make_llama2, 4),
    "deepseek_v3": (lambda lines: make_deepseek(lines, DEEPSEEK_V3, False, 1200), 4),
    "deepseek_llm": (lambda lines: make_deepseek(lines, DEEPSEEK_LLM, True, 600), 2),
    "metaspace_first": (make_metaspace_first, 3),
    "metaspace_always": (make_metaspace_always, 2),
    "metaspace_never": (make_metaspace_never, 1),
    "metaspace_pieces": (make_metaspace_pieces, 1),
    "o200k": (make_o200k, 2),
    "gpt2": (make_gpt2, 2),
    "added": (make_added, 3),
    "added_prepend": (make_added_prepend, 2),
    "splits": (make_splits, 2),
    "whitespace": (make_whitespace, 1),
    "nfkc": (make_nfkc, 2),
    "partial_bytes_fused": (lambda lines: make_partial_bytes(lines, True), 1),
    "partial_bytes": (lambda lines: make_partial_bytes(lines, False), 1),
}


def encode_case(tokenizer, text):
    ids = tokenizer.encode(text).ids
    without = tokenizer.encode(text, add_special_tokens=False).ids
    case = {"t": text, "i": ids}
    if without != ids:
        case["n"] = without
    return add_decoded(tokenizer, case, ids, text)


def add_decoded(tokenizer, case, ids, same):
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    skipped = tokenizer.decode(ids, skip_special_tokens=True)
    if decoded != same:
        case["d"] = decoded
    if skipped != decoded:
        case["s"] = skipped
    return case


def without_panic(make):
    """The package panics if Strip removes more than there is, and if two added tokens compete for the same white
    space."""
    try:
        return make()
    except BaseException as error:
        if "Panic" not in type(error).__name__:
            raise
        return None


def make_kind(kind, folder, n_strings, seed):
    make, weight = KINDS[kind]
    rng = random.Random(f"{seed} {kind}")
    tokenizer, edit = make(list(training_text(rng, 4000)))
    data = json.loads(tokenizer.to_str())
    if edit:
        edit(data)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(path))
    added = [token["content"] for token in data["added_tokens"]]
    cases, n_left_out = [], 0
    texts = HARD + ["a<r> \tb", "a<r>\t\tb", "\t\t", "<r>\n\nb"] + added
    texts += [f"a {t} b" for t in added] + [f"x{t}{t}\n{t} y" for t in added]
    while len(texts) < n_strings * weight:
        texts.append(random_unicode(rng) if rng.random() < 0.4 else random_mixture(rng, added))
    later_rng = random.Random(f"{seed} {kind} later")
    texts += [random_later(later_rng) for _ in range(n_strings * weight // 15)]
    for text in texts:
        case = without_panic(lambda: encode_case(tokenizer, text))
        if case:
            cases.append(case)
        else:
            n_left_out += 1
    vocab_size = tokenizer.get_vocab_size()
    byte_ids = [i for i in (tokenizer.token_to_id(b) for b in BYTES) if i is not None] or list(range(vocab_size))
    for _ in range(n_strings * weight // 4):
        pool = rng.choice([range(vocab_size), byte_ids, byte_ids[-128:] + list(range(vocab_size - 5, vocab_size))])
        ids = [rng.choice(pool) for _ in range(rng.randint(1, 12))]
        case = without_panic(lambda: add_decoded(tokenizer, {"x": ids}, ids, None))
        if case:
            cases.append(case)
    lines = "".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n" for case in cases)
    (folder / "cases.jsonl").write_text(lines, encoding="utf-8")
    print(f"{kind}: {vocab_size} tokens, {len(cases)} cases, {len(lines.encode())} bytes, {n_left_out} strings left "
          "out")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "tokenizer",
                        help="where to write")
    parser.add_argument("--strings", type=int, default=450, help="strings for a kind of weight 1 (default 450)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (repeatable)")
    args = parser.parse_args()
    assert unicodedata.unidata_version == "14.0.0", "needs the Python 3.11 line, whose character data is Unicode 14"
    assert unicodedata2.unidata_version == "18.0.0", "needs unicodedata2 18.0.0"
    for kind in args.kind or KINDS:
        make_kind(kind, args.out / kind, args.strings, args.seed)


if __name__ == "__main__":
    main()
