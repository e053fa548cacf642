"""The client openai: completions, chats, streams, log-probabilities and errors."""

import openai
from openai import OpenAI

client = OpenAI(max_retries=0, timeout=120)
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
    OpenAI(api_key="wrong", max_retries=0).models.list()
    raise SystemExit("a wrong key was taken")
except openai.AuthenticationError:
    pass
with client.completions.create(model=model, prompt="x", max_tokens=900, stream=True,
                               extra_body={"ignore_eos": True}) as stream:
    for event in stream:
        break  # and close it
