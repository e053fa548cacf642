"""Requests as Codex and Claude Code send them, by their public sources and by captures in public reports: with every
field, header and type of tool, to a model that writes its answer token by token.
"""

import json
import os
import sys
import unittest

import harness
from chain_case import make_chain_model
from server_case import Case, Server
from server_protocols import events_of

HAS_GRAMMAR = harness.has_grammar_library() and not harness.is_sanitized(sys.argv[1], "tsan")
RESPONSES, MESSAGES, COUNT = "/v1/responses", "/v1/messages?beta=true", "/v1/messages/count_tokens?beta=true"
STEPS = ("<think>", "Hm", " far", "</think>", "Well.", "<tool_call>", '{"name": "Bash", ',
         '"arguments": {"command": "ls"}}', "</tool_call>")
# Names of tools are in the prompt, whose length shows the translated request.
TEMPLATE = ("{% for message in messages %}[{{ message.role }}|{{ message.content or '' }}"
            "{% for call in message.tool_calls or [] %}({{ call.function.name }}){% endfor %}]{% endfor %}"
            "{% for tool in tools or [] %}<{{ tool.function.name }}>{% endfor %}<think>")
OBJECT = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"],
          "additionalProperties": False}

CODEX_HEADERS = {
    "Accept": "text/event-stream", "Authorization": "Bearer dummy", "originator": "codex_cli_rs",
    "User-Agent": "codex_cli_rs/0.150.1 (Debian 12.0.0; x86_64) xterm-256color", "session_id": "0199-a",
    "Session-Id": "0199-a", "Thread-Id": "0199-a", "conversation_id": "0199-a", "X-Client-Request-Id": "0199-a",
    "X-Codex-Window-Id": "0199-a:0", "X-Codex-Beta-Features": "terminal_resize_reflow",
    "X-Codex-Turn-Metadata": json.dumps({"turn_id": "1", "sandbox": "none"}), "OpenAI-Beta": "responses=experimental"}
CODEX_TOOLS = [
    {"type": "function", "name": "Bash", "description": "Runs a command.", "strict": False, "parameters": OBJECT},
    {"type": "function", "name": "update_plan", "strict": False, "parameters": OBJECT, "defer_loading": False},
    {"type": "custom", "name": "apply_patch", "description": "Edits files.",
     "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
    {"type": "namespace", "name": "multi_agent_v1", "description": "Agents.",
     "tools": [{"type": "function", "name": "spawn_agent", "strict": False, "parameters": OBJECT}]},
    {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": OBJECT},
    {"type": "web_search", "external_web_access": False, "search_content_types": ["text"]},
    {"type": "image_generation", "output_format": "png"}, {"type": "local_shell"}]
CODEX = {"model": "demo", "instructions": "Be.", "tools": CODEX_TOOLS, "tool_choice": "auto",
         "parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"}, "store": False,
         "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199-a",
         "service_tier": "priority", "text": {"verbosity": "low"}, "temperature": 0,
         "client_metadata": {"x-codex-installation-id": "i", "session_id": "0199-a"}}


def codex_text(role, *texts):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text} for text in texts]}


CODEX_INPUT = [codex_text("developer", "Ask."), codex_text("user", "Here."), codex_text("user", "Fix.")]
CODEX_PROMPT = "[system|Be.\n\nAsk.][user|Here.][user|Fix.]"

CLAUDE_HEADERS = {
    "Accept": "application/json", "x-api-key": "dummy", "Authorization": "Bearer dummy", "x-app": "cli",
    "User-Agent": "claude-cli/2.1.332 (external, cli)", "anthropic-version": "2023-06-01",
    "anthropic-dangerous-direct-browser-access": "true", "X-Claude-Code-Session-Id": "0199-a",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,thinking-token-count-2026-05-13,"
                      "context-management-2025-06-27,prompt-caching-scope-2026-01-05,"
                      "mid-conversation-system-2026-04-07,advisor-tool-2026-03-01,effort-2025-11-24,"
                      "extended-cache-ttl-2025-04-11,mid-conversation-tool-changes-2026-07-01,"
                      "advanced-tool-use-2025-11-20,thinking-display-updates-2026-08-18",
    "x-stainless-helper-method": "stream",
    "X-Stainless-Lang": "js", "X-Stainless-OS": "Linux", "X-Stainless-Arch": "x64", "X-Stainless-Retry-Count": "0",
    "X-Stainless-Runtime": "node", "X-Stainless-Package-Version": "0.128.0", "X-Stainless-Timeout": "600",
    "Accept-Encoding": "gzip, deflate, br, zstd"}
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
CLAUDE_TOOLS = [
    {"name": "Bash", "description": "Runs a command.", "input_schema": {"$schema": "http://json-schema.org/draft-07/"
                                                                                    "schema#", **OBJECT},
     "eager_input_streaming": True, **CACHED},
    {"name": "Read", "type": "custom", "input_schema": OBJECT, "defer_loading": False, "input_examples": [],
     "allowed_callers": ["direct"]},
    {"name": "DeferredToolPlaceholder", "description": "Never call this tool.", "defer_loading": True,
     "input_schema": {"type": "object", "properties": {}}},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    {"type": "advisor_20260301", "name": "advisor", "model": "demo"}]


def billing(cch):
    text = f"x-anthropic-billing-header: cc_version=2.1.332.58e; cc_entrypoint=cli; cch={cch};"
    return {"type": "text", "text": text}


CLAUDE = {"model": "demo", "max_tokens": 32000, "stream": True, "tools": CLAUDE_TOOLS, "temperature": 1, "top_k": 1,
          "system": [billing("fa690"), {"type": "text", "text": "Be.", **CACHED},
                     {"type": "text", "text": "Ask.", "cache_control": {"type": "ephemeral", "scope": "global"}}],
          "metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "0199-a"})},
          "thinking": {"type": "adaptive", "display": "updates"}, "output_config": {"effort": "xhigh"},
          "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
          "diagnostics": {"previous_message_id": None}, "fallbacks": "default"}
CLAUDE_COUNT = {key: CLAUDE[key] for key in ("model", "system", "thinking", "context_management")}
CLAUDE_TURNS = [{"role": "user", "content": [{"type": "text", "text": "Here."}, {"type": "text", "text": "Fix.",
                                                                                  **CACHED}]}]
CLAUDE_PROMPT = "[system|Be.\nAsk.][user|Here.\nFix.]"


@harness.of_the_program
class AgentFormsTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = os.path.join(harness.scratch_folder(cls.addClassCleanup), "model")
        model = make_chain_model(folder, dict(zip(STEPS, STEPS[1:], strict=False)), TEMPLATE)
        cls.server = Server(cls.yoke, "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3",
                            "--served-model-name", "demo", model=model)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_for()

    def count(self, prompt):
        """Number of tokens of a prompt; every request of these clients ends by opening the reasoning."""
        answer = self.server.post("/tokenize", {"prompt": prompt + "<think>"})
        self.assertEqual(answer.status, 200, answer.text)
        return answer.value["count"]

    # ---- Codex

    def codex(self, items, headers=None, **fields):
        answer = self.server.post(RESPONSES, {**CODEX, "input": items, **fields}, {**CODEX_HEADERS, **(headers or {})})
        self.assertEqual(answer.status, 200, answer.text)
        return events_of(answer.text)

    def test_codex(self):
        """Codex reads items when they are added and done, deltas of texts, and the end with its usage."""
        events = self.codex(CODEX_INPUT)
        begin, end = ["output_item.added", "content_part.added"], ["content_part.done", "output_item.done"]
        expected = ["created", "in_progress",
                    *begin, "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done", *end,
                    *begin, "output_text.delta", "output_text.done", *end,
                    "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
                    "output_item.done", "completed"]
        types = [event["type"].removeprefix("response.") for event in events]
        self.assertEqual([name for i, name in enumerate(types) if not name.endswith(".delta") or types[i - 1] != name],
                         [name for i, name in enumerate(expected) if expected[i - 1] != name])
        for event in events:
            if event["type"].endswith(("_text.delta", "content_part.added", "content_part.done")):
                self.assertEqual(event["content_index"], 0)
        for event in events:
            if event["type"] == "response.output_item.added":  # Codex parses the item already here
                self.assertLess({"reasoning": {"summary", "encrypted_content", "content"},
                                 "message": {"role", "content"},
                                 "function_call": {"name", "call_id", "arguments"}}[event["item"]["type"]],
                                event["item"].keys())
        reasoning, message, call = (event["item"] for event in events if event["type"] == "response.output_item.done")
        self.assertEqual((reasoning["summary"], reasoning["encrypted_content"]), ([], "yoke:Hm far"))
        self.assertEqual((message["role"], message["content"][0]["text"]), ("assistant", "Well."))
        self.assertEqual((call["name"], json.loads(call["arguments"])), ("Bash", {"command": "ls"}))
        usage = events[-1]["response"]["usage"]
        self.assertEqual(usage["input_tokens"], self.count(CODEX_PROMPT + "<Bash><update_plan>"))
        self.assertEqual(usage["output_tokens_details"], {"reasoning_tokens": 3})
        self.assertEqual(usage["input_tokens_details"].keys(), {"cached_tokens", "cache_write_tokens"})
        for kind in ("custom", "namespace", "tool_search", "web_search", "image_generation", "local_shell"):
            self.server.wait_for_err(f'tool type "{kind}"')
        self.assertNotIn('the field "', self.server.err)

    def test_codex_history(self):
        """Codex returns the items without their ids, and items of tools that other servers offer."""
        reasoning, message, call = (event["item"] for event in self.codex(CODEX_INPUT)
                                    if event["type"] == "response.output_item.done")
        history = [
            *CODEX_INPUT,
            {"type": "reasoning", "summary": [], "content": reasoning["content"],
             "encrypted_content": reasoning["encrypted_content"]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}],
             "phase": "commentary"},
            {"type": "function_call", "name": call["name"], "arguments": call["arguments"], "call_id": call["call_id"]},
            {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"},
            {"type": "custom_tool_call", "status": "completed", "call_id": "c2", "name": "apply_patch", "input": "*"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "ok"}]},
            {"type": "local_shell_call", "call_id": "c3", "status": "completed",
             "action": {"type": "exec", "command": ["ls"], "timeout_ms": None, "working_directory": None, "env": None,
                        "user": None}},
            {"type": "function_call_output", "call_id": "c3", "output": [{"type": "input_text", "text": "ok"}]},
            {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
            {"type": "tool_search_call", "call_id": "c4", "status": "completed", "execution": "client",
             "arguments": {"query": "x"}},
            {"type": "tool_search_output", "call_id": "c4", "status": "completed", "execution": "client", "tools": []},
            {"type": "ghost_snapshot", "ghost_commit": {"id": "a"}},
            {"type": "configuration_update", "reasoning": {"effort": "low"}},
            {"type": "compaction", "encrypted_content": "gAAA"},
            {"type": "agent_message", "author": "/root", "recipient": "/root/worker", "content": [
                {"type": "encrypted_content", "encrypted_content": "Go."}]},
            {"type": "additional_tools", "role": "developer", "tools": [
                {"type": "namespace", "name": "functions", "tools": []},
                {"type": "function", "name": "more", "strict": False, "parameters": OBJECT}]}]
        usage = self.codex(history)[-1]["response"]["usage"]
        expected = CODEX_PROMPT + ("[assistant|Well.(Bash)][tool|ok][assistant|(apply_patch)][tool|ok]"
                                   "[assistant|(local_shell_call)][tool|ok][user|Go.]<Bash><update_plan><more>")
        self.assertEqual(usage["input_tokens"], self.count(expected))

    def test_codex_probes(self):
        """The probe of a provider has no input; a list of models is read before the first turn."""
        events = self.codex([], max_output_tokens=1)
        self.assertEqual([event["type"] for event in events],
                         ["response.created", "response.in_progress", "response.completed"])
        models = self.server.ask("GET", "/v1/models?client_version=0.150.1", headers=CODEX_HEADERS).value
        self.assertEqual((models["models"], models["data"][0]["id"]), ([], "demo"))
        refused = self.server.post(RESPONSES, {**CODEX, "input": CODEX_INPUT, "previous_response_id": "resp_1"})
        self.assert_refused(refused, 400, "resp_1", code="previous_response_not_found")
        refused = self.server.post(RESPONSES, {**CODEX, "input": [codex_text("user", "x" * 600)]}, CODEX_HEADERS)
        self.assert_refused(refused, 400, code="context_length_exceeded")
        refused = self.server.post(RESPONSES, b"(\xb5/\xfd", {**CODEX_HEADERS, "Content-Encoding": "zstd"})
        self.assert_refused(refused, 415, "zstd")

    @unittest.skipUnless(HAS_GRAMMAR, "no grammar library")
    def test_output_of_a_schema(self):
        """`codex exec --output-schema`."""
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        events = self.codex(CODEX_INPUT, tools=[], text={"verbosity": "low", "format": {
            "type": "json_schema", "strict": True, "schema": schema, "name": "codex_output_schema"}})
        text = events[-1]["response"]["output"][-1]["content"][0]["text"]
        self.assertEqual(json.loads(text), {})

    @unittest.skipUnless(HAS_GRAMMAR, "no grammar library")
    def test_places_of_schemas(self):
        """Tools that are left out, and tools of items, count."""
        tool = {"type": "function", "name": "more", "strict": True, "parameters": {
            "type": "object", "properties": {"x": {"not": {}}}}}
        more = {"type": "additional_tools", "role": "developer", "tools": [CODEX_TOOLS[2], tool]}
        for fields, place in (({"input": CODEX_INPUT, "tools": [*CODEX_TOOLS, tool]}, "tools[8]"),
                              ({"input": [*CODEX_INPUT, more]}, "input[3].tools[1]"),
                              ({"input": [*CODEX_INPUT, more], "tool_choice": "required"}, "input[3].tools[1]")):
            self.assert_refused(self.server.post(RESPONSES, {**CODEX, **fields}), 400,
                                f'{place}.parameters/properties/x/not: "not"', param=f"{place}.parameters")
        answer = self.server.post(MESSAGES, {**CLAUDE, "messages": CLAUDE_TURNS, "tools": [
            CLAUDE_TOOLS[2], {"name": "more", "input_schema": tool["parameters"], "strict": True}]})
        self.assertIn('tools[1].input_schema/properties/x/not: "not"', answer.value["error"]["message"])

    # ---- Claude Code

    def claude(self, turns, path=MESSAGES, **fields):
        answer = self.server.post(path, {**CLAUDE, "messages": turns, **fields}, CLAUDE_HEADERS)
        self.assertEqual(answer.status, 200, answer.text)
        return events_of(answer.text) if path == MESSAGES and fields.get("stream", True) else answer.value

    def test_claude_code(self):
        events = self.claude(CLAUDE_TURNS)
        expected = ["message_start", "ping"]
        for n_deltas in (3, 1, 1):  # two of the reasoning and one of its signature
            expected += ["content_block_start", *n_deltas * ["content_block_delta"], "content_block_stop"]
        types = [event["type"] for event in events]
        self.assertEqual(list(dict.fromkeys(types)), list(dict.fromkeys([*expected, "message_delta", "message_stop"])))
        kinds = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
        self.assertEqual(kinds, ["thinking", "text", "tool_use"])
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")
        usage = events[-2]["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"],
                         self.count(CLAUDE_PROMPT + "<Bash><Read>"))
        self.assertEqual(usage["output_tokens_details"], {"thinking_tokens": 3})
        for kind in ("web_search_20250305", "advisor_20260301"):
            self.server.wait_for_err(f'tool type "{kind}"')
        self.assertNotIn('the field "', self.server.err)

    def test_claude_code_history(self):
        """Turns with thoughts, results of every form, reminders of the system, and blocks of other servers."""
        content = self.claude(CLAUDE_TURNS, stream=False)["content"]
        call = {**content[2], "caller": {"type": "direct"}}
        turns = [
            *CLAUDE_TURNS, {"role": "assistant", "content": [*content[:2], call]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call["id"], "content": "ok", "is_error": False, **CACHED},
                {"type": "text", "text": "<system-reminder>R</system-reminder>"}]},
            {"role": "system", "content": [{"type": "text", "text": "S", **CACHED}]},
            {"role": "assistant", "content": [
                {"type": "redacted_thinking", "data": "d"},
                {"type": "server_tool_use", "id": "s1", "name": "advisor", "input": {}},
                {"type": "advisor_tool_result", "tool_use_id": "s1", "content": {"type": "advisor_result"}},
                {"type": "tool_use", "id": "c1", "name": "Read", "input": {}},
                {"type": "tool_use", "id": "c2", "name": "Read", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a"},
                                                                         {"type": "text", "text": "b"}]},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": True, "content": [
                    {"type": "tool_reference", "tool_name": "Bash"}]}]}]
        expected = CLAUDE_PROMPT + ("[assistant|Well.(Bash)][tool|ok][user|<system-reminder>R</system-reminder>]"
                                    "[system|S][assistant|(Read)(Read)][tool|a\nb][tool|Bash]<Bash><Read>")
        usage = self.claude(turns, system=[billing("0b1c2"), *CLAUDE["system"][1:]])[-2]["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], self.count(expected))
        self.assertGreater(usage["cache_read_input_tokens"], 0)  # although the line of the system text differs
        asked = {key: CLAUDE[key] for key in ("model", "system", "tools", "thinking", "context_management")}
        answer = self.server.post(COUNT, {**asked, "messages": turns}, CLAUDE_HEADERS)
        self.assertEqual(answer.value, {"input_tokens": self.count(expected)}, answer.text)

    def test_tools_that_a_search_finds(self):
        """A deferred tool is offered once a result of the client's search, or an addition, refers to it. With a search
        by the server every tool is offered."""
        def deferred(name):
            return {"name": name, "input_schema": OBJECT, "defer_loading": True}
        tools = [{"name": "ToolSearch", "input_schema": OBJECT}, deferred("Fetch"), deferred("Edit"), deferred("Note")]
        turns = [*CLAUDE_TURNS,
                 {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "ToolSearch", "input": {}}]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
                     {"type": "tool_reference", "tool_name": "Fetch"}]}]},
                 {"role": "system", "content": [{"type": "tool_addition", "tool": {
                     "type": "tool_reference", "name": "Note"}}, {"type": "text", "text": "N"}]}]
        found = "[assistant|(ToolSearch)][tool|Fetch][system|N]"
        server = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
        for asked, offered, shown in ((CLAUDE_TURNS, tools, "<ToolSearch>"),
                                      (turns, tools, found + "<ToolSearch><Fetch><Note>"),
                                      (CLAUDE_TURNS, [server, *tools[1:]], "<Fetch><Edit><Note>")):
            answer = self.server.post(COUNT, {**CLAUDE_COUNT, "messages": asked, "tools": offered}, CLAUDE_HEADERS)
            self.assertEqual(answer.value, {"input_tokens": self.count(CLAUDE_PROMPT + shown)}, answer.text)
        for name in (5, None):
            answer = self.server.post(COUNT, {**CLAUDE_COUNT, "messages": turns, "tools": [
                {**deferred("x"), "name": name}]}, CLAUDE_HEADERS)
            self.assertEqual((answer.status, "tools[0]" in answer.text), (400, True), answer.text)

    def test_documents_and_defined_tools(self):
        """Documents and search results in a message and in a result; a tool that a message of the system defines."""
        text = {"type": "text", "media_type": "text/plain", "data": "D"}
        parts = [{"type": "document", "source": text, "title": "T", "citations": {"enabled": True}, **CACHED},
                 {"type": "search_result", "source": "S", "title": "T", "content": [{"type": "text", "text": "R"}]}]
        shown = ("<document>\n<title>T</title>\n<document_content>\nD\n</document_content>\n</document>\n"
                 "<search_result>\n<source>S</source>\n<title>T</title>\n<content>\nR\n</content>\n</search_result>")
        definition = {"type": "tool_definition", "definition": {"name": "More", "input_schema": OBJECT}}
        turns = [{"role": "user", "content": parts},
                 {"role": "system", "content": [{"type": "tool_addition", "tool": definition},
                                                {"type": "text", "text": "N"}]},
                 {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "More", "input": {}}]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": parts}]}]
        expected = (f"[system|Be.\nAsk.][user|{shown}][system|N][assistant|(More)][tool|{shown}]<Bash><Read><More>")
        usage = self.claude(turns)[-2]["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], self.count(expected))
        answer = self.server.post(COUNT, {key: CLAUDE[key] for key in ("model", "system", "tools")} | {
            "messages": turns}, CLAUDE_HEADERS)
        self.assertEqual(answer.value, {"input_tokens": self.count(expected)}, answer.text)

    def test_claude_code_probes(self):
        """The quota's probe, the title of a session, the search for models, and a conversation that is too long."""
        answer = self.server.post(MESSAGES, {"model": "demo", "max_tokens": 1, "messages": [
            {"role": "user", "content": "quota"}], "metadata": {"user_id": "u"}}, CLAUDE_HEADERS)
        self.assertEqual((answer.status, answer.value["stop_reason"]), (200, "max_tokens"), answer.text)
        answer = self.server.ask("GET", "/v1/models?limit=1000", headers=CLAUDE_HEADERS)
        self.assertEqual((answer.value["data"][0]["type"], answer.value["has_more"]), ("model", False))
        for path, status in (("/", 200), ("/api/hello", 404)):  # which show that there is a server
            self.assertEqual(self.server.ask("HEAD", path, headers={"User-Agent": "Bun/1.4.6"}).status, status)
        long = [{"role": "user", "content": "x" * 600}]
        answer = self.server.post(MESSAGES, {**CLAUDE, "messages": long}, CLAUDE_HEADERS)
        self.assertEqual(answer.status, 400)
        self.assertRegex(answer.value["error"]["message"], r"^prompt is too long: \d+ tokens > 511 maximum$")

    def test_a_full_context(self):
        """More tokens are requested than the context has."""
        events = self.claude(CLAUDE_TURNS, ignore_eos=True, tools=[])
        self.assertEqual(events[-2]["delta"]["stop_reason"], "model_context_window_exceeded")
        n_prompt = self.count(CLAUDE_PROMPT)
        self.assertEqual(events[-2]["usage"]["output_tokens"], 512 - n_prompt)
        events = self.codex(CODEX_INPUT, ignore_eos=True, tools=[], max_output_tokens=128000)
        self.assertEqual(events[-1]["response"]["incomplete_details"], {"reason": "max_output_tokens"})


if __name__ == "__main__":
    harness.main()
