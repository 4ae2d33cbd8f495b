"""Names runs and task runs in the log: the same members in the lines of every process."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun


def names_of_run(run: RunHeader) -> dict[str, Any]:
    """The ids of a run, as they are shown."""
    return {
        "tenant": run.tenant,
        "pipeline_id": run.pipeline_id,
        "run_id": ids.show(ids.RUN, run.id),
        "trace_id": run.trace_id,
    }


def names_of(run: RunHeader, task_run: TaskRun) -> dict[str, Any]:
    """The ids of a task run and its run, as they are shown, and the number of its attempt."""
    names = {
        **names_of_run(run),
        "task_run_id": ids.show(ids.TASK_RUN, task_run.id),
        "task_id": task_run.task_id,
        "step_id": task_run.step_id,
        "attempt": task_run.attempt,
    }
    return names if task_run.map_index is None else {**names, "map_index": task_run.map_index}
