"""Constrained output of `yoke serve`: every field, refusals, limits, and constrained rows in the same step as
unconstrained rows. Needs the grammar library (harness.need_grammar_library).
"""

import concurrent.futures
import json
import os
import re
import signal

import harness
from constrained_case import BOMBS, BOOLEAN, COMPLAINT, schema_format
from server_case import Case, Server, TOOL_TEMPLATE, helpers_of, read_events, text_of
from server_parsers import ChainCase, chain
from server_protocols import events_of

COMPLETION, CHAT = "/v1/completions", "/v1/chat/completions"
SCHEMA = {"type": "object",
          "properties": {"name": {"type": "string", "maxLength": 8},
                         "age": {"type": "integer", "minimum": 0, "maximum": 99},
                         "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}},
          "required": ["name", "age"]}
MESSAGES = [{"role": "user", "content": "17+25="}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"], "additionalProperties": False}}}
    for name in ("first", "second")]


def is_object_of_schema(text):
    value = json.loads(text)
    assert set(value) <= {"name", "age", "tags"} and {"name", "age"} <= set(value), value
    assert isinstance(value["name"], str) and len(value["name"]) <= 8 and 0 <= value["age"] <= 99, value
    assert all(tag in ("a", "b") for tag in value.get("tags", ())), value
    return True


def processor_seconds(process):
    with open(f"/proc/{process}/stat", "rb") as file:
        fields = file.read().rsplit(b")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def joined(events):
    """The message of a streamed chat."""
    message = {"content": "", "tool_calls": []}
    for delta in (event["choices"][0]["delta"] for event in events):
        message["role"] = delta.get("role", message.get("role"))
        message["content"] += delta.get("content") or ""
        for part in delta.get("tool_calls", ()):
            if part["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"id": part["id"], "type": part["type"],
                                              "function": {"name": part["function"]["name"], "arguments": ""}})
            message["tool_calls"][part["index"]]["function"]["arguments"] += part["function"].get("arguments") or ""
    return message


class ConstrainedTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = None

    def setUp(self):
        cls = type(self)
        if cls.server is None:
            cls.server = Server(self.yoke, "--tool-call-parser", "hermes", "--chat-template", TOOL_TEMPLATE, "--tp", 2,
                                "--served-model-name", "demo")
            cls.addClassCleanup(cls.server.stop)
            cls.server.wait_for()
        self.server = cls.server

    def complete(self, path=COMPLETION, **fields):
        asked = {"prompt": "One"} if path == COMPLETION else {"messages": MESSAGES}
        response = self.server.post(path, {**asked, "max_tokens": 300, "temperature": 1, "seed": 3, **fields})
        self.assertEqual(response.status, 200, response.text)
        return response.value["choices"]

    def text(self, **fields):
        choice, = self.complete(**fields)
        self.assertEqual(choice["finish_reason"], "stop")
        return choice["text"]

    def refuse(self, param, *texts, path=COMPLETION, **fields):
        asked = {"prompt": "One"} if path == COMPLETION else {"messages": MESSAGES}
        response = self.server.post(path, {**asked, "max_tokens": 8, **fields})
        self.assertEqual(response.status, 400, response.text)
        error = response.value["error"]
        self.assertEqual(error["param"], param, error)
        for text in texts:
            self.assertIn(text, error["message"])

    def test_requests_of_public_clients(self):
        """client_requests.json was written by tests/clients/run.py --record: requests of openai, LangChain, instructor
        and others. Every answer has the form that the libraries read, and satisfies the request's schema."""
        with open(os.path.join(harness.TESTS_DIR, "e2e", "client_requests.json"), encoding="utf-8") as file:
            asked = json.load(file)[::3 if harness.is_sanitized(self.yoke) else 1]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda one: self.server.post(one["path"], one["body"]), asked))
        for one, answer in zip(asked, answers):
            with self.subTest(**one):
                self.assertEqual(answer.status, one["status"], answer.text)
                if answer.status != 200:
                    self.assertTrue(answer.value["error"]["message"])
                elif "chat" in one["path"]:
                    self.check_chat(one["body"], answer)

    def check_chat(self, body, answer):
        if body.get("stream"):
            events = list(read_events(answer.text.encode().splitlines(keepends=True)))
            self.assertEqual(events.pop(), "[DONE]")
            usage = events.pop()["usage"] if body.get("stream_options", {}).get("include_usage") else None
            self.assertEqual({event["object"] for event in events}, {"chat.completion.chunk"})
            message, end = joined(events), events[-1]["choices"][0]["finish_reason"]
        else:
            self.assertEqual(answer.value["object"], "chat.completion")
            choice, usage = answer.value["choices"][0], answer.value["usage"]
            message, end = choice["message"], choice["finish_reason"]
        self.assertEqual(message["role"], "assistant")
        self.assertIn(end, ("stop", "length", "tool_calls"))
        if usage:
            self.assertEqual(usage["prompt_tokens"] + usage["completion_tokens"], usage["total_tokens"])
        calls = message.get("tool_calls") or []
        self.assertEqual(end == "tool_calls", bool(calls))
        for call in calls:
            self.assertEqual(call["type"], "function")
            self.assertTrue(call["id"])
            self.assertIn(call["function"]["name"], [tool["function"]["name"] for tool in body["tools"]])
            self.assertIn(json.loads(call["function"]["arguments"])["name"], ("Ada", "Lily"))
        if end == "stop" and body.get("response_format", {}).get("type") == "json_schema":
            self.assertIn(json.loads(message["content"])["name"], ("Ada", "Lily"))

    def test_every_field_of_a_constraint(self):
        for fields, check in (
                (schema_format(SCHEMA), is_object_of_schema),
                ({"structured_outputs": {"json": BOOLEAN}}, lambda text: text in ("true", "false")),
                ({"structured_outputs": {"json": json.dumps(BOOLEAN)}}, lambda text: text in ("true", "false")),
                ({"structured_outputs": {"regex": "[ab]{3}-[0-9]"}}, re.compile(r"[ab]{3}-[0-9]").fullmatch),
                ({"structured_outputs": {"choice": ["red", 'a "quoted"\n\\one']}},
                 lambda text: text in ("red", 'a "quoted"\n\\one')),
                ({"guided_choice": ["a\nb\tc\x00d\x7fe"]}, lambda text: text == "a\nb\tc\x00d\x7fe"),
                ({"structured_outputs": {"grammar": 'root ::= "x" root | "y"'}}, re.compile("x*y").fullmatch),
                ({"structured_outputs": {"structural_tag": {"type": "structural_tag", "format": {
                    "type": "tag", "begin": "<a>", "end": "</a>",
                    "content": {"type": "json_schema", "json_schema": BOOLEAN}}}}},
                 re.compile("<a>(true|false)</a>").fullmatch),
                ({"guided_json": BOOLEAN}, lambda text: text in ("true", "false")),
                ({"guided_regex": "ab?c"}, re.compile("ab?c").fullmatch),
                ({"guided_choice": ["left", "right"]}, lambda text: text in ("left", "right")),
                ({"guided_grammar": 'root ::= [0-9] [0-9]'}, re.compile("[0-9]{2}").fullmatch)):
            with self.subTest(fields=fields):
                text = self.text(**fields)
                self.assertTrue(check(text), text)

        choice, = self.complete(response_format={"type": "json_object"})
        self.assertTrue(choice["text"].startswith("{"))
        if choice["finish_reason"] == "stop":
            self.assertIsInstance(json.loads(choice["text"]), dict)

    def test_only_allowed_ids_are_drawn(self):
        ids = [5, 60, 300]
        choice, = self.complete(allowed_token_ids=ids, max_tokens=40, return_token_ids=True)
        self.assertEqual(set(choice["token_ids"]), set(ids))
        choice, = self.complete(allowed_token_ids=ids[:1], max_tokens=3, return_token_ids=True)
        self.assertEqual(choice["token_ids"], ids[:1] * 3)

    def test_the_end_is_the_constraints(self):
        """ignore_eos and min_tokens prefer to continue, and never exceed the constraint."""
        for fields in ({"ignore_eos": True}, {"min_tokens": 50}, {"ignore_eos": True, "min_tokens": 50}):
            self.assertEqual(self.text(guided_choice=["ok"], **fields), "ok")
            choice, = self.complete(guided_regex="a*", max_tokens=60, **fields)
            self.assertGreaterEqual(len(choice["text"]), 50 if "min_tokens" in fields else 60)

    def test_log_probabilities_are_those_without_the_mask(self):
        free, = self.complete(max_tokens=1, logprobs=3, temperature=0)
        bound, = self.complete(max_tokens=1, logprobs=3, temperature=0, guided_choice=["zebra"])
        self.assertEqual(free["logprobs"]["top_logprobs"][0].items() - bound["logprobs"]["top_logprobs"][0].items(),
                         set())

    def test_a_constraint_that_holds_anyway_changes_nothing(self):
        asked = {"prompt": "The capital of Norway is", "temperature": 0, "max_tokens": 30, "logprobs": 1}
        free, = self.complete(**asked)
        bound, = self.complete(**asked, guided_regex=r"[\s\S]*")
        self.assertEqual(bound, free)

    def test_stop_strings_and_samples(self):
        choices = self.complete(guided_regex="[a-c]{12}", n=3, stop=["b"])
        for choice in choices:
            self.assertRegex(choice["text"], "^[ac]*$")
            self.assertEqual(choice["finish_reason"], "stop")

    def test_streams(self):
        connection = self.server.connect()
        connection.request("POST", CHAT, json.dumps({"messages": MESSAGES, "stream": True, "max_tokens": 300,
                                                     **schema_format(SCHEMA)}), {"Content-Type": "application/json"})
        events = [event for event in read_events(connection.getresponse()) if event != "[DONE]"]
        connection.close()
        self.assertTrue(is_object_of_schema("".join(map(text_of, events))))
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "stop")

    def test_rows_with_and_without_a_constraint(self):
        """An unconstrained row in a step with constrained rows has the same tokens as alone."""
        alone = self.complete(max_tokens=40)[0]["text"]
        asked = [{}, schema_format(SCHEMA), {"guided_regex": "[xyz]{20}"}, {}] * 4
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            texts = list(pool.map(lambda fields: self.complete(**{"max_tokens": 40 if not fields else 300, **fields})
                                  [0]["text"], asked))
        for fields, text in zip(asked, texts):
            if not fields:
                self.assertEqual(text, alone)
            elif "guided_regex" in fields:
                self.assertRegex(text, "^[xyz]{20}$")
            else:
                self.assertTrue(is_object_of_schema(text))

    def test_calls_are_enforced(self):
        for choice, names in (("required", ("first", "second")),
                              ({"type": "function", "function": {"name": "second"}}, ("second",))):
            with self.subTest(choice=choice):
                answer, = self.complete(CHAT, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
                call, = answer["message"]["tool_calls"]
                self.assertIn(call["function"]["name"], names)
                self.assertIn(json.loads(call["function"]["arguments"]), ({"x": 1}, {"x": 2}))
                self.assertEqual(answer["finish_reason"], "tool_calls")

    def test_strict_tools_and_a_response_format_with_tools(self):
        strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
        self.complete(CHAT, tools=strict, max_tokens=20)
        answer, = self.complete(CHAT, tools=TOOLS, parallel_tool_calls=False, **schema_format(BOOLEAN))
        if answer["finish_reason"] == "tool_calls":
            self.assertIn(json.loads(answer["message"]["tool_calls"][0]["function"]["arguments"])["x"], (1, 2))
        else:
            self.assertIn(answer["message"]["content"], ("true", "false"))

    def test_schemas_that_are_refused_by_name(self):
        for schema, place in (({"not": {}}, "/not"), ({"type": "array", "uniqueItems": True}, "/uniqueItems"),
                              ({"$ref": "http://example.com/a"}, "/$ref"), ({"$ref": "#/$defs/b"}, "#/$defs/b"),
                              ({"properties": {"a/b": {"contains": {}}}}, "/properties/a~1b/contains"),
                              ({"type": "string", "pattern": "a", "maxLength": 3}, "/maxLength"),
                              ({"type": "string", "pattern": "(?=a)b"}, "Lookahead"),
                              ({"type": "string", "pattern": '"b'}, "/pattern"),
                              ({"type": "string", "pattern": r"^\\$"}, "/pattern"),
                              ({"type": "string", "pattern": r"[\x22a]"}, "/pattern"),
                              ({"type": "object", "patternProperties": {'"': {}}}, "/patternProperties"),
                              ({"anyOf": [{"if": {}}]}, "/anyOf/0/if"), ({"type": "text"}, "/type"),
                              ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"), (False, "false")):
            with self.subTest(schema=schema):
                self.refuse("response_format", place, **schema_format(schema))
        self.refuse("guided_json", "not JSON", guided_json="{")
        self.refuse("guided_regex", "parenthesis", guided_regex="(")
        self.refuse("guided_grammar", "", guided_grammar="root ::= x")
        self.refuse("guided_choice", "at least one", guided_choice=[])
        self.refuse("guided_choice", "array", guided_choice="a")
        self.refuse("guided_regex", "another constraint", guided_json=BOOLEAN, guided_regex="a")
        self.refuse("structured_outputs", "whitespace_pattern", structured_outputs={"whitespace_pattern": "x"})
        self.refuse("response_format", "json_schema", response_format={"type": "xml"})
        self.refuse("response_format", "schema", response_format={"type": "json_schema"})
        self.refuse("allowed_token_ids", "vocabulary", allowed_token_ids=[10 ** 6])
        self.refuse("allowed_token_ids", "at least one", allowed_token_ids=[])
        self.refuse("tool_choice", "tools", path=CHAT, tool_choice="required")
        self.refuse("tool_choice", "third", path=CHAT, tools=TOOLS,
                    tool_choice={"type": "function", "function": {"name": "third"}})

    def test_a_constraint_that_allows_no_token_fails_alone(self):
        response = self.server.post(COMPLETION, {"prompt": "One", "guided_regex": "[0-9]+", "max_tokens": 5,
                                                 "bad_words": list("0123456789"), "logit_bias": {}})
        self.assertIn(response.status, (200, 400), response.text)
        self.assertEqual(self.text(guided_choice=["ok"]), "ok")


@harness.of_the_program
class LimitsTest(Case):
    def test_bombs_are_answered_and_the_server_goes_on(self):
        server = self.serve("--grammar-time-limit", 0.5, "--grammar-memory", "512MiB")
        for fields in BOMBS:
            response = server.post(COMPLETION, {"prompt": "One", "max_tokens": 4, **fields})
            self.assertIn(response.status, (200, 400), response.text[:500])
            if response.status == 400:
                self.assertRegex(response.value["error"]["message"], COMPLAINT)
        refused = server.post(COMPLETION, {"prompt": "One", "max_tokens": 4, **BOMBS[0]})
        self.assertIn("longer than its limit of 0.5 s", refused.value["error"]["message"])
        answer = server.post(COMPLETION, {"prompt": "One", "max_tokens": 4, "guided_choice": ["ok"]})
        self.assertEqual(answer.value["choices"][0]["text"], "ok", answer.text)

    def test_many_tools(self):
        """A required call of one of 300 tools compiles in a small part of the limit."""
        server = self.serve("--tool-call-parser", "hermes", "--chat-template", TOOL_TEMPLATE,
                            "--grammar-time-limit", harness.TIMEOUT_S)
        server.post(COMPLETION, {"prompt": "One", "max_tokens": 4, "guided_choice": ["ok"]})
        helper, = helpers_of(server, "grammar_helper")
        before = processor_seconds(helper)
        tools = [{"type": "function", "function": {**TOOLS[0]["function"], "name": f"tool_{i}"}} for i in range(300)]
        answer = server.post(CHAT, {"messages": MESSAGES, "tools": tools, "tool_choice": "required",
                                    "parallel_tool_calls": False, "max_tokens": 300, "temperature": 1, "seed": 3})
        call, = answer.value["choices"][0]["message"]["tool_calls"]
        self.assertIn(json.loads(call["function"]["arguments"]), ({"x": 1}, {"x": 2}))
        self.assertLess(processor_seconds(helper) - before, 2)


@harness.of_the_program
class StrictCallsTest(ChainCase):
    """Calls in the form of Qwen3-Coder after reasoning, by a model that would end its answer there: whole and
    streamed, through each protocol."""

    SCHEMA = {"type": "object", "properties": {"x": {"enum": [21, 22]}, "s": {"enum": ["p q"]},
                                               "o": {"type": "object", "properties": {"b": {"const": True}},
                                                     "required": ["b"], "additionalProperties": False}},
              "required": ["x", "s", "o"], "additionalProperties": False}
    ARGUMENTS = {"x": 21, "s": "p q", "o": {"b": True}}

    def check_call(self, name, arguments, reasoning):
        self.assertEqual((name, arguments, reasoning), ("f-1", self.ARGUMENTS, "so far"))

    def test_every_protocol(self):
        server = self.serve_chain(chain("<think>", "so", " far", "</think>"), "{{ messages[0].content }}<think>",
                                  "--tool-call-parser", "qwen3_coder", "--served-model-name", "demo")
        function = {"name": "f-1", "strict": True, "parameters": self.SCHEMA}
        _, message, reason = self.both_ways(server, tools=[{"type": "function", "function": function}],
                                            tool_choice="required", parallel_tool_calls=False, max_tokens=300)
        call, = message["tool_calls"]
        self.check_call(call["function"]["name"], json.loads(call["function"]["arguments"]), message["reasoning"])
        self.assertEqual(reason, "tool_calls")

        asked = {"model": "demo", "input": "x", "temperature": 0, "tool_choice": "required", "max_output_tokens": 300,
                 "tools": [{"type": "function", **function}], "parallel_tool_calls": False}
        whole = server.post("/v1/responses", asked).value
        streamed = events_of(server.post("/v1/responses", {**asked, "stream": True}).text)[-1]["response"]
        for reasoning, call in (whole["output"], streamed["output"]):
            self.check_call(call["name"], json.loads(call["arguments"]), reasoning["content"][0]["text"])

        asked = {"model": "demo", "messages": [{"role": "user", "content": "x"}], "temperature": 0, "max_tokens": 300,
                 "tools": [{"name": "f-1", "strict": True, "input_schema": self.SCHEMA}],
                 "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
        reasoning, call = server.post("/v1/messages", asked).value["content"]
        self.check_call(call["name"], call["input"], reasoning["thinking"])
        deltas = [event["delta"] for event in events_of(server.post("/v1/messages", {**asked, "stream": True}).text)
                  if event["type"] == "content_block_delta"]
        self.check_call("f-1", json.loads("".join(delta.get("partial_json", "") for delta in deltas)),
                        "".join(delta.get("thinking", "") for delta in deltas))


@harness.of_the_program
class WaitingTest(Case):
    def test_constraints_that_are_compiled_delay_no_others(self):
        """The helper is stopped, so that every constraint waits; the first of them until the helper is killed."""
        server = self.serve("--grammar-time-limit", harness.TIMEOUT_S)
        asked = {"prompt": "One", "max_tokens": 4}
        self.assertEqual(server.post(COMPLETION, {**asked, "guided_choice": ["ok"]}).status, 200)
        helper, = helpers_of(server, "grammar_helper")
        os.kill(helper, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(server.post, COMPLETION, {**asked, "guided_choice": [name]}) for name in "abc"]
            server.wait_for_metric("num_requests_waiting", 3)
            self.assertEqual(server.post(COMPLETION, asked).status, 200)
            self.assertFalse(any(request.done() for request in waiting))
            os.kill(helper, signal.SIGKILL)
            self.assertEqual(sorted(request.result().status for request in waiting), [200, 200, 400])

    def test_a_clients_constraints_delay_no_other_client(self):
        """Every constraint of one key waits for the stopped helper; another key's are compiled meanwhile."""
        server = self.serve("--grammar-time-limit", harness.TIMEOUT_S, "--api-key", "a", "--api-key", "b")
        keys = {key: {"Authorization": f"Bearer {key}"} for key in "ab"}

        def ask(key, name):
            return server.post(COMPLETION, {"prompt": "One", "max_tokens": 4, "guided_choice": [name]}, keys[key])

        self.assertEqual(ask("a", "ok").status, 200)
        helper, = helpers_of(server, "grammar_helper")
        os.kill(helper, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(ask, "a", name) for name in "wxyz"]
            try:
                server.wait_for_metric("num_requests_waiting", 4, headers=keys["b"])
                for name in ("ok", "one", "two"):
                    self.assertEqual(ask("b", name).value["choices"][0]["text"], name)
                self.assertFalse(any(request.done() for request in waiting))
            finally:
                os.kill(helper, signal.SIGCONT)
            self.assertEqual([request.result().value["choices"][0]["text"] for request in waiting], list("wxyz"))


@harness.of_the_program
class MissingTest(Case):
    def test_without_the_library(self):
        server = self.serve("--grammar-library", harness.scratch_folder(self.addCleanup))
        answer = server.post(COMPLETION, {"prompt": "One", "max_tokens": 4, "guided_choice": ["ok"]})
        self.assertEqual(answer.status, 400)
        self.assertIn("pip install", answer.value["error"]["message"])
        self.assertEqual(server.post(COMPLETION, {"prompt": "One", "max_tokens": 4}).status, 200)


if __name__ == "__main__":
    harness.need_grammar_library()
    harness.main()
