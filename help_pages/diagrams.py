"""Shows a diagram as the table of its arrows, which can be read on any screen and searched.

The pages have their diagrams in the language of Mermaid, which hosts of repositories draw. Its script would
come from another host; docs/decisions/0116-pages-of-help.md says what else was tried.
"""

from __future__ import annotations

import re

_DIAGRAM = re.compile(r"^```mermaid\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
_ARROW = re.compile(
    r"^ +(?P<before>\S.*?) *(?:-->|->>|-\.->)(?:\|(?P<on>[^|]+)\|)? *(?P<after>[^:]+?)(?:: (?P<what>.+))?$"
)
_NAMED = re.compile(
    r'^ +(?:participant (?P<key>\w+) as (?P<name>.+)|state "(?P<text>.+)" as (?P<state>\w+))$'
)
# `api[api<br>Flask]`, `pg[(PostgreSQL)]`, `cli["commands"]`: a key, and the words in its box.
_BOX = re.compile(r'^(\w+)[\[({"]+(.*?)[\])}"]+$')
_BEGIN_AND_END = "[*]"


def as_tables(markdown: str) -> str:
    """The text of a page with a table in the place of each diagram."""
    return _DIAGRAM.sub(lambda found: _table(found["lines"].splitlines()), markdown)


def _table(lines: list[str]) -> str:
    arrows, names = _read(lines)
    if not arrows:
        raise ValueError(f"no arrow is understood in a diagram that begins with {lines[0]}")
    if any(what for _, _, what in arrows):
        rows = [(_shown(before, names), _shown(after, names), what) for before, after, what in arrows]
        return "\n".join(
            ["| from | to | what |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
        )
    following: dict[str, list[str]] = {}
    for before, after, _ in arrows:
        to = "the end" if after == _BEGIN_AND_END else _shown(after, names)
        following.setdefault(_shown(before, names), []).append(to)
    rows_of_all = (f"| {before} | {', '.join(each)} |" for before, each in following.items())
    return "\n".join(["| from | to |", "|---|---|", *rows_of_all])


def _read(lines: list[str]) -> tuple[list[tuple[str, str, str]], dict[str, str]]:
    """The arrows, as keys of places and words, and the name of each place that has one beside its key."""
    arrows, names = [], {}
    for line in lines:
        if named := _NAMED.match(line):
            names[named["key"] or named["state"]] = named["name"] or named["text"]
        elif arrow := _ARROW.match(line):
            before, after = _place(arrow["before"], names), _place(arrow["after"], names)
            arrows.append((before, after, arrow["on"] or arrow["what"] or ""))
    return arrows, names


def _place(text: str, names: dict[str, str]) -> str:
    box = _BOX.match(text)
    if box is None:
        return text
    first, _, rest = box[2].partition("<br>")
    names[box[1]] = f"{first} ({rest})" if rest else first
    return box[1]


def _shown(key: str, names: dict[str, str]) -> str:
    return "the beginning" if key == _BEGIN_AND_END else names.get(key, key)
