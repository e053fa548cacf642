"""Enforced and strict calls of `yoke serve` in every form of `--tool-call-parser`: by a model that begins a call and
draws the rest at random from what the constraint permits, so that calls end. Needs the grammar library.
"""

import json

import harness
from chain_case import END
from constrained_case import satisfies
from server_parsers import CHAT, ChainCase

PARAMETERS = {"type": "object", "required": ["n", "s", "o", "l"], "additionalProperties": False, "properties": {
    "n": {"enum": [7, 21]}, "s": {"enum": ["p q", "x", "5", "true", '"a"', "{}", "b]", "c\\d"]},
    "o": {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"],
          "additionalProperties": False},
    "l": {"type": "array", "items": {"enum": ["k", "m"]}, "maxItems": 2}}}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
SCHEMAS = {"f": PARAMETERS, "g_2": PARAMETERS, "now": EMPTY}


def tools(**fields):
    return [{"type": "function", "function": {"name": name, "parameters": schema, **fields}}
            for name, schema in SCHEMAS.items()]


DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>")
KIMI = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>",
        "<|tool_call_argument_begin|>")
# The name of a parser, the tags that are special tokens, the text that begins an answer with calls, and the tokens
# that such an answer may end with if its last token is no tag, with texts of the form beyond ASCII.
FORMS = (("hermes", (), "<tool_call>", ">"), ("hermes", ("<tool_call>", "</tool_call>"), "<tool_call>", ""),
         ("ernie45", ("<tool_call>", "</tool_call>"), "<tool_call>", ""),
         ("llama3_json", (), '{"name": ', "}"), ("llama4_json", (), '{"name": ', "}"),
         ("granite", ("<|tool_call|>",), "<|tool_call|>", "]"),
         ("hunyuan_a13b", (), "<tool_calls>", ">"),
         ("nemotron_json", (), "<TOOLCALL>", ">"), ("granite4", (), "<tool_call>", ">"),
         ("phi4_mini_json", ("<|tool_call|>", "<|/tool_call|>"), "<|tool_call|>", ""),
         ("phi4_mini_json", (), "functools[", "]"),
         ("mistral", ("[TOOL_CALLS]", "[ARGS]"), "[TOOL_CALLS]", "}]"),
         ("deepseek_v3", DEEPSEEK, DEEPSEEK[0], ""), ("deepseek_v31", DEEPSEEK, DEEPSEEK[0], ""),
         ("deepseek_v32", (), "<｜DSML｜function_calls>", (">", "｜DSML｜")),
         ("kimi_k2", KIMI, KIMI[0], ""),
         ("gemma4", ("<|tool_call>", "<tool_call|>", '<|"|>'), "<|tool_call>", ""),
         ("functiongemma", ("<start_function_call>", "<end_function_call>", "<escape>"), "<start_function_call>", ""),
         ("qwen3_coder", (), "<tool_call>", ">"), ("qwen3_xml", ("<tool_call>", "</tool_call>"), "<tool_call>", ""),
         ("minimax_m2", ("<minimax:tool_call>", "</minimax:tool_call>"), "<minimax:tool_call>", ""),
         ("seed_oss", ("<seed:tool_call>", "</seed:tool_call>"), "<seed:tool_call>", ""),
         ("glm45", ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
          "<tool_call>", ""),
         ("glm47", (), "<tool_call>", ">"), ("glm4", (), "f\n{", "}"),
         ("pythonic", (), "[", "]"), ("llama4_pythonic", (), "[", "]"),
         ("olmo3", ("<function_calls>", "</function_calls>"), "<function_calls>", ""))
MOST_SEEDS = 20


@harness.of_the_program
class CallsTest(ChainCase):
    def calls_of(self, server, **fields):
        """The calls of an answer, whole and streamed, each of which satisfies its tool's schema."""
        _, message, reason = self.both_ways(server, temperature=1, max_tokens=1500, **fields)
        self.assertEqual((reason, message["content"]), ("tool_calls", None), message)
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            self.assertTrue(satisfies(arguments, {"required": [], **SCHEMAS[call["function"]["name"]]}), call)
        self.assertEqual(len({call["id"] for call in message["tool_calls"]}), len(message["tool_calls"]))
        return message["tool_calls"]

    def check_form(self, server):
        """The draws are repeated until an answer has several calls."""
        end, space, line = (server.post("/tokenize", {"prompt": text}).value["tokens"][0] for text in (END, " ", "\n"))
        seldom = {space: -3, line: -3}
        several = {"tools": tools(), "logit_bias": {**seldom, end: -16}}  # else an end is certain where it is permitted
        one = {**several, "tool_choice": "required", "parallel_tool_calls": False}
        named = {**several, "tool_choice": {"type": "function", "function": {"name": "g_2"}}, "seed": 1}
        for seed in range(MOST_SEEDS):
            if len(self.calls_of(server, tool_choice="required", seed=seed, **several)) > 1:
                break
        else:
            self.fail(f"one call in each of {MOST_SEEDS} answers")
        for seed in range(2):
            self.calls_of(server, tools=tools(strict=True), logit_bias=seldom, seed=seed)
            self.assertEqual(len(self.calls_of(server, seed=seed, **one)), 1)
        call, = self.calls_of(server, **named)
        self.assertEqual(call["function"]["name"], "g_2")

    def test_every_form(self):
        for name, special, first, last in FORMS[::12 if harness.is_sanitized(self.yoke) else 1]:
            with self.subTest(form=name, special=special):
                server = self.serve_chain({"<s>": first, **dict.fromkeys(last, END)},
                                          "{{ messages[0].content }}{# tools #}<s>", "--tool-call-parser", name,
                                          "--grammar-time-limit", harness.TIMEOUT_S,
                                          special=("<s>", *special), context=2048)
                self.check_form(server)
                server.stop()


if __name__ == "__main__":
    harness.need_grammar_library()
    harness.main()
