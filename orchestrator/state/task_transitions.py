"""Makes the guarded UPDATE that changes the status of task runs and writes the event in the same statement.

No other UPDATE changes such a status. A late worker, a doubled message and a racing cancel change no row, and
the answer does not contain it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import states
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state.rows import COLUMNS, read
from pipeweave.orchestrator.store.database import Transaction


def status_is(status: TaskStatus) -> str:
    """SQL: whether the row has this status, for a statement that names its rows by their keys.

    The expression matches no partial index on purpose: a plan that reads the index of all queued rows instead
    of the key gets slower as the queue grows.
    """
    return f"t.status || '' = '{status.value}'"


@dataclass(frozen=True, slots=True)
class OneOf:
    """A new status that SQL chooses for each row.

    Args:
        sql: SQL of the status.
        statuses: the statuses that it can give.
    """

    sql: str
    statuses: tuple[TaskStatus, ...]


@dataclass(frozen=True, slots=True)
class MoveEvent:
    """The event that a move writes for each row `m` that it moved.

    Args:
        type: SQL of its type.
        data: SQL of its data.
        attempt: SQL of its attempt.
    """

    type: str
    data: str = "CAST(NULL AS jsonb)"
    attempt: str = "m.attempt"


def logged(*events: str) -> str:
    """SQL of the common table expression that writes the events of a statement.

    One INSERT for all: PostgreSQL runs the INSERTs of a statement in any order, and who reads a run up to its
    end would miss its last step. It also costs PostgreSQL less than two.

    Args:
        events: SELECTs of events, such as `Move.events`, in the order of their numbers: what causes others
            comes before them.
    """
    return f"""logged AS (
        INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
        {" UNION ALL ".join(events)})"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The only UPDATE of a task run's status.

    `update` is a common table expression of the rows that moved, `sql` has the INSERT of their events, too.

    The guard has the statuses that the state machine lets a row leave for every status of `to`.

    Args:
        to: the new status.
        changes: SQL of further columns to set, after a comma.
        where: SQL of a condition on the rows `t`, in addition to the guard and to `rows`.
        source: a FROM clause.
        rows: SQL of the condition that names the rows: by_key(), or their run.
        returning: SQL of further columns of the moved rows, after a comma.
        event: None when the caller writes one event for all rows.
        name: the name of the common table expression.
        reopens: allow the moves out of a final status, because a dead letter is retried.
        stays: rows that have the new status already change, too.
    """

    to: TaskStatus | OneOf
    changes: str = ""
    where: str
    source: str = ""
    rows: str = "t.run_id = :run_id"
    returning: str = ""
    event: MoveEvent | None = None
    name: str = "moved"
    reopens: bool = False
    stays: bool = False

    @property
    def sql(self) -> str:
        """The UPDATE, and the INSERT of its events."""
        return self.update if self.event is None else f"{self.update}, {logged(self.events)}"

    @property
    def update(self) -> str:
        """The UPDATE alone, for a statement that writes the events of several moves: see `logged`."""
        to = f"'{self.to.value}'" if isinstance(self.to, TaskStatus) else self.to.sql
        return f"""{self.name} AS (
        UPDATE task_runs AS t SET status = {to}{self.changes} {self.source}
        WHERE {self.rows} AND t.status IN ({self._guard}) AND {self.where}
        RETURNING {COLUMNS}, t.output_hash, t.selected_next{self.returning})"""

    @property
    def events(self) -> str:
        """The SELECT of its events."""
        assert self.event is not None
        return f"""SELECT m.run_id, :now, {self.event.type}, m.id, {self.event.attempt}, {self.event.data}
        FROM {self.name} AS m"""

    @property
    def _guard(self) -> str:
        may_leave = states.task_reopened_from if self.reopens else states.task_before
        outcomes = (self.to,) if isinstance(self.to, TaskStatus) else self.to.statuses
        before = set.intersection(*(set(may_leave(outcome)) for outcome in outcomes))
        before |= {outcome.value for outcome in outcomes} if self.stays else set()
        return ", ".join(f"'{status}'" for status in sorted(before))


def move(tx: Transaction, run_id: UUID, change: Move, parameters: dict[str, Any]) -> list[TaskRun]:
    """Move rows of one run; returns the rows that moved.

    Args:
        change: the move; `:run_id` and `:now` are given.
        parameters: the other parameters of its SQL.
    """
    common_parameters = {"run_id": run_id, "now": tx.now}
    return read(tx.execute(f"WITH {change.sql} SELECT * FROM moved", common_parameters | parameters))
