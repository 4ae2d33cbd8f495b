"""Pipelines that run pipelines, and the runs of their trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.spec import ChildPipeline, LoopStep, StepSpec, engine_task
from support.run_driver import RunDriver


def child(id: str, pipeline: str, needs: Sequence[str] = (), **rules: Any) -> StepSpec:
    """A step that runs a pipeline."""
    version = rules.pop("version", None)
    decides = ChildPipeline(pipeline, version)
    return StepSpec(id, engine_task(decides), tuple(needs), decides=decides, **rules)


def loop(
    id: str, pipeline: str, rounds: int, needs: Sequence[str] = (), *, params: Any = None, **options: Any
) -> StepSpec:
    """A step that runs a pipeline in rounds."""
    decides = LoopStep(ChildPipeline(pipeline), rounds, **options)
    return StepSpec(id, engine_task(decides), tuple(needs), decides=decides, params=params)


def children(driver: RunDriver, run_id: UUID) -> list[Any]:
    """The rows of a run's children, oldest first."""
    return driver.rows("SELECT * FROM runs WHERE parent_run_id = :id ORDER BY id", id=run_id)


def only_child(driver: RunDriver, run_id: UUID) -> UUID:
    """The id of the only child of a run."""
    [row] = children(driver, run_id)
    return UUID(str(row.id))


def task_run(driver: RunDriver, run_id: UUID, step: str) -> Any:
    """The row of a step."""
    [row] = [each for each in driver.task_runs(run_id) if each.step_id == step and each.kind != "item"]
    return row
