"""Cancelling runs while their steps run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.runs import triggering

HELD: dict[str, Any] = {
    "id": "held",
    "steps": [
        {"id": "hold", "task": "hold", "needs": []},
        {"id": "beside", "task": "noop", "needs": []},
        {"id": "after", "task": "noop", "needs": ["hold", "beside"]},
        {"id": "last", "task": "noop"},
    ],
}


def held(stack: LiveStack, gate: Path, document: dict[str, Any] = HELD, **input: Any) -> Any:
    """A run one of whose steps is being called."""
    stack.store(document)
    run_id = stack.trigger(document["id"], {"path": str(gate), **input})
    stack.until(Path(f"{gate}.held").exists, "the step does not run")
    return run_id


def test_a_cancelled_run_ignores_the_late_completion_and_starts_nothing_new(
    stack: LiveStack, gate: Path
) -> None:
    run_id = held(stack, gate)
    stack.until(lambda: stack.statuses(run_id)["beside"] == "completed", "the other step did not end")

    stack.cancel(run_id, "changed my mind")

    run = stack.run(run_id)
    assert (run.status, run.error["message"]) == ("cancelled", "changed my mind")
    cancelled = stack.statuses(run_id)
    assert cancelled == {
        "hold": "cancelled",
        "beside": "completed",
        "after": "cancelled",
        "last": "cancelled",
    }
    events = stack.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run_id)
    gate.touch()
    stack.until(lambda: len(stack.calls(run_id)) == 2, "the held call did not return")
    stack.settle()
    assert stack.statuses(run_id) == cancelled
    assert stack.steps(run_id)["hold"].output is None
    assert stack.run(run_id) == run
    assert stack.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run_id) == events
    assert {call.step_id for call in stack.calls(run_id)} == {"hold", "beside"}


def test_items_that_wait_in_messages_are_not_started_after_a_cancel(stack: LiveStack, gate: Path) -> None:
    document = {
        "id": "held-map",
        "steps": [
            {
                "id": "each",
                "task": "hold_item",
                "needs": [],
                "params": {"path": "${input.path}"},
                "map": {"over": "${input.list}", "as": "number"},
            },
            {"id": "after", "task": "noop"},
        ],
    }
    run_id = held(stack, gate, document, list=list(range(100)))
    stack.cancel(run_id)
    gate.touch()
    stack.settle()
    # One call per child was under way.
    assert len(stack.calls(run_id)) <= 2
    statuses = {row.status for row in stack.task_runs(run_id)}
    assert statuses == {"cancelled"}


def test_a_run_is_cancelled_once(stack: LiveStack, gate: Path) -> None:
    run_id = held(stack, gate)
    stack.cancel(run_id, "first")
    with pytest.raises(Conflict, match="is already cancelled"):
        stack.cancel(run_id, "second")
    assert stack.run(run_id).error["message"] == "first"
    gate.touch()
    stack.settle()


def test_a_final_run_cannot_be_cancelled(stack: LiveStack) -> None:
    run = stack.ran({"id": "plain", "steps": [{"id": "only", "task": "noop"}]})
    with pytest.raises(Conflict, match="is already completed"):
        stack.cancel(run.id)
    assert stack.run(run.id) == run


def test_a_run_of_another_tenant_is_not_there(stack: LiveStack) -> None:
    run = stack.ran({"id": "plain", "steps": [{"id": "only", "task": "noop"}]})
    for tenant, run_id in (("default", run.id), (stack.settings.tenant, ids.new_id())):
        with (
            pytest.raises(NotFound, match="not found"),
            stack.deployment.database.transaction() as tx,
        ):
            triggering.cancel(tx, tenant, run_id)
