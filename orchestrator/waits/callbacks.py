"""Takes the reports on suspended calls: each token takes one, while its attempt runs or waits.

A report may come before its wait, while the worker is still inside the call: it is kept, and the first look
at the wait finds it. If the attempt fails instead, nobody takes it: its name has the old attempt.
"""

from __future__ import annotations

from typing import Any

import orjson

from pipeweave import ids
from pipeweave.callback_tokens import Callback
from pipeweave.errors import CallbackExpired, CallbackTaken, NotFound, RunHasEnded, TooManySignals, WaitOver
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import callback_name
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.state import handled_errors, signals
from pipeweave.orchestrator.state.signals import MAX_UNTAKEN, NewSignal
from pipeweave.orchestrator.store.database import Transaction

# The largest report (bytes).
MAX_BODY_BYTES = 1_000_000
ONCE = "callback"
_GOES_ON = (TaskStatus.RUNNING, TaskStatus.WAITING)

# Of the same attempt: an extended wait lets its token live as long.
_ROW = """
SELECT t.tenant_id, t.status, t.attempt, t.error_code, coalesce(r.root_run_id, r.id) AS root_run_id,
    (SELECT w.timeout_at FROM waits AS w WHERE w.run_id = t.run_id AND w.task_run_id = t.id
        AND w.attempt = :attempt) AS timeout_at
FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id WHERE t.run_id = :run_id AND t.id = :id
"""
_BEFORE = """
SELECT s.size, s.payload_path, s.payload = CAST(:payload AS jsonb) AS is_same FROM signals AS s
WHERE s.run_id = :run_id AND s.name = :name AND s.once = :once
"""


def receive(tx: Transaction, named: Callback, payload: KeptValue) -> bool:
    """Store a report; what waits for it goes on.

    Args:
        named: what its token names.
        payload: the report, in its stored form (`pipeweave/async_reports.py`).

    Returns:
        Whether it was stored now; False when it had come before.

    Raises:
        NotFound: the task run is not there any more.
        CallbackTaken: another report has come before.
        CallbackExpired: the token's time is over.
        WaitOver: the attempt is over.
        TooManySignals: nothing has taken MAX_UNTAKEN signals of the run.
        Unavailable: maintenance has begun.
    """
    maintenance_mode.check_open(tx)
    run_id = ids.run_id_of(named.task_run_id)
    parameters = {"run_id": run_id, "id": named.task_run_id, "attempt": named.attempt}
    row: Any = tx.execute(_ROW, parameters).one_or_none()
    if row is None:
        raise NotFound("there is no such callback")
    name = callback_name(named.task_run_id, named.attempt)
    signal = NewSignal(row.root_run_id, row.tenant_id, name, payload, ONCE)
    if _has_come(tx, signal):
        return False
    _check_goes_on(row, named, tx)
    sent = signals.send(
        tx,
        signal,
        event="run.signalled",
        data=orjson.dumps({"name": signal.name}).decode(),
        about=named.task_run_id,
    )
    if sent.is_repeated:
        # The same report came by another connection, a moment ago.
        _has_come(tx, signal)
        return False
    if sent.id is None and sent.has_ended:
        raise RunHasEnded(f"run {ids.show(ids.RUN, run_id)} is final: nothing of it waits any more")
    if sent.id is None:
        raise TooManySignals(
            f"nothing has taken {MAX_UNTAKEN:,} signals of this run", hint="send it again later"
        )
    return True


def _has_come(tx: Transaction, signal: NewSignal) -> bool:
    kept = signal.payload
    parameters = {"run_id": signal.run_id, "name": signal.name, "once": signal.once, "payload": kept.inline}
    before: Any = tx.execute(_BEFORE, parameters).one_or_none()
    if before is None:
        return False
    # The path of a large value follows from its content.
    if before.size != kept.size or before.payload_path != kept.path or before.is_same is False:
        raise CallbackTaken("another report has come by this URL", hint="each URL takes one report")
    return True


def _check_goes_on(row: Any, named: Callback, tx: Transaction) -> None:
    lives_until = max(named.expires_at, row.timeout_at or named.expires_at)
    if tx.now >= lives_until:
        raise CallbackExpired("the time of this callback URL is over")
    is_over = row.status not in _GOES_ON or handled_errors.is_handled(row)
    if row.attempt != named.attempt or is_over:
        shown = ids.show(ids.TASK_RUN, named.task_run_id)
        raise WaitOver(
            f"attempt {named.attempt} of {shown} is over: attempt {row.attempt} is {row.status}",
            taskRunId=shown,
            attempt=row.attempt,
            taskRunStatus=row.status,
        )
