#!/usr/bin/env python3
"""Holds answers at temperature 2 to the schemas of the public JSON Schema test suite, and validates them.

Run by hand, in a Python that has the packages jsonschema and numpy. SUITE is the folder json/tests/draft2020-12 of
jsonschema's source distribution (pip download --no-deps --no-binary :all: jsonschema). The models are those that are
named, or the demo model and two of random weights with its tokenizer. Every request has a seed, so that the answers are
the same on each run. Prints how many answers ended by themselves, and how many of these are valid; fails if one is
invalid or fewer than --at-least have ended. With --calls the answers are calls of a strict tool whose arguments have
the schema, or, if it permits other values than objects, an argument of the schema; in each named form of calls.
"""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import jsonschema

import harness
from server_case import Server, TOOL_TEMPLATE

MAKE_MODEL = os.path.join(HERE, "..", "..", "scripts", "make_random_model.py")
RANDOM_MODELS = {"random-1": ("--preset", "qwen3-0.6b", "--layers", 2, "--format", "plain", "--seed", 1),
                 "random-2": ("--preset", "qwen3-0.6b", "--layers", 3, "--format", "awq", "--seed", 2)}


def read_schemas(suite):
    """The schemas, each with its name."""
    for path in sorted(glob.glob(os.path.join(suite, "*.json"))):
        with open(path, encoding="utf-8") as file:
            for group in json.load(file):
                yield f"{os.path.basename(path)}: {group['description']}", group["schema"]


def has_reference(node):
    if isinstance(node, dict):
        return "$ref" in node or any(map(has_reference, node.values()))
    return isinstance(node, list) and any(map(has_reference, node))


def as_parameters(schema):
    """A schema of a function's arguments; None: the schema cannot stand within another."""
    if isinstance(schema, dict) and schema.get("type", "object" if "properties" in schema else "") == "object":
        return schema
    return None if has_reference(schema) else {"type": "object", "properties": {"x": schema}, "required": ["x"]}


def request_call(server, schema, seed):
    """As request_answer; the text is the arguments, or the answer if it contains no call."""
    response = server.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Call:"}], "temperature": 2, "seed": seed, "max_tokens": 300,
        "tool_choice": "required", "parallel_tool_calls": False,
        "tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": schema}}]})
    if response.status != 200:
        return "refused" if response.status == 400 else "failed", response.value["error"]["message"]
    choice = response.value["choices"][0]
    calls = choice["message"].get("tool_calls")
    if choice["finish_reason"] == "length":
        return "length", ""
    if not calls or choice["finish_reason"] != "tool_calls":
        return "failed", json.dumps(choice)
    return "stop", calls[0]["function"]["arguments"]


def request_answer(server, schema, seed):
    """(end, text), where an end in {"refused", "failed"} has an error's text."""
    response = server.post("/v1/completions", {
        "prompt": "JSON:", "temperature": 2, "seed": seed, "max_tokens": 200,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}})
    if response.status == 400:
        return "refused", response.value["error"]["message"]
    if response.status != 200:
        return "failed", response.text
    choice = response.value["choices"][0]
    return choice["finish_reason"], choice["text"]


def judge(schema, end, text):
    """The fate of an answer: "valid", "invalid", or the reason why it did not end."""
    if end != "stop":
        return end
    try:
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        return "valid"
    except (ValueError, jsonschema.ValidationError):
        return "invalid"


def check_model(options, model, schemas, form=None):
    """Counts of the answers of a model by their fate, and of the different valid texts. form: of calls."""
    counts, texts = collections.Counter(), set()
    ask = request_call if form else request_answer
    server = Server(options.yoke, *(("--tool-call-parser", form, "--chat-template", TOOL_TEMPLATE) if form else ()),
                    model=model)
    try:
        server.wait_for()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            first = list(pool.map(lambda pair: ask(server, pair[1], 0), schemas))
            tasks = [(name, schema, seed) for (name, schema), (end, _) in zip(schemas, first) if end != "refused"
                     for seed in range(options.answers)]
            answers = list(pool.map(lambda task: ask(server, *task[1:]), tasks))
    finally:
        server.stop()
    counts["refused schemas"] = sum(end == "refused" for end, _ in first)
    for (name, schema, _), (end, text) in zip(tasks, answers):
        fate = judge(schema, end, text)
        counts[fate] += 1
        if fate == "valid":
            texts.add((name, text))
        elif fate in ("invalid", "failed"):
            print(f"{fate}: {name}: {json.dumps(schema)[:200]}: {text[:200]}")
    return counts, texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yoke")
    parser.add_argument("suite")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--answers", type=int, default=8, help="answers for each schema and model (8)")
    parser.add_argument("--at-least", type=int, default=1000, help="answers that must end by themselves (1000)")
    parser.add_argument("--calls", nargs="+", metavar="FORM", help="names of --tool-call-parser")
    options = parser.parse_args()
    schemas = list(read_schemas(options.suite))
    if options.calls:
        schemas = [(name, as_parameters(schema)) for name, schema in schemas if as_parameters(schema)]
    total, texts = collections.Counter(), set()
    with tempfile.TemporaryDirectory() as folder:
        models = options.models or [harness.DEMO]
        for name, shape in () if options.models else RANDOM_MODELS.items():
            models.append(os.path.join(folder, name))
            subprocess.run([sys.executable, MAKE_MODEL, *map(str, shape), "--tokenizer", harness.DEMO, "--out",
                            models[-1]], check=True)
        for model, form in ((model, form) for model in models for form in options.calls or [None]):
            counts, found = check_model(options, model, schemas, form)
            total += counts
            texts |= found
            print(f"{os.path.basename(model)}{f' as {form}' if form else ''}: {len(schemas)} schemas, " +
                  ", ".join(f"{count} {fate}" for fate, count in counts.most_common()), flush=True)
    n_ended = total["valid"] + total["invalid"]
    print(f"{n_ended} answers ended by themselves, {total['valid']} are valid, {len(texts)} of them different")
    return 1 if total["invalid"] or total["failed"] or n_ended < options.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
