"""How an attempt failed: an exception as a value that can be stored and judged."""

from __future__ import annotations

import hashlib
import re
import traceback
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from pipeweave.authoring import classify_error
from pipeweave.errors import AttemptFailed, AttemptTimedOut, TaskError, TaskNotLoaded
from pipeweave.json_values import json_faults
from pipeweave.safe_text import call_safely, safe_text, storable
from pipeweave.size_limits import INLINE_BYTES

# Long enough for the deepest useful traceback, short enough for a row.
MAX_TRACEBACK = 16_000
MAX_MESSAGE = 4_000


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
    """The failure that an exception stands for. It can be stored, whatever the exception holds."""
    code, is_retryable = classify_error(error)
    kind = type(error)
    named = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    name = storable(named)[:MAX_MESSAGE]
    text = safe_text(str, error)[:MAX_MESSAGE] or storable(kind.__name__)[:MAX_MESSAGE]
    match error:
        case TaskError():
            return Failure(code, text, name, is_retryable, _trace(error), _json_able(error.details))
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


def _trace(error: BaseException) -> str:
    lines = call_safely(lambda: "".join(traceback.format_exception(error)), "")
    return storable(lines if len(lines) <= MAX_TRACEBACK else "…" + lines[-MAX_TRACEBACK:])


def _shown(error: AttemptFailed) -> list[dict[str, str]] | None:
    # The paths in a result are made of its keys, which may be what is wrong with it.
    faults = [each.to_json().items() for each in error.errors]
    return [{key: safe_text(str, value)[:MAX_MESSAGE] for key, value in each} for each in faults] or None


def _json_able(details: Any) -> Any:
    """Details as plain JSON that fits in a row; as text, where they are not."""
    # What orjson writes of other types (dataclasses, enums, times) may hold what cannot be stored.
    content = call_safely(lambda: orjson.dumps(details), b"")
    plain = orjson.loads(content) if content else None
    if content and not json_faults(plain, budget=INLINE_BYTES):
        return plain
    return safe_text(repr, details)[:MAX_MESSAGE]
