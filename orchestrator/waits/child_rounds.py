"""Says what a wait for a child had as data, from the children that there were: the wait was deleted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.errors import Conflict
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import KeptValue, TaskRun
from pipeweave.orchestrator.engine.referred_values import NotLoaded
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.waits.child_outputs import output_of_child, place_of, value_of
from pipeweave.orchestrator.waits.held import NOTHING_HELD
from pipeweave.spec import WITH_OUTPUT, LoopStep

_BEFORE = """
SELECT r.id FROM runs AS r
WHERE r.parent_run_id = :run_id AND r.parent_task_run_id = :id AND r.id < :child
    AND r.status = ANY(CAST(:statuses AS text[])) ORDER BY r.id
"""


def data_of(tx: Transaction, run: RunHeader, task_run: TaskRun, child: UUID) -> dict[str, Any]:
    """What the wait of a task run for this child has as data.

    Raises:
        Conflict: a loop needs the output of a round before, which must be loaded first.
    """
    data: dict[str, Any] = {"run": str(child), "round": 0, "try": 1}
    loop = run.plan[run.plan.ordinals[task_run.step_id]].step.decides
    if not isinstance(loop, LoopStep):
        return data
    named = {"run_id": run.id, "id": task_run.id, "child": child, "statuses": sorted(WITH_OUTPUT)}
    before: list[UUID] = list(tx.execute(_BEFORE, named).scalars())
    try:
        outputs = [_output(tx, each) for each in (before if loop.collect else before[-1:])]
        if outputs:
            data |= {"round": len(before), "last": place_of(outputs[-1])}
        if loop.collect:
            data["outputs"] = [value_of(each, NOTHING_HELD) for each in outputs]
    except NotLoaded:
        raise Conflict(
            "the loop cannot continue, because the outputs of its rounds are in storage",
            hint="run the pipeline again, and discard the dead letter",
        ) from None
    return data


def _output(tx: Transaction, child: UUID) -> KeptValue:
    output = output_of_child(tx, child, NOTHING_HELD)
    if not isinstance(output, KeptValue):
        raise NotLoaded(())
    return output
