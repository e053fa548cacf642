"""The message of a refusal by the library: its reason, and the place of the part that it refuses.

The library's own messages name no place in a schema or a structural tag. The search compiles each part separately,
inner parts first, for at most SEARCH_S.
"""

import json
import re
import time

import call_arguments
import schema_check
from schema_check import below

SEARCH_S = 0.5
PATTERNS = ((r"Invalid structural tag error: (.*)", r"\1"),
            (r"Regex parsing (?:error|warning) at position (\d+): (.*)",
             r"not a supported regular expression at position \1: \2"),
            (r"(Lookahead assertion|Anchor|Lookbehind).*", r"not a supported regular expression: \g<0>"),
            (r"oneOf with overlapping .*", '"oneOf" is only supported with branches that exclude each other'))
NEEDS_TOKENS = "tokenizer_info"  # the name of a token, which only a compiler can look up
EBNF = r"EBNF (?:parser|lexer) error at (line \d+, column \d+): (.*)"


def plain(text):
    """The library's message without its place in the library's source."""
    text = re.sub(r"^\[[^]]*\] \S+:\d+: ", "", text)
    return re.sub(r"^(Warning: |Check failed: .*? is false: )", "", text).strip().rstrip(".")


def reason(text, is_grammar):
    """is_grammar: the client wrote the EBNF in which the library names a place."""
    text = plain(text)
    for pattern, words in (*PATTERNS, (EBNF, r"not a supported grammar at \1: \2" if is_grammar else
                                       r"not a supported regular expression: \2")):
        text, n = re.subn(pattern, words, text, count=1, flags=re.DOTALL)
        if n:
            break
    return text or "not supported"


def formats_of(node, path):
    """(format, path) of the formats of a structural tag, inner ones first."""
    for key, member in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key != "json_schema":
            yield from formats_of(member, below(path, key))
    if isinstance(node, dict) and "type" in node:
        yield node, path


class Search:
    def __init__(self, refusal_of):
        """refusal_of: (a method of the library's grammars, its text) -> the library's message, or None."""
        self.refusal_of = refusal_of
        self.end = time.monotonic() + SEARCH_S

    def refused(self, method, value):
        return self.refusal_of(method, json.dumps(value)) if time.monotonic() < self.end else None

    def in_schema(self, schema, path=""):
        """(place, message), or None."""
        for part, place in schema_check.parts(schema):
            text = self.refused("from_json_schema", part)
            if text:
                return path + place, text
        return None

    def in_format(self, node, path, expand):
        text = self.refused("from_structural_tag", {"type": "structural_tag", "format": expand(node)})
        if not text or NEEDS_TOKENS in text:
            return None
        key = {"regex": "pattern", "grammar": "grammar", "json_schema": "json_schema"}.get(node["type"])
        return below(path, key) if key in node else path, text

    def in_tag(self, tag, schemas, expand):
        """schemas: (schema, path) of those in the tag. expand: a format -> one that the library knows."""
        for schema, path in schemas:
            found = self.in_schema(schema, path)
            if found:
                return found
        for node, path in formats_of(tag.get("format"), "/format"):
            found = self.in_format(node, path, expand)
            if found:
                return found
        return None
