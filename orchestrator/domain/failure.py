"""Turns exceptions and losses into failures: values that can be stored and judged."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pipeweave.authoring import describe
from pipeweave.durations import in_words
from pipeweave.errors import AttemptFailed, AttemptTimedOut, Unavailable

# The next attempt (ms) of one that needed a server which is away: it would fail at once, again and again.
AWAY_PAUSE_MS = 5_000
# The member of the details of what took too long, of attempts and of runs: its limit (ms).
TIMEOUT_MS = "timeoutMs"


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
        pause_ms: the next attempt follows after this long at least (ms).
        logs_path: where the log of the attempt is in storage; None where its path follows from its ids.
        cause: the exception itself, for the log; None if there is none in this process.
        is_dead: whether a dead letter is written when no attempt is left. A map writes none, because each of
            its failed items has one.
        follows_rule: whether its error rule has run: no other rule, and no attempt, follows.
        handler_error: why that did not take care of the error: {code, message, runId}; None if it did not
            fail.
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
    pause_ms: int = 0
    logs_path: str | None = None
    follows_rule: bool = False
    handler_error: dict[str, Any] | None = None
    cause: BaseException | None = field(default=None, repr=False, compare=False)

    @property
    def timeout_ms(self) -> int | None:
        """The limit that the attempt exceeded (ms); None if it did not, or its worker does not say which."""
        if self.outcome is not Outcome.TIMEOUT or not isinstance(self.details, Mapping):
            return None
        limit = self.details.get(TIMEOUT_MS)
        return limit if isinstance(limit, int) else None

    def to_json(self) -> dict[str, Any]:
        shown = {
            "code": self.code,
            "message": self.message,
            "type": self.type,
            "retryable": self.retryable,
            "traceback": self.traceback,
            "details": self.details,
            "handlerError": self.handler_error,
        }
        return {key: value for key, value in shown.items() if value is not None}


def failure_of(error: BaseException) -> Failure:
    """The failure of an exception. It can be stored, whatever the exception contains."""
    failure = _failure_of(error)
    # An error of PipeWeave's own says all in its message.
    return failure if isinstance(error, AttemptFailed) else replace(failure, cause=error)


def _failure_of(error: BaseException) -> Failure:
    description = describe(error)
    return Failure(
        description.code,
        description.message,
        description.type,
        description.retryable,
        description.traceback,
        description.details,
        Outcome.TIMEOUT if isinstance(error, AttemptTimedOut) else Outcome.FAILED,
    )


def silent(interval_ms: int) -> Failure:
    """The failure of an attempt without a heartbeat for twice its interval (ms), though its worker lives."""
    limit_ms = 2 * interval_ms
    message = f"no heartbeat for {in_words(limit_ms)}"
    details = {TIMEOUT_MS: limit_ms}
    return Failure("HEARTBEAT_LOST", message, "HeartbeatLost", details=details, outcome=Outcome.TIMEOUT)


def overdue(seconds: float) -> Failure:
    """The failure of an attempt that exceeded its task's time limit (s)."""
    error = AttemptTimedOut.after(seconds)
    kind = type(error).__qualname__
    return Failure(error.code, error.detail, kind, details=error.context, outcome=Outcome.TIMEOUT)


def lost(message: str, *, is_certain: bool = True) -> Failure:
    """The failure of an attempt whose process is gone; `is_certain` False when it may not have begun."""
    return Failure("WORKER_LOST", message, "WorkerLost", outcome=Outcome.LOST, is_counted=is_certain)


def interrupted() -> Failure:
    """The failure of an attempt whose worker was asked to stop and could not wait for its end."""
    message = "its worker stopped before the attempt ended"
    return Failure("WORKER_STOPPED", message, "WorkerStopped", outcome=Outcome.INTERRUPTED, is_counted=False)


def not_begun(error: Unavailable) -> Failure:
    """The failure of an attempt whose function was not called, because what it needs could not be loaded."""
    return uncounted(_failure_of(error))


def uncounted(failure: Failure) -> Failure:
    """The same failure of an attempt that does not count, because its task was not called."""
    return replace(failure, is_counted=False, pause_ms=AWAY_PAUSE_MS)


def not_kept(error: Unavailable) -> Failure:
    """The failure of an attempt whose function returned what storage could not take."""
    return replace(_failure_of(error), pause_ms=AWAY_PAUSE_MS)


def fingerprint(task_id: str, failure: Failure) -> str:
    """A hash of task, code, type and message without numbers: equal for similar errors (hex SHA-256)."""
    shape = _VARYING.sub("#", failure.message)
    return hashlib.sha256("\0".join((task_id, failure.code, failure.type, shape)).encode()).hexdigest()


# Numbers, ids and hashes differ between errors that are the same to a person.
_VARYING = re.compile(r"\b[0-9a-f]{8,}(?:-[0-9a-f]+)*\b|\d+", re.IGNORECASE)
