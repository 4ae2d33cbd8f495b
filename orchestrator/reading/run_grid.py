"""The grid of a pipeline: its runs by its steps, a bounded window of both that moves either way.

The cells are read by the ids of their task runs, which follow from the plans of the runs' versions: what a
window costs depends on its size alone. Items of maps are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.domain.json_shapes import duration_ms, iso, run_id
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.suggestions import did_you_mean

MOST_RUNS, MOST_STEPS = 50, 100


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a grid that is wanted.

    Args:
        runs: how many, 1 to MOST_RUNS.
        steps: how many, 1 to MOST_STEPS.
        before: only runs older than this one.
        after: only runs newer than this one; without both, the newest.
        from_step: the first step; None for the first of all.
    """

    runs: int = 25
    steps: int = 50
    before: UUID | None = None
    after: UUID | None = None
    from_step: str | None = None


_SELECTED = """
SELECT r.id, r.pipeline_version, r.status, r.error_code, r.created_at, r.started_at, r.finished_at
FROM runs AS r WHERE r.tenant_id = :tenant AND r.pipeline_id = :pipeline
"""
_OLDER = f"{_SELECTED} AND r.id < :before ORDER BY r.id DESC LIMIT :limit"
_NEWER = f"{_SELECTED} AND r.id > :after ORDER BY r.id LIMIT :limit"
_LAST_ID = UUID(int=(1 << 128) - 1)


def grid(tx: Transaction, tenant: str, pipeline_id: str, window: Window) -> Document:
    """Runs, newest first, and for each step its status, attempt and duration in each of them.

    The steps are those of the newest version in its order, then those that only shown runs have.

    Raises:
        NotFound: the tenant has no such pipeline.
        InvalidInput: no shown version has the first step that is asked for.
    """
    newest = pipelines.get(tx, tenant, pipeline_id)
    runs, has_newer, has_older = _runs(tx, tenant, pipeline_id, window)
    versions = {each.pipeline_version for each in runs}
    plans = {each: pipelines.get(tx, tenant, pipeline_id, each).plan for each in versions}
    steps = _steps(newest.plan, plans)
    begin = _begin(steps, window)
    shown = steps[begin : begin + window.steps]
    cells = _cells(tx, runs, plans, shown)
    tasks = {step.id: step.step for plan in (*plans.values(), newest.plan) for step in plan.steps}
    return {
        "pipelineId": pipeline_id,
        "version": newest.version,
        "runs": [_run(each) for each in runs],
        "steps": [
            {
                "id": step,
                "taskId": tasks[step].task,
                "isMap": tasks[step].map is not None,
                "isInNewest": step in newest.plan.ordinals,
                **_row(cells, step, runs),
            }
            for step in shown
        ],
        "stepCount": len(steps),
        "hasNewer": has_newer,
        "hasOlder": has_older,
        "previousSteps": steps[max(0, begin - window.steps)] if begin else None,
        "nextSteps": steps[begin + window.steps] if begin + window.steps < len(steps) else None,
    }


def _runs(tx: Transaction, tenant: str, pipeline_id: str, window: Window) -> tuple[Sequence[Any], bool, bool]:
    """The runs, newest first, and whether there are newer ones, and older ones.

    Behind a given run, there is at least that one.
    """
    parameters = {"tenant": tenant, "pipeline": pipeline_id, "limit": window.runs + 1}
    if window.after is not None and window.before is None:
        rows = tx.execute(_NEWER, {**parameters, "after": window.after}).all()
        return rows[: window.runs][::-1], len(rows) > window.runs, True
    before = window.before or _LAST_ID
    rows = tx.execute(_OLDER, {**parameters, "before": before}).all()
    return rows[: window.runs], window.before is not None, len(rows) > window.runs


def _steps(newest: Plan, plans: Mapping[int, Plan]) -> list[str]:
    """The ids of all steps, in the order of their rows."""
    found = dict.fromkeys(newest.ordinals)
    for version in sorted(plans, reverse=True):
        found |= dict.fromkeys(plans[version].ordinals)
    return list(found)


def _begin(steps: Sequence[str], window: Window) -> int:
    if window.from_step is None:
        return 0
    if window.from_step not in steps:
        raise InvalidInput(
            f"no shown version has a step {window.from_step[:200]!r}",
            errors=[FieldError("fromStep", "is not a step of a shown version", "unknown_step")],
            hint=did_you_mean(window.from_step, steps, "leave it out for the first step"),
        )
    return steps.index(window.from_step)


# --- cells ------------------------------------------------------------------------------------------------

_CELLS = """
SELECT t.run_id, t.step_id, t.status, t.attempt, t.map_count, t.error_code, t.started_at, t.finished_at
FROM unnest(CAST(:runs AS uuid[]), CAST(:ids AS uuid[])) AS c(run_id, id)
    JOIN task_runs AS t ON t.run_id = c.run_id AND t.id = c.id
WHERE t.run_id >= :oldest AND t.run_id <= :newest
"""

Cells = Mapping[tuple[UUID, str], Any]


def _cells(tx: Transaction, runs: Sequence[Any], plans: Mapping[int, Plan], steps: Sequence[str]) -> Cells:
    """The task run of each step in each run."""
    wanted = [
        (run.id, ids.task_run_id(run.id, ordinal))
        for run in runs
        for step in steps
        if (ordinal := plans[run.pipeline_version].ordinals.get(step)) is not None
    ]
    if not wanted:
        return {}
    parameters = {
        "runs": [each for each, _ in wanted],
        "ids": [each for _, each in wanted],
        "oldest": runs[-1].id,
        "newest": runs[0].id,
    }
    return {(row.run_id, row.step_id): row for row in tx.execute(_CELLS, parameters)}


def _row(cells: Cells, step: str, runs: Sequence[Any]) -> Document:
    """One value for each run; null where the run's version has no such step."""
    found = [cells.get((run.id, step)) for run in runs]
    return {
        "statuses": [each and each.status for each in found],
        "attempts": [each and each.attempt for each in found],
        "ms": [each and duration_ms(each.started_at, each.finished_at) for each in found],
        "items": [each and each.map_count for each in found],
        "errorCodes": [each and each.error_code for each in found],
    }


def _run(row: Any) -> Document:
    return {
        "id": run_id(row.id),
        "version": row.pipeline_version,
        "status": row.status,
        "errorCode": row.error_code,
        "createdAt": iso(row.created_at),
        "startedAt": iso(row.started_at),
        "finishedAt": iso(row.finished_at),
        "durationMs": duration_ms(row.started_at, row.finished_at),
    }
