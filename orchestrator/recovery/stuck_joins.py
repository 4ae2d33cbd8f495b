"""Asks for stuck joins: all that they wait for is final, and their chord never fired.

A join is a step with several predecessors, a map whose items ended, or the end of a run. A message asks a
worker to check it; the worker then decides as it does when a chord fires.
"""

from __future__ import annotations

from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import ADVANCING_RUN, sql_in
from pipeweave.orchestrator.engine import maps
from pipeweave.orchestrator.recovery.lost_messages import LATE
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

# One tick looks at this many active runs; the next tick goes on where it stopped.
RUNS_PER_TICK = 100

_ACTIVE = f"""
SELECT r.id FROM runs AS r
WHERE r.status IN {sql_in(ADVANCING_RUN)} AND r.created_at < :late AND r.id > :after
ORDER BY r.id LIMIT :batch
"""

# The rows of steps come first in a run. The rows of items, which may be many, are not read.
_OPEN_STEPS = """
SELECT t.id, t.queue, t.status, t.due_at FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL ORDER BY t.id
"""

# The queue of a task that the run has now, for a final row keeps the queue that it had. Best is one that a
# live worker consumes, then one of the service that was alive last.
_QUEUE_NOW = "s.queue || coalesce('/' || k.queue, '')"
_ANY_QUEUE = f"""
SELECT coalesce({_QUEUE_NOW}, t.queue) FROM task_runs AS t
LEFT JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
LEFT JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last
ORDER BY EXISTS (SELECT 1 FROM workers AS w
        WHERE w.tenant_id = s.tenant_id AND w.service_id = s.id AND w.stopped_at IS NULL
          AND {worker_processes.serves_sql(_QUEUE_NOW)}) DESC,
    s.last_heartbeat DESC NULLS LAST LIMIT 1
"""

_BEFORE_ALL = UUID(int=0)
# The last run that this process looked at.
_looked_at = _BEFORE_ALL


def run_once(deployment: Deployment) -> int:
    """Ask for the stuck joins of the next active runs. Returns the number of joins.

    Raises:
        PartlyFailed: some runs could not be looked at.
        Unavailable: PostgreSQL cannot be reached.
    """
    global _looked_at
    database = deployment.database
    with database.statements() as tx:
        parameters = {"late": tx.now - LATE, "after": _looked_at, "batch": RUNS_PER_TICK}
        active: list[UUID] = list(tx.execute(_ACTIVE, parameters).scalars())
    _looked_at = active[-1] if len(active) == RUNS_PER_TICK else _BEFORE_ALL
    isolation = Isolation(database)
    asked = sum(
        isolation.run(lambda run_id=run_id: _ask(database, run_id), run_id=run_id)  # type: ignore[misc]
        for run_id in active
    )
    return isolation.finish(asked)


def _ask(database: Database, run_id: UUID) -> int:
    with database.statements() as tx:
        run = run_headers.load(tx, run_id)
        checks = [] if run is None else closed_joins(tx, run)
        tx.send(*checks)
    return len(checks)


def closed_joins(tx: Transaction, run: RunHeader) -> list[JoinCheck]:
    """The joins, the maps and the end of an open run that are closed although all they wait for is final."""
    span = {"first": ids.task_run_id(run.id, 1), "last": ids.task_run_id(run.id, len(run.plan.steps))}
    rows = tx.execute(_OPEN_STEPS, {"run_id": run.id} | span).all()
    if not rows:
        # Sent to the workers of its steps: a queue that no worker consumes would leave the run open for ever.
        queue = tx.execute(_ANY_QUEUE, {"run_id": run.id} | span).scalar_one()
        return [JoinCheck(run.id, END, queue)]
    steps = {ids.ordinal_of(row.id): row for row in rows}
    due = []
    for ordinal, row in steps.items():
        if row.status == "waiting":
            is_due = run.plan[ordinal].step.map is not None and maps.is_over(tx, run.id, ordinal)
        else:
            is_waiting = row.status == "pending" and row.due_at is None
            is_due = is_waiting and steps.keys().isdisjoint(run.plan[ordinal].predecessors)
        if is_due:
            due.append(JoinCheck(run.id, ordinal, row.queue))
    return due
