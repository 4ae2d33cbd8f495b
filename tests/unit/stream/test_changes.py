"""Types of changes are named one by one or by their kind; a wrong name gets the nearest right one."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from support.pages import ROOT

from pipeweave import ids
from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.stream import WantedChanges, changes


def test_a_kind_stands_for_all_of_its_types() -> None:
    assert changes.KINDS == ("run", "task_run", "task_runs")
    found = changes.types_of(["run", "task_run.failed"])
    assert {"run.created", "run.completed", "run.failed", "task_run.failed"} <= found
    assert not {each for each in found if each.startswith("task_run")} - {"task_run.failed"}


def test_all_wrong_types_are_told_with_the_nearest() -> None:
    with pytest.raises(InvalidInput) as caught:
        changes.types_of(["run.complete", "task_run.started", "banana"])
    assert [each.expected for each in caught.value.errors] == [
        "did you mean 'run.completed'?",
        "run, task_run, task_runs, log, state_updated",
    ]


def test_logs_are_those_of_one_run_and_only_if_they_are_named() -> None:
    assert changes.types_of(["run.paused", "log"], is_of_run=True) == {"run.paused", "log"}
    with pytest.raises(InvalidInput) as caught:
        changes.types_of(["log", "banana"])
    assert [each.message for each in caught.value.errors] == [
        "'banana' is no type of a change",
        "'log' needs a run",
    ]
    with pytest.raises(InvalidInput, match="types 'log' needs a run"):
        changes.types_of(["log"])
    run_id = ids.new_id()
    assert WantedChanges("default", frozenset({"log"}), run_id=run_id).has_logs
    assert not WantedChanges("default", None, run_id=run_id).has_logs
    assert "log" not in changes.types_of(["run", "task_run", "task_runs"])


def test_one_name_stands_for_every_change_of_the_state() -> None:
    named = changes.types_of(["state_updated"])
    assert {"run.created", "task_runs.queued", "task_run.completed"} <= named
    assert not named & {"run.signalled", "task_run.voted"}
    with pytest.raises(InvalidInput, match="stands for all types"):
        changes.types_of(["state_updated", "run"])


def test_a_change_of_the_state_names_its_event_and_its_snapshot() -> None:
    run_id = ids.new_id()
    shown = ids.show(ids.RUN, run_id)
    at = datetime.now(UTC)
    event = FeedEvent(7, at, "task_run.completed", "default", "p", run_id, None, None, 1, {"outputHash": "x"})
    change = orjson.loads(changes.content(event, as_state=True))
    assert (change["type"], change["seq"], change["runId"]) == ("state_updated", 7, shown)
    assert change["data"] == {
        "event": "task_run.completed",
        "stateSnapshot": f"/api/runs/{shown}/at?seq=7",
        "checkpoint": f"/api/runs/{shown}/checkpoints/7",
    }


@pytest.mark.parametrize("words", [[], [""]])
def test_no_type_is_wrong(words: list[str]) -> None:
    with pytest.raises(InvalidInput):
        changes.types_of(words)


def test_the_page_shows_a_change_as_it_is_sent() -> None:
    run_id = ids.new_id()
    event = FeedEvent(
        4711,
        datetime.now(UTC),
        "run.completed",
        "default",
        "report",
        run_id,
        ids.task_run_id(run_id, 1),
        "count",
        1,
        {},
    )
    page = (ROOT / "docs" / "streams.md").read_text()
    shown = orjson.loads(page.partition("```json\n")[2].partition("```")[0])
    assert list(shown) == list(orjson.loads(changes.content(event)))
    assert shown["type"] in changes.TYPES
    assert all(f"`{each}`" in page for each in changes.KINDS)
