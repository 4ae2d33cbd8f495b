"""Pipelines that take care of errors, and the runs that do."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.spec import ChildCall, ChildPipeline, ErrorRule, StepSpec
from support.child_runs import children
from support.run_driver import RunDriver


def call(pipeline: str, params: Any = None) -> ChildCall:
    """What runs a pipeline when something has happened."""
    return ChildCall(ChildPipeline(pipeline), params)


def rule(
    pipeline: str, params: Any = None, *, condition: str | None = None, handled: bool = True
) -> ErrorRule:
    """What takes care of an error by a pipeline."""
    return ErrorRule(call(pipeline, params), condition, handled)


def store_remedy(driver: RunDriver, id: str = "remedy") -> None:
    """Store a pipeline of one step, `cure`."""
    driver.store_steps(StepSpec("cure", "noop"), id=id)


def last_child(driver: RunDriver, run_id: UUID) -> UUID:
    """The id of the run that was started last for a run."""
    return UUID(str(children(driver, run_id)[-1].id))


def letters(driver: RunDriver, *run_ids: UUID) -> list[Any]:
    """The dead letters of runs, oldest first."""
    return driver.rows("SELECT * FROM dead_letters WHERE run_id = ANY(:ids) ORDER BY id", ids=list(run_ids))
