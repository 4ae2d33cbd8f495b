"""End the calls that suspend themselves, at once: by what the test reports, or when their time is over."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from pipeweave import async_reports
from pipeweave.async_reports import ASYNC_FAILED
from pipeweave.authoring import Suspend
from pipeweave.callback_tokens import PATH
from pipeweave.durations import in_words
from pipeweave.errors import InvalidInput, TaskError
from pipeweave.json_values import json_faults
from pipeweave.size_limits import MAX_JSON_DEPTH
from pipeweave.spec import NO_ASYNC_DEFAULTS, StepSpec
from pipeweave.spec.async_defaults import DEFAULT_INTERVAL_MS, DEFAULT_POLL_MS, DEFAULT_TRIES
from pipeweave.testing.local_answers import NOTHING, Asking
from pipeweave.testing.local_waits import Ended

POLL_TRIES_EXCEEDED: Final = "POLL_TRIES_EXCEEDED"
WAIT_TIMEOUT: Final = "WAIT_TIMEOUT"


def _checked(report: Any, step: StepSpec, place: str) -> Any:
    """A report as it is read. Raises InvalidInput if it is not JSON."""
    if faults := json_faults(report, place, max_depth=MAX_JSON_DEPTH):
        raise InvalidInput(f"{faults[0].field} {faults[0].message}", errors=faults)
    return orjson.loads(orjson.dumps(report))


# Its answers are what other systems report.
SUSPENDED = Asking("callbacks", "task step", lambda step: step.has_task, _checked)


def callback_url(task_run_id: str, attempt: int) -> str:
    """What an attempt hands on as its `ctx.callback_url`. Nothing listens there."""
    return f"https://pipeweave.invalid{PATH}{task_run_id}.{attempt}"


def end_of_call(step: StepSpec, suspend: Suspend, report: Any, start: datetime) -> Ended:
    """How the wait of a call ended.

    Args:
        step: the one that was called.
        suspend: what the call waits for.
        report: what the other system said; NOTHING where it said nothing.
        start: when the wait began.
    """
    read = async_reports.of_callback if suspend.url is None else async_reports.of_poll
    stored = None if report is NOTHING else read(report)
    if stored is None:
        return _unanswered(step, suspend, start)
    if (message := async_reports.message_of(stored)) is not None:
        return Ended(start, error=TaskError(message, code=ASYNC_FAILED, details=stored["details"]))
    return Ended(start, async_reports.result_of(stored))


def _unanswered(step: StepSpec, suspend: Suspend, start: datetime) -> Ended:
    defaults = step.suspends or NO_ASYNC_DEFAULTS
    if suspend.url is None:
        timeout_ms = suspend.timeout_ms or defaults.callback_ms
        return _timed_out("nobody reported to the callback URL", timeout_ms, start)
    timeout_ms = suspend.timeout_ms or defaults.poll_timeout_ms or DEFAULT_POLL_MS
    interval_ms = suspend.interval_ms or defaults.interval_ms or DEFAULT_INTERVAL_MS
    tries = suspend.tries or defaults.tries or DEFAULT_TRIES
    # The last try has its interval to be answered in.
    if tries * interval_ms >= timeout_ms:
        return _timed_out("the polled URL gave no final answer", timeout_ms, start)
    error = TaskError(f"Max poll attempts ({tries}) exceeded", code=POLL_TRIES_EXCEEDED)
    return Ended(start + timedelta(milliseconds=tries * interval_ms), error=error)


def _timed_out(what: str, timeout_ms: int, start: datetime) -> Ended:
    error = TaskError(f"{what} within {in_words(timeout_ms)}", code=WAIT_TIMEOUT)
    return Ended(start + timedelta(milliseconds=timeout_ms), error=error, is_timeout=True)
