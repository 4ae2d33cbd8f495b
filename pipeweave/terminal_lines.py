"""Write log lines for people at a terminal: one line each, in colour, without what only serves machines.

The log of a process and `pipeweave logs` look alike, because both are written here. A text can neither start
a line nor command the terminal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TextIO

import orjson

from pipeweave.log_lines import JsonLines, plainly_named
from pipeweave.safe_text import one_line

_COLOURS = {"warning": 33, "error": 31, "critical": 31, "debug": 90}
_OWN = ("time", "level", "logger", "message")
# Members that stand elsewhere in a line, or only serve machines.
_NOT_SHOWN = {"exception", "exception_type", "run_id", "task_run_id", "trace_id", "tenant"}
# Members that the id of a step makes superfluous, for people.
_OF_A_STEP = {"step_id", "map_index", "task_id", "pipeline_id"}
_NAME_WIDTH, _LEVEL_WIDTH = 9, 7
_NOTHING = "-"


class TerminalLines(logging.Formatter):
    """A line for people: time, level, message, members, and a traceback indented below.

    Args:
        is_coloured: whether levels have colours.
    """

    def __init__(self, *, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured
        # Values are made text, hidden and bounded there.
        self._json = JsonLines()

    def format(self, record: logging.LogRecord) -> str:
        document = orjson.loads(self._json.format(record))
        fields = {name: value for name, value in document.items() if name not in _OWN}
        time = datetime.fromisoformat(document["time"])
        return for_people(time, document["level"], document["message"], fields, is_coloured=self._is_coloured)


def formatter(log_format: str, log_names: str, stream: TextIO, *, is_coloured: bool) -> logging.Formatter:
    """What writes the lines of a process.

    Args:
        log_format: as PIPEWEAVE_LOG_FORMAT has it: `json`, `text`, or `auto`, which is text on a terminal.
        log_names: as LOG_NAMES has it, for JSON.
        stream: where the lines go.
        is_coloured: whether people want colours on a terminal.
    """
    is_terminal = stream.isatty()
    if log_format == "text" or (log_format == "auto" and is_terminal):
        return TerminalLines(is_coloured=is_coloured and is_terminal)
    return JsonLines(log_names)


def for_people(
    time: datetime,
    level: str | None,
    message: str,
    fields: Mapping[str, Any],
    *,
    process: str | None = None,
    is_coloured: bool,
) -> str:
    """Write one line of a log, and a traceback below it.

    Args:
        time: when it was written; shown in the time zone of this machine.
        level: debug, info, warning, error or critical; None if it is not known.
        message: what it says.
        fields: the members beside it, by their plain names.
        process: which process wrote it, in a log of several.
        is_coloured: whether the level has a colour.
    """
    shown = f"{level or '':<{_LEVEL_WIDTH}}"
    if is_coloured and (colour := _COLOURS.get(level or "")):
        shown = f"\x1b[{colour}m{shown}\x1b[0m"
    local = time.astimezone()
    parts = [f"{local:%H:%M:%S}.{local.microsecond // 1000:03}"]
    parts += [f"{process:<{_NAME_WIDTH}}"] if process is not None else []
    parts += [shown, _text(message), *_members(fields)]
    exception = fields.get("exception")
    below = "".join(f"\n    {_indented(each)}" for each in str(exception).splitlines()) if exception else ""
    return " ".join(parts) + below


def _indented(line: str) -> str:
    """A line of a traceback: its indentation says which source belongs to which frame."""
    said = line.strip()
    return " " * (len(line) - len(line.lstrip(" "))) + one_line(said)


def _members(fields: Mapping[str, Any]) -> Iterator[str]:
    """What the line has beside its message: the step, then the rest; the id at the end, and whole."""
    known = {name: value for name, value in plainly_named(fields).items() if value is not None}
    if "step_id" in known:
        item = f"[{known['map_index']}]" if "map_index" in known else ""
        yield f"step={_text(known['step_id'])}{item}"
    for name, value in known.items():
        if name not in _NOT_SHOWN and not (name in _OF_A_STEP and "step_id" in known):
            yield f"{one_line(name)}={_text(value)}"
    # A step is named already; a standalone task run is known by its own id.
    name = "run_id" if "pipeline_id" in known or "task_run_id" not in known else "task_run_id"
    if name in known:
        yield _text(known[name])


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return one_line(str(value)) or _NOTHING
