"""yoke batch answers lines for /v1/chat/completions: the model's prompt is the rendered template."""

import os
import shutil

import harness
from batch_case import Base, chat, openai

CHATML = ("--chat-template", "builtin:chatml")
ASKED = [{"role": "system", "content": "the"}, {"role": "user", "content": "and in"}]
ASKED_CHATML = "<|im_start|>system\nthe<|im_end|>\n<|im_start|>user\nand in<|im_end|>\n<|im_start|>assistant\n"
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
# The last message alone, which the demo model answers, after the names of the tools and a variable.
LAST = "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{{ prefix }}{{ messages[-1].content }}"


def body_of(result):
    return result["response"]["body"]


@harness.of_the_program
class Chats(Base):
    def write_template(self, text, name="template.jinja"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return "--chat-template", self.path(name)

    def test_same_as_the_rendered_text(self):
        keys = {"max_tokens": 20, "seed": 3, "temperature": 0.8, "n": 2, "ignore_eos": True, "return_token_ids": True}
        said, written = self.batch([chat("a", ASKED, **keys), openai("b", prompt=ASKED_CHATML, **keys)], *CHATML,
                                   model=self.text_model)
        self.assertEqual(said["custom_id"], "a")
        self.assertEqual(said["response"]["status_code"], 200)
        self.assertEqual(body_of(said)["object"], "chat.completion")
        self.assertEqual(body_of(said)["id"], "chatcmpl-1")
        self.assertEqual(body_of(said)["usage"], body_of(written)["usage"])
        for choice, expected in zip(body_of(said)["choices"], body_of(written)["choices"], strict=True):
            self.assertEqual(choice["token_ids"], expected["token_ids"])
            self.assertEqual(choice["message"]["role"], "assistant")
            self.assertEqual(choice["message"]["content"], expected["text"])

    def respond(self, custom_id, **body):
        return {"custom_id": custom_id, "method": "POST", "url": "/v1/responses", "body": body}

    def test_responses(self):
        """A response is the chat; errors name the place in the body of the response."""
        model = shutil.copytree(harness.DEMO, self.path("model"))
        with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{% if messages[-1].content == 'no' %}{{ raise_exception('no') }}{% endif %}" + LAST)
        said = {"role": "user", "content": [{"type": "input_text", "text": "17+25="}]}
        lines = [self.respond("a", input="17+25=", temperature=0), chat("b", [{"role": "user", "content": "17+25="}]),
                 self.respond("c", input=[said], instructions="S", max_output_tokens=1, temperature=0),
                 *(self.respond("d", **body) for body in ({}, {"input": []}, {"input": "x", "stream": True}, {
                     "input": "x", "previous_response_id": "resp_1"}, {"input": [{"role": "robot", "content": "x"}]}, {
                         "input": "x", "max_output_tokens": 0}, {"input": "x", "tools": [{"type": "mcp"}]}))]
        lines.append(self.respond("e", input=[{"role": "system", "content": "S"}, {"role": "user", "content": "no"}]))
        found = self.batch(lines, "--temperature", 0, model=model, expect=1)
        answer, as_chat, cut = map(body_of, found[:3])
        self.assertEqual((answer["id"], answer["object"], answer["status"]), ("resp_1", "response", "completed"))
        self.assertEqual(answer["output"][0]["content"][0]["text"], as_chat["choices"][0]["message"]["content"])
        self.assertEqual(answer["usage"]["output_tokens"], as_chat["usage"]["completion_tokens"])
        self.assertEqual((cut["status"], cut["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        params = ["input", "input", "stream", "previous_response_id", "input[0].role", "max_output_tokens", "tools[0]",
                  "input"]
        for result, param in zip(found[3:], params, strict=True):
            error = body_of(result)["error"]
            self.assertEqual((result["response"]["status_code"], error["param"]), (400, param), error)
        self.run_yoke(*self.arguments("--temperature", 0, model=model), expect=1)
        with open(self.output, encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), len(lines))  # nothing is computed again

    def test_answers_of_builtin_forms_end(self):
        """With the end token of the template, although the model's files do not list it as an end."""
        model = harness.make_turn_end_model(self.path("turns"))
        asked, keys = [{"role": "user", "content": "17+25="}], {"max_tokens": 60, "temperature": 0}
        ends, goes_on = self.batch([chat("a", asked, **keys), chat("b", asked, ignore_eos=True, **keys)], *CHATML,
                                   model=model)
        self.assertEqual([body_of(result)["choices"][0]["finish_reason"] for result in (ends, goes_on)],
                         ["stop", "length"])

    def test_answers(self):
        """The checkpoint's own template, found without an option, in a batch with every kind of line."""
        model = shutil.copytree(harness.DEMO, self.path("model"))
        with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write(LAST)
        results = self.batch([chat("a", [{"role": "user", "content": "348+275="}]),
                              chat("b", [{"role": "user", "content": [{"type": "text", "text": "17+25="}]}]),
                              {"prompt": "Sort: k b z a ->"},
                              chat("c", [{"role": "user", "content": "+275="}],
                                   chat_template_kwargs={"prefix": "348"})],
                             "--temperature", 0, model=model)
        self.assertEqual([body_of(results[i])["choices"][0]["message"]["content"] for i in (0, 1, 3)],
                         ["623", "42", "623"])
        self.assertEqual(results[2]["text"], " a b k z")

    def test_messages_become_no_added_tokens(self):
        line = [{"role": "user", "content": "<|im_end|><|endoftext|>"}]
        short = [{"role": "user", "content": ""}]
        said, empty, text = self.batch([chat("a", line, max_tokens=1), chat("b", short, max_tokens=1),
                                        openai("c", prompt="<|im_end|><|endoftext|>", max_tokens=1)],
                                       *CHATML, model=harness.DEMO)
        n_chat, n_empty, n_text = [body_of(result)["usage"]["prompt_tokens"] for result in (said, empty, text)]
        self.assertEqual(n_text, 2)
        self.assertGreater(n_chat - n_empty, 10)

    def test_tools(self):
        asked = [{"role": "user", "content": "the"}]
        template = self.write_template(LAST)
        refused, plain = self.batch([chat("a", asked, tools=[TOOL], max_tokens=4), chat("b", asked, max_tokens=4)],
                                    *template, model=self.text_model, expect=1)
        self.assertIn("--tool-call-parser", refused["error"]["message"])
        self.assertIn("hermes", refused["error"]["message"])
        keys = {"max_tokens": 4, "seed": 1, "ignore_eos": True}
        said, none, written = self.batch([chat("a", asked, tools=[TOOL], **keys),
                                          chat("b", asked, tools=[TOOL], tool_choice="none", **keys),
                                          openai("c", prompt="find the", **keys)],
                                         *template, "--tool-call-parser", "hermes", model=self.text_model)
        self.assertEqual(body_of(said)["usage"], body_of(written)["usage"])
        self.assertEqual(body_of(said)["choices"][0]["message"]["content"], body_of(written)["choices"][0]["text"])
        self.assertEqual(body_of(none)["usage"], body_of(plain)["usage"])

    def test_without_a_template(self):
        """Only these lines are refused, by name."""
        ask = chat("a", ASKED, max_tokens=2)
        results = self.batch([ask, {"prompt": "the", "max_tokens": 2}, ask], model=self.text_model, expect=1)
        for result in (results[0], results[2]):
            self.assertEqual(result["response"]["status_code"], 400)
            self.assertIn("has no chat template", result["error"]["message"])
            self.assertIn("builtin:chatml", result["error"]["message"])
        self.assertIn("text", results[1])

    def test_bad_template_of_the_checkpoint(self):
        model = shutil.copytree(self.text_model, self.path("model"))
        with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{% for %}")
        results = self.batch([chat("a", ASKED, max_tokens=2), {"prompt": "the", "max_tokens": 2}], model=model,
                             expect=1)
        self.assertIn("chat_template.jinja", results[0]["error"]["message"])
        self.assertIn("text", results[1])

    def test_bad_conversations(self):
        """Between good lines."""
        good = chat("g", ASKED, max_tokens=2)
        slow = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        template = self.write_template("{% set said = messages[0].content %}{{ said }}"
                                       "{% if said == 'no' %}{{ raise_exception('not that') }}{% endif %}"
                                       "{% if said == 'slow' %}" + slow + "{% endif %}")
        bad = [(chat("b", [{"role": "user", "content": "no"}]), "not that"),
               (chat("b", [{"role": "user", "content": "slow"}]), "chat template"),
               (chat("b", [{"role": "user"}]), "messages[0].content"),
               (chat("b", [{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content[0]"),
               (chat("b", ASKED, continue_final_message=True, add_generation_prompt=False), "continue_final_message"),
               (chat("b", [{"role": "user", "content": "the " * 300}]), "prompt: expected at most 255 tokens")]
        lines = [good]
        for line, _ in bad:
            lines += [line, good]
        results = self.batch(lines, *template, model=self.text_model, expect=1)
        for (_, part), result in zip(bad, results[1::2], strict=True):
            self.assertIn(part, result["error"]["message"])
            self.assertEqual(result["response"]["status_code"], 400)
        for result in results[::2]:
            self.assertEqual(result["response"]["status_code"], 200)

    def test_bad_options(self):
        self.write([chat("a", ASKED)])
        arguments = self.arguments(model=self.text_model)
        for options, *parts in (
                (("--chat-template", "builtin:none"), "--chat-template", "builtin:none", "builtin:chatml"),
                (("--chat-template", self.path("none")), "--chat-template", "none: No such file"),
                (self.write_template("{{ a"), "--chat-template", "template.jinja")):
            with self.subTest(options):
                self.assert_error([*arguments, *options], *parts)
        self.assert_usage_error([*arguments, "--tool-call-parser", "none"], "--tool-call-parser", "hermes",
                                '"none"')

    def test_resume_counts_the_template(self):
        """The contents count, not the path."""
        self.write([chat("a", ASKED, max_tokens=2)])
        template = self.write_template(LAST)
        first = [*self.arguments(model=self.text_model), *template]
        self.run_yoke(*first)
        with open(self.output, "rb") as file:
            before = file.read()
        self.run_yoke(*first)
        self.run_yoke(*self.arguments(model=self.text_model), *self.write_template(LAST, "copy.jinja"))
        for options in (self.write_template(LAST + "x"), CHATML, ("--chat-template", "builtin:llama3"),
                        (*self.write_template(LAST, "copy.jinja"), "--tool-call-parser", "hermes")):
            with self.subTest(options):
                self.assert_error([*self.arguments(model=self.text_model), *options], "does not belong to this run",
                                  "the model or the options were others")
        with open(self.output, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_resume_counts_the_template_for_tools(self):
        model = shutil.copytree(self.text_model, self.path("model"))
        os.mkdir(os.path.join(model, "additional_chat_templates"))
        path = os.path.join(model, "additional_chat_templates", "tool_use.jinja")
        for text in (LAST, LAST + "x"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.write([{"prompt": "the", "max_tokens": 1}])
            if text == LAST:
                self.run_yoke(*self.arguments(model=model))
            else:
                self.assert_error(self.arguments(model=model), "does not belong to this run")

    def test_goes_on_where_it_was_cut(self):
        lines = [chat(f"r{i}", [{"role": "user", "content": f"the {i}"}], max_tokens=8) for i in range(20)]
        expected = self.batch(lines, *CHATML, model=self.text_model)
        with open(self.output, "rb") as file:
            whole = file.read()
        with open(self.output, "wb") as file:
            file.write(whole[:len(whole) // 2])
        self.run_yoke(*self.arguments(*CHATML, model=self.text_model))
        self.assertEqual(self.results(), expected)


if __name__ == "__main__":
    harness.main()
