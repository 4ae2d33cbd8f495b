"""Says of which kind an error of a step is, and how an expression sees it (pure).

The kinds are coarser than codes: a handler or a condition may ask for all time limits, or for all that an
expression could not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

ErrorKind = Literal[
    "STEP_EXECUTION",
    "TIMEOUT",
    "MAX_RETRIES_EXCEEDED",
    "VALIDATION",
    "EXPRESSION",
    "PARALLEL",
    "ADAPTER_NOT_FOUND",
    "ASYNC",
]
MAX_RETRIES_EXCEEDED: Final = "MAX_RETRIES_EXCEEDED"
_KINDS: Final[Mapping[str, ErrorKind]] = {
    "TIMEOUT": "TIMEOUT",
    "WAIT_TIMEOUT": "TIMEOUT",
    "HEARTBEAT_LOST": "TIMEOUT",
    "RUN_TIMEOUT": "TIMEOUT",
    "RUN_IDLE_TIMEOUT": "TIMEOUT",
    "INVALID_PARAMS": "VALIDATION",
    "INPUT_VALIDATION_FAILED": "VALIDATION",
    "EXPRESSION_FAILED": "EXPRESSION",
    "INVALID_REFERENCE": "EXPRESSION",
    "PARALLEL_FAILED": "PARALLEL",
    "ADAPTER_NOT_FOUND": "ADAPTER_NOT_FOUND",
    "INVALID_ASYNC_RESULT": "ASYNC",
    "POLL_TRIES_EXCEEDED": "ASYNC",
    "ASYNC_FAILED": "ASYNC",
}


def kind_of(code: str | None, attempts: int) -> ErrorKind:
    """The kind of an error.

    Args:
        code: its code.
        attempts: how often its step was tried.
    """
    known = _KINDS.get(code or "")
    return known or (MAX_RETRIES_EXCEEDED if attempts > 1 else "STEP_EXECUTION")


def as_seen(step_id: str, code: str | None, error: Mapping[str, Any] | None, attempts: int) -> dict[str, Any]:
    """An error as an expression sees it: {step, code, message, kind, attempts, details}."""
    stored, kind = error or {}, kind_of(code, attempts)
    message = stored.get("message")
    if kind == MAX_RETRIES_EXCEEDED:
        message = f"Max retries ({attempts}) exceeded for step {step_id}: {message}"
    return {
        "step": step_id,
        "code": code,
        "message": message,
        "kind": kind,
        "attempts": attempts,
        "details": stored.get("details"),
    }
