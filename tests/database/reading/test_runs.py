"""Runs as the API reads them: lists with filters, one run, its events, large values."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_pipeline, all_pages, end, end_run
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.kept import RunFilter, stored_values
from pipeweave.orchestrator.reading import runs
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.storage import plain_path

TENANT = "query-tests"


@pytest.fixture
def run_id(tx: Transaction) -> UUID:
    """A run of the chain a, b: a is queued, b waits for it."""
    a_pipeline(tx, TENANT, "a", "b")
    return triggering.trigger(tx, VALUES, TENANT, StartRequest("chain", {"n": 1}, metadata={"who": "me"})).id


def trigger_all(tx: Transaction, *names: str) -> list[str]:
    """A run of each of these pipelines, oldest first."""
    found = []
    for at, name in enumerate(names):
        a_pipeline(tx, TENANT, "a", "b", id=name)
        run_id = triggering.trigger(tx, VALUES, TENANT, StartRequest(name)).id
        # An id per millisecond, so that the order is the order of creation.
        moved = UUID(int=ids.new_id(int(tx.now.timestamp() * 1000) + at).int)
        for table, column in (("runs", "id"), ("task_runs", "run_id"), ("events", "run_id")):
            tx.execute(f"UPDATE {table} SET {column} = :to WHERE {column} = :id", {"to": moved, "id": run_id})
        found.append(ids.show(ids.RUN, moved))
    return found


def test_runs_are_listed_newest_first_page_by_page(tx: Transaction) -> None:
    made = trigger_all(tx, "p", "q", "p", "q", "p")
    listed = all_pages(lambda page: reading.run_list(tx, TENANT, page), 2)
    assert [each["id"] for each in listed] == made[::-1]


def test_runs_are_filtered_by_pipeline_status_and_time(tx: Transaction) -> None:
    made = trigger_all(tx, "p", "q", "p")
    end_run(tx, ids.read(ids.RUN, made[0]))

    def found(**filters: Any) -> list[str]:
        return [
            each["id"] for each in reading.run_list(tx, TENANT, PageRequest(), RunFilter(**filters))["items"]
        ]

    assert found(pipeline_id=["p"]) == [made[2], made[0]]
    assert found(status=["completed"]) == [made[0]]
    assert found(status=["running"], pipeline_id=["q"]) == [made[1]]
    assert found(pipeline_id=["nothing"]) == []
    assert found(pipeline_id=["p", "q"]) == made[::-1]
    assert found(status=["running", "completed"], pipeline_id=["p"]) == [made[2], made[0]]
    assert found(status=["failed", "completed"]) == [made[0]]
    assert found(created_after=tx.now - timedelta(seconds=1)) == made[::-1]
    assert found(created_after=tx.now + timedelta(seconds=1)) == []
    assert found(created_before=tx.now - timedelta(seconds=1)) == []
    assert found(created_before=datetime.fromisoformat("0001-01-01T00:00:00+00:00")) == []


def test_standalone_tasks_are_not_among_the_runs(tx: Transaction, run_id: UUID) -> None:
    (alone,) = standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("a")])
    (listed,) = reading.run_list(tx, TENANT, PageRequest())["items"]
    assert listed["id"] == ids.show(ids.RUN, run_id)
    with pytest.raises(NotFound):
        reading.run(tx, TENANT, ids.run_id_of(alone.task_run_id))


def test_a_run_is_shown_with_counts_input_and_task_runs(tx: Transaction, run_id: UUID) -> None:
    found = reading.run(tx, TENANT, run_id)
    assert found["id"] == ids.show(ids.RUN, run_id)
    assert (found["pipelineId"], found["pipelineVersion"], found["status"]) == ("chain", 1, "running")
    assert (found["input"], found["inputRef"], found["metadata"]) == ({"n": 1}, None, {"who": "me"})
    assert found["counts"] == {"pending": 1, "queued": 1}
    assert [(each["stepId"], each["status"]) for each in found["taskRuns"]] == [
        ("a", "queued"),
        ("b", "pending"),
    ]
    assert found["output"] is None and found["durationMs"] is None


def test_the_output_of_a_run_is_that_of_its_end_steps(tx: Transaction, run_id: UUID) -> None:
    end(tx, run_id, 1)
    end(tx, run_id, 2, output={"rows": [1, 2]})
    end_run(tx, run_id)
    found = reading.run(tx, TENANT, run_id)
    assert found["output"] == {"rows": [1, 2]}
    assert (found["phase"], found["durationMs"], found["tenant"]) == ("completed", 2000.0, TENANT)
    assert (found["startedUtc"], found["endedUtc"]) == (found["startedAt"], found["finishedAt"])


def test_a_large_output_is_a_reference_until_it_is_asked_for(tx: Transaction, run_id: UUID) -> None:
    value = ["x" * 100] * 1_000
    kept = VALUES.keep(value)
    assert kept.path is not None
    end(tx, run_id, 1)
    end(tx, run_id, 2)
    tx.execute(
        """UPDATE task_runs SET output = NULL, output_path = :path, output_size = :size, output_hash = :hash
        WHERE run_id = :run_id AND step_id = 'b'""",
        {"run_id": run_id, "path": kept.path, "size": kept.size, "hash": kept.hash},
    )
    where = {"path": plain_path(kept.path or ""), "backend": "local", "size": kept.size, "hash": kept.hash}
    end_run(tx, run_id)
    found = reading.run(tx, TENANT, run_id)
    assert (found["output"], found["outputRefs"]) == (None, {"b": where})
    loaded = stored_values.load_values(reading.run(tx, TENANT, run_id, load=True), VALUES)
    assert (loaded["output"], loaded["outputRefs"]) == (value, {})
    one = reading.task_run(tx, TENANT, ids.task_run_id(run_id, 2))
    assert (one["output"], one["outputRef"], one["outputSize"]) == (None, where, kept.size)
    one = reading.task_run(tx, TENANT, ids.task_run_id(run_id, 2), load=True)
    assert stored_values.load_values(one, VALUES)["output"] == value


def test_a_large_input_is_a_reference_until_it_is_asked_for(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b")
    value = {"text": "x" * 50_000}
    run_id = triggering.trigger(tx, VALUES, TENANT, StartRequest("chain", value)).id
    found = reading.run(tx, TENANT, run_id)
    assert found["input"] is None and found["inputRef"]["hash"] == found["inputsHash"]
    run = reading.run(tx, TENANT, run_id, load=True)
    one = reading.task_run(tx, TENANT, ids.task_run_id(run_id, 1), load=True)
    assert [stored_values.load_values(each, VALUES)["input"] for each in (run, one)] == [value, value]


@pytest.mark.parametrize(
    ("status", "event", "phase"),
    [
        ("running", "task_run.started", "step_executing"),
        ("running", "task_run.completed", "step_success"),
        ("running", "task_run.failed", "step_failed"),
        ("running", "run.created", "running"),
        ("running", None, "running"),
        ("failed", "task_run.failed", "failed"),
        ("paused", "task_run.started", "paused"),
    ],
)
def test_the_phase_of_a_run_under_way_follows_its_latest_event(
    status: str, event: str | None, phase: str
) -> None:
    assert runs.phase(status, event) == phase


def test_a_runs_task_runs_are_filtered_and_paged(tx: Transaction, run_id: UUID) -> None:
    end(tx, run_id, 1, "failed")

    def found(**filters: Any) -> list[str]:
        listed = all_pages(lambda page: reading.run_task_runs(tx, TENANT, run_id, page, **filters), 1)
        return [each["stepId"] for each in listed]

    assert found() == ["a", "b"]
    assert found(status="failed") == ["a"]
    assert found(step_id="b") == ["b"]
    assert found(step_id="b", status="failed") == []


def test_a_task_run_shows_its_files_its_log_and_when_it_was_dispatched(tx: Transaction, run_id: UUID) -> None:
    end(tx, run_id, 1)
    assets = {"report": {"path": "main//runs/x/assets/report", "size": 3, "type": "text/plain"}}
    tx.execute(
        """UPDATE task_runs SET dispatched_at = started_at, logs_path = 'main//runs/x/logs.jsonl',
        assets = CAST(:assets AS jsonb) WHERE run_id = :run_id AND step_id = 'a'""",
        {"run_id": run_id, "assets": json.dumps(assets)},
    )
    found = reading.task_run(tx, TENANT, ids.task_run_id(run_id, 1))
    report = {
        "path": "runs/x/assets/report",
        "size": 3,
        "type": "text/plain",
        "backend": "main",
        "sha256": None,
    }
    assert found["assets"] == {"report": report}
    assert (found["logsPath"], found["dispatchedAt"]) == ("runs/x/logs.jsonl", found["startedAt"])
    (attempt,) = found["attempts"]
    assert (attempt["logsPath"], attempt["dispatchedAt"]) == ("runs/x/logs.jsonl", found["startedAt"])


def test_an_attempt_of_a_celery_worker_shows_where_its_log_is(tx: Transaction, run_id: UUID) -> None:
    id = ids.task_run_id(run_id, 1)
    assert reading.task_run(tx, TENANT, id)["logsPath"] is None, "nobody has begun it"
    end(tx, run_id, 1)
    path = f"runs/{ids.show(ids.TASK_RUN, id)}.1/logs.jsonl"
    found = reading.task_run(tx, TENANT, id)
    assert (found["logsPath"], [each["logsPath"] for each in found["attempts"]]) == (path, [path])
    attempts = reading.run_attempts(tx, TENANT, run_id, PageRequest())["items"]
    assert [each["logsPath"] for each in attempts] == [path]
    tx.execute(
        "UPDATE task_runs SET dispatched_at = started_at WHERE run_id = :id AND step_id = 'a'", {"id": run_id}
    )
    assert reading.task_run(tx, TENANT, id)["logsPath"] is None, "its service reported no log"


def test_a_list_shows_errors_without_tracebacks_and_one_task_run_with_it(
    tx: Transaction, run_id: UUID
) -> None:
    end(tx, run_id, 1, "failed")
    listed = reading.run_task_runs(tx, TENANT, run_id, PageRequest())["items"][0]
    assert (listed["errorCode"], listed["error"]) == ("ValueError", {"message": "boom", "type": "ValueError"})
    one = reading.task_run(tx, TENANT, ids.task_run_id(run_id, 1))
    assert one["error"]["traceback"].startswith("Traceback")


def test_events_are_listed_in_order_filtered_and_paged(tx: Transaction, run_id: UUID) -> None:
    listed = all_pages(lambda page: reading.run_events(tx, TENANT, run_id, page), 1)
    assert [each["type"] for each in listed] == ["run.created", "task_runs.queued"]
    assert listed[0]["seq"] < listed[1]["seq"] and listed[0]["at"].endswith("Z")
    (created,) = reading.run_events(tx, TENANT, run_id, PageRequest(), type="run.created")["items"]
    assert created["data"]["pipelineId"] == "chain"
