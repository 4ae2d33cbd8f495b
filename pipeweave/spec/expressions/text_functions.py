"""The functions of expressions that read or make texts."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pipeweave.spec.expressions.arguments import list_of, part_of, text_of
from pipeweave.spec.expressions.arithmetic import bounded
from pipeweave.spec.expressions.bounds import MADE_PER_UNIT, MAX_NUMBER_CHARS
from pipeweave.spec.expressions.faults import Unfit
from pipeweave.spec.expressions.frame import Frame
from pipeweave.spec.expressions.values import (
    as_json,
    as_text,
    charge_json,
    charge_search,
    is_in,
    is_number,
    kind_name,
)

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def number(frame: Frame, value: Any) -> int | float:
    """The number that a text holds, as JSON writes it; a number is itself."""
    if is_number(value):
        return value  # type: ignore[no-any-return]
    written = text_of("number", value)
    if len(written) > MAX_NUMBER_CHARS or not _NUMBER.fullmatch(written):
        raise Unfit(f"number cannot read {written[:40]!r}")
    return bounded(json.loads(written))


def text(frame: Frame, value: Any) -> str:
    """A text as it is, any other value as JSON."""
    shown = as_json(frame, value)
    charge_json(frame, shown)
    return as_text(shown)


def lower(frame: Frame, value: Any) -> str:
    """The text in small letters."""
    _charge_letters(frame, text_of("lower", value))
    return str(value.lower())


def upper(frame: Frame, value: Any) -> str:
    """The text in capital letters."""
    _charge_letters(frame, text_of("upper", value))
    return str(value.upper())


def _charge_letters(frame: Frame, letters: str) -> None:
    # Python makes three characters of four bytes of each letter meanwhile, unless all are ASCII.
    frame.charge_made(len(letters) if letters.isascii() else len(letters) * 8)


def trim(frame: Frame, value: Any) -> str:
    """The text without white space around it."""
    frame.charge_made(len(text_of("trim", value)))
    return str(value.strip())


def split(frame: Frame, value: Any, separator: Any) -> list[str]:
    """The parts of a text between separators."""
    whole, mark = text_of("split", value), part_of("split", separator)
    charge_search(frame, whole, mark)
    frame.charge(whole.count(mark) + 1)
    frame.charge_made(len(whole))
    return whole.split(mark)


def join(frame: Frame, entries: Any, separator: Any = "") -> str:
    """The texts, numbers and truth values of a list as one text; null entries are left out."""
    listed, mark = list_of("join", entries), text_of("join", separator)
    frame.charge(len(listed))
    written = [_joinable(each) for each in listed if each is not None]
    frame.charge_made(sum(map(len, written)) + len(mark) * len(written))
    return mark.join(written)


def _joinable(value: Any) -> str:
    if isinstance(value, (str, bool)) or is_number(value):
        return as_text(value)
    raise Unfit(f"join cannot join {kind_name(value)}", "write text(…) around a time")


def replace(frame: Frame, value: Any, old: Any, new: Any) -> str:
    """The text with every `old` replaced by `new`."""
    whole, part, other = text_of("replace", value), part_of("replace", old), text_of("replace", new)
    charge_search(frame, whole, part)
    frame.charge_made(len(whole) + whole.count(part) * (len(other) - len(part)))
    return whole.replace(part, other)


def starts(frame: Frame, value: Any, prefix: Any) -> bool:
    """Whether a text begins with another one."""
    whole, part = text_of("starts", value), text_of("starts", prefix)
    frame.charge_read(len(part))
    return whole.startswith(part)


def ends(frame: Frame, value: Any, suffix: Any) -> bool:
    """Whether a text ends with another one."""
    whole, part = text_of("ends", value), text_of("ends", suffix)
    frame.charge_read(len(part))
    return whole.endswith(part)


def contains(frame: Frame, whole: Any, member: Any) -> bool:
    """`member in whole`."""
    return is_in(frame, member, whole)


def like(frame: Frame, value: Any, pattern: Any) -> bool:
    """Whether a whole text has the form of a pattern: `*` is any text, `?` one character."""
    whole, pieces = text_of("like", value), text_of("like", pattern).split("*")
    first, *rest = pieces
    if not rest:
        return len(whole) == len(first) and _fits(frame, whole, first, 0)
    last = rest.pop()
    end = len(whole) - len(last)
    if len(first) > end or not _fits(frame, whole, first, 0) or not _fits(frame, whole, last, end):
        return False
    place = len(first)
    # The first place at which a piece fits is as good as any later one.
    for piece in filter(None, rest):
        place = _place_of(frame, whole, piece, place, end)
        if place < 0:
            return False
        place += len(piece)
    return True


def _fits(frame: Frame, whole: str, piece: str, place: int) -> bool:
    parts = piece.split("?")
    # What the split takes, and what each part takes.
    frame.charge(len(piece) // MADE_PER_UNIT + 2 * len(parts) + 2)
    for part in parts:
        if not whole.startswith(part, place):
            return False
        place += len(part) + 1
    return len(whole) >= place - 1


def _place_of(frame: Frame, whole: str, piece: str, start: int, end: int) -> int:
    """The first place from `start` on where a piece fits and ends by `end`; -1 if there is none."""
    sure = max(piece.split("?"), key=len)
    ahead = piece.find(sure)
    if not sure:
        return start if start + len(piece) <= end else -1
    charge_search(frame, whole, sure)
    while (at := whole.find(sure, start + ahead, end)) >= 0:
        place = at - ahead
        if place + len(piece) > end:
            return -1
        if sure == piece or _fits(frame, whole, piece, place):
            return place
        start = place + 1
    return -1
