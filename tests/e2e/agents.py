"""The same small bug is fixed by an agent's loop over each door: chat completions, responses and messages, whole and
streamed. The model is written down: after each result of a tool it makes the next call.
"""

import json
import os

import harness
from chain_case import make_chain_model
from server_case import Case, Server

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
BUG, FIX = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TASK = "The function add in calc.py is wrong. Fix it."
CALLS = [("read_file", {"path": "calc.py"}), ("write_file", {"path": "calc.py", "content": FIX}),
         ("run_tests", {"names": ["add"]})]
PARAMETERS = {"read_file": {"path": {"type": "string"}},
              "write_file": {"path": {"type": "string"}, "content": {"type": "string"}},
              "run_tests": {"names": {"type": "array", "items": {"type": "string"}}}}
# The last token of the prompt is the number of results.
TEMPLATE = ("{% for message in messages %}[{{ message.role }}|{{ message.content }}]{% endfor %}"
            "{{ '<after ' ~ (messages | selectattr('role', 'equalto', 'tool') | list | length) ~ '>' }}")


def steps():
    """Each piece of a call has one successor, so that the pieces of different calls differ."""
    found = {f"<after {len(CALLS)}>": "Fixed: ", "Fixed: ": "add adds."}
    for i, (name, arguments) in enumerate(CALLS):
        open_tag, close_tag = "<tool_call>" + "\n" * i, "\n" * i + "</tool_call>"
        text = json.dumps({"name": name, "arguments": arguments})
        pieces = [f"<after {i}>", f"Step {i}.", open_tag, text[:20], text[20:], close_tag]
        found.update(zip(pieces, pieces[1:]))
    return found


class Files:
    """The folder that the tools read, write and test."""

    def __init__(self):
        self.files, self.calls = {"calc.py": BUG}, []

    def use(self, name, arguments):
        self.calls.append((name, arguments))
        if name == "read_file":
            return self.files[arguments["path"]]
        if name == "write_file":
            self.files[arguments["path"]] = arguments["content"]
            return "written"
        scope = {}
        exec(self.files["calc.py"], scope)  # pylint: disable=exec-used
        return "passed" if scope["add"](2, 3) == 5 else "failed"


@harness.of_the_program
class Agents(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = os.path.join(harness.scratch_folder(cls.addClassCleanup), "model")
        model = make_chain_model(folder, steps(), TEMPLATE)
        cls.server = Server(cls.yoke, "--tool-call-parser", "hermes", "--served-model-name", "demo", model=model)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_for()

    def answer(self, path, **body):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, 200, answer.text)
        return answer

    def events(self, path, **body):
        lines = self.answer(path, stream=True, **body).text.splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]

    def run_agent(self, turn):
        """turn: (results of the last calls) -> the next calls [(id, name, arguments)] and the answer's text."""
        files, results, text = Files(), None, None
        while text is None or results:
            calls, text = turn(results)
            self.assertLess(len(files.calls), len(CALLS) + 1)
            results = [(call_id, files.use(name, json.loads(arguments))) for call_id, name, arguments in calls]
        self.assertEqual(files.calls, CALLS)
        self.assertEqual((files.files["calc.py"], text), (FIX, "Fixed: add adds."))

    def chat(self, messages, streams):
        tools = [{"type": "function",
                  "function": {"name": name, "parameters": {"type": "object", "properties": fields}}}
                 for name, fields in PARAMETERS.items()]
        asked = {"messages": messages, "tools": tools, "temperature": 0}
        if not streams:
            return self.answer(CHAT, **asked).value["choices"][0]["message"]
        message = {"role": "assistant", "content": "", "tool_calls": []}
        for event in self.events(CHAT, **asked):
            delta = event["choices"][0]["delta"]
            message["content"] += delta.get("content") or ""
            for part in delta.get("tool_calls", ()):
                if part["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({**part, "function": {**part["function"], "arguments": ""}})
                function = message["tool_calls"][part["index"]]["function"]
                function["arguments"] += part["function"].get("arguments") or ""
        return message

    def test_chat(self):
        for streams in (False, True):
            messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TASK}]

            def turn(results, messages=messages, streams=streams):
                messages += [{"role": "tool", "tool_call_id": call_id, "content": text}
                             for call_id, text in results or ()]
                message = self.chat(messages, streams)
                messages.append(message)
                calls = [(call["id"], call["function"]["name"], call["function"]["arguments"])
                         for call in message.get("tool_calls") or ()]
                return calls, message["content"]

            self.run_agent(turn)

    def test_responses(self):
        """The whole conversation is sent each time, as Codex does."""
        tools = [{"type": "function", "name": name, "parameters": {"type": "object", "properties": fields}}
                 for name, fields in PARAMETERS.items()]
        for streams in (False, True):
            items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]}]

            def turn(results, items=items, streams=streams):
                items += [{"type": "function_call_output", "call_id": call_id, "output": text}
                          for call_id, text in results or ()]
                asked = {"input": items, "instructions": "Be brief.", "tools": tools, "temperature": 0, "store": False}
                if streams:
                    output = [event["item"] for event in self.events(RESPONSES, **asked)
                              if event["type"] == "response.output_item.done"]
                else:
                    output = self.answer(RESPONSES, **asked).value["output"]
                items.extend(output)
                calls = [(item["call_id"], item["name"], item["arguments"]) for item in output
                         if item["type"] == "function_call"]
                texts = [item["content"][0]["text"] for item in output if item["type"] == "message"]
                return calls, "".join(texts)

            self.run_agent(turn)

    def message(self, streams, **asked):
        if not streams:
            return self.answer(MESSAGES, **asked).value["content"]
        blocks = []
        for event in self.events(MESSAGES, **asked):
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
                arguments = ""
            elif event["type"] == "content_block_delta":
                blocks[-1]["text"] = blocks[-1].get("text", "") + event["delta"].get("text", "")
                arguments += event["delta"].get("partial_json", "")
            elif event["type"] == "content_block_stop" and blocks[-1]["type"] == "tool_use":
                del blocks[-1]["text"]
                blocks[-1]["input"] = json.loads(arguments)
        return blocks

    def test_messages(self):
        tools = [{"name": name, "input_schema": {"type": "object", "properties": fields}}
                 for name, fields in PARAMETERS.items()]
        for streams in (False, True):
            messages = [{"role": "user", "content": TASK}]

            def turn(results, messages=messages, streams=streams):
                if results:
                    messages.append({"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": text}]}
                        for call_id, text in results]})
                content = self.message(streams, messages=messages, tools=tools, max_tokens=90, temperature=0,
                                       system=[{"type": "text", "text": "Be brief."}])
                messages.append({"role": "assistant", "content": content})
                calls = [(block["id"], block["name"], json.dumps(block["input"])) for block in content
                         if block["type"] == "tool_use"]
                return calls, "".join(block["text"] for block in content if block["type"] == "text")

            self.run_agent(turn)


if __name__ == "__main__":
    harness.main()
