"""Shared by tests of constrained output: constraints drawn at random, each with a check of its answers, and constraints
that no server can compile at once.
"""

import json
import re

BOOLEAN = {"type": "boolean"}


def schema_format(schema):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": schema}}}


def nested(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


# Requests that are answered or refused within the limits: many properties, a long array, deep nesting, regular
# expressions of exponential size and of exponential time, a megabyte of schema, and rules that branch everywhere.
BOMBS = (schema_format({"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5000)}}),
         schema_format({"type": "array", "items": BOOLEAN, "maxItems": 10 ** 6}), schema_format(nested(50)),
         schema_format(nested(400)),
         {"guided_regex": "((a{1,300}){1,300}){1,300}"}, {"guided_regex": "(a+)+b"},
         {"guided_regex": "(a|a|aa)*(a|aa|aaa)*(a?){60}b"},
         {"guided_grammar": "root ::= a a a a a a a a\na ::= b b | b\nb ::= root | \"x\" | b"},
         schema_format({"enum": ["x" * 1000 + str(i) for i in range(1000)]}))
COMPLAINT = "too complex|nested|expected"  # of their refusals


def draw_schema(random, depth=2):
    kind = random.choice(("enum", "integer", "boolean", "string", "object", "array") if depth else ("enum", "boolean"))
    if kind == "enum":
        return {"enum": [f"{random.randrange(1000)}-{i}" for i in range(random.randint(1, 4))]}
    if kind == "integer":
        least = random.randrange(-50, 50)
        return {"type": "integer", "minimum": least, "maximum": least + random.randrange(100)}
    if kind == "string":
        return {"type": "string", "maxLength": random.randint(0, 8)}
    if kind == "array":
        return {"type": "array", "items": draw_schema(random, depth - 1), "maxItems": random.randint(1, 3)}
    if kind == "object":
        names = [f"{random.choice('abc')}{random.randrange(100)}-{i}" for i in range(random.randint(1, 3))]
        return {"type": "object", "properties": {name: draw_schema(random, depth - 1) for name in names},
                "required": names[:2], "additionalProperties": False}
    return BOOLEAN


def satisfies(value, schema):
    """Whether a value satisfies a schema of draw_schema."""
    if "enum" in schema:
        return value in schema["enum"]
    if schema["type"] == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if schema["type"] == "string":
        return isinstance(value, str) and len(value) <= schema["maxLength"]
    if schema["type"] == "array":
        return isinstance(value, list) and len(value) <= schema["maxItems"] and all(
            satisfies(item, schema["items"]) for item in value)
    if schema["type"] == "object":
        return isinstance(value, dict) and set(schema["required"]) <= set(value) <= set(schema["properties"]) and all(
            satisfies(item, schema["properties"][name]) for name, item in value.items())
    return isinstance(value, bool)


def matches(pattern):
    return lambda text: re.compile(pattern).fullmatch(text) is not None


def draw_constraint(random):
    """Fields of a request, and a check of a whole answer's text."""
    schema, number = draw_schema(random), random.randrange(1000)
    words = [f"word {number + i}" for i in range(random.randint(1, 5))]
    return random.choice((
        (schema_format(schema), lambda text: satisfies(json.loads(text), schema)),
        ({"structured_outputs": {"json": schema}}, lambda text: satisfies(json.loads(text), schema)),
        ({"guided_regex": f"[ab]{{3}}-{number}[xy]?"}, matches(f"[ab]{{3}}-{number}[xy]?")),
        ({"structured_outputs": {"choice": words}}, lambda text: text in words),
        ({"guided_grammar": f'root ::= "{number}" root | "."'}, matches(f"({number})*[.]")),
        ({"structured_outputs": {"structural_tag": {"type": "structural_tag", "format": {
            "type": "tag", "begin": f"<{number}>", "end": "</>",
            "content": {"type": "json_schema", "json_schema": BOOLEAN}}}}}, matches(f"<{number}>(true|false)</>"))))
