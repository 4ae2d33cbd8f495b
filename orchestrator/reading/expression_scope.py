"""Gives the values of a run that an expression may name, to try an expression out on a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.errors import NotFound
from pipeweave.orchestrator.domain.states import FAILED_TASK
from pipeweave.orchestrator.reading.state_document import run_state
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.pipelines import StoredPipeline
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import references
from pipeweave.suggestions import did_you_mean


def expression_scope(tx: Transaction, tenant: str, id: UUID, step_id: str | None) -> dict[str, Any]:
    """The values of a run by root: `input`, `steps`, `status` and others.

    Nothing is loaded from storage: what the state of the run does not show is null.

    Args:
        tx: a transaction of `Database.reading`; it becomes one snapshot.
        tenant: of the run.
        id: of the run.
        step_id: a step; only the steps before it are there. None for all steps.

    Raises:
        NotFound: the tenant has no such run, or the run no such step.
        InvalidReference: a variable of the pipeline refers to a value that the input does not have.
    """
    state = run_state(tx, tenant, id)
    stored = pipelines.get(tx, tenant, state["pipelineId"], state["pipelineVersion"]).of_body(state["body"])
    before = _before(stored, step_id)
    steps = {key: step for key, step in state["steps"].items() if key in before}
    run_input = state["variables"]["input"]
    return {
        "input": run_input,
        "steps": {key: step["result"] for key, step in steps.items() if step["status"] == "completed"},
        "status": {key: step["status"] for key, step in steps.items()},
        "errors": {
            key: {"step": key, **(step["error"] or {})} if step["status"] in FAILED_TASK else None
            for key, step in steps.items()
        },
        "variables": references.resolve(stored.spec.variables, input=run_input, steps={}),
        "trigger": {key: state["trigger"][key] for key in ("type", "id", "actor", "timestamp", "payload")},
        "run": _run(state),
    }


def _before(stored: StoredPipeline, step_id: str | None) -> set[str]:
    known = stored.plan.ordinals
    if step_id is None:
        return set(known)
    if step_id not in known:
        hint = did_you_mean(step_id, known, f"its steps are {', '.join(list(known)[:10])}")
        raise NotFound(f"step {step_id[:200]!r} not found in pipeline {stored.id!r}", hint=hint)
    return set(stored.plan.ancestors(step_id))


def _run(state: Document) -> Document:
    return {
        "id": state["id"],
        "pipeline": state["pipelineId"],
        "createdAt": state["metadata"]["createdAt"],
        "outcome": None,
    }
