"""The page as lines of Markdown, the files of bench/results, and the forms of figures in tables."""

import json
import os
import textwrap

MOST_COLUMNS = 120


class Results:
    """The files of a folder of results, and the names of those that were read."""

    def __init__(self, folder):
        self.folder = folder
        self.read = set()

    def load(self, name):
        """The object in the file. Marks the file as read."""
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            found = json.load(file)
        self.read.add(name)
        return found

    def measured(self, name):
        """load() for a file with figures. Raises ValueError if machine or commit is missing, unknown or dirty."""
        found = self.load(name)
        machine, commit = found.get("gpu") or found.get("cpu"), found.get("commit") or found.get("revision")
        if not machine or not commit or commit == "unknown" or "dirty" in commit:
            raise ValueError(f"{name}: no machine or no commit (found: {machine}, {commit})")
        return found

    def unread(self):
        """Files of the folder that no table reads."""
        return sorted(name for name in os.listdir(self.folder)
                      if name.endswith(".json") and name not in self.read)


class Page:
    """Lines of Markdown."""

    def __init__(self, title):
        self.lines = [f"# {title}", ""]

    def paragraph(self, text):
        self.lines += textwrap.wrap(text, MOST_COLUMNS, break_long_words=False, break_on_hyphens=False) + [""]

    def section(self, title, text):
        self.lines.append(f"## {title}")
        self.paragraph(text)

    def table(self, head, rows):
        """head: the columns' names; rows: lists of cells, None for a cell without a figure."""
        self.lines += [row_of(head), "|" + "---|" * len(head)]
        for row in rows:
            assert len(row) == len(head), (head, row)
            self.lines.append(row_of("-" if cell is None else str(cell) for cell in row))
        self.lines.append("")

    def text(self):
        return "\n".join(self.lines).rstrip("\n") + "\n"


def row_of(cells):
    return "| " + " | ".join(cells) + " |"


def number(value):
    """One decimal below 100, none above, thousands separated: 5.3, 88.9, 1,545. None stays None."""
    if value is None:
        return None
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def percent(share):
    return f"{100 * share:.0f} %"


def times(value):
    return f"{value:.2f}"


def one(found, **wanted):
    """The only object of a list whose fields have the wanted values, or None. Raises ValueError if there are
    several."""
    matches = [item for item in found if all(item.get(key) == value for key, value in wanted.items())]
    if len(matches) > 1:
        raise ValueError(f"{len(matches)} points with {wanted}")
    return matches[0] if matches else None


def field(found, key, **wanted):
    """A field of the only object with the wanted values, or None."""
    point = one(found, **wanted)
    return None if point is None else point.get(key)


def link(name, text="figures"):
    return f"[{text}](results/{name})"
