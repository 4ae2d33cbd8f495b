"""Starts the runs that a request asks for: checks their input, calls the trigger verb, shapes the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeweave import ids
from pipeweave.api.contract.requests import RunRequest, TriggerBatchRequest, TriggerRequest
from pipeweave.api.http import Call, idempotency_header
from pipeweave.api.routes import input_checks
from pipeweave.errors import NotFound
from pipeweave.orchestrator.domain import TriggeredBy
from pipeweave.orchestrator.registry import TaskRow, task_rows
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store import Transaction
from pipeweave.spec import PipelineSpec
from pipeweave.storage import plain_path


def start(call: Call, pipeline_id: str, body: TriggerRequest) -> dict[str, Any]:
    """Start the run that the body asks for."""
    faults = input_checks.NO_FAULTS

    def check(spec: PipelineSpec, tasks: Mapping[str, TaskRow]) -> None:
        nonlocal faults
        faults = input_checks.faults_of(spec, tasks, body.input)
        input_checks.refuse(faults, body.validation_mode)

    def verb(tx: Transaction) -> triggering.CreatedRun:
        with known_pipeline(tx, call.tenant, pipeline_id):
            run_token = idempotency_header.of_body(call.key, body.run_token, "runToken")
            request = _trigger(call.cause, pipeline_id, body, run_token)
            is_unchecked = body.validation_mode == "none"
            return triggering.trigger(
                tx,
                call.deployment.values,
                call.tenant,
                request,
                version=body.version,
                check=None if is_unchecked else check,
            )

    return _answer(call.tenant, call.change(verb, is_one=False), faults)


def start_all(call: Call, pipeline_id: str, batch: TriggerBatchRequest) -> list[dict[str, Any]]:
    """Start all runs of a batch, or none. The answers are in the order of the batch."""
    cause, key = call.cause, call.key
    requests = [
        _trigger(cause, pipeline_id, run, idempotency_header.of_entry(key, run.run_token, index))
        for index, run in enumerate(batch.runs)
    ]
    faults = [input_checks.NO_FAULTS] * len(requests)

    def check(spec: PipelineSpec, tasks: Mapping[str, TaskRow]) -> None:
        faults[:] = input_checks.faults_of_each(spec, tasks, [request.input for request in requests])
        input_checks.refuse_runs(faults, batch.validation_mode)

    def verb(tx: Transaction) -> list[triggering.CreatedRun]:
        with known_pipeline(tx, call.tenant, pipeline_id):
            is_unchecked = batch.validation_mode == "none"
            return triggering.trigger_many(
                tx,
                call.deployment.values,
                call.tenant,
                pipeline_id,
                requests,
                version=batch.version,
                check=None if is_unchecked else check,
            )

    created = call.change(verb, is_one=False)
    return [_answer(call.tenant, run, run_faults) for run, run_faults in zip(created, faults, strict=True)]


@contextmanager
def known_pipeline(tx: Transaction, tenant: str, pipeline_id: str) -> Iterator[None]:
    """Improve the error for an unknown pipeline: if a task has the id, the hint says how to run it."""
    try:
        yield
    except NotFound:
        if not task_rows.tasks(tx, tenant, [pipeline_id]):
            raise
        raise NotFound(
            f"pipeline {pipeline_id!r} not found, but there is a task with this id",
            hint=f"queue it by POST /api/queue/task, or declare a pipeline: PUT /api/pipelines/{pipeline_id}",
            pipelineId=pipeline_id,
        ) from None


def _trigger(
    cause: TriggeredBy, pipeline_id: str, body: RunRequest, run_token: str | None
) -> triggering.StartRequest:
    return triggering.StartRequest(
        pipeline_id,
        body.input,
        body.failure_mode,
        body.priority,
        body.metadata,
        run_token,
        cause,
        queue=body.queue,
        requires=body.requires,
    )


def _answer(tenant: str, run: triggering.CreatedRun, faults: input_checks.InputFaults) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "pipelineRunId": ids.show(ids.RUN, run.id),
        "tenant": tenant,
        "pipelineVersion": run.version,
        "status": run.status,
        "inputPath": run.input_path and plain_path(run.input_path),
        "entryTasks": run.entry_tasks,
        "queuedTasks": run.queued_tasks,
        "created": run.created,
    }
    if run.skipped:
        answer["skipped"] = True
    if faults is not input_checks.NO_FAULTS:
        answer["validationWarnings"] = faults.to_json()
    return answer
