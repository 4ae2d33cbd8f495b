"""Lets calls wait that have suspended themselves: their work goes on elsewhere, and its result comes later.

The attempt stays the one that it was, and keeps its task's slot: the system that it asked still works for it.
`waits/looking.py` ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pipeweave.authoring import Suspend
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Suspended, TaskRun
from pipeweave.orchestrator.domain.waits import (
    CALLBACK,
    POLL,
    NewWait,
    SuspendedAttempt,
    callback_name,
    poll_name,
)
from pipeweave.orchestrator.state import waits
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import NO_ASYNC_DEFAULTS, AsyncDefaults
from pipeweave.spec.async_defaults import DEFAULT_INTERVAL_MS, DEFAULT_POLL_MS, DEFAULT_TRIES


def suspend(
    tx: Transaction, run: RunHeader, suspended: Sequence[Suspended], *, max_retry_delay_ms: int | None
) -> list[TaskRun]:
    """Let these attempts wait. Those that are fenced are left out of the answer.

    Args:
        max_retry_delay_ms: no retry waits for longer (ms); None for no such limit.
    """
    new = [new_wait(run, each, tx.now, max_retry_delay_ms=max_retry_delay_ms) for each in suspended]
    return waits.suspend(tx, run, new)


def new_wait(
    run: RunHeader, suspended: Suspended, now: datetime, *, max_retry_delay_ms: int | None
) -> NewWait:
    """The wait of a call that has suspended itself.

    Args:
        now: when it begins.
        max_retry_delay_ms: as for `suspend`.
    """
    task_run, suspend = suspended.task_run, suspended.suspend
    defaults = run.async_defaults(task_run.step_id) or NO_ASYNC_DEFAULTS
    attempt = SuspendedAttempt(task_run.attempt, task_run.worker, suspended.assets, suspended.logs_path)
    # Who looks later does not know the settings of the process that called.
    data: dict[str, Any] = {"maxRetryDelayMs": max_retry_delay_ms}
    if suspend.url is None:
        names = (callback_name(task_run.id, task_run.attempt),)
        timeout_ms = suspend.timeout_ms or defaults.callback_ms
        return NewWait(task_run.id, CALLBACK, names, now, _after(now, timeout_ms), data, attempt)
    data |= _polled(suspend, suspend.url, defaults)
    names = (poll_name(task_run.id, task_run.attempt),)
    timeout_ms = suspend.timeout_ms or defaults.poll_timeout_ms or DEFAULT_POLL_MS
    return NewWait(task_run.id, POLL, names, now, _after(now, timeout_ms), data, attempt)


def _polled(suspend: Suspend, url: str, defaults: AsyncDefaults) -> dict[str, Any]:
    return {
        "url": url,
        "intervalMs": suspend.interval_ms or defaults.interval_ms or DEFAULT_INTERVAL_MS,
        "maxTries": suspend.tries or defaults.tries or DEFAULT_TRIES,
        "tries": 0,
    }


def _after(now: datetime, ms: int) -> datetime:
    return now + timedelta(milliseconds=ms)
