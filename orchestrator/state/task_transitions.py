"""The one way in which a task run's status changes: a guarded UPDATE with its event in the same statement.

A late worker, a doubled message and a racing cancel all end the same way: the row does not change and is not
in the answer.
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
    """SQL: the status of rows that are named by their keys.

    Not in the words of the partial indexes: one of those, taken instead of the key, costs as much as the
    whole queue is long.
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
    """Move rows and return those that moved; see `move_sql`."""
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
        name: of the expression, for what follows.
        to: SQL of the new status.
        outcomes: what `to` can be; the state machine decides which statuses may be left for all of them.
        changes: more columns to set.
        where: which rows of the run, beside the guard.
        source: a FROM clause.
        event: SQL-quoted type of the event written for each row that moved; None where one tells of all.
        data: SQL of the event's data, in terms of the moved row `m`.
        returning: more columns of the moved row `m`.
        attempt: SQL of the event's attempt.
        reopens: leave a final status, because a dead letter is retried.
        run: SQL that says which run, or runs, the rows are of.
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
