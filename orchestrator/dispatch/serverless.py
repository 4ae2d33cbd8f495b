"""Dispatches what waits for HTTP services from within the tick: the engine of a serverless deployment.

There no worker runs. Each tick claims at most MAX_CONCURRENCY task runs, the tenants taking turns, and
dispatches them. The services work meanwhile, and their reports make further steps ready, for the next tick.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.dispatch.dispatcher import Dispatcher
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.state.turn_sql import turn
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings

# Runs whose task runs are dispatched at the same time.
RUNS_AT_ONCE = 8

# The name with which a tick claims begins so; lost_attempts.py gives such a claim some time.
TICK = "tick:"
# So begins the name of a process that sends heartbeats for its claims (note_keeper.py).
BEATING = f"{TICK}beats:"

_WAITING = f"""
SELECT w.run_id, w.id, w.attempt FROM (
    SELECT t.run_id, t.id, t.attempt, t.task_id,
        {turn("t.tenant_id", "t.priority, t.queued_at")} AS turn
    FROM (SELECT DISTINCT s.queue FROM services AS s WHERE s.kind = 'http') AS q
    CROSS JOIN LATERAL (
        SELECT o.run_id, o.id, o.attempt, o.task_id, o.tenant_id, o.priority, o.queued_at FROM task_runs AS o
        WHERE o.status = 'queued' AND o.queue = q.queue
        ORDER BY o.priority, o.queued_at LIMIT :most) AS t) AS w
ORDER BY w.turn LIMIT :most
"""

# SQL: whether anything waits for a dispatch.
IS_DUE = f"""EXISTS (SELECT 1 FROM services AS s JOIN task_runs AS t ON t.queue = s.queue
    WHERE s.kind = 'http' AND t.status = 'queued' AND {queue_names.is_dispatch_sql("s.queue")})"""


def run_once(database: Database, values: Values, settings: Settings) -> int:
    """Dispatch what waits, at most MAX_CONCURRENCY task runs. Returns how many were claimed.

    Raises:
        PartlyFailed: the task runs of some runs could not be dispatched.
        Unavailable: PostgreSQL cannot be reached.
    """
    if settings.mode != "serverless":
        return 0
    with database.statements() as tx:
        rows: list[Any] = list(tx.execute(_WAITING, {"most": settings.max_concurrency}))
    groups: dict[tuple[UUID, int], list[int]] = {}
    for row in rows:
        groups.setdefault((row.run_id, row.attempt), []).append(ids.ordinal_of(row.id))
    if not groups:
        return 0
    worker = f"{TICK}{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    dispatcher = Dispatcher(database, values, settings, worker=worker)
    isolation = Isolation(database)

    def dispatch(run_id: UUID, attempt: int, ordinals: Sequence[int]) -> int:
        return isolation.run(
            lambda: _dispatch(database, settings, dispatcher, worker, run_id, attempt, ordinals),
            run_id=run_id,
        )

    try:
        with ThreadPoolExecutor(RUNS_AT_ONCE, thread_name_prefix="serverless") as threads:
            started = [
                threads.submit(dispatch, run_id, attempt, ordinals)
                for (run_id, attempt), ordinals in groups.items()
            ]
        return isolation.finish(sum(each.result() for each in started))
    finally:
        dispatcher.close()


def _dispatch(
    database: Database,
    settings: Settings,
    dispatcher: Dispatcher,
    worker: str,
    run_id: UUID,
    attempt: int,
    ordinals: Sequence[int],
) -> int:
    def claim(tx: Transaction) -> tuple[RunHeader | None, list[TaskRun]]:
        return claiming.start_with_header(tx, run_id, ordinals, attempt, worker=worker)

    run, claimed = database.run(claim, is_one=False)
    if run is None or not claimed:
        return 0
    by_task: dict[str, list[TaskRun]] = {}
    for each in claimed:
        by_task.setdefault(each.task_id, []).append(each)
    for mine in by_task.values():
        outcomes = dispatcher.dispatch(run, mine)
        turn = Turn(
            run,
            outcomes,
            mine[0].queue,
            max_retry_delay_ms=settings.max_retry_delay_ms,
            counting=Counting.UNCOUNTED,
            worker=worker,
        )
        turn.apply(database)
    return len(claimed)
