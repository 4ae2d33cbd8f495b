"""Maps, steps and single task runs as the API reads them."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.factories import a_pipeline, a_task, end, end_run, register
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.reading import runs
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.spec.document import parse_spec

TENANT = "query-tests"


@pytest.fixture
def run_id(tx: Transaction) -> UUID:
    """A run of the chain a, b: a is queued, b waits for it."""
    a_pipeline(tx, TENANT, "a", "b")
    return triggering.trigger(tx, VALUES, TENANT, StartRequest("chain", {"n": 1}, metadata={"who": "me"})).id


@pytest.fixture
def mapped(tx: Transaction) -> UUID:
    """A run whose end step is a map over three items: two completed, one failed."""
    register(tx, TENANT, "list", "each")
    steps = [{"task": "list"}, {"task": "each", "map": "${steps.list}"}]
    pipelines.store(tx, TENANT, parse_spec({"id": "mapped", "steps": steps}), source="api")
    run_id = triggering.trigger(tx, VALUES, TENANT, StartRequest("mapped")).id
    end(tx, run_id, 1, output=[10, 20, 30])
    for index in range(3):
        tx.execute(
            """INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, map_index, map_parent,
                status, max_attempts, priority, queue, is_limited, code_version, code_hash, item, created_at)
            SELECT run_id, :id, tenant_id, step_id, task_id, 'item', :index, 2, 'pending', max_attempts,
                priority, queue, is_limited, code_version, code_hash, CAST(:item AS jsonb), created_at
            FROM task_runs WHERE run_id = :run_id AND step_id = 'each' AND kind = 'map'""",
            {
                "id": ids.task_run_id(run_id, 3 + index),
                "index": index,
                "item": to_json(index * 10),
                "run_id": run_id,
            },
        )
        end(tx, run_id, 3 + index, "failed" if index == 2 else "completed", output=index)
    tx.execute(
        """UPDATE task_runs SET map_first = 3, map_count = 3, status = 'waiting', started_at = :now
        WHERE run_id = :run_id AND kind = 'map'""",
        {"run_id": run_id, "now": tx.now},
    )
    tx.execute("UPDATE runs SET task_run_count = 5 WHERE id = :id", {"id": run_id})
    return run_id


def test_a_step_that_is_a_map_counts_its_items(tx: Transaction, mapped: UUID) -> None:
    found = reading.run_steps(tx, mapped, reading.run(tx, TENANT, mapped))
    assert [(each["id"], each["status"], each["done"], each["total"], each["failed"]) for each in found] == [
        ("list", "completed", 1, 1, 0),
        ("each", "waiting", 3, 3, 1),
    ]


def test_steps_and_counts_are_the_same_when_not_every_task_run_is_shown(
    tx: Transaction, mapped: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = reading.run(tx, TENANT, mapped)
    monkeypatch.setattr(runs, "TASK_RUNS_SHOWN", 2)
    part = reading.run(tx, TENANT, mapped)
    assert (len(whole["taskRuns"]), len(part["taskRuns"])) == (5, 2)
    assert part["counts"] == whole["counts"]
    assert reading.run_steps(tx, mapped, part) == reading.run_steps(tx, mapped, whole)


def test_a_map_counts_its_items_by_how_they_ended(tx: Transaction, mapped: UUID) -> None:
    _, each = reading.run_steps(tx, mapped, reading.run(tx, TENANT, mapped))
    assert {name: each[name] for name in ("completed", "failed", "cancelled", "skipped")} == {
        "completed": 2,
        "failed": 1,
        "cancelled": 0,
        "skipped": 0,
    }


def test_a_retried_step_shows_its_attempt_and_takes_as_long_as_all_of_them(
    tx: Transaction, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(tx, run_id, 1)
    tx.execute(
        """UPDATE task_runs SET attempt = 2, started_at = :now, finished_at = :now
        WHERE run_id = :id AND step_id = 'a'""",
        {"id": run_id, "now": tx.now},
    )
    tx.execute(
        """INSERT INTO attempts (run_id, task_run_id, number, status, code_version, started_at, finished_at)
        VALUES (:run, :id, 1, 'failed', 1, CAST(:now AS timestamptz) - interval '4 seconds', :now)""",
        {"run": run_id, "id": ids.task_run_id(run_id, 1), "now": tx.now},
    )
    whole = reading.run_steps(tx, run_id, reading.run(tx, TENANT, run_id))
    assert (whole[0]["attempt"], whole[0]["maxAttempts"] >= 1, whole[0]["durationMs"]) == (2, True, 4000.0)
    monkeypatch.setattr(runs, "TASK_RUNS_SHOWN", 1)
    assert reading.run_steps(tx, run_id, reading.run(tx, TENANT, run_id)) == whole


def test_a_step_that_waits_for_its_next_attempt_says_when_it_is_due(tx: Transaction, run_id: UUID) -> None:
    tx.execute(
        """UPDATE task_runs SET status = 'pending', attempt = 2, due_at = :now
        WHERE run_id = :id AND step_id = 'a'""",
        {"id": run_id, "now": tx.now},
    )
    first, second = reading.run_steps(tx, run_id, reading.run(tx, TENANT, run_id))
    assert (first["dueAt"] is not None, second["dueAt"]) == (True, None)


@pytest.mark.parametrize(
    ("code", "shown"),
    [("RUN_FAILED", ("failed", "MAP_ITEMS_FAILED")), ("CANCELLED", ("cancelled", "CANCELLED"))],
)
def test_a_map_whose_item_ended_the_run_is_shown_as_failed(
    tx: Transaction, mapped: UUID, code: str, shown: tuple[str, str]
) -> None:
    tx.execute(
        """UPDATE task_runs SET status = 'cancelled', error_code = :code, finished_at = :now
        WHERE run_id = :id AND kind = 'map'""",
        {"id": mapped, "code": code, "now": tx.now},
    )
    _, each = reading.run_steps(tx, mapped, reading.run(tx, TENANT, mapped))
    assert (each["status"], each["errorCode"]) == shown


def test_a_step_counts_as_one(tx: Transaction, run_id: UUID) -> None:
    end(tx, run_id, 1, "failed")
    found = reading.run_steps(tx, run_id, reading.run(tx, TENANT, run_id))
    assert [(each["id"], each["done"], each["failed"]) for each in found] == [("a", 1, 1), ("b", 0, 0)]


def test_the_output_of_a_map_is_its_items_outputs_in_order(
    tx: Transaction, mapped: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx.execute(
        "UPDATE task_runs SET status = 'completed', finished_at = :now WHERE run_id = :id AND kind = 'map'",
        {"id": mapped, "now": tx.now},
    )
    end_run(tx, mapped)
    assert reading.run(tx, TENANT, mapped)["output"] == [0, 1, None]
    assert reading.task_run(tx, TENANT, ids.task_run_id(mapped, 2))["output"] == [0, 1, None]
    monkeypatch.setattr("pipeweave.orchestrator.kept.outputs.MAP_ITEMS_SHOWN", 2)
    found = reading.run(tx, TENANT, mapped)
    assert (found["output"], found["outputRefs"]["each"]["items"]) == (None, 3)


def test_an_item_shows_its_place_and_value(tx: Transaction, mapped: UUID) -> None:
    found = reading.task_run(tx, TENANT, ids.task_run_id(mapped, 4))
    assert (found["kind"], found["mapIndex"], found["item"]) == ("item", 1, 10)


def test_a_task_run_shows_where_its_input_comes_from(tx: Transaction) -> None:
    register(tx, TENANT, "a", "b")
    steps = [{"task": "a"}, {"task": "b", "params": {"rows": "${steps.a}"}}]
    pipelines.store(tx, TENANT, parse_spec({"id": "p", "steps": steps}), source="api")
    run_id = triggering.trigger(tx, VALUES, TENANT, StartRequest("p", {"n": 1})).id
    first, second = (reading.task_run(tx, TENANT, ids.task_run_id(run_id, at)) for at in (1, 2))
    assert (first["inputSource"], first["input"], first["params"]) == ("run", {"n": 1}, None)
    assert (second["inputSource"], second["params"]) == ("params", {"rows": "${steps.a}"})


def test_a_standalone_task_run_names_no_run(tx: Transaction) -> None:
    register(tx, TENANT, "a")
    (made,) = standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("a", {"n": 2}, metadata={"x": 1})])
    found = reading.task_run(tx, TENANT, made.task_run_id)
    assert (found["runId"], found["pipelineId"], found["input"]) == (None, None, {"n": 2})
    assert (found["status"], found["metadata"], found["attempts"]) == ("queued", {"x": 1}, [])


def test_code_that_changed_since_is_marked(tx: Transaction, run_id: UUID) -> None:
    first = ids.task_run_id(run_id, 1)
    assert reading.task_run(tx, TENANT, first)["codeChanged"] is False
    register(tx, TENANT, a_task("a", "second"), "b")
    found = reading.task_run(tx, TENANT, first)
    assert (found["codeChanged"], found["codeVersion"], found["currentCodeVersion"]) == (True, 1, 2)


def test_attempts_that_ended_badly_come_before_the_present_one(tx: Transaction, run_id: UUID) -> None:
    end(tx, run_id, 1)
    tx.execute("UPDATE task_runs SET attempt = 2 WHERE run_id = :id AND step_id = 'a'", {"id": run_id})
    tx.execute(
        """INSERT INTO attempts (run_id, task_run_id, number, status, worker, code_version, error, error_code,
            started_at, finished_at)
        VALUES (:run, :id, 1, 'failed', 'w', 1, '{"message": "no"}', 'X', :now, :now)""",
        {"run": run_id, "id": ids.task_run_id(run_id, 1), "now": tx.now},
    )
    found = reading.task_run(tx, TENANT, ids.task_run_id(run_id, 1))["attempts"]
    assert [(each["number"], each["status"], each["errorCode"]) for each in found] == [
        (1, "failed", "X"),
        (2, "completed", None),
    ]
