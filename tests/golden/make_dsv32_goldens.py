#!/usr/bin/env python3
"""Makes chat/cases/deepseek_v32.json: conversations as DeepSeek-V3.2's own code makes prompts of them, in the form of
make_chat_goldens.py. scripts/chat_templates/deepseek_v32.jinja must give the same.

Tools belong to the first message if it is the system's, else to a system message without text before it. Needs the
packages of make_chat_goldens.py and the module encoding_dsv32.py, which comes with the checkpoint and with the package
sglang (tried: 0.5.23). Example: python3 make_dsv32_goldens.py .../encoding_dsv32.py
"""

import copy
import importlib.util
import json
import sys

import make_chat_goldens as chat

THOUGHT = [[chat.user("Hi"), chat.assistant("Hello", reasoning_content="They greet."), chat.user("Weather?"),
            chat.assistant("", reasoning_content="A tool.", tool_calls=[
                chat.call("get_weather", {"city": "Zürich", "days": 2, "more": {"a": [1, None, True]}, "text": "1"})]),
            chat.tool("warm")],
           [chat.user("Two?"), chat.assistant(None, reasoning_content="Both.", tool_calls=[
               chat.call("get_weather", {"city": "A"}), chat.call("get_weather", {}, 1)]), chat.tool("one")]]


def expected(encoding, messages, tools, arguments):
    messages = copy.deepcopy(messages)
    for message in messages:
        message["content"] = message["content"] or ""
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    if tools and messages[0]["role"] != "system":
        messages.insert(0, chat.system(""))
    if tools:
        messages[0]["tools"] = tools
    return encoding.encode_messages(messages, thinking_mode="thinking" if arguments else "chat")


def main():
    spec = importlib.util.spec_from_file_location("encoding", sys.argv[1])
    encoding = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(encoding)
    found = [(messages, None) for messages in chat.PLAIN + chat.HOSTILE_TEXTS] + chat.TOOLS
    found += [(messages, [chat.WEATHER]) for messages in THOUGHT]
    cases = []
    for i, (messages, tools) in enumerate(found):
        for arguments in (None, {"thinking": True} if i % 2 else {"enable_thinking": True}):
            case = {"messages": messages, "tools": tools, "arguments": arguments, "add_generation_prompt": True}
            cases.append({**case, "text": expected(encoding, messages, tools, arguments)})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    tokens = json.dumps(chat.TOKENS["deepseek"], ensure_ascii=False)
    out = chat.HERE / "chat" / "cases" / "deepseek_v32.json"
    out.write_text(f'{{"special_tokens": {tokens},\n"cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(len(cases))


if __name__ == "__main__":
    main()
