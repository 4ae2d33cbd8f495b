"""Define every error that PipeWeave raises: one class tree, one stable code per class.

The API's problem documents, the logs, stored attempts and the CLI share these codes. The first line of a
class's docstring is the title that users read. `detail` says what happened this time, `hint` how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

# How many further field errors a traceback shows.
MAX_NOTES = 20


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake in one field of the input.

    Args:
        field: dotted path into the input; empty for the input as a whole.
        message: what is wrong, for a person.
        code: a stable lower-case word.
        expected: what the field should hold, if that can be said.
    """

    field: str
    message: str
    code: str = "invalid"
    expected: str | None = None

    def to_json(self) -> dict[str, Any]:
        shown = {"field": self.field, "message": self.message, "code": self.code}
        return shown if self.expected is None else {**shown, "expected": self.expected}

    def sentence(self) -> str:
        """Say in one line what is wrong, and what the field should hold."""
        said = f"{self.field} {self.message}".strip()
        is_said = self.expected is None or self.expected in said
        return said if is_said else f"{said}; expected: {self.expected}"


def _is_said(error: FieldError, detail: str) -> bool:
    if not error.field:
        return error.message in detail
    return any(f"{error.field}{mark} {error.message}" in detail for mark in ("", ":"))


class PipeWeaveError(Exception):
    """PipeWeave could not do this."""

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
        for each in (*self._said_of_fields(), hint):
            if each:
                self.add_note(each)  # Python shows notes below the message in a traceback

    def _said_of_fields(self) -> list[str]:
        return [each.sentence() for each in self.further_errors[:MAX_NOTES]]

    @property
    def further_errors(self) -> tuple[FieldError, ...]:
        """The field errors that `detail` does not say already."""
        if len(self.errors) == 1 and self.errors[0].message in self.detail:
            return ()
        return tuple(each for each in self.errors if not _is_said(each, self.detail))

    @property
    def title(self) -> str:
        """The first line of the class's docstring."""
        return (type(self).__doc__ or "").strip().splitlines()[0]

    def to_problem(self) -> dict[str, Any]:
        """Build the problem document of RFC 9457.

        `error` repeats the title for clients of the worker protocol.
        """
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


class TargetRefused(InvalidInput):
    """The address is not one that requests of the deployment may reach."""

    code = "TARGET_REFUSED"


class RequestTimeout(InvalidInput):
    """The request did not arrive in time."""

    code = "REQUEST_TIMEOUT"
    status = 408


class UnsupportedMediaType(InvalidInput):
    """The body must be JSON."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class LimitExceeded(InvalidInput):
    """A documented limit is exceeded."""

    code = "LIMIT_EXCEEDED"


class ObjectTooLarge(LimitExceeded):
    """The object in storage is larger than it may be."""

    code = "OBJECT_TOO_LARGE"
    status = 413


class InvalidStorageToken(InvalidInput):
    """The storage token is forged, malformed or expired."""

    code = "INVALID_TOKEN"


class Unauthenticated(PipeWeaveError):
    """A valid bearer token is required."""

    code = "UNAUTHENTICATED"
    status = 401


class LoginRefused(Unauthenticated):
    """The OpenID provider does not vouch for the person."""

    code = "LOGIN_REFUSED"


class SignatureRefused(PipeWeaveError):
    """There is no such webhook, or the delivery is not signed with its secret, or not in time."""

    code = "SIGNATURE_REFUSED"
    status = 401


class TooManyRequests(PipeWeaveError):
    """More requests come than are taken."""

    code = "TOO_MANY_REQUESTS"
    status = 429
    # The header Retry-After of the answer, in seconds.
    retry_after_s: int = 1


class TooManySignals(TooManyRequests):
    """The run has as many signals as it may that nothing has taken."""

    code = "TOO_MANY_SIGNALS"


class QuotaExceeded(TooManyRequests):
    """A quota of the tenant is used up."""

    code = "QUOTA_EXCEEDED"


class Forbidden(PipeWeaveError):
    """The token does not allow this request."""

    code = "FORBIDDEN"
    status = 403


class TenantDisabled(Forbidden):
    """The tenant is disabled: nothing new begins, and only an operator's requests are served."""

    code = "TENANT_DISABLED"


class CrossSite(Forbidden):
    """A browser's session counts only for requests of its own pages."""

    code = "CROSS_SITE"


class TenantRequired(InvalidInput):
    """The request must name its tenant."""

    code = "TENANT_REQUIRED"


class NotFound(PipeWeaveError):
    """The requested object does not exist."""

    code = "NOT_FOUND"
    status = 404


class RunEnqueued(NotFound):
    """The run is enqueued and has not started yet."""

    code = "RUN_ENQUEUED"


class RunRefused(NotFound):
    """The enqueued run could not start."""

    code = "RUN_REFUSED"


class RunTokenTaken(NotFound):
    """The enqueued run was not started, because a run before has its run token."""

    code = "RUN_TOKEN_TAKEN"


class MethodNotAllowed(PipeWeaveError):
    """The path does not allow this HTTP method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405


class UpgradeRequired(InvalidInput):
    """The address is for WebSockets, and the request does not ask for one."""

    code = "UPGRADE_REQUIRED"
    status = 426


class Conflict(PipeWeaveError):
    """The current state does not allow this operation."""

    code = "CONFLICT"
    status = 409


class DeliveryIdReused(Conflict):
    """A delivery with this id came before, with another body."""

    code = "DELIVERY_ID_REUSED"


class TaskOwnedElsewhere(Conflict):
    """The task id belongs to another service."""

    code = "TASK_OWNED_ELSEWHERE"


class InvalidBundle(InvalidInput):
    """The bundle is not valid."""

    code = "BUNDLE_INVALID"


class BundleSignatureInvalid(InvalidInput):
    """The bundle is not signed, or its signature does not belong to it."""

    code = "BUNDLE_SIGNATURE_INVALID"


class BundleKeyUnknown(InvalidInput):
    """The tenant trusts none of the keys that signed the bundle."""

    code = "BUNDLE_KEY_UNKNOWN"


class BundleKeyRevoked(InvalidInput):
    """The key that signed the bundle is revoked."""

    code = "BUNDLE_KEY_REVOKED"


class BundleDowngrade(Conflict):
    """A newer version of the bundle was installed before."""

    code = "BUNDLE_DOWNGRADE"


class BundleVersionTaken(Conflict):
    """This version of the bundle was installed with another content, or is revoked."""

    code = "BUNDLE_VERSION_TAKEN"


class PipelineUnsigned(Conflict):
    """The tenant accepts only pipelines of signed bundles."""

    code = "PIPELINE_UNSIGNED"


class InvalidReport(InvalidInput):
    """The result that an HTTP worker reports cannot be used; its attempt has failed."""

    code = "INVALID_REPORT"
    status = 422


class RunHasEnded(Conflict):
    """The run is final: nothing of it waits for a signal any more."""

    code = "RUN_ENDED"


class WaitOver(Conflict):
    """The wait has ended; the answer says how."""

    code = "WAIT_OVER"


class CallbackTaken(Conflict):
    """Another report has come by this callback URL before; it takes one."""

    code = "CALLBACK_TAKEN"


class CallbackExpired(PipeWeaveError):
    """The time of this callback URL is over."""

    code = "CALLBACK_EXPIRED"
    status = 410


class StaleReport(Conflict):
    """The attempt that the report is about is over; nothing was changed."""

    code = "STALE_REPORT"


class Unavailable(PipeWeaveError):
    """A service that PipeWeave needs cannot be reached."""

    code = "UNAVAILABLE"
    status = 503


class ProviderUnavailable(Unavailable):
    """The OpenID provider cannot be reached, or does not say what it must."""

    code = "PROVIDER_UNAVAILABLE"


class ReadOnly(Unavailable):
    """PostgreSQL takes no writes at the moment."""

    code = "READ_ONLY"


class SchemaOutdated(Unavailable):
    """The database lacks the schema that this version needs."""

    code = "SCHEMA_OUTDATED"


class UploadNotUsable(InvalidInput):
    """An upload that the input names was deleted or has expired."""

    code = "UPLOAD_NOT_USABLE"
    status = 422


class UploadDeleted(PipeWeaveError):
    """The upload was deleted."""

    code = "UPLOAD_DELETED"
    status = 410


class CursorExpired(PipeWeaveError):
    """The events after this cursor do not exist any more, or belong to another database."""

    code = "CURSOR_EXPIRED"
    status = 410

    def __init__(self, detail: str) -> None:
        super().__init__(detail, hint="read the present state, and begin a new stream without a cursor")


class TooManyStreams(Unavailable):
    """The process serves as many streams as it may, to all or to this caller; poll, or try again later."""

    code = "TOO_MANY_STREAMS"


class SlowReader(PipeWeaveError):
    """The reader of a stream did not take its changes in time; it goes on from its cursor."""

    code = "SLOW_READER"
    status = 408


class NotJson(InvalidInput):
    """The stored object is not JSON."""

    code = "NOT_JSON"
    status = 422


class RangeNotSatisfiable(InvalidInput):
    """The object has no bytes in the requested range."""

    code = "RANGE_NOT_SATISFIABLE"
    status = 416


class WaitTimeout(PipeWeaveError):
    """The run did not end within the timeout."""

    code = "WAIT_TIMEOUT"
    status = 504


class RunFailed(PipeWeaveError):
    """The run did not complete.

    Raised by `Client.wait(…, check=True)` and `Run.checked`.
    """

    code = "RUN_FAILED"

    @property
    def run_id(self) -> str | None:
        """The run."""
        return self.context.get("run_id")

    @property
    def run_status(self) -> str | None:
        """The status that the run ended with: `failed`, `partial` or `cancelled`."""
        return self.context.get("run_status")

    @property
    def run_code(self) -> str | None:
        """The code of the error that ended the run, such as `RUN_TIMEOUT`."""
        return self.context.get("run_code")

    @property
    def run_message(self) -> str | None:
        """The message of the error that ended the run."""
        return self.context.get("run_message")

    @property
    def failed_steps(self) -> tuple[str, ...]:
        """The ids of the steps that failed."""
        return tuple(self.context.get("failed_steps", ()))


class AlreadyUp(Conflict):
    """PipeWeave is already running in this folder."""

    code = "ALREADY_UP"


class PortInUse(Conflict):
    """The port is in use."""

    code = "PORT_IN_USE"


class StartFailed(PipeWeaveError):
    """A process did not start."""

    code = "START_FAILED"


class MissingExtra(PipeWeaveError):
    """Packages that this command needs are not installed."""

    code = "MISSING_EXTRA"


class Busy(Unavailable):
    """PostgreSQL did not answer in time."""

    code = "BUSY"


class Deadlocked(Unavailable):
    """Two transactions blocked each other, and this one must start over."""

    code = "DEADLOCKED"


class PartlyFailed(PipeWeaveError):
    """Some of the items failed; the others are done.

    Args:
        done: how much was done.
        failures: what was raised, one for each item.
    """

    code = "PARTLY_FAILED"

    def __init__(self, done: int, failures: Iterable[Exception]) -> None:
        self.done = done
        self.failures = tuple(failures)
        super().__init__(f"{len(self.failures)} failed, {done} were done")


class TaskError(PipeWeaveError):
    """The task reported an error.

    Raised by users' tasks: `raise TaskError("card declined", code="CARD_DECLINED", retryable=False)`.

    Args:
        detail: what happened, for a person.
        code: a stable word that `retry_on`, error handlers and dead letters can match.
        retryable: whether another attempt may help.
        details: a JSON value that helps to understand the failure.
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
    """PipeWeave itself ended the attempt; another attempt would end the same way."""

    code = "ATTEMPT_FAILED"


class SecretNotFound(PipeWeaveError):
    """There is no secret of this name."""

    code = "SECRET_NOT_FOUND"
    status = 404


class SecretDenied(AttemptFailed):
    """The secret may not be read here, or cannot be used."""

    code = "SECRET_DENIED"


class InvalidParams(AttemptFailed):
    """The task's parameters do not fit its signature."""

    code = "INVALID_PARAMS"


class InvalidReference(AttemptFailed):
    """A reference in the step's params names a value that does not exist."""

    code = "INVALID_REFERENCE"


class ExpressionFailed(AttemptFailed):
    """An expression cannot be evaluated with the values that it was given."""

    code = "EXPRESSION_FAILED"


class InvalidWait(AttemptFailed):
    """What a step waits for is no time, name or person."""

    code = "INVALID_WAIT"


class InvalidLabels(AttemptFailed):
    """What a step requires of a worker is no label."""

    code = "INVALID_LABELS"


class InvalidAsyncResult(AttemptFailed):
    """A call that suspends itself does not say what it waits for."""

    code = "INVALID_ASYNC_RESULT"


class InvalidResult(AttemptFailed):
    """The task's result is not JSON, or too large."""

    code = "INVALID_RESULT"


class InvalidNextTasks(AttemptFailed):
    """The task chose steps that are not successors of its own step."""

    code = "INVALID_NEXT_TASKS"


class InvalidIdempotencyKey(AttemptFailed):
    """The task's idempotency_key function raised an error or returned an invalid key."""

    code = "INVALID_IDEMPOTENCY_KEY"


class DispatchFailed(PipeWeaveError):
    """The HTTP service of the task could not be reached, or did not take the dispatch."""

    code = "DISPATCH_FAILED"


class DispatchRefused(AttemptFailed):
    """The HTTP service of the task refused the dispatch for good."""

    code = "DISPATCH_REFUSED"


class TaskNotLoaded(AttemptFailed):
    """The worker has not loaded the task."""

    code = "TASK_NOT_LOADED"


class AttemptTimedOut(PipeWeaveError):
    """The attempt took longer than its task's time limit.

    Raised inside the task's function. The function may catch it to clean up; a few seconds later its process
    is killed.
    """

    code = "TIMEOUT"

    @classmethod
    def after(cls, seconds: float) -> AttemptTimedOut:
        """The error of an attempt that took longer than its limit (s)."""
        limit_ms = round(seconds * 1000)
        return cls(f"Operation timed out after {limit_ms}ms", timeoutMs=limit_ms)


class AttemptFenced(PipeWeaveError):
    """The worker no longer owns the attempt: the run was cancelled, or the attempt was declared lost.

    Raised inside the task's function. The result of the function is then ignored.
    """

    code = "FENCED"


class AttemptCancelled(PipeWeaveError):
    """The attempt was cancelled while it ran.

    Raised by `ctx.progress()` in an HTTP worker. The task should clean up and let it pass.
    """

    code = "CANCELLED"


class MemoryLimitExceeded(AttemptFailed):
    """The call took more memory than its task may."""

    code = "MEMORY_LIMIT_EXCEEDED"


class CpuLimitExceeded(AttemptFailed):
    """The call took more processor time than its task may."""

    code = "CPU_LIMIT_EXCEEDED"


class SandboxMemoryExceeded(AttemptFailed):
    """The call in the sandbox took more memory than it may."""

    code = "SANDBOX_MEMORY_EXCEEDED"


class SandboxCpuExceeded(AttemptFailed):
    """The call in the sandbox took more processor time than it may."""

    code = "SANDBOX_CPU_EXCEEDED"


class SandboxOutputTooLarge(AttemptFailed):
    """The call in the sandbox sent more than it may."""

    code = "SANDBOX_OUTPUT_TOO_LARGE"


class SandboxRefused(AttemptFailed):
    """The sandbox of the call does not allow this."""

    code = "SANDBOX_REFUSED"


class SandboxCrashed(PipeWeaveError):
    """The process of the sandbox ended, or answered with what is no answer."""

    code = "SANDBOX_CRASHED"


class SandboxUnavailable(PipeWeaveError):
    """This machine cannot keep the promises of a sandbox."""

    code = "SANDBOX_UNAVAILABLE"


class CorruptValue(AttemptFailed):
    """A value in storage is not the JSON that was stored there."""

    code = "CORRUPT_VALUE"


class MapSourceInvalid(AttemptFailed):
    """The value to map over is neither a list nor null, or the list or one of its items is too large."""

    code = "MAP_SOURCE_INVALID"


class TooManyChildren(AttemptFailed):
    """A map would have more child runs than one map may have."""

    code = "TOO_MANY_CHILDREN"


class InternalError(PipeWeaveError):
    """Something went wrong inside PipeWeave."""

    code = "INTERNAL_ERROR"
