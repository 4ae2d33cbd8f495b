"""Writes the items of a map as two short texts: their statuses, and how long each took among all. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipeweave.orchestrator.domain.states import TaskStatus

# A letter for each status.
LETTERS = {
    TaskStatus.PENDING: "p",
    TaskStatus.READY: "r",
    TaskStatus.QUEUED: "q",
    TaskStatus.RUNNING: "R",
    TaskStatus.WAITING: "w",
    TaskStatus.COMPLETED: "c",
    TaskStatus.FAILED: "f",
    TaskStatus.TIMEOUT: "t",
    TaskStatus.CANCELLED: "x",
    TaskStatus.SKIPPED: "s",
}
# How long an item took is one of so many levels, each a printable letter that JSON writes as it is: those
# from FIRST on, without the backslash. An item that has not ended is a space.
LEVELS = 91
FIRST, NONE = "#", " "
_ALIKE = re.compile(r"(.)\1+")


def run_lengths(letters: str) -> str:
    """`cccfcc` as `c3fc2`."""
    return _ALIKE.sub(lambda match: f"{match[1]}{len(match[0])}", letters)


def level_letters() -> str:
    """The letters of the levels, from the quickest to the slowest."""
    letters = (chr(ord(FIRST) + place) for place in range(LEVELS + 1))
    return "".join(each for each in letters if each != "\\")


def ranges(indexes: Iterable[int], most: int) -> list[list[int]]:
    """Indexes in their order as closed ranges, the first `most`."""
    closed_ranges: list[list[int]] = []
    for each in indexes:
        if closed_ranges and closed_ranges[-1][1] == each - 1:
            closed_ranges[-1][1] = each
        elif len(closed_ranges) == most:
            break
        else:
            closed_ranges.append([each, each])
    return closed_ranges
