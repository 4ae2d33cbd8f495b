"""Cut an expression into tokens: numbers, texts, words, signs, and the segments of paths.

Tokens are read one at a time, because a template holds an expression in the middle of a text and only the
parser knows where it ends. Each regular expression here takes time in proportion to what it matches.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from pipeweave.size_limits import MAX_REFERENCE_CHARS
from pipeweave.spec.expressions.bounds import MAX_CHARS, MAX_PARTS
from pipeweave.spec.expressions.faults import BadExpression
from pipeweave.spec.expressions.tree import NAME, Each, Segment

NUMBER, TEXT, WORD, SIGN, END = "number", "text", "word", "sign", "end"

_INT64: Final = 1 << 63
_DOUBLE = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_SINGLE = r"'[^'\\]*(?:\\.[^'\\]*)*'"
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_]))
    |(?P<text>{_DOUBLE}|{_SINGLE})
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>\$\{{|\?\?|&&|\|\||==|!=|<=|>=|[-+*/%<>!?:()\[\],}}])
    )""",
    re.VERBOSE | re.DOTALL,
)
_SEGMENT = re.compile(
    rf"(\?)?\.({NAME})|(\?\.)?\[(?:(-?[0-9]{{1,9}})|({_DOUBLE}|{_SINGLE})|(\*))\]",
    re.DOTALL,
)
_SLICE = re.compile(r"[^\]'\"?:]*:[^\]'\"?]*")
_IN_BRACKETS: Final = 'write [0], [-1], ["any key"] or [*]'
_SPACE = re.compile(r"\s*")
_IN_SINGLE = re.compile(r"\\.|\"", re.DOTALL)


class Tokens:
    """The tokens of an expression, with the present one.

    Args:
        text: a text that holds the expression.
        start: where the expression begins in it.

    Attributes:
        kind, value: of the present token; END after the last one.
        start, end: where the present token lies in the text.
    """

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self._limit = min(len(text), start + MAX_CHARS)
        self._parts = 0
        self.kind = END
        self.value = ""
        self.start = self.end = start
        self.advance()

    @property
    def column(self) -> int:
        """Of the present token, 1-based."""
        return self.start + 1

    def advance(self) -> None:
        """Go to the next token. Raises BadExpression if there is none that could be read."""
        match = _TOKEN.match(self.text, self.end, self._limit)
        if match is None:
            self._without_match()
            return
        kind = match.lastgroup or END
        self.kind = kind
        self.value = match.group(kind)
        self.start, self.end = match.span(kind)
        self._count()

    def _without_match(self) -> None:
        space = _SPACE.match(self.text, self.end, self._limit)
        start = space.end() if space else self.end
        if start == self._limit < len(self.text):
            raise _too_long(start + 1)
        if start < self._limit:
            raise self._unreadable(start)
        self.kind, self.value, self.start, self.end = END, "", start, start

    def _unreadable(self, start: int) -> BadExpression:
        letter = self.text[start]
        if letter in "\"'":
            if self._limit < len(self.text):
                return _too_long(start + 1)
            return BadExpression("a text is not closed", start + 1, "unclosed_text")
        if letter.isdigit():
            return BadExpression("a number is not one of JSON: write it as 12, 1.5 or 1e3", start + 1)
        hint = {"=": ": write == to compare", "&": ": write &&", "|": ": write ||"}.get(letter, "")
        return BadExpression(f"unexpected {letter!r}{hint}", start + 1)

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise BadExpression(f"has more than {MAX_PARTS} parts", self.column, "too_many_parts")

    def is_sign(self, *signs: str) -> bool:
        """Whether the present token is one of these signs."""
        return self.kind == SIGN and self.value in signs

    def is_before_parenthesis(self) -> bool:
        """Whether a `(` follows the present token."""
        space = _SPACE.match(self.text, self.end, self._limit)
        return space is not None and self.text.startswith("(", space.end())

    def segments(self, begin: int) -> tuple[Segment, ...]:
        """Read the segments right behind the present token, and go to the token after them.

        Args:
            begin: where the whole path begins.
        """
        segments = []
        while match := _SEGMENT.match(self.text, self.end, self._limit):
            segments.append(self._segment(match))
            self.end = match.end()
            self._count()
        if self.end - begin > MAX_REFERENCE_CHARS:
            raise BadExpression(
                f"a path is longer than {MAX_REFERENCE_CHARS} characters", begin + 1, "too_long"
            )
        if self.text.startswith(("[", ".", "?."), self.end):
            raise self._bad_segment()
        self.advance()
        return tuple(segments)

    def _segment(self, match: re.Match[str]) -> Segment:
        optional, name, optional_index, index, key, _ = match.groups()
        if name is not None:
            return Segment(name, optional is not None)
        is_optional = optional_index is not None
        if index is not None:
            return Segment(int(index), is_optional)
        if key is not None:
            return Segment(decoded(key, match.start(5) + 1), is_optional)
        return Segment(Each.ELEMENT, is_optional)

    def _bad_segment(self) -> BadExpression:
        column = self.end + 1
        if self.text.startswith("[", self.end):
            return BadExpression(f"{_IN_BRACKETS}; {self._instead()}", column, "bad_path")
        return BadExpression(
            'a name must follow the dot; write ["any key"] for other names', column, "bad_path"
        )

    def _instead(self) -> str:
        """What to do in place of a part that is computed, or of several parts of a list."""
        end = self.text.find("]", self.end, self._limit)
        if _SLICE.fullmatch(self.text, self.end + 1, max(end, self.end + 1)):
            return "a list is not cut into slices: let a task do that"
        return "a place or key is not computed: map over the list, or let a task pick the part"


def _too_long(column: int) -> BadExpression:
    return BadExpression(f"is longer than {MAX_CHARS} characters", column, "too_long")


def decoded(quoted: str, column: int) -> str:
    """The text that stands in quotes. Raises BadExpression if an escape is none of JSON."""
    if quoted[0] == "'":
        quoted = f'"{_IN_SINGLE.sub(_in_double, quoted[1:-1])}"'
    try:
        text = str(json.loads(quoted))
        text.encode()
    except ValueError:
        raise BadExpression(
            "is not a JSON string: escape \\ as \\\\, a line end as \\n", column, "bad_text"
        ) from None
    return text


def _in_double(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])


def number_of(written: str, column: int) -> int | float:
    """The number that a token stands for. Raises BadExpression if it needs more than 64 bits."""
    value: Any = json.loads(written) if len(written) <= MAX_PARTS else math.inf
    if not (value < _INT64 if isinstance(value, int) else math.isfinite(value)):
        raise BadExpression("a number is larger than 64 bits hold", column, "bad_number")
    return value  # type: ignore[no-any-return]
