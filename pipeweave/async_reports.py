"""Reads what another system says of a suspended call, for the server and for `pipeweave.testing` (pure).

The stored form is `{status, result}` or `{status, error, details}`.
A callback and the final answer to a poll are stored in this form, and read when their wait ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeweave.json_values import json_faults, write_json
from pipeweave.safe_text import storable
from pipeweave.size_limits import MAX_JSON_DEPTH

COMPLETED, FAILED = "completed", "failed"
ASYNC_FAILED: Final = "ASYNC_FAILED"
_FAILED = "Async operation failed"
MAX_ERROR_CHARS = 2_000
# So much of an error that is no text is kept with the failure (bytes of JSON).
MAX_DETAILS = 16 * 1024


def of_callback(body: Any) -> dict[str, Any]:
    """A report as it is stored: `{status: completed | success | failed, result, error}`, or any other body,
    which is the result.
    """
    status = body.get("status") if isinstance(body, dict) else None
    if status == FAILED:
        return _failed(body.get("error"))
    if status in (COMPLETED, "success"):
        return _completed(body.get("result"))
    return _completed(body)


def of_poll(answer: Any) -> dict[str, Any] | None:
    """An answer to a poll as it is stored; None if it is not final, so that the URL is asked again."""
    status = answer.get("status") if isinstance(answer, dict) else None
    if status == FAILED:
        return _failed(answer.get("error"))
    return _completed(answer) if status == COMPLETED else None


def _completed(result: Any) -> dict[str, Any]:
    return {"status": COMPLETED, "result": result}


def _failed(error: Any) -> dict[str, Any]:
    """What is stored of a failure: small, whatever the other system says.

    Args:
        error: a text, or an object with a `message`, or anything.
    """
    message = error.get("message") if isinstance(error, dict) else error
    said = storable(message[:MAX_ERROR_CHARS]) if isinstance(message, str) else None
    is_kept = error is not None and not isinstance(error, str) and _is_small(error)
    return {"status": FAILED, "error": said, "details": error if is_kept else None}


def _is_small(error: Any) -> bool:
    faults = json_faults(error, budget=MAX_DETAILS, max_depth=MAX_JSON_DEPTH)
    return not faults and len(write_json(error)) <= MAX_DETAILS


def message_of(stored: Mapping[str, Any]) -> str | None:
    """The message of a failure; None for a result."""
    if stored["status"] != FAILED:
        return None
    return _FAILED if stored["error"] is None else f"{_FAILED}: {stored['error']}"


def result_of(stored: Mapping[str, Any]) -> Any:
    """The output of the step."""
    return stored["result"]
