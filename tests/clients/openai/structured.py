"""The client openai: chat.completions.parse, its streaming helpers, and functions made of classes."""

from typing import Literal, Optional

import openai
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: Literal["Ada", "Lily"]
    age: Literal[7, 8]
    friend: Optional["Person"]


client = OpenAI(max_retries=0, timeout=120)
asked = {"model": "demo", "messages": [{"role": "user", "content": "Who?"}], "temperature": 1, "seed": 5}

found = client.chat.completions.parse(**asked, response_format=Person).choices[0].message.parsed
assert isinstance(found, Person), found

kinds, content = set(), ""
with client.chat.completions.stream(**asked, response_format=Person) as stream:
    for event in stream:
        kinds.add(event.type)
        if event.type == "content.delta":
            content += event.delta
        elif event.type == "content.done":
            assert event.content == content and event.parsed == found, event
    assert stream.get_final_completion().choices[0].message.parsed == found
assert {"chunk", "content.delta", "content.done"} <= kinds, kinds

tool = openai.pydantic_function_tool(Person)
for choice in ("required", {"type": "function", "function": {"name": "Person"}}):
    called = {**asked, "tools": [tool], "tool_choice": choice, "parallel_tool_calls": False}
    call, = client.chat.completions.parse(**called).choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Person), call
    pieces, done = "", None
    with client.chat.completions.stream(**called) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.delta":
                pieces += event.arguments_delta
            elif event.type == "tool_calls.function.arguments.done":
                done = event
    assert done and done.arguments == pieces == call.function.arguments, (done, pieces, call)
    assert done.parsed_arguments == call.function.parsed_arguments, done

messages = [*asked["messages"], {"role": "assistant", "tool_calls": [call.model_dump(include={
    "id": True, "type": True, "function": {"name", "arguments"}})]},
            {"role": "tool", "tool_call_id": call.id, "content": "found"}]
answer = client.chat.completions.create(**{**asked, "messages": messages}, tools=[tool], max_completion_tokens=8)
assert answer.choices[0].finish_reason in ("stop", "length"), answer

try:
    client.chat.completions.parse(**asked, response_format=Person, max_completion_tokens=2)
    raise SystemExit("an answer that was cut was parsed")
except openai.LengthFinishReasonError:
    pass
try:
    client.chat.completions.create(**asked, response_format={"type": "json_schema", "json_schema": {
        "name": "s", "strict": True, "schema": {"type": "array", "uniqueItems": True}}})
    raise SystemExit("uniqueItems was taken")
except openai.BadRequestError as refused:
    assert refused.param == "response_format" and "/uniqueItems" in refused.message, refused
