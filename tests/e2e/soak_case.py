"""A random client of `yoke serve` that checks every answer, against those of the demo model's prompts and earlier
answers of the server. Its actions are the methods named act_*, each with a weight.
"""

import collections
import contextlib
import json
import os
import random
import socket
import struct
import threading
import time

import harness
from constrained_case import draw_constraint, draw_schema, satisfies
from server_case import ask_on, events_of, read_events, request_bytes
from server_refused import BAD_BODIES, BAD_CHATS, BAD_FIELDS, BAD_HTTP

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
LONG = {"max_tokens": 900, "ignore_eos": True}  # after a short prompt
HELLO = [{"role": "user", "content": "hello"}]
MAX_IDLE_S = 15  # half of the server's default limit (--header-timeout)


def read_prompts():
    with open(os.path.join(harness.DEMO, "expected.json"), encoding="utf-8") as file:
        return json.load(file)["prompts"]


class Refused(Exception):
    """A response that the server may give instead of an answer: too many requests, or a failed engine."""


class Soak:
    """State shared by all clients: the answers so far, counts of actions, and the first error."""

    def __init__(self, server, limit_s, has_grammars=False):
        self.server, self.limit_s, self.has_grammars = server, limit_s, has_grammars
        self.prompts = read_prompts()
        self.may_fail = False  # a rank fails temporarily: requests may end with an error that names it
        self.counts = collections.Counter()
        self.error, self.longest_s = None, 0.0
        self.lock = threading.Lock()
        self.ids, self.answers = set(), {}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def check_id(self, name):
        """No two requests have the same id."""
        with self.lock:
            assert name not in self.ids, name
            self.ids.add(name)

    def check_again(self, key, answer):
        """Checks that an answer equals the earlier answer to the same request. On CPU only: a GPU splits sums by the
        number of rows in a step, and a draw near a border may then fall on the other side."""
        if not harness.ON_CPU:
            return
        with self.lock:
            expected = self.answers.setdefault(key, answer)
        assert answer == expected, (key, answer, expected)


class Client(threading.Thread):
    def __init__(self, soak, seed):
        super().__init__(daemon=True)
        self.soak, self.server, self.seed = soak, soak.server, seed
        self.random = random.Random(seed)
        self.connection, self.connected_s = None, 0.0
        self.must_end = threading.Event()
        self.doing = "nothing"

    def run(self):
        acts = {self.act_completion: 30, self.act_chat: 15, self.act_tokens: 8, self.act_look: 4,
                self.act_bad_request: 15, self.act_bad_http: 4, self.act_leave: 15, self.act_slow_reader: 5}
        if self.soak.has_grammars:
            acts |= {self.act_constrained: 15, self.act_call: 10}
        with contextlib.closing(self):
            while not self.must_end.is_set() and not self.soak.error:
                act = self.random.choices(list(acts), acts.values())[0]
                self.doing = act.__name__.removeprefix("act_")
                began = time.monotonic()
                try:
                    act()
                    self.soak.count(self.doing)
                except Refused as refused:
                    self.soak.count(f"refused with {refused}")
                    time.sleep(0.02)
                except Exception as error:  # pylint: disable=broad-except
                    error.add_note(f"client {self.seed}, {self.doing}")
                    self.soak.error = self.soak.error or error
                taken_s = time.monotonic() - began
                self.soak.longest_s = max(self.soak.longest_s, taken_s)
                if taken_s > self.soak.limit_s:
                    self.soak.error = self.soak.error or TimeoutError(f"{self.doing} took {taken_s} s")

    def close(self):
        if self.connection:
            self.connection.close()

    # ---- Requests ----------------------------------------------------------------------------------------------------

    def connect(self):
        """The connection of the last request, or a new one, because the server may close an idle one."""
        is_old = time.monotonic() - self.connected_s > MAX_IDLE_S
        self.connected_s = time.monotonic()
        if self.random.random() < 0.3 or is_old or not self.connection:
            self.close()
            self.connection = self.server.connect(self.soak.limit_s)
        return self.connection

    def open(self, path, body, receive_bytes=None):
        """A request on a separate socket, which the server closes after the answer."""
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(self.soak.limit_s)
        connection.connect(("127.0.0.1", self.server.port))
        data = request_bytes(path, body, "Connection: close\r\n")
        if self.random.random() < 0.2:  # in two pieces
            at = self.random.randrange(len(data))
            connection.sendall(data[:at])
            time.sleep(self.random.random() * 0.01)
            data = data[at:]
        connection.sendall(data)
        return connection

    def expect(self, status, answer):
        """A request was accepted, or refused with an allowed status."""
        if status == 429 or (status in (500, 503) and self.soak.may_fail):
            self.check_error(answer, status)
            raise Refused(status)
        assert status == 200, (status, answer)

    def check_error(self, answer, status):
        message = answer["error"]["message"]
        parts = {429: ["too many requests"], 500: ["rank 1"], 503: ["rank 1", "loading"]}[status]
        assert any(part in message for part in parts), message

    def ask(self, path, body):
        """The choices of an answer by index, each as its text, its ids and its end; streamed or whole at random."""
        connection = self.connect()
        if self.random.random() < 0.4:
            response = ask_on(connection, "POST", path, body)
            self.expect(response.status, response.value)
            return self.read_whole(response.value)
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            self.expect(response.status, json.loads(response.read()))
        events = list(read_events(response))
        assert events.pop() == "[DONE]"
        return self.read_streamed(events)

    def read_whole(self, answer):
        self.soak.check_id(answer["id"])
        found = {}
        for choice in answer["choices"]:
            text = choice["text"] if "text" in choice else choice["message"]["content"]
            assert choice["index"] not in found, answer
            found[choice["index"]] = (text, choice.get("token_ids"), choice["finish_reason"])
        return found

    def read_streamed(self, events):
        if "error" in events[-1]:
            self.expect(500, events[-1])
        self.soak.check_id(events[0]["id"])
        found = {}
        for event in events:
            assert event["id"] == events[0]["id"], event
            choice = event["choices"][0]
            text, ids, end = found.get(choice["index"], ("", [], None))
            assert end is None, event
            text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
            found[choice["index"]] = (text, ids + (choice.get("token_ids") or []), choice["finish_reason"])
        return found

    # ---- Right requests ----------------------------------------------------------------------------------------------

    def draw_completion(self):
        """A body, and the prompts of its choices by index."""
        prompts = self.random.choices(self.soak.prompts, k=self.random.choice((1, 1, 1, 2, 3)))
        n = self.random.choice((1, 1, 1, 2, 3))
        key = self.random.choice(("prompt", "prompt_ids"))
        asked = [prompt[key] for prompt in prompts]
        body = {"prompt": asked[0] if len(asked) == 1 else asked, "n": n, "max_tokens": 64, "temperature": 0,
                "return_token_ids": True}
        if self.random.random() < 0.3:
            body["max_tokens"] = self.random.randint(1, 20)
        elif self.random.random() < 0.4:
            answer = self.random.choice(prompts)["answer"]
            at = self.random.randrange(len(answer))
            body["stop"] = [answer[at:at + self.random.randint(1, 4)], "never"]
        return body, [prompt for prompt in prompts for _ in range(n)]

    def check_completion(self, body, prompts, found):
        assert sorted(found) == list(range(len(prompts))), (body, found)
        for index, prompt in enumerate(prompts):
            text, ids, end = found[index]
            expected = prompt["output_ids"][:body["max_tokens"]]
            is_whole = len(expected) == len(prompt["output_ids"])
            if not harness.ON_CPU:  # answers may differ after a near tie, as in harness.assert_same_tokens
                n = (len(expected) + 1) // 2
                assert ids[:n] == expected[:len(ids)][:n] and end in ("stop", "length"), (body, index, found)
                continue
            stop = next((stop for stop in body.get("stop", []) if stop in prompt["answer"]), None)
            if stop:
                assert (text, end) == (prompt["answer"].split(stop)[0], "stop"), (body, index, found)
                assert ids == expected[:len(ids)], (body, index, found)
            else:
                assert (ids, end) == (expected, "stop" if is_whole else "length"), (body, index, found)
                assert prompt["answer"].startswith(text) and (not is_whole or text == prompt["answer"]), (body, found)

    def act_completion(self):
        if self.random.random() < 0.3:
            return self.ask_sampled()
        body, prompts = self.draw_completion()
        return self.check_completion(body, prompts, self.ask(COMPLETIONS, body))

    def ask_sampled(self):
        """Drawn with a seed: the same answer again, with any concurrent load."""
        at, seed, n = self.random.randrange(8), self.random.randrange(4), self.random.randint(1, 3)
        body = {"prompt": self.soak.prompts[at * 10]["prompt"], "n": n, "max_tokens": 40, "ignore_eos": True,
                "temperature": 0.9, "top_p": 0.95, "top_k": 100, "seed": seed, "return_token_ids": True}
        for index, answer in self.ask(COMPLETIONS, body).items():
            self.soak.check_again(("sampled", at, seed, index), answer)

    def act_constrained(self):
        """An answer that ends by itself satisfies its constraint; sometimes in a chat, where it may reason before."""
        fields, satisfied = draw_constraint(self.random)
        prompt = self.random.choice(self.soak.prompts)["prompt"]
        if self.random.random() < 0.5:
            path, body = COMPLETIONS, {"prompt": prompt}
        else:
            path, body = CHAT, {"messages": [{"role": "user", "content": prompt}], "thinking_token_budget": 8}
        asked = {**body, **fields, "max_tokens": 200, "n": self.random.randint(1, 2), "temperature": 1.5}
        for text, _, end in self.ask(path, asked).values():
            assert end != "stop" or satisfied(text or ""), (asked, text)

    def act_call(self):
        """An enforced call of a strict tool, or of either."""
        schema = {"type": "object", "properties": {"x": draw_schema(self.random), "y": draw_schema(self.random)},
                  "required": ["x"], "additionalProperties": False}
        tools = [{"type": "function", "function": {"name": name, "strict": True, "parameters": schema}}
                 for name in "fg"]
        choice = self.random.choice(("required", {"type": "function", "function": {"name": "g"}}))
        response = ask_on(self.connect(), "POST", CHAT, {"messages": HELLO, "tools": tools, "tool_choice": choice,
                                                         "max_tokens": 300, "parallel_tool_calls": False})
        self.expect(response.status, response.value)
        self.soak.check_id(response.value["id"])
        answer, = response.value["choices"]
        if answer["finish_reason"] == "length":
            return
        call, = answer["message"]["tool_calls"]
        assert call["function"]["name"] in ("fg" if choice == "required" else "g"), call
        assert satisfies(json.loads(call["function"]["arguments"]), schema), (schema, call)

    def act_chat(self):
        at, seed, n = self.random.randrange(len(self.soak.prompts)), self.random.randrange(2), self.random.randint(1, 2)
        body = {"messages": [{"role": "user", "content": self.soak.prompts[at]["prompt"]}], "n": n, "seed": seed,
                "max_completion_tokens": 24, "temperature": self.random.choice((0, 0.7))}
        found = self.ask(CHAT, body)
        assert sorted(found) == list(range(n)), found
        for index, (text, _, end) in found.items():
            self.soak.check_again(("chat", at, seed, index, body["temperature"]), (text, end))

    def act_tokens(self):
        prompt = self.random.choice(self.soak.prompts)
        for path, body, key, expected in (("/tokenize", {"prompt": prompt["prompt"]}, "tokens", prompt["prompt_ids"]),
                                          ("/detokenize", {"tokens": prompt["prompt_ids"]}, "prompt",
                                           prompt["prompt"])):
            response = ask_on(self.connect(), "POST", path, body)
            self.expect(response.status, response.value)
            assert response.value[key] == expected, (body, response.value)

    def act_look(self):
        path = self.random.choice(("/metrics", "/version", "/v1/models", "/", "/health"))
        response = ask_on(self.connect(), "GET", path)
        assert response.status == 200 or (response.status == 503 and self.soak.may_fail), (path, response.text)

    def act_slow_reader(self):
        body, prompts = self.draw_completion()
        body |= {"stream": True, "logprobs": 5}
        answer = bytearray()
        with self.open(COMPLETIONS, body, receive_bytes=4096) as connection:
            while chunk := connection.recv(self.random.randint(1, 8192)):
                answer += chunk
                time.sleep(self.random.random() * 0.02)
        head, _, rest = bytes(answer).partition(b"\r\n\r\n")
        status = int(head.split()[1])
        if status != 200:
            self.expect(status, json.loads(rest))
        self.check_completion(body, prompts, self.read_streamed(events_of(bytes(answer))))

    # ---- Wrong requests, and clients that leave ----------------------------------------------------------------------

    def act_bad_request(self):
        kind = self.random.randrange(3)
        path = self.random.choice((COMPLETIONS, CHAT, "/tokenize", "/detokenize"))
        body = self.random.choice(BAD_BODIES)
        if kind == 1:
            path, body = COMPLETIONS, {"prompt": "x", **self.random.choice(BAD_FIELDS)[0]}
        elif kind == 2:
            chats = [fields for fields, *_ in BAD_CHATS if "tools" not in fields]  # --tool-call-parser is set
            path, body = CHAT, {"messages": HELLO, **self.random.choice(chats)}
        response = ask_on(self.connect(), "POST", path, body)
        if response.status != 400:
            self.expect(response.status, response.value)
        assert response.status == 400 and response.value["error"]["message"], (path, body, response.text)

    def act_bad_http(self):
        with socket.create_connection(("127.0.0.1", self.server.port), 0.1) as connection:
            answer = b""
            with contextlib.suppress(OSError):
                connection.sendall(self.random.choice(BAD_HTTP))
                answer = connection.recv(1000)
        assert not answer.startswith(b"HTTP/1.1 2"), answer

    def act_leave(self):
        """At any moment: in the middle of the request, before the answer begins, after a part of it."""
        prompt = self.random.choice(self.soak.prompts[:16])["prompt"]
        body = {**LONG, "prompt": prompt, "n": self.random.randint(1, 4), "stream": self.random.random() < 0.6}
        if self.soak.has_grammars and self.random.random() < 0.4:
            body |= draw_constraint(self.random)[0]
        n_reads = self.random.choice((0, 0, 1, 5)) if body["stream"] else 0
        if self.random.random() < 0.2:
            data, n_reads = request_bytes(COMPLETIONS, body), 0
            connection = socket.create_connection(("127.0.0.1", self.server.port), self.soak.limit_s)
            connection.sendall(data[:self.random.randrange(len(data))])
        else:
            connection = self.open(COMPLETIONS, body)
        with connection:
            for _ in range(n_reads):
                connection.recv(1024)
            time.sleep(self.random.random() * self.random.choice((0, 0.01, 0.1)))
            if self.random.random() < 0.5:  # reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
