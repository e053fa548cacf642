"""Checks that the grammar library enforces everything that a JSON schema demands, and rewrites schemas that the library
interprets differently from the standard (draft 2020-12).

The library ignores some keywords, and others in certain combinations. Each such keyword is refused, so that every
constrained answer satisfies its schema. Rewriting may narrow a schema: a keyword of one type without "type" implies
that type.
"""

import math
import re

BY_TYPE = {
    "object": {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
               "minProperties", "maxProperties", "unevaluatedProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "unevaluatedItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
TYPE_OF = {keyword: name for name, keywords in BY_TYPE.items() for keyword in keywords}
TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
ALONE = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")  # next to one of these keywords, the library reads no
                                                              # other keyword
IGNORED = ("not", "uniqueItems", "contains", "minContains", "maxContains", "dependentRequired", "dependentSchemas",
           "dependencies", "if", "then", "else", "$dynamicRef", "$recursiveRef", "additionalItems", "extends",
           "disallow", "divisibleBy")
MOST_COUNT = 2 ** 31 - 1  # the library reads a larger count modulo 2 ** 32
MOST_BOUND = 2 ** 63 - 1
LEAST_BOUNDS, MOST_BOUNDS = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
EXTRA = ("additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames")


class Refused(Exception):
    """A place in the schema, as a JSON pointer, and the reason."""

    def __init__(self, path, reason):
        super().__init__(f"{path or '/'}: {reason}")
        self.path, self.reason = path, reason


def below(path, key):
    return f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"


def has_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool) or isinstance(value, float) and value.is_integer()
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, kinds[name])


class Check:
    def __init__(self, root):
        self.root = root
        self.seen = {}  # (node, path) by the node's id; the root keeps the nodes alive
        self.targets = {}  # of references, by the id of the node that refers
        self.todo = []

    def run(self):
        self.todo.append((self.root, "", False))
        while self.todo:
            self.node(*self.todo.pop())
        if self.targets:
            self.endless()

    def later(self, node, path, in_one_of=False, may_be_false=False):
        if node is False and may_be_false:
            return
        self.todo.append((node, path, in_one_of))

    def node(self, node, path, in_one_of):
        if in_one_of and (node is True or node == {}):
            raise Refused(path, 'a schema of any value in "oneOf" is not supported')
        if node is True:
            return
        if node is False:
            raise Refused(path, "false allows no value")
        if not isinstance(node, dict):
            raise Refused(path, "expected a schema, an object or true")
        if id(node) in self.seen:
            return
        self.seen[id(node)] = (node, path)
        for keyword in IGNORED:
            if keyword in node and not (keyword == "uniqueItems" and node[keyword] is False):
                raise Refused(below(path, keyword), f'"{keyword}" is not supported')
        if path and isinstance(node.get("$id"), str) and not node["$id"].startswith("#") and has_reference(node):
            raise Refused(below(path, "$id"), '"$id" below the root is not supported with "$ref"')
        alone = [keyword for keyword in ALONE if keyword in node]
        if alone:
            self.alone(node, path, alone)
        else:
            self.typed(node, path, in_one_of)

    def alone(self, node, path, alone):
        keyword = alone[0]
        beside = [key for key in node if key in TYPE_OF or key in alone[1:] or key == "type"]
        if keyword in ("const", "enum"):
            values = [node["const"]] if keyword == "const" else node["enum"]
            if not isinstance(values, list) or not values:
                raise Refused(below(path, keyword), "expected a list of at least one value")
            check_numbers(node[keyword], below(path, keyword))
            if "type" in beside and all(any(has_type(value, name) for name in self.types(node, path))
                                        for value in values):
                beside.remove("type")
        if beside:
            raise Refused(below(path, beside[0]), f'"{beside[0]}" beside "{keyword}" is not supported')
        if keyword == "$ref":
            self.reference(node, below(path, keyword))
        elif keyword in ("anyOf", "oneOf", "allOf"):
            branches = node[keyword]
            if not isinstance(branches, list) or not branches:
                raise Refused(below(path, keyword), "expected a list of at least one schema")
            if keyword == "allOf" and len(branches) > 1:
                raise Refused(below(path, keyword), '"allOf" of several schemas is not supported')
            for i, branch in enumerate(branches):
                self.later(branch, below(below(path, keyword), i), keyword == "oneOf")

    def reference(self, from_node, path):
        target = from_node["$ref"]
        if not isinstance(target, str) or (target != "#" and not target.startswith("#/")):
            raise Refused(path, '"$ref" is only supported within the schema: "#" or "#/..."')
        node = self.root
        for part in target[2:].split("/") if target != "#" else ():
            part = unquoted(part).replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(part)] if isinstance(node, list) else node[part]
            except (KeyError, IndexError, ValueError, TypeError):
                raise Refused(path, f"the schema has no {target}") from None
        self.targets[id(from_node)] = node
        self.later(node, target[1:])

    def endless(self):
        """Refuses references that each value would have to follow without end."""
        ending, n_before = set(), -1
        while n_before < len(ending):
            n_before = len(ending)
            ending.update(at for at, (node, _) in reversed(self.seen.items()) if at not in ending and all(
                any(not isinstance(one, dict) or id(one) in ending for one in choice) for choice in self.needs(node)))
        for at in self.targets:
            if at not in ending:
                raise Refused(below(self.seen[at][1], "$ref"), "every value would contain another one without end")

    def needs(self, node):
        """Lists of schemas; a value of the node contains a value of one schema of each list."""
        if "$ref" in node:
            return [[self.targets[id(node)]]]
        for keyword in ("anyOf", "oneOf", "allOf"):
            if keyword in node:
                return [node[keyword]]
        types = node["type"] if isinstance(node.get("type"), list) else [node.get("type")]
        if types == ["object"] and not {"const", "enum"} & set(node):
            return [[node["properties"][name]] for name in node.get("required", ())]
        if types == ["array"] and not {"const", "enum"} & set(node):
            items = [*node.get("prefixItems", ()), node.get("items", True)]
            return [[schema] for schema in items[:node.get("minItems", 0)]]
        return []

    def types(self, node, path):
        types = node["type"] if isinstance(node["type"], list) else [node["type"]]
        for name in types:
            if not isinstance(name, str) or name not in TYPES:
                raise Refused(below(path, "type"), f"expected one of {', '.join(sorted(TYPES))}, or a list of them")
        if not types:
            raise Refused(below(path, "type"), "expected at least one type")
        return types

    def typed(self, node, path, in_one_of):
        if "type" not in node:
            found = [keyword for keyword in node if keyword in TYPE_OF]
            kinds = {TYPE_OF[keyword] for keyword in found}
            if not kinds:
                return
            if len(kinds) > 1 or in_one_of:
                raise Refused(below(path, found[0]), f'"{found[0]}" is only supported with "type" beside it')
            node["type"] = kinds.pop()
        types = self.types(node, path)
        if "object" in types:
            self.object(node, path)
        if "array" in types:
            self.array(node, path)
        if "string" in types:
            self.string(node, path)
        if "number" in types or "integer" in types:
            self.number(node, path, types)

    def object(self, node, path):
        properties = node.get("properties", {})
        patterns = node.get("patternProperties", {})
        required = node.get("required", [])
        for keyword, schemas in (("properties", properties), ("patternProperties", patterns)):
            if not isinstance(schemas, dict):
                raise Refused(below(path, keyword), "expected an object of schemas")
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise Refused(below(path, "required"), "expected a list of names")
        rest = "additionalProperties"
        if rest not in node and "unevaluatedProperties" in node:
            rest = "unevaluatedProperties"
            node["additionalProperties"] = node.pop(rest)
        others = node.get("additionalProperties", True)
        extra = [keyword for keyword in EXTRA if node.get(keyword, False) is not False]
        for i, name in enumerate(required):
            if name in properties:
                continue
            if others is False or patterns or "propertyNames" in node:
                raise Refused(below(below(path, "required"), i), "expected a name of \"properties\"")
            properties = node["properties"] = {**properties, name: others}
        if "propertyNames" in node:
            self.property_names(node, path)
        self.pattern_properties(node, path, properties, patterns)
        self.counts(node, path, "minProperties", "maxProperties")
        if node.get("minProperties", 0) > len(set(required)) and (extra or not properties):
            raise Refused(below(path, "minProperties"),
                          '"minProperties" is only supported up to the number of required names')
        if node.get("maxProperties", MOST_COUNT) < len(set(required)):
            raise Refused(below(path, "maxProperties"), f"expected at least {len(set(required))}, the required names")
        for keyword, schemas in (("properties", properties), ("patternProperties", patterns)):
            for name, schema in schemas.items():
                self.later(schema, below(below(path, keyword), name))
        self.later(others, below(path, rest), may_be_false=True)

    def property_names(self, node, path):
        names = node["propertyNames"]
        for keyword in ("properties", "patternProperties"):
            if keyword in node:
                raise Refused(below(path, "propertyNames"), f'"propertyNames" beside "{keyword}" is not supported')
        if node.get("additionalProperties") is False:
            raise Refused(below(path, "propertyNames"),
                          '"propertyNames" beside "additionalProperties": false is not supported')
        if not isinstance(names, dict) or "$ref" in names:
            raise Refused(below(path, "propertyNames"), "expected an object without \"$ref\"")
        names.setdefault("type", "string")
        self.later(names, below(path, "propertyNames"))

    def pattern_properties(self, node, path, properties, patterns):
        place = below(path, "patternProperties")
        if len(patterns) > 1:
            raise Refused(place, "several patterns are not supported: a name may match more than one")
        if patterns and node.get("additionalProperties", False) is not False:
            raise Refused(place, '"patternProperties" beside "additionalProperties" is not supported')
        if patterns:
            node.pop("additionalProperties", None)
        for pattern in patterns:
            check_counts(pattern, below(place, pattern))
            if names_escaped(pattern):
                raise Refused(below(place, pattern), 'expected a pattern that names no control character, " or \\')
            try:
                clash = next((name for name in properties if re.search(pattern, name)), None)
            except re.error as error:
                raise Refused(below(place, pattern), f"not a regular expression: {error}") from None
            if clash is not None:
                raise Refused(below(place, pattern), f'the pattern matches the property "{clash}"')

    def array(self, node, path):
        items = node.get("items", True)
        prefix = node.get("prefixItems", [])
        if isinstance(items, list):
            raise Refused(below(path, "items"), 'expected a schema; the schemas of a tuple are "prefixItems"')
        if not isinstance(prefix, list):
            raise Refused(below(path, "prefixItems"), "expected a list of schemas")
        self.counts(node, path, "minItems", "maxItems")
        rest = "items"
        if "items" not in node and "unevaluatedItems" in node:
            rest = "unevaluatedItems"
            items = node["items"] = node.pop(rest)
        if prefix:
            node["prefixItems"] = [{} if schema is True else schema for schema in prefix]
        elif "minItems" in node and "items" not in node:
            items = node["items"] = {}
        if "items" not in node and node.get("minItems", 0) > len(prefix):
            items = node["items"] = {}
        if items is True and "items" in node:
            items = node["items"] = {}
        for i, schema in enumerate(node.get("prefixItems", [])):
            self.later(schema, below(below(path, "prefixItems"), i))
        self.later(items, below(path, rest), may_be_false=True)

    def string(self, node, path):
        bounds = [keyword for keyword in ("minLength", "maxLength") if keyword in node]
        if "pattern" in node and bounds:
            raise Refused(below(path, bounds[0]), f'"{bounds[0]}" beside "pattern" is not supported')
        if "pattern" in node and (not isinstance(node["pattern"], str) or names_escaped(node["pattern"])):
            raise Refused(below(path, "pattern"), 'expected a pattern that names no control character, " or \\')
        if "pattern" in node:
            check_counts(node["pattern"], below(path, "pattern"))
        if bounds:  # the library's own bounds admit control characters, which JSON does not
            self.counts(node, path, "minLength", "maxLength")
            node["pattern"] = f"^.{{{node.pop('minLength', 0)},{node.pop('maxLength', '')}}}$"
        if not isinstance(node.get("format", ""), str):
            raise Refused(below(path, "format"), "expected a string")
        if "format" in node and (bounds or "pattern" in node):
            del node["format"]  # an annotation, which the library would read instead

    def counts(self, node, path, *keywords):
        """Bounds of a number of items, members or characters."""
        for keyword in keywords:
            if keyword not in node:
                continue
            if not has_type(node[keyword], "integer") or not 0 <= node[keyword] <= MOST_COUNT:
                raise Refused(below(path, keyword), f"expected an integer from 0 to {MOST_COUNT}")
            node[keyword] = int(node[keyword])
        check_order(node, path, *keywords)

    def number(self, node, path, types):
        for keyword in (*LEAST_BOUNDS, *MOST_BOUNDS):
            if keyword in node and not is_finite(node[keyword]):
                raise Refused(below(path, keyword), "expected a number within the range of 64-bit floats")
        check_order(node, path, "minimum", "maximum")
        if "number" in types:
            self.real_bounds(node, path)
            if isinstance(node["type"], list):
                node["type"] = [name for name in types if name != "integer"]  # integers are numbers
        else:
            self.integer_bounds(node, path)
        if "multipleOf" not in node:
            return
        step = node["multipleOf"]
        bounds = [keyword for keyword in BY_TYPE["number"] if keyword in node and keyword != "multipleOf"]
        if "number" in types or bounds or not has_type(step, "integer") or not 0 < step <= 1024:
            raise Refused(below(path, "multipleOf"), '"multipleOf" is only supported for the type "integer", '
                          'up to 1024 and without bounds')

    def real_bounds(self, node, path):
        least = max(((node[keyword], keyword) for keyword in LEAST_BOUNDS if keyword in node), default=None,
                    key=lambda bound: (bound[0], bound[1] != "minimum"))
        most = min(((node[keyword], keyword) for keyword in MOST_BOUNDS if keyword in node), default=None)
        if least and most and (least[0] > most[0] or least[0] == most[0] and
                               (least[1], most[1]) != ("minimum", "maximum")):
            raise Refused(below(path, most[1]), f'no number is left beside "{least[1]}"')

    def integer_bounds(self, node, path):
        """Writes bounds of integers as integers within."""
        least = [(math.ceil(node["minimum"]), "minimum")] if "minimum" in node else []
        least += [(math.floor(node["exclusiveMinimum"]) + 1, "exclusiveMinimum")] if "exclusiveMinimum" in node else []
        most = [(math.floor(node["maximum"]), "maximum")] if "maximum" in node else []
        most += [(math.ceil(node["exclusiveMaximum"]) - 1, "exclusiveMaximum")] if "exclusiveMaximum" in node else []
        for bound, keyword in (*least, *most):
            if abs(bound) > MOST_BOUND:
                raise Refused(below(path, keyword), f"integers are only supported from -{MOST_BOUND} to {MOST_BOUND}")
        if least and most and max(least)[0] > min(most)[0]:
            raise Refused(below(path, min(most)[1]), f'no integer is left beside "{max(least)[1]}"')
        for name, bounds in (("minimum", [max(least)] if least else []), ("maximum", [min(most)] if most else [])):
            node.pop(f"exclusive{name.capitalize()}", None)
            node.update({name: bound for bound, _ in bounds})


def check_order(node, path, least, most):
    if has_type(node.get(least), "number") and has_type(node.get(most), "number") and node[most] < node[least]:
        raise Refused(below(path, most), f'expected at least "{least}"')


def is_finite(value):
    try:
        return has_type(value, "number") and math.isfinite(value)
    except OverflowError:  # an integer
        return False


def check_numbers(value, path):
    """Refuses listed numbers that the library reads as others."""
    if isinstance(value, (dict, list)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            check_numbers(one, below(path, key))
    elif isinstance(value, float) and not math.isfinite(value):
        raise Refused(path, "expected a number within the range of 64-bit floats")
    elif isinstance(value, int) and not -MOST_BOUND - 1 <= value <= MOST_BOUND:
        raise Refused(path, f"integers are only supported from {-MOST_BOUND - 1} to {MOST_BOUND}")


def check_counts(pattern, path):
    """Refuses counts of repetitions that the library cannot hold."""
    plain = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "", pattern, flags=re.DOTALL)
    for counts in re.findall(r"\{([0-9]*),?([0-9]*)\}", plain):
        for digits in counts:
            digits = digits.lstrip("0")
            if len(digits) > len(str(MOST_COUNT)) or int(digits or "0") > MOST_COUNT:
                raise Refused(path, f"expected at most {MOST_COUNT} repetitions")


def names_escaped(pattern):
    """Whether the pattern names a control character, a quote or a backslash outside negated classes. The library would
    write it as it is, without the escape of JSON."""
    positive = re.sub(r"\[\^(?:\\.|[^\]\\])*\]", "", pattern)
    return re.search(r'[\x00-\x1f"]|\\[tnrfv0\\c]|\\(x|u00)([01]|22|5[cC])', positive) is not None


def unquoted(text):
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda at: chr(int(at[1], 16)), text)


def has_reference(node):
    todo = [node]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if "$ref" in value:
                return True
            todo += value.values()
        elif isinstance(value, list):
            todo += value
    return False


def moved(node):
    """A schema for a place below the schema whose root is "#/$defs/root"."""
    if isinstance(node, dict):
        return {key: f"#/$defs/root{value[1:]}" if key == "$ref" and isinstance(value, str) else moved(value)
                for key, value in node.items()}
    return [moved(one) for one in node] if isinstance(node, list) else node


def parts(schema):
    """(schema, place) of the parts of a schema that only the library checks, inner parts first. Rewrites the schema."""
    checked = Check(schema)
    checked.run()
    for node, path in reversed(checked.seen.values()):
        if "pattern" in node:
            yield {"type": "string", "pattern": node["pattern"]}, below(path, "pattern")
        for pattern in node.get("patternProperties", ()):
            place = below(below(path, "patternProperties"), pattern)
            yield {"type": "object", "patternProperties": {pattern: True}}, place
        if "oneOf" in node:
            yield {"oneOf": moved(node["oneOf"]), "$defs": {"root": moved(schema)}}, below(path, "oneOf")


def check(schema):
    """Rewrites the schema in place. Raises Refused."""
    Check(schema).run()
