"""Reasoning and tool calls in answers of `yoke serve`, by a model that writes them token by token."""

import json
import os
import unittest

import harness
from chain_case import make_chain_model
from server_case import Case

CHAT = "/v1/chat/completions"
ASKED = {"messages": [{"role": "user", "content": "x"}], "temperature": 0}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}}}]


def chain(first, *texts):
    """Successors of a sequence in which each text occurs once."""
    return dict(zip((first, *texts), texts, strict=False))


class ChainCase(Case):
    def serve_chain(self, steps, template, *options, **more):
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        return self.serve(*options, model=make_chain_model(folder, steps, template, **more))

    def both_ways(self, server, **fields):
        """The message and its finish reason of a whole answer, which a stream repeats."""
        response = server.post(CHAT, {**ASKED, **fields})
        self.assertEqual(response.status, 200, response.text)
        whole = response.value
        choice, joined = whole["choices"][0], {"content": "", "reasoning": "", "reasoning_content": ""}
        calls, reason = {}, None
        for event in self.stream(server, CHAT, {**ASKED, **fields}):
            delta = event["choices"][0]["delta"]
            reason = event["choices"][0]["finish_reason"] or reason
            for key in joined:
                joined[key] += delta.get(key) or ""
            for call in delta.get("tool_calls", ()):
                found = calls.setdefault(call["index"], {"name": "", "arguments": ""})
                for key, text in call["function"].items():
                    found[key] += text
        message = choice["message"]
        for key, text in joined.items():
            self.assertEqual(text, message.get(key) or "")
        whole_calls = [call["function"] for call in message.get("tool_calls", ())]
        self.assertEqual([calls[index] for index in sorted(calls)], whole_calls)
        self.assertEqual(reason, choice["finish_reason"])
        return whole, message, reason


@harness.of_the_program
class Parsers(ChainCase):
    def test_reasoning_that_the_template_opens(self):
        steps = chain("<think>", "so", " far", "</think>", "\n\n", "Well.")
        server = self.serve_chain(steps, "{{ messages[0].content }}{% if enable_thinking is defined and not "
                                         "enable_thinking %}</think>{% else %}<think>{% endif %}")
        whole, message, reason = self.both_ways(server)
        self.assertEqual((message["reasoning"], message["reasoning_content"], message["content"], reason),
                         ("so far", "so far", "Well.", "stop"))
        self.assertEqual(whole["usage"]["completion_tokens_details"], {"reasoning_tokens": 3})
        _, message, _ = self.both_ways(server, include_reasoning=False)
        self.assertEqual((message.get("reasoning"), message["content"]), (None, "Well."))
        _, message, _ = self.both_ways(server, chat_template_kwargs={"enable_thinking": False})
        self.assertEqual((message.get("reasoning"), message["content"].strip()), (None, "Well."))
        _, message, reason = self.both_ways(server, max_tokens=1)
        self.assertEqual((message["reasoning"], message["content"], reason), ("so", None, "length"))
        whole, message, _ = self.both_ways(server, stop=[" far"], logprobs=True)
        self.assertEqual((message["reasoning"], message["content"]), ("so", None))
        self.assertEqual(whole["choices"][0]["logprobs"]["content"][0]["token"], "so")
        refused = server.post(CHAT, {**ASKED, "tools": TOOLS})
        self.assert_refused(refused, 400, "--tool-call-parser", "hermes", param="tools")

    def test_calls_in_special_tokens(self):
        """The template shows the form; a parser that is named has priority."""
        steps = chain("<s>", "[THINK]", "so", "[/THINK]", "[TOOL_CALLS]", "add", "[ARGS]", '{"n": ', "1}")
        special = ("<s>", "[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]")
        template = "{{ messages[0].content }}{# [THINK][TOOL_CALLS] #}<s>"
        server = self.serve_chain(steps, template, special=special)
        _, message, reason = self.both_ways(server, tools=TOOLS)
        self.assertEqual((message["reasoning"], message["content"], reason), ("so", None, "tool_calls"))
        self.assertEqual(message["tool_calls"][0]["function"], {"name": "add", "arguments": '{"n": 1}'})
        self.assertRegex(message["tool_calls"][0]["id"], r"^[0-9A-Za-z]{9}$")
        _, message, reason = self.both_ways(server)
        self.assertEqual((message["reasoning"], message["content"], reason), ("so", 'add{"n": 1}', "stop"))
        _, message, reason = self.both_ways(server, tools=TOOLS, max_tokens=7)
        self.assertEqual((message["tool_calls"][0]["function"]["arguments"], reason), ('{"n": ', "length"))
        plain = self.serve_chain(steps, template, "--reasoning-parser", "none", "--tool-call-parser", "hermes",
                                 special=special)
        _, message, _ = self.both_ways(plain, tools=TOOLS, skip_special_tokens=False)
        self.assertEqual(message["content"], "".join(list(steps.values())))

    def test_types_of_arguments(self):
        """The schema is read before the body is dropped."""
        steps = chain("<think>", "so", "</think>", "<tool_call>", "\n<function=add>", "\n<parameter=n>\n", "12",
                      "\n</parameter", ">\n<parameter=s>", "\n3", "\n</parameter>", "\n</function>\n</tool_call>")
        server = self.serve_chain(steps, "{{ messages[0].content }}<think>", "--tool-call-parser", "qwen3_coder")
        _, message, reason = self.both_ways(server, tools=TOOLS)
        self.assertEqual((message["reasoning"], reason), ("so", "tool_calls"))
        self.assertEqual(json.loads(message["tool_calls"][0]["function"]["arguments"]), {"n": 12, "s": "3"})


THINKING = ("{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}<think></think>"
            "{% else %}<think>{% endif %}")
BOOLEAN = {"response_format": {"type": "json_schema", "json_schema": {"name": "b", "schema": {"type": "boolean"}}}}


def parts(message):
    return message.get("reasoning"), message["content"]


@harness.of_the_program
class Budgets(ChainCase):
    def test_a_budget_forces_the_end_of_reasoning(self):
        """A forced token has the log-probability that the model gave it."""
        steps = chain("<think>", "so", " far", " so", " good", "</think>", "Well.")
        server = self.serve_chain(steps, THINKING)
        most = "so far so good"
        for budget, reasoning in ((0, None), (1, "so"), (3, "so far so"), (9, most), (-1, most)):
            whole, message, reason = self.both_ways(server, thinking_token_budget=budget, logprobs=True, top_logprobs=1)
            self.assertEqual((*parts(message), reason), (reasoning, "Well.", "stop"))
            self.assertEqual(whole["usage"]["completion_tokens"], (budget if 0 <= budget < 4 else 4) + 3)
            if 0 <= budget < 4:
                forced = whole["choices"][0]["logprobs"]["content"][budget]
                best, = forced["top_logprobs"]
                self.assertEqual((forced["token"], best["token"]), ("</think>", ("so", " far", " so", " good")[budget]))
                self.assertAlmostEqual(best["logprob"] - forced["logprob"], 16, delta=0.01)
        _, message, _ = self.both_ways(server, thinking_token_budget=1, allowed_token_ids=[ord("a") - 32], max_tokens=4)
        self.assertEqual(parts(message), ("a", "aa"))
        choices = server.post(CHAT, {**ASKED, "thinking_token_budget": 2, "n": 3}).value["choices"]
        self.assertEqual([parts(choice["message"]) for choice in choices], [("so far", "Well.")] * 3)
        off = {"chat_template_kwargs": {"enable_thinking": False}}
        self.assertEqual(parts(self.both_ways(server, thinking_token_budget=0, **off)[1]), (None, "Well."))
        for value in (-2, True, 1.5, "5", [], 2 ** 40):
            refused = server.post(CHAT, {**ASKED, "thinking_token_budget": value})
            self.assert_refused(refused, 400, "thinking_token_budget", param="thinking_token_budget")

    def test_tags_of_several_tokens_that_the_model_opens(self):
        steps = {"<s>": "Here is my thought process:", "Here is my thought process:": "so", "so": " far", " far": "so",
                 ":": "Well."}
        server = self.serve_chain(steps, "{{ messages[0].content }}<s>", "--reasoning-parser", "granite")
        whole, message, reason = self.both_ways(server, thinking_token_budget=2)
        self.assertEqual((*parts(message), reason), ("so far", "Well.", "stop"))
        self.assertEqual(whole["usage"]["completion_tokens"], 1 + 2 + len("Here is my response:") + 2)
        plain = self.serve_chain(steps, "{{ messages[0].content }}<s>")
        refused = plain.post(CHAT, {**ASKED, "thinking_token_budget": 2})
        self.assert_refused(refused, 400, "--reasoning-parser", param="thinking_token_budget")


@unittest.skipUnless(harness.has_grammar_library(), "no grammar library")
@harness.of_the_program
class Constraints(ChainCase):
    """Answers that a constraint changes: the model writes "Well." unless the mask excludes it."""

    def test_a_constraint_holds_behind_the_reasoning(self):
        steps = chain("<think>", "so", " far", "</think>", "Well.")
        server = self.serve_chain(steps, THINKING, "--tool-call-parser", "hermes")
        whole, message, reason = self.both_ways(server, **BOOLEAN)
        self.assertEqual((*parts(message), reason), ("so far", "false", "stop"))
        self.assertEqual(whole["usage"]["completion_tokens_details"], {"reasoning_tokens": 3})
        for fields in ({"guided_choice": ["yes"]}, {"structured_outputs": {"choice": ["yes"]}}):
            self.assertEqual(parts(self.both_ways(server, **fields)[1]), ("so far", "yes"))
        self.assertEqual(parts(self.both_ways(server, thinking_token_budget=1, guided_choice=["yes"])[1]),
                         ("so", "yes"))
        off = {"chat_template_kwargs": {"enable_thinking": False}}
        self.assertEqual(parts(self.both_ways(server, **BOOLEAN, **off)[1]), (None, "false"))
        self.assertEqual(parts(self.both_ways(server, **BOOLEAN, include_reasoning=False)[1]), (None, "false"))
        choices = server.post(CHAT, {**ASKED, **BOOLEAN, "n": 3}).value["choices"]
        self.assertEqual([parts(choice["message"]) for choice in choices], [("so far", "false")] * 3)
        _, message, reason = self.both_ways(server, tools=TOOLS, tool_choice="required", parallel_tool_calls=False,
                                            max_tokens=200)
        self.assertEqual((message["reasoning"], message["content"]), ("so far", None))
        self.assertEqual(message["tool_calls"][0]["function"]["name"], "add")
        asked = {"prompt": "x<think>", "temperature": 0, "guided_choice": ["yes"]}
        self.assertEqual(server.post("/v1/completions", asked).value["choices"][0]["text"], "so far</think>yes")
        asked["prompt"] = "x"
        self.assertEqual(server.post("/v1/completions", asked).value["choices"][0]["text"], "yes")

    def test_reasoning_that_the_model_opens_or_does_not(self):
        for first, reasoning in (("<think>", "so"), ("Well.", None)):
            steps = {"<s>": first, "<think>": "so", "so": "</think>", "</think>": "Well."}
            server = self.serve_chain(steps, "{{ messages[0].content }}{# <think> #}<s>")
            self.assertEqual(parts(self.both_ways(server, **BOOLEAN)[1]), (reasoning, "false"))
            self.assertEqual(parts(self.both_ways(server, guided_regex="<?a{2}")[1]), (reasoning, "<aa"))
            server.stop()

    def test_a_token_that_ends_the_reasoning_and_begins_the_answer(self):
        """Wherever tokens divide the close tag; a token is masked if the constraint excludes its text after the tag."""
        tag = "</think>"
        cuts = [(f"so{tag[:cut]}", f"{tag[cut:]}\n ye") for cut in range(1, len(tag))]
        begins = "".join(f"{{% if cut == {cut} %}}<s{cut}>{{% endif %}}" for cut in range(len(cuts)))
        steps = {**{f"<s{cut}>": first for cut, (first, _) in enumerate(cuts)}, **dict(cuts)}
        server = self.serve_chain(steps, f"{{{{ messages[0].content }}}}{begins}", "--reasoning-parser", "deepseek_r1")
        for cut, (first, _) in enumerate(cuts):
            fields = {"chat_template_kwargs": {"cut": cut}, "max_tokens": 40}
            self.assertEqual(parts(self.both_ways(server, **fields)[1]), ("so", "ye"))
            self.assertEqual(parts(self.both_ways(server, guided_choice=["yes"], **fields)[1]), ("so", "yes"))
            _, message, _ = self.both_ways(server, guided_choice=["no"], thinking_token_budget=3, **fields)
            self.assertEqual(parts(message), (first, "no"))

    def test_reasoning_that_does_not_end(self):
        """An end of the output is no end of reasoning under a constraint."""
        server = self.serve_chain({"<think>": "so", "so": " far"}, THINKING)
        _, message, reason = self.both_ways(server, **BOOLEAN, max_tokens=6)
        self.assertEqual((message["reasoning"][:6], message["content"], reason), ("so far", None, "length"))
        _, message, reason = self.both_ways(server, **BOOLEAN, thinking_token_budget=3)
        self.assertEqual((message["content"], reason), ("false", "stop"))
        self.assertEqual(parts(self.both_ways(server)[1]), ("so far", None))

    def test_generate_and_batch(self):
        """generate also with preempted requests, whose masks continue."""
        folder = harness.scratch_folder(self.addCleanup)
        model = make_chain_model(os.path.join(folder, "model"), chain("<think>", "so", " far", "</think>", "Well."),
                                 THINKING)
        schema, lines, answers = (os.path.join(folder, name) for name in ("schema", "in.jsonl", "out.jsonl"))
        with open(schema, "w", encoding="utf-8") as file:
            json.dump({"type": "string", "minLength": 60, "maxLength": 60}, file)
        prompts = [option for _ in range(6) for option in ("-p", "x<think>")]
        done = self.run_json("generate", "--model", model, *harness.ON, "--json-schema", schema, "--temperature", 0,
                             *prompts, "--kv-cache-bytes", 208 * 1024, "--max-model-len", 200)
        self.assertEqual([line["text"] for line in done], ['so far</think>"' + " " * 60 + '"'] * 6)
        self.assertIn("preemptions: ", self.last_err)
        with open(lines, "w", encoding="utf-8") as file:
            for fields in (BOOLEAN, {"thinking_token_budget": 1}):
                file.write(json.dumps({"custom_id": "a", "method": "POST", "url": CHAT, "body": {**ASKED, **fields}})
                           + "\n")
        self.run_yoke("batch", "--model", model, *harness.ON, lines, "-o", answers)
        with open(answers, encoding="utf-8") as file:
            found = [parts(json.loads(line)["response"]["body"]["choices"][0]["message"]) for line in file]
        self.assertEqual(sorted(found), [("so", "Well."), ("so far", "false")])


if __name__ == "__main__":
    harness.main()
