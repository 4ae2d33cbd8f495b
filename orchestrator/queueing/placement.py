"""Places task runs apart that reached a worker which cannot call them: it has not loaded their task, or has
it in other code than their run is pinned to.

Such a task run goes on in the own queue of a live worker that can call it. If there is none, it waits in the
parking queue of its task: a queued row without a message, which costs nothing while it waits and holds no
slot of its task's limits. The tick places it again as soon as a worker can call it; then it takes a slot like
any other task run. The tick also places what is left in the own queue of workers that are gone. Nothing of
this uses up an attempt, and no message goes in circles: an own queue is consumed only by workers that have
the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave.labels import Labels
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.queueing import limits, widths
from pipeweave.orchestrator.registry import loaded_tasks
from pipeweave.orchestrator.state import releasing
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.rows import COLUMNS, read
from pipeweave.orchestrator.state.task_transitions import status_is
from pipeweave.orchestrator.store.database import Database, Transaction, to_json
from pipeweave.orchestrator.store.isolation import Isolation

# One tick looks at most at this many queues, and places at most this many task runs of each.
QUEUES_PER_TICK = 20
BATCH = 1_000

# SQL: the only code that may be called for the task run `t`; NULL if any may.
PINNED_TO = """(SELECT t.code_hash FROM runs AS r JOIN pipeline_versions AS v
    ON v.tenant_id = r.tenant_id AND v.pipeline_id = r.pipeline_id AND v.version = r.pipeline_version
    WHERE r.id = t.run_id AND v.spec ->> 'code' = 'pinned')"""

_TAKER = loaded_tasks.taker_sql(
    "t.tenant_id", "t.task_id", PINNED_TO, "t.queue_name", "t.requires", "w.own_queue"
)
# Labels can be long.
_LABELS = f"left(md5({queue_names.labels_sql('t.requires')}), 12)"
_WAITS_FOR = f"""t.task_id || coalesce('#' || left({PINNED_TO}, 12), '') || coalesce('@' || t.queue_name, '')
    || CASE WHEN t.requires IS NULL THEN '' ELSE '{queue_names.LABEL}' || {_LABELS} END"""
_PARKING = queue_names.parking_sql("t.queue", _WAITS_FOR)
# SQL: where the task run `t` goes on.
_PLACE = f"coalesce({_TAKER}, {_PARKING})"

_PLACE_NAMED = f"""
WITH placed AS MATERIALIZED (
    SELECT t.run_id, t.id, {_PLACE} AS queue FROM {NAMED} JOIN task_runs AS t ON {by_key()}
    WHERE {status_is(TaskStatus.QUEUED)}
    ORDER BY t.id FOR UPDATE OF t
)
UPDATE task_runs AS t SET queue = p.queue, queued_at = :now FROM placed AS p
WHERE {by_key("p.id")} RETURNING {COLUMNS}
"""


def place(tx: Transaction, run_id: UUID, task_runs: Sequence[UUID]) -> list[TaskRun]:
    """Place queued task runs of one run that this worker cannot call.

    Returns:
        The task runs with their queues. One whose queue is a parking queue needs no message.
    """
    if not task_runs:
        return []
    parameters = {"run_id": run_id, "ids": list(task_runs), "now": tx.now}
    return read(tx.execute(_PLACE_NAMED, parameters))


# --- the tick ---------------------------------------------------------------------------------------------

# The queues that hold queued task runs: one index look-up for each queue, however long it is.
WITH_WORK = """
queues AS (
    (SELECT t.queue FROM task_runs AS t WHERE t.status = 'queued' ORDER BY t.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT t.queue FROM task_runs AS t WHERE t.status = 'queued' AND t.queue > q.queue
            ORDER BY t.queue LIMIT 1) FROM queues AS q WHERE q.queue IS NOT NULL
)"""

# All task runs of a parking queue wait for the same, so one of them tells whether they can go on.
_TO_PLACE = f"""
WITH RECURSIVE {WITH_WORK}
SELECT q.queue FROM queues AS q CROSS JOIN LATERAL (
    SELECT t.run_id, t.tenant_id, t.task_id, t.code_hash, t.queue_name, t.requires FROM task_runs AS t
    WHERE t.status = 'queued' AND t.queue = q.queue LIMIT 1) AS t
WHERE {queue_names.is_apart_sql("q.queue")}
  AND CASE WHEN {queue_names.is_parking_sql("q.queue")} THEN {_TAKER} IS NOT NULL
      ELSE NOT EXISTS (SELECT 1 FROM workers AS w
          WHERE w.stopped_at IS NULL AND w.stopping_at IS NULL AND w.own_queue = q.queue) END
LIMIT :most
"""

# SQL: whether `place_again` has anything to do.
IS_DUE = f"EXISTS ({_TO_PLACE.replace(':most', '1')})"

_PLACE_AGAIN = f"""
WITH placed AS MATERIALIZED (
    SELECT t.run_id, t.id, {_PLACE} AS queue FROM task_runs AS t
    WHERE t.status = 'queued' AND t.queue = :queue
    ORDER BY t.priority, t.queued_at LIMIT :batch FOR UPDATE OF t SKIP LOCKED
)
UPDATE task_runs AS t SET queue = p.queue, queued_at = :now FROM placed AS p
WHERE t.run_id = p.run_id AND t.id = p.id AND t.queue <> p.queue
RETURNING t.run_id, t.id, t.attempt, t.tenant_id, t.task_id, t.priority, t.queue, t.is_limited
"""


def place_again(database: Database) -> int:
    """Place task runs that can go on now, and those in the own queues of workers that are gone.

    Returns:
        How many were placed.

    Raises:
        PartlyFailed: those of some queues could not be placed; those of the other queues were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        queues: list[str] = list(tx.execute(_TO_PLACE, {"most": QUEUES_PER_TICK}).scalars())
    isolation = Isolation(database)
    placed = sum(
        isolation.run(
            lambda queue=queue: database.run(lambda tx: _place_again(tx, queue)),  # type: ignore[misc]
            queue=queue,
        )
        for queue in queues
    )
    return isolation.finish(placed)


def _place_again(tx: Transaction, queue: str) -> int:
    rows: list[Any] = list(tx.execute(_PLACE_AGAIN, {"queue": queue, "batch": BATCH, "now": tx.now}))
    was_parked = queue_names.is_parking(queue)
    awaiting = [row for row in rows if was_parked and row.is_limited]
    releasing.await_limit(tx, [(row.run_id, row.id) for row in awaiting])
    with_slot = [row for row in rows if not (was_parked and row.is_limited)]
    widths.send(tx, sorted(with_slot, key=lambda row: (row.priority, row.id)))
    # Last, because rows of tasks are locked last.
    for tenant in sorted({row.tenant_id for row in awaiting}):
        limits.fill(tx, tenant, {row.task_id for row in awaiting if row.tenant_id == tenant})
    return len(rows)


# --- looking ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parked:
    """Task runs that wait for a worker with their task: how many, at most MOST_COUNTED."""

    tenant: str
    task_id: str
    number: int


# Counts end here.
MOST_COUNTED = 10_000

_PARKED = f"""
WITH RECURSIVE {WITH_WORK}
SELECT t.tenant_id, t.task_id, n.number FROM queues AS q
CROSS JOIN LATERAL (SELECT t.tenant_id, t.task_id FROM task_runs AS t
    WHERE t.status = 'queued' AND t.queue = q.queue LIMIT 1) AS t
CROSS JOIN LATERAL (SELECT count(*) AS number FROM (SELECT 1 FROM task_runs AS t
    WHERE t.status = 'queued' AND t.queue = q.queue LIMIT :most) AS c) AS n
WHERE {queue_names.is_parking_sql("q.queue")}
"""


def parked(tx: Transaction) -> list[Parked]:
    """What waits for a worker with its task, of all tenants. A task may be found for several codes."""
    rows: list[Any] = list(tx.execute(_PARKED, {"most": MOST_COUNTED}))
    return [Parked(row.tenant_id, row.task_id, row.number) for row in rows]


_ASKED = (":tenant", ":task", "CAST(:code_hash AS text)", "CAST(:chosen AS text)", "CAST(:requires AS jsonb)")
_TAKER_OF = f"""
SELECT {loaded_tasks.taker_sql(*_ASKED, "w.own_queue")} IS NOT NULL AS lives,
    {loaded_tasks.is_leaving_sql(*_ASKED)} AS is_leaving,
    {loaded_tasks.last_seen_sql(*_ASKED[:2])} AS last_seen
"""


@dataclass(frozen=True, slots=True)
class Taker:
    """Whether a live worker can call a task.

    Args:
        lives: whether there is one, of those that say what they have loaded.
        is_leaving: whether there is one that drains or stops, and takes nothing for that.
        last_seen: when the last worker with the task was alive, as far as is known.
    """

    lives: bool
    is_leaving: bool
    last_seen: datetime | None


def taker_of(
    tx: Transaction,
    tenant: str,
    task: str,
    code_hash: str | None,
    chosen: str | None,
    requires: Labels | None = None,
) -> Taker:
    """Whether a live worker can call the task runs of a task.

    Args:
        code_hash: the only code that may be called (PINNED_TO); None if any may.
        chosen: the name of the queue that was chosen in place of the task's; None if none was.
        requires: labels that are required beside those of the task; None if none are.
    """
    asked = {"tenant": tenant, "task": task, "code_hash": code_hash, "chosen": chosen}
    asked["requires"] = None if requires is None else to_json(requires)
    row: Any = tx.execute(_TAKER_OF, asked).one()
    return Taker(row.lives, row.is_leaving, row.last_seen)
