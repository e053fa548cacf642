"""Compiles grammars for the process at the other end of descriptor 0.

Requests and answers are frames: four bytes of length, least significant first, then JSON. A request is one of
  {"tokenizer": text, "special": {name: id}}   a tokenizer as the library serialises it, and its special tokens; answer:
                                  {"ready": true}
  {"kind": KIND, "text": text}    answer: {"compiled": text}, or {"refused": reason}, or {"memory": true}
KIND is "json_object" (no text), "json_schema", "regex", "choice" (a list of strings), "grammar" (EBNF whose first rule
is root) or "structural_tag".
"""

import copy
import json
import os
import re
import resource
import signal
import struct

import call_arguments
import grammar_library
import refusal
import schema_check
import syscall_filter
import tag_tokens

MAX_FRAME_BYTES = 64 << 20
MOST_SPACES = 20  # white space in a row: some models would otherwise write it for ever


class Closed(Exception):
    """The other end is gone."""


def read_exactly(n):
    parts = []
    while n > 0:
        part = os.read(0, min(n, 1 << 20))
        if not part:
            raise Closed
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def write_answer(answer):
    text = json.dumps(answer).encode()
    if len(text) > MAX_FRAME_BYTES:
        text = json.dumps({"refused": f"the compiled grammar is larger than {MAX_FRAME_BYTES} bytes"}).encode()
    left = memoryview(struct.pack("<I", len(text)) + text)
    while left:
        left = left[os.write(0, left):]


class Warnings:
    """The library's messages on descriptor 2: the parts of a grammar that it ignores."""

    def __init__(self):
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        os.dup2(writer, 2)
        os.close(writer)

    def take(self):
        """The first warning since the last call, or None."""
        text = b""
        try:
            while part := os.read(self.reader, 1 << 16):
                text += part
        except BlockingIOError:
            pass
        return text.decode("utf-8", "replace").split("\n")[0] if text else None


def quoted(choice):
    """A string of EBNF."""
    return '"' + "".join(f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else "\\" + c if c in '"\\' else c
                         for c in choice) + '"'


def schemas_of(value):
    """The JSON schemas within a structural tag, with their places: "place" next to a schema, else the path within the
    tag. Removes "place", and limits white space."""
    todo = [(value, "")]
    while todo:
        node, path = todo.pop()
        if isinstance(node, dict):
            place = node.pop("place", None) if "json_schema" in node else None
            if "json_schema" in node:
                node.setdefault("max_whitespace_cnt", MOST_SPACES)
            for key, member in node.items():
                if key == "json_schema":
                    yield member, place if isinstance(place, str) else f"{path}/{key}"
                else:
                    todo.append((member, f"{path}/{key}"))
        elif isinstance(node, list):
            todo += [(member, f"{path}/{i}") for i, member in enumerate(node)]


def check_grammar(text, path):
    """Checks the counts of a grammar outside its strings, character classes and comments."""
    schema_check.check_counts(re.sub(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#.*', "", text), path)


def check_triggers(node, path):
    """Checks that every trigger begins a tag, and every tag has one."""
    triggers, tags = node.get("triggers"), node.get("tags")
    if not isinstance(triggers, list) or not triggers or not all(isinstance(t, str) and t for t in triggers):
        raise schema_check.Refused(path, "expected a list of at least one string, none empty")
    begins = [tag.get("begin") for tag in tags if isinstance(tag, dict)] if isinstance(tags, list) else []
    if not all(isinstance(begin, str) for begin in begins):
        return  # the library refuses such tags
    for trigger in triggers:
        if not any(begin.startswith(trigger) for begin in begins):
            raise schema_check.Refused(path, f"no tag begins with {json.dumps(trigger)}")
    for begin in begins:
        if not begin.startswith(tuple(triggers)):
            raise schema_check.Refused(path, f"none is a beginning of the tag {json.dumps(begin)}")


def check_parts(node, path):
    """Checks the regular expressions, grammars and triggers of a structural tag."""
    if isinstance(node, dict):
        if node.get("type") == "triggered_tags":
            check_triggers(node, f"{path}/triggers")
        if node.get("type") == "regex" and isinstance(node.get("pattern"), str):
            schema_check.check_counts(node["pattern"], f"{path}/pattern")
        if node.get("type") == "grammar" and isinstance(node.get("grammar"), str):
            check_grammar(node["grammar"], f"{path}/grammar")
    for key, member in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        check_parts(member, schema_check.below(path, key))


def of_structures(tag):
    """The present form of a structural tag, from the older one with "structures" and "triggers"."""
    if not isinstance(tag, dict) or "structures" not in tag:
        return tag
    if not isinstance(tag["structures"], list) or not tag["structures"]:
        raise schema_check.Refused("/structures", "expected a list of at least one object")
    for i, item in enumerate(tag["structures"]):
        if not isinstance(item, dict) or not all(isinstance(item.get(name), str) for name in ("begin", "end")):
            raise schema_check.Refused(f"/structures/{i}", "expected an object with the strings \"begin\" and \"end\"")
    tags = [{"type": "tag", "begin": item["begin"], "end": item["end"],
             "content": {"type": "json_schema", "json_schema": item.get("schema", {"type": "object"})}}
            for item in tag["structures"]]
    check_triggers({"triggers": tag.get("triggers"), "tags": tags}, "/triggers")
    return {"type": "structural_tag",
            "format": {"type": "triggered_tags", "triggers": tag["triggers"], "tags": tags}}


def clients_path(path, tag):
    """The path in a client's structural tag of a path in the tag's present form."""
    if "structures" not in tag:
        return path
    return re.sub("^/format(/tags)?", lambda found: "/structures" if found[1] else "",
                  path.replace("/content/json_schema", "/schema", 1))


class Compiler:
    def __init__(self, library):
        self.library = library
        self.methods = {name: library.methods(name) for name in
                        ("TokenizerInfo", "GrammarCompiler", "CompiledGrammar", "Grammar")}
        self.warnings = Warnings()
        self.compiler = self.binder = None

    def set_tokenizer(self, text, special):
        self.binder = tag_tokens.Binder(special, self.grammar_of)
        tokenizer = self.library.call(self.methods["TokenizerInfo"]["deserialize_json"], text)
        self.compiler = self.library.call(self.methods["GrammarCompiler"]["__ffi_init__"], tokenizer, 1, False, -1,
                                          False)
        self.library.release(tokenizer)
        return {"ready": True}

    def grammar_of(self, node):
        """The EBNF of a format."""
        tag = json.dumps({"type": "structural_tag", "format": node})
        grammar = self.library.call(self.methods["Grammar"]["from_structural_tag"], tag)
        text = self.library.call(self.methods["Grammar"]["to_string"], grammar)
        self.library.release(grammar)
        try:
            return self.library.text(text)
        finally:
            self.library.release(text)

    def schema(self, schema):
        schema_check.check(schema)
        return "compile_json_schema", (json.dumps(schema), True, None, None, True, MOST_SPACES, False)

    def choice(self, choices):
        if not isinstance(choices, list) or not choices or not all(isinstance(c, str) and c for c in choices):
            raise schema_check.Refused("", "expected a list of at least one string, none empty")
        return "compile_grammar_from_strings", ("root ::= " + " | ".join(map(quoted, choices)), "root")

    def structural_tag(self, tag):
        clients_tag, tag = tag, call_arguments.expand(of_structures(tag))
        for schema, path in schemas_of(tag):
            try:
                schema_check.check(schema)
            except schema_check.Refused as error:
                raise schema_check.Refused(clients_path(path, clients_tag) + error.path, error.reason) from None
        check_parts(tag, "")
        if isinstance(tag, dict) and "format" in tag:
            tag = {**tag, "format": self.bound(tag["format"], joins=True)}
        return "compile_structural_tag", (json.dumps(tag),)

    def bound(self, node, joins=False):
        try:
            return self.binder.bind(self.binder.joined(node) if joins else node)
        except (KeyError, TypeError, AttributeError, ValueError):
            return node  # the library refuses it, with the reason

    def method_of(self, kind, text):
        """The compiler's method and its arguments."""
        if kind == "json_object":
            return self.schema({"type": "object"})
        if kind == "json_schema":
            return self.schema(json.loads(text))
        if kind == "choice":
            return self.choice(json.loads(text))
        if kind == "structural_tag":
            return self.structural_tag(json.loads(text))
        if "\0" in text:
            raise schema_check.Refused("", "a NUL character")
        if kind == "regex":
            schema_check.check_counts(text, "")
            return "compile_regex", (text,)
        check_grammar(text, "")
        return "compile_grammar_from_strings", (text, "root")

    def refusal_of(self, method, text):
        """The library's message about a text, or None."""
        arguments = {"from_json_schema": (text, True, None, None, True, MOST_SPACES, False, False)}.get(method, (text,))
        self.warnings.take()
        try:
            self.library.release(self.library.call(self.methods["Grammar"][method], *arguments))
        except grammar_library.Refused as error:
            return str(error)
        return self.warnings.take()

    def place(self, kind, text):
        """(place, message) of the part that the library refuses, or None if the search finds none."""
        search = refusal.Search(self.refusal_of)
        if kind == "json_schema":
            return search.in_schema(json.loads(text))
        if kind != "structural_tag":
            return None
        tag = of_structures(json.loads(text))
        schemas = schemas_of(copy.deepcopy(tag))
        found = search.in_tag(tag, schemas, lambda node: self.bound(call_arguments.expand(copy.deepcopy(node))))
        return found and (clients_path(found[0], json.loads(text)), found[1])

    def refuse(self, kind, text, message):
        found = self.place(kind, text)
        place, message = found or ("", message)
        words = refusal.reason(message, kind == "grammar" or place.endswith("/grammar"))
        return {"refused": f"{place}: {words}" if place else words}

    def compile(self, kind, text):
        method, arguments = self.method_of(kind, text)
        self.warnings.take()
        try:
            grammar = self.library.call(self.methods["GrammarCompiler"][method], self.compiler, *arguments)
        except grammar_library.Refused as error:
            if "bad_alloc" in str(error):
                raise MemoryError from None
            return self.refuse(kind, text, str(error))
        ignored = self.warnings.take()
        try:
            if ignored:
                return self.refuse(kind, text, ignored)
            compiled = self.library.call(self.methods["CompiledGrammar"]["serialize_json"], grammar)
        finally:
            self.library.release(grammar)
        text = self.library.text(compiled)
        self.library.release(compiled)
        return {"compiled": text}

    def answer(self, frame):
        try:
            request = json.loads(frame)
            if "tokenizer" in request:
                return self.set_tokenizer(request["tokenizer"], request["special"])
            return self.compile(request["kind"], request["text"])
        except MemoryError:
            return {"memory": True}
        except RecursionError:
            return {"refused": "nested too deeply"}
        except json.JSONDecodeError as error:
            return {"refused": f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"}
        except grammar_library.Refused as error:
            text = str(error)
            return {"memory": True} if "bad_alloc" in text else {"refused": refusal.plain(text)}
        except Exception as error:  # a schema may be anything
            return {"refused": f"{type(error).__name__}: {error}" if not isinstance(error, schema_check.Refused)
                    else str(error)}


def set_limits(memory_bytes):
    for what, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_NOFILE, 4), (resource.RLIMIT_FSIZE, 0),
                       (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))


def main(memory_bytes, time_limit_s, argument):
    compiler, problem = None, None
    try:
        compiler = Compiler(grammar_library.Library(*argument.split("\n")))
        set_limits(memory_bytes)
        syscall_filter.install()
    except (grammar_library.Refused, syscall_filter.Unsupported, OSError, ValueError, KeyError) as error:
        compiler, problem = None, f"the grammar helper cannot start: {error}"
    while True:
        try:
            frame = read_exactly(struct.unpack("<I", read_exactly(4))[0])
        except Closed:
            return
        # The other end kills a process that takes too long; the timer ends this process if the other end is gone.
        signal.setitimer(signal.ITIMER_REAL, time_limit_s + 1)
        answer = compiler.answer(frame) if compiler else {"unsupported": problem}
        try:
            write_answer(answer)
        except MemoryError:
            write_answer({"memory": True})
        signal.setitimer(signal.ITIMER_REAL, 0)
