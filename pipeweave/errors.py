"""Every error PipeWeave raises: one tree, one stable code each.

The code is shared by the API's problem documents, the logs, stored attempts and the CLI. The docstring is the
title a person reads; `detail` says what happened this time, `hint` how to mend it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field of what was sent.

    `field` is a dotted path into the input (empty for the whole of it), `code` a stable lower-case word.
    """

    field: str
    message: str
    code: str = "invalid"
    expected: str | None = None

    def to_json(self) -> dict[str, Any]:
        shown = {"field": self.field, "message": self.message, "code": self.code}
        return shown if self.expected is None else {**shown, "expected": self.expected}


class PipeWeaveError(Exception):
    """PipeWeave could not do that."""

    code: ClassVar[str] = "PIPEWEAVE_ERROR"
    status: ClassVar[int] = 500

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Iterable[FieldError] = (),
        hint: str | None = None,
        **context: Any,
    ) -> None:
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.hint = hint
        self.context = context
        super().__init__(self.detail)

    @property
    def title(self) -> str:
        """The first line of the class's docstring."""
        return (type(self).__doc__ or "").strip().splitlines()[0]

    def to_problem(self) -> dict[str, Any]:
        """The problem document of RFC 9457; `error` repeats the title for clients of the worker protocol."""
        problem: dict[str, Any] = {
            "type": f"urn:pipeweave:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "error": self.title,
        }
        if self.errors:
            problem["errors"] = [error.to_json() for error in self.errors]
        if self.hint:
            problem["hint"] = self.hint
        return {**self.context, **problem}


# --- what was sent is wrong -------------------------------------------------------------------------------


class InvalidInput(PipeWeaveError):
    """The request is not valid."""

    code = "INVALID_INPUT"
    status = 400


class MalformedJson(InvalidInput):
    """The body is not JSON."""

    code = "MALFORMED_JSON"


class InvalidSpec(InvalidInput):
    """The pipeline is not valid."""

    code = "INVALID_SPEC"


class InvalidTask(InvalidInput):
    """The task is not valid."""

    code = "INVALID_TASK"


class InvalidId(InvalidInput):
    """An id may hold only letters, digits and . _ ~ : @ -"""

    code = "INVALID_ID"


class InputValidationFailed(InvalidInput):
    """Input validation failed"""

    code = "INPUT_VALIDATION_FAILED"


class InvalidSetting(InvalidInput):
    """A setting is not valid."""

    code = "INVALID_SETTING"


class PayloadTooLarge(InvalidInput):
    """The body is too large."""

    code = "PAYLOAD_TOO_LARGE"
    status = 413


class UnsupportedMediaType(InvalidInput):
    """The body must be JSON."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class LimitExceeded(InvalidInput):
    """A documented limit is exceeded."""

    code = "LIMIT_EXCEEDED"


# --- who asks ---------------------------------------------------------------------------------------------


class Unauthenticated(PipeWeaveError):
    """A valid bearer token is needed."""

    code = "UNAUTHENTICATED"
    status = 401


class Forbidden(PipeWeaveError):
    """The token lacks the scope for this."""

    code = "FORBIDDEN"
    status = 403


class TenantRequired(InvalidInput):
    """The X-Tenant header is needed."""

    code = "TENANT_REQUIRED"


# --- what is not there, or not in that state --------------------------------------------------------------


class NotFound(PipeWeaveError):
    """There is no such thing."""

    code = "NOT_FOUND"
    status = 404


class MethodNotAllowed(PipeWeaveError):
    """The method is not allowed here."""

    code = "METHOD_NOT_ALLOWED"
    status = 405


class Conflict(PipeWeaveError):
    """The current state does not allow that."""

    code = "CONFLICT"
    status = 409


class TaskOwnedElsewhere(Conflict):
    """The task id belongs to another service."""

    code = "TASK_OWNED_ELSEWHERE"


class Unavailable(PipeWeaveError):
    """A service PipeWeave needs cannot be reached."""

    code = "UNAVAILABLE"
    status = 503


class WaitTimeout(PipeWeaveError):
    """The run was not final in time."""

    code = "WAIT_TIMEOUT"
    status = 504


class AlreadyUp(Conflict):
    """PipeWeave is already up in this folder."""

    code = "ALREADY_UP"


class PortInUse(Conflict):
    """The port is in use."""

    code = "PORT_IN_USE"


class StartFailed(PipeWeaveError):
    """A process did not start."""

    code = "START_FAILED"


class Deadlocked(Unavailable):
    """Two transactions waited for each other, and this one was asked to start over."""

    code = "DEADLOCKED"


# --- what ends an attempt ---------------------------------------------------------------------------------


class TaskError(PipeWeaveError):
    """The task reported an error.

    Raised by users' tasks: `raise TaskError("card declined", code="CARD_DECLINED", retryable=False)`.

    Args:
        detail: what happened, for a person.
        code: a stable word that `retry_on`, error handlers and dead letters can match.
        retryable: whether another attempt may help.
        details: anything JSON-able that helps to understand the failure.
    """

    code = "TASK_ERROR"

    def __init__(
        self,
        detail: str | None = None,
        *,
        code: str = "TASK_ERROR",
        retryable: bool = True,
        details: Any = None,
    ) -> None:
        super().__init__(detail)
        self.task_code = code
        self.retryable = retryable
        self.details = details


class AttemptFailed(PipeWeaveError):
    """PipeWeave itself ends the attempt; another attempt would end the same way."""

    code = "ATTEMPT_FAILED"


class InvalidParams(AttemptFailed):
    """The task's parameters do not fit its signature."""

    code = "INVALID_PARAMS"


class InvalidReference(AttemptFailed):
    """A reference in the step's params leads nowhere."""

    code = "INVALID_REFERENCE"


class InvalidResult(AttemptFailed):
    """The task's result is not JSON."""

    code = "INVALID_RESULT"


class InvalidNextTasks(AttemptFailed):
    """The task chose successors that its step does not have."""

    code = "INVALID_NEXT_TASKS"


class InvalidIdempotencyKey(AttemptFailed):
    """The task's function for idempotency keys raised, or gave no key."""

    code = "INVALID_IDEMPOTENCY_KEY"


class TaskNotLoaded(AttemptFailed):
    """The worker has no such task."""

    code = "TASK_NOT_LOADED"


class AttemptTimedOut(PipeWeaveError):
    """The attempt took longer than its task's time limit.

    Raised inside the task's function, which may catch it to clean up; a few seconds later its process is
    killed.
    """

    code = "TIMEOUT"


class AttemptFenced(PipeWeaveError):
    """The attempt is not this worker's any more: its run was cancelled, or it was taken for lost.

    Raised inside the task's function; whatever the function does then changes nothing.
    """

    code = "FENCED"


class MapSourceInvalid(AttemptFailed):
    """The value to map over is not a list that can be mapped."""

    code = "MAP_SOURCE_INVALID"
