"""Makes the guarded UPDATE that changes the status of task runs and writes the event in the same statement.

No other UPDATE changes such a status. A late worker, a doubled message and a racing cancel change no row, and
the answer does not contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import states
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state.rows import COLUMNS, read
from pipeweave.orchestrator.store.database import Transaction

NO_DATA = "CAST(NULL AS jsonb)"


def status_is(status: TaskStatus) -> str:
    """SQL: whether the row has this status, for a statement that names its rows by their keys.

    The expression matches no partial index on purpose: a plan that reads the index of all queued rows instead
    of the key gets slower as the queue grows.
    """
    return f"t.status || '' = '{status.value}'"


def move(
    tx: Transaction,
    run_id: UUID,
    to: TaskStatus,
    changes: str,
    where: str,
    parameters: dict[str, Any],
    *,
    source: str = "",
    event: str | None = None,
    data: str = NO_DATA,
) -> list[TaskRun]:
    """Change the status of rows of one run; returns the rows that changed. Arguments as in `move_sql`."""
    moving = move_sql("moved", f"'{to.value}'", [to], changes, where, source=source, event=event, data=data)
    guard = {"run_id": run_id, "now": tx.now}
    return read(tx.execute(f"WITH {moving} SELECT * FROM moved", guard | parameters))


def move_sql(
    name: str,
    to: str,
    outcomes: Sequence[TaskStatus],
    changes: str,
    where: str,
    *,
    source: str = "",
    event: str | None = None,
    data: str = NO_DATA,
    returning: str = "",
    attempt: str = "m.attempt",
    reopens: bool = False,
    run: str = "t.run_id = :run_id",
) -> str:
    """The only UPDATE of a task run's status, as a common table expression.

    Args:
        name: the name of the common table expression.
        to: SQL of the new status.
        outcomes: the statuses that `to` can give; the guard holds for statuses that may be left for each.
        changes: SQL of further columns to set, after a comma.
        where: SQL of a condition on the rows `t`, in addition to the guard.
        source: a FROM clause.
        event: SQL of the type of the event that is written for each row; None when the caller writes one
            event for all rows.
        data: SQL of the event's data, from the moved row `m`.
        returning: further columns of the moved row `m`, after a comma.
        attempt: SQL of the event's attempt.
        reopens: allow the moves out of a final status, because a dead letter is retried.
        run: SQL of the condition that names the run or the runs.
    """
    may_leave = states.task_reopened_from if reopens else states.task_before
    before = set.intersection(*(set(may_leave(each)) for each in outcomes))
    guard = ", ".join(f"'{each}'" for each in sorted(before))
    moving = f"""{name} AS (
        UPDATE task_runs AS t SET status = {to}{changes} {source}
        WHERE {run} AND t.status IN ({guard}) AND {where}
        RETURNING {COLUMNS}, t.output_hash, t.selected_next{returning})"""
    if event is None:
        return moving
    return f"""{moving}, {name}_logged AS (
        INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
        SELECT m.run_id, :now, {event}, m.id, {attempt}, {data} FROM {name} AS m)"""
