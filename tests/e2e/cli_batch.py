"""yoke batch: results equal those of yoke generate; samples; parts of one input on several machines."""

import fcntl
import json
import os
import random
import shutil
import stat
import tempfile
import time
import unittest

import harness
from batch_case import GOOD, SMALL, TINY, Base, openai, prompts_of_ids

TEXTS = ["the band in the end", "and then", "é à the 1234", "x", "the\nthe\n"]


class Results(Base):
    def check_same(self, prompts, keys, options, model=TINY):
        """Plain lines and OpenAI lines give the results of generate, sampled with the same seed: all of them on CPU. On
        GPUs a few texts may differ, at a near tie or at a draw near a border."""
        n_parted = 0
        expected = self.generate(prompts, *options, model=model)
        plain = self.batch([{"prompt": prompt, **keys} for prompt in prompts], model=model)
        body = self.batch([openai("c", prompt=prompt, return_token_ids=True, **keys) for prompt in prompts],
                          model=model)
        for want, result, wrapped in zip(expected, plain, body):
            choice = wrapped["response"]["body"]["choices"][0]
            if not harness.ON_CPU and not want["token_ids"] == result["token_ids"] == choice["token_ids"]:
                n_parted += 1
                continue
            for key in ("text", "token_ids", "finish_reason"):
                self.assertEqual(result[key], want[key])
                self.assertEqual(choice[key], want[key])
            self.assertEqual(result["usage"], want["usage"])
            self.assertEqual(wrapped["response"]["body"]["usage"], want["usage"])
            if harness.ON_CPU:
                self.assertEqual(result.get("logprobs"), want.get("logprobs"))
                self.assertEqual(result.get("prompt_logprobs"), want.get("prompt_logprobs"))
        self.assertLessEqual(5 * n_parted, len(prompts))

    def test_limits_of_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copytree(TINY, os.path.join(folder, "model"))
            with open(os.path.join(model, "generation_config.json"), "w", encoding="utf-8") as file:
                json.dump({"max_new_tokens": 7}, file)
            results = self.batch([{"prompt": [5, 6]}, {"prompt": [5, 6], "max_tokens": 9}], "--ignore-eos", model=model)
        self.assertEqual([len(result["token_ids"]) for result in results], [7, 9])

    def test_greedy(self):
        for name in harness.TINY_MODELS:
            self.check_same(prompts_of_ids(40), {"temperature": 0, "max_tokens": 20}, ["--temperature", 0, "-n", 20],
                            model=os.path.join(harness.FAMILIES, name))

    def test_sampled(self):
        self.check_same(prompts_of_ids(40), {"top_p": 0.9, "top_k": 50, "max_tokens": 20, "min_p": 0.01},
                        ["--top-p", 0.9, "--top-k", 50, "--min-p", 0.01, "-n", 20])

    def test_other_keys(self):
        self.check_same(prompts_of_ids(20),
                        {"temperature": 0.7, "max_tokens": 30, "min_tokens": 12, "repetition_penalty": 1.2,
                         "presence_penalty": 0.5, "frequency_penalty": -0.25, "stop_token_ids": [7, 60, 82],
                         "ignore_eos": True},
                        ["--temperature", 0.7, "-n", 30, "--min-tokens", 12, "--repetition-penalty", 1.2,
                         "--presence-penalty", 0.5, "--frequency-penalty", -0.25, "--stop-token-ids", "7,60,82",
                         "--ignore-eos"])

    def test_logprobs(self):
        for name in harness.TINY_MODELS:
            self.check_same(prompts_of_ids(10),
                            {"temperature": 0, "max_tokens": 5, "logprobs": 3, "prompt_logprobs": 1},
                            ["--temperature", 0, "-n", 5, "--logprobs", 3, "--prompt-logprobs", 1],
                            model=os.path.join(harness.FAMILIES, name))

    def test_text(self):
        self.check_same(TEXTS, {"temperature": 0.8, "max_tokens": 40, "stop": ["th", "9"]},
                        ["--temperature", 0.8, "-n", 40, "--stop", "th", "--stop", "9"], model=self.text_model)

    def test_plain_keys(self):
        keys = ["line", "id", "text", "token_ids", "finish_reason", "usage", "input_hash"]
        result, named, numbered = self.batch([{"prompt": [5], "max_tokens": 2},
                                              {"prompt": [5], "max_tokens": 2, "custom_id": "mine"},
                                              {"prompt": [5], "max_tokens": 2, "id": 7}])
        self.assertEqual(list(result), keys)
        self.assertIsNone(result["id"])
        self.assertEqual(list(named), ["line", "custom_id", *keys[2:]])
        self.assertEqual(named["custom_id"], "mine")
        self.assertEqual(numbered["id"], 7)

    def test_openai_keys(self):
        before = int(time.time())
        self.write([openai("mine", prompt=[5, 6], max_tokens=3, model="its name", user="u", n=None, best_of=1,
                           stream=False)])
        self.run_yoke(*self.arguments("--ignore-eos"))
        with open(self.output, encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(list(result), ["line", "id", "custom_id", "response", "error", "input_hash"])
        self.assertEqual(result["custom_id"], "mine")
        self.assertIsNone(result["error"])
        response = result["response"]
        self.assertEqual(list(response), ["status_code", "request_id", "body"])
        self.assertEqual(response["status_code"], 200)
        body = response["body"]
        self.assertEqual(list(body), ["id", "object", "created", "model", "choices", "usage"])
        self.assertEqual((body["object"], body["model"]), ("text_completion", "its name"))
        self.assertTrue(before <= body["created"] <= time.time())
        self.assertEqual(body["usage"], {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5})
        self.assertEqual(list(body["choices"][0]),
                         ["index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids"])

    def test_openai_text(self):
        result = self.batch([openai("a", prompt="the", max_tokens=30)], "--ignore-eos", model=self.text_model)[0]
        choice = result["response"]["body"]["choices"][0]
        self.assertEqual(list(choice), ["index", "text", "logprobs", "finish_reason", "stop_reason"])
        self.assertIsNone(choice["logprobs"])

    def test_openai_logprobs_of_listed_ids(self):
        keys = {"prompt": "the", "max_tokens": 3, "logprobs": 1, "return_tokens_as_token_ids": True}
        good, bad = self.batch([openai("a", logprob_token_ids=[5, 6], **keys),
                                openai("b", logprob_token_ids=[5, 10**6], **keys)], model=self.text_model, expect=1)
        found = good["response"]["body"]["choices"][0]["logprobs"]
        for name, tops in zip(found["tokens"], found["top_logprobs"], strict=True):
            self.assertEqual(set(tops), {name, "token_id:5", "token_id:6"})
        self.assertIn("logprob_token_ids", json.dumps(bad))

    @unittest.skipUnless(harness.ON_CPU, "compares bits of two requests")
    def test_openai_logprobs(self):
        line = openai("a", prompt="the", max_tokens=40, logprobs=2, temperature=0, ignore_eos=True,
                      return_token_ids=True)
        wrapped, plain = self.batch([line, {key: value for key, value in line["body"].items()
                                            if key != "return_token_ids"}], model=self.text_model)
        choice = wrapped["response"]["body"]["choices"][0]
        found = choice["logprobs"]
        self.assertEqual(list(found), ["tokens", "token_logprobs", "top_logprobs", "text_offset"])
        self.assertEqual(found["token_logprobs"], [step["logprob"] for step in plain["logprobs"]])
        self.assertEqual(found["text_offset"], [len("".join(found["tokens"][:i])) for i in range(40)])
        n_whole = 0
        for token, logprob, top, step in zip(found["tokens"], found["token_logprobs"], found["top_logprobs"],
                                             plain["logprobs"]):
            self.assertEqual(top[token], logprob)  # greedy: the chosen token is the best
            self.assertEqual(max(top.values()), logprob)
            self.assertLessEqual(len(top), 2)
            text = self.run_yoke("detokenize", "--model", self.text_model, step["token_id"]).out[:-1]
            if "\ufffd" not in text and "\ufffd" not in token:  # else parts of characters, completed by neighbours
                self.assertEqual(token, text)
                n_whole += 1
        self.assertGreater(n_whole, 5)
        joined = "".join(found["tokens"])  # except for the start of a character at the end
        self.assertIn(choice["text"], (joined, joined + "\ufffd"))

    def test_openai_echo(self):
        """The request of lm-evaluation-harness: log-probabilities of the prompt, the first null."""
        text, ids, alone = self.batch([
            openai("a", prompt="the band", max_tokens=1, logprobs=1, echo=True, ignore_eos=True),
            openai("b", prompt=[[5, 60, 71], [9]], max_tokens=1, logprobs=1, echo=True, ignore_eos=True),
            openai("c", prompt="the band", max_tokens=0, echo=True)], model=self.text_model)
        choice = text["response"]["body"]["choices"][0]
        logprobs = choice["logprobs"]
        self.assertTrue(choice["text"].startswith("the band"))
        self.assertEqual("".join(logprobs["tokens"])[:8], "the band")
        self.assertEqual(len(logprobs["tokens"]), text["response"]["body"]["usage"]["prompt_tokens"] + 1)
        for echoed in [choice, *ids["response"]["body"]["choices"]]:
            logprobs = echoed["logprobs"]
            self.assertIsNone(logprobs["token_logprobs"][0])
            self.assertIsNone(logprobs["top_logprobs"][0])
            for token, logprob, top in list(zip(logprobs["tokens"], logprobs["token_logprobs"],
                                                logprobs["top_logprobs"]))[1:]:
                self.assertEqual(top[token], logprob)
                self.assertLessEqual(len(top), 2)
        self.assertEqual([len(choice["logprobs"]["tokens"]) for choice in ids["response"]["body"]["choices"]], [4, 2])
        self.assertEqual(alone["response"]["body"]["choices"][0]["text"], "the band")
        self.assertEqual(alone["response"]["body"]["usage"]["completion_tokens"], 0)

    def test_openai_prompt_logprobs(self):
        """In vLLM's form; the numbers equal those of a plain line."""
        line = openai("a", prompt=[5, 6, 7], max_tokens=1, prompt_logprobs=2, ignore_eos=True)
        wrapped, plain = self.batch([line, line["body"]])
        found = wrapped["response"]["body"]["choices"][0]["prompt_logprobs"]
        self.assertIsNone(found[0])
        self.assertEqual(len(found), 3)
        for entry, step in zip(found[1:], plain["prompt_logprobs"]):
            self.assertEqual(entry[str(step["token_id"])]["logprob"], step["logprob"])
            for rank, (token_id, logprob) in enumerate(step["top"], 1):
                self.assertEqual((entry[str(token_id)]["logprob"], entry[str(token_id)]["rank"]), (logprob, rank))

    def test_unknown_fields_of_openai_bodies(self):
        """Accepted, as by a server."""
        known, unknown = self.batch([openai("a", **GOOD, seed=1),
                                     openai("a", **GOOD, seed=1, whatever={"x": [1]}, id=5, store=True)])
        self.assertEqual(unknown["response"]["body"]["choices"], known["response"]["body"]["choices"])

    def test_special_tokens_of_texts(self):
        with tempfile.TemporaryDirectory() as folder:
            model = harness.make_text_model(os.path.join(folder, "bos"), add_bos=True)
            results = self.batch([openai("a", prompt="the", max_tokens=1),
                                  openai("b", prompt="the", max_tokens=1, add_special_tokens=False)], model=model)
        with_bos, without = [result["response"]["body"]["usage"]["prompt_tokens"] for result in results]
        self.assertEqual(with_bos, without + 1)

    def test_logit_bias(self):
        for line in ({"prompt": [5], "max_tokens": 4, "logit_bias": {"77": 100}},
                     openai("a", prompt=[5], max_tokens=4, logit_bias={"77": 100.0})):
            result = self.batch([line])[0]
            choice = result["response"]["body"]["choices"][0] if "response" in result else result
            self.assertEqual(choice["token_ids"], [77] * 4)

    def test_defaults(self):
        """Options of the command line are the defaults of lines; a line overrides them; null means unset."""
        options = ("--max-tokens", 5, "--temperature", 0, "--ignore-eos", "--stop-token-ids", "199")
        ids = self.generate([[5]], *options)[0]["token_ids"]
        results = self.batch([{"prompt": [5]}, {"prompt": [5], "max_tokens": 3}, {"prompt": [5], "max_tokens": None},
                              {"prompt": [5], "stop_token_ids": [ids[1]]}, {"prompt": [5], "max_tokens": 4.0}],
                             *options)
        self.assertEqual([result["token_ids"] for result in results], [ids, ids[:3], ids, ids[:2], ids[:4]])

    def test_default_length_is_bounded_by_the_context(self):
        results = self.batch([{"prompt": [5] * n, "ignore_eos": True} for n in (3, 200, 255)])
        self.assertEqual([len(result["token_ids"]) for result in results], [128, 56, 1])

    def test_scoring_only(self):
        result = self.batch([{"prompt": [5, 6, 7], "max_tokens": 0, "prompt_logprobs": 0}])[0]
        self.assertEqual(result["token_ids"], [])
        self.assertEqual([step["token_id"] for step in result["prompt_logprobs"]], [6, 7])


@harness.of_the_program
class Samples(Base):
    def test_n(self):
        line = {"prompt": [5, 6], "max_tokens": 10, "seed": 3, "ignore_eos": True}
        many, one, other = self.batch([{**line, "n": 5}, line, {**line, "seed": 4}])
        self.assertEqual(list(many), ["line", "id", "choices", "usage", "input_hash"])
        outputs = [choice["token_ids"] for choice in many["choices"]]
        self.assertEqual([choice["index"] for choice in many["choices"]], [0, 1, 2, 3, 4])
        self.assertEqual(len(set(map(tuple, outputs))), 5)
        self.assertEqual(outputs[0], one["token_ids"])
        self.assertNotEqual(outputs[0], other["token_ids"])
        self.assertEqual(many["usage"], {"prompt_tokens": 2, "completion_tokens": 50, "total_tokens": 52})

    def test_several_prompts(self):
        prompts = [[5, 6], [7], [8, 9, 10]]
        keys = {"max_tokens": 6, "seed": 3, "ignore_eos": True}
        single = self.batch([{"prompt": prompt, "n": 2, **keys} for prompt in prompts])
        joined = self.batch([openai("a", prompt=prompts, n=2, **keys)])[0]["response"]["body"]
        self.assertEqual([choice["token_ids"] for choice in joined["choices"]],
                         [choice["token_ids"] for result in single for choice in result["choices"]])
        self.assertEqual([choice["index"] for choice in joined["choices"]], list(range(6)))
        self.assertEqual(joined["usage"], {"prompt_tokens": 6, "completion_tokens": 36, "total_tokens": 42})
        texts = self.batch([{"prompt": TEXTS[:2], "max_tokens": 3}], model=self.text_model)[0]
        self.assertEqual(len(texts["choices"]), 2)

    def test_seeds(self):
        """Lines without a seed differ, runs do not; --seed changes all."""
        lines = [{"prompt": [5], "max_tokens": 12, "ignore_eos": True}] * 6
        first = self.batch(lines)
        self.assertEqual(len({tuple(result["token_ids"]) for result in first}), 6)
        self.assertEqual(self.batch(lines, "--max-in-flight", 1), first)
        other = self.batch(lines, "--seed", 1)
        for one, two in zip(first, other):
            self.assertNotEqual(one["token_ids"], two["token_ids"])

    def test_wide_and_no_seeds(self):
        """0 to 2^64 - 1, wherever the key is in the line, or 2^64 less. -1 and null mean that no seed is given."""
        keys = {"prompt": [5], "max_tokens": 12, "ignore_eos": True}
        seeds = [0, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
        drawn = [result["token_ids"] for result in self.batch([{**keys, "seed": seed} for seed in seeds])]
        self.assertEqual(len(set(map(tuple, drawn))), len(seeds))
        lines = [json.dumps({"seed": seed, **keys}, indent=None, separators=(" ,", " : ")) for seed in seeds]
        self.assertEqual([result["token_ids"] for result in self.batch(lines)], drawn)
        lines = [openai("a", **keys, user='a "seed": 99999999999999999999 \\', seed=seed) for seed in seeds]
        choices = [result["response"]["body"]["choices"][0] for result in self.batch(lines)]
        self.assertEqual([choice["token_ids"] for choice in choices], drawn)
        negative = self.batch([{**keys, "seed": -2**63}, {**keys, "seed": -2}])
        self.assertEqual([result["token_ids"] for result in negative], drawn[2:4])
        open_seeds = self.batch([keys, keys, keys])
        without = self.batch([{**keys, "seed": -1}, {**keys, "seed": None}, {**keys, "seed": -1.0}])
        self.assertEqual([result["token_ids"] for result in without], [result["token_ids"] for result in open_seeds])

    def test_n_of_the_command_line(self):
        """Default for lines without one."""
        line = {"prompt": [5, 6], "max_tokens": 10, "seed": 3, "ignore_eos": True}
        expected = self.batch([{**line, "n": 3}, {**line, "n": 2}, {**line, "n": 1}])
        found = self.batch([line, {**line, "n": 2}, {**line, "n": 1}], "--n", 3)
        self.assertEqual([{**result, "input_hash": None} for result in found],
                         [{**result, "input_hash": None} for result in expected])

    def test_more_than_may_be_in_flight(self):
        lines = [{"prompt": [5], "n": n, "max_tokens": 3, "seed": 1, "ignore_eos": True} for n in (1, 7, 2, 9, 1)]
        for limit in (1, 4):
            results = self.batch(lines, "--max-in-flight", limit)
            self.assertEqual([len(result.get("choices", [0])) for result in results], [1, 7, 2, 9, 1])

    def test_order_does_not_matter(self):
        numbers = random.Random(5)
        lines = [{"prompt": prompt, "max_tokens": numbers.randrange(1, 30), "seed": i, "id": i}
                 for i, prompt in enumerate(prompts_of_ids(60))]
        first = {result["id"]: result["token_ids"] for result in self.batch(lines)}
        numbers.shuffle(lines)
        again = self.batch(lines, "--max-num-seqs", 3, "--max-num-batched-tokens", 16)
        self.assertEqual({result["id"]: result["token_ids"] for result in again}, first)

    def test_as_they_finish(self):
        lines = [{"prompt": [5], "max_tokens": 200, "ignore_eos": True}] + [{"prompt": [5], "max_tokens": 1}] * 20
        self.batch(lines)
        with open(self.output, encoding="utf-8") as file:
            self.assertEqual(json.loads(file.readlines()[-1])["line"], 1)


@harness.of_the_program
class Parts(Base):
    """Runs of one input on several machines, and their results in one file."""

    N = 25

    def setUp(self):
        super().setUp()
        self.lines = [{"prompt": prompt, "max_tokens": 1 + i % 4, "ignore_eos": True, "id": f"r{i}"}
                      for i, prompt in enumerate(prompts_of_ids(self.N, seed=9))]
        self.lines[4]["top_p"] = -1
        self.lines[7] = ""
        self.write(self.lines)
        self.merged = self.path("merged.jsonl")

    def part(self, number, n_parts=3, *options, **more):
        pattern = self.path("part-{part}.jsonl")
        arguments = ["batch", TINY, *harness.ON, *SMALL, "--threads", 1, self.input, "-o", pattern, "--part",
                     f"{number}/{n_parts}", *options]
        has_failed = number == (4 % n_parts) + 1
        return self.run_yoke(*arguments, **{"expect": 1 if has_failed else 0, **more})

    def part_path(self, number, n_parts=3):
        return self.path(f"part-{number}-of-{n_parts}.jsonl")

    def run_parts(self):
        for number in (3, 1, 2):
            self.part(number)
        return [self.part_path(number) for number in (2, 3, 1)]

    def merge(self, parts, *options, expect=1, output=None):
        return self.run_yoke("batch", "merge", self.input, *parts, "-o", output or self.merged, *options,
                             expect=expect)

    def refused(self, parts, *texts, output=None):
        self.assert_error(["batch", "merge", self.input, *parts, "-o", output or self.merged], *texts)
        self.assertFalse(os.path.exists(self.merged))

    def numbers(self, path):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line)["line"] for line in file]

    def test_parts_are_one_run(self):
        """The results of a run without parts, also with samples, in the order of the input."""
        parts = self.run_parts()
        wanted = [number for number in range(1, self.N + 1) if number != 8]
        for number in (1, 2, 3):
            self.assertEqual(sorted(self.numbers(self.part_path(number))),
                             [line for line in wanted if line % 3 == number % 3])
        self.assertIn("(1 failed)", self.merge(parts).err)
        self.assertEqual(self.numbers(self.merged), wanted)
        self.run_yoke(*self.arguments(), expect=1)
        with open(self.merged, encoding="utf-8") as file:
            self.assertEqual([json.loads(line) for line in file], self.results())
        os.rename(self.merged, self.output)
        self.assertIn("finished: 0 lines", self.run_yoke(*self.arguments(), expect=1).err)
        self.assertEqual(self.merge([self.output], output="-").out.count("\n"), len(wanted))

    def test_a_stopped_part_resumes(self):
        """The bytes that a killed run leaves: merge names the lines, writes nothing, and accepts the resumed part."""
        parts = self.run_parts()
        with open(self.part_path(2), "r+b") as file:
            lines = file.readlines()
            file.truncate(sum(map(len, lines[:2])) + 5)
        missing = sorted(json.loads(line)["line"] for line in lines[2:])
        self.refused(parts, f"{len(missing)} lines without a result: {missing[0]}, {missing[1]}",
                     f"nothing was written: {len(missing)} of {self.N - 1} lines have no result")
        self.assertIn("part 2/3: ", self.merge(parts, "--parts", 3).err)
        self.refused(parts[:1] + parts[2:], f"{self.N // 3 + len(missing)} lines without a result")
        self.assertIn("finished by an earlier run: 2 lines", self.part(2).err)
        self.merge(parts)
        self.assertEqual(len(self.numbers(self.merged)), self.N - 1)
        self.assert_error(["batch", "merge", self.input, *parts, "-o", self.merged], "exists already", "--overwrite")
        self.merge(parts, "--overwrite")

    def test_merge_refuses_what_does_not_belong(self):
        parts = self.run_parts()
        self.refused(parts + parts[:1], "has a result in", "already")
        for path in (self.input, parts[1]):
            self.assert_error(["batch", "merge", self.input, *parts, "-o", path, "--overwrite"],
                              "input and output at once")
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        self.assert_error(["batch", "merge", self.input, *parts, "-o", pipe, "--overwrite"], "expected a new name or a")
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        with open(parts[0], "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.refused(parts, parts[0], "a run is writing to it")
        self.refused([self.input], "does not belong to this batch")
        self.refused([self.path("none.jsonl")], "none.jsonl: No such file")
        for change in (lambda: self.part(2, 3, "--overwrite", "--seed", 5), lambda: self.change_input(11)):
            change()
            self.refused(parts, "are not of one run over", "the model or the options were others")
            self.part(2, 3, "--overwrite")
        self.write(self.lines[:20])
        self.refused(parts, "has a result of line 2", "has 20 lines")

    def change_input(self, line):
        """Another prompt of one line, in a file of the same length."""
        lines = [*self.lines]
        lines[line] = {**lines[line], "id": lines[line]["id"].upper()}
        self.write(lines)

    def test_a_part_refuses_the_file_of_another(self):
        self.part(1)
        os.rename(self.part_path(1), self.part_path(2))
        self.assertIn("line 1, which belongs to part 1 of 3", self.part(2, expect=1).err)
        self.assertIn("names a part, but there is no --part",
                      self.run_yoke("batch", TINY, self.input, "-o", self.path("{part}"), expect=2).err)
        for text in ("0/3", "4/3", "3", "a/3", "3/", "3/0", "-1/3", "1/2/3"):
            self.assertIn("expected PART/PARTS", self.run_yoke("batch", TINY, self.input, "--part", text, expect=2).err)


if __name__ == "__main__":
    harness.main()
