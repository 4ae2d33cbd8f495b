"""Finds queued task runs of other runs that a child can call beside those that it calls already.

Their messages wait in the broker meanwhile. A message is only a wake-up: it will find nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.messaging.batching import ALONE_FROM_ATTEMPT
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.state.pause_sql import IS_PAUSED
from pipeweave.orchestrator.store.database import Transaction

# Task runs that one transaction claims at most.
BATCH = 32

# Along the index, from the queue's front. Rows that another worker is claiming are locked, and are skipped.
_FRONT = f"""
SELECT t.run_id, t.id, t.attempt, t.task_id FROM task_runs AS t
WHERE t.status = 'queued' AND t.queue = :queue AND t.run_id <> :run_id AND NOT {IS_PAUSED}
ORDER BY t.priority, t.queued_at LIMIT :batch FOR UPDATE OF t SKIP LOCKED
"""


def claim(
    tx: Transaction, queue: str, beside: UUID, room: Mapping[str, int], *, worker: str
) -> list[tuple[RunHeader, int, list[TaskRun]]]:
    """Claim task runs from the front of a queue, up to the first that has to wait for its turn.

    So nothing is overtaken: neither a task run of another task, nor one for which there is no room.

    Args:
        queue: that the worker serves.
        beside: the run of the message under way, whose task runs have messages of their own.
        room: how many more of each task may be called.
        worker: the name that claims them.

    Returns:
        The claimed task runs by run and attempt, with the header of their run.
    """
    left = dict(room)
    chosen = []
    row: Any
    for row in tx.execute(_FRONT, {"queue": queue, "run_id": beside, "batch": BATCH}):
        if left.get(row.task_id, 0) < 1 or row.attempt >= ALONE_FROM_ATTEMPT:
            break
        left[row.task_id] -= 1
        chosen.append((row.run_id, row.attempt, ids.ordinal_of(row.id)))
    claims = []
    for (run_id, attempt), rows in groupby(sorted(chosen), key=lambda each: each[:2]):
        ordinals = [each[2] for each in rows]
        run, claimed = claiming.start_with_header(tx, run_id, ordinals, attempt, worker=worker, queue=queue)
        if run is not None and claimed:
            claims.append((run, attempt, claimed))
    return claims
