"""Write log lines as JSON, whatever a task's code puts into them.

The processes' own log and the stored log of an attempt consist of such lines. Values of secrets are hidden
before a text is cut: half of a secret would not be known as one.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import orjson

from pipeweave import masking
from pipeweave.safe_text import call_safely, safe_text, storable

# Members that documents 3 and 4 of the product spell in another way; a DAG is a pipeline.
DOCUMENT_NAMES: Mapping[str, tuple[str, ...]] = {
    "run_id": ("runId",),
    "pipeline_id": ("pipelineId", "dagId"),
    "step_id": ("stepId",),
    "task_run_id": ("taskRunId",),
    "task_id": ("taskId",),
    "map_index": ("mapIndex",),
}
_PLAIN_NAMES = {names[0]: plain for plain, names in DOCUMENT_NAMES.items()}

# LOG_LEVEL as the documents name it -> Python's level.
LEVELS = {"minimal": logging.WARNING, "normal": logging.INFO, "detailed": logging.DEBUG}

# A longer traceback loses its beginning, a longer text its end (characters).
MOST_OF_A_TRACEBACK = 16_000
MOST_OF_A_TEXT = 32_000
# A line that is too long loses further members, and keys lose their end (characters).
MOST_MEMBERS = 100
MOST_OF_A_KEY = 200

# Attributes that every LogRecord has; further attributes of a record come from `extra`.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

# Members of the line itself: a member of `extra` with such a name is called `extra_time` and so on.
_OWN = frozenset({"time", "level", "logger", "message", "exception", "exception_type"})

# Bound here, because a task may replace the functions of the module.
_dumps = orjson.dumps
_OPTIONS = orjson.OPT_NON_STR_KEYS
_traceback = logging.Formatter().formatException


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the exception, and the caller's `extra`.

    A value of `extra` that JSON cannot hold is written as text.

    Args:
        names: as LOG_NAMES has it: `plain` (`run_id`), `documents` (`runId`), or `both` of them.
    """

    def __init__(self, names: str = "plain") -> None:
        super().__init__()
        self._names = names

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        for key, value in extra_of(record):
            line[f"extra_{key}" if key in _OWN else key] = value
        if self._names != "plain":
            line = renamed(line, keeps_plain=self._names == "both")
        return as_json(line | exception_of(record))


def renamed(line: Mapping[str, Any], *, keeps_plain: bool) -> dict[str, Any]:
    """The members of a line by the names of the documents; `keeps_plain` to have them by both names."""
    shown: dict[str, Any] = {}
    for name, value in line.items():
        # A member that the caller named so is the caller's.
        others = [each for each in DOCUMENT_NAMES.get(name, ()) if each not in line]
        if keeps_plain or not others:
            shown[name] = value
        shown.update(dict.fromkeys(others, value))
    return shown


def plainly_named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a line by their plain names, whichever names it was written with."""
    if not fields.keys() & _PLAIN_NAMES.keys():
        return dict(fields)
    plain = {_PLAIN_NAMES.get(name, name): value for name, value in fields.items() if name != "dagId"}
    return {**plain, **{name: value for name, value in fields.items() if name in DOCUMENT_NAMES}}


def message_of(record: logging.LogRecord) -> str:
    """The message with its arguments; both unformatted if they do not fit together."""
    try:
        return _hidden(storable(record.getMessage()))[:MOST_OF_A_TEXT]
    except Exception as error:  # arguments that do not fit, or of a task's own type
        text = _hidden(f"{safe_text(str, record.msg)} {safe_text(repr, record.args)}")
        return f"{text} (not formatted: {type(error).__name__}: {safe_text(str, error)})"[:MOST_OF_A_TEXT]


def extra_of(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """The members of the caller's `extra`."""
    for key, value in vars(record).items():
        if key not in _PLAIN and not str(key).startswith("_"):
            yield key, value


def exception_of(record: logging.LogRecord) -> dict[str, str]:
    """The exception of a record, as members of its line; empty if it has none."""
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    kind = record.exc_info[0]
    traceback = storable(call_safely(lambda: _traceback(record.exc_info), ""))  # type: ignore[arg-type]
    return {
        "exception_type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
        "exception": _hidden(traceback)[-MOST_OF_A_TRACEBACK:],
    }


def as_json(line: Mapping[str, Any]) -> str:
    """Write a line as JSON, without a newline. A value that JSON cannot hold is written as text."""
    try:
        text = _dumps(line, default=_as_text, option=_OPTIONS).decode()
    except Exception:  # a lone surrogate, a huge number, a value that holds itself
        text = ""
    if text and len(text) <= 2 * MOST_OF_A_TEXT:
        return masking.of_process().line(text)
    bounded = {storable(str(key))[:MOST_OF_A_KEY]: _bounded(value) for key, value in line.items()}
    text = json.dumps(dict(islice(bounded.items(), MOST_MEMBERS)), ensure_ascii=False)
    return masking.of_process().line(text)


def _as_text(value: object) -> str:
    return (_hidden(safe_text(str, value)) or f"<{type(value).__name__}>")[:MOST_OF_A_TEXT]


def _bounded(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _hidden(storable(value))[:MOST_OF_A_TEXT]
    return value if isinstance(value, int) and abs(value) < 2**63 else _as_text(value)


def _hidden(text: str) -> str:
    return masking.of_process().text(text)
