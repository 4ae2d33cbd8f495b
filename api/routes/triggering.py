"""Runs by request, one or many: the wish of a body, the checks of its input, the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeweave import ids
from pipeweave.api.contract.requests import RunWish, TriggerBatchRequest, TriggerRequest
from pipeweave.api.http import idempotency_header
from pipeweave.api.http.endpoint import Call
from pipeweave.api.routes import input_checks
from pipeweave.errors import NotFound
from pipeweave.orchestrator.registry import services
from pipeweave.orchestrator.registry.services import TaskRow
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec.pipeline_spec import PipelineSpec


def start(call: Call, pipeline_id: str, body: TriggerRequest) -> dict[str, Any]:
    """Start the run that the body asks for."""
    faults: input_checks.Faults = {}

    def check(spec: PipelineSpec, tasks: Mapping[str, TaskRow]) -> None:
        nonlocal faults
        faults = input_checks.entry_faults(spec, tasks, body.input)
        if body.validation_mode == "strict":
            input_checks.refuse(faults)

    def verb(tx: Transaction) -> triggering.CreatedRun:
        with known_pipeline(tx, call.tenant, pipeline_id):
            wish = _wish(pipeline_id, body, idempotency_header.of_body(call.key, body.run_token, "runToken"))
            is_unchecked = body.validation_mode == "none"
            return triggering.trigger(tx, call.tenant, wish, check=None if is_unchecked else check)

    return _answer(call.change(verb, is_one=False), faults)


def start_all(call: Call, pipeline_id: str, batch: TriggerBatchRequest) -> list[dict[str, Any]]:
    """Start every run that the batch asks for, in its order, or none."""
    wishes = [
        _wish(pipeline_id, each, idempotency_header.of_entry(call.key, each.run_token, place))
        for place, each in enumerate(batch.runs)
    ]
    faults: list[input_checks.Faults] = [{} for _ in wishes]

    def check(spec: PipelineSpec, tasks: Mapping[str, TaskRow]) -> None:
        faults[:] = [input_checks.entry_faults(spec, tasks, each.input) for each in wishes]
        if batch.validation_mode == "strict":
            input_checks.refuse_runs(faults)

    def verb(tx: Transaction) -> list[triggering.CreatedRun]:
        with known_pipeline(tx, call.tenant, pipeline_id):
            is_unchecked = batch.validation_mode == "none"
            return triggering.trigger_many(
                tx, call.tenant, pipeline_id, wishes, check=None if is_unchecked else check
            )

    return [_answer(run, found) for run, found in zip(call.change(verb, is_one=False), faults, strict=True)]


@contextmanager
def known_pipeline(tx: Transaction, tenant: str, pipeline_id: str) -> Iterator[None]:
    """Where there is no pipeline of that id but a task, the error says what to do with it."""
    try:
        yield
    except NotFound:
        if not services.tasks(tx, tenant, [pipeline_id]):
            raise
        raise NotFound(
            f"there is no pipeline {pipeline_id!r}, but a task of that id",
            hint=f"queue it: POST /api/queue/task; or declare a pipeline: PUT /api/pipelines/{pipeline_id}",
            pipelineId=pipeline_id,
        ) from None


def _wish(pipeline_id: str, body: RunWish, run_token: str | None) -> triggering.Trigger:
    return triggering.Trigger(
        pipeline_id, body.input, body.failure_mode, body.priority, body.metadata, run_token
    )


def _answer(run: triggering.CreatedRun, faults: input_checks.Faults) -> dict[str, Any]:
    answer = {
        "pipelineRunId": ids.show(ids.RUN, run.id),
        "pipelineVersion": run.version,
        "status": run.status,
        "inputPath": run.input_path,
        "entryTasks": run.entry_tasks,
        "queuedTasks": run.queued_tasks,
        "created": run.created,
    }
    return {**answer, "validationWarnings": input_checks.shown(faults)} if faults else answer
