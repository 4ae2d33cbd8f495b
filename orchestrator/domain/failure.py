"""Turns exceptions and losses into failures: values that can be stored and judged."""

from __future__ import annotations

import hashlib
import re
import traceback
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import TracebackType
from typing import Any

from pipeweave.authoring import classify_error
from pipeweave.durations import in_words
from pipeweave.errors import AttemptFailed, AttemptTimedOut, TaskError, TaskNotLoaded
from pipeweave.json_conversion import details_of
from pipeweave.safe_text import call_safely, safe_text, storable

# Long enough for the deepest useful traceback, short enough for a row.
MAX_TRACEBACK = 16_000
MAX_MESSAGE = 4_000

# The modules that call users' functions.
_CALLERS = "pipeweave.workers."


class Outcome(StrEnum):
    """How a failed attempt ended."""

    FAILED = "failed"  # its function raised, or its result is invalid
    TIMEOUT = "timeout"  # it exceeded its time limit, or its heartbeats stopped
    LOST = "lost"  # the process or the host that ran it is gone
    INTERRUPTED = "interrupted"  # its worker stopped before it ended


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed; `type` is the exception's qualified name.

    Args:
        outcome: how the attempt ended.
        is_counted: whether it uses up one of the task run's attempts. An attempt that may never have begun
            does not.
        cause: the exception itself, for the log; None if there is none in this process.
        is_dead: whether a dead letter is written when no attempt is left. A map writes none, because each of
            its failed items has one.
    """

    code: str
    message: str
    type: str
    retryable: bool = True
    traceback: str | None = None
    details: Any = None
    outcome: Outcome = Outcome.FAILED
    is_counted: bool = True
    is_dead: bool = True
    cause: BaseException | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        shown = {
            "code": self.code,
            "message": self.message,
            "type": self.type,
            "retryable": self.retryable,
            "traceback": self.traceback,
            "details": self.details,
        }
        return {key: value for key, value in shown.items() if value is not None}


def failure_of(error: BaseException) -> Failure:
    """The failure of an exception. It can be stored, whatever the exception contains."""
    failure = _failure_of(error)
    # An error of PipeWeave's own says all in its message.
    return failure if isinstance(error, AttemptFailed) else replace(failure, cause=error)


def _failure_of(error: BaseException) -> Failure:
    code, is_retryable = classify_error(error)
    kind = type(error)
    named = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    name = storable(named)[:MAX_MESSAGE]
    text = safe_text(str, error)[:MAX_MESSAGE] or storable(kind.__name__)[:MAX_MESSAGE]
    match error:
        case TaskError():
            return Failure(code, text, name, is_retryable, _trace(error), details_of(error.details))
        case AttemptTimedOut():
            return Failure(code, text, name, is_retryable, _trace(error), outcome=Outcome.TIMEOUT)
        case TaskNotLoaded():
            # Another worker of the service, newer or older, may have it.
            return Failure(code, text, name, is_retryable)
        case AttemptFailed():
            return Failure(code, text, name, is_retryable, None, call_safely(lambda: _shown(error), None))
        case _:
            return Failure(code, text, name, is_retryable, _trace(error))


def silent(interval_ms: int) -> Failure:
    """The failure of an attempt without a heartbeat for twice its interval (ms), though its worker lives."""
    message = f"no heartbeat for {in_words(2 * interval_ms)}"
    return Failure("HEARTBEAT_LOST", message, "HeartbeatLost", outcome=Outcome.TIMEOUT)


def overdue(seconds: float) -> Failure:
    """The failure of an attempt that exceeded its task's time limit (s)."""
    message = f"the attempt took longer than {seconds:g} s"
    return Failure(AttemptTimedOut.code, message, AttemptTimedOut.__qualname__, outcome=Outcome.TIMEOUT)


def lost(message: str, *, is_certain: bool = True) -> Failure:
    """The failure of an attempt whose process is gone; `is_certain` False when it may not have begun."""
    return Failure("WORKER_LOST", message, "WorkerLost", outcome=Outcome.LOST, is_counted=is_certain)


def interrupted() -> Failure:
    """The failure of an attempt whose worker was asked to stop and could not wait for its end."""
    message = "its worker stopped before the attempt ended"
    return Failure("WORKER_STOPPED", message, "WorkerStopped", outcome=Outcome.INTERRUPTED, is_counted=False)


def fingerprint(task_id: str, failure: Failure) -> str:
    """A hash of task, code, type and message without numbers: equal for similar errors (hex SHA-256)."""
    shape = _VARYING.sub("#", failure.message)
    return hashlib.sha256("\0".join((task_id, failure.code, failure.type, shape)).encode()).hexdigest()


# Numbers, ids and hashes differ between errors that are the same to a person.
_VARYING = re.compile(r"\b[0-9a-f]{8,}(?:-[0-9a-f]+)*\b|\d+", re.IGNORECASE)


def users_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an exception without the frames of the worker that called the function."""
    trace = error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(_CALLERS):
        trace = trace.tb_next
    return trace or error.__traceback__


def _trace(error: BaseException) -> str:
    shown = type(error), error, users_traceback(error)
    lines = call_safely(lambda: "".join(traceback.format_exception(*shown)), "")
    return storable(lines if len(lines) <= MAX_TRACEBACK else "…" + lines[-MAX_TRACEBACK:])


def _shown(error: AttemptFailed) -> list[dict[str, str]] | None:
    # The paths in a result contain its keys, and a key may be what cannot be stored.
    faults = [each.to_json().items() for each in error.errors]
    return [{key: safe_text(str, value)[:MAX_MESSAGE] for key, value in each} for each in faults] or None
