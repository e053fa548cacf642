#!/usr/bin/env python3
"""Writes runtime/text/unicode_tables.c: the characters of the properties, scripts and case foldings in a tokenizer's
patterns, and the characters that normalisation changes, as in the public `tokenizers` package.

The package itself is queried for each table, character by character, so that the tables match its versions of Unicode:
version 0.23.3 has Unicode 16 in patterns and Unicode 9 in normalisation. The names of properties come from the package
`regex`; names that `tokenizers` lacks are omitted.

Needs: pip install tokenizers regex. Takes a few minutes; run by hand when the package moves to another Unicode.
"""
import argparse
import pathlib

import tokenizers
from regex import _regex_core
from tokenizers import Regex, normalizers, pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = ("Cn Cc Cf Co Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp").split()


def matches(pattern, text):
    return [part for part, _ in pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(text)]


def members(pattern, code_points=ALL):
    """The code points that a pattern for one character matches; None if the package does not support the pattern."""
    found = set()
    try:
        for i in range(0, len(code_points), 4096):
            found.update(map(ord, "".join(matches(pattern, "".join(map(chr, code_points[i:i + 4096]))))))
    except Exception as error:
        if "invalid character property name" not in str(error):
            raise
        return None
    return found


def runs(value_of):
    """[(first, value)] over all code points. Surrogates, which never occur in text, belong to the run before."""
    out = []
    for c in ALL:
        if not out or out[-1][1] != value_of(c):
            out.append((c, value_of(c)))
    return out


def ranges(code_points):
    out = []
    for c in sorted(code_points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def names_of(kind):
    names = {}
    for name, value in _regex_core.PROPERTIES[kind][1].items():
        if name.isalpha():
            names.setdefault(value, []).append(name.lower())
    return names.values()


def read_categories():
    category = {}
    for index, name in enumerate(CATEGORIES):
        for c in members(rf"\p{{{name}}}"):
            assert c not in category, f"U+{c:04X} is {name} and {CATEGORIES[category[c]]}"
            category[c] = index
    assert len(category) == len(ALL)
    firsts = [c for c, _ in runs(category.get)]
    names = {}
    for aliases in names_of("GENERALCATEGORY"):
        for name in aliases:
            held = members(rf"\p{{{name}}}", firsts)
            if held is None:
                continue
            mask = sum(1 << i for i in {category[c] for c in held})
            assert held == {c for c in firsts if mask >> category[c] & 1}, f"{name} is no union of categories"
            names[name] = mask  # 0: surrogates
    return runs(category.get), names


def read_scripts():
    script, names = {}, {}
    n_scripts = 0
    for aliases in names_of("SCRIPT"):
        known = [name for name in aliases if members(rf"\p{{{name}}}", [0x41]) is not None]
        if not known:
            continue
        held = members(rf"\p{{{known[0]}}}")
        for c in held:
            assert c not in script
            script[c] = n_scripts
        names.update((name, n_scripts) for name in known)
        n_scripts += 1
    assert len(script) == len(ALL) and n_scripts <= 256
    firsts = [c for c, _ in runs(script.get)]
    for name, index in names.items():
        assert members(rf"\p{{{name}}}", firsts) == {c for c in firsts if script[c] == index}, name
    return runs(script.get), names


def read_folding():
    """For each character that differs from others only in case, the smallest of these characters; and the characters
    that fold to several characters."""
    cased = sorted(members(r"[\p{CWCM}\p{CWCF}]"))
    outside = "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in ranges(set(ALL) - set(cased)))
    assert members(f"(?i:[{outside}])") == set(ALL) - set(cased)
    smallest, text = {}, "\n".join(map(chr, cased))
    for c in cased:
        kin = {ord(part) for part in matches(f"(?i:[\\x{{{c:x}}}])", text)}
        assert c in kin
        smallest[c] = min(kin)
        assert all(smallest.get(k, min(kin)) == min(kin) for k in kin), f"U+{c:04X}"
        assert kin == {ord(part) for part in matches(f"(?i:\\x{{{c:x}}})", text)}
    smallest = {c: s for c, s in smallest.items() if list(smallest.values()).count(s) > 1}
    several = {c: chr(c).casefold() for c in cased if len(chr(c).casefold()) > 1}
    for c, long in several.items():
        assert matches(f"(?i:\\x{{{c:x}}})", long) == [long], f"U+{c:04X}"
    return smallest, several


def folding_steps(smallest):
    """Runs of characters with the same distance to the smallest of their kind: [first, last, step, distance]."""
    out = []
    for c in sorted(smallest):
        distance = c - smallest[c]
        if distance == 0:
            continue
        last = out[-1] if out else None
        step = c - last[1] if last else 0
        if last and last[3] == distance and step in (1, 2) and last[2] in (0, step):
            last[1], last[2] = c, step
        else:
            out.append([c, c, 0, distance])
    return [[a, b, step or 1, distance] for a, b, step, distance in out]


def read_normalised():
    """Code points that a normal form changes, reorders or composes. All others are unchanged in any text."""
    active, parts = set(), set()
    nfd = normalizers.NFD()
    for form in (nfd, normalizers.NFC(), normalizers.NFKC(), normalizers.NFKD()):
        for i in range(0, len(ALL), 2048):
            chunk = [c for c in ALL[i:i + 2048] if c != 10]
            for c, normal in zip(chunk, form.normalize_str("\n".join(map(chr, chunk))).split("\n")):
                if normal != chr(c):
                    active.add(c)
                    if form is nfd and len(normal) > 1:
                        parts.update(map(ord, normal))  # these may be composed again
    for i in range(0, len(ALL), 2048):  # U+0334 has the lowest combining class, U+0345 the highest
        chunk = [c for c in ALL[i:i + 2048] if c != 10]
        texts = [f"a\u0345{chr(c)}\u0334" for c in chunk]
        for c, text, normal in zip(chunk, texts, nfd.normalize_str("\n".join(texts)).split("\n")):
            if text != normal:
                active.add(c)
    return active | parts


def bit_blocks(code_points):
    """The index of the 256-bit block of each 256 code points, and the blocks: bit i % 32 of word i / 32 is code point
    i's."""
    numbers, block_of = {}, []
    for begin in range(0, 0x110000, 256):
        words = [sum(1 << bit for bit in range(32) if begin + word + bit in code_points) for word in range(0, 256, 32)]
        block_of.append(numbers.setdefault(tuple(words), len(numbers)))
    assert len(numbers) <= 256
    return block_of, list(numbers)


def write_rows(out, declaration, items, indent="    "):
    out.append(f"{declaration} = {{")
    row = indent
    for item in items:
        if len(row) + len(item) + 1 > 120:
            out.append(row.rstrip())
            row = indent
        row += item + ", "
    out.append(row.rstrip(", ") + "};")
    out.append("")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).parent.parent / "runtime/text/unicode_tables.c"
    parser.add_argument("--out", type=pathlib.Path, default=default, help="where to write (default: %(default)s)")
    args = parser.parse_args()

    categories, category_names = read_categories()
    scripts, script_names = read_scripts()
    alphabetic = ranges(members(r"\p{Alphabetic}"))
    smallest, several = read_folding()
    normalised = read_normalised()

    package = f"the package tokenizers {tokenizers.__version__}"
    out = [f"/* Written by scripts/make_unicode_tables.py from what {package} does. */",
           '#include "text/unicode_tables.h"', "", "/* clang-format off */", ""]
    tables = {
        "category_runs": [f"0x{c << 8 | value:X}" for c, value in categories],
        "script_runs": [f"0x{c << 8 | value:X}" for c, value in scripts],
    }
    for name, items in tables.items():
        write_rows(out, f"const uint32_t yk_unicode_{name}[]", items)
    pairs = {"alphabetic": alphabetic, "several": ranges(several)}
    for name, items in pairs.items():
        write_rows(out, f"const yk_code_range yk_unicode_{name}[]", [f"{{0x{a:X}, 0x{b:X}}}" for a, b in items])
    block_of, blocks = bit_blocks(normalised)
    write_rows(out, "const uint8_t yk_unicode_normalised_block_of[]", map(str, block_of))
    write_rows(out, "const uint32_t yk_unicode_normalised_blocks[][8]",
               ["{" + ", ".join(f"0x{word:X}" for word in words) + "}" for words in blocks])
    write_rows(out, "const yk_folding_run yk_unicode_foldings[]",
               [f"{{0x{a:X}, 0x{b:X}, {step}, {distance}}}" for a, b, step, distance in folding_steps(smallest)])
    long_foldings = sorted(set(several.values()))
    write_rows(out, "const uint32_t yk_unicode_long_foldings[][YK_LONG_FOLDING_MAX]",
               ["{" + ", ".join(f"0x{ord(c):X}" for c in long) + "}" for long in long_foldings])
    write_rows(out, "const yk_category_name yk_unicode_category_names[]",
               [f'{{"{name}", 0x{mask:X}}}' for name, mask in sorted(category_names.items())])
    write_rows(out, "const yk_script_name yk_unicode_script_names[]",
               [f'{{"{name}", {index}}}' for name, index in sorted(script_names.items())])
    sizes = {"category_runs": len(categories), "script_runs": len(scripts), "alphabetic": len(alphabetic),
             "several": len(ranges(several)), "foldings": len(folding_steps(smallest)),
             "long_foldings": len(long_foldings), "category_names": len(category_names),
             "script_names": len(script_names)}
    for name, size in sizes.items():
        out.append(f"const size_t yk_unicode_n_{name} = {size};")
    args.out.write_text("\n".join(out) + "\n", encoding="utf-8")
    print(", ".join(f"{name} {size}" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
