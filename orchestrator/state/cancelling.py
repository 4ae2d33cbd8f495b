"""Cancels and skips task runs.

Each verb is one guarded UPDATE. Running attempts are fenced: their outcome finds no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from pipeweave.orchestrator.domain.events import CONDITION, Event, together
from pipeweave.orchestrator.domain.facts import ChildrenLeft
from pipeweave.orchestrator.domain.states import UNSTARTED_TASK, sql_in
from pipeweave.orchestrator.domain.states import TaskStatus as T
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state import keys_released, waits
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.releasing import UNDECIDED
from pipeweave.orchestrator.state.rows import read, task_run_ids
from pipeweave.orchestrator.state.task_transitions import Move, move
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append

# The error codes of steps that are skipped: because of a failure, or because their condition is false, so
# that they are passed over. A step that no predecessor chose has none.
PREDECESSOR_FAILED = "PREDECESSOR_FAILED"
CONDITION_FALSE = "CONDITION_FALSE"


_SKIP = Move(
    to=T.SKIPPED,
    changes=", finished_at = :now, error_code = :code",
    source=f"FROM {NAMED}",
    rows=by_key(),
    where=UNDECIDED,
)


def skip(tx: Transaction, run_id: UUID, ordinals: Sequence[int], *, code: str | None = None) -> list[TaskRun]:
    """Skip pending steps.

    Args:
        code: PREDECESSOR_FAILED after a failure, CONDITION_FALSE for steps that are passed over; None for
            steps that no predecessor chose.
    """
    if not ordinals:
        return []
    skipped = move(tx, run_id, _SKIP, {"ids": task_run_ids(run_id, ordinals), "code": code})
    cause = {"cause": CONDITION} if code == CONDITION_FALSE else {}
    append(tx, together("task_runs.skipped", skipped, errorCode=code, **cause))
    return skipped


def cancel_tasks(
    tx: Transaction, run_id: UUID, task_ids: Sequence[str], *, code: str, message: str
) -> list[TaskRun]:
    """Cancel the task runs of these tasks that no worker has claimed. Running attempts continue."""
    where = f"t.task_id = ANY(CAST(:task_ids AS text[])) AND t.status IN {sql_in(UNSTARTED_TASK)}"
    return _cancel(tx, run_id, where, {"task_ids": list(task_ids)}, code, message)


# A paused run fails or is cancelled; it does not end well. The statement that ends the run does not do this,
# because a pause that came while it waited for the row of the run is not in its snapshot.
_UNPAUSED = "unpaused AS (DELETE FROM run_pauses AS p WHERE p.run_id = :run_id)"


def cancel_all(
    tx: Transaction, run_id: UUID, *, code: str, message: str, end: Event | None = None
) -> list[TaskRun]:
    """Cancel every open task run of a run that this transaction has ended, and end its pause. Running
    attempts are fenced: their outcome will find no row.

    Args:
        end: the event of the end of their run, which is written behind theirs; None where the run goes on.
    """
    last = () if end is None else (end,)
    cancelled = _cancel(tx, run_id, "true", {}, code, message, *last, also=f", {_UNPAUSED}")
    if waits.forget_all(tx, run_id):
        tx.announce(ChildrenLeft(run_id))
    return cancelled


def _cancel(
    tx: Transaction,
    run_id: UUID,
    where: str,
    parameters: dict[str, Any],
    code: str,
    message: str,
    *last: Event,
    also: str = "",
) -> list[TaskRun]:
    error = orjson.dumps({"code": code, "message": message}).decode()
    # A row that was claimed after this transaction began has a later start; it must not finish before it.
    changes = """, finished_at = greatest(:now, t.started_at), error = CAST(:error AS jsonb),
        error_code = :code"""
    change = Move(to=T.CANCELLED, changes=changes, where=where)
    parameters = {"error": error, "code": code, "run_id": run_id, "now": tx.now, **parameters}
    cancelled = read(tx.execute(f"WITH {change.sql}{also} SELECT * FROM moved", parameters))
    append(tx, [*together("task_runs.cancelled", cancelled, errorCode=code), *last])
    keys_released.announce(tx, cancelled)
    return cancelled
