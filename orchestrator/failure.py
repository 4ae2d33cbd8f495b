"""How an attempt failed: an exception as a value that can be stored and judged."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pipeweave.errors import AttemptFailed, AttemptTimedOut, PipeWeaveError, TaskError, TaskNotLoaded

# Long enough for the deepest useful traceback, short enough for a row.
MAX_TRACEBACK = 16_000
MAX_MESSAGE = 4_000
MAX_CODE = 200


class Outcome(StrEnum):
    """How an attempt ended that did not end well."""

    FAILED = "failed"  # its function raised, or what it gave cannot be taken
    TIMEOUT = "timeout"  # it ran for too long, or was silent for too long
    LOST = "lost"  # the process or the host that ran it is gone
    INTERRUPTED = "interrupted"  # its worker was asked to stop and could not wait any longer


@dataclass(frozen=True, slots=True)
class Failure:
    """What an attempt ended with: `type` is the exception's qualified name.

    Args:
        outcome: how it ended.
        is_counted: whether it uses up one of the task run's attempts. One that may never have begun does not.
        is_dead: whether it makes a dead letter when no attempt is left; a map's items make their own.
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
    """The failure that an exception stands for."""
    text = _said(str, error)[:MAX_MESSAGE] or type(error).__name__
    name = type(error).__qualname__ if type(error).__module__ == "builtins" else _qualified(type(error))
    match error:
        case TaskError():
            details = _json_able(error.details)
            code = _said(str, error.task_code)[:MAX_CODE] or error.code
            return Failure(code, text, name, bool(error.retryable), _trace(error), details)
        case AttemptTimedOut():
            return Failure(error.code, text, name, True, _trace(error), outcome=Outcome.TIMEOUT)
        case TaskNotLoaded():
            # Another worker of the service, newer or older, may have it.
            return Failure(error.code, text, name, True)
        case AttemptFailed():
            return Failure(
                error.code, text, name, False, None, [each.to_json() for each in error.errors] or None
            )
        case PipeWeaveError():
            return Failure(error.code, text, name, True, _trace(error))
        case _:
            return Failure(type(error).__name__, text, name, True, _trace(error))


def silent(interval_ms: int) -> Failure:
    """A function whose worker lives, but that was not heard of for twice its heartbeat interval (ms)."""
    message = f"no heartbeat for {2 * interval_ms:,} ms"
    return Failure("HEARTBEAT_LOST", message, "HeartbeatLost", outcome=Outcome.TIMEOUT)


def overdue(seconds: float) -> Failure:
    """A function that did not end within its task's time limit (s)."""
    message = f"the attempt took longer than {seconds:g} s"
    return Failure(AttemptTimedOut.code, message, AttemptTimedOut.__qualname__, outcome=Outcome.TIMEOUT)


def lost(what: str, *, is_certain: bool = True) -> Failure:
    """The process that ran the attempt is gone; `is_certain` False when it may not have begun."""
    return Failure("WORKER_LOST", what, "WorkerLost", outcome=Outcome.LOST, is_counted=is_certain)


def interrupted() -> Failure:
    """The worker was asked to stop and could not wait for the attempt any longer."""
    message = "its worker stopped before the attempt ended"
    return Failure("WORKER_STOPPED", message, "WorkerStopped", outcome=Outcome.INTERRUPTED, is_counted=False)


def fingerprint(task_id: str, failure: Failure) -> str:
    """Equal for errors that are alike: task, code, type and message without its numbers (hex SHA-256)."""
    shape = _VARYING.sub("#", failure.message)
    return hashlib.sha256("\0".join((task_id, failure.code, failure.type, shape)).encode()).hexdigest()


# Numbers, ids and hashes differ between errors that are the same to a person.
_VARYING = re.compile(r"\b[0-9a-f]{8,}(?:-[0-9a-f]+)*\b|\d+", re.IGNORECASE)


def _said(show: Callable[[object], str], value: object) -> str:
    """A user's value as text; nothing where it cannot even say what it is."""
    try:
        return _printable(show(value))
    except Exception:
        return ""


def _qualified(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _trace(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error))
    return _printable(lines if len(lines) <= MAX_TRACEBACK else "…" + lines[-MAX_TRACEBACK:])


def _printable(text: str) -> str:
    """PostgreSQL keeps no NUL, and JSON no lone surrogate."""
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode()


def _json_able(details: Any) -> Any:
    from pipeweave.orchestrator.values import canonical

    try:
        canonical(details)
    except PipeWeaveError:
        return _said(repr, details)[:MAX_MESSAGE]
    return details
