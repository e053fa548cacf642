"""pydantic-ai: agents with each kind of output, tools of the agent, and streams."""

import asyncio
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel


class Person(BaseModel):
    name: Literal["Ada", "Lily"]
    age: Literal[7, 8]


model = OpenAIChatModel("demo")
settings = {"temperature": 1, "seed": 3}
for output in (Person, ToolOutput(Person), ToolOutput(Person, strict=True), NativeOutput(Person)):
    found = Agent(model, output_type=output, model_settings=settings).run_sync("Who?")
    assert isinstance(found.output, Person) and found.usage.output_tokens > 0, found


async def stream():
    async with Agent(model, output_type=NativeOutput(Person), model_settings=settings).run_stream("Who?") as run:
        return await run.get_output()


assert isinstance(asyncio.run(stream()), Person)
