"""Renders chat templates for the process at the other end of descriptor 0, as the package `transformers` does.

Requests and answers are frames: four bytes of length, least significant first, then JSON. A request is one of
  {"load": {NAME: template}}
      answer: {"needs": {NAME: {"content": "strings", "lists" or "either", "content_null": bool,
                                "argument_strings": bool}}}
  {"render": NAME, "special_tokens": {}, "variables": {"messages": [], "others": {"tools", "documents", "arguments"}},
   "add_generation_prompt": bool, "continue_final_message": bool, "mark": character or null}
      answer: {"text": rendered}
After a failure the answer is {"refused": why} or {"unsupported": why} or {"memory": true}. Before the first request the
process loads everything that it will need into memory, and sandboxes itself.
"""

import codecs
import datetime
import functools
import json
import os
import re
import resource
import signal
import struct
import time

import marked_text
import syscall_filter

CONNECTION = 0
FINAL_TAG = "CONTINUE_FINAL_MESSAGE_TAG "  # same as in transformers: the space shows whether a template trims


class Closed(Exception):
    """The other end has closed the connection."""


def read_exactly(n):
    parts = []
    while n > 0:
        part = os.read(CONNECTION, min(n, 1 << 20))
        if not part:
            raise Closed
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def read_frame():
    return read_exactly(struct.unpack("<I", read_exactly(4))[0])


def write_answer(answer):
    data = json.dumps(answer, ensure_ascii=False).encode()
    data = memoryview(struct.pack("<I", len(data)) + data)
    while data:
        data = data[os.write(CONNECTION, data):]


def make_classes():
    """Returns jinja2 and environment classes; the installed jinja2 may be missing."""
    import jinja2
    import jinja2.constants  # jinja2 imports these only on use
    import jinja2.debug
    import jinja2.ext
    import jinja2.runtime
    import jinja2.sandbox
    import pprint  # noqa: F401
    for codec in ("ascii", "latin-1", "unicode-escape", "utf-8"):
        codecs.lookup(codec)

    class GenerationTag(jinja2.ext.Extension):
        """{% generation %} ... {% endgeneration %} encloses an assistant's text; a prompt ignores the tags."""

        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

        def _as_it_is(self, caller):
            return caller()

    class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
        def __init__(self):
            super().__init__(trim_blocks=True, lstrip_blocks=True,
                             extensions=[GenerationTag, jinja2.ext.loopcontrols])
            self.filters["tojson"] = tojson
            self.globals["raise_exception"] = raise_exception
            self.globals["strftime_now"] = strftime_now

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(form):
        return datetime.datetime.now().strftime(form)

    return jinja2, Environment, add_marks_to(jinja2, Environment)


def add_marks_to(jinja2, environment_class):
    """The environment for texts with marks: joins and filters of jinja2 return marked texts."""

    def filter_with_marks(environment, function):
        @functools.wraps(function)  # keeps the attribute for jinja2 to pass a context
        def filtered(*args, **kwargs):
            result = function(*args, **kwargs)
            return environment.marked(result) if type(result) is str else result

        return filtered

    def filter_of_plain(function):
        @functools.wraps(function)
        def filtered(*args, **kwargs):
            result = function(*map(marked_text.plain_of, args), **kwargs)
            texts = [arg for arg in args if isinstance(arg, marked_text.MarkedText)]
            return texts[0]._remade(result) if texts and isinstance(result, str) else result

        return filtered

    class MarkedEnvironment(environment_class):
        def __init__(self):
            super().__init__()
            self.text_type = None
            self.tojson = self.filters["tojson"]
            self.filters["tojson"] = self.tojson_with_marks
            self.filters["replace"] = lambda text, old, new, count=-1: text.replace(str(old), str(new), count)
            for name in ("title", "wordcount", "wordwrap", "striptags", "urlize"):  # these search for patterns
                self.filters[name] = filter_of_plain(self.filters[name])
            self.filters = {name: filter_with_marks(self, function) for name, function in self.filters.items()}
            jinja2.runtime.str_join = lambda parts: self.marked("".join(map(str, parts)))  # the operator ~

        def marked(self, text):
            return text if self.text_type is None else marked_text.with_marks(text, self.text_type)

        def concat(self, parts):
            return self.marked("".join(parts))

        def tojson_with_marks(self, value, ensure_ascii=False, **kwargs):
            mark = self.text_type._mark
            text = self.tojson(value, ensure_ascii, **kwargs)
            if ensure_ascii:
                escaped = json.dumps(mark)[1:-1]
                text = re.sub(r"\\\\|" + re.escape(escaped), lambda at: mark if at[0] == escaped else at[0], text)
            # The mark of an escaped character follows every character of the escape.
            return re.sub(r"(\\(?:u[0-9a-f]{4}|.))" + mark, lambda at: mark.join(at[1]) + mark, text)

    return MarkedEnvironment


class Needs:
    """Finds the forms that a template takes in its syntax tree."""

    def __init__(self, nodes, tree):
        self.nodes = nodes
        self.tree = tree

    def inner(self, node):
        """The operand of filters, slices, tests and "or" with a literal."""
        literals = (self.nodes.Const, self.nodes.Dict, self.nodes.List)
        while True:
            if isinstance(node, self.nodes.Or) and isinstance(node.right, literals):
                node = node.left
            elif isinstance(node, (self.nodes.Filter, self.nodes.Test)) or (
                    isinstance(node, self.nodes.Getitem) and isinstance(node.arg, self.nodes.Slice)):
                node = node.node
            else:
                return node

    def key_of(self, node):
        """Key and object of a node that takes a member of an object; else two None."""
        if isinstance(node, self.nodes.Getattr):
            return node.attr, node.node
        if isinstance(node, self.nodes.Getitem) and isinstance(node.arg, self.nodes.Const):
            return node.arg.value, node.node
        if isinstance(node, self.nodes.Call) and isinstance(node.node, self.nodes.Getattr) \
                and node.node.attr == "get" and node.args and isinstance(node.args[0], self.nodes.Const):
            return node.args[0].value, node.node.node
        return None, None

    def names_of(self, is_it, names):
        """The names, and names of variables that are assigned the same value."""
        for _ in range(3):
            for node in self.tree.find_all(self.nodes.Assign):
                if isinstance(node.target, self.nodes.Name) and is_it(node.node, names):
                    names.add(node.target.name)
        return names

    def is_named(self, node, names):
        node = self.inner(node)
        return isinstance(node, self.nodes.Name) and node.name in names

    def is_key(self, node, key, names):
        node = self.inner(node)
        return self.key_of(node)[0] == key or self.is_named(node, names)

    def names_for(self, key):
        """Names of variables with the value of a key, including the key's own name, which a macro may use."""
        return self.names_of(lambda node, names: self.is_key(node, key, names), {key})

    def loops_over(self, key):
        names = self.names_for(key)
        return any(self.is_key(node.iter, key, names) for node in self.tree.find_all(self.nodes.For))

    def loops_over_messages_content(self):
        """vLLM's test whether a template reads lists: a loop over the content of a message of a loop."""
        lists = self.names_of(self.is_named, {"messages"})
        loops = list(self.tree.find_all(self.nodes.For))
        messages = {node.target.name for node in loops
                    if isinstance(node.target, self.nodes.Name) and self.is_named(node.iter, lists)}

        def is_content(node, names):
            key, of = self.key_of(self.inner(node))
            return self.is_named(node, names) or (key == "content" and self.is_named(of, messages))

        contents = self.names_of(is_content, set())
        return any(is_content(node.iter, contents) for node in loops)

    def reads_a_part(self, key):
        """Whether the template reads the text of an element, by its index, of the key's value."""
        names = self.names_for(key)
        return any(self.key_of(node)[0] in ("text", "type") and isinstance(node.node, self.nodes.Getitem)
                   and isinstance(self.key_of(node.node)[0], int) and self.is_key(node.node.node, key, names)
                   for node in self.tree.find_all((self.nodes.Getattr, self.nodes.Getitem)))

    def tests(self, key, *tests):
        names = self.names_for(key)
        return any(node.name in tests and self.is_key(node.node, key, names)
                   for node in self.tree.find_all(self.nodes.Test))

    def compares_with_none(self, key):
        names = self.names_for(key)
        return any(isinstance(operand.expr, self.nodes.Const) and operand.expr.value is None
                   and self.is_key(node.expr, key, names)
                   for node in self.tree.find_all(self.nodes.Compare) for operand in node.ops)

    def content_form(self):
        distinguishes = self.tests("content", "string", "mapping", "iterable", "sequence")
        if self.loops_over_messages_content():
            return "either" if distinguishes else "lists"
        reads_lists = self.loops_over("content") or self.reads_a_part("content")
        return "lists" if reads_lists and not distinguishes else "strings"

    def filters(self, key, *filters):
        names = self.names_for(key)
        return any(node.name in filters and node.node is not None and self.is_key(node.node, key, names)
                   for node in self.tree.find_all(self.nodes.Filter))

    def writes_calls_whole(self):
        """Whether the template writes a call or its function as JSON, with the arguments in it."""
        lists = self.names_for("tool_calls")

        def is_call(node, names):
            key, of = self.key_of(self.inner(node))
            return self.is_named(node, names) or (key == "function" and self.is_named(of, names))

        for loop in self.tree.find_all(self.nodes.For):
            if isinstance(loop.target, self.nodes.Name) and self.is_key(loop.iter, "tool_calls", lists):
                names = self.names_of(is_call, {loop.target.name})
                if any(node.name == "tojson" and node.node is not None and is_call(node.node, names)
                       for node in loop.find_all(self.nodes.Filter)):
                    return True
        return self.filters("tool_calls", "tojson")

    def takes_objects(self, key):
        names = self.names_for(key)
        if self.tests(key, "string", "mapping"):
            return True  # accepts both
        filtered = self.filters(key, "tojson", "items", "dictsort")
        called = any(isinstance(node.node, self.nodes.Getattr) and self.is_key(node.node.node, key, names)
                     and node.node.attr in ("items", "keys", "values", "get")
                     for node in self.tree.find_all(self.nodes.Call))
        return filtered or called or self.loops_over(key)

    def takes_null_content(self):
        """A template that measures the length of content treats an empty text as none; null has no length."""
        distinguishes = self.tests("content", "none") or self.compares_with_none("content")
        return distinguishes and not self.filters("content", "length", "count")

    def found(self):
        return {"content": self.content_form(), "content_null": self.takes_null_content(),
                "argument_strings": not (self.takes_objects("arguments") or self.writes_calls_whole())}


def with_final_tag(messages):
    """The messages with the tag after the last message's text, and that text."""
    final = messages[-1]
    if isinstance(final["content"], list):
        *parts, last = final["content"]
        final_text, content = last["text"], [*parts, {**last, "text": last["text"] + FINAL_TAG}]
    else:
        final_text, content = final["content"], final["content"] + FINAL_TAG
    return [*messages[:-1], {**final, "content": content}], final_text


def cut_at_final_tag(text, final_text):
    """The text before the tag, which marks the end of the last message's content."""
    tag = FINAL_TAG.strip()
    if marked_text.plain_of(final_text.strip()) not in text or tag not in text:
        raise ValueError("continue_final_message: the final message does not appear in what the template makes of it")
    at = text.rindex(tag)
    return text[:at] if text[at:at + len(FINAL_TAG)] == FINAL_TAG else text[:at].rstrip()


def call_all(environment):
    """Call each filter and test once: some import a module on use, which a sandboxed process cannot."""
    for call, names in ((environment.call_filter, environment.filters), (environment.call_test, environment.tests)):
        for name in names:
            for value in ("a <b>c</b> %s", [1], {"a": 1}, 1):
                for arguments in ((), ("a",), (1,)):
                    try:
                        result = call(name, value, arguments)
                        if not isinstance(result, (str, bool, int, float)):
                            list(result)
                    except Exception:  # for an unsuitable value
                        continue


class Renderer:
    def __init__(self):
        self.jinja2, environment_class, marked_class = make_classes()
        self.environment, self.marked_environment = environment_class(), marked_class()
        call_all(self.environment)
        self.sources, self.templates = {}, {}

    def load(self, sources):
        trees = {name: self.environment.parse(source) for name, source in sources.items()}
        for name, source in sources.items():
            self.templates[name, False] = self.environment.from_string(source)
        self.sources = sources
        return {"needs": {name: Needs(self.jinja2.nodes, tree).found() for name, tree in trees.items()}}

    def template(self, name, marked):
        if (name, marked) not in self.templates:
            self.templates[name, marked] = self.marked_environment.from_string(self.sources[name])
        return self.templates[name, marked]

    def render(self, request):
        """A template that fails on a content that is null gets an empty text in its place."""
        messages = request["variables"]["messages"]
        try:
            return self.render_once(request)
        except (TypeError, self.jinja2.exceptions.UndefinedError) as error:
            if "None" not in str(error) or all(message["content"] is not None for message in messages):
                raise
        for message in messages:
            message["content"] = "" if message["content"] is None else message["content"]
        return self.render_once(request)

    def render_once(self, request):
        """Special tokens never have marks; texts of the conversation may."""
        plain = request["variables"]["messages"], request["variables"]["others"]
        text_type = marked_text.marked_text_type(request["mark"]) if request["mark"] else None
        messages, others = marked_text.with_marks(plain, text_type) if text_type else plain
        goes_on = request["continue_final_message"]
        messages, final = with_final_tag(messages) if goes_on else (messages, None)
        variables = {**request["special_tokens"], **(others["arguments"] or {}), "messages": messages,
                     "tools": others["tools"], "documents": others["documents"],
                     "add_generation_prompt": request["add_generation_prompt"]}
        self.marked_environment.text_type = text_type
        try:
            text = self.template(request["render"], text_type is not None).render(variables)
            return {"text": str(cut_at_final_tag(text, final) if goes_on else text)}
        finally:
            self.marked_environment.text_type = None

    def answer(self, frame):
        mark = None
        try:
            request = json.loads(frame)
            mark = request.get("mark")
            if "load" in request:
                return self.load(request["load"])
            return self.render(request)
        except MemoryError:
            return {"memory": True}
        except self.jinja2.exceptions.TemplateSyntaxError as error:
            refused = f"line {error.lineno}: {error.message}"
        except self.jinja2.exceptions.TemplateError as error:
            refused = str(error.message or type(error).__name__)
        except Exception as error:  # a template may raise any exception
            refused = f"{type(error).__name__}: {error}"
        return {"refused": str.replace(refused, mark, "") if mark else refused}  # errors may quote a marked text


def set_limits(memory_bytes):
    time.localtime()  # loads the time zone
    for what, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_NOFILE, 3), (resource.RLIMIT_FSIZE, 0),
                       (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))


def main(memory_bytes, time_limit_s, _argument):
    try:
        renderer = Renderer()
        set_limits(memory_bytes)
        syscall_filter.install()
    except ImportError as error:
        renderer, problem = None, f"the Python module {error.name} is missing (Debian: python3-{error.name})"
    except (syscall_filter.Unsupported, OSError, ValueError) as error:
        renderer, problem = None, f"the template helper cannot be locked up: {error}"
    while True:
        try:
            frame = read_frame()
        except Closed:
            return
        # The other end kills a process that takes too long; the timer ends this process if the other end is gone.
        signal.setitimer(signal.ITIMER_REAL, time_limit_s + 1)
        answer = renderer.answer(frame) if renderer else {"unsupported": problem}
        try:
            write_answer(answer)
        except (UnicodeEncodeError, MemoryError) as error:
            write_answer({"refused": f"{type(error).__name__}: {error}"[:200].encode("ascii", "replace").decode()})
        signal.setitimer(signal.ITIMER_REAL, 0)
