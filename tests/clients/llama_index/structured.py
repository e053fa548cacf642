"""llama-index (llama-index-llms-openai-like): completions, chats, streams, structured outputs and calls."""

import os
from typing import Literal

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: Literal["Ada", "Lily"]
    age: Literal[7, 8]


def find(name: Literal["Ada", "Lily"]) -> str:
    """Finds a person."""
    return f"{name} is here"


given = {"model": "demo", "api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"],
         "max_retries": 0, "context_window": 512}
text = OpenAILike(**given, is_chat_model=False, temperature=0, max_tokens=8)
assert str(text.complete("The capital of Norway is")).strip() == "Oslo."
assert "".join(piece.delta for piece in text.stream_complete("The capital of Norway is")).strip() == "Oslo."

chat = OpenAILike(**given, is_chat_model=True, is_function_calling_model=True, temperature=1, max_tokens=200,
                  additional_kwargs={"seed": 3})
question = [ChatMessage(role="user", content="The capital of Norway is")]
whole = chat.chat(question)
assert whole.message.role == "assistant" and whole.message.content, whole
assert "".join(piece.delta or "" for piece in chat.stream_chat(question)) == whole.message.content

for structured in (chat, OpenAILike(**given, is_chat_model=True, should_use_structured_outputs=True, temperature=1)):
    found = structured.as_structured_llm(Person).complete("Who?").raw
    assert isinstance(found, Person), found
    found = structured.structured_predict(Person, PromptTemplate("Who is {name}?"), name="Ada")
    assert isinstance(found, Person), found

answer = chat.chat_with_tools([FunctionTool.from_defaults(find)], "Who?", tool_required=True)
call, = chat.get_tool_calls_from_response(answer)
assert find(**call.tool_kwargs).endswith("is here"), call
