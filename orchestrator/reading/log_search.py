"""Looks for a text in the stored log of an attempt: the lines that have it, with their numbers.

The search is bounded in bytes and in time, so that a log of any size answers; the answer says how far it
came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pipeweave.orchestrator.domain.json_shapes import task_run_id
from pipeweave.orchestrator.kept import stored_logs
from pipeweave.orchestrator.kept.stored_logs import LogPlace
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.storage import Backends

# What one search reads, how long it looks, and the lines that it names.
MOST_BYTES = 50_000_000
MOST_SECONDS = 0.3
MOST_LINES = 1_000
# A longer line is looked at in pieces (bytes).
LONGEST_LINE = 1_000_000


def find_in_log(
    backends: Backends, place: LogPlace, text: str, *, clock: Callable[[], float] = time.monotonic
) -> Document:
    """The lines of a log that have a text, in whatever case: an answer like that of `read_log`, with
    `lineNumbers`, counted from 1. Call it without a connection.

    `isComplete` says whether all that is stored was searched, `nextOffset` how far the search came.

    Args:
        clock: seconds; it is looked at once for each line.

    Raises:
        Unavailable: storage cannot be reached.
    """
    until, wanted = clock() + MOST_SECONDS, text.casefold()
    lines: list[Document] = []
    numbers: list[int] = []
    number = used = 0
    with stored_logs.opened(backends, place, MOST_BYTES) as (pieces, size):
        for content in _lines(pieces):
            if len(numbers) == MOST_LINES or clock() > until:
                break
            used += len(content)
            if not content.strip():
                continue
            number += 1
            line = stored_logs.parsed_line(content.rstrip(b"\n"))
            if has_text(line, wanted):
                lines.append(line)
                numbers.append(number)
    return {
        "taskRunId": task_run_id(place.task_run_id),
        "attempt": place.attempt,
        "logs": lines,
        "lineNumbers": numbers,
        "isComplete": used >= size,
        "nextOffset": used,
    }


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The lines with their line feeds; the last one may have none."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (each + b"\n" for each in whole)
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def has_text(line: Document, wanted: str) -> bool:
    """Whether a value of a line has a text in small letters: what people look for is what they see of it."""
    return any(wanted in str(each).casefold() for each in line.values())
