"""Arguments of calls that are no JSON object: tags around texts, or keyword arguments of Python.

A structural tag contains them as {"type": "json_schema", "json_schema": SCHEMA, "style": STYLE}; expand replaces this
format by one that the parsers of runtime/openai/parse read back as a value of the schema, without a difference in white
space. Texts in tags are strings, or JSON that the parser recognises by the schema's types; a string that it would take
for a value of another type is excluded unless the schema permits this value too.
"""

import copy
import json
import re

import schema_check
from schema_check import Refused, below

IN_CALLS = "in calls of this model's form"
MAX_UNIONS = 8  # of a schema in another, as for the parser
SPACE = " \t\r\n"
NUMBERS = {"number", "integer"}
BOUNDS = schema_check.BY_TYPE["number"] | {"enum", "const"}
FIRST = {"number": "\\-0-9", "integer": "\\-0-9", "boolean": "tTfF", "object": "{", "array": "\\["}


class Style:
    def __init__(self, key, key_end, end, ends, gap="", pads=False, marks=False):
        self.key, self.key_end, self.end = key, key_end, end
        self.ends = ends    # texts that end a value for the parser
        self.gap = gap      # a regular expression of white space between tags
        self.pads = pads    # the value stands on separate lines
        self.marks = marks  # "true" or "false" after key_end shows whether the value is a string


STYLES = {
    "qwen_xml": Style("<parameter=", ">", "</parameter>\n", ("</parameter>", "<parameter=", "</function>"), pads=True),
    "minimax_xml": Style('<parameter name="', '">', "</parameter>\n", ("</parameter>",)),
    "glm_xml": Style("<arg_key>", "</arg_key>", "</arg_value>", ("</arg_value>",), gap="\\n?"),
    "dsml": Style('<｜DSML｜parameter name="', '" string="', "</｜DSML｜parameter>\n", ("</｜DSML｜parameter>",),
                  marks=True),
}


# ---- Formats ---------------------------------------------------------------------------------------------------------

def text(value):
    return {"type": "const_string", "value": value}


def regex(pattern):
    return {"type": "regex", "pattern": pattern}


def sequence(elements):
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def either(elements):
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}


def any_text(excluded, first=""):
    """Text without the excluded texts. first: characters, as in a class, with which it does not begin either."""
    listed = ", ".join(json.dumps(one) for one in excluded)
    rule = f"TagDispatch(loop_after_dispatch=false, excludes=({listed}))"
    if first:
        rule = f'"" | [^{first} \\t\\r\\n<] rest\nrest ::= {rule}'
    return {"type": "grammar", "grammar": f"root ::= {rule}"}


def without_tags(pattern):
    """The pattern with no "<" where it permits nearly every character."""
    def narrowed(found):
        one = found[0]
        if one == ".":
            return "[^<\\n\\r]"
        if one.startswith("[^"):
            return f"{one[:-1]}<]"
        return {"\\S": "[^\\s<]", "\\D": "[^\\d<]", "\\W": "[^\\w<]"}.get(one, one)

    return re.sub(r"\[(?:\\.|[^\]\\])*\]|\\.|\.", narrowed, pattern, flags=re.DOTALL)


def of_length(node):
    """A pattern for the bounds of a text's length, which does not begin with a line break."""
    least, most = int(node.get("minLength", 0)), node.get("maxLength")
    if most is not None and most < max(least, 1):
        return ""
    rest = f"[^<]{{{max(least - 1, 0)},{'' if most is None else int(most) - 1}}}"
    return f"[^<\\n]{rest}" if least > 0 else f"([^<\\n]{rest})?"


# ---- Schemas ---------------------------------------------------------------------------------------------------------

class Arguments:
    """The arguments of one function."""

    def __init__(self, schema, style):
        self.root, self.style = schema, STYLES.get(style)
        self.checked = copy.deepcopy(schema)
        schema_check.check(self.checked)

    def at(self, target):
        node = self.root
        for part in target[2:].split("/") if target != "#" else ():
            part = schema_check.unquoted(part).replace("~1", "/").replace("~0", "~")
            node = node[int(part) if isinstance(node, list) else part]
        return node

    def resolved(self, node, path=""):
        """The schema after references and lists of one schema."""
        for _ in range(MAX_UNIONS):
            if isinstance(node, dict) and "$ref" in node:
                node = self.at(node["$ref"])
            elif isinstance(node, dict) and len(node.get("allOf", ())) == 1 and "type" not in node:
                node = node["allOf"][0]
            else:
                return node
        raise Refused(f"{path}/$ref", "too many references to references")

    def part(self, node):
        """The format of JSON by a schema within the root."""
        if schema_check.has_reference(node):
            node = {**schema_check.moved(node), "$defs": {"root": schema_check.moved(self.root)}}
        return {"type": "json_schema", "json_schema": copy.deepcopy(node)}

    def branches(self, node, path, depth=MAX_UNIONS):
        """[(type, schema)] of the values that a schema permits; the type None is any."""
        node = self.resolved(node, path)
        if depth == 0:
            raise Refused(path, "nested too deeply")
        if node is True or not node:
            return [(None, {})]
        for union in ("anyOf", "oneOf"):
            if union in node:
                return [branch for one in node[union] for branch in self.branches(one, path, depth - 1)]
        if "enum" in node or "const" in node:
            values = node["enum"] if "enum" in node else [node["const"]]
            return [(type_of(value), {"const": value}) for value in values]
        types = node.get("type", sorted({kind for key, kind in schema_check.TYPE_OF.items() if key in node}))
        types = [types] if isinstance(types, str) else types
        return [(kind, {**node, "type": kind}) for kind in types] or [(None, {})]

    # ---- Texts in tags -----------------------------------------------------------------------------------------------

    def value(self, node, path):
        """The format of a value, and whether it must stand on separate lines."""
        branches = self.branches(node, path)
        types = {kind for kind, _ in branches}
        if None in types:
            return any_text(self.style.ends), False
        others = [(kind, schema) for kind, schema in branches if kind != "string"]
        strings = [schema for kind, schema in branches if kind == "string"]
        if not strings:
            return regex("true|false|True|False") if is_any_boolean(branches) else self.part(node), False
        unsafe = {kind for kind, schema in others if kind in ("object", "array") or (BOUNDS & set(schema))} - {"null"}
        formats, pads = [], False
        for schema in strings:
            if "const" in schema:
                self.check_text(schema["const"], types, others, path)
                formats.append(text(schema["const"]))
                pads |= schema["const"].startswith("\n")
            elif "pattern" in schema or {"minLength", "maxLength"} & set(schema):
                if unsafe:
                    raise Refused(path, f"a bounded string beside other bounded types is not supported {IN_CALLS}")
                pattern = without_tags(schema["pattern"]) if "pattern" in schema else of_length(schema)
                formats.append(regex(pattern) if pattern.strip("^$") else text(""))
                pads |= re.search(r"\\[nsSWD]|\[\^", schema.get("pattern", "")) is not None
            else:
                formats.append(any_text(self.style.ends, "".join(FIRST[kind] for kind in sorted(unsafe))))
        return either([*formats, *(self.part(schema) for _, schema in others)]), pads

    def check_text(self, string, types, others, path):
        """Refuses a listed text that the parser would read as another value."""
        kind = reads_as(string, types)
        if any(end in string for end in self.style.ends):
            raise Refused(path, f"the value {json.dumps(string)} contains a tag of calls")
        if kind == "string" or any(kind == other and "const" not in schema and not BOUNDS & set(schema)
                                   for other, schema in others):
            return
        if not any(schema.get("const", others) == json.loads(string.strip(SPACE).lower().replace("none", "null"))
                   for _, schema in others):
            raise Refused(path, f"the text {json.dumps(string)} beside other types is not supported {IN_CALLS}")

    def string(self, schema, path):
        """The format of a string whose type is marked."""
        if "const" in schema:
            if any(end in schema["const"] for end in self.style.ends):
                raise Refused(path, f"the value {json.dumps(schema['const'])} contains a tag of calls")
            return text(schema["const"])
        if "pattern" in schema or {"minLength", "maxLength"} & set(schema):
            pattern = without_tags(schema["pattern"]) if "pattern" in schema else of_length(schema)
            return regex(pattern) if pattern.strip("^$") else text("")
        return any_text(self.style.ends)

    def marked(self, node, path):
        """The format of a value after the mark of its type."""
        formats = []
        for kind, schema in self.branches(node, path):
            if kind in (None, "string"):
                formats.append(sequence([text('true">'), self.string(schema, path)]))
            if kind != "string":
                others = {"type": sorted(FIRST) + ["null"]} if kind is None else schema
                formats.append(sequence([text('false">'), self.part(others)]))
        return either(formats)

    def tagged(self, key, node, path):
        """key: a format."""
        style = self.style
        if style.marks:
            return sequence([text(style.key), key, text(style.key_end), self.marked(node, path), text(style.end)])
        value, pads = self.value(node, path)
        pads |= style.pads
        gap = [regex(style.gap)] if style.gap else []
        if style is STYLES["glm_xml"]:
            before = [*gap, text(style.key), key, text(style.key_end), *gap, text("<arg_value>")]
        else:
            before = [text(style.key), key, text(style.key_end)]
        line = [text("\n")] if pads else []
        return sequence([*before, *line, value, *line, text(style.end)])

    # ---- Arguments ---------------------------------------------------------------------------------------------------

    def properties(self):
        """(name, schema, whether it is required); None: names of every kind, by the schema that is returned."""
        root = self.resolved(self.root)
        if not isinstance(root, dict) or {"anyOf", "oneOf", "enum", "const"} & set(root) or root.get(
                "type", "object") != "object":
            raise Refused("", "the arguments of a function are expected to be an object")
        for keyword in ("patternProperties", "propertyNames"):
            if keyword in root:
                raise Refused(f"/{keyword}", f'"{keyword}" of arguments is not supported {IN_CALLS}')
        listed, required = root.get("properties"), root.get("required", [])
        others = root.get("additionalProperties", True)
        listed = {**(listed or {}), **{name: others for name in required if name not in (listed or {})}} \
            if listed is not None or required else None
        for keyword, is_given in (("minProperties", root.get("minProperties", 0) > len(required)),
                                  ("maxProperties", root.get("maxProperties", len(listed or ())) < len(listed or ()))):
            if is_given or (listed is None and keyword in root):
                raise Refused(f"/{keyword}", f'"{keyword}" of arguments is not supported {IN_CALLS}')
        if listed is None:
            return None, others
        return [(name, schema, name in required) for name, schema in listed.items()], None

    def in_tags(self):
        listed, others = self.properties()
        end = [regex(self.style.gap)] if self.style.gap else []
        if listed is None:
            name = regex("[A-Za-z_][A-Za-z0-9_.-]*")
            each = [] if others is False else [{"type": "star", "content": self.tagged(name, others, "")}]
            return sequence([*each, *end] or [text("")])
        elements = []
        for name, schema, is_required in listed:
            path = below("/properties", name)
            if not re.fullmatch(r"[^\s<>{}\"'=]+", name):
                raise Refused(path, f"the name is not supported {IN_CALLS}")
            element = self.tagged(text(name), schema, path)
            elements.append(element if is_required else {"type": "optional", "content": element})
        return sequence([*elements, *end] or [text("")])

    # ---- Python ------------------------------------------------------------------------------------------------------

    def keyword(self, name, node, before, path):
        """Values are JSON, which the parser reads too, except for separate Python words."""
        branches = self.branches(node, path)
        if is_any_boolean(branches):
            value = regex("True|False")
        elif {kind for kind, _ in branches} == {"null"}:
            value = text("None")
        else:
            value = self.part({} if node is True else node)
        return sequence([text(before), name, text("="), value] if before else [name, text("="), value])

    def in_python(self):
        listed, others = self.properties()
        if listed is None:
            name = regex("[A-Za-z_][A-Za-z0-9_]*")
            more = {"type": "star", "content": self.keyword(name, others, ", ", "")}
            return either([text(""), sequence([self.keyword(name, others, "", ""), more])] if others is not False
                          else [text("")])
        for name, _, _ in listed:
            check_word(name, below("/properties", name))
        beginnings = []
        for i, (first, schema, is_required) in enumerate(listed):
            elements = [self.keyword(text(first), schema, "", below("/properties", first))]
            for name, other, is_needed in listed[i + 1:]:
                element = self.keyword(text(name), other, ", ", below("/properties", name))
                elements.append(element if is_needed else {"type": "optional", "content": element})
            beginnings.append(sequence(elements))
            if is_required:
                return either(beginnings)
        return either([*beginnings, text("")])


def is_any_boolean(branches):
    return all(kind == "boolean" and "const" not in schema for kind, schema in branches)


def type_of(value):
    for kind in ("null", "boolean", "string", "integer", "number", "array", "object"):
        if schema_check.has_type(value, kind):
            return kind
    raise Refused("/const", "expected a value of JSON")


def reads_as(string, types):
    """The type that the parser sees in a text, as yk_typed_value_append does."""
    string = string.strip(SPACE)
    word = string.lower()
    if word in ("null", "none") and "null" in types:
        return "null"
    if word in ("true", "false") and "boolean" in types:
        return "boolean"
    try:
        kind = type_of(json.loads(string))
    except ValueError:
        kind = {"{": "object", "[": "array"}.get(string[:1], "string")
    if kind == "integer" and "number" in types:
        kind = "number"
    if kind == "number" and "number" not in types:
        kind = "integer" if re.fullmatch("-?[0-9]+", string) else "string"
    return kind if kind in types else "string"


def check_word(name, path):
    """Refuses a name that the parser does not read without quotes."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.$+-]{1,256}", name):
        raise Refused(path, f"the name is not supported {IN_CALLS}")


def listed(value):
    return value if isinstance(value, (dict, list)) else ()


# ---- Every style -----------------------------------------------------------------------------------------------------

def gemma_schema(schema):
    """Checks names, which are written without quotes, and writes bounds of lengths as patterns with line breaks."""
    if "\\u0000" in json.dumps(schema):
        raise Refused("", f"a NUL character is not supported {IN_CALLS}")
    todo = [(schema, "")]
    while todo:
        node, path = todo.pop()
        if isinstance(node, dict):
            for keyword in ("properties", "required"):
                for name in listed(node.get(keyword)):
                    check_word(name, below(f"{path}/{keyword}", name))
            for keyword in ("patternProperties", "propertyNames"):
                if keyword in node:
                    raise Refused(f"{path}/{keyword}", f'"{keyword}" is not supported {IN_CALLS}')
            bounds = {keyword: node.pop(keyword) for keyword in ("minLength", "maxLength")
                      if isinstance(node.get(keyword), int) and "pattern" not in node}
            if bounds:
                most = bounds.get("maxLength", "")
                node["pattern"] = f"^[\\s\\S]{{{bounds.get('minLength', 0)},{most}}}$"
            todo += [(member, below(path, key)) for key, member in node.items()]
        elif isinstance(node, list):
            todo += [(member, below(path, i)) for i, member in enumerate(node)]


def put_place(node, place):
    """The format, with the place of the arguments next to the schemas of their values."""
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        put_place(value, place)
    if isinstance(node, dict) and node.get("type") == "json_schema":
        node["place"] = place
    return node


def expand(node, path=""):
    """The format with arguments in the library's own formats; path: of the node. Raises Refused, with "place" of the
    node in its path, if the node has one."""
    if isinstance(node, list):
        return [expand(one, below(path, i)) for i, one in enumerate(node)]
    if not isinstance(node, dict):
        return node
    style = node.get("style") if node.get("type") == "json_schema" else None
    try:
        if style == "gemma":
            gemma_schema(node["json_schema"])
        if style in STYLES:
            return put_place(Arguments(node["json_schema"], style).in_tags(), node.get("place"))
        if style == "python":
            return put_place(Arguments(node["json_schema"], style).in_python(), node.get("place"))
    except Refused as error:
        place = node.get("place")
        place = place if isinstance(place, str) else below(path, "json_schema")
        raise Refused(place + error.path, error.reason) from None
    return {key: value if key == "json_schema" else expand(value, below(path, key)) for key, value in node.items()}
