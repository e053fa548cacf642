"""The public clients `openai` and LangChain (`langchain-openai`) against `yoke serve`, unchanged. Needs both packages
(harness.need_package).
"""

import os
import subprocess
import sys
import unittest

import harness
from server_case import Case

OPENAI = r"""
import sys
import openai
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret", max_retries=0, timeout=120)
model = client.models.list().data[0].id
assert client.models.retrieve(model).id == model

asked = {"model": model, "prompt": "The capital of Norway is", "max_tokens": 8, "temperature": 0}
whole = client.completions.create(**asked, logprobs=2)
choice = whole.choices[0]
assert choice.text.strip() == "Oslo." and choice.finish_reason == "stop", whole
assert len(choice.logprobs.tokens) == whole.usage.completion_tokens
events = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
assert "".join(event.choices[0].text for event in events[:-1]) == choice.text
assert events[-1].usage.completion_tokens == whole.usage.completion_tokens

messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "17+25="}]
chat = client.chat.completions.create(model=model, messages=messages, max_completion_tokens=8, temperature=0, n=2,
                                      seed=5, logprobs=True, top_logprobs=3, stop=["never"],
                                      extra_body={"top_k": 5, "ignore_eos": True})
assert [choice.index for choice in chat.choices] == [0, 1] and chat.choices[0].message.role == "assistant"
assert len(chat.choices[0].logprobs.content[0].top_logprobs) == 3
text = ""
with client.chat.completions.stream(model=model, messages=messages, max_completion_tokens=8, temperature=0, seed=5,
                                    extra_body={"ignore_eos": True}) as stream:
    for event in stream:
        if event.type == "content.delta":
            text += event.delta
assert text == chat.choices[0].message.content, (text, chat)

for wrong, error in (({"model": "another"}, openai.NotFoundError), ({"temperature": -1}, openai.BadRequestError)):
    try:
        client.chat.completions.create(**{"model": model, "messages": messages, **wrong})
        raise SystemExit(f"{wrong} was taken")
    except error as found:
        assert found.body["message"], found
try:
    OpenAI(base_url=sys.argv[1] + "/v1", api_key="wrong", max_retries=0).models.list()
    raise SystemExit("a wrong key was taken")
except openai.AuthenticationError:
    pass
with client.completions.create(model=model, prompt="x", max_tokens=900, stream=True,
                               extra_body={"ignore_eos": True}) as stream:
    for event in stream:
        break  # and close it
print("openai", openai.__version__)
"""

LANGCHAIN = r"""
import sys
from importlib.metadata import version
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

given = {"base_url": sys.argv[1] + "/v1", "api_key": "secret", "model": "demo", "temperature": 0, "max_retries": 0}
messages = [SystemMessage("Be brief."), HumanMessage("17+25=")]
chat = ChatOpenAI(**given, max_completion_tokens=8, stream_usage=True)
whole = chat.invoke(messages)
assert whole.content and whole.response_metadata["finish_reason"] in ("stop", "length"), whole
assert whole.usage_metadata["output_tokens"] > 0, whole
chunks = list(chat.stream(messages))
assert len(chunks) > 3, chunks  # no single one
streamed = sum(chunks[1:], chunks[0])
assert streamed.content == whole.content, (streamed, whole)
for key in ("input_tokens", "output_tokens", "total_tokens"):
    assert streamed.usage_metadata[key] == whole.usage_metadata[key], (streamed, whole)
assert [answer.content for answer in chat.batch([messages] * 4)] == [whole.content] * 4
reported = chat.bind(logprobs=True, top_logprobs=2, stop=["never"]).invoke(messages).response_metadata
assert len(reported["logprobs"]["content"]) == whole.usage_metadata["output_tokens"], reported
completion = OpenAI(**given, max_tokens=8)
assert completion.invoke("The capital of Norway is").strip() == "Oslo."
assert "".join(completion.stream("The capital of Norway is")).strip() == "Oslo."
print("langchain-openai", version("langchain-openai"))
"""


STRUCTURED = r"""
import sys
from typing import Literal
import openai
from langchain_openai import ChatOpenAI
from openai import OpenAI
from pydantic import BaseModel

class Person(BaseModel):
    name: Literal["Ada", "Lily"]
    age: Literal[7, 8]

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret", max_retries=0, timeout=120)
asked = {"model": "demo", "messages": [{"role": "user", "content": "Who?"}], "temperature": 1, "seed": 3}
found = client.chat.completions.parse(**asked, response_format=Person).choices[0].message.parsed
assert isinstance(found, Person), found
with client.chat.completions.stream(**asked, response_format=Person) as stream:
    for event in stream:
        pass
    assert isinstance(stream.get_final_completion().choices[0].message.parsed, Person)
tool = openai.pydantic_function_tool(Person)
for choice in ("required", {"type": "function", "function": {"name": "Person"}}):
    answer = client.chat.completions.parse(**asked, tools=[tool], tool_choice=choice, parallel_tool_calls=False)
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Person), answer
chat = ChatOpenAI(base_url=sys.argv[1] + "/v1", api_key="secret", model="demo", temperature=1, max_retries=0)
for method in ("json_schema", "function_calling"):
    assert isinstance(chat.with_structured_output(Person, method=method).invoke("Who?"), Person), method
print("structured output")
"""

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}{{ tools | length if tools }}"


@harness.of_the_program
class Clients(Case):
    def check(self, script, *options):
        """A script that uses a client finds no fault."""
        template = () if "--chat-template" in options else ("--chat-template", "builtin:chatml")
        server = self.serve(*template, "--api-key", "secret", "--served-model-name", "demo", *options)
        done = subprocess.run([sys.executable, "-c", script, f"http://127.0.0.1:{server.port}"], capture_output=True,
                              timeout=harness.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        print(done.stdout.decode().strip(), flush=True)

    def test_openai(self):
        self.check(OPENAI, "--tp", 2)

    def test_langchain(self):
        self.check(LANGCHAIN)

    @unittest.skipUnless(harness.has_grammar_library(), "no grammar library")
    def test_structured_output(self):
        path = os.path.join(harness.scratch_folder(self.addCleanup), "template.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        self.check(STRUCTURED, "--chat-template", path, "--tool-call-parser", "hermes")


if __name__ == "__main__":
    harness.need_package("openai")
    harness.need_package("langchain_openai")
    harness.main()
