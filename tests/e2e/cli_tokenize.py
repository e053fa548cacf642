"""yoke tokenize and detokenize: arguments, standard input, lines, errors. Other tests prove the ids.

The tokenizer is byte-level with three merges and a beginning-of-text token, written here with known ids: the bytes of
"!" to "~" are 0 to 93, followed by the other bytes, "he", "hel", "hell", <s> and <|end|>.
"""

import json
import os
import shutil
import subprocess
import tempfile

import harness

HELL, BOS, END = 258, 259, 260


def byte_characters():
    """The character for each byte in a byte-level vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters, extra = {byte: chr(byte) for byte in plain}, 0
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(256 + extra)
            extra += 1
    return characters


def tokenizer_json():
    vocab = {text: i for i, text in enumerate([*byte_characters().values(), "he", "hel", "hell"])}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, text in ((BOS, "<s>"), (END, "<|end|>"))],
        "normalizer": None, "pre_tokenizer": byte_level,
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]}}},
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": ["h e", "he l", "hel l"]}}


def ids_of(text):
    """Ids of ASCII text without a merge."""
    order = {byte: i for i, byte in enumerate(byte_characters())}
    return [order[byte] for byte in text.encode()]


class Base(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        with open(os.path.join(cls.folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(tokenizer_json(), file)

    def tokenize(self, *arguments, stdin="", expect=0):
        return self.run_yoke("tokenize", "--model", self.folder, *arguments, stdin=stdin, expect=expect)

    def detokenize(self, *arguments, stdin="", expect=0):
        return self.run_yoke("detokenize", "--model", self.folder, *arguments, stdin=stdin, expect=expect)


def line(ids):
    return " ".join(map(str, ids)) + "\n"


class Tokenize(Base):
    def test_arguments(self):
        expected = line([BOS, HELL, *ids_of("o")]) + line([BOS, *ids_of("ab")])
        self.assertEqual(self.tokenize("hello", "ab").out, expected)
        self.assertEqual(self.tokenize("--", "hello", "ab").out, expected)
        self.assertEqual(self.tokenize("--no-special-tokens", "hello").out, line([HELL, *ids_of("o")]))
        self.assertEqual(self.tokenize("--format", "json", "ab", "").out,
                         f"[{BOS},{ids_of('a')[0]},{ids_of('b')[0]}]\n[{BOS}]\n")
        self.assertEqual(self.tokenize("--no-special-tokens", "").out, "\n")

    def test_special_tokens_in_the_text(self):
        self.assertEqual(self.tokenize("--no-special-tokens", "a<|end|>b").out, line([*ids_of("a"), END, *ids_of("b")]))

    def test_the_file_itself(self):
        path = os.path.join(self.folder, "tokenizer.json")
        self.assertEqual(self.run_yoke("tokenize", "-m", path, "hello").out, self.tokenize("hello").out)

    def test_stdin(self):
        self.assertEqual(self.tokenize("--no-special-tokens", stdin="ab\n").out, line(ids_of("ab")))
        self.assertEqual(self.tokenize("--no-special-tokens", stdin="ab\ncd\n\n").out, line(ids_of("ab\ncd\n")))
        self.assertEqual(self.tokenize("--no-special-tokens", stdin=b"a\0b").out, line(ids_of("a\0b")))
        self.assertEqual(self.tokenize(stdin="").out, line([BOS]))

    def test_byte_order_mark(self):
        """Skipped at the start of standard input, an ordinary character elsewhere."""
        mark = "\ufeff"
        options = ("--no-special-tokens", "--format")
        self.assertEqual(self.tokenize(*options, "text", stdin=f"{mark}ab\n").out, line(ids_of("ab")))
        self.assertEqual(self.tokenize(*options, "text", stdin=f"a{mark}b").out, line(ids_of(f"a{mark}b")))
        self.assertEqual(self.tokenize(*options, "text", f"{mark}a").out, line(ids_of(f"{mark}a")))
        out = self.tokenize(*options, "json", stdin=f'{mark}"ab"\n"{mark}a"\n').out.splitlines()
        self.assertEqual([json.loads(ids) for ids in out], [ids_of("ab"), ids_of(f"{mark}a")])
        self.assertEqual(self.detokenize(stdin=mark + line(ids_of("ab"))).out, "ab\n")

    def test_json_lines(self):
        texts = ["hello", "", "a\nb", "a\0b", "é😀", '"\\', " " * 3]
        stdin = "".join(json.dumps(text) + "\n" for text in texts)
        out = self.tokenize("--format", "json", stdin=stdin).out.splitlines()
        self.assertEqual([json.loads(ids) for ids in out],
                         [[BOS, HELL, *ids_of("o")], *([BOS, *ids_of(text)] for text in texts[1:])])
        # the last line may lack its newline
        self.assertEqual(self.tokenize("--format", "json", stdin='"ab"').out,
                         f"[{BOS},{ids_of('a')[0]},{ids_of('b')[0]}]\n")
        self.assertEqual(self.tokenize("--format", "json", stdin="").out, "")

    def test_bad_lines(self):
        lines = ['"a"', "5", "", '"b', '["a"]', '"\\udg00"', '"c"']
        done = self.tokenize("--format", "json", "--no-special-tokens", stdin="\n".join(lines) + "\n", expect=1)
        results = [json.loads(result) for result in done.out.splitlines()]
        self.assertEqual(len(results), len(lines))
        self.assertEqual([results[0], results[-1]], [ids_of("a"), ids_of("c")])
        for number, result in list(enumerate(results, 1))[1:-1]:
            self.assertEqual(list(result), ["error"])
            self.assertTrue(result["error"]["message"].startswith(f"line {number}: "), result)
            self.assertIn(f"line {number}: ", done.err)
        self.assertIn("found integer", results[1]["error"]["message"])
        self.assertIn("line 4: JSON: column ", results[3]["error"]["message"])

    def test_not_utf8(self):
        self.assertIn("UTF-8", self.tokenize(stdin=b"caf\xe9", expect=1).err)

    def test_a_line_is_answered_at_once(self):
        with subprocess.Popen([self.yoke, "tokenize", "-m", self.folder, "--format", "json"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            for text in ("a", "b"):
                process.stdin.write(json.dumps(text).encode() + b"\n")
                process.stdin.flush()
                self.assertEqual(json.loads(process.stdout.readline()), [BOS, *ids_of(text)])
            process.stdin.close()
            self.assertEqual(process.wait(harness.TIMEOUT_S), 0)

    def test_reader_goes_away(self):
        with subprocess.Popen([self.yoke, "tokenize", "-m", self.folder, "--format", "json"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            process.stdin.write(b'"a"\n' * 1000)
            process.stdin.close()
            self.assertIn(b"standard output: Broken pipe", process.stderr.read())
            self.assertEqual(process.wait(harness.TIMEOUT_S), 1)


class Detokenize(Base):
    def test_arguments(self):
        a, b = ids_of("ab")
        for arguments in ((a, HELL, b), (f"{a},{HELL},{b}",), (f"{a},{HELL}", b), (f"{a}, {HELL}, {b}",)):
            self.assertEqual(self.detokenize(*arguments).out, "ahellb\n")
        self.assertEqual(self.detokenize("--format", "json", a, HELL).out, '"ahell"\n')

    def test_special_tokens(self):
        a = ids_of("a")[0]
        self.assertEqual(self.detokenize(BOS, a, END).out, "<s>a<|end|>\n")
        self.assertEqual(self.detokenize("--no-special-tokens", BOS, a, END).out, "a\n")

    def test_stdin(self):
        a, b = ids_of("ab")
        for stdin in (f"{a} {HELL} {b}\n", f"{a},{HELL},{b}", f"{a}\n{HELL}\n{b}\n"):
            self.assertEqual(self.detokenize(stdin=stdin).out, "ahellb\n")
        self.assertEqual(self.detokenize(stdin="\n").out, "\n")

    def test_round_trip(self):
        texts = ["hello", "", "a\nb", "a\0b", "é😀 ñ", '"\\/', " <s> "]
        stdin = "".join(json.dumps(text) + "\n" for text in texts)
        ids = self.tokenize("--format", "json", "--no-special-tokens", stdin=stdin).out
        out = self.detokenize("--format", "json", stdin=ids).out.splitlines()
        self.assertEqual([json.loads(text) for text in out], texts)

    def test_invalid_bytes(self):
        half = ids_of("é")[0]
        self.assertEqual(self.run_json("detokenize", "--model", self.folder, half), ["\ufffd"])

    def test_bad_lines(self):
        lines = ["[0]", '"a"', "[0.5]", "[-1]", "[9999999]", "[99999999999]", "{}", "[1"]
        done = self.detokenize("--format", "json", stdin="\n".join(lines), expect=1)
        results = [json.loads(result) for result in done.out.splitlines()]
        self.assertEqual(len(results), len(lines))
        self.assertEqual(results[0], "!")
        for number, result in list(enumerate(results, 1))[1:]:
            self.assertTrue(result["error"]["message"].startswith(f"line {number}: "), result)

    def test_bad_arguments(self):
        self.assert_error(["detokenize", "-m", self.folder, "x"], '"x"')
        self.assert_error(["detokenize", "-m", self.folder, "9999999"], "9999999")


class Refused(Base):
    def test_no_tokenizer(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assert_error(["tokenize", "-m", folder, "a"], "tokenizer.json")
            with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
                file.write(b"\n\x09")
            self.assert_error(["tokenize", "-m", folder, "a"], "tokenizer.model", "tokenizer.json")

    def test_gguf(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model-Q4_K_M.gguf")
            with open(path, "wb") as file:
                file.write(b"GGUF")
            refusals = [self.run_yoke(*command, "--model", path, expect=1).err.split("error: ")[1]
                        for command in (["tokenize", "a"], ["detokenize", 5], ["generate", "--prompt", "a"])]
        self.assertTrue(refusals[0].startswith("model-Q4_K_M.gguf: GGUF is not read. "), refusals[0])
        self.assertEqual(refusals, [refusals[0]] * 3)

    def test_broken_file(self):
        for text in ("", "{", "[]", "{}", '{"model": {"type": "WordPiece"}}'):
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                    file.write(text)
                self.assert_error(["tokenize", "-m", folder, "a"], "tokenizer.json")


if __name__ == "__main__":
    harness.main()
