"""Ids are found by their beginning, names by any part, of the own tenant only."""

from __future__ import annotations

import pytest
from support.factories import a_pipeline
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.reading.searching import MOST_HITS
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction

TENANT = "search-tests"


def found(tx: Transaction, text: str, tenant: str = TENANT) -> list[tuple[str, str]]:
    return [(each["kind"], each["id"]) for each in reading.search(tx, tenant, text)]


def test_a_run_and_its_task_runs_are_found_by_the_beginning_of_an_id(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b", id="p")
    run_id = triggering.trigger(tx, VALUES, TENANT, StartRequest("p")).id
    run, first = ids.show(ids.RUN, run_id), ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 1))
    assert found(tx, run) == [("run", run)]
    assert found(tx, f" {run[:20].upper()} ") == [("run", run)]
    assert found(tx, first) == [("taskRun", first)]
    assert [kind for kind, _ in found(tx, run.removeprefix("prun_")[:18])] == ["run", "taskRun", "taskRun"]
    assert found(tx, run, tenant="search-others") == []
    (hit,) = reading.search(tx, TENANT, run)
    assert (hit["name"], hit["status"]) == ("p", "running")


def test_names_are_found_by_any_part_and_those_that_begin_so_come_first(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "send_report", id="nightly-report")
    a_pipeline(tx, TENANT, "a", id="report")
    assert found(tx, "REPORT") == [
        ("pipeline", "report"),
        ("pipeline", "nightly-report"),
        ("task", "send_report"),
    ]
    assert found(tx, "report", tenant="search-others") == []


@pytest.mark.parametrize("text", ["%", "_", "\\", "prun_", "prun_8zzzzzzz", "x" * 200, "'", "é", "trun_01"])
def test_a_text_that_means_nothing_finds_nothing(tx: Transaction, text: str) -> None:
    a_pipeline(tx, TENANT, "a", id="p")
    assert found(tx, text) == []


def test_there_are_not_more_hits_than_a_person_reads(tx: Transaction) -> None:
    for number in range(30):
        a_pipeline(tx, TENANT, f"many-{number}", id=f"many-{number}")
    assert len(found(tx, "many")) <= MOST_HITS
    assert {kind for kind, _ in found(tx, "many")} == {"pipeline", "task"}
