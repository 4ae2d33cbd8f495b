"""Refuses pipelines with steps that require labels which no worker that could call their tasks can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeweave.labels import MAX_LABELS
from pipeweave.orchestrator.registry.task_rows import HTTP
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import ParameterError, PipelineSpec

MOST_ERRORS = 100

_TASKS = """
SELECT k.id, s.kind, k.requires FROM tasks AS k
JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
WHERE k.tenant_id = :tenant AND k.id = ANY(CAST(:ids AS text[]))
"""


def errors_of_labels(tx: Transaction, tenant: str, spec: PipelineSpec) -> list[ParameterError]:
    """What is wrong with the labels that the steps of a pipeline require, at most MOST_ERRORS. Reads nothing
    where none requires one.
    """
    ids = sorted({step.task for _, step in spec.all_steps if step.requires is not None})
    if not ids:
        return []
    tasks = {row.id: row for row in tx.execute(_TASKS, {"tenant": tenant, "ids": ids})}
    return list(_errors(spec, tasks))[:MOST_ERRORS]


def _errors(spec: PipelineSpec, tasks: dict[str, Any]) -> Iterator[ParameterError]:
    for place, step in spec.all_steps:
        task = tasks.get(step.task)
        if task is None or step.requires is None:
            continue
        field, number = f"{place}.requires", len({**(task.requires or {}), **step.requires})
        if task.kind == HTTP:
            problem = f"{step.task} is a task of an HTTP service, which has no labels: leave it out"
            yield ParameterError(field, problem, "unsupported", step.id)
        elif number > MAX_LABELS:
            problem = (
                f"and {step.task} require {number} labels together, and a worker has at most {MAX_LABELS}"
            )
            yield ParameterError(field, problem, "limit_exceeded", step.id)
