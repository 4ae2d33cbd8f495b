"""Admits pending runs: of a tenant that limits its active runs, and of keys, in the order of their ids.

A run without a free slot, or without room for its key (queueing/run_keys.py), is `pending`, with all its task
runs; none of its messages is sent. The number of active runs is counted from rows, never kept in a counter
that could leak. A transaction that hands out slots holds the lock on the tenant's row: a trigger, the
transaction after the end of a run, the tick. So of two such transactions the second sees the rows of the
first, and a slot that becomes free during a trigger is handed out by the later of the two.

A tenant without a limit pays nothing for this, nor does a run without a key. Standalone tasks take no slot;
limits of tasks apply to them. A run that a dead letter's retry reopens does not wait: it may exceed the
limit, and the next run waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.domain.facts import KeyName
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.queueing import run_keys
from pipeweave.orchestrator.queueing.run_slots import ACTIVE, lock_tenant
from pipeweave.orchestrator.registry import pipelines, task_rows, tenants
from pipeweave.orchestrator.runs.orphans import CODE as TASK_REMOVED
from pipeweave.orchestrator.state import cancelling, run_headers, run_transitions
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

log = logging.getLogger(__name__)
# Runs that one transaction admits at most, and that one tick admits over all tenants.
BATCH = 50
PER_TICK = 200
# After a change of the limit this many batches follow at once; the tick admits the rest.
BATCHES = 20
MAX_LIMIT = 1_000_000

# A run whose row is locked is passed over: it is perhaps being cancelled, and must not delay the other runs.
# So more are looked at than may start.
_NEXT = """
SELECT n.id FROM {front} AS f CROSS JOIN LATERAL (
    SELECT r.id FROM runs AS r WHERE r.id = f.id AND r.status = 'pending' FOR UPDATE SKIP LOCKED) AS n
LIMIT :free
"""
_NOT_FAILED = "r.id <> ALL(CAST(:without AS uuid[]))"
_LOOKED_AT = f"(CAST(:free AS integer) + {BATCH})"
_NEXT_PENDING = _NEXT.format(front=run_keys.front(":tenant", _LOOKED_AT, where=_NOT_FAILED))
_NEXT_OF_KEY = _NEXT.format(front=run_keys.front(":tenant", _LOOKED_AT, where=_NOT_FAILED, is_one_key=True))


def admit_pending_runs(
    tx: Transaction,
    tenant: str,
    most: int = BATCH,
    *,
    without: Collection[UUID] = (),
    begun: list[UUID] | None = None,
    key: KeyName | None = None,
) -> int:
    """Start the oldest pending runs of a tenant whose keys have room, at most `most` and as many as there are
    free slots.

    Args:
        tx: where they start, all or none.
        tenant: whose runs.
        most: start no more than this.
        without: runs that are passed over.
        begun: takes each run's id before it starts; when this raises, the last one is the run that cannot.
        key: a pipeline and a key of its runs: without a limit of the tenant, no other one is looked at.

    Returns:
        How many runs were started.
    """
    slots = lock_tenant(tx, tenant)
    free = most if slots.most is None else min(most, slots.most - slots.active)
    if free <= 0 or not slots.waiting:
        return 0
    parameters: dict[str, Any] = {"tenant": tenant, "free": free, "without": list(without)}
    statement = _NEXT_PENDING
    if key is not None and slots.most is None:
        statement, parameters = _NEXT_OF_KEY, parameters | {"pipeline": key[0], "key": key[1]}
    waiting = list(tx.execute(statement, parameters).scalars())
    tx.catch_up()
    touched = TouchedLimits()
    count = 0
    for run_id in waiting:
        if begun is not None:
            begun.append(run_id)
        run = run_headers.load(tx, run_id)
        if run is not None:
            _start_run(tx, run, touched)
            count += 1
    # Limits are filled once, after all runs, because their rows are locked last (lock order).
    touched.fill(tx)
    return count


def _start_run(tx: Transaction, run: RunHeader, touched: TouchedLimits) -> None:
    spec = pipelines.get(tx, run.tenant, run.pipeline_id or "", run.pipeline_version).spec
    if not run_transitions.admit(tx, run.id, timeout_ms=spec.timeout_ms):
        return
    run_transitions.announce_start(tx, run)
    advance = Advance(tx, run, counting=Counting.UNCOUNTED, touched=touched)
    removed = _removed(tx, run.tenant, spec.tasks)
    if removed:
        message = "the task was removed while the run waited for its turn"
        advance.settle(cancelling.cancel_tasks(tx, run.id, removed, code=TASK_REMOVED, message=message))
    if not advance.ended:
        advance.admit()


def _removed(tx: Transaction, tenant: str, task_ids: Collection[str]) -> Sequence[str]:
    tasks = task_rows.tasks(tx, tenant, task_ids)
    return [each.id for each in tasks.values() if each.orphaned_at is not None]


# Tenants with pending runs and free slots, one index look-up for each; then their pending runs, in turns.
_ADMISSIBLE = f"""
WITH RECURSIVE waiting AS (
    (SELECT r.tenant_id FROM runs AS r WHERE r.status = 'pending' ORDER BY r.tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id FROM waiting AS w CROSS JOIN LATERAL (
        SELECT r.tenant_id FROM runs AS r WHERE r.status = 'pending' AND r.tenant_id > w.tenant_id
        ORDER BY r.tenant_id LIMIT 1) AS n
), free AS (
    SELECT n.id, n.weight, coalesce(n.max_active_runs - {ACTIVE}, CAST(:most AS bigint)) AS places
    FROM waiting AS w JOIN tenants AS n ON n.id = w.tenant_id
)
SELECT t.tenant_id, count(*) AS number FROM (
    SELECT f.id AS tenant_id FROM free AS f CROSS JOIN LATERAL (
        SELECT (row_number() OVER () - 1) / f.weight AS turn FROM (
            SELECT 1 FROM {run_keys.front("f.id", "CAST(:most AS bigint)")} AS q
            LIMIT greatest(0, least(f.places, CAST(:most AS bigint)))) AS p) AS p
    ORDER BY p.turn, f.id LIMIT :most) AS t
GROUP BY t.tenant_id ORDER BY t.tenant_id
"""

# SQL: whether `admit_waiting` may have anything to do.
IS_DUE = "EXISTS (SELECT 1 FROM runs AS r WHERE r.status = 'pending')"


def admit_waiting(database: Database) -> int:
    """Start pending runs that have a free slot, at most PER_TICK; the tenants take turns.

    Such runs are left over when the process that ended an earlier run died, or when the limit was raised. A
    run that cannot start, such as one whose specification cannot be read, stays `pending` and is passed over.

    Returns:
        How many runs were started.

    Raises:
        PartlyFailed: some runs could not start; those after them did.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        rows: list[Any] = list(tx.execute(_ADMISSIBLE, {"most": PER_TICK}))
    isolation = Isolation(database)
    admitted = sum(_admit_passing_over(database, row.tenant_id, row.number, isolation) for row in rows)
    return isolation.finish(admitted)


def _admit_passing_over(database: Database, tenant: str, most: int, isolation: Isolation) -> int:
    """Admit runs of one tenant in one transaction; repeat it without a run that cannot start."""
    failed: list[UUID] = []
    while len(failed) <= most:
        begun: list[UUID] = []
        try:
            return database.run(
                lambda tx, begun=begun: admit_pending_runs(tx, tenant, most, without=failed, begun=begun)  # type: ignore[misc]
            )
        except Exception as error:
            isolation.record(error, tenant=tenant, run_id=begun[-1] if begun else None)
            if not begun:
                break
            failed.append(begun[-1])
    return 0


_SET = """
INSERT INTO tenants AS n (id, created_at, max_active_runs) VALUES (:tenant, :now, :most)
ON CONFLICT (id) DO UPDATE SET max_active_runs = EXCLUDED.max_active_runs
"""


def set_limit(tx: Transaction, tenant: str, most: int | None) -> None:
    """Set how many runs of a tenant may be active at a time; None for no limit. Active runs go on in any
    case.

    Raises:
        InvalidInput: `most` is not from 1 to MAX_LIMIT.
    """
    if most is not None and not 1 <= most <= MAX_LIMIT:
        expected = f"1 to {MAX_LIMIT:,}, or null for no limit"
        raise InvalidInput(
            f"maxActiveRuns {most} is out of range",
            errors=[FieldError("maxActiveRuns", "is out of range", "out_of_range", expected)],
        )
    tenants.ensure_tenant(tx, tenant)
    tx.execute(_SET, {"tenant": tenant, "most": most, "now": tx.now})
    log.info("runs.limited", extra={"tenant": tenant, "max_active_runs": most})
    tx.afterwards(lambda after: _admit_all(after, tenant, BATCHES))


def _admit_all(tx: Transaction, tenant: str, batches: int) -> None:
    if admit_pending_runs(tx, tenant) == BATCH and batches > 1:
        tx.afterwards(lambda after: _admit_all(after, tenant, batches - 1))
