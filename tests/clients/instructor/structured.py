"""instructor: tools, strict tools and JSON schemas, whole, in parts and as an iterable."""

from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: Literal["Ada", "Lily"]
    age: Literal[7, 8]


MESSAGES = [{"role": "user", "content": "Who?"}]

for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(OpenAI(), mode=mode)
    asked = {"model": "demo", "messages": MESSAGES, "max_retries": 0, "seed": 3, "temperature": 1}
    found = client.chat.completions.create(response_model=Person, **asked)
    assert isinstance(found, Person), (mode, found)
    found, completion = client.chat.completions.create_with_completion(response_model=Person, **asked)
    assert isinstance(found, Person) and completion.usage.completion_tokens > 0, (mode, completion)
    parts = list(client.chat.completions.create_partial(response_model=Person, **asked))
    assert len(parts) > 1 and Person(**parts[-1].model_dump()), (mode, parts)
