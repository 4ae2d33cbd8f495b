"""Finds closed joins of open runs: all that they wait for has finished, and nobody has decided them yet.

A join is a step with several predecessors, a map whose items ended, or the end of a run. In a healthy
deployment it stays closed for milliseconds only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.plan import END, Plan
from pipeweave.orchestrator.domain.states import ADVANCING_RUN, sql_in
from pipeweave.orchestrator.engine import maps
from pipeweave.orchestrator.engine.maps import LaidOut
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction

# SQL: runs `o`, each with the ids of its first and its last step. The rows of steps come first in a run; the
# rows of items, which may be many, are not read.
_RUNS = """unnest(CAST(:runs AS uuid[]), CAST(:firsts AS uuid[]), CAST(:lasts AS uuid[]))
    AS o(id, first, last)"""

# The guard is here, so that the status of a run and those of its steps are of the same moment.
_OPEN_STEPS = f"""
SELECT r.id AS run_id, t.id, t.queue, t.status, t.due_at, t.map_first, t.map_count, t.error_code
FROM {_RUNS}
    JOIN runs AS r ON r.id = o.id AND r.status IN {sql_in(ADVANCING_RUN)} AND r.ending IS NULL
    LEFT JOIN LATERAL (
        SELECT s.id, s.queue, s.status, s.due_at, s.map_first, s.map_count, s.error_code FROM task_runs AS s
        WHERE s.run_id = o.id AND s.id BETWEEN o.first AND o.last AND s.finished_at IS NULL) AS t ON true
ORDER BY r.id, t.id
"""

# The queue of a task that the run has now, for a final row keeps the queue that it had. Best is one that a
# live worker consumes, then one of the service that was alive last.
_QUEUE_NOW = queue_names.queue_sql(None)
_ANY_QUEUE = f"""
SELECT o.id AS run_id, q.queue FROM {_RUNS} CROSS JOIN LATERAL (
    SELECT coalesce({_QUEUE_NOW}, t.queue) AS queue FROM task_runs AS t
    LEFT JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
    LEFT JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
    WHERE t.run_id = o.id AND t.id BETWEEN o.first AND o.last
    ORDER BY EXISTS (SELECT 1 FROM workers AS w
            WHERE w.tenant_id = s.tenant_id AND w.service_id = s.id AND w.stopped_at IS NULL
              AND {worker_processes.serves_sql(_QUEUE_NOW)}) DESC,
        s.last_heartbeat DESC NULLS LAST LIMIT 1) AS q
"""


def closed_joins(tx: Transaction, plans: Mapping[UUID, Plan]) -> list[JoinCheck]:
    """The joins, the maps and the ends of open runs that are closed although all they wait for is final.

    Takes one statement, one more if a map is laid out, and one more if a run has no open step left.

    Args:
        plans: the plan of each run, by the run's id; runs that are not open are left out.
    """
    if not plans:
        return []
    steps: dict[UUID, dict[int, Any]] = defaultdict(dict)
    for row in tx.execute(_OPEN_STEPS, _step_ranges(plans)):
        open_steps = steps[row.run_id]
        if row.id is not None:
            open_steps[ids.ordinal_of(row.id)] = row
    finished_maps = _finished_maps(tx, steps)
    checks = [
        check
        for run_id in steps
        for check in _closed_steps(run_id, plans[run_id], steps[run_id], finished_maps)
    ]
    return checks + _ends(tx, {run_id: plans[run_id] for run_id, left in steps.items() if not left})


def _closed_steps(
    run_id: UUID, plan: Plan, steps: Mapping[int, Any], finished_maps: set[LaidOut]
) -> Iterator[JoinCheck]:
    for ordinal, row in steps.items():
        if row.status == "waiting":
            is_closed = _laid_out(row) in finished_maps
        else:
            is_waiting = row.status == "pending" and row.due_at is None
            is_closed = is_waiting and steps.keys().isdisjoint(plan[ordinal].predecessors)
        if is_closed:
            yield JoinCheck(run_id, ordinal, row.queue)


def _finished_maps(tx: Transaction, steps: Mapping[UUID, Mapping[int, Any]]) -> set[LaidOut]:
    """The maps without an open item, of those that were laid out. One whose error is being taken care of does
    not wait for its items any more.
    """
    waiting = [
        row
        for of_run in steps.values()
        for row in of_run.values()
        if row.status == "waiting" and row.error_code is None
    ]
    return maps.over(tx, [_laid_out(row) for row in waiting if row.map_first is not None])


def _laid_out(row: Any) -> LaidOut:
    return LaidOut(row.run_id, row.map_first, row.map_count)


def _ends(tx: Transaction, plans: Mapping[UUID, Plan]) -> list[JoinCheck]:
    """Checks of runs without an open step. They are sent to the workers of their steps: a queue that no
    worker consumes would leave a run open for ever.
    """
    if not plans:
        return []
    return [JoinCheck(row.run_id, END, row.queue) for row in tx.execute(_ANY_QUEUE, _step_ranges(plans))]


def _step_ranges(plans: Mapping[UUID, Plan]) -> dict[str, Iterable[UUID]]:
    return {
        "runs": list(plans),
        "firsts": [ids.task_run_id(run_id, 1) for run_id in plans],
        "lasts": [ids.task_run_id(run_id, len(plan.steps)) for run_id, plan in plans.items()],
    }
