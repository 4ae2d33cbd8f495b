"""Finds queued task runs that come before the task runs of a message: exact priorities.

A message only wakes a worker, and Redis has four priority levels: 60 and 70 share one. While a queue holds
task runs of different priorities, which the parent of each worker checks once a second, a worker that takes a
message asks here first and starts the best task runs of the queue instead of those of the message. While all
queued task runs have one priority, workers do not ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.pause_sql import IS_PAUSED
from pipeweave.orchestrator.state.task_transitions import status_is
from pipeweave.orchestrator.store.database import Transaction

_QUEUED = "FROM task_runs AS t WHERE t.status = 'queued' AND t.queue = :queue"
# Two index look-ups for each queue, however long it is.
_IN_EACH = "FROM task_runs AS t WHERE t.status = 'queued' AND t.queue = q.queue"
# SQL: whether one of the queues of a worker `w` holds task runs of different priorities.
IS_MIXED = f"""CASE WHEN EXISTS (SELECT 1 FROM task_runs AS t WHERE t.status = 'queued') THEN coalesce((
    SELECT bool_or((SELECT t.priority {_IN_EACH} ORDER BY t.priority LIMIT 1)
        < (SELECT t.priority {_IN_EACH} ORDER BY t.priority DESC LIMIT 1))
    FROM unnest(w.queues) AS q(queue)), false) ELSE false END"""


@dataclass(frozen=True, slots=True)
class Better:
    """The best queued task runs of a queue that are of one run and can be claimed together.

    Args:
        run_id: their run.
        ordinals: the task runs.
        attempt: their attempt.
        named_priority: the priority of the best task run that the message names.
        named_since: when that task run was queued.
        named_task: the task of the task runs that the message names.
    """

    run_id: UUID
    ordinals: tuple[int, ...]
    attempt: int
    named_priority: int
    named_since: datetime
    named_task: str


# The task runs of the message are read first, so that the search goes along the index and ends early. Task
# runs that were queued at the same moment, such as the items of a map, are not ordered here. Rows that
# another worker is claiming are locked, and are skipped.
_BETTER = f"""
WITH named AS MATERIALIZED (
    SELECT t.priority, t.queued_at, t.task_id FROM {NAMED} JOIN task_runs AS t ON {by_key()}
    WHERE t.attempt = :attempt AND {status_is(TaskStatus.QUEUED)}
    ORDER BY t.priority, t.queued_at LIMIT 1
), best AS MATERIALIZED (
    SELECT t.run_id, t.id, t.attempt, t.priority, t.queued_at {_QUEUED} AND NOT {IS_PAUSED}
        AND (t.priority, t.queued_at)
            < ((SELECT n.priority FROM named AS n), (SELECT n.queued_at FROM named AS n))
    ORDER BY t.priority, t.queued_at LIMIT 1 FOR UPDATE OF t SKIP LOCKED
)
SELECT t.run_id, t.id, t.attempt, t.priority, t.queued_at,
    (SELECT n.priority FROM named AS n) AS named_priority,
    (SELECT n.queued_at FROM named AS n) AS named_since, (SELECT n.task_id FROM named AS n) AS named_task
{_QUEUED} AND NOT {IS_PAUSED}
    AND t.run_id = (SELECT b.run_id FROM best AS b) AND t.priority = (SELECT b.priority FROM best AS b)
    AND t.queued_at = (SELECT b.queued_at FROM best AS b) AND t.attempt = (SELECT b.attempt FROM best AS b)
    AND (t.attempt = 1 OR t.id = (SELECT b.id FROM best AS b))
LIMIT :most FOR UPDATE OF t SKIP LOCKED
"""


def better(
    tx: Transaction, queue: str, run_id: UUID, ordinals: Sequence[int], attempt: int, most: int
) -> Better | None:
    """Find and lock the task runs that come before those of a message: a lower priority number, or the same
    number and queued earlier.

    Args:
        queue: the queue of the message.
        run_id, ordinals, attempt: the task runs that the message names.
        most: how many are found at most.

    Returns:
        None when no task run is better, or the message's task runs are not queued any more.
    """
    named = [ids.task_run_id(run_id, each) for each in ordinals]
    parameters = {"queue": queue, "run_id": run_id, "ids": named, "attempt": attempt, "most": most}
    rows: list[Any] = list(tx.execute(_BETTER, parameters))
    if not rows:
        return None
    first = rows[0]
    # A later attempt is always claimed alone.
    alike = takewhile(lambda row: _place(row) == _place(first), rows if first.attempt == 1 else rows[:1])
    best_ordinals = tuple(sorted(ids.ordinal_of(row.id) for row in alike))
    return Better(
        first.run_id, best_ordinals, first.attempt, first.named_priority, first.named_since, first.named_task
    )


def _place(row: Any) -> tuple[UUID, int, int, datetime]:
    return row.run_id, row.attempt, row.priority, row.queued_at


_IS_OUTRANKED = f"""
SELECT EXISTS (SELECT 1 {_QUEUED} AND NOT {IS_PAUSED} AND t.priority < (
    SELECT max(s.priority) FROM {NAMED} JOIN task_runs AS s ON {by_key(row="s")}))
"""


def is_outranked(tx: Transaction, queue: str, run_id: UUID, ordinals: Sequence[int]) -> bool:
    """Whether a task run is queued whose priority number is lower than the highest of these task runs."""
    task_runs = [ids.task_run_id(run_id, each) for each in ordinals]
    is_behind = tx.execute(_IS_OUTRANKED, {"queue": queue, "run_id": run_id, "ids": task_runs}).scalar_one()
    return bool(is_behind)
