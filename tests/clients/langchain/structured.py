"""LangChain (langchain-openai): the three methods of with_structured_output, tools, and a chain of both."""

import os
from typing import Literal

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: Literal["Ada", "Lily"]
    age: Literal[7, 8]


@tool
def find(name: Literal["Ada", "Lily"]) -> str:
    """Finds a person."""
    return f"{name} is here"


given = {"base_url": os.environ["OPENAI_BASE_URL"], "model": "demo", "max_retries": 0}
chat = ChatOpenAI(**given, temperature=1, seed=3)
for method in ("json_schema", "function_calling"):
    for more in ({}, {"strict": True}, {"include_raw": True}):
        structured = chat.with_structured_output(Person, method=method, **more)
        found = structured.invoke("Who?")
        assert isinstance(found["parsed"] if "include_raw" in more else found, Person), (method, more, found)
    found = chat.with_structured_output(Person.model_json_schema(), method=method).invoke("Who?")
    assert Person(**found), found
    found = list(chat.with_structured_output(Person, method=method).stream("Who?"))[-1]
    assert isinstance(found, Person), (method, found)



def write_object(seed):
    """An object of JSON mode, any at all; None where the model does not end it."""
    writer = ChatOpenAI(**given, temperature=2, seed=seed, max_completion_tokens=100)
    try:
        return writer.with_structured_output(None, method="json_mode").invoke("Who?")
    except openai.LengthFinishReasonError:
        return None


assert any(isinstance(write_object(seed), dict) for seed in range(20)), "no object was ended"

caller = chat.bind_tools([find], tool_choice="find", parallel_tool_calls=False)
question = HumanMessage("Who?")
answer = caller.invoke([question])
call, = answer.tool_calls
result = find.invoke(call)
assert isinstance(result, ToolMessage) and result.content.endswith("is here"), result
last = chat.bind_tools([find]).bind(max_tokens=8).invoke([question, answer, result])
assert last.response_metadata["finish_reason"] in ("stop", "length"), last
streamed = None
for chunk in caller.stream([question]):
    streamed = chunk if streamed is None else streamed + chunk
assert streamed.tool_calls[0]["args"] == call["args"], (streamed, call)
