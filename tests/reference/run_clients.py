#!/usr/bin/env python3
"""Runs public clients whose default is structured output against `yoke serve`: instructor (three modes), pydantic-ai.

Run by hand, in a Python that has them: python3 tests/reference/run_clients.py build/release/bin/yoke. openai and
LangChain are tests/e2e/server_clients.py.
"""

import os
import sys
import tempfile
from typing import Literal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import instructor
from openai import OpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from server_case import Server

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}{{ tools | length if tools }}"


class Person(BaseModel):
    name: Literal["Ada", "Lily"]
    age: Literal[7, 8]


def run_instructor(url):
    for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(OpenAI(base_url=url, api_key="none"), mode=mode)
        found = client.chat.completions.create(model="demo", response_model=Person, max_retries=0,
                                               messages=[{"role": "user", "content": "Who?"}])
        assert isinstance(found, Person), found
        print("instructor", mode, found)


def run_pydantic_ai(url):
    model = OpenAIChatModel("demo", provider=OpenAIProvider(base_url=url, api_key="none"))
    for output in (Person, ToolOutput(Person), NativeOutput(Person)):
        found = Agent(model, output_type=output).run_sync("Who?").output
        assert isinstance(found, Person), found
        print("pydantic-ai", output, found)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "template.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        server = Server(sys.argv[1], "--chat-template", path, "--tool-call-parser", "hermes", "--served-model-name",
                        "demo")
        try:
            server.wait_for()
            url = f"http://127.0.0.1:{server.port}/v1"
            run_instructor(url)
            run_pydantic_ai(url)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
