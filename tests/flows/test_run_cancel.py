"""Cancelling runs while their steps run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.live_stack import Stage

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.runs import triggering

pytestmark = pytest.mark.timeout(120)

HELD: dict[str, Any] = {
    "id": "held",
    "steps": [
        {"id": "hold", "task": "hold", "needs": []},
        {"id": "beside", "task": "noop", "needs": []},
        {"id": "after", "task": "noop", "needs": ["hold", "beside"]},
        {"id": "last", "task": "noop"},
    ],
}


def held(stage: Stage, gate: Path, document: dict[str, Any] = HELD, **input: Any) -> Any:
    """A run one of whose steps is being called."""
    stage.store(document)
    run_id = stage.trigger(document["id"], {"path": str(gate), **input})
    stage.until(Path(f"{gate}.held").exists, "the step does not run")
    return run_id


def test_a_cancelled_run_ignores_the_late_completion_and_starts_nothing_new(stage: Stage, gate: Path) -> None:
    run_id = held(stage, gate)
    stage.until(lambda: stage.statuses(run_id)["beside"] == "completed", "the other step did not end")

    stage.cancel(run_id, "changed my mind")

    run = stage.run(run_id)
    assert (run.status, run.error["message"]) == ("cancelled", "changed my mind")
    cancelled = stage.statuses(run_id)
    assert cancelled == {
        "hold": "cancelled",
        "beside": "completed",
        "after": "cancelled",
        "last": "cancelled",
    }
    events = stage.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run_id)
    gate.touch()
    stage.until(lambda: len(stage.calls(run_id)) == 2, "the held call did not return")
    stage.settle()
    assert stage.statuses(run_id) == cancelled
    assert stage.steps(run_id)["hold"].output is None
    assert stage.run(run_id) == run
    assert stage.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run_id) == events
    assert {call.step_id for call in stage.calls(run_id)} == {"hold", "beside"}


def test_items_that_wait_in_messages_are_not_started_after_a_cancel(stage: Stage, gate: Path) -> None:
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
    run_id = held(stage, gate, document, list=list(range(100)))
    stage.cancel(run_id)
    gate.touch()
    stage.settle()
    # One call per child was under way.
    assert len(stage.calls(run_id)) <= 2
    statuses = {row.status for row in stage.task_runs(run_id)}
    assert statuses == {"cancelled"}


def test_a_run_is_cancelled_once(stage: Stage, gate: Path) -> None:
    run_id = held(stage, gate)
    stage.cancel(run_id, "first")
    with pytest.raises(Conflict, match="is cancelled already"):
        stage.cancel(run_id, "second")
    assert stage.run(run_id).error["message"] == "first"
    gate.touch()
    stage.settle()


def test_a_final_run_cannot_be_cancelled(stage: Stage) -> None:
    run = stage.ran({"id": "plain", "steps": [{"id": "only", "task": "noop"}]})
    with pytest.raises(Conflict, match="is completed already"):
        stage.cancel(run.id)
    assert stage.run(run.id) == run


def test_a_run_of_another_tenant_is_not_there(stage: Stage) -> None:
    run = stage.ran({"id": "plain", "steps": [{"id": "only", "task": "noop"}]})
    for tenant, run_id in (("default", run.id), (stage.settings.tenant, ids.new_id())):
        with (
            pytest.raises(NotFound, match="there is no run"),
            stage.deployment.database.transaction() as tx,
        ):
            triggering.cancel(tx, tenant, run_id)
