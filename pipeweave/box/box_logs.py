"""What a call in a box logs and prints becomes messages to its parent, so many of each call at most."""

from __future__ import annotations

import logging
from typing import Any

from pipeweave.attempt import printed_lines
from pipeweave.box.channel import Channel
from pipeweave.errors import FieldError
from pipeweave.json_conversion import to_json_value
from pipeweave.safe_text import call_safely, safe_text, storable

MAX_LINES = 10_000
"""Lines of one call; what is logged after that is left out, and a last line says so."""

MAX_LINE = 16_000
"""Characters of one line."""

MAX_MEMBERS = 20
"""Members of `extra` of one line."""

# The members that every record has, and those that name the attempt: the parent adds them itself.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_IDS = frozenset(
    ("run_id", "task_run_id", "pipeline_id", "step_id", "task_id", "attempt", "tenant", "trace_id")
)


class ToParent(logging.Handler):
    """Sends records to the parent."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self._left = 0

    def begin(self) -> None:
        """A call begins."""
        self._left = MAX_LINES

    def emit(self, record: logging.LogRecord) -> None:
        self._left -= 1
        if self._left < 0:
            return
        text = call_safely(lambda: storable(record.getMessage()), "")[:MAX_LINE]
        if (raised := record.exc_info) and raised[0] is not None:
            text += "\n" + call_safely(lambda: logging.Formatter().formatException(raised), "")[:MAX_LINE]
        level = record.levelno
        if self._left == 0:
            text, level = f"this call has logged {MAX_LINES:,} lines; the rest is left out", logging.WARNING
        self._channel.say({"log": text, "level": level, "logger": record.name, "extra": _extra(record)})


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    members = [each for each in vars(record) if each not in _OWN and each not in _IDS][:MAX_MEMBERS]
    return {each: _value(getattr(record, each)) for each in members}


def _value(value: Any) -> Any:
    converted, faults = call_safely(lambda: to_json_value(value), (None, [FieldError("", "raises")]))
    return safe_text(repr, value)[:MAX_LINE] if faults else converted


def install(channel: Channel, level: int) -> ToParent:
    """Send from now on what this process logs and prints."""
    sender = ToParent(channel)
    logging.root.handlers[:] = [sender]
    logging.root.setLevel(level)
    printed_lines.capture()
    return sender
