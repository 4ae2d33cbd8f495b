"""Lays SQL out for reading: a clause a line, brackets that are too wide for a line indented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

WIDTH = 110
INDENT = 4

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[:\w.$*%]+|[(),;]|[^\s\w'(),;]+)")
# Words that begin a line, longest first.
_CLAUSES = tuple(
    tuple(each.split())
    for each in (
        "FOR NO KEY UPDATE",
        "FOR KEY SHARE",
        "FOR UPDATE",
        "DO UPDATE SET",
        "ON CONFLICT",
        "CROSS JOIN",
        "LEFT JOIN",
        "UNION ALL",
        "UNION",
        "JOIN",
        "GROUP BY",
        "ORDER BY",
        "INSERT INTO",
        "DELETE FROM",
        "WITH RECURSIVE",
        "WITH",
        "SELECT",
        "UPDATE",
        "SET",
        "FROM",
        "WHERE",
        "VALUES",
        "LIMIT",
        "RETURNING",
        "WHEN",
        "ELSE",
    )
)
# The second word of each pair goes on with the first.
_NOT_ALONE = {
    *(("FOR", "UPDATE"), ("KEY", "UPDATE"), ("DO", "UPDATE"), ("UPDATE", "SET"), ("DELETE", "FROM")),
    *(("DISTINCT", "FROM"), ("VALUES", "FROM"), ("FOR", "VALUES"), ("LEFT", "JOIN"), ("CROSS", "JOIN")),
}
_CLOSING = {"(": ")", "CASE": "END"}
# Before these a line that is too long may break.
_BREAKS = {"AND", "OR", "THEN"}


@dataclass(frozen=True, slots=True)
class _Bracket:
    """What stands between brackets, or between CASE and END."""

    opening: str
    inside: tuple[_Part, ...]
    closing: str


@dataclass(frozen=True, slots=True)
class _Part:
    """A word or a bracket, and whether a space stands before it."""

    content: str | _Bracket
    has_space: bool

    @property
    def word(self) -> str:
        return self.content if isinstance(self.content, str) else ""


def laid_out(sql: str) -> str:
    """The statement in lines of at most WIDTH columns, as far as its words allow."""
    parts = _parts(_words(sql))
    if len(line := _flat(parts)) <= WIDTH:
        return line
    writer = _Writer()
    writer.clauses(parts, 0)
    return "\n".join(line.rstrip() for line in writer.lines)


def _words(sql: str) -> Iterator[tuple[str, bool]]:
    for match in _TOKEN.finditer(sql):
        yield match[1], match.start(1) > match.start(0)


def _parts(words: Iterator[tuple[str, bool]], closing: str = "") -> tuple[_Part, ...]:
    """The words up to the closing one, each bracket among them as one part."""
    found: list[_Part] = []
    for word, has_space in words:
        if word == closing:
            break
        end = _CLOSING.get(word)
        content = word if end is None else _Bracket(word, _parts(words, end), end)
        found.append(_Part(content, has_space and bool(found)))
    return tuple(found)


def _flat(parts: Sequence[_Part]) -> str:
    text = ""
    for part in parts:
        shown = part.content if isinstance(part.content, str) else _flat_bracket(part.content)
        text += f" {shown}" if part.has_space else shown
    return text


def _flat_bracket(bracket: _Bracket) -> str:
    space = "" if bracket.opening == "(" else " "
    return f"{bracket.opening}{space}{_flat(bracket.inside)}{space}{bracket.closing}"


class _Writer:
    """Fills lines."""

    def __init__(self) -> None:
        self.lines = [""]

    def clauses(self, parts: Sequence[_Part], indent: int) -> None:
        """Write parts from the present line on, each clause on a line of its own."""
        for clause in _split(parts, _begins_clause):
            if self.lines[-1].strip():
                self.lines.append("")
            if not self.lines[-1]:
                self.lines[-1] = " " * indent
            self._fill(clause, indent)

    def _fill(self, clause: Sequence[_Part], indent: int) -> None:
        is_list = not _begins_clause((_NOTHING, *clause), 1)
        for number, piece in enumerate(_split(clause, _begins_piece)):
            line = self.lines[-1]
            below = " " * (indent + (0 if is_list else INDENT))
            needed = len(_flat(piece)) + 1
            # Wide common table expressions follow each other without a line of their own.
            is_dense = line.strip() in {")", "),"} and len(below) + needed > WIDTH
            if number and len(line) + needed > WIDTH and not is_dense:
                self.lines.append(below)
            self._piece(piece)

    def _piece(self, piece: Sequence[_Part]) -> None:
        line = self.lines[-1]
        indent = len(line) - len(line.lstrip())
        for place, part in enumerate(piece):
            space = " " if part.has_space and self.lines[-1].strip() else ""
            if isinstance(part.content, str):
                self.lines[-1] += space + part.content
            elif not part.content.inside or self._fits(space, _to_next_bracket(piece, place)):
                self.lines[-1] += space + _flat_bracket(part.content)
            else:
                self.lines[-1] += space + part.content.opening
                self.lines.append(" " * (indent + INDENT))
                self.clauses(part.content.inside, indent + INDENT)
                self.lines.append(" " * indent + part.content.closing)

    def _fits(self, space: str, parts: Sequence[_Part]) -> bool:
        return len(self.lines[-1]) + len(space) + len(_flat(parts)) <= WIDTH


_NOTHING = _Part("", has_space=False)


def _to_next_bracket(parts: Sequence[_Part], place: int) -> Sequence[_Part]:
    """A bracket and the words behind it, up to the next bracket that can be broken."""
    for end in range(place + 1, len(parts)):
        content = parts[end].content
        if isinstance(content, _Bracket) and content.inside:
            return parts[place:end]
    return parts[place:]


def _split(
    parts: Sequence[_Part], begins: Callable[[Sequence[_Part], int], bool]
) -> Iterator[Sequence[_Part]]:
    start = 0
    for place in range(1, len(parts)):
        if begins(parts, place):
            yield parts[start:place]
            start = place
    yield parts[start:]


def _begins_clause(parts: Sequence[_Part], place: int) -> bool:
    words = tuple(part.word for part in parts[place : place + 4])
    before = parts[place - 1].word
    is_inside = (before, words[0]) in _NOT_ALONE or words[:2] == ("WITH", "ORDINALITY")
    return not is_inside and any(words[: len(clause)] == clause for clause in _CLAUSES)


def _begins_piece(parts: Sequence[_Part], place: int) -> bool:
    if parts[place - 1].word == ",":
        return True
    return parts[place].word in _BREAKS and not _is_between(parts, place)


def _is_between(parts: Sequence[_Part], place: int) -> bool:
    """Whether the AND at this place belongs to a BETWEEN."""
    before = [part.word for part in parts[:place]]
    last_and = max((number for number, word in enumerate(before) if word == "AND"), default=-1)
    return "BETWEEN" in before[last_and + 1 :]
