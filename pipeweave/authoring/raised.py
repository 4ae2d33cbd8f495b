"""Describe the exception that a task raised: the same words in every kind of worker."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from pipeweave import masking
from pipeweave.authoring.retry import classify_error
from pipeweave.errors import AttemptFailed, AttemptTimedOut, TaskError, TaskNotLoaded
from pipeweave.json_conversion import details_of
from pipeweave.safe_text import call_safely, safe_text, storable

# Long enough for the deepest useful traceback, short enough for a row.
MAX_TRACEBACK = 16_000
MAX_MESSAGE = 4_000

# The modules that call users' functions.
_CALLERS = ("pipeweave.workers.", "pipeweave.http_worker.", "pipeweave.box.", "pipeweave.authoring.adapter")


@dataclass(frozen=True, slots=True)
class Raised:
    """What can be stored of an exception, whatever it contains.

    Args:
        type: the exception's qualified name.
        retryable: whether another attempt may help.
        traceback: of users' code; None for an error that says all in its message.
        details: a JSON value that a TaskError carries, the mistakes of an AttemptFailed, or the limit of an
            AttemptTimedOut, {timeoutMs}.
    """

    code: str
    message: str
    type: str
    retryable: bool
    traceback: str | None = None
    details: Any = None


class RaisedElsewhere(Exception):
    """The exception of a task's function that another process called, and described."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.message)
        self.raised = raised


def describe(error: BaseException) -> Raised:
    """Describe an exception that ended an attempt, without the values of secrets that it resolved."""
    if isinstance(error, RaisedElsewhere):
        return _masked(error.raised)
    code, is_retryable = classify_error(error)
    code = _hidden(code)
    kind = type(error)
    named = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    name = storable(named)[:MAX_MESSAGE]
    text = _hidden(safe_text(str, error))[:MAX_MESSAGE] or storable(kind.__name__)[:MAX_MESSAGE]
    match error:
        case TaskError():
            return Raised(code, text, name, is_retryable, _trace(error), _details(error.details))
        case TaskNotLoaded():
            # Another worker of the service, newer or older, may have it.
            return Raised(code, text, name, is_retryable)
        case AttemptFailed():
            return Raised(code, text, name, is_retryable, None, call_safely(lambda: _shown(error), None))
        case AttemptTimedOut():
            # A function may raise it, too, with whatever it likes.
            return Raised(code, text, name, is_retryable, _trace(error), _details(error.context or None))
        case _:
            return Raised(code, text, name, is_retryable, _trace(error))


def users_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an exception without the frames of the worker that called the function."""
    trace = error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(_CALLERS):
        trace = trace.tb_next
    return trace or error.__traceback__


def _trace(error: BaseException) -> str:
    shown = type(error), error, users_traceback(error)
    lines = _hidden(call_safely(lambda: "".join(traceback.format_exception(*shown)), ""))
    return storable(lines if len(lines) <= MAX_TRACEBACK else "…" + lines[-MAX_TRACEBACK:])


def _hidden(text: str) -> str:
    # Before it is cut: half of a secret would not be known as one.
    masks = masking.current()
    return text if masks is None else masks.text(text)


def _masked(raised: Raised) -> Raised:
    """The same without the values of secrets, which the other process may not know as such."""
    return replace(
        raised,
        code=_hidden(raised.code),
        message=_hidden(raised.message),
        traceback=None if raised.traceback is None else _hidden(raised.traceback),
        details=_details(raised.details),
    )


def _details(value: Any) -> Any:
    masks = masking.current()
    return details_of(value) if masks is None else masks.json(details_of(value))


def _shown(error: AttemptFailed) -> list[dict[str, str]] | None:
    # The paths in a result contain its keys, and a key may be what cannot be stored.
    faults = [each.to_json().items() for each in error.errors]
    return [
        {key: _hidden(safe_text(str, value))[:MAX_MESSAGE] for key, value in each} for each in faults
    ] or None
