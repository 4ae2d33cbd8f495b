"""Tells which of many messages still find something to do, in one statement for each kind of message.

A claim and a join decide again: what is told here may be old by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.states import TaskStatus as T
from pipeweave.orchestrator.domain.states import sql_in
from pipeweave.orchestrator.state.rows import task_run_ids
from pipeweave.orchestrator.state.task_transitions import status_is
from pipeweave.orchestrator.store.database import Transaction

# Each row is found by its primary key, in the partition of its run.
_CLAIMABLE = f"""
SELECT DISTINCT n.number
FROM unnest(CAST(:numbers AS integer[]), CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[]),
            CAST(:attempts AS integer[])) AS n(number, run_id, id, attempt)
    CROSS JOIN LATERAL (
        SELECT 1 FROM task_runs AS t WHERE t.run_id = n.run_id AND t.id = n.id AND t.attempt = n.attempt
            AND t.queue = :queue AND {status_is(T.QUEUED)} LIMIT 1) AS found
"""


def claimable(tx: Transaction, named: Sequence[tuple[UUID, Sequence[int], int]], queue: str) -> set[int]:
    """Which messages name a task run that is queued.

    Args:
        named: for each message its run, the ordinals of its task runs, and their attempt.
        queue: the queue in which the messages are.

    Returns:
        The places of those messages in `named`.
    """
    if not named:
        return set()
    numbers, run_ids, ids, attempts = [], [], [], []
    for number, (run_id, ordinals, attempt) in enumerate(named):
        for id_ in task_run_ids(run_id, ordinals):
            numbers.append(number)
            run_ids.append(run_id)
            ids.append(id_)
            attempts.append(attempt)
    parameters: dict[str, Any] = {
        "numbers": numbers,
        "run_ids": run_ids,
        "ids": ids,
        "attempts": attempts,
        "queue": queue,
    }
    return set(tx.execute(_CLAIMABLE, parameters).scalars())


_OPEN_JOINS = f"""
SELECT n.number FROM unnest(CAST(:numbers AS integer[]), CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[]))
        AS n(number, run_id, id)
    CROSS JOIN LATERAL (
        SELECT r.tenant_id, r.finished_at FROM runs AS r WHERE r.id = n.run_id LIMIT 1) AS run
    LEFT JOIN LATERAL (
        SELECT t.status FROM task_runs AS t WHERE t.run_id = n.run_id AND t.id = n.id LIMIT 1) AS step ON true
WHERE run.tenant_id = :tenant AND run.finished_at IS NULL
    AND (n.id IS NULL OR step.status IN {sql_in([T.PENDING, T.WAITING])})
"""


def open_joins(tx: Transaction, joins: Iterable[tuple[UUID, int]], tenant: str) -> set[tuple[UUID, int]]:
    """Which of these joins may still have to be decided: runs and ordinals of steps, of maps, or END."""
    asked = list(joins)
    if not asked:
        return set()
    parameters: dict[str, Any] = {
        "numbers": list(range(len(asked))),
        "run_ids": [run_id for run_id, _ in asked],
        "ids": [None if ordinal == END else task_run_ids(run_id, [ordinal])[0] for run_id, ordinal in asked],
        "tenant": tenant,
    }
    return {asked[number] for number in tx.execute(_OPEN_JOINS, parameters).scalars()}
