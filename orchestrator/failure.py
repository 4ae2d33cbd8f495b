"""How an attempt failed: an exception as a value that can be stored and judged."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeweave.errors import AttemptFailed, PipeWeaveError, TaskError

# Long enough for the deepest useful traceback, short enough for a row.
MAX_TRACEBACK = 16_000
MAX_MESSAGE = 4_000
MAX_CODE = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """What an attempt ended with: `type` is the exception's qualified name."""

    code: str
    message: str
    type: str
    retryable: bool = True
    traceback: str | None = None
    details: Any = None

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
        case AttemptFailed():
            return Failure(
                error.code, text, name, False, None, [each.to_json() for each in error.errors] or None
            )
        case PipeWeaveError():
            return Failure(error.code, text, name, True, _trace(error))
        case _:
            return Failure(type(error).__name__, text, name, True, _trace(error))


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
