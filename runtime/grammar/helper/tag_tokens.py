"""Special tokens in structural tags. They have no text for the library, so that each tag, trigger or constant that
contains the name of one is matched by the token's id.
"""

import json
import os
import re

STRING_RULE = re.compile(r'TagDispatch\(\s*loop_after_dispatch=false,\s*excludes=\("<\|\\"\|>"\)\s*\)')
CLASS_OR_LITERAL = re.compile(r'\[(?:[^\]\\]|\\.)*\]|"((?:[^"\\]|\\.)*)"')
OWN_END = ("json_schema", "regex", "grammar", "const_string", "sequence", "or", "optional", "star", "plus")
GEMMA_MARK = '<|"|>'  # around the strings of the style "gemma"


def constant(text):
    return {"type": "const_string", "value": text}


def token(number):
    return {"type": "token", "token": number}


def sequence(elements):
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def has_own_end(node):
    """Whether the library permits the format without a tag's end after the format."""
    return node["type"] in OWN_END and all(map(has_own_end, node.get("elements", ()))) and (
        "content" not in node or has_own_end(node["content"]))


class Binder:
    def __init__(self, ids, grammar_of):
        """ids: of special tokens by name; grammar_of: the EBNF of a format."""
        self.ids = ids
        self.grammar_of = grammar_of
        names = "|".join(re.escape(name) for name in sorted(ids, key=len, reverse=True))
        self.names = re.compile(f"({names})") if names else None

    def parts(self, text):
        found = self.names.split(text) if self.names else [text]
        return [token(self.ids[part]) if part in self.ids else constant(part) for part in found if part]

    def is_plain(self, text):
        return not self.names or not self.names.search(text)

    def number(self, name):
        return self.ids.get(name, name) if isinstance(name, str) else name

    def bind(self, node):
        """The format with ids in place of names."""
        kind = node["type"]
        bound = {key: self.of_member(key, value) for key, value in node.items()}
        if kind == "const_string":
            return sequence(self.parts(node["value"])) if node["value"] else node
        if kind == "token":
            return {**node, "token": self.number(node["token"])}
        if kind == "json_schema":
            return self.json_schema(bound)
        if kind == "tag":
            return self.tag(bound)
        if kind == "triggered_tags":
            return self.triggered_tags(bound)
        return {**bound, "tags": list(map(self.tag, bound["tags"]))} if "tags" in bound else bound

    def of_member(self, key, value):
        if isinstance(value, dict) and key in ("content", "begin", "end"):
            return self.bind(value)
        if key == "elements":
            return [self.bind(element) for element in value]
        if key == "rules":
            return [[trigger, self.bind(rule)] for trigger, rule in value]
        if key == "tags":  # their beginnings may be triggers
            return [{name: self.of_member(name, part) for name, part in tag.items()} for tag in value]
        if key in ("trigger_tokens", "exclude_tokens"):
            return [self.number(name) for name in value]
        return value

    def json_schema(self, node):
        mark = node.pop("mark", GEMMA_MARK)
        if node.get("style") != "gemma" or (mark == GEMMA_MARK and self.is_plain(mark)):
            return node
        return {"type": "grammar", "grammar": self.with_mark(self.grammar_of(node), mark)}

    def with_mark(self, grammar, mark):
        """The EBNF of the style "gemma" with another mark, or its token. No string contains the mark's beginning."""
        first, second = mark[:2]
        text = f'[^{first}]* ("{first}"+ [^{first}{second}] [^{first}]*)*'
        marked = f" Token({self.ids[mark]}) " if mark in self.ids else f' "{mark}" '

        def literal(found):
            parts = (found[1] or "").split('<|\\"|>')
            return found[0] if len(parts) == 1 else marked.join(f'"{part}"' if part else "" for part in parts)

        grammar = STRING_RULE.sub(lambda _: text, grammar).replace("{0, -1}", "*")
        return CLASS_OR_LITERAL.sub(literal, grammar)

    def tag(self, node, trigger=""):
        """trigger: a name at the beginning, which the tag's own format then begins with as a token."""
        begin, end, before, behind = node["begin"], node["end"], [], []
        if trigger:
            begin, before = token(self.ids[trigger]), self.parts(begin[len(trigger):])
        elif isinstance(begin, str) and not self.is_plain(begin):
            begin, before = "", self.parts(begin)
        if isinstance(end, str) and not self.is_plain(end):
            *behind, end = self.parts(end)
            end = end if end["type"] == "token" else end["value"]
        elif isinstance(end, list) and not all(map(self.is_plain, end)):
            end, behind = "", [{"type": "or", "elements": [sequence(self.parts(text)) for text in end]}]
        return {**node, "begin": begin, "end": end, "content": sequence([*before, node["content"], *behind])}

    def joined(self, node):
        """The format with the tags of every list in one rule of the grammar: the library compiles the tokens after n
        alternatives in n rules in a time that grows faster than n."""
        if isinstance(node, list):
            return [self.joined(one) for one in node]
        if not isinstance(node, dict):
            return node
        node = {key: value if key == "json_schema" else self.joined(value) for key, value in node.items()}
        if node.get("type") == "tags_with_separator":
            node["tags"] = self.join(node["tags"])
        return node

    def join(self, tags):
        """One tag in place of several whose differing parts are text; else the same tags."""
        if len(tags) < 2 or not all(isinstance(tag[side], str) for tag in tags for side in ("begin", "end")):
            return tags
        begin = self.through_last_name(os.path.commonprefix([tag["begin"] for tag in tags]))
        rests = [tag["begin"][len(begin):] for tag in tags]
        end = tags[0]["end"]
        if not end or not all(rests) or not all(map(self.is_plain, rests)) or not all(
                tag["end"] == end and has_own_end(tag["content"]) for tag in tags):
            return tags
        alternatives = [{**tag, "begin": rest, "end": ""} for tag, rest in zip(tags, rests)]
        either = {"type": "triggered_tags", "triggers": sorted({rest[0] for rest in rests}), "tags": alternatives,
                  "at_least_one": True, "stop_after_first": True}
        return [{"type": "tag", "begin": begin, "content": either, "end": end}]

    def through_last_name(self, text):
        """The text without the part after its last name."""
        found = list(self.names.finditer(text)) if self.names else []
        return text[:found[-1].end()] if found else ""

    def trigger_of(self, text):
        found = self.names.match(text) if self.names and isinstance(text, str) else None
        return found[0] if found else ""

    def triggered_tags(self, node):
        """Tokens trigger where names did."""
        triggers = sorted({self.trigger_of(trigger) for trigger in node["triggers"]})
        tags = [self.tag(tag, self.trigger_of(tag["begin"]) if triggers != [""] else "") for tag in node["tags"]]
        if triggers == [""]:
            return {**node, "tags": tags}
        if "" in triggers:
            return self.mixed_tags(node, tags)
        bound = {key: value for key, value in node.items() if key in ("at_least_one", "stop_after_first")}
        return {"type": "token_triggered_tags", "trigger_tokens": [self.ids[name] for name in triggers], "tags": tags,
                **bound}

    def mixed_tags(self, node, tags):
        """Some triggers are tokens, others texts: text without any trigger, and tags, alternate."""
        texts = ", ".join(map(json.dumps, node["triggers"]))
        text = {"type": "grammar", "grammar": f"root ::= TagDispatch(loop_after_dispatch=false, excludes=({texts}))"}
        tag, least = {"type": "or", "elements": tags}, bool(node.get("at_least_one"))
        if node.get("stop_after_first"):
            return tag if least else sequence([text, {"type": "optional", "content": tag}])
        return sequence([*[tag] * least, {"type": "star", "content": sequence([text, tag])}, text])
