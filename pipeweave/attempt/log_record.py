"""Turn a record of `logging` into a line of an attempt's stored log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pipeweave.attempt.stored_log import StoredLogs
from pipeweave.log_lines import as_json, exception_of, extra_of, message_of

# PipeWeave's own loggers that speak for a task; its others speak for the worker.
_OF_TASKS = ("pipeweave.task", "pipeweave.stdout", "pipeweave.stderr")

# The same in every line of an attempt: its log says them by its place.
_IDS = frozenset(
    {
        "run_id",
        "task_run_id",
        "pipeline_id",
        "step_id",
        "task_id",
        "attempt",
        "tenant",
        "map_index",
        "trace_id",
    }
)
# Members of the line itself: a member of `extra` with such a name is called `extra_level` and so on.
_OWN = frozenset({"timestamp", "level", "runId", "message", "logger", "exception", "exception_type"})


class LoggedAttempt(NamedTuple):
    """An attempt that logs.

    Args:
        place: where its log is stored.
        run_id: the `runId` of its lines.
    """

    place: Any
    run_id: str


class ToStoredLogs(logging.Handler):
    """Adds what a task logs to the stored log of its attempt.

    Args:
        current: the attempt that this thread works on; None if it works on none.
    """

    def __init__(self, logs: StoredLogs, current: Callable[[], LoggedAttempt | None]) -> None:
        super().__init__()
        self._logs = logs
        self._current = current

    def emit(self, record: logging.LogRecord) -> None:
        if not _is_of_a_task(record.name) or (logged := self._current()) is None:
            return
        try:
            self._logs.add(logged.place, line_of(record, logged.run_id), logged.run_id)
        except Exception:
            self.handleError(record)


def _is_of_a_task(logger: str) -> bool:
    return not logger.startswith("pipeweave.") or logger.startswith(_OF_TASKS)


def line_of(record: logging.LogRecord, run_id: str) -> bytes:
    """The line of a record, with its newline."""
    line: dict[str, Any] = {
        "timestamp": _iso(record.created),
        "level": level_of(record.levelno),
        "runId": run_id,
        "message": message_of(record),
    }
    if not record.name.startswith(_OF_TASKS):
        line["logger"] = record.name
    for key, value in extra_of(record):
        if key not in _IDS:
            line[f"extra_{key}" if key in _OWN else key] = value
    return f"{as_json(line | exception_of(record))}\n".encode(errors="replace")


def level_of(number: int) -> str:
    """The level as the protocol of workers names it: debug, info, warn or error."""
    if number < logging.INFO:
        return "debug"
    if number < logging.WARNING:
        return "info"
    return "warn" if number < logging.ERROR else "error"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
