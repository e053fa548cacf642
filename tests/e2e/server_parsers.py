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


@harness.of_the_program
class Parsers(Case):
    def serve_chain(self, steps, template, *options, special=()):
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        return self.serve(*options, model=make_chain_model(folder, steps, template, special))

    def both_ways(self, server, **fields):
        """The message and its finish reason of a whole answer, which a stream repeats."""
        whole = server.post(CHAT, {**ASKED, **fields}).value
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


if __name__ == "__main__":
    harness.main()
