"""The command line itself: help, versions, and errors that name the fault. Needs no model."""

import json
import os
import re
import subprocess

import harness


class Help(harness.Case):
    def test_program(self):
        out = self.run_yoke("--help").out
        for command in ("generate", "chat", "plan", "convert", "quantize", "tokenize", "detokenize"):
            self.assertIn(command, out)
        self.assertEqual(self.run_yoke("-h").out, out)
        self.assertEqual(self.run_yoke("help").out, out)

    def test_version(self):
        self.assertRegex(self.run_yoke("--version").out, r"^yoke \d+\.\d+\.\d+\n$")

    def test_commands(self):
        names = {
            "generate": ["prompt", "prompt-file", "token-ids", "max-tokens", "n", "temperature", "top-k", "top-p",
                         "min-p", "repetition-penalty", "frequency-penalty", "presence-penalty", "min-tokens",
                         "ignore-eos", "stop", "stop-token-ids", "logprobs", "prompt-logprobs", "format"],
            "batch": ["output", "overwrite", "chat-template", "tool-call-parser", "max-tokens", "n", "temperature"],
            "chat": ["system", "stats", "chat-template", "max-tokens", "min-tokens", "temperature", "top-k", "top-p",
                     "min-p", "repetition-penalty", "frequency-penalty", "presence-penalty", "ignore-eos", "stop",
                     "stop-token-ids"],
            "serve": ["host", "port", "api-key", "api-key-file"],  # all of them: server_refused.py
            "bench": ["batch", "request-rate", "arrivals", "clients", "requests", "input-len", "output-len", "lengths",
                      "shared-prefix", "temperature", "top-k", "top-p", "repeats", "slo", "output", "ranks", "trace"],
            "study": ["ranks", "batch", "request-rate", "clients", "input-len", "output-len", "sweep", "repeats",
                      "starts", "output-dir", "machine", "dry-run"],
            "plan": ["device-memory", "no-link-test", "format"],  # all of them: cli_plan.py
            "convert": ["model", "to", "output", "shard-size", "log-level"],
            "quantize": ["model", "output", "method", "group-size", "keep", "calibration", "calibration-tokens",
                         "device", "ranks", "devices", "threads", "log-level"],
            "tokenize": ["model", "format", "no-special-tokens"],
            "detokenize": ["model", "format", "no-special-tokens"],
        }
        model = ["model", "revision", "download-dir", "tokenizer", "tokenizer-revision",
                 "hf-overrides", "override-generation-config", "generation-config",
                 "tensor-parallel-size", "pipeline-parallel-size", "device", "devices", "dtype",
                 "activations", "lm-head", "kv-cache-dtype",
                 "max-model-len", "dense-attention-beyond-index",
                 "max-num-seqs", "max-num-batched-tokens", "long-prefill-token-threshold",
                 "gpu-memory-utilization", "kv-cache-bytes",
                 "enable-expert-parallel", "disable-custom-all-reduce", "batch-invariant",
                 "no-prefix-reuse", "seed", "step-timeout", "log-level"]
        names["generate"] += model
        names["batch"] += model
        names["chat"] += model
        names["serve"] += model
        names["bench"] += model
        names["study"] += [name for name in model if name != "tensor-parallel-size"]
        for command, options in names.items():
            done = self.run_yoke(command, "--help")
            self.assertEqual(done.err, "")
            self.assertTrue(done.out.startswith(f"Usage: yoke {command} "))
            self.assertIn(f"\nExamples:\n  yoke {command} ", done.out)
            self.assertLessEqual(max(map(len, done.out.splitlines())), 80)
            self.assertNotIn("default:", done.out)
            for option in options:
                self.assertRegex(done.out, rf"(?m)^  (-\w, |--\w+, )?--{option}( |$)")

    def test_lines(self):
        """Options take one line if possible, in groups of at most 20."""
        for command in ("generate", "chat", "serve", "batch", "bench", "study", "plan", "quantize"):
            groups = self.run_yoke(command, "--help").out.split("\n\n")[3:-1]
            options = re.findall(r"(?m)^  -.*(?:\n {30}.*)*", "\n".join(groups))
            self.assertGreater(sum("\n" not in option for option in options), len(options) / 3, command)
            for group in groups:
                self.assertRegex(group, r"^[A-Z].*:\n  -")
                self.assertLessEqual(len(re.findall(r"(?m)^  -", group)), 20, group)

    def test_n(self):
        """-n and --n are two options; the help of each says so."""
        out = self.run_yoke("generate", "--help").out
        self.assertRegex(out, r"(?m)^  -n, --max-tokens N ")
        self.assertIn("--n N samples of a prompt, 1 to 128; -n is --max-tokens [1]", " ".join(out.split()))

    def test_chat(self):
        """One answer at a time, as text: options for several samples and for numbers are absent."""
        out = self.run_yoke("chat", "--help").out
        for name in ("--n ", "--logprobs", "--prompt-logprobs", "--tool-call-parser"):
            self.assertNotIn(f" {name}", out)
        self.assertIn("[the model's, else -1]", " ".join(out.split()))

    def test_help_wins_over_later_options(self):
        self.run_yoke("generate", "--tp", "2", "--help", "--no-such-option")


# Arguments of generate, and parts of the message.
REFUSED_VALUES = (
    (["--tp"], "--tensor-parallel-size", "expected a value"),
    (["--tp", "0"], "--tensor-parallel-size", "1 to 64", '"0"'),
    (["--tensor-parallel-size=65"], "--tensor-parallel-size", "1 to 64", '"65"'),
    (["-tp", "2x"], "--tensor-parallel-size", "1 to 64", '"2x"'),
    (["--tp", ""], "--tensor-parallel-size", "1 to 64", '""'),
    (["--tp", "99999999999999999999"], "--tensor-parallel-size", "1 to 64"),
    (["--max-tokens", "-2"], "--max-tokens", "-1 to 2147483647", '"-2"'),
    (["-n", "2147483648"], "--max-tokens", "-1 to 2147483647"),
    (["--min-tokens", "-1"], "--min-tokens", "0 to"),
    (["--repetition-penalty", "0"], "--repetition-penalty", "above 0 and at most 10"),
    (["--frequency-penalty", "2.1"], "--frequency-penalty", "-2 to 2"),
    (["--presence-penalty", "x"], "--presence-penalty", "-2 to 2", '"x"'),
    (["--stop", ""], "--stop", "empty"),
    (["--temperature", "-0.1"], "--temperature", "0 to 100", '"-0.1"'),
    (["--temperature", "nan"], "--temperature", "0 to 100", '"nan"'),
    (["--temperature", "inf"], "--temperature", "0 to 100"),
    (["--top-p", "0"], "--top-p", "above 0 and at most 1", '"0"'),
    (["--top-p", "1.01"], "--top-p", "above 0 and at most 1"),
    (["--min-p", "-1"], "--min-p", "0 to 1"),
    (["--top-k", "-2"], "--top-k", "-1 to"),
    (["--top-k", "1.5"], "--top-k", "an integer"),
    (["--logprobs", "21"], "--logprobs", "0 to 20"),
    (["--logprobs", "2", "-m", "x"], "--logprobs", "--format json"),
    (["--prompt-logprobs", "-1"], "--prompt-logprobs", "0 to 20"),
    (["--prompt-logprobs", "0", "-m", "x"], "--prompt-logprobs", "--format json"),
    (["--seed", "-2"], "--seed", "0 to 2^64 - 1, or -1 for none", '"-2"'),
    (["--seed", "-01"], "--seed", '"-01"'),
    (["--seed", "18446744073709551616"], "--seed"),
    (["--n", "0"], "--n:", "1 to 128", '"0"'),
    (["--n=129"], "--n:", "1 to 128", '"129"'),
    (["-n4x"], "--max-tokens", '"4x"'),
    (["-tp65"], "--tensor-parallel-size", "1 to 64", '"65"'),
    (["-t0"], "--threads", '"0"'),
    (["-promt", "a"], "unknown option -promt", "did you mean --prompt?"),
    (["-nfour"], "unknown option -nfour"),
    (["--ignore-eos=yes"], "--ignore-eos", "no value"),
    (["--device", "gpu"], "--device", "auto, cpu, cuda", '"gpu"'),
    (["--dtype", "int4"], "--dtype", "auto, float16, bfloat16, float32, half, float", '"int4"'),
    (["--kv-cache-dtype", "fp8_e5m2"], "--kv-cache-dtype",
     "auto, float16, bfloat16, float32, int8, fp8, int8_per_token_head, fp8_per_token_head, fp8_e4m3",
     '"fp8_e5m2"'),
    (["--kv-cache-dtype", "nvfp4"], "--kv-cache-dtype", '"nvfp4"'),
    (["--log-level", "loud"], "--log-level", "error, warn, info, debug"),
    (["--format", "xml"], "--format", "text, json"),
    (["--token-ids", "5,x"], "--token-ids", "5,x"),
    (["--token-ids", ""], "--token-ids"),
    (["--token-ids", "5,,6"], "--token-ids"),
    (["--token-ids", "2147483648"], "--token-ids"),
    (["--stop-token-ids", "a"], "--stop-token-ids"),
    (["--devices", "0,0"], "--devices", "twice"),
    (["--devices", "0,-1"], "--devices", "-1"),
    (["--devices", ",".join(map(str, range(65)))], "--devices", "at most 64", "65"),
    (["--devices", "0,1", "--tp", "3", "-m", "x"], "--devices", "3", "2"),
    (["--devices", "0,1", "--device", "cpu", "-m", "x"], "--devices", "cpu"),
    (["--kv-cache-bytes", "-1"], "--kv-cache-bytes"),
    (["--kv-cache-bytes", "5 parsecs"], "--kv-cache-bytes", "5 parsecs"),
    (["--gpu-memory-utilization", "1.5"], "--gpu-memory-utilization", "above 0 and at most 1"),
    (["--max-model-len", "0"], "--max-model-len", "1 to", "32K", "auto", '"0"'),
    (["--max-model-len", "1.5K"], "--max-model-len", '"1.5K"'),
    (["--max-model-len", "32kk"], "--max-model-len", '"32kk"'),
    (["--max-model-len", "3G"], "--max-model-len", '"3G"'),
    (["--max-model-len", "-2"], "--max-model-len", '"-2"'),
    (["--max-model-len", ""], "--max-model-len", '""'),
    (["--max-model-len", "."], "--max-model-len", '"."'),
    (["--max-num-batched-tokens", "auto"], "--max-num-batched-tokens", '"auto"'),
    (["--max-num-seqs", "0"], "--max-num-seqs", "1 to"),
    (["--max-num-batched-tokens", "0"], "--max-num-batched-tokens", "1 to"),
    (["--step-timeout", "0"], "--step-timeout", "above 0"),
    (["--prompt", "a"], "--model"),
    (["--promt_file", "a"], "unknown option --promt_file", "did you mean --prompt-file?"),
    (["--prompt", "a", "--model", ""], "--model"),
)


class Refused(harness.Case):
    def test_commands(self):
        self.assert_usage_error([], "--help")
        self.assert_usage_error(["genrate"], '"genrate"', "did you mean generate?")
        self.assert_usage_error(["xyz"], '"xyz"', "yoke --help")

    def test_names(self):
        self.assert_usage_error(["generate", "--promt", "a"], "--promt", "did you mean --prompt?",
                                "yoke generate --help")
        self.assert_usage_error(["generate", "--max-token=5"], "did you mean --max-tokens?")
        self.assert_usage_error(["plan", "--quite-different"], "unknown option --quite-different")
        for command, hint in (("generate", "--prompt"), ("score", "--text"), ("chat", "standard input")):
            self.assert_error([command, "a text"], "a text: No such file or directory; ", hint)
            self.assert_usage_error([command, "-m", "x", "a text"], "unexpected argument \"a text\"; ", hint)
        self.assert_error(["plan", "directory"], "directory: No such file")
        self.assert_usage_error(["plan", "-m", "x", "directory"], 'unexpected argument "directory"; the model is "x"')
        self.assert_usage_error(["chat", "--system", "a"], "--model")
        for option in ("--served-model-name", "--api-key"):
            self.assert_usage_error(["serve", option, "a", "model"], "expected a model, found nothing: put it before")
        self.assert_usage_error(["serve", "x", "--served-model-name", "a", ""], "--served-model-name: ", "an empty one")
        self.assert_usage_error(["serve", "x", "--served-model-name", *"a" * 65], "--served-model-name: ", "at most 64")
        self.assert_usage_error(["chat", "-m", "x", "--logprobs", "1"], "unknown option --logprobs")

    def test_values(self):
        for arguments, *parts in REFUSED_VALUES:
            with self.subTest(arguments):
                self.assert_usage_error(["generate", *arguments], *parts)

    def test_plan_and_text_commands(self):
        self.assert_usage_error(["plan"], "--model")
        self.assert_usage_error(["plan", "--device-memory", "80GiBB"], "--device-memory", "80GiBB", "80GiB")
        self.assert_usage_error(["tokenize", "text"], "--model")
        self.assert_usage_error(["detokenize", "5"], "--model")
        self.assert_usage_error(["tokenize", "--format", "yaml"], "--format", "text, json")

    def test_lengths(self):
        """In vLLM's notation: k and m are powers of 1000, K and M of 1024."""
        for text, tokens in (("512", 512), ("1K", 1024), ("1k", 1000), ("0.5k", 500), ("auto", 1024), ("-1", 1024)):
            with self.subTest(text):
                found = self.run_json("plan", harness.DEMO, "--device", "cpu", "--tp", "1", "--max-num-seqs", "1",
                                      f"--max_model_len={text}", "--kv-cache-bytes", "16MiB")[0]
                self.assertEqual(found["ranks"][0]["workspace_bytes"], self.workspace_bytes(tokens))
        self.assert_error(["plan", harness.DEMO, "--max-model-len", "2k"],
                          "--max-model-len: expected at most 1024, the model's own limit, found 2000")

    def test_amounts_of_memory(self):
        self.assert_usage_error(["plan", harness.DEMO, "--device-memory", "80"],
                                "--device-memory: expected at least 64.0 KiB, found 80 B; a number without a unit "
                                "is bytes")
        for text in ("", "-1", "GiB", "1XB", "1e", "0x10", "1.2.3", "nan", "inf", "99999999999999999999GiB", "1 GiB x"):
            self.assert_usage_error(["plan", harness.DEMO, "--kv-cache-bytes", text],
                                    f'--kv-cache-bytes: expected an amount of memory such as 80GiB, 512MiB, 1.5GB or '
                                    f'4096, found "{text}"')

    def test_changes_of_the_configuration(self):
        plan = ["plan", harness.DEMO, "--device", "cpu", "--tp", 1, "--max-model-len", "2k"]
        yarn = {"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 1024}
        for changes in ({"max_position_embeddings": 2000}, {"rope_scaling": yarn}, {"rope_parameters": yarn}):
            self.assertTrue(self.run_json(*plan, "--hf-overrides", json.dumps(changes))[0]["fits"], changes)
        self.assert_error([*plan, "--hf-overrides", '{"num_hidden_layers": 0}'], "num_hidden_layers", "found 0")
        for changes, key in (({"max_positions": 9}, "max_positions"), ({"text_config": {"a": 1}}, "text_config"),
                             ({"text_config": 5}, "text_config"), ({"model_type": "llama"}, "model_type"),
                             ({"rope_scaling": {**yarn, "betafast": 3}}, "rope_scaling.betafast")):
            self.assert_error([*plan, "--hf-overrides", json.dumps(changes)],
                              f'--hf-overrides: key "{key}" would be without effect')
        inside = ["plan", os.path.join(harness.FAMILIES, "hybrid_qwen3_5"), "--device", "cpu", "--tp", 1]
        for changes in ({"max_position_embeddings": 77}, {"text_config": {"max_position_embeddings": 77}}):
            self.assert_error([*inside, "--max-model-len", 78, "--hf-overrides", json.dumps(changes)],
                              "expected at most 77")
        self.assert_error([*inside, "--hf-overrides", '{"text_config": {"max_positions": 1}}'],
                          '--hf-overrides: key "text_config.max_positions" would be without effect')
        generate = ["generate", harness.DEMO, "--device", "cpu", "--kv-cache-bytes", "16MiB", "-p", "Sort: k b z a ->"]
        for arguments, text in (([], " a b k z\n"),
                                (["--override-generation-config", '{"max_new_tokens": 2}'], " a b\n"),
                                (["--override-generation-config", '{"eos_token_id": 33}', "-n", 1], " a\n"),
                                (["--generation-config", "vllm", "--temperature", 0], " a b k z\n"),
                                (["--generation-config", harness.DEMO], " a b k z\n")):
            self.assertEqual(self.run_yoke(*generate, *arguments).out, text, arguments)
        self.assert_error([*generate, "--override-generation-config", '{"temprature": 2}'],
                          '--override-generation-config: key "temprature" would be without effect')
        self.assert_error([*generate, "--generation-config", "/no/such"], "/no/such/generation_config.json")
        for option in ("--hf-overrides", "--override-generation-config"):
            self.assert_usage_error([*generate, option, "[]"], f"{option}: expected a JSON object, found array")
            self.assert_usage_error([*generate, option, "{x}"], f"{option}: ")

    def test_dense_attention_beyond_the_index(self):
        plan = ["plan", os.path.join(harness.FAMILIES, "deepseek_v32"), "--device", "cpu", "--tp", 1]
        self.assert_error([*plan, "--max-model-len", 201], "expected at most 200")
        self.assertIn("--dense-attention-beyond-index permits more", self.run_yoke(*plan).err)
        done = self.run_yoke(*plan, "--max-model-len", 201, "--dense-attention-beyond-index")
        self.assertIn("dense beyond 200 tokens (index_topk)", done.err)
        self.assertIn("answers then differ", done.err)

    def workspace_bytes(self, tokens):
        found = self.run_json("plan", "-m", harness.DEMO, "--device", "cpu", "--tp", "1", "--max-num-seqs", "1",
                              "--max-model-len", tokens, "--kv-cache-bytes", "16MiB")[0]
        return found["ranks"][0]["workspace_bytes"]

    def test_options_of_vllm(self):
        """Ignored if they request Yoke's fixed behaviour, else refused with an alternative."""
        plan = ["plan", harness.DEMO, "--device", "cpu", "--tp", "1"]
        for arguments, named in (
                (["--trust-remote-code"], "--trust-remote-code"),
                (["--no-trust-remote-code"], "--no-trust-remote-code"),
                (["--quantization", "awq"], "--quantization"), (["-q=gptq_marlin"], "-q"),
                (["--load-format", "auto", "--enforce-eager", "--swap-space", "4"],
                 "--load-format, --enforce-eager, --swap-space"),
                (["--enable-prefix-caching", "--no-enable-log-requests"],
                 "--enable-prefix-caching, --no-enable-log-requests"),
                (["--enable-chunked-prefill=True"], "--enable-chunked-prefill"),
                (["--enable_chunked_prefill", "true"], "--enable_chunked_prefill"),
                (["--disable-log-requests", "--enable-request-id-headers"],
                 "--disable-log-requests, --enable-request-id-headers"),
                (["--data-parallel-rank", "0", "-dp", "1"], "--data-parallel-rank, -dp"),
                (["--compilation-config", '{"mode": 3}'], "--compilation-config"),
                (["--compilation-config.mode", "3", "-O3", "-O", "2"], "--compilation-config.mode, -O3, -O"),
                (["--cudagraph-capture-sizes", "1", "2", "4", "--ignore-patterns", "a"],
                 "--cudagraph-capture-sizes, --ignore-patterns"),
                (["--hf-token", "--async-scheduling"], "--hf-token, --async-scheduling"),
                (["--task", "embed", "--runner", "pooling", "--convert", "embed"], "--task, --runner, --convert"),
                (["--hf-token", "hf_secret", "--tokenizer-mode", "auto"], "--hf-token, --tokenizer-mode")):
            with self.subTest(arguments):
                err = self.run_yoke(*plan, *arguments, "--log-level", "info").err
                self.assertIn(f"yoke: options of vLLM that change nothing here: {named}\n", err)
                self.assertNotIn("secret", err)
        self.assertEqual(self.run_yoke(*plan, "--trust-remote-code", "--log-level", "warn").err, "")
        for arguments, *parts in (
                (["-dp2"], "--data-parallel-size 2", "router"),
                (["--tokenizer-mode", "mistral"], "--tokenizer-mode mistral", "tokenizer.json"),
                (["--uds", "/x"], "--uds: ", "--host", "systemd-socket-activate"),
                (["--ssl-keyfile", "k"], "--ssl-keyfile: ", "proxy"),
                (["--speculative-config", "{}"], "--speculative-config: ", "leave it out"),
                (["--speculative-config.method", "ngram"], "--speculative-config: "),
                (["--no-enable-prefix-caching"], "--no-enable-prefix-caching: use --no-prefix-reuse"),
                (["--enable-chunked-prefill=False"], "--enable-chunked-prefill: ", "--max-num-batched-tokens"),
                (["--load-format", "gguf"], "--load-format gguf", "safetensors"),
                (["--quantization", "bitsandbytes"], "--quantization bitsandbytes", "compressed-tensors"),
                (["--kv-cache-memory-bytes", "1"], "--kv-cache-memory-bytes: use --kv-cache-bytes"),
                (["--max-cpu-loras", "2"], "--max-cpu-loras: ", "--max-loras"),
                (["--task", "score"], "--task score", "modules.json"),
                (["--convert", "classify"], "--convert classify", "modules.json"),
                (["--prompt-adapters", "a=b", "c=d"], "--lora-modules"),
                (["--rope-scaling", "{}"], "--rope-scaling: use --hf-overrides"),
                (["--swap-space"], "--swap-space: expected a value")):
            with self.subTest(arguments):
                self.assert_usage_error([*plan, *arguments], *parts)
        self.assert_usage_error(["tokenize", "-m", harness.DEMO, "--trust-remote-code"], "unknown option")

    def test_every_option_of_vllm(self):
        """No name is also an option of Yoke, which would hide the row. The server has all options except those of
        plans."""
        source = os.path.join(harness.TESTS_DIR, "..", "runtime", "cli", "options", "vllm_options.c")
        with open(source, encoding="utf-8") as file:
            rows = re.findall(r'(?m)^    (?:PASSED\(|REFUSED\(|\{)"([^"]+)", (?:NULL|"([^"]+)")', file.read())
        self.assertGreater(len(rows), 150)
        names = [name for row in rows for name in row if name]
        self.assertEqual(sorted(set(names)), sorted(names))
        for command in ("serve", "generate", "chat", "batch", "score", "bench", "study", "plan"):
            own = re.findall(r"(?m)^  (?:-(\w), |--(\w+), )?--([\w-]+)", self.run_yoke(command, "--help").out)
            self.assertEqual([name for row in own for name in row if name in names], [], command)

    def test_missing_files(self):
        self.assert_error(["generate", "-m", "/no/such/dir", "-p", "a"], "/no/such/dir")
        self.assert_error(["plan", "-m", "/no/such/dir"], "/no/such/dir")
        self.assert_error(["tokenize", "-m", "/no/such/dir", "a"], "/no/such/dir")
        self.assert_error(["generate", "-m", harness.DEMO, "--prompt-file", "/no/such/file"], "/no/such/file")

    def test_full_disk(self):
        for arguments in (["--help"], ["--version"], ["generate", "--help"]):
            with self.subTest(arguments), open("/dev/full", "wb") as full:
                done = subprocess.run([self.yoke, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"standard output", done.stderr)


if __name__ == "__main__":
    harness.main()
