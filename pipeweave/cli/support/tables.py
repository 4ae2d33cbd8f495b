"""Lay out tables: fit the columns of a table into the width of a terminal.

No id, name or number is ever cut. What is too wide gives way in this order: texts continue on further lines,
times are written shorter, columns are left out as they say, and at last each row becomes a block of lines.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

GAP = "  "
# Texts become this narrow before columns are left out, and this narrow before rows become blocks.
COMFORTABLE, NARROW = 24, 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and how it gives way where a terminal is too narrow.

    Args:
        name: its heading.
        wraps: whether its texts may continue on further lines, at spaces.
        breaks: whether they may continue anywhere; not for what people copy.
        drop: 0 for a column that is never left out; the column with the highest number is left out first.
        short: writes a text of the column in fewer letters; used before columns are left out.
    """

    name: str
    wraps: bool = False
    breaks: bool = False
    drop: int = 0
    short: Callable[[str], str] | None = None

    def heading(self, *, is_short: bool) -> str:
        """The heading, in capitals as everywhere."""
        return (self.name.replace("(UTC)", "UTC") if is_short and self.short else self.name).upper()


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a table is printed.

    Args:
        shown: indexes of the columns that are shown.
        widths: letters of each shown column.
        is_short: whether times are written shorter.
    """

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    is_short: bool


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> TableLayout | None:
    """Choose what to show of a table in a terminal of `width` letters; None: print each row as a block."""
    shown = tuple(range(len(columns)))
    full = _natural(columns, rows, is_short=False)
    short = _natural(columns, shortened(columns, rows), is_short=True)
    if fitted := _fit(columns, full, shown, width, COMFORTABLE):
        return TableLayout(shown, fitted, is_short=False)
    for least in (COMFORTABLE, NARROW):
        for kept in _kept(columns):
            if fitted := _fit(columns, short, kept, width, least):
                return TableLayout(kept, fitted, is_short=True)
    return None


def shortened(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows with each text as short as its column writes it."""
    return [
        [column.short(cell) if column.short else cell for column, cell in zip(columns, row, strict=True)]
        for row in rows
    ]


def fold(text: str, width: int, *, breaks: bool = False) -> list[str]:
    """Break a text at spaces into lines of at most `width` letters; a longer word has a line to itself.

    Args:
        breaks: longer words are broken, too.
    """
    words = text.split(" ")
    if breaks:
        words = [word[at : at + width] for word in words for at in range(0, max(len(word), 1), width)]
    lines: list[str] = []
    for word in words:
        if lines and letters(lines[-1]) + 1 + letters(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def letters(text: str) -> int:
    """The number of columns that a text takes on a terminal: East Asian letters take two."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _natural(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, is_short: bool
) -> list[tuple[int, int]]:
    """For each column the width of its widest cell, and of its widest word."""
    widths = []
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows]
        heading = column.heading(is_short=is_short)
        widest = max(map(letters, [heading, *cells]))
        words = max((letters(word) for cell in cells for word in cell.split(" ")), default=0)
        words = NARROW if column.breaks else words
        widths.append((widest, max(words, letters(heading))))
    return widths


def _kept(columns: Sequence[Column]) -> list[tuple[int, ...]]:
    """All columns, then without the first to go, and so on."""
    order = sorted({column.drop for column in columns if column.drop}, reverse=True)
    return [
        tuple(index for index, column in enumerate(columns) if column.drop < limit or not column.drop)
        for limit in [(order[0] if order else 0) + 1, *order]
    ]


def _fit(
    columns: Sequence[Column],
    natural: Sequence[tuple[int, int]],
    kept: Sequence[int],
    width: int,
    least: int,
) -> tuple[int, ...] | None:
    """The widths of these columns, texts no narrower than `least`; None when they do not fit."""
    room = width - len(GAP) * (len(kept) - 1) - sum(natural[i][0] for i in kept if not columns[i].wraps)
    texts = [index for index in kept if columns[index].wraps]
    lowest = {index: min(natural[index][0], max(least, natural[index][1])) for index in texts}
    spare = room - sum(lowest.values())
    if spare < 0:
        return None
    for index in texts:
        more = min(spare, natural[index][0] - lowest[index])
        lowest[index] += more
        spare -= more
    return tuple(lowest.get(index, natural[index][0]) for index in kept)
