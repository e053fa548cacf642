"""Texts with marked characters: a mark, an otherwise unused character, follows each marked character.

A marked text is stored with its marks and behaves as the same text without marks: it has the same length and equals
the same texts. Slices, concatenations and other results keep the marks of the characters that they contain. Code that
bypasses these methods works on the text with its marks, so that no mark is lost.
"""

import functools
import re


class MarkedText(str):
    """A str with marks. marked_text_type makes a subclass for a given mark."""

    _mark = None
    _unit = None  # pattern of a character with its mark

    def _plain(self):
        return str.replace(self, self._mark, "")

    def _units(self):
        """The characters, each with its mark."""
        return self._unit.findall(str(self))

    def _made(self, text):
        """text as a marked text if it contains marks."""
        return type(self)(text) if self._mark in text else text

    def _cut(self, begin, end):
        return self._made("".join(self._units()[begin:end]))

    def _cut_parts(self, parts):
        """The parts, which are consecutive in the plain text, with their marks."""
        plain, units, at, found = self._plain(), self._units(), 0, []
        for part in parts:
            begin = plain.index(part, at)
            at = begin + len(part)
            found.append(self._made("".join(units[begin:at])))
        return found

    def _remade(self, text):
        """Returns a text derived from self. If its length is the same, characters keep their marks; else all are
        marked."""
        units = self._units()
        if len(units) == len(text):
            return self._made("".join(c + unit[1:] for c, unit in zip(text, units)))
        return self._made("".join(c + self._mark for c in text))

    def __len__(self):
        return str.__len__(self) - str.count(self, self._mark)

    def __repr__(self):
        shown = [repr(unit[0])[1:-1] + unit[1:] for unit in self._units()]
        quote = repr(self._plain())[0]
        for i, unit in enumerate(shown):
            if unit[0] in "'\"":  # repr of a quote character alone uses the other quotes
                shown[i] = "\\" * (unit[0] == quote) + unit
        return quote + "".join(shown) + quote

    def __hash__(self):
        return hash(self._plain())

    def __iter__(self):
        return (self._made(unit) for unit in self._units())

    def __getitem__(self, key):
        units = self._units()[key]
        return self._made(units if isinstance(units, str) else "".join(units))

    def __add__(self, other):
        return self._made(str.__add__(self, other))

    def __radd__(self, other):
        return self._made(str.__add__(other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, n):
        return self._made(str.__mul__(self, n))

    __rmul__ = __mul__

    def __mod__(self, values):
        return self._made(str.__mod__(self, values))

    def __rmod__(self, template):
        return self._made(str.__mod__(template, self))

    def format(self, *args, **kwargs):
        return self._made(str.format(self, *args, **kwargs))

    def join(self, parts):
        return self._made(str.join(self, parts))

    def strip(self, chars=None):
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars=None):
        plain = self._plain()
        return self._cut(len(plain) - len(plain.lstrip(plain_of(chars))), None)

    def rstrip(self, chars=None):
        return self._cut(0, len(self._plain().rstrip(plain_of(chars))))

    def removeprefix(self, prefix):
        return self._cut(len(prefix), None) if self.startswith(prefix) else self

    def removesuffix(self, suffix):
        return self._cut(0, len(self) - len(suffix)) if suffix and self.endswith(suffix) else self

    def replace(self, old, new, count=-1):
        if not old:
            return self._remade(self._plain().replace(plain_of(old), plain_of(new), count))
        return self._made(str.join(new, self.split(old, count)))

    def partition(self, sep):
        return tuple(self._cut_parts(self._plain().partition(plain_of(sep))))

    def rpartition(self, sep):
        return tuple(self._cut_parts(self._plain().rpartition(plain_of(sep))))


def plain_of(value):
    """The value without marks."""
    if isinstance(value, MarkedText):
        return value._plain()
    return tuple(map(plain_of, value)) if isinstance(value, tuple) else value


def cut_in_plain(name):
    """A method of str that returns a list of parts of the text."""
    method = getattr(str, name)

    @functools.wraps(method)
    def parts(self, *args, **kwargs):
        return self._cut_parts(method(self._plain(), *map(plain_of, args), **kwargs))

    return parts


def plain_method(name):
    """A method of str that returns a derived text (_remade), or no text."""
    method = getattr(str, name)

    @functools.wraps(method)
    def answer(self, *args, **kwargs):
        result = method(self._plain(), *map(plain_of, args), **kwargs)
        return self._remade(result) if isinstance(result, str) else result

    return answer


OWN = {"__new__", "__init__", "__getattribute__", "__class__", "__doc__", "__str__", "__format__",
       "__sizeof__", "__getnewargs__", "__init_subclass__", "__subclasshook__", "__setattr__", "__delattr__", "__dir__",
       "__reduce__", "__reduce_ex__", "__getstate__", "maketrans"}
for _name in ("split", "rsplit", "splitlines"):
    setattr(MarkedText, _name, cut_in_plain(_name))
for _name in set(dir(str)) - set(vars(MarkedText)) - OWN:
    setattr(MarkedText, _name, plain_method(_name))
for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(MarkedText, _name, plain_method(_name))


def marked_text_type(mark):
    return type("MarkedText", (MarkedText,), {"_mark": mark, "_unit": re.compile(f"(?s:.){mark}?")})


def with_marks(value, text_type):
    """A JSON value in which every str that contains marks is a marked text."""
    if isinstance(value, str):
        return text_type(value) if text_type._mark in value else value
    if isinstance(value, (list, tuple)):
        return [with_marks(item, text_type) for item in value]
    if isinstance(value, dict):
        return {with_marks(key, text_type): with_marks(item, text_type) for key, item in value.items()}
    return value
