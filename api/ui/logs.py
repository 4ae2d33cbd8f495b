"""The log of an attempt as a page shows it: numbered lines with levels, and terminal colours as classes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from pipeweave.api.ui.view import View
from pipeweave.errors import NotFound, Unavailable
from pipeweave.orchestrator.domain import stored_lines

# Lines that a page holds; scripts load the others.
LINES_SHOWN = 500
# Last lines that are shown beside an error.
LINES_AT_AN_END = 6
# Members that a line shows elsewhere, or that only serve machines.
_OWN = frozenset(
    (
        *(
            "time",
            "timestamp",
            "level",
            "message",
            "logger",
            "exception",
            "exception_type",
            "runId",
            "run_id",
        ),
        *("task_run_id", "trace_id", "tenant", "step_id", "task_id", "pipeline_id", "attempt", "map_index"),
    )
)
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|.)?")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line.

    Args:
        number: its place in the log, from 1.
        more: members beside the message, as JSON; empty without any.
    """

    number: int
    time: str | None
    level: str
    message: Markup
    more: str
    exception: str


@dataclass(frozen=True, slots=True)
class ShownLog:
    """A part of a log.

    Args:
        hits: the numbers of the lines that have the text that is looked for; None: none is.
        count: how many lines are known.
    """

    task_run: Mapping[str, Any]
    attempt: int
    attempts: Sequence[int]
    lines: Sequence[LogLine]
    count: int
    is_complete: bool
    next_offset: int
    first: int
    hits: Sequence[int] | None = None
    unavailable: str = ""

    @property
    def url(self) -> str:
        """The endpoint that tells it."""
        return f"/api/task-runs/{self.task_run['id']}/logs?attempt={self.attempt}"


def of_task_run(view: View, task_run: Mapping[str, Any]) -> ShownLog:
    """The part of the log of a task run's attempt that the address asks for; the end of it at first."""
    attempts = sorted({*(each["number"] for each in task_run["attempts"]), task_run["attempt"]})
    text = view.parameters.get("attempt", "")
    attempt = int(text) if text.isdigit() and text.isascii() and len(text) < 8 else task_run["attempt"]
    find = view.parameters.get("find", "")[:200]
    try:
        query = {"attempt": str(attempt), "find": find or None}
        part = view.ask("runs.task_run_logs", query, id=task_run["id"])
    except (NotFound, Unavailable) as error:
        return ShownLog(task_run, attempt, attempts, (), 0, True, 0, 1, None, str(error.detail))
    numbers = part["lineNumbers"] or range(1, len(part["logs"]) + 1)
    numbered = list(zip(numbers, part["logs"], strict=True))
    level = view.parameters.get("level", "")
    if level in stored_lines.LEVELS:
        numbered = [each for each in numbered if stored_lines.is_at_least(each[1], level)]
    begin = _begin(view, len(numbered))
    shown = [shown_line(number, line) for number, line in numbered[begin : begin + LINES_SHOWN]]
    return ShownLog(
        task_run,
        attempt,
        attempts,
        shown,
        len(numbered),
        part["isComplete"],
        part["nextOffset"],
        begin + 1,
        part["lineNumbers"],
    )


def tail_of(view: View, task_run: Mapping[str, Any], lines: int = LINES_AT_AN_END) -> list[LogLine]:
    """The last lines of the log of a task run's attempt, of some seconds ago; none where it has no log."""
    query = {"attempt": str(task_run["attempt"]), "tail": str(lines)}
    try:
        logged = view.ask_now_and_then("runs.task_run_logs", query, id=task_run["id"])["logs"]
    except (NotFound, Unavailable):
        return []
    return [shown_line(number, line) for number, line in enumerate(logged, 1)]


def _begin(view: View, count: int) -> int:
    """The first line that is shown: so that the named line is in sight, else so that the last one is."""
    named = view.parameters.get("line", "").partition("-")[0]
    if named.isascii() and named.isdigit() and len(named) < 10:
        return max(0, min(int(named), count) - LINES_SHOWN // 2)
    return max(0, count - LINES_SHOWN)


def shown_line(number: int, line: Mapping[str, Any]) -> LogLine:
    """A line of a log as a page shows it."""
    more = {name: value for name, value in line.items() if name not in _OWN and value is not None}
    return LogLine(
        number,
        _text(line.get("time") or line.get("timestamp")) or None,
        stored_lines.level_of(line),
        coloured(_text(line.get("message"))),
        json.dumps(more, ensure_ascii=False) if more else "",
        _text(line.get("exception")),
    )


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def coloured(text: str) -> Markup:
    """Text whose colours for terminals are classes; other escapes are left out."""
    return Markup("").join(_spans(text))


def _spans(text: str) -> Iterator[Markup]:
    classes: tuple[str, ...] = ()
    for index, piece in enumerate(_SGR.split(text)):
        if index % 2:
            classes = _changed(classes, piece)
        elif plain := _OTHER_ESCAPES.sub("", piece):
            names = " ".join(classes)
            yield Markup('<span class="{}">{}</span>').format(names, plain) if names else escape(plain)


def _changed(classes: tuple[str, ...], codes: str) -> tuple[str, ...]:
    for code in codes.split(";"):
        number = int(code or 0) if len(code) < 4 else -1
        if number == 0:
            classes = ()
        elif number == 1:
            classes = (*(each for each in classes if each != "ansi-bold"), "ansi-bold")
        elif 30 <= number <= 37 or 90 <= number <= 97 or number == 39:
            kept = tuple(each for each in classes if not each.startswith("ansi-c"))
            classes = kept if number == 39 else (*kept, f"ansi-c{number % 10}")
    return classes
