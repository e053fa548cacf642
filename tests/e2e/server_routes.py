"""Answers of `yoke serve`, route by route; every kind of request gives the same tokens."""

import contextlib
import json
import os
import re
import shutil
import socket
import time
import unittest

import harness
from server_case import Case, ask_on, events_of, raw, request_bytes, text_of

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
SAMPLED = {"temperature": 0.8, "top_p": 0.9, "top_k": 50, "seed": 7, "max_tokens": 24}


def read_expected():
    with open(os.path.join(harness.DEMO, "expected.json"), encoding="utf-8") as file:
        return json.load(file)


@harness.of_the_program
class Routes(Case):
    def copy_of_demo(self):
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        return shutil.copytree(harness.DEMO, folder)

    def test_models_and_versions(self):
        server = self.serve()
        models = server.ask("GET", "/v1/models").value
        self.assertEqual(models["object"], "list")
        model = models["data"][0]
        self.assertEqual((model["id"], model["root"], model["object"], model["max_model_len"]),
                         (harness.DEMO, harness.DEMO, "model", 1024))
        self.assertEqual(server.ask("GET", "/v1/models/" + harness.DEMO).value, model)
        self.assertEqual(server.ask("GET", "/v1/models/" + harness.DEMO.replace("/", "%2F")).value, model)
        self.assertRegex(server.ask("GET", "/version").value["version"], r"^\d+\.\d+\.\d+$")
        for method, path in (("GET", "/health"), ("GET", "/ping"), ("POST", "/ping"), ("HEAD", "/health")):
            answer = server.ask(method, path)
            self.assertEqual((answer.status, answer.text), (200, ""))
        named = self.serve("--served-model-name", "a/b", "c", "--served-model-name=d")
        self.assertEqual([model["id"] for model in named.ask("GET", "/v1/models").value["data"]], ["a/b", "c", "d"])
        self.assertEqual(named.ask("GET", "/v1/models/a/b").value["id"], "a/b")
        self.assertEqual(named.ask("GET", "/v1/models/c").value["id"], "c")
        self.assertEqual(named.ask("GET", "/v1/models/" + harness.DEMO).status, 404)
        for name in ("a/b", "c", "d", "", None):
            answer = named.post(COMPLETIONS, {"model": name, "prompt": "x", "max_tokens": 1})
            self.assertEqual((answer.status, answer.value["model"]), (200, "a/b"))

    def test_variables_of_the_template(self):
        path = os.path.join(harness.scratch_folder(self.addCleanup), "mode.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{{ raise_exception('mode is ' ~ mode ~ ', think ' ~ enable_thinking) }}")
        server = self.serve("--chat-template", path, "--default-chat-template-kwargs",
                            '{"mode": 7, "enable_thinking": false}')
        messages = [{"role": "user", "content": "x"}]
        for fields, found in (({}, "mode is 7, think False"),
                              ({"chat_template_kwargs": {"mode": 8}}, "mode is 8, think False"),
                              ({"chat_template_kwargs": {"enable_thinking": True}}, "mode is 7, think True")):
            for route in ("/v1/chat/completions", "/tokenize"):
                answer = server.post(route, {"messages": messages, **fields})
                self.assertEqual(answer.status, 400)
                self.assertIn(found, answer.text)

    def test_the_page(self):
        server = self.serve()
        page = server.ask("GET", "/")
        self.assertEqual((page.status, page.getheader("Content-Type")), (200, "text/html; charset=utf-8"))
        path = os.path.join(harness.TESTS_DIR, "..", "runtime", "server", "page", "index.html")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(page.text, file.read())
        self.assertEqual(server.ask("GET", "/index.html").text, page.text)
        self.assertEqual(server.ask("GET", "/index.html?a=b").text, page.text)
        self.assertEqual(server.ask("HEAD", "/").text, "")
        self.assertIn("frame-ancestors 'none'", page.getheader("Content-Security-Policy"))
        for path in ("/", "/v1/models", "/nothing"):
            self.assertEqual(server.ask("GET", path).getheader("X-Content-Type-Options"), "nosniff", path)

    def test_streamed_is_whole_is_generate(self):
        server = self.serve("--tp", 2)
        prompts = read_expected()["prompts"][::6]
        for sampling in ({"temperature": 0, "max_tokens": 64}, SAMPLED):
            options = [part for key, value in sampling.items() for part in ("--" + key.replace("_", "-"), value)]
            for prompt in prompts:
                body = {"prompt": prompt["prompt"], **sampling, "return_token_ids": True}
                whole = server.post(COMPLETIONS, body).value["choices"][0]
                events = [event["choices"][0] for event in self.stream(server, COMPLETIONS, body)]
                self.assertEqual("".join(event["text"] for event in events), whole["text"])
                self.assertEqual(sum((event["token_ids"] for event in events), []), whole["token_ids"])
                self.assertEqual(events[-1]["finish_reason"], whole["finish_reason"])
            # The program derives a prompt's seed from its own: with a request's seed, only greedy outputs are equal.
            if sampling["temperature"] == 0:
                asked = [part for prompt in prompts for part in ("--prompt", prompt["prompt"])]
                results = self.run_json("generate", "-m", harness.DEMO, *harness.ON, *options, *asked)
                for prompt, result in zip(prompts, results, strict=True):
                    body = {"prompt": prompt["prompt"], **sampling, "return_token_ids": True}
                    answer = server.post(COMPLETIONS, body)
                    self.assertEqual(answer.value["choices"][0]["text"], result["text"])
                    self.assertEqual(answer.value["choices"][0]["token_ids"], result["token_ids"])

    @unittest.skipUnless(harness.ON_CPU, "models for CPU ranks")
    def test_experts_and_latent_attention(self):
        """Goldens of transformers, as token ids: whole, streamed, and with cached prefixes."""
        for name, *options in (("moe_qwen3", "--tp", 2, "--enable-expert-parallel"), ("deepseek_v3", "--tp", 3)):
            folder = os.path.join(harness.FAMILIES, name)
            with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
                prompts = json.load(file)["prompts"]
            server = self.serve(*options, "--dtype", "float32", model=folder)
            for prompt in prompts:
                body = {"prompt": prompt["prompt_ids"], "max_tokens": len(prompt["output_ids"]), "temperature": 0,
                        "ignore_eos": True, "return_token_ids": True}
                whole = server.post(COMPLETIONS, body).value["choices"][0]
                self.assertEqual(whole["token_ids"], prompt["output_ids"])
                events = [event["choices"][0] for event in self.stream(server, COMPLETIONS, body)]
                self.assertEqual(sum((event["token_ids"] for event in events), []), prompt["output_ids"])
            self.assertGreater(server.metric("prefix_cache_hits_total"), 0)

    def test_prompts_of_every_kind(self):
        """Text, ids, and lists of either; a choice's index is prompt times n plus sample."""
        server = self.serve()
        text = "The capital of Norway is"
        ids = server.post("/tokenize", {"prompt": text}).value["tokens"]
        fields = {**SAMPLED, "max_tokens": 8}
        one = server.post(COMPLETIONS, {"prompt": text, **fields}).value["choices"][0]["text"]
        two = server.post(COMPLETIONS, {"prompt": text, **fields, "n": 2}).value["choices"]
        self.assertEqual([choice["index"] for choice in two], [0, 1])
        self.assertEqual(two[0]["text"], one)
        other = server.post(COMPLETIONS, {"prompt": "17+25=", **fields, "n": 2}).value["choices"]
        for prompts in ([text, "17+25="], [ids, server.post("/tokenize", {"prompt": "17+25="}).value["tokens"]]):
            body = {"prompt": prompts, **fields, "n": 2}
            answer = server.post(COMPLETIONS, body).value
            self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
            self.assertEqual([choice["text"] for choice in answer["choices"]],
                             [choice["text"] for choice in two + other])
            texts = ["", "", "", ""]
            for event in self.stream(server, COMPLETIONS, body):
                texts[event["choices"][0]["index"]] += text_of(event)
            self.assertEqual(texts, [choice["text"] for choice in answer["choices"]])
        self.assertEqual(server.post(COMPLETIONS, {"prompt": ids, **fields}).value["choices"][0]["text"], one)

    def test_ends(self):
        """The answer names the end of an output, and has its text only if requested, as in vLLM."""
        server = self.serve()
        body = {"prompt": "The capital of Norway is", "temperature": 0}
        full_stop = server.post("/tokenize", {"prompt": "."}).value["tokens"][0]
        for asked, text, reason in (({}, " Oslo.", None), ({"stop": ["never", "slo"]}, " O", "slo"),
                                    ({"stop": "slo", "include_stop_str_in_output": True}, " Oslo", "slo"),
                                    ({"stop_token_ids": [full_stop]}, " Oslo", full_stop),
                                    ({"stop_token_ids": [full_stop], "include_stop_str_in_output": True}, " Oslo.",
                                     full_stop),
                                    ({"skip_special_tokens": False}, " Oslo.", None),
                                    ({"skip_special_tokens": False, "include_stop_str_in_output": True},
                                     " Oslo.<|endoftext|>", None)):
            choice = server.post(COMPLETIONS, {**body, **asked}).value["choices"][0]
            self.assertEqual((choice["text"], choice["finish_reason"], choice["stop_reason"]), (text, "stop", reason))
            events = self.stream(server, COMPLETIONS, {**body, **asked})
            self.assertEqual("".join(map(text_of, events)), text)
            self.assertEqual(events[-1]["choices"][0]["stop_reason"], reason)
        ids = server.post(COMPLETIONS, {**body, "ignore_eos": True, "skip_special_tokens": False, "max_tokens": 4})
        self.assertEqual(ids.value["choices"][0]["text"][:19], " Oslo.<|endoftext|>")

    def test_log_probabilities(self):
        server = self.serve()
        prompt = read_expected()["prompts"][0]
        body = {"prompt": prompt["prompt"], "temperature": 0, "max_tokens": 64, "logprobs": 1}
        found = server.post(COMPLETIONS, body).value["choices"][0]["logprobs"]
        for logprob, expected in zip(found["token_logprobs"], prompt["logprobs"], strict=True):
            self.assertAlmostEqual(logprob, expected, delta=0.02)
        echoed = server.post(COMPLETIONS, {**body, "echo": True, "max_tokens": 1}).value["choices"][0]
        self.assertTrue(echoed["text"].startswith(prompt["prompt"]))
        self.assertIsNone(echoed["logprobs"]["token_logprobs"][0])
        self.assertEqual("".join(echoed["logprobs"]["tokens"][:-1]), prompt["prompt"])
        fields = {"return_token_ids": True, "return_tokens_as_token_ids": True}
        named = server.post(COMPLETIONS, {**body, "echo": True, **fields}).value["choices"][0]
        self.assertEqual(named["prompt_token_ids"],
                         server.post("/tokenize", {"prompt": prompt["prompt"]}).value["tokens"])
        names = [f"token_id:{id}" for id in named["prompt_token_ids"] + named["token_ids"]]
        self.assertEqual(named["logprobs"]["tokens"], names)
        for tops, name in list(zip(named["logprobs"]["top_logprobs"], names, strict=True))[1:]:
            self.assertIn(name, tops)

    def test_log_probabilities_of_listed_ids(self):
        server = self.serve("--chat-template", "builtin:chatml")
        body = {"prompt": "Mia has a", "temperature": 0, "max_tokens": 3, "return_tokens_as_token_ids": True}
        best = server.post(COMPLETIONS, {**body, "logprobs": 5}).value["choices"][0]["logprobs"]
        ids = [int(name.split(":")[1]) for name in best["top_logprobs"][0]]
        listed = {"logprobs": 2, "logprob_token_ids": [*ids, 7, 7]}
        found = server.post(COMPLETIONS, {**body, **listed, "n": 2}).value["choices"]
        for choice in found:
            self.assertEqual(choice["logprobs"]["token_logprobs"], best["token_logprobs"])
            first = choice["logprobs"]["top_logprobs"][0]
            self.assertEqual(set(first), {*best["top_logprobs"][0], "token_id:7"})
            for name, logprob in best["top_logprobs"][0].items():
                self.assertAlmostEqual(first[name], logprob, delta=1e-5)
            for name, tops in zip(choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"], strict=True):
                self.assertEqual(set(tops), {name, *first})
        events = self.stream(server, COMPLETIONS, {**body, **listed})
        streamed = [tops for event in events for choice in event["choices"]
                    for tops in (choice["logprobs"] or {}).get("top_logprobs", [])]
        self.assertEqual(streamed, found[0]["logprobs"]["top_logprobs"])
        chat = {"messages": [{"role": "user", "content": "17+25="}], "max_tokens": 2, "temperature": 0,
                "logprobs": True, "top_logprobs": 3, "return_tokens_as_token_ids": True}
        natural = server.post(CHAT, chat).value["choices"][0]["logprobs"]["content"]
        chosen = int(natural[0]["token"].split(":")[1])
        asked = {**chat, "logprob_token_ids": [7, chosen, 9, 7]}
        content = server.post(CHAT, asked).value["choices"][0]["logprobs"]["content"]
        self.assertEqual([top["token"] for top in content[0]["top_logprobs"]],
                         [natural[0]["token"], "token_id:7", "token_id:9"])
        self.assertEqual(content[0]["top_logprobs"][0]["logprob"], natural[0]["logprob"])
        parts = [part for event in self.stream(server, CHAT, asked) for choice in event["choices"]
                 for part in (choice["logprobs"] or {}).get("content", [])]
        self.assertEqual(parts, content)

    def test_chats(self):
        server = self.serve("--chat-template", "builtin:chatml")
        body = {"messages": [{"role": "user", "content": "17+25="}], "temperature": 0, "max_completion_tokens": 12}
        whole = server.post(CHAT, body).value
        message = whole["choices"][0]["message"]
        self.assertEqual((whole["object"], message["role"]), ("chat.completion", "assistant"))
        events = self.stream(server, CHAT, {**body, "stream_options": {"include_usage": True}})
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        usage = events.pop()
        self.assertEqual(usage["choices"], [])
        self.assertEqual(usage["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        self.assertEqual("".join(map(text_of, events)), message["content"])
        ids = server.post("/tokenize", {"messages": body["messages"]}).value
        self.assertEqual(ids["count"], whole["usage"]["prompt_tokens"])
        parts = [{"type": "text", "text": "17+25="}]
        again = server.post(CHAT, {**body, "messages": [{"role": "user", "content": parts}]}).value
        self.assertEqual(again["choices"], whole["choices"])
        fields = {"return_tokens_as_token_ids": True, "logprobs": True, "return_token_ids": True}
        named = server.post(CHAT, {**body, **fields}).value
        self.assertEqual(named["prompt_token_ids"], ids["tokens"])
        choice = named["choices"][0]
        self.assertEqual([token["token"] for token in choice["logprobs"]["content"]],
                         [f"token_id:{id}" for id in choice["token_ids"]])
        self.assertTrue(bytes(choice["logprobs"]["content"][0]["bytes"]).decode() in message["content"])
        raw_prompt = server.post(COMPLETIONS, {"prompt": ids["tokens"], "temperature": 0, "max_tokens": 12}).value
        self.assertEqual(raw_prompt["choices"][0]["text"], message["content"])

    def test_usage_that_is_forced(self):
        server = self.serve("--enable-force-include-usage", "--chat-template", "builtin:chatml")
        chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3}
        for path, body in ((COMPLETIONS, {"prompt": "x", "max_tokens": 3}), (CHAT, chat)):
            for options in (None, {}, {"include_usage": False}):
                usage = self.stream(server, path, {**body, "ignore_eos": True, "stream_options": options})[-1]
                self.assertEqual((usage["choices"], usage["usage"]["completion_tokens"]), ([], 3))
            self.assertEqual(server.post(path, body).status, 200)

    def test_continued_messages(self):
        """An answer continues the text of the last message, and contains only the new text."""
        server = self.serve("--chat-template", "builtin:chatml")
        continued = {"messages": [{"role": "user", "content": "17+25="}, {"role": "assistant", "content": "The "}],
                     "add_generation_prompt": False, "continue_final_message": True}
        fields = {"temperature": 0, "ignore_eos": True, "return_token_ids": True}
        said = server.post(CHAT, {**continued, **fields, "max_completion_tokens": 8}).value
        prompt = "<|im_start|>user\n17+25=<|im_end|>\n<|im_start|>assistant\nThe "
        written = server.post(COMPLETIONS, {"prompt": prompt, **fields, "max_tokens": 8}).value
        self.assertEqual(said["usage"]["prompt_tokens"], written["usage"]["prompt_tokens"])
        self.assertEqual(said["choices"][0]["token_ids"], written["choices"][0]["token_ids"])
        self.assertEqual(said["choices"][0]["message"]["content"], written["choices"][0]["text"])
        self.assertEqual(server.post("/tokenize", continued).value["tokens"],
                         server.post("/tokenize", {"prompt": prompt}).value["tokens"])

    def test_answers_of_builtin_forms_end(self):
        """With the end token of the template, although the model's files do not list it as an end."""
        model = harness.make_turn_end_model(os.path.join(harness.scratch_folder(self.addCleanup), "model"))
        server = self.serve("--chat-template", "builtin:chatml", model=model)
        body = {"messages": [{"role": "user", "content": "17+25="}], "temperature": 0, "max_tokens": 60,
                "stop_token_ids": [5], "return_token_ids": True}
        choice = server.post(CHAT, body).value["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["token_ids"][-1]), ("stop", 920))
        self.assertNotIn("im_end", choice["message"]["content"])
        for asked in ({"ignore_eos": True}, {"min_tokens": 60}):
            choice = server.post(CHAT, {**body, "stop_token_ids": [], **asked}).value["choices"][0]
            self.assertEqual((choice["finish_reason"], len(choice["token_ids"])), ("length", 60))
        for stop in ([], [choice["token_ids"][0]]):  # the request's own stop tokens still apply
            ends = server.post(CHAT, {**body, "stop_token_ids": stop}).value["choices"][0]["token_ids"]
            self.assertEqual(len(ends) == 1, bool(stop))

    def test_special_tokens_of_chats(self):
        """The tokenizer's initial tokens precede a chat only if requested."""
        model = self.copy_of_demo()
        path = os.path.join(model, "tokenizer.json")
        with open(path, encoding="utf-8") as file:
            tokenizer = json.load(file)
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
                                                     {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [920],
                                                             "tokens": ["<|endoftext|>"]}}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        server = self.serve("--chat-template", "builtin:chatml", model=model)
        body = {"messages": [{"role": "user", "content": "17+25="}]}
        plain = server.post("/tokenize", body).value["tokens"]
        self.assertEqual(plain[0], 921)
        self.assertEqual(server.post("/tokenize", {**body, "add_special_tokens": True}).value["tokens"], [920] + plain)
        self.assertEqual(server.post("/tokenize", {"prompt": "x"}).value["tokens"][0], 920)
        for flag, n_more in ((None, 0), (False, 0), (True, 1)):
            answer = server.post(CHAT, {**body, "max_tokens": 1, "add_special_tokens": flag}).value
            self.assertEqual(answer["usage"]["prompt_tokens"], len(plain) + n_more)

    def serve_template(self, template):
        """A server with this chat template; needs Python with Jinja2."""
        folder = harness.scratch_folder(self.addCleanup)
        path = os.path.join(folder, "template.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write(template)
        server = self.start("--chat-template", path)
        try:
            server.wait_for()
        except AssertionError:
            if "jinja2" not in server.err and "Python" not in server.err:
                raise
            self.skipTest(server.err.strip())
        return server

    def test_a_template_of_the_checkpoint(self):
        server = self.serve_template("{% for message in messages %}{{ message.content }}{% endfor %}")
        content = "The capital of Norway is"
        answer = server.post(CHAT, {"messages": [{"role": "user", "content": content}], "temperature": 0}).value
        self.assertEqual(answer["choices"][0]["message"]["content"].strip(), "Oslo.")

    def test_variables_of_templates(self):
        """A template without developers gets them as system; the reasoning effort is a variable."""
        server = self.serve_template("{{ messages[0].role }} {{ messages[0].content }} {{ reasoning_effort }} "
                                     "{{ enable_thinking }}")
        knowing = self.serve_template("{% if messages[0].role == 'developer' %}one of us{% endif %}")
        body = {"messages": [{"role": "developer", "content": "Be brief."}], "max_tokens": 1}
        for asked, text in (({}, "system Be brief.  "), ({"reasoning_effort": "low"}, "system Be brief. low True"),
                            ({"reasoning_effort": "none"}, "system Be brief. none False"),
                            ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": "maybe"}},
                             "system Be brief. high maybe")):
            expected = server.post("/tokenize", {"prompt": text}).value["count"]
            self.assertEqual(server.post(CHAT, {**body, **asked}).value["usage"]["prompt_tokens"], expected, asked)
        self.assertEqual(knowing.post("/tokenize", {"messages": body["messages"]}).value["tokens"],
                         knowing.post("/tokenize", {"prompt": "one of us"}).value["tokens"])
        calls = self.serve_template("{% for message in messages %}{{ message.role + message.content }}"
                                    "{{ 'called' if 'tool_calls' in message }}{% endfor %}")
        for sent in ({"content": ""}, {}, {"content": None}, {"content": None, "tool_calls": None},
                     {"content": None, "tool_calls": []}):
            found = calls.post("/tokenize", {"messages": [{"role": "assistant", **sent}]}).value["tokens"]
            self.assertEqual(found, calls.post("/tokenize", {"prompt": "assistant"}).value["tokens"], sent)

    def test_prompts_cut_and_words_banned(self):
        server = self.serve("--chat-template", "builtin:chatml")
        keys = {"max_tokens": 24, "temperature": 0, "ignore_eos": True}
        text = server.post(COMPLETIONS, {"prompt": "Mia has a", **keys}).value["choices"][0]["text"]

        def ids_of(said):
            return server.post("/tokenize", {"prompt": said}).value["tokens"]

        word = next(word for word in text.split()  # with as many tokens after a space
                    if word.isalpha() and len(ids_of(word)) == len(ids_of(" " + word)))
        for path, body in ((COMPLETIONS, {"prompt": "Mia has a"}),
                           (CHAT, {"messages": [{"role": "user", "content": "Mia has a"}]})):
            answer = server.post(path, {**body, **keys, "bad_words": [word, "no such word"]}).value["choices"][0]
            self.assertNotIn(f" {word} ", answer.get("text") or answer["message"]["content"])
        ids = ids_of("Tom and Mia has a")
        cut = server.post(COMPLETIONS, {"prompt": "Tom and Mia has a", "truncate_prompt_tokens": 3, **keys}).value
        self.assertEqual(cut["usage"]["prompt_tokens"], 3)
        same = server.post(COMPLETIONS, {"prompt": ids[-3:], **keys}).value
        self.assertEqual(cut["choices"][0]["text"], same["choices"][0]["text"])
        fits = server.post(COMPLETIONS, {"prompt": "x " * 3000, "truncate_prompt_tokens": -1, "max_tokens": 5}).value
        self.assertEqual(fits["usage"], {"prompt_tokens": 1019, "completion_tokens": fits["usage"]["completion_tokens"],
                                         "total_tokens": fits["usage"]["total_tokens"]})
        long = "Tom and Mia has a box. " * ((2 << 20) // 23)
        keys["max_tokens"] = 4
        began = time.monotonic()
        cut = server.post(COMPLETIONS, {"prompt": long, "truncate_prompt_tokens": 3, **keys}).value
        chat = server.post(CHAT, {"messages": [{"role": "user", "content": long}], "truncate_prompt_tokens": 9,
                                  "max_tokens": 1}).value
        cut_s, began = time.monotonic() - began, time.monotonic()
        server.post("/tokenize", {"prompt": long})
        self.assertLess(cut_s, time.monotonic() - began)  # tokenising a whole one takes several times as long
        self.assertEqual((cut["usage"]["prompt_tokens"], chat["usage"]["prompt_tokens"]), (3, 9))
        same = server.post(COMPLETIONS, {"prompt": ids_of(long[-230:])[-3:], **keys}).value
        self.assertEqual(cut["choices"][0]["text"], same["choices"][0]["text"])
        refused = server.post(COMPLETIONS, {"prompt": "x", "truncate_prompt_tokens": 1025})
        self.assert_refused(refused, 400, "1024", param="truncate_prompt_tokens")

    def test_tokens(self):
        server = self.serve()
        text = "Mia the fox: 17+25=42 \u00e9\U0001f98a\n"
        tokens = server.post("/tokenize", {"prompt": text}).value
        expected = self.run_json("tokenize", "-m", harness.DEMO, stdin=json.dumps(text))[0]
        self.assertEqual(tokens["tokens"], expected)
        self.assertEqual((tokens["count"], tokens["max_model_len"]), (len(expected), 1024))
        self.assertEqual(server.post("/detokenize", {"tokens": expected}).value, {"prompt": text})
        strings = server.post("/tokenize", {"prompt": "the fox", "return_token_strs": True}).value["token_strs"]
        self.assertEqual("".join(strings), "the fox")

    # ---- Connections -------------------------------------------------------------------------------------------------

    def test_a_connection_is_kept(self):
        server = self.serve()
        with contextlib.closing(server.connect()) as connection:
            connection.connect()
            port = connection.sock.getsockname()[1]
            for _ in range(3):
                self.assertEqual(ask_on(connection, "GET", "/version").status, 200)
                self.assertEqual(ask_on(connection, "POST", COMPLETIONS, {"prompt": "x", "max_tokens": 2}).status, 200)
                self.assertEqual(ask_on(connection, "POST", COMPLETIONS, {"prompt": ""}).status, 400)
                body = {"prompt": "x", "max_tokens": 4, "ignore_eos": True}
                self.assertEqual(len(self.stream(server, COMPLETIONS, body, connection)), 4)
                self.assertEqual(connection.sock.getsockname()[1], port)

    def test_requests_one_behind_the_other(self):
        """Pipelined: the answers are in order, though the first takes longest."""
        server = self.serve()
        bodies = [{"prompt": "x", "max_tokens": n, "ignore_eos": True} for n in (200, 3, 50)]
        with socket.create_connection(("127.0.0.1", server.port), harness.TIMEOUT_S) as connection:
            connection.sendall(b"".join(request_bytes(COMPLETIONS, body) for body in bodies))
            answer = b""
            while answer.count(b'"usage"') < 3:
                answer += connection.recv(1 << 16)
        found = [int(number) for number in re.findall(rb'"completion_tokens":(\d+)', answer)]
        self.assertEqual(found, [200, 3, 50])

    def test_http_1_0(self):
        server = self.serve()
        request = request_bytes(COMPLETIONS, {"prompt": "x", "max_tokens": 4, "ignore_eos": True, "stream": True})
        answer = raw(server, request.replace(b"HTTP/1.1", b"HTTP/1.0"))
        self.assertNotIn(b"chunked", answer)
        self.assertEqual(answer.count(b"data: {"), 4)
        self.assertTrue(answer.endswith(b"data: [DONE]\n\n"))

    def test_a_body_in_chunks_and_small_pieces(self):
        server = self.serve()
        body = json.dumps({"prompt": "x", "max_tokens": 4, "ignore_eos": True, "stream": True}).encode()
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n")
        pieces = [head] + [b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7)]
        self.assertEqual(len(events_of(raw(server, *pieces, b"0\r\n\r\n", pause_s=0.005))), 4)


if __name__ == "__main__":
    harness.main()
