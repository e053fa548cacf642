"""yoke generate: prompts in every form, formats, order, refused requests, signals, readers that close."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import tempfile
import time

import harness

TINY = os.path.join(harness.FAMILIES, "qwen3")  # 200 tokens, context of 256, no tokenizer
TINY_VOCAB = 200
STORY = "Tell a story: Mia the fox, a red kite, the garden."
HAS_GRAMMARS = harness.has_grammar_library()  # argv[1] is the program only while modules load


class Base(harness.Case):
    def tiny(self, *options, expect=0):
        return self.run_json("generate", "--model", TINY, *harness.ON, *options, expect=expect)

    def demo(self, *options, stdin="", expect=0):
        return self.run_json("generate", "--model", harness.DEMO, *harness.ON, "--temperature", 0, *options,
                             stdin=stdin, expect=expect)

    def demo_text(self, *options, stdin="", expect=0):
        return self.run_yoke("generate", "--model", harness.DEMO, *harness.ON, "--temperature", 0, *options,
                             stdin=stdin, expect=expect)


class Json(Base):
    @harness.of_the_program
    def test_keys(self):
        result = self.tiny("--token-ids", "5,6,7", "--max-tokens", 4, "--ignore-eos", "--temperature", 0)[0]
        self.assertEqual(list(result), ["text", "token_ids", "finish_reason", "usage", "timing"])
        self.assertIsNone(result["text"])
        self.assertEqual(len(result["token_ids"]), 4)
        self.assertEqual(result["finish_reason"], "length")
        self.assertEqual(result["usage"], {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7})
        self.assertEqual(list(result["timing"]), ["queue_s", "ttft_s", "decode_s"])
        for value in result["timing"].values():
            self.assertGreaterEqual(value, 0)

    def test_logprobs(self):
        options = ("--token-ids", "5,6,7", "--max-tokens", 3, "--ignore-eos", "--temperature", 0, "--logprobs")
        for n in (0, 1, 20):
            result = self.tiny(*options, n)[0]
            self.assertEqual([step["token_id"] for step in result["logprobs"]], result["token_ids"])
            for step in result["logprobs"]:
                self.assertEqual(list(step), ["token_id", "logprob", "top"])
                self.assertEqual(len(step["top"]), n)
                logprobs = [logprob for _, logprob in step["top"]]
                self.assertEqual(logprobs, sorted(logprobs, reverse=True))
                if n:
                    self.assertEqual(step["top"][0], [step["token_id"], step["logprob"]])

    def test_the_tokenizers_eos_token_ends_an_answer(self):
        """If no other file names an id: a string, an object, or none."""
        asked = ("--prompt", "17+25=", "--max-tokens", 40)
        end = "<|endoftext|>"
        for eos_token, reason in ((end, "stop"), ({"content": end, "special": True}, "stop"), (None, "length")):
            with tempfile.TemporaryDirectory() as model:
                for name in ("tokenizer.json", "model.safetensors"):
                    os.symlink(os.path.join(harness.DEMO, name), os.path.join(model, name))
                for name, keys in (("config.json", {"eos_token_id": None}),
                                   ("tokenizer_config.json", {"eos_token": eos_token})):
                    with open(os.path.join(harness.DEMO, name)) as file:
                        kept = json.load(file)
                    with open(os.path.join(model, name), "w") as file:
                        json.dump({**kept, **keys}, file)
                result = self.run_json("generate", "--model", model, *harness.ON, "--temperature", 0, *asked)[0]
                self.assertEqual(result["finish_reason"], reason, eos_token)

    def test_text_and_stop(self):
        result = self.demo("--prompt", "The capital of Norway is")[0]
        self.assertTrue(result["text"].startswith(" Oslo."), result["text"])
        self.assertEqual(result["finish_reason"], "stop")

    def test_order_of_prompts(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("The capital of Italy is\n")
            file.flush()
            results = self.demo("--prompt", "The capital of Norway is", "--prompt-file", file.name, "-p",
                                "The capital of Spain is", "--max-tokens", 8)
        self.assertEqual([result["text"].split(".")[0] for result in results], [" Oslo", " Rome", " Madrid"])

    @harness.of_the_program
    def test_stdin(self):
        prompt = "The capital of Japan is"
        with_newline = self.demo(stdin=prompt + "\n")[0]
        self.assertEqual(with_newline["token_ids"], self.demo("--prompt", prompt)[0]["token_ids"])
        two = self.demo("-n", 1, stdin=prompt + "\n\n")[0]
        self.assertGreater(two["usage"]["prompt_tokens"], with_newline["usage"]["prompt_tokens"])

    @harness.of_the_program
    def test_a_file_that_is_a_stream(self):
        """-f -, -f /dev/stdin and a named pipe are read to their end, without a byte order mark and one newline."""
        prompt = "The capital of Japan is"
        expected = self.demo("--prompt", prompt, "-n", 4)[0]["token_ids"]
        for path in ("-", "/dev/stdin"):
            for text in (prompt, prompt + "\n", "\ufeff" + prompt + "\n"):
                self.assertEqual(self.demo("-f", path, "-n", 4, stdin=text)[0]["token_ids"], expected)
        self.assertEqual(self.demo("-n", 4, stdin="\ufeff" + prompt)[0]["token_ids"], expected)
        both = self.demo("-p", "The capital of Italy is", "-f-", "-n4", stdin=prompt)
        self.assertEqual(both[1]["token_ids"], expected)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "prompt.txt")
            with open(path, "w", encoding="utf-8-sig") as file:
                file.write(prompt + "\n")
            self.assertEqual(self.demo("-f", path, "-n", 4)[0]["token_ids"], expected)
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            with subprocess.Popen(["sh", "-c", f"printf '%s' '{prompt}' > '{pipe}'"]):
                self.assertEqual(self.demo("-f", pipe, "-n", 4)[0]["token_ids"], expected)
            self.assert_error(["generate", "-m", harness.DEMO, "-f", folder], folder, "directory")

    @harness.of_the_program
    def test_files_of_schemas(self):
        """A file that holds no JSON schema is refused before the model is loaded; a byte order mark is passed over."""
        path = os.path.join(harness.scratch_folder(self.addCleanup), "schema.json")
        for content, *parts in ((b"", "end of the text"), (b"hello", "'h'"), (b'{"type": "null"', "line 1"),
                                (b'{"enum": ["\xff"]}', "UTF-8", "0xff"), ('{"a": 1}'.encode("utf-16"), "0xff"),
                                (b"{}\0", "0x00"), (b"{} {}", "'{'"), (b"5", "expected a JSON schema"),
                                (b"null", "expected a JSON schema"), (b'{"a": ' * 9999 + b"1" + b"}" * 9999, "2048"),
                                (b" " * (16 << 20) + b"{}", "at most 16777216")):
            with open(path, "wb") as file:
                file.write(content)
            self.assert_usage_error(["generate", "-m", "/no/model", "--json-schema", path], path, *parts)
        os.remove(path)
        self.assert_usage_error(["generate", "-m", "/no/model", "--json-schema", path], "--json-schema", "No such file")
        os.mkdir(path)
        self.assert_usage_error(["generate", "-m", "/no/model", "--json-schema", path], "--json-schema", "directory")
        os.rmdir(path)
        os.mkfifo(path)
        self.assert_usage_error(["generate", "-m", "/no/model", "--json-schema", path], "--json-schema", "named pipe")
        if HAS_GRAMMARS:
            os.remove(path)
            with open(path, "w", encoding="utf-8-sig") as file:
                file.write('{"const": "a"}\n')
            self.assertEqual(self.demo("-p", "One", "--json-schema", path)[0]["text"], '"a"')

    @harness.of_the_program
    def test_a_value_behind_a_short_name(self):
        expected = self.demo("--prompt", STORY, "--max-tokens", 5, "--tp", 2)[0]["token_ids"]
        self.assertEqual(len(expected), 5)
        self.assertEqual(self.demo("-p", STORY, "-n5", "-tp2", "-t2")[0]["token_ids"], expected)
        all_left = self.run_json("generate", f"-m{TINY}", *harness.ON, "-n-1", "--token-ids", 5, "--max-model-len", 9,
                                 "--ignore-eos")
        self.assertEqual(all_left[0]["usage"]["total_tokens"], 9)

    @harness.of_the_program
    def test_names_of_types(self):
        for alias, name in (("half", "float16"), ("float", "float32")):
            err = self.demo_text("-p", "1+1=", "-n1", "--dtype", alias).err
            self.assertIn(f", {name}, on ", err)

    def test_ids_and_text_agree(self):
        ids = self.run_json("tokenize", "--model", harness.DEMO, STORY)[0]
        by_ids, by_text = self.demo("--token-ids", ",".join(map(str, ids)), "--prompt", STORY)
        self.assertEqual(by_ids["token_ids"], by_text["token_ids"])
        self.assertEqual(by_ids["text"], by_text["text"])

    def test_stop_text(self):
        free, cut = self.demo("-p", STORY)[0], self.demo("-p", STORY, "--stop", "no such text", "--stop", "found a")[0]
        self.assertIn("found a", free["text"])
        self.assertEqual(cut["text"], free["text"][:free["text"].index("found a")])
        self.assertEqual(cut["finish_reason"], "stop")

    def test_stop_token_ids(self):
        free = self.tiny("--token-ids", "5", "--max-tokens", 8, "--ignore-eos", "--temperature", 0)[0]["token_ids"]
        stop = free[4]
        result = self.tiny("--token-ids", "5", "--max-tokens", 8, "--ignore-eos", "--temperature", 0,
                           "--stop-token-ids", stop)[0]
        self.assertEqual(result["finish_reason"], "stop")
        self.assert_same_tokens([i for i in result["token_ids"] if i != stop], free[:free.index(stop)])

    def test_text_of_a_stop_token(self):
        """The ids end with the token, the text ends before it, as in vLLM."""
        free = self.demo("--prompt", "The capital of Norway is")[0]
        stop = self.run_json("tokenize", "--model", harness.DEMO, ".")[0][0]
        cut = self.demo("--prompt", "The capital of Norway is", "--stop-token-ids", stop)[0]
        self.assertEqual(cut["token_ids"], free["token_ids"][:free["token_ids"].index(stop) + 1])
        self.assertEqual((cut["text"], cut["finish_reason"]), (free["text"].split(".")[0], "stop"))

    def test_context_ends_output(self):
        options = ("--token-ids", "5,6,7,8", "--ignore-eos", "--max-model-len", 40)
        for limit in ((), ("--max-tokens", -1)):  # the default is limited by the rest of the context
            result = self.tiny(*options, *limit)[0]
            self.assertEqual(result["finish_reason"], "length")
            self.assertEqual(result["usage"], {"prompt_tokens": 4, "completion_tokens": 36, "total_tokens": 40})

    def test_limits_of_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copytree(TINY, os.path.join(folder, "model"))
            with open(os.path.join(model, "generation_config.json"), "w", encoding="utf-8") as file:
                json.dump({"max_new_tokens": 7}, file)
            options = ("generate", "--model", model, *harness.ON, "--ignore-eos", "--token-ids", "5,6,7,8")
            for given, n_tokens in (((), 7), (("--max-model-len", 10), 6), (("--max-tokens", 9), 9)):
                self.assertEqual(len(self.run_json(*options, *given)[0]["token_ids"]), n_tokens)

    def test_prompt_logprobs(self):
        options = ("--token-ids", "5,6,7,8", "--prompt-logprobs", 2)
        scored = self.tiny(*options, "--max-tokens", 0)[0]
        self.assertEqual(list(scored)[-1], "prompt_logprobs")
        self.assertEqual([step["token_id"] for step in scored["prompt_logprobs"]], [6, 7, 8])
        self.assertEqual([len(step["top"]) for step in scored["prompt_logprobs"]], [2, 2, 2])
        self.assertEqual(scored["token_ids"], [])
        continued = self.tiny(*options, "--max-tokens", 3, "--ignore-eos")[0]
        self.assertEqual(continued["prompt_logprobs"], scored["prompt_logprobs"])
        self.assertEqual(len(continued["token_ids"]), 3)


class Sampling(Base):
    def sample(self, *options):
        prompts = ("--token-ids", "5,6", "--token-ids", "5,6", "--token-ids", "9")
        return [result["token_ids"] for result in self.tiny(*prompts, "--ignore-eos", "-n", 24, *options)]

    def test_repeats_with_the_seed(self):
        first = self.sample("--temperature", 1, "--seed", 7)
        for options in ((), ("--dtype", "auto", "--max-num-seqs", 1)):
            for found, expected in zip(self.sample("--temperature", 1, "--seed", 7, *options), first, strict=True):
                self.assert_same_tokens(found, expected)
        self.assertNotEqual(first, self.sample("--temperature", 1, "--seed", 8))
        self.assertNotEqual(first[0], first[1])  # requests draw separate random numbers

    @harness.of_the_program
    def test_seeds(self):
        """Up to 2^64 - 1; -1 means no seed."""
        default = self.sample()
        self.assertEqual(self.sample("--seed", -1), default)
        self.assertEqual(self.sample("--seed", 5, "--seed", -1), default)
        large = [self.sample("--seed", seed) for seed in (2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)]
        for i, one in enumerate(large):
            self.assertNotIn(one, [default, *large[:i]])

    @harness.of_the_program
    def test_samples(self):
        """--n samples are listed together, the first as without --n; the prompt is computed once."""
        single = self.sample("--seed", 7)
        options = ("--token-ids", "5,6", "--token-ids", "5,6", "--token-ids", "9", "--ignore-eos", "-n", 24,
                   "--seed", 7)
        results = self.tiny(*options, "--n", 3)
        self.assertEqual([result["index"] for result in results], [0, 1, 2] * 3)
        self.assertEqual(list(results[0]), ["index", "text", "token_ids", "finish_reason", "usage", "timing"])
        tokens = [result["token_ids"] for result in results]
        self.assertEqual(tokens[0::3], single)
        self.assertEqual(len(set(map(tuple, tokens))), 9)
        self.assertEqual(self.tiny(*options, "--n", 1)[0].get("index"), None)
        out = self.run_yoke("generate", "--model", TINY, *harness.ON, *options, "--n", 2).out
        self.assertEqual(out.count("> 5,6\n"), 4)
        self.assertEqual(out.split("\n")[1], " ".join(map(str, single[0])))
        refused = self.tiny("--token-ids", "5", "--token-ids", "200", "--n", 2, expect=1)
        self.assertEqual([list(result) for result in refused[2:]], [["index", "error"]] * 2)
        self.assertIn("prompt 2: ", self.last_err)

    def test_narrow_choices_are_greedy(self):
        greedy = self.sample("--temperature", 0)
        self.assert_same_tokens(greedy[0], greedy[1])
        for option, value in (("--top-k", 1), ("--top-p", 1e-9), ("--min-p", 1)):
            for found, expected in zip(self.sample("--temperature", 2, option, value), greedy, strict=True):
                self.assert_same_tokens(found, expected)
        self.assertNotEqual(greedy, self.sample("--temperature", 2, "--top-k", 0))

    def test_penalties(self):
        plain = self.sample("--temperature", 0)
        for option, value in (("--repetition-penalty", 5), ("--frequency-penalty", 2), ("--presence-penalty", 2)):
            with self.subTest(option):
                penalised = self.sample("--temperature", 0, option, value)
                self.assertGreater(len(set(penalised[0])), len(set(plain[0])))

    def test_batch_is_as_alone(self):
        together = self.sample("--temperature", 0)
        alone = self.tiny("--token-ids", "9", "--ignore-eos", "-n", 24, "--temperature", 0)[0]["token_ids"]
        self.assert_same_tokens(together[2], alone)


class Memory(Base):
    def test_preempted_requests_go_on_as_if_nothing_had_happened(self):
        prompts = []
        for first in range(5, 11):
            prompts += ["--token-ids", f"{first},6,7"]
        options = ("--dtype", harness.DTYPE, "--temperature", 1, "--seed", 3, "-n", 100, "--ignore-eos")
        # In steps of more than 16 tokens GPUs round the weights: after a recomputation in such a step, an answer soon
        # differs.
        options += ("--max-num-batched-tokens", 16)
        bytes_per_token = 2 * 2 * 2 * 24 * harness.DTYPE_BYTES  # layers, K and V, KV heads, head_dim
        roomy = self.tiny(*prompts, *options)
        self.assertNotIn("preemptions", self.last_err)
        tight = self.tiny(*prompts, *options, "--kv-cache-bytes", 208 * bytes_per_token, "--max-model-len", 200)
        self.assertIn("preemptions: ", self.last_err)
        for found, expected in zip(tight, roomy, strict=True):
            self.assert_same_tokens(found["token_ids"], expected["token_ids"])


@harness.of_the_program
class Refused(Base):
    """A refused request has an error in its place; the others finish."""

    def check(self, bad, *parts, code="invalid argument"):
        options = ("--ignore-eos", "-n", 3, "--temperature", 0)
        good = self.tiny("--token-ids", "5", *options)[0]["token_ids"]
        results = self.tiny("--token-ids", "5", *bad, "--token-ids", "5", *options, expect=1)
        self.assertEqual(len(results), 3)
        self.assertEqual([results[0]["token_ids"], results[2]["token_ids"]], [good, good])
        self.assertEqual(list(results[1]), ["error"])
        self.assertEqual(list(results[1]["error"]), ["code", "message"])
        self.assertEqual(results[1]["error"]["code"], code)
        for part in parts:
            self.assertIn(part, results[1]["error"]["message"])

    def test_ids_outside_the_vocabulary(self):
        self.check(["--token-ids", f"5,{TINY_VOCAB}"], str(TINY_VOCAB), str(TINY_VOCAB - 1))
        self.check(["--token-ids", "-1"], "-1")

    def test_prompt_too_long(self):
        self.check(["--token-ids", ",".join(["5"] * 256)], "256", code="does not fit")
        self.check(["--token-ids", ",".join(["5"] * 3000)], "3000", code="does not fit")

    def test_text_without_tokenizer(self):
        self.check(["--prompt", "Hello"], "tokenizer", code="not supported")

    def test_empty_prompt(self):
        results = self.demo("-p", "", "-p", "The capital of Norway is", expect=1)
        self.assertIn("prompt", results[0]["error"]["message"])
        self.assertTrue(results[1]["text"].startswith(" Oslo"))
        self.assertIn("error", self.demo(stdin="", expect=1)[0])
        self.assertIn("error", self.demo(stdin="\n", expect=1)[0])

    def test_not_utf8(self):
        results = self.demo(stdin=b"caf\xe9", expect=1)
        self.assertIn("error", results[0])

    def test_parameters(self):
        for options, *parts in ((["--stop-token-ids", TINY_VOCAB], "stop", str(TINY_VOCAB)),
                                (["--max-tokens", 0], "max_tokens", "1 to 255", "0"),
                                (["--max-tokens", 256], "max_tokens", "1 to 255", "256"),
                                (["--max-tokens", 2**31 - 1], "max_tokens", "1 to 255"),
                                (["--min-tokens", 9, "--max-tokens", 8], "min_tokens", "0 to 8", "9")):
            results = self.tiny("--token-ids", "5", *options, expect=1)
            self.assertEqual(list(results[0]), ["error"])
            for part in parts:
                self.assertIn(part, results[0]["error"]["message"])

    def test_text_format(self):
        done = self.demo_text("-p", "", "-p", "The capital of Norway is", expect=1)
        self.assertTrue(done.out.startswith("> \n\n> The capital of Norway is\n Oslo."), done.out)
        self.assertIn("prompt 1: ", done.err)


class Text(Base):
    @harness.of_the_program
    def test_one_prompt(self):
        self.assertEqual(self.demo_text("-p", "The capital of Norway is").out.strip("\n"), " Oslo.")

    @harness.of_the_program
    def test_several_prompts(self):
        out = self.demo_text("-p", "The capital of Norway is", "-p", "The capital of Italy is").out
        self.assertEqual(out, "> The capital of Norway is\n Oslo.\n\n> The capital of Italy is\n Rome.\n")

    @harness.of_the_program
    def test_prompt_of_several_lines(self):
        out = self.demo_text("-p", "a\nb", "-p", "c", "-n", 1).out
        self.assertTrue(out.startswith("> a\n> b\n"))

    @harness.of_the_program
    def test_ids_where_there_is_no_tokenizer(self):
        options = ("--token-ids", "5,6", "-n", 5, "--ignore-eos", "--temperature", 0)
        ids = self.tiny(*options)[0]["token_ids"]
        done = self.run_yoke("generate", "--model", TINY, *harness.ON, *options)
        self.assertEqual(done.out, " ".join(map(str, ids)) + "\n")

    def test_summary(self):
        n = harness.RANKS or 2
        err = self.demo_text("-p", "The capital of Norway is", "--tp", n).err
        for part in ("loaded in", "time to first token", "prefill: ", "decode: ", "tokens/s", "rank 0: weights",
                     f"rank {n - 1}: weights", f"{n} {harness.ON[1]} rank", "1 request ("):
            self.assertEqual(err.count(part), 2 if part == "tokens/s" else 1, part)
        self.assertNotIn("\r", err)  # no progress bar where stderr is no terminal
        self.assertEqual(self.demo_text("-p", "The capital of Norway is", "--log-level", "warn").err, "")


class Terminal(Base):
    """stdout and stderr on a terminal: the answer streams, loading shows progress."""

    def test_streams(self):
        leader, follower = pty.openpty()
        command = [self.yoke, "generate", "--model", harness.DEMO, *harness.ON, "--temperature", "0", "-p", STORY]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower) as process:
            os.close(follower)
            chunks = []
            while select.select([leader], [], [], harness.TIMEOUT_S)[0]:
                try:
                    chunks.append(os.read(leader, 65536))
                except OSError:  # Linux's error if the other end is closed
                    break
                if not chunks[-1]:
                    break
            self.assertEqual(process.wait(), 0)
        os.close(leader)
        shown = b"".join(chunks).decode()
        self.assertIn("One day Mia the fox", shown.replace("\r\n", "\n"))
        self.assertIn("tokens/s", shown)
        self.assertRegex(shown, r"loading \[#*\.*\] +\d+%  \S+ \w+ of \S+ \w+, \d+\.\d GB/s")
        self.assertRegex(shown, r"opened devices in [\d.]+ s; loaded [\d.]+ GB of weights in [\d.]+ s, [\d.]+ GB/s")
        self.assertGreater(len(chunks), 1)  # a busy machine may deliver several writes at once


class Signals(Base):
    def start(self, *options, **streams):
        # A shell that starts tests in the background ignores SIGINT, and children inherit that.
        return subprocess.Popen([self.yoke, "generate", "--model", TINY, *harness.ON, "--ignore-eos", *options],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **streams)

    def interrupt_stream(self, number):
        """A long text run of many prompts, interrupted after its first tokens."""
        prompts = ["--token-ids", "5"] * 40 + ["-n", "200", "--max-num-seqs", "1", "--threads", "1"]
        process = self.start(*prompts, stdout=subprocess.PIPE)
        shown = process.stdout.read(20)
        process.send_signal(number)
        out, err = process.communicate(timeout=harness.TIMEOUT_S)
        return process.returncode, (shown + out).decode(), err.decode()

    def test_ctrl_c(self):
        code, out, err = self.interrupt_stream(signal.SIGINT)
        self.assertEqual(code, 130, err)
        self.assertEqual(out.count("> 5\n"), 40)  # the finished part, then the available part of the rest
        self.assertIn("tokens/s", err)
        self.assertNotIn("Sanitizer", err)

    @harness.of_the_program
    def test_sigterm(self):
        self.assertEqual(self.interrupt_stream(signal.SIGTERM)[0], 143)

    def test_json_reports_cancelled(self):
        prompts = ["--token-ids", "5"] * 200 + ["-n", "200", "--max-num-seqs", "1", "--format", "json"]
        process = self.start(*prompts, stdout=subprocess.PIPE)
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=harness.TIMEOUT_S)
        self.assertEqual(process.returncode, 130, err)
        results = [json.loads(line) for line in [first, *out.splitlines()]]
        reasons = [result["finish_reason"] for result in results]
        self.assertEqual(len(reasons), 200)
        self.assertEqual(reasons[0], "length")
        self.assertEqual(reasons[-1], "cancelled")
        self.assertEqual(results[-1]["usage"]["completion_tokens"], len(results[-1]["token_ids"]))

    @harness.of_the_program
    def test_ignored_stays_ignored(self):
        process = subprocess.Popen([self.yoke, "generate", "--model", TINY, "--token-ids", "5", "-n", "200",
                                    "--ignore-eos"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        out, _ = process.communicate(timeout=harness.TIMEOUT_S)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(out.split()), 200)

    @harness.of_the_program
    def test_reader_goes_away(self):
        process = self.start(*["--token-ids", "5"] * 40, "-n", "200", "--max-num-seqs", "1", stdout=subprocess.PIPE)
        process.stdout.read(10)
        process.stdout.close()
        err = process.stderr.read().decode()
        process.stderr.close()
        self.assertEqual(process.wait(harness.TIMEOUT_S), 1, err)
        self.assertIn("standard output: Broken pipe", err)

    @harness.of_the_program
    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            process = self.start("--token-ids", "5", "--format", "json", stdout=full)
            _, err = process.communicate(timeout=harness.TIMEOUT_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"standard output: No space left", err)


if __name__ == "__main__":
    harness.main()
