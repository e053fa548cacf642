"""The public clients of agents against `yoke serve`, unchanged: `openai` and `openai-agents` with responses,
`anthropic` with messages; whole and streamed, with tools.
"""

import os
import subprocess
import sys

import harness
from chain_case import make_chain_model
from server_case import Case

RESPONSES = r"""
import sys
import openai
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret", max_retries=0, timeout=120)
tools = [{"type": "function", "name": "add", "description": "Adds.", "strict": False,
          "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
asked = {"model": "demo", "input": "Ask", "temperature": 0, "tools": tools, "instructions": "Be brief."}
whole = client.responses.create(**asked, store=False, include=["reasoning.encrypted_content"])
assert whole.output_text == "Well." and whole.status == "completed", whole
assert [item.type for item in whole.output] == ["reasoning", "message", "function_call"], whole
assert whole.usage.output_tokens_details.reasoning_tokens == 2 and whole.usage.total_tokens > 0, whole
with client.responses.stream(**asked) as stream:
    types = [event.type for event in stream]
    final = stream.get_final_response()
assert types[:2] == ["response.created", "response.in_progress"] and types[-1] == "response.completed", types
assert final.output_text == "Well." and final.output[2].arguments == whole.output[2].arguments, final
call = whole.output[2]
result = {"type": "function_call_output", "call_id": call.call_id, "output": "Done"}
history = [{"role": "user", "content": "Ask"}, *[item.model_dump() for item in whole.output], result]
assert client.responses.create(**{**asked, "input": history}).output_text == "Fixed."
for wrong, error in (({"previous_response_id": "resp_1"}, openai.BadRequestError),
                     ({"model": "x"}, openai.NotFoundError),
                     ({"input": [result]}, openai.BadRequestError)):
    try:
        client.responses.create(**{**asked, **wrong})
        raise SystemExit(f"{wrong} was taken")
    except error as found:
        assert found.body["message"], found
for use in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
    try:
        use("resp_1")
        raise SystemExit(f"{use} found a response")
    except openai.NotFoundError:
        pass
print("openai", openai.__version__)
"""

AGENTS = r"""
import asyncio
import sys
from importlib.metadata import version
from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
called = []

@function_tool(strict_mode=False)
def add(n: int) -> str:
    "Adds."
    called.append(n)
    return "Done"

client = AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="secret", max_retries=0)
agent = Agent(name="a", instructions="Be brief.", tools=[add], model_settings=ModelSettings(temperature=0),
              model=OpenAIResponsesModel(model="demo", openai_client=client))

async def run():
    result = await Runner.run(agent, "Ask")
    assert result.final_output == "Fixed." and called == [12], (result, called)
    streamed = Runner.run_streamed(agent, "Ask")
    events = [event.type async for event in streamed.stream_events()]
    assert "raw_response_event" in events and streamed.final_output == "Fixed." and called == [12, 12], events

asyncio.run(run())
print("openai-agents", version("openai-agents"))
"""

MESSAGES = r"""
import sys
import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="secret", max_retries=0, timeout=120)
tools = [{"name": "add", "description": "Adds.",
          "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
asked = {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "Ask"}], "tools": tools,
         "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]}
whole = client.messages.create(**asked, extra_body={"temperature": 0})
assert [block.type for block in whole.content] == ["thinking", "text", "tool_use"], whole
assert whole.content[2].input == {"n": 12} and whole.stop_reason == "tool_use", whole
with client.messages.stream(**asked, extra_body={"temperature": 0}) as stream:
    types = [event.type for event in stream]
    final = stream.get_final_message()
assert types[0] == "message_start" and types[-1] == "message_stop", types
assert final.content[1].text == "Well." and final.content[2].input == {"n": 12}, final
assert final.content[0].thinking == whole.content[0].thinking and final.content[0].signature, final
assert final.usage.output_tokens == whole.usage.output_tokens and final.stop_reason == "tool_use", final
count = client.messages.count_tokens(**{key: asked[key] for key in ("model", "messages", "system", "tools")})
assert count.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens, (count, whole)
history = [*asked["messages"], {"role": "assistant", "content": whole.content},
           {"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": whole.content[2].id, "content": "Done"}]}]
answer = client.messages.create(**{**asked, "messages": history}, extra_body={"temperature": 0})
assert answer.content[-1].text == "Fixed." and answer.stop_reason == "end_turn", answer
text = {"type": "text", "media_type": "text/plain", "data": "calc.py adds."}
page = {"type": "search_result", "source": "calc.py", "title": "Code", "content": [{"type": "text", "text": "a + b"}]}
parts = [{"type": "document", "title": "Task", "source": text}, page]
plain = {**asked, "messages": [{"role": "user", "content": "calc.py adds."}]}
more = {**asked, "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "calc.py adds."}]}]}
counts = [client.messages.count_tokens(**{key: body[key] for key in ("model", "messages")}).input_tokens
          for body in (plain, more)]
assert counts[0] < counts[1], counts
assert client.messages.create(**more, extra_body={"temperature": 0}).content[1].text == "Well."
history[-1]["content"][0]["content"] = parts
assert client.messages.create(**{**asked, "messages": history}, extra_body={"temperature": 0}).content
models = client.models.list(limit=1)
assert [model.id for model in models] == ["demo"] and models.last_id == "demo", models
assert client.models.retrieve("demo").max_input_tokens == 512 and models.data[0].lifecycle == "active", models
for call in (lambda: client.models.retrieve("x"), lambda: client.messages.batches.list(), client.beta.files.list):
    try:
        call()
        raise SystemExit("an unknown path was served")
    except anthropic.NotFoundError as found:
        assert found.body["error"]["type"] == "not_found_error" and found.request_id, found
image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
for wrong, error in (({"model": "x"}, anthropic.NotFoundError), ({"max_tokens": 0}, anthropic.BadRequestError),
                     ({"messages": [{"role": "user", "content": [image]}]}, anthropic.BadRequestError),
                     ({"messages": [{"role": "user", "content": [pdf]}]}, anthropic.BadRequestError)):
    try:
        client.messages.create(**{**asked, **wrong})
        raise SystemExit(f"{wrong} was taken")
    except error as found:
        assert found.body["error"]["message"] and found.request_id, found
try:
    anthropic.Anthropic(base_url=sys.argv[1], api_key="wrong", max_retries=0).messages.create(**asked)
    raise SystemExit("a wrong key was taken")
except anthropic.AuthenticationError:
    pass
print("anthropic", anthropic.__version__)
"""

# The model calls the tool, and answers once the conversation ends with the tool's result.
STEPS = {"<think>": "so", "so": "</think>", "</think>": "Well.", "Well.": "<tool_call>",
         "<tool_call>": '{"name": "add", ', '{"name": "add", ': '"arguments": {"n": ', '"arguments": {"n": ': "12}}",
         "12}}": "</tool_call>", "<done>": "Fixed."}
TEMPLATE = "{% for message in messages %}[{{ message.role }}|{{ message.content }}]{% endfor %}" \
           "{{ '<done>' if messages[-1].content == 'Done' else '<think>' }}"


@harness.of_the_program
class Agents(Case):
    def check(self, script):
        """A script that uses a client finds no fault."""
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        server = self.serve("--api-key", "secret", "--served-model-name", "demo", "--tool-call-parser", "hermes",
                            "--reasoning-parser", "qwen3", model=make_chain_model(folder, STEPS, TEMPLATE))
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # without modules of tests
        done = subprocess.run([sys.executable, "-c", script, f"http://127.0.0.1:{server.port}"], capture_output=True,
                              timeout=harness.TIMEOUT_S, check=False, env=alone)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        print(done.stdout.decode().strip(), flush=True)

    def test_openai_responses(self):
        self.check(RESPONSES)

    def test_openai_agents(self):
        self.check(AGENTS)

    def test_anthropic(self):
        self.check(MESSAGES)


if __name__ == "__main__":
    harness.main()
