"""Reads what a report says of an attempt's result: its output, assets, log or error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeweave.authoring.raised import MAX_MESSAGE, MAX_TRACEBACK
from pipeweave.errors import FieldError, InvalidInput, InvalidResult
from pipeweave.orchestrator.dispatch.payload import asset_path, logs_path, output_path
from pipeweave.orchestrator.dispatch.report import Report
from pipeweave.orchestrator.dispatch.taken_objects import TakenObjects
from pipeweave.orchestrator.domain.failure import Failure, Outcome, uncounted
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.safe_text import storable
from pipeweave.size_limits import MAX_ASSETS
from pipeweave.storage.references import ObjectRef

_KEY = re.compile(r"(?!\.{1,2}\Z)[^/\\\x00-\x1f]{1,200}\Z")

# How an attempt ended whose worker gives one of these codes. A worker that stops is no fault of the task, so
# the next attempt follows at once; it is counted, because a worker may say so again and again.
_OUTCOMES = {"TIMEOUT": Outcome.TIMEOUT, "WORKER_STOPPED": Outcome.INTERRUPTED}

# Codes of failures for which another attempt would end the same way.
_FINAL_CODES = frozenset({"INVALID_NEXT_TASKS"})


def output(taken: TakenObjects, report: Report, dispatch_id: str) -> KeptValue:
    """The output of a successful attempt, as it is stored.

    Raises:
        InvalidResult: it is no JSON, or too large.
        NotFound: the service did not store it.
        InvalidInput: its path is not that of the attempt.
        Unavailable: storage cannot be reached.
    """
    if report.output_path is None:
        try:
            return taken.values.keep_output(report.output, taken.backend)
        except InvalidInput as error:
            raise InvalidResult(error.detail) from error
    path = output_path(dispatch_id)
    if report.output_path != path:
        raise _foreign("outputPath", report.output_path, path)
    return taken.output(path)


def own_path(path: str | None, field: str, dispatch_id: str, backend: str) -> str | None:
    """The reference of a log path, checked.

    Raises:
        InvalidInput: it is not that of the attempt.
    """
    if path is None:
        return None
    if path != logs_path(dispatch_id):
        raise _foreign(field, path, logs_path(dispatch_id))
    return str(ObjectRef(backend, path))


def assets(
    reported_assets: Mapping[str, Mapping[str, Any]] | None, dispatch_id: str
) -> Mapping[str, Mapping[str, Any]]:
    """The assets of a report, checked; their content was not looked at.

    Raises:
        InvalidInput: a key or a path is wrong, or there are too many.
    """
    if not reported_assets:
        return {}
    if len(reported_assets) > MAX_ASSETS:
        fault = FieldError(
            "assets", f"has {len(reported_assets):,} entries", "limit_exceeded", f"at most {MAX_ASSETS:,}"
        )
        raise InvalidInput(f"an attempt has at most {MAX_ASSETS:,} assets", errors=[fault])
    for key, each in reported_assets.items():
        if not is_asset_key(key):
            expected = "1 to 200 characters without slashes and control characters"
            fault = FieldError("assets", f"has the key {key[:80]!r}", "invalid", expected)
            raise InvalidInput(f"{key[:80]!r} is not the key of an asset", errors=[fault])
        if each["path"] != asset_path(dispatch_id, key):
            raise _foreign(f"assets.{key}.path", str(each["path"]), asset_path(dispatch_id, key))
    return reported_assets


def failure(report: Report, logs: str | None) -> Failure:
    """The failure that a report tells of. One of a task that was not called is not counted, unless no other
    attempt can help.
    """
    code = storable(report.error_code or "TASK_FAILED")[:200]
    message = storable(report.error or "the worker gave no error message")[:MAX_MESSAGE]
    stack = None if report.stack is None else storable(report.stack)[:MAX_TRACEBACK]
    task_failure = Failure(
        code,
        message,
        code,
        report.retryable and code not in _FINAL_CODES,
        stack,
        report.details,
        _OUTCOMES.get(code, Outcome.FAILED),
        logs_path=logs,
    )
    return task_failure if report.begun or not task_failure.retryable else uncounted(task_failure)


def is_asset_key(key: str) -> bool:
    """Whether an asset may have this key: 1 to 200 characters without slashes and control characters."""
    return _KEY.match(key) is not None


def _foreign(field: str, path: str, expected: str) -> InvalidInput:
    fault = FieldError(field, f"is {path[:200]!r}", "invalid", expected)
    return InvalidInput(f"{field} is not a path of this attempt", errors=[fault])
