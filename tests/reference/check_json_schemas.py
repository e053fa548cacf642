#!/usr/bin/env python3
"""Holds answers of a model at temperature 2 to the schemas of the public JSON Schema test suite, and validates them.

Run by hand, in a Python that has the package jsonschema. SUITE is the folder json/tests/draft2020-12 of that package's
source distribution. Prints how many schemas are refused, and how many answers ended by themselves and are valid; fails
if any of these is invalid.
"""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import jsonschema

from server_case import Server


def read_schemas(suite):
    """The schemas, each with its name."""
    for path in sorted(glob.glob(os.path.join(suite, "*.json"))):
        with open(path, encoding="utf-8") as file:
            for group in json.load(file):
                yield f"{os.path.basename(path)}: {group['description']}", group["schema"]


def request_answer(server, schema, seed):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yoke")
    parser.add_argument("model")
    parser.add_argument("suite")
    parser.add_argument("--answers", type=int, default=8, help="answers for each schema (8)")
    options = parser.parse_args()
    server = Server(options.yoke, model=options.model)
    counts = collections.Counter()
    try:
        server.wait_for()
        tasks = [(name, schema, seed) for name, schema in read_schemas(options.suite)
                 for seed in range(options.answers)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = pool.map(lambda task: request_answer(server, *task[1:]), tasks)
            for (name, schema, _), (end, text) in zip(tasks, answers):
                result = judge(schema, end, text)
                counts[result] += 1
                if result in ("invalid", "failed"):
                    print(f"{result}: {name}: {json.dumps(schema)[:200]}: {text[:200]}")
    finally:
        server.stop()
    print(f"{len({name for name, _, _ in tasks})} schemas, {len(tasks)} answers: " +
          ", ".join(f"{count} {result}" for result, count in counts.most_common()))
    return 1 if counts["invalid"] or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
