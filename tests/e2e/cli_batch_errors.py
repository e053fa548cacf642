"""yoke batch: an invalid line affects no other line, and errors name files that cannot be read or written."""

import json
import random

import harness
from batch_case import CHAT_URL, GOOD, SMALL, TINY, URL, Base, chat, openai


@harness.of_the_program
class Errors(Base):
    BAD = [  # line, parts of the message
        ("nonsense", "JSON: column 1: "),
        ('{"prompt": [5]', "JSON: column 15: "),
        ('{"prompt": "\\ud800"}', "tokenizer"),
        ('{"prompt": [5], }', "JSON: column 17: "),
        ("[]", "expected an object, found array"),
        ("5", "expected an object, found integer"),
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": 5}, "prompt", "found integer"),
        ({"prompt": []}, "prompt", "at least one token"),
        ({"prompt": [5, "a"]}, "prompt", "an integer", "string"),
        ({"prompt": [[5], "a"]}, "prompt", "found both"),
        ({"prompt": [[5], 6]}, "prompt", "integer"),
        ({"prompt": [200]}, "prompt", "200"),
        ({"prompt": [-1]}, "prompt", "-1"),
        ({"prompt": [2**40]}, "prompt"),
        ({"prompt": "text"}, "tokenizer"),
        ({"prompt": [5] * 256}, "prompt", "255", "256"),
        ({"prompt": [[5]] * 1025}, "1024", "1025"),
        ({"prompt": [[5]] * 9, "n": 128}, "1024", "1152"),
        ({**GOOD, "max_token": 5}, 'unknown key "max_token"', "max_tokens"),
        ({**GOOD, "whatever": 5}, 'unknown key "whatever"'),
        ({**GOOD, "\u00e9" * 100: 5}, "unknown key"),
        ({**GOOD, "model": "m"}, 'unknown key "model"'),
        ({**GOOD, "id": 1, "custom_id": 1}, "custom_id", "both"),
        ({**GOOD, "id": [1]}, '"id"', "array"),
        ({**GOOD, "max_tokens": "5"}, "max_tokens", "string"),
        ({**GOOD, "max_tokens": 1.5}, "max_tokens", "an integer"),
        ({**GOOD, "max_tokens": 256}, "max_tokens", "1 to 255"),
        ({**GOOD, "max_tokens": 2**31}, "max_tokens"),
        ({**GOOD, "temperature": "hot"}, "temperature", "string"),
        ({**GOOD, "temperature": -1}, "temperature", "0 to 100"),
        ({**GOOD, "temperature": 1e300}, "temperature"),
        ({**GOOD, "top_p": 0}, "top_p", "more than 0"),
        ({**GOOD, "min_p": 2}, "min_p", "0 to 1"),
        ({**GOOD, "top_k": -2}, "top_k", "-1 to"),
        ({**GOOD, "n": 0}, '"n": expected 1 to 128, found 0'),
        ({**GOOD, "n": 129}, '"n": expected 1 to 128, found 129'),
        ({**GOOD, "n": True}, '"n"', "true"),
        ({**GOOD, "seed": 1.5}, "seed"),
        ({**GOOD, "seed": 2**64}, '"seed": expected -2^63 to 2^64 - 1, found 18446744073709551616'),
        ({**GOOD, "seed": 10**50}, '"seed": expected -2^63', "found 1000000000000000000000000000000000000000"),
        ({**GOOD, "seed": -2**63 - 1}, '"seed": expected -2^63'),
        ({**GOOD, "seed": 2**63, "max_tokens": 2**63}, '"max_tokens": expected'),
        ('{"prompt": [5], "seed": 9223372036854775808', "JSON"),
        ('{"prompt": [5], "seed": 9223372036854775808.5}', "seed"),
        ('{"prompt": [5], "seed": 09223372036854775808}', "JSON"),
        ('{"prompt": [5], "seed', "JSON"),
        ({**GOOD, "logprobs": 21}, "logprobs", "20"),
        ({**GOOD, "logprobs": True}, "logprobs"),
        ({**GOOD, "prompt_logprobs": 21}, "prompt_logprobs", "20"),
        ({**GOOD, "repetition_penalty": 0}, "repetition_penalty"),
        ({**GOOD, "presence_penalty": 3}, "presence_penalty", "-2 to 2"),
        ({**GOOD, "frequency_penalty": -3}, "frequency_penalty", "-2 to 2"),
        ({**GOOD, "min_tokens": 3}, "min_tokens", "0 to 2"),
        ({**GOOD, "ignore_eos": 1}, "ignore_eos", "true or false"),
        ({**GOOD, "stop": 5}, "stop", "string"),
        ({**GOOD, "stop": [5]}, "stop", "string"),
        ({**GOOD, "stop": ""}, "stop"),
        ({**GOOD, "stop": "a\0b"}, "stop", "NUL"),
        ({**GOOD, "stop": "a"}, "stop", "tokenizer"),
        ({**GOOD, "stop_token_ids": 5}, "stop_token_ids", "array"),
        ({**GOOD, "stop_token_ids": [200]}, "200"),
        ({**GOOD, "logit_bias": [5]}, "logit_bias", "object"),
        ({**GOOD, "logit_bias": {"x": 1}}, "logit_bias", '"x"'),
        ({**GOOD, "logit_bias": {"-5": 1}}, "logit_bias", '"-5"'),
        ({**GOOD, "logit_bias": {"200": 1}}, "logit_bias", "200"),
        ({**GOOD, "logit_bias": {"5": 101}}, "logit_bias", "-100 to 100"),
        ({**GOOD, "logit_bias": {"5": "1"}}, "logit_bias", "string"),
        ({**GOOD, "logit_bias": {"5": 1, "05": 1}}, "logit_bias", "twice"),
        (openai("c", **GOOD, temperature=-1), "temperature"),
        (openai("c", **GOOD, stream=True), "stream: not available in a batch"),
        (openai("c", **GOOD, stream_options={"include_usage": True}), "stream_options", '"stream": true'),
        (openai("c", **GOOD, response_format={"type": "xml"}), "response_format", "json_object"),
        (openai("c", **GOOD, guided_choice="a"), "guided_choice", "an array of strings"),
        (openai("c", **GOOD, suffix="s"), "suffix"),
        (openai("c", **GOOD, best_of=2), "best_of"),
        (openai("c", **GOOD, model=5), "model"),
        (openai("c"), "prompt"),
        ({**openai("c", **GOOD), "url": "/v1/chat/completions"}, '"messages": expected'),
        (chat("c", [], max_tokens=2), "messages", "at least one"),
        (chat("c", [{"role": "user", "content": "a"}], max_tokens=2), "tokenizer"),
        ({**openai("c", **GOOD), "url": "/v1/images"}, "/v1/embeddings", "/v1/responses", URL, CHAT_URL),
        ({**openai("c", **GOOD), "url": None}, "url"),
        ({**openai("c", **GOOD), "method": "GET"}, "method", "POST"),
        ({**openai("c", **GOOD), "extra": 1}, 'unknown key "extra"'),
        (openai(None, **GOOD), "custom_id"),
        ({"method": "POST", "url": URL, "body": GOOD}, "custom_id"),
        ({"custom_id": "c", "method": "POST", "url": URL, "body": 5}, "body", "object"),
        ({"custom_id": "c", "method": "POST", "url": URL}, "body"),
    ]

    def test_each(self):
        """Every bad line is between two good ones."""
        lines = [GOOD]
        for line, *_ in self.BAD:
            lines += [line, GOOD]
        results = self.batch(lines, expect=1)
        for number, ((line, *parts), result) in enumerate(zip(self.BAD, results[1::2])):
            with self.subTest(line):
                message = result["error"]["message"]
                self.assertTrue(message.startswith(f"line {2 * number + 2}: "), message)
                self.assertNotIn("line 1 column", message)
                for part in parts:
                    self.assertIn(part, message)
                if "response" in result:
                    self.assertEqual(result["response"]["status_code"], 400)
                    self.assertEqual(result["response"]["body"]["error"]["message"], message)
                else:
                    self.assertNotIn("body", line)
                    self.assertEqual(list(result)[2:], ["error", "input_hash"])
        for result in results[0::2]:
            self.assertEqual(result["finish_reason"], "length")
        self.assertIn(f"({len(self.BAD)} failed)", self.last_err)

    def test_ids_are_kept(self):
        plain, wrapped, chat = self.batch([{**GOOD, "id": "a", "n": 0}, openai("b", **GOOD, n=0),
                                           {**openai("c"), "url": "/v1/chat/completions"}], expect=1)
        self.assertEqual((plain["id"], wrapped["custom_id"], chat["custom_id"]), ("a", "b", "c"))

    def test_not_utf8(self):
        with open(self.input, "wb") as file:
            file.write(b'{"prompt": "caf\xe9"}\n{"prompt": [5], "max_tokens": 2}\n')
        self.run_yoke(*self.arguments(), expect=1)
        bad, good = self.results()
        self.assertIn("JSON", bad["error"]["message"])
        self.assertEqual(good["finish_reason"], "length")

    def test_one_bad_sample_fails_its_line(self):
        results = self.batch([{"prompt": [[5], [200], [6]], "max_tokens": 2}, GOOD], expect=1)
        self.assertIn("prompt[1]: ", results[0]["error"]["message"])
        self.assertEqual(results[1]["finish_reason"], "length")

    def test_layout_of_the_file(self):
        """Blank lines count and are skipped. A carriage return or a missing final newline is accepted."""
        with open(self.input, "w", encoding="utf-8", newline="") as file:
            file.write(f"\n{json.dumps(GOOD)}\r\n \t\r\n{json.dumps(GOOD)}")
        self.run_yoke(*self.arguments())
        self.assertEqual([result["line"] for result in self.results()], [2, 4])

    def test_byte_order_mark(self):
        expected = self.batch([GOOD, {**GOOD, "id": 5}])
        with open(self.input, "rb") as file:
            text = file.read()
        with open(self.input, "wb") as file:
            file.write("\ufeff".encode() + text)
        self.run_yoke(*self.arguments("--overwrite"))
        self.assertEqual(self.results(), expected)
        self.run_yoke(*self.arguments())  # continues at the position that the file without the mark would have
        with open(self.input, "wb") as file:
            file.write(text.replace(b"\n", b"\n\xef\xbb\xbf", 1))
        self.run_yoke(*self.arguments("--overwrite"))
        self.assertEqual(self.results()[1]["token_ids"], expected[1]["token_ids"])

    def test_nothing_to_do(self):
        for text in ("", "\n\n"):
            with open(self.input, "w", encoding="utf-8") as file:
                file.write(text)
            self.run_yoke(*self.arguments())
            self.assertEqual(self.results(), [])

    def test_a_long_line(self):
        """Longer than a single read."""
        ids = [random.Random(1).randrange(200) for _ in range(400_000)]
        results = self.batch([GOOD, {"prompt": ids}, GOOD], expect=1)
        self.assertIn("400000", results[1]["error"]["message"])
        self.assertEqual(results[2]["finish_reason"], "length")

    def test_usage(self):
        self.assert_usage_error(["batch", "-m", TINY], "input file")
        self.assert_usage_error(["batch", "-m", TINY, "a", "b"], "input file")
        self.assert_usage_error(["batch", "a"], "--model MODEL) and an input file, found only \"a\"")
        self.assert_usage_error(["batch", "-m", TINY, "--max-in-flight", "0", "a"], "--max-in-flight")

    def test_files(self):
        self.assert_error(["batch", "-m", TINY, "/no/such/file"], "/no/such/file")
        self.assert_error(["batch", "-m", TINY, self.scratch], self.scratch, "directory")
        self.write([GOOD])
        self.assert_error(["batch", "-m", TINY, self.input, "-o", "/no/such/file"], "/no/such/file")
        self.assert_error(["batch", "-m", TINY, self.input, "-o", self.input], "input and output")
        self.assert_error(["batch", "-m", TINY, *harness.ON, *SMALL, self.input, "-o", "/dev/full"],
                          "/dev/full", "No space left")
        with open(self.input, encoding="utf-8") as file:
            self.assertEqual(json.loads(file.read()), GOOD)


if __name__ == "__main__":
    harness.main()
