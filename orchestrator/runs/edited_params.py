"""Checks the params that a rerun gives the step it begins at, in place of those of its version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.pipelines import StoredPipeline
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import StepSpec, edited_params_errors, takes_params


def require_begin(step_id: str | None) -> str:
    """The step that the rerun begins at: the only one whose params can be edited.

    Raises:
        InvalidInput: it begins at no step.
    """
    if step_id is None:
        raise InvalidInput(
            "`params` are those of the step to begin at, and no step is named",
            errors=[FieldError("fromStep", "is required next to `params`", "missing")],
            hint="name the step whose params they are, also if it is the first one",
        )
    return step_id


def check(
    tx: Transaction, tenant: str, stored: StoredPipeline, step: StepSpec, tasks: Mapping[str, TaskRow]
) -> None:
    """Refuse edited params of a step that no version could have, or that its task would refuse.

    Args:
        step: with the edited params.
        tasks: of the version.

    Raises:
        InvalidInput: has one FieldError per mistake, each below `params`.
    """
    if not takes_params(step):
        raise InvalidInput(
            f"step {step.id!r} runs no task and no pipeline, so it has no params",
            errors=[FieldError("params", "has no meaning for this step", "conflict")],
            hint="what the engine decides is in the version of the pipeline: store another one",
        )
    alone = replace(stored.spec, steps=(step,))
    errors = edited_params_errors(
        stored.spec,
        step,
        before=stored.plan.ancestors(step.id),
        parameters=pipelines.task_parameters(tx, tenant, alone).get(step.task),
        input_schema=tasks[step.task].input_schema if step.has_task else None,
        children=pipelines.children_of(tx, tenant, alone),
    )
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidInput(f"step {step.id!r}: {errors[0].field} {errors[0].message}{more}", errors=errors)
