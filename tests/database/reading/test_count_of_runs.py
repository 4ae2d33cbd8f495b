"""How many runs have each status, in the list that is shown."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.factories import a_pipeline, end_run
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.domain import RunStatus
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.reading import count_of_runs
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction

TENANT = "counted-runs"


@pytest.fixture(autouse=True)
def runs(tx: Transaction) -> None:
    """Of `p`: three completed, one failed. Of `q`: one completed, two pending."""
    a_pipeline(tx, TENANT, "a", "b", id="p")
    a_pipeline(tx, TENANT, "a", "c", id="q")
    for status in ("completed", "completed", "failed", "completed"):
        end_run(tx, trigger(tx, "p"), status)
    end_run(tx, trigger(tx, "q"))
    trigger(tx, "q")
    trigger(tx, "q")


def trigger(tx: Transaction, pipeline: str) -> UUID:
    return triggering.trigger(tx, VALUES, TENANT, StartRequest(pipeline, None)).id


def counted(tx: Transaction, *pipelines: str) -> tuple[dict[str, int], set[str]]:
    """The statuses that there are, and those of which there may be more."""
    answer = reading.run_counts(tx, TENANT, RunFilter(pipeline_id=pipelines))
    assert answer["counts"].keys() == set(RunStatus)
    return {name: number for name, number in answer["counts"].items() if number}, set(answer["atLeast"])


def test_runs_are_counted_by_status(tx: Transaction) -> None:
    assert counted(tx) == ({"completed": 4, "failed": 1, "running": 2}, set())
    assert counted(tx, "p") == ({"completed": 3, "failed": 1}, set())
    assert counted(tx, "p", "q") == counted(tx)
    assert counted(tx, "nothing") == ({}, set())


def test_what_the_list_leaves_out_is_not_counted(tx: Transaction) -> None:
    standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("a")])
    tx.execute(
        "UPDATE runs SET parent_run_id = :id, root_run_id = :id, depth = 1"
        " WHERE tenant_id = :t AND status = 'failed'",
        {"id": ids.new_id(), "t": TENANT},
    )
    assert counted(tx) == ({"completed": 4, "running": 2}, set())


def test_times_bound_what_is_counted(tx: Transaction) -> None:
    later = tx.now.replace(year=tx.now.year + 1)
    for none in (RunFilter(created_after=later), RunFilter(created_before=tx.now.replace(year=2020))):
        assert set(reading.run_counts(tx, TENANT, none)["counts"].values()) == {0}
    both = RunFilter(created_after=tx.now.replace(year=2020), created_before=later)
    assert sum(reading.run_counts(tx, TENANT, both)["counts"].values()) == 7


def test_a_rare_status_is_counted_whole_and_of_others_it_is_said_that_there_may_be_more(
    tx: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_of_runs, "MOST", 3)
    # The newest three of the list, and the newest three of each status.
    assert counted(tx) == ({"completed": 3, "failed": 1, "running": 2}, {"completed"})
    # Of all that completed, one of three is of `q`; its list is seen whole but for its last run.
    assert counted(tx, "p") == ({"completed": 2, "failed": 1}, {"completed"})
    monkeypatch.setattr(count_of_runs, "MOST", 4)
    assert counted(tx, "q") == ({"completed": 1, "running": 2}, set())
