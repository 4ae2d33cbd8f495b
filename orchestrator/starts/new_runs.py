"""Starts runs of a pipeline whose inputs nobody has checked since the request was stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeweave.orchestrator.registry import TaskRow, pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts.failures import refuse
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.schema import run_input_errors
from pipeweave.size_limits import MAX_BATCH_TASK_RUNS
from pipeweave.spec import PipelineSpec


def start(tx: Transaction, values: Values, tenant: str, requests: Sequence[StartRequest]) -> list[CreatedRun]:
    """Start runs of one pipeline: all of them or, when one request is refused, none.

    Args:
        requests: in the order of their run tokens (lock order).

    Returns:
        The run of each request.

    Raises:
        PipeWeaveError: as `triggering.trigger_many`, and InputValidationFailed when the pipeline refuses an
            input.
    """
    if not requests:
        return []
    pipeline_id = requests[0].pipeline_id

    def check(spec: PipelineSpec, _: Mapping[str, TaskRow]) -> None:
        # The runs of one schedule share their input.
        for value in {id(each.input): each.input for each in requests}.values():
            refuse(spec.id, run_input_errors(spec.input_schema, value))

    most = _most_at_once(tx, tenant, pipeline_id) if len(requests) > 1 else 1
    return [
        run
        for begin in range(0, len(requests), most)
        for run in triggering.trigger_many(
            tx, values, tenant, pipeline_id, requests[begin : begin + most], check=check
        )
    ]


def _most_at_once(tx: Transaction, tenant: str, pipeline_id: str) -> int:
    steps = len(pipelines.get(tx, tenant, pipeline_id).plan.steps)
    return max(1, MAX_BATCH_TASK_RUNS // max(1, steps))
