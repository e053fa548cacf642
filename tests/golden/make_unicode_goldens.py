#!/usr/bin/env python3
"""Writes tests/golden/unicode.json: the classification of each code point by the public `tokenizers` package, as
checksums.

  patterns     [pattern, number of code points that match it, CRC-32 of these in UTF-8], of a text of all code points
  forms        {form: [CRC-32]}, one for each 4096 code points, each of them between others that it may join (FRAMES)
  sample       [[first, last]]: code points with a neighbour of another category, and some of the others
  tokenizers   [{name, tokenizer: a tokenizer.json, template, sums}]: CRC-32 of the ids, as little-endian int32, of the
               template with each `*` replaced, for each 64 code points of the sample in one text

All code points exclude surrogates and include unassigned ones. Made with tokenizers 0.23.3. Needs: pip install
tokenizers regex unicodedata2 (Unicode 18.0 as made)
"""
import argparse
import json
import pathlib
import zlib

import unicodedata2
from regex import _regex_core
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from make_tokenizer_goldens import DEEPSEEK_LLM, DEEPSEEK_V3, LLAMA3, O200K, QWEN

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BLOCK, TEXT = 4096, 64
FRAMES = ["*", "a\u0345*\u0334", "*\u0301", "e*", "\u1100*\u11a8", "**"]
CUTS = "a*A*\u0301 **1* *!*'*\n*"

CLASSES = [r"\s", r"\S", r"[\s]", r"[^\s]", r"[\S]", r"\d", r"\D", r"[\d]", r"[^\D]", r"\w", r"\W", r"[\w]", r"[^\w]",
           r"[\W]", r"\h",
           r"\H", r".", r"\p{Alphabetic}", r"\P{L}", r"[^\s\p{L}\p{N}]", r"[^\r\n\p{L}\p{N}]",
           r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]",
           r"(?i:[a-z])", r"(?i:[^a-z])", r"(?i:[^\p{Lu}])", r"(?i:[^\p{Ll}\s])", r"(?i:\p{Lu})", r"(?i)s", r"(?i:k)",
           "(?i:\u00e9)", "(?i:\u03c3)", "(?i:\u03a9)", "(?i:\u00b5)", "(?i:\ua7cb)", "(?i:\u1c89)", "(?i:\u13a0)",
           "(?i:\U00010d50)", "(?i:[\u10a0-\u10ff])", "(?i:[\U00010400-\U000118ff])", "(?i:[^\x00-\u1fff])",
           "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]"]


def known(pattern):
    try:
        return Regex(pattern)
    except Exception as error:
        assert "invalid character property name" in str(error), f"{pattern}: {error}"
        return None


def property_patterns():
    """One for each category and script, by a name of letters."""
    for kind in ("GENERALCATEGORY", "SCRIPT"):
        by_value = {}
        for name, value in _regex_core.PROPERTIES[kind][1].items():
            if name.isalpha():
                by_value.setdefault(value, []).append(rf"\p{{{name.title()}}}")
        for patterns in by_value.values():
            yield from filter(known, sorted(patterns)[:1] if kind == "SCRIPT" else patterns)


def pattern_sums(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    n, total = 0, 0
    for i in range(0, len(ALL), BLOCK):
        found = "".join(part for part, _ in split.pre_tokenize_str("".join(map(chr, ALL[i:i + BLOCK]))))
        n += len(found)
        total = zlib.crc32(found.encode(), total)
    return [pattern, n, total]


def form_sums(form):
    sums = []
    for i in range(0, len(ALL), BLOCK):
        text = "".join(frame.replace("*", chr(c)) + "\n" for c in ALL[i:i + BLOCK] for frame in FRAMES)
        sums.append(zlib.crc32(form.normalize_str(text).encode()))
    return sums


def sample():
    """[[first, last]] of the code points to try in whole tokenizers."""
    chosen, begin = set(), 0
    for c in range(1, 0x110001):
        if c < 0x110000 and unicodedata2.category(chr(c)) == unicodedata2.category(chr(begin)):
            continue
        chosen.update(range(begin, c) if c - begin <= 200 else [begin, begin + 1, c - 1, *range(begin, c, 499)])
        begin = c
    ranges = []
    for c in sorted(chosen - set(range(0xD800, 0xE000))):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


def bytes_alone(pre_tokenizer=None, normalizer=None):
    """A tokenizer of bytes without merges, which shows each cut as a space."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        (pre_tokenizer or []) + [pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)])
    return tokenizer


def with_added():
    tokenizer = bytes_alone()
    tokenizer.add_tokens([AddedToken("word", single_word=True, normalized=False),
                          AddedToken("<l>", lstrip=True, normalized=False),
                          AddedToken("<r>", rstrip=True, normalized=False)])
    return tokenizer


def byte_level_words():
    """ByteLevel's own pattern; another step after it shows the cuts."""
    tokenizer = bytes_alone()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        pre_tokenizers.Metaspace("_", prepend_scheme="always", split=False)])
    return tokenizer


def split(*patterns):
    return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]


TOKENIZERS = {
    "qwen": (lambda: bytes_alone(split(QWEN), normalizers.NFC()), CUTS),
    "llama3": (lambda: bytes_alone(split(LLAMA3)), CUTS),
    "o200k": (lambda: bytes_alone(split(O200K)), CUTS),
    "deepseek_v3": (lambda: bytes_alone(split(*DEEPSEEK_V3)), CUTS),
    "deepseek_llm": (lambda: bytes_alone(split(*DEEPSEEK_LLM)), CUTS),
    "byte_level": (byte_level_words, CUTS),
    "digits": (lambda: bytes_alone([pre_tokenizers.Digits(individual_digits=True)]), CUTS),
    "numbers": (lambda: bytes_alone([pre_tokenizers.Digits(individual_digits=False)]), CUTS),
    "whitespace": (lambda: bytes_alone([pre_tokenizers.Whitespace()]), CUTS),
    "whitespace_split": (lambda: bytes_alone([pre_tokenizers.WhitespaceSplit()]), CUTS),
    "metaspace": (lambda: bytes_alone([pre_tokenizers.Metaspace("_", prepend_scheme="always")]), CUTS),
    "added": (with_added, "*word word* *<l>* *<r>*"),
}


def tokenizer_sums(name, code_points):
    make, template = TOKENIZERS[name]
    tokenizer = make()
    sums = []
    for i in range(0, len(code_points), TEXT):
        text = "".join(template.replace("*", chr(c)) for c in code_points[i:i + TEXT])
        ids = tokenizer.encode(text).ids
        sums.append(zlib.crc32(b"".join(token.to_bytes(4, "little") for token in ids)))
    return {"name": name, "tokenizer": json.loads(tokenizer.to_str()), "template": template, "sums": sums}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "unicode.json",
                        help="where to write")
    args = parser.parse_args()
    ranges = sample()
    code_points = [c for first, last in ranges for c in range(first, last + 1)]
    forms = {"NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD()}
    sections = {
        "patterns": [pattern_sums(pattern) for pattern in CLASSES + list(property_patterns())],
        "forms": [[name, form_sums(form)] for name, form in forms.items()],
        "sample": ranges,
        "tokenizers": [tokenizer_sums(name, code_points) for name in TOKENIZERS],
    }
    lines = [f'"frames":{json.dumps(FRAMES)}']
    for key, items in sections.items():
        rows = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
        lines.append(f'"{key}":[\n{rows}]')
    args.out.write_text("{" + ",\n".join(lines) + "}\n", encoding="ascii")
    print(", ".join(f"{len(items)} {key}" for key, items in sections.items()),
          f"{len(code_points)} code points in the sample")


if __name__ == "__main__":
    main()
