"""OpenAI's responses and Anthropic's messages over HTTP, by a model that writes its answer token by token."""

import json
import os
import re
import socket

import harness
from chain_case import make_chain_model
from server_case import Case, Server, request_bytes

RESPONSES, MESSAGES, COUNT = "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"
STEPS = ("<think>", "so", " far", "</think>", "Well.", "<tool_call>", '{"name": "add", ', '"arguments": {"n": ', "12}}",
         "</tool_call>")
TEMPLATE = "{% for message in messages %}[{{ message.role }}|{{ message.content }}]{% endfor %}" \
           "{% if enable_thinking is not defined or enable_thinking %}<think>{% else %}</think>{% endif %}"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
FUNCTION = {"type": "function", "name": "add", "parameters": SCHEMA}
TOOL = {"name": "add", "input_schema": SCHEMA}
ASKED = {"max_tokens": 90, "messages": [{"role": "user", "content": "x"}], "temperature": 0}


def events_of(text):
    """The events of a stream, each of which names its type twice."""
    events = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == "event: " + event["type"], block
        events.append(event)
    return events


class ErrorsCase(Case):
    def assert_error(self, answer, status, kind, *parts):
        """An error in Anthropic's form, whose message holds each part."""
        self.assertEqual(answer.status, status, answer.text)
        self.assertEqual(list(answer.value), ["type", "error"])
        self.assertEqual((answer.value["type"], answer.value["error"]["type"]), ("error", kind))
        self.assertTrue(answer.getheader("request-id"))
        for part in parts:
            self.assertIn(part, answer.value["error"]["message"])


@harness.of_the_program
class ProtocolsTest(ErrorsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = os.path.join(harness.scratch_folder(cls.addClassCleanup), "model")
        steps = dict(zip(STEPS, STEPS[1:], strict=False))
        model = make_chain_model(folder, steps, TEMPLATE)
        cls.server = Server(cls.yoke, "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3",
                            "--served-model-name", "demo", model=model)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_for()

    def post(self, path, headers=None, **fields):
        return self.server.post(path, fields, headers)

    def answer(self, path, **fields):
        answer = self.post(path, **fields)
        self.assertEqual(answer.status, 200, answer.text)
        return answer.value

    def events(self, path, **fields):
        answer = self.post(path, stream=True, **fields)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertTrue(answer.getheader("Content-Type").startswith("text/event-stream"))
        return events_of(answer.text)

    # ---- Responses

    def test_a_response(self):
        found = self.answer(RESPONSES, input="x", tools=[FUNCTION], temperature=0, model="demo", metadata={"a": "b"})
        self.assertEqual((found["object"], found["status"], found["model"], found["error"], found["store"]),
                         ("response", "completed", "demo", None, False))
        self.assertEqual((found["tools"], found["metadata"]), ([FUNCTION], {"a": "b"}))
        reasoning, message, call = found["output"]
        self.assertEqual(reasoning["content"], [{"type": "reasoning_text", "text": "so far"}])
        self.assertEqual((message["type"], message["role"], message["content"][0]["text"]),
                         ("message", "assistant", "Well."))
        self.assertEqual((call["type"], call["name"]), ("function_call", "add"))
        self.assertEqual(json.loads(call["arguments"]), {"n": 12})
        usage = found["usage"]
        self.assertEqual((usage["output_tokens"], usage["output_tokens_details"]), (10, {"reasoning_tokens": 3}))
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + 10)
        again = [{"role": "user", "content": "x"}, *found["output"],
                 {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}]
        self.assertEqual(self.answer(RESPONSES, input=again, tools=[FUNCTION], temperature=0)["status"], "completed")

    def test_events_of_a_response(self):
        asked = {"input": "x", "tools": [FUNCTION], "temperature": 0, "include": ["reasoning.encrypted_content"]}
        events = self.events(RESPONSES, **asked)
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        begin, end = ["output_item.added", "content_part.added"], ["content_part.done", "output_item.done"]
        expected = ["created", "in_progress", *begin, "reasoning_text.delta", "reasoning_text.done", *end, *begin,
                    "output_text.delta", "output_text.done", *end, "output_item.added", "function_call_arguments.delta",
                    "function_call_arguments.done", "output_item.done", "completed"]
        types = [event["type"].removeprefix("response.") for event in events]
        self.assertEqual([name for i, name in enumerate(types) if types[i - 1] != name], expected)
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        whole = self.answer(RESPONSES, **asked)
        without_ids = re.compile(r"[0-9a-f]{32}")
        self.assertEqual(without_ids.sub("", json.dumps(events[-1]["response"]["output"])),
                         without_ids.sub("", json.dumps(whole["output"])))
        self.assertEqual(events[-1]["response"]["output"], done)
        self.assertEqual(done[0]["encrypted_content"], "yoke:so far")
        for index, item in enumerate(done):
            deltas = [event for event in events if event["type"].endswith(".delta") and event["output_index"] == index]
            text = item["arguments"] if "arguments" in item else item["content"][0]["text"]
            self.assertEqual("".join(event["delta"] for event in deltas), text)
            self.assertEqual({event["item_id"] for event in deltas}, {item["id"]})

    def test_a_response_that_is_cut(self):
        found = self.answer(RESPONSES, input="x", max_output_tokens=1, temperature=0)
        self.assertEqual(found["status"], "incomplete")
        self.assertEqual(found["incomplete_details"], {"reason": "max_output_tokens"})
        event = self.events(RESPONSES, input="x", max_output_tokens=1, temperature=0)[-1]
        self.assertEqual((event["type"], event["response"]["status"]), ("response.incomplete", "incomplete"))

    def test_an_empty_input(self):
        """A probe is answered without a token."""
        tokens = self.server.metric("generation_tokens_total")
        found = self.answer(RESPONSES, input=[], instructions="Be brief.")
        self.assertEqual((found["status"], found["output"], found["usage"]["total_tokens"]), ("completed", [], 0))
        self.assertEqual([event["type"] for event in self.events(RESPONSES, input=[])],
                         ["response.created", "response.in_progress", "response.completed"])
        self.assertEqual(self.server.metric("generation_tokens_total"), tokens)

    def test_nothing_is_stored(self):
        self.assert_refused(self.post(RESPONSES, input="x", previous_response_id="resp_1"), 400,
                            "Previous response with id 'resp_1' not found", param="previous_response_id",
                            code="previous_response_not_found")
        for method, path in (("GET", "/resp_1"), ("DELETE", "/resp_1"), ("POST", "/resp_1/cancel"),
                             ("GET", "/resp_1/input_items")):
            self.assert_refused(self.server.ask(method, RESPONSES + path), 404,
                                "Response with id 'resp_1' not found")
        refused = self.server.ask("PUT", RESPONSES + "/resp_1")
        self.assertEqual((refused.status, refused.getheader("Allow")), (405, "GET, HEAD, POST, DELETE"))

    def test_refused_responses(self):
        self.assert_refused(self.post(RESPONSES, input="x", model="other"), 404, code="model_not_found")
        self.assert_refused(self.post(RESPONSES, input="x" * 600), 400, code="context_length_exceeded", param="input")
        self.assert_refused(self.post(RESPONSES, input="x", temperature=-1), 400, param="temperature")
        self.assert_refused(self.post(RESPONSES, input=[{"role": "robot", "content": "x"}]), 400,
                            param="input[0].role")
        self.assertEqual(self.post(RESPONSES, input="x", temperature=0, tools=[{"type": "web_search"}]).status, 200)
        self.server.wait_for_err('tool type "web_search"')

    # ---- Messages

    def test_a_message(self):
        found = self.answer(MESSAGES, **ASKED, tools=[TOOL], model="demo")
        self.assertEqual((found["type"], found["role"], found["model"], found["stop_reason"], found["stop_sequence"]),
                         ("message", "assistant", "demo", "tool_use", None))
        thinking, text, call = found["content"]
        self.assertEqual((thinking["type"], thinking["thinking"]), ("thinking", "so far"))
        self.assertTrue(thinking["signature"])
        self.assertEqual(text, {"type": "text", "text": "Well."})
        self.assertEqual((call["type"], call["name"], call["input"]), ("tool_use", "add", {"n": 12}))
        self.assertEqual(found["usage"]["output_tokens"], 10)
        again = [*ASKED["messages"], {"role": "assistant", "content": found["content"]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}]}]
        self.answer(MESSAGES, **{**ASKED, "messages": again}, tools=[TOOL])

    def test_events_of_a_message(self):
        events = self.events(MESSAGES, **ASKED, tools=[TOOL])
        types = [event["type"] for event in events]
        block = ["content_block_start", "content_block_delta", "content_block_stop"]
        self.assertEqual([name for i, name in enumerate(types) if types[i - 1] != name],
                         ["message_start", "ping", *3 * block, "message_delta", "message_stop"])
        blocks = []
        for event in events[2:-2]:
            if event["type"] == "content_block_start":
                blocks.append({**event["content_block"], "input_json": ""})
            for kind, key, of in (("text_delta", "text", "text"), ("thinking_delta", "thinking", "thinking"),
                                  ("signature_delta", "signature", "signature"),
                                  ("input_json_delta", "partial_json", "input_json")):
                if event.get("delta", {}).get("type") == kind:
                    blocks[event["index"]][of] += event["delta"][key]
        whole = self.answer(MESSAGES, **ASKED, tools=[TOOL])
        for found, expected in zip(blocks, whole["content"], strict=True):
            arguments = found.pop("input_json")
            if found["type"] == "tool_use":
                found["input"] = json.loads(arguments)
            for key in expected.keys() - {"id", "signature"}:
                self.assertEqual(found[key], expected[key])
        start, end = events[0]["message"], events[-2]
        self.assertEqual((start["content"], start["stop_reason"]), ([], None))
        self.assertEqual(end["delta"], {"stop_reason": "tool_use", "stop_sequence": None})
        self.assertEqual(end["usage"]["output_tokens"], 10)
        self.assertEqual(start["usage"]["input_tokens"] + start["usage"]["cache_read_input_tokens"],
                         end["usage"]["input_tokens"] + end["usage"]["cache_read_input_tokens"])

    def test_how_a_message_stops(self):
        for fields, reason, sequence in (({"max_tokens": 1}, "max_tokens", None), ({}, "end_turn", None),
                                         ({"stop_sequences": ["Well"]}, "stop_sequence", "Well")):
            found = self.answer(MESSAGES, **{**ASKED, "thinking": {"type": "disabled"}, **fields})
            self.assertEqual((found["stop_reason"], found["stop_sequence"]), (reason, sequence))
            end = self.events(MESSAGES, **{**ASKED, "thinking": {"type": "disabled"}, **fields})[-2]
            self.assertEqual(end["delta"], {"stop_reason": reason, "stop_sequence": sequence})
            self.assertEqual([block["type"] for block in found["content"]], ["text"])

    def test_a_budget_of_thinking(self):
        asked = {**ASKED, "thinking": {"type": "enabled", "budget_tokens": 1}}
        for fields, thinking in (({}, "so"), ({"thinking_token_budget": -1}, "so far")):
            found = self.answer(MESSAGES, **asked, **fields)
            self.assertEqual([block.get("thinking") for block in found["content"]][:1], [thinking])

    def test_a_counted_prompt(self):
        messages = {"messages": ASKED["messages"], "system": "y" * 40}
        count = self.answer(COUNT + "?beta=true", **messages, tools=[TOOL])
        usage = self.answer(MESSAGES, **{**ASKED, **messages})["usage"]
        self.assertEqual(count, {"input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]})

    def test_a_line_that_differs_in_each_request(self):
        """Prompts that differ only in Claude Code's line share their prefix."""
        def ask(i):
            system = [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=1; cch={i};"},
                      {"type": "text", "text": "z" * 200, "cache_control": {"type": "ephemeral"}}]
            return self.answer(MESSAGES, **ASKED, system=system)["usage"]
        first, second = ask("a1b2c"), ask("d3e4f")
        self.assertEqual(first["cache_read_input_tokens"], 0)
        self.assertGreater(second["cache_read_input_tokens"], 100)
        self.assertEqual(second["input_tokens"] + second["cache_read_input_tokens"], first["input_tokens"])

    def test_refused_messages(self):
        kind = "invalid_request_error"
        self.assert_error(self.post(MESSAGES, messages=ASKED["messages"]), 400, kind, "max_tokens")
        self.assert_error(self.server.post(MESSAGES, b"{"), 400, kind)
        self.assert_error(self.post(MESSAGES, {"Content-Type": "text/plain"}, **ASKED), 415, kind)
        self.assert_error(self.server.ask("GET", MESSAGES), 405, kind)
        self.assert_error(self.post(MESSAGES, **ASKED, model="other"), 404, "not_found_error", "other")
        self.assert_error(self.post(COUNT, messages=[], model="other"), 400, kind, "messages")
        self.assert_error(self.post(MESSAGES, **{**ASKED, "messages": [{"role": "user", "content": "x" * 600}]}), 400,
                          kind, "prompt is too long")
        self.assert_error(self.post(MESSAGES, **{**ASKED, "temperature": -1}), 400, kind, "temperature")
        self.assert_error(self.post(MESSAGES, **ASKED, stop_sequences=["a"] * 1000), 400, kind, "stop strings")

    def test_paths_of_anthropics_clients(self):
        """Errors of paths below the messages, and of clients that send Anthropic's version, have Anthropic's form."""
        version = {"anthropic-version": "2023-06-01"}
        for path, headers in ((MESSAGES + "/batches", None), (MESSAGES + "/count_tokens/x", None),
                              ("/v1/files", version), ("/v1/models/other", version)):
            for method in ("GET", "DELETE", "PUT", "POST"):
                with self.subTest(path=path, method=method):
                    answer = self.server.ask(method, path, "{}" if method == "POST" else None, headers)
                    if "models" in path and method != "GET":
                        self.assert_error(answer, 405, "invalid_request_error", "GET")
                    else:
                        self.assert_error(answer, 404, "not_found_error")
        for method in ("PATCH", "DELETE", "FOO"):
            self.assert_error(self.server.ask(method, COUNT), 405, "invalid_request_error", "POST")
        self.assert_refused(self.server.ask("GET", "/v1/files"), 404, "/v1/files")
        self.assert_refused(self.server.post("/v1/chat/completions", {}, version), 400, "messages")
        models = self.server.ask("GET", "/v1/models", headers=version).value
        self.assertEqual((models["first_id"], models["last_id"], models["has_more"]), ("demo", "demo", False))

    # ---- Both

    def test_a_client_that_leaves(self):
        for path, body in ((RESPONSES, {"input": "x", "max_output_tokens": 400}),
                           (MESSAGES, {**ASKED, "max_tokens": 400})):
            body = {**body, "stream": True, "ignore_eos": True}
            with socket.create_connection(("127.0.0.1", self.server.port), harness.TIMEOUT_S) as connection:
                connection.sendall(request_bytes(path, body))
                self.assertIn(b"event: ", connection.recv(1 << 16) + connection.recv(1 << 16))
            self.server.wait_for_metric("num_requests_running", 0)
            self.answer(MESSAGES, **ASKED)


@harness.of_the_program
class WithoutAnswerTest(ErrorsCase):
    def test_keys(self):
        server = self.serve("--api-key", "secret", "other")
        for headers, status in (({}, 401), ({"x-api-key": "wrong"}, 401), ({"x-api-key": "other"}, 200),
                                ({"Authorization": "Bearer secret"}, 200),
                                ({"Authorization": "Bearer wrong", "x-api-key": "secret"}, 200)):
            self.assertEqual(server.ask("GET", "/v1/models", headers=headers).status, status)
        self.assert_error(server.post(MESSAGES, ASKED), 401, "authentication_error", "x-api-key")
        self.assert_refused(server.post(RESPONSES, {"input": "x"}), 401, code="invalid_api_key")

    def test_errors_before_the_body(self):
        """Errors of the server itself have each protocol's form."""
        server = self.serve("--max-body-bytes", 1024)
        kind, metadata = "invalid_request_error", {"metadata": {"a": "x" * 2000}}
        self.assert_refused(server.post(RESPONSES, {"input": "x"}), 400, "chat template")
        self.assert_error(server.post(MESSAGES, ASKED), 400, kind, "chat template")
        self.assert_refused(server.post(RESPONSES, {"input": "x", **metadata}), 413)
        self.assert_error(server.post(MESSAGES, {**ASKED, **metadata}), 413, "request_too_large")


if __name__ == "__main__":
    harness.main()
