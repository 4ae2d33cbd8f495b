"""Reads how long the last runs of a pipeline took, for a forecast. It costs no more when history is long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.run_kinds_sql import INSIDE, NEWEST_OF_PIPELINE, OF_PIPELINE, of_whole
from pipeweave.orchestrator.domain.states import TaskStatus, sql_in
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import PipelineSpec
from pipeweave.spec.forecast import FEW_RUNS, PastRun

# Completed runs that a forecast is made from, and the newest runs that they are looked for among.
MOST_RUNS = 100
WINDOW = 500
# Rows of steps that one forecast reads, and steps and edges that it goes over, all runs together. A pipeline
# of thousands of steps is forecast from fewer runs, but from FEW_RUNS in any case.
MOST_ROWS = 50_000
MOST_EDGES = 500_000

_OF_PIPELINE = f"""
SELECT r.pipeline_id, r.id, r.status, r.task_run_count, r.body,
    greatest(0, extract(epoch FROM r.finished_at - r.started_at) * 1000 - r.paused_ms - r.over_ms) AS took_ms
FROM runs AS r WHERE r.tenant_id = :tenant AND {OF_PIPELINE} AND {{kind}}
ORDER BY {NEWEST_OF_PIPELINE} LIMIT :window
"""
_RUNS = f"""
SELECT w.id, w.task_run_count, w.took_ms FROM (
    SELECT r.* FROM ({of_whole(_OF_PIPELINE)}) AS r ORDER BY {NEWEST_OF_PIPELINE} LIMIT :window) AS w
WHERE w.status = 'completed' ORDER BY w.id DESC LIMIT :most
"""
# A body may be one of many: what it took is looked for among the newest child runs of its pipeline.
_RUNS_OF_BODY = f"""
SELECT w.id, w.task_run_count, w.took_ms FROM ({_OF_PIPELINE.replace("{kind}", INSIDE)}) AS w
WHERE w.status = 'completed' AND w.body = :body ORDER BY w.id DESC LIMIT :most
"""

# The steps of a run come before the items of its maps.
_STEPS = f"""
SELECT t.run_id, t.step_id, t.task_id, t.status,
    extract(epoch FROM t.finished_at - t.started_at) * 1000 AS took_ms
FROM unnest(CAST(:runs AS uuid[]), CAST(:lasts AS uuid[])) AS u(run_id, last)
JOIN task_runs AS t ON t.run_id = u.run_id AND t.id <= u.last
WHERE {kind_sql.IS_STEP} AND t.status IN {sql_in({TaskStatus.COMPLETED, TaskStatus.SKIPPED})}
"""


def past_runs(tx: Transaction, tenant: str, spec: PipelineSpec, body: str | None = None) -> list[PastRun]:
    """The last completed runs of a pipeline, of any version, the newest first.

    A step counts only where it ran the task that it runs now.

    Args:
        body: of runs of this body of it, whose spec this is; None for runs of the whole pipeline.
    """
    size = max(1, len(spec.steps))
    edges = size + sum(len(step.needs) for step in spec.steps)
    most = max(FEW_RUNS, min(MOST_RUNS, MOST_ROWS // size, MOST_EDGES // edges))
    parameters = {"tenant": tenant, "pipeline": spec.id, "window": WINDOW, "most": most}
    of_body = {**parameters, "body": body}
    runs = (tx.execute(_RUNS, parameters) if body is None else tx.execute(_RUNS_OF_BODY, of_body)).all()
    if not runs:
        return []
    rows = MOST_ROWS // len(runs)
    lasts = [ids.task_run_id(each.id, max(1, min(each.task_run_count, rows))) for each in runs]
    task_of = {step.id: step.task for step in spec.steps}
    took: Mapping[UUID, dict[str, float]] = defaultdict(dict)
    skipped: Mapping[UUID, set[str]] = defaultdict(set)
    for each in tx.execute(_STEPS, {"runs": [run.id for run in runs], "lasts": lasts}):
        if each.status == "skipped":
            skipped[each.run_id].add(each.step_id)
        elif task_of.get(each.step_id) == each.task_id and each.took_ms is not None:
            took[each.run_id][each.step_id] = max(0.0, float(each.took_ms))
    return [PastRun(float(each.took_ms), took[each.id], frozenset(skipped[each.id])) for each in runs]
