"""The stored form of what another system says of a suspended call (pure).

It is `{status, result}` or `{status, error, details}`.
A callback and the final answer to a poll are stored in this form, and read when their wait ends.
"""

from __future__ import annotations

from typing import Any

from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.store.values import canonical
from pipeweave.safe_text import storable

COMPLETED, FAILED = "completed", "failed"
ASYNC_FAILED = "ASYNC_FAILED"
_FAILED = "Async operation failed"
MAX_ERROR_CHARS = 2_000
# So much of an error that is no text is kept with the failure (bytes of JSON).
MAX_DETAILS = 16 * 1024


def completed(result: Any) -> dict[str, Any]:
    """What is stored of a result."""
    return {"status": COMPLETED, "result": result}


def failed(error: Any) -> dict[str, Any]:
    """What is stored of a failure: small, whatever the other system says.

    Args:
        error: a text, or an object with a `message`, or anything.
    """
    message = error.get("message") if isinstance(error, dict) else error
    said = storable(message[:MAX_ERROR_CHARS]) if isinstance(message, str) else None
    is_kept = error is not None and not isinstance(error, str) and _is_small(error)
    return {"status": FAILED, "error": said, "details": error if is_kept else None}


def _is_small(error: Any) -> bool:
    try:
        return len(canonical(error)) <= MAX_DETAILS
    except InvalidInput:
        return False


def failure_of(payload: Any) -> Failure | None:
    """The failure of the attempt; None for a result."""
    if payload["status"] != FAILED:
        return None
    said = payload["error"]
    message = _FAILED if said is None else f"{_FAILED}: {said}"
    return Failure(ASYNC_FAILED, message, "AsyncFailed", details=payload["details"])


def result_of(payload: Any) -> Any:
    """The output of the step."""
    return payload["result"]
