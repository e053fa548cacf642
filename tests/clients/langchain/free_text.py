"""LangChain (langchain-openai): chats and completions, whole, streamed and in batches."""

import os

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

given = {"base_url": os.environ["OPENAI_BASE_URL"], "model": "demo", "temperature": 0, "max_retries": 0}
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
