"""The text of an output continues its prompt's, as an incremental decoder of `tokenizers` gives it after the prompt.

The tokenizer is like Llama 2's: "\u2581" is a space, and the space at the start of a text is not written.
"""

import json
import os
import shutil

import harness
from batch_case import TINY, Base, openai

SPACE = "\u2581"
TOKENS = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", SPACE, "Hello", SPACE + "world", SPACE + "Hello"]
HELLO, WORLD = TOKENS.index(SPACE + "Hello"), TOKENS.index(SPACE + "world")


def write_tokenizer(folder):
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "pre_tokenizer": None, "post_processor": None,
        "added_tokens": [{"id": i, "content": TOKENS[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in range(3)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": SPACE}, {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(TOKENS)}, "merges": []},
    }
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)


class ContinuedText(Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = shutil.copytree(TINY, os.path.join(harness.scratch_folder(cls.addClassCleanup), "model"))
        write_tokenizer(cls.model)

    def output_of(self, prompt, token, n=2, **keys):
        """The text of n copies of the token after a prompt; plain and OpenAI lines give the same."""
        keys = {"prompt": prompt, "max_tokens": n, "temperature": 0, "logit_bias": {str(token): 100}, **keys}
        plain, wrapped = self.batch([keys, openai("a", **keys)], model=self.model)
        self.assertEqual(plain["token_ids"], [token] * n)
        self.assertEqual(wrapped["response"]["body"]["choices"][0]["text"], plain["text"])
        return plain["text"]

    def test_the_first_space_is_kept(self):
        self.assertEqual(self.output_of([1, HELLO], WORLD), " world world")
        self.assertEqual(self.output_of([HELLO] * 100, WORLD), " world world")
        self.assertEqual(self.output_of([HELLO, *[1] * 100], WORLD), " world world")

    def test_a_text_of_its_own_begins_without(self):
        self.assertEqual(self.output_of([1], WORLD), "world world")

    def test_nothing_of_the_prompt_comes_again(self):
        newline = TOKENS.index("<0x0A>")
        self.assertEqual(self.output_of([1, HELLO, newline], WORLD), " world world")
        self.assertEqual(self.output_of([1, HELLO, newline], newline), "\n\n")

    def test_a_character_begun_in_the_prompt(self):
        self.assertEqual(self.output_of([1, HELLO, TOKENS.index("<0xC3>")], TOKENS.index("<0xA9>"), n=1), "\u00e9")

    def test_ids_without_a_token(self):
        self.assertEqual(self.output_of([HELLO, 199], WORLD, n=1), " world")


if __name__ == "__main__":
    harness.main()
