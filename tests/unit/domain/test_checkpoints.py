"""Which events change the state of a run, and which are its checkpoints."""

from __future__ import annotations

from support.pages import ROOT

from pipeweave import ids
from pipeweave.orchestrator.domain import replay
from pipeweave.orchestrator.domain.checkpoints import CHECKPOINTS, MOVING, STATE_UPDATED, as_state_updated


def test_every_event_changes_the_state_but_those_that_only_note_what_has_come() -> None:
    assert {
        "run.signalled",
        "run.repaired",
        "task_run.extended",
        "task_run.secret_masked",
        "task_run.voted",
    } == replay.TYPES - MOVING


def test_checkpoints_are_where_a_run_stands_still() -> None:
    assert CHECKPOINTS < MOVING
    assert {"run.created", "run.paused", "task_run.completed", "task_run.waiting"} <= CHECKPOINTS
    assert CHECKPOINTS.isdisjoint({"task_run.started", "task_runs.queued", "task_run.retrying"})


def test_an_event_that_is_no_checkpoint_has_a_snapshot_all_the_same() -> None:
    run_id = ids.new_id()
    event = as_state_updated(run_id, 3, "task_run.started")
    assert event["type"] == STATE_UPDATED
    assert event["data"]["stateSnapshot"] == f"/api/runs/{ids.show(ids.RUN, run_id)}/at?seq=3"
    assert event["data"]["checkpoint"] is None


def test_the_page_of_the_state_machines_names_the_view() -> None:
    assert f"`{STATE_UPDATED}`" in (ROOT / "docs/state-machine.md").read_text()
