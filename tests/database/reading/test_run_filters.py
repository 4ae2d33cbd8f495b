"""The filters of runs that have no index, and the list of all task runs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.factories import a_pipeline, all_pages, end, end_run
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.reading import TaskRunFilter, scanning
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import PageRequest

TENANT = "filter-tests"


@pytest.fixture(autouse=True)
def pipelines(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b", id="p")
    a_pipeline(tx, TENANT, "a", "c", id="q")


def trigger(tx: Transaction, pipeline: str, input: Any = None, **metadata: Any) -> UUID:
    return triggering.trigger(tx, VALUES, TENANT, StartRequest(pipeline, input, metadata=metadata or None)).id


def found(tx: Transaction, **filters: Any) -> set[UUID]:
    listed = reading.run_list(tx, TENANT, PageRequest(), RunFilter(**filters))
    assert listed["scannedTo"] is None
    return {ids.read(ids.RUN, each["id"]) for each in listed["items"]}


# --- runs -------------------------------------------------------------------------------------------------


def test_text_is_looked_for_in_error_metadata_and_input_whatever_its_case(tx: Transaction) -> None:
    by_input, by_metadata = trigger(tx, "p", {"mail": "Ann@example.com"}), trigger(tx, "p", who="ann")
    by_error, other = trigger(tx, "p"), trigger(tx, "q")
    end_run(tx, by_error)
    tx.execute(
        "UPDATE runs SET error = CAST(:error AS jsonb) WHERE id = :id",
        {"id": by_error, "error": '{"message": "no such user: ANN", "code": "X"}'},
    )
    assert found(tx, text="ann") == {by_input, by_metadata, by_error}
    assert found(tx, text="no such user") == {by_error}
    assert found(tx, text="message") == set()
    assert found(tx, text=ids.show(ids.RUN, other)) == {other}


@pytest.mark.parametrize("text", ["100%", "a_b", "back\\slash", "'; DROP TABLE runs; --"])
def test_text_means_itself_with_every_character(tx: Transaction, text: str) -> None:
    wanted = trigger(tx, "p", text=text)
    trigger(tx, "p", text="100 a-b backslash")
    shown = text.replace("\\", "\\\\")
    assert found(tx, text=shown) == {wanted}
    assert found(tx, metadata={"text": text}) == {wanted}


def test_metadata_is_compared_by_key_and_value(tx: Transaction) -> None:
    one, two = trigger(tx, "p", customer="acme", tries=3), trigger(tx, "p", customer="acme", tries=4)
    trigger(tx, "p", other="acme")
    assert found(tx, metadata={"customer": "acme"}) == {one, two}
    assert found(tx, metadata={"customer": "acme", "tries": "3"}) == {one}
    assert found(tx, metadata={"customer": "acme", "nothing": ""}) == set()


def test_runs_are_found_by_version_duration_and_task(tx: Transaction) -> None:
    old = trigger(tx, "p")
    a_pipeline(tx, TENANT, "a", "b", "c", id="p")
    new, other = trigger(tx, "p"), trigger(tx, "q")
    for run_id in (old, new):
        end_run(tx, run_id)
    tx.execute("UPDATE runs SET finished_at = started_at + interval '2 min' WHERE id = :id", {"id": new})
    assert found(tx, version=2) == {new}
    assert found(tx, version=1, pipeline_id=["p"]) == {old}
    assert found(tx, min_ms=60_000) == {new}
    assert found(tx, task_id="b") == {old, new}
    assert found(tx, task_id="c") == {new, other}
    assert found(tx, task_id="c", status=["completed", "failed"]) == {new}
    assert found(tx, task_id="nobody") == set()


def test_a_look_that_is_cut_off_goes_on_page_by_page(
    tx: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {trigger(tx, "p", want="yes"), trigger(tx, "p", want="yes")}
    for _ in range(5):
        trigger(tx, "q")
    monkeypatch.setattr("pipeweave.orchestrator.reading.list_of_runs.SLICE", 2)
    monkeypatch.setattr(scanning, "SLICE", 2)
    monkeypatch.setattr(scanning, "MOST_ROWS", 2)
    first = reading.run_list(tx, TENANT, PageRequest(), RunFilter(metadata={"want": "yes"}))
    assert (first["items"], first["scanned"]) == ([], 2)
    assert first["scannedTo"] is not None and first["nextCursor"] is not None
    listed, cursor = list(first["items"]), first["nextCursor"]
    while cursor is not None:
        page = reading.run_list(tx, TENANT, PageRequest(1, cursor), RunFilter(metadata={"want": "yes"}))
        listed, cursor = listed + page["items"], page["nextCursor"]
    assert len(listed) == 2
    assert {ids.read(ids.RUN, each["id"]) for each in listed} == wanted


# --- task runs --------------------------------------------------------------------------------------------


def task_runs(tx: Transaction, **filters: Any) -> list[tuple[str, str]]:
    listed = all_pages(lambda page: reading.task_run_list(tx, TENANT, page, TaskRunFilter(**filters)), 2)
    return [(each["taskId"], each["status"]) for each in listed]


def test_task_runs_of_all_runs_are_listed_and_filtered(tx: Transaction) -> None:
    run_id = trigger(tx, "p")
    end(tx, run_id, 1)
    tx.execute("UPDATE task_runs SET worker = 'w@host:7:ab' WHERE worker = 'w@host'")
    standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("c")])
    assert sorted(task_runs(tx)) == [("a", "completed"), ("b", "pending"), ("c", "queued")]
    assert task_runs(tx, is_standalone=True) == [("c", "queued")]
    assert task_runs(tx, is_standalone=True, status="completed") == []
    assert task_runs(tx, task_id="b") == [("b", "pending")]
    assert task_runs(tx, status="queued") == [("c", "queued")]
    assert task_runs(tx, worker="w@host") == task_runs(tx, worker="w@host:7:ab") == [("a", "completed")]
    assert task_runs(tx, worker="w@hos") == []
    assert task_runs(tx, created_before=tx.now.replace(year=2001)) == []
    assert len(task_runs(tx, created_after=tx.now.replace(year=2001))) == 3


def test_a_standalone_task_run_shows_no_run(tx: Transaction) -> None:
    (alone,) = standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("c")])
    run_id = trigger(tx, "p")
    listed = reading.task_run_list(tx, TENANT, PageRequest())["items"]
    shown = {each["taskId"]: each["runId"] for each in listed}
    assert shown == {"c": None, "a": ids.show(ids.RUN, run_id), "b": ids.show(ids.RUN, run_id)}
    assert ids.show(ids.TASK_RUN, alone.task_run_id) in [each["id"] for each in listed]


def test_a_page_may_end_within_a_wide_run(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        trigger(tx, "p")
    monkeypatch.setattr("pipeweave.orchestrator.reading.list_of_task_runs.SLICE", 3)
    monkeypatch.setattr(scanning, "SLICE", 3)
    assert sorted(task_runs(tx)) == sorted([("a", "queued"), ("b", "pending")] * 3)
