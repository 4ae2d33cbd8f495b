"""Reads what a call in a box said at its end. Whatever it is, what is made of it can be stored."""

from __future__ import annotations

from typing import Any

import orjson

from pipeweave.authoring import RaisedElsewhere, Suspend, TaskResult
from pipeweave.authoring.raised import MAX_MESSAGE, MAX_TRACEBACK, Raised
from pipeweave.errors import InvalidResult, SandboxCrashed, SandboxOutputTooLarge
from pipeweave.json_conversion import details_of
from pipeweave.option_checks import MAX_CODE
from pipeweave.safe_text import storable
from pipeweave.size_limits import MAX_OUTPUT_BYTES


def value_of(answer: tuple[dict[str, Any], bytes]) -> Any:
    """What the function returned: a TaskResult or a Suspend, to be checked like what any function returns.

    Raises:
        RaisedElsewhere: it raised.
        InvalidResult, SandboxOutputTooLarge, SandboxCrashed: what came is no result.
    """
    message, encoded = answer
    if "failed" in message:
        raise RaisedElsewhere(_raised(message))
    if len(encoded) > MAX_OUTPUT_BYTES:
        raise SandboxOutputTooLarge(f"the output has more than {MAX_OUTPUT_BYTES:,} bytes")
    if (suspend := message.get("suspend")) is not None:
        return _suspend(suspend)
    try:
        output = orjson.loads(encoded)
    except ValueError as error:
        raise InvalidResult(f"the output of the sandbox is not JSON: {error}") from None
    chosen = message.get("run_next")
    if chosen is not None and not (
        isinstance(chosen, list) and all(isinstance(each, str) for each in chosen)
    ):
        raise SandboxCrashed("the sandbox chose no list of steps")
    return TaskResult(output, chosen)


def _raised(message: dict[str, Any]) -> Raised:
    return Raised(
        _text(message, "code", MAX_CODE) or "ERROR",
        _text(message, "message", MAX_MESSAGE),
        _text(message, "type", MAX_MESSAGE) or "Exception",
        message.get("retryable") is not False,
        _text(message, "traceback", MAX_TRACEBACK) or None,
        details_of(message.get("details")),
    )


def _text(message: dict[str, Any], name: str, most: int) -> str:
    value = message.get(name)
    return storable(value)[:most] if isinstance(value, str) else ""


def _suspend(value: Any) -> Suspend:
    """Read as a dict of a task would be, so that the same rules refuse the same values."""
    if not isinstance(value, dict):
        raise SandboxCrashed("the sandbox suspended itself and did not say how")
    url, timeout = value.get("url"), value.get("timeout_ms")
    seconds = None if timeout is None else _number(timeout) / 1000
    if url is None:
        return Suspend.callback(timeout=seconds)
    interval = value.get("interval_ms")
    return Suspend.poll(
        url,
        interval=None if interval is None else _number(interval) / 1000,
        tries=value.get("tries"),
        timeout=seconds,
    )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SandboxCrashed("the sandbox suspended itself and did not say how long")
    return value
