"""What a run has in common with the one before it is written once, and must be what it would be alone."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import orjson
import pytest

from pipeweave import ids
from pipeweave.orchestrator.domain.run import Parent, RunHeader
from pipeweave.orchestrator.domain.run_edits import RunEdits
from pipeweave.orchestrator.domain.run_key import RunKey
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.runs.new_run import NewRun
from pipeweave.orchestrator.runs.row_texts import RunTexts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOME_ID = UUID(int=7 << 80)
PLAN: Any = SimpleNamespace(steps=[1])

# A value of each field that the row or the event shows, other than that of `a_run`.
OTHER_HEADERS: dict[str, Any] = {
    "pipeline_id": "other",
    "pipeline_version": 2,
    "failure_mode": "continue",
    "priority": 7,
    "plan": SimpleNamespace(steps=[1, 2]),
    "triggered_by": TriggeredBy(actor="somebody"),
    "rerun_from": "a",
    "parent": Parent(SOME_ID, SOME_ID, SOME_ID, 1),
    "queue": "fast",
    "requires": {"gpu": "yes"},
}
# Shown of the run of a body alone.
OF_BODIES: dict[str, Any] = {"body": "each", "scope": SimpleNamespace(to_json=lambda: {"a": 1})}
OTHER_RUNS: dict[str, Any] = {
    "input": KeptValue('{"n":1}', None, 7, "cd" * 32),
    "metadata": {"n": 1},
    "run_token": 'a "token"',
    "timeout_ms": 5,
    "idle_timeout_ms": 6,
    "rerun_of": SOME_ID,
    "reused": SimpleNamespace(items=3),
    "edits": RunEdits(params={"a": {"n": 1}}),
    "key": RunKey("a key", 1),
}
HIDDEN = {"id", "tenant", "input", "input_path", "tasks", "value", "idempotency_key", "header"}


def a_run(**changes: Any) -> NewRun:
    header = RunHeader(ids.new_id(), "t", "p", 1, "fail-fast", None, {}, None, PLAN)
    of_run = {name: each for name, each in changes.items() if name in NewRun._fields and name != "header"}
    of_header = {name: each for name, each in changes.items() if name not in of_run}
    new = NewRun(header._replace(**of_header), KeptValue("{}", None, 2, "ab" * 32), {})
    return new._replace(**of_run)


def texts(*runs: tuple[NewRun, RunStatus]) -> list[Any]:
    written = RunTexts(NOW)
    return [orjson.loads(each) for new, at in runs for each in written.of(new, at, str(new.header.id))]


def own(written: list[Any]) -> list[Any]:
    """The same without ids."""
    return [{name: at for name, at in each.items() if name not in ("id", "run_id")} for each in written]


@pytest.mark.parametrize(("name", "value"), [*OTHER_HEADERS.items(), *OTHER_RUNS.items(), *OF_BODIES.items()])
def test_a_run_beside_others_is_written_as_it_is_alone(name: str, value: Any) -> None:
    at = RunStatus.RUNNING
    parent = OTHER_HEADERS["parent"] if name in OF_BODIES else None
    usual, other = (a_run(parent=parent), at), (a_run(**{"parent": parent, name: value}), at)

    assert own(texts(usual)) != own(texts(other))
    assert texts(usual, other, usual, usual) == [*texts(usual), *texts(other), *texts(usual), *texts(usual)]


def test_each_field_that_is_shown_is_among_them() -> None:
    known = {*OTHER_HEADERS, *OTHER_RUNS, *OF_BODIES} | HIDDEN
    assert known == {*RunHeader._fields, *NewRun._fields}


def test_a_run_that_waits_beside_one_that_begins_says_so() -> None:
    new = a_run()
    begun, _, waiting, created = texts((new, RunStatus.RUNNING), (new, RunStatus.PENDING))
    assert (begun["status"], waiting["status"], created["data"]["status"]) == (
        "running",
        "pending",
        "pending",
    )
    assert "started_at" in begun and "started_at" not in waiting
