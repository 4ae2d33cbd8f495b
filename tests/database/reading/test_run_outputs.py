"""The output of a run as the API reads it: what its pipeline returns, large values by reference."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.factories import end, end_run, register
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import LimitExceeded
from pipeweave.orchestrator import kept, reading
from pipeweave.orchestrator.kept import outputs, stored_values
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import parse_spec

TENANT = "output-tests"


def a_run(tx: Transaction, output: Any, value: Any = None, **values: Any) -> UUID:
    """A run of three parallel steps that have ended with these outputs."""
    register(tx, TENANT, "a", "b", "c")
    steps = [{"parallel": [{"task": "a"}, {"task": "b"}, {"task": "c"}]}]
    spec = parse_spec({"id": "p", "steps": steps, "output": output})
    pipelines.store(tx, TENANT, spec, source="api")
    run_id = triggering.trigger(tx, VALUES, TENANT, StartRequest("p", value)).id
    for ordinal, step in enumerate("abc", start=1):
        if step in values:
            end(tx, run_id, ordinal, output=values[step])
    end_run(tx, run_id)
    return run_id


def make_large(tx: Transaction, run_id: UUID, ordinal: int, value: Any) -> None:
    kept = VALUES.keep(value)
    assert kept.path is not None
    tx.execute(
        """UPDATE task_runs SET output = NULL, output_path = :path, output_size = :size, output_hash = :hash
        WHERE run_id = :run_id AND id = :id""",
        {
            "run_id": run_id,
            "id": ids.task_run_id(run_id, ordinal),
            "path": kept.path,
            "size": kept.size,
            "hash": kept.hash,
        },
    )


def test_an_output_is_resolved(tx: Transaction) -> None:
    output = {"rows": "${steps.a.rows}", "day": "${input.day}", "skipped": "${steps.c}"}
    run_id = a_run(tx, output, {"day": 1}, a={"rows": [1]}, b=2)
    found = reading.run(tx, TENANT, run_id)
    assert (found["output"], found["outputRefs"]) == ({"rows": [1], "day": 1, "skipped": None}, {})


def test_without_one_the_end_steps_are_shown_by_step(tx: Transaction) -> None:
    assert reading.run(tx, TENANT, a_run(tx, None, a=1, b=2))["output"] == {"a": 1, "b": 2, "c": None}


@pytest.mark.parametrize("status", ["running", "failed", "cancelled"])
def test_a_run_that_is_neither_completed_nor_partial_has_no_output(tx: Transaction, status: str) -> None:
    run_id = a_run(tx, "${steps.a}", a=1)
    tx.execute("UPDATE runs SET status = :status WHERE id = :id", {"status": "partial", "id": run_id})
    assert reading.run(tx, TENANT, run_id)["output"] == 1
    ended = None if status == "running" else tx.now
    tx.execute(
        "UPDATE runs SET status = :status, finished_at = :at, error_code = :code WHERE id = :id",
        {"status": status, "at": ended, "id": run_id, "code": "STEP_FAILED" if ended else None},
    )
    assert reading.run(tx, TENANT, run_id)["output"] is None


def test_a_large_value_in_an_output_is_null_until_it_is_loaded(tx: Transaction) -> None:
    large = {"rows": ["x" * 100] * 1_000, "n": 5}
    run_id = a_run(tx, {"n": "${steps.a.n}", "b": "${steps.b}", "in": "${input.n}"}, {"n": 7}, b=2)
    end(tx, run_id, 1)
    make_large(tx, run_id, 1, large)
    found = reading.run(tx, TENANT, run_id)
    assert found["output"] == {"n": None, "b": 2, "in": 7}
    assert list(found["outputRefs"]) == ["a"]
    loaded = kept.load_values(reading.run(tx, TENANT, run_id, load=True), VALUES)
    assert (loaded["output"], loaded["outputRefs"]) == ({"n": 5, "b": 2, "in": 7}, {})


def test_a_large_input_in_an_output_is_null_until_it_is_loaded(tx: Transaction) -> None:
    run_id = a_run(tx, {"text": "${input.text}", "a": "${steps.a}"}, {"text": "x" * 50_000}, a=1)
    assert reading.run(tx, TENANT, run_id)["output"] == {"text": None, "a": 1}
    loaded = kept.load_values(reading.run(tx, TENANT, run_id, load=True), VALUES)
    assert loaded["output"] == {"text": "x" * 50_000, "a": 1}


def test_a_value_that_is_repeated_too_often_is_left_out(
    tx: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = a_run(tx, {"b": "${steps.b}", "a": ["${steps.a}"] * 10}, a="x", b="y")
    tx.execute("UPDATE task_runs SET output_size = 200 WHERE run_id = :id", {"id": run_id})
    monkeypatch.setattr(outputs, "ALL_BYTES_SHOWN", 1_000)
    found = reading.run(tx, TENANT, run_id)
    assert found["output"] == {"b": "y", "a": [None] * 10}
    assert found["outputRefs"]["a"]["path"] is None
    monkeypatch.setattr(stored_values, "MAX_LOADED_BYTES", 1_000)
    with pytest.raises(LimitExceeded):
        reading.run(tx, TENANT, run_id, load=True)


def test_only_the_steps_that_an_output_names_are_read(tx: Transaction) -> None:
    run_id = a_run(tx, {"constant": 5}, a=1)
    make_large(tx, run_id, 1, "x" * 50_000)
    assert reading.run(tx, TENANT, run_id)["outputRefs"] == {}


def test_a_version_of_before_is_read_and_its_spec_has_no_new_member(tx: Transaction) -> None:
    schema = {"fields": [{"name": "day", "type": "string", "label": "Day"}], "strict": True}
    register(tx, TENANT, "a")
    steps = [{"task": "a"}, {"task": "a", "needs": ["a"]}]
    spec = parse_spec({"id": "q", "steps": steps, "inputSchema": schema, "output": "${steps.a}"})
    pipelines.store(tx, TENANT, spec, source="api")
    row = tx.execute("SELECT * FROM pipeline_versions WHERE pipeline_id = 'q'").one()
    assert {"inputSchema", "output"} & row.spec.keys() == set()
    assert pipelines.get(tx, TENANT, "q").spec == spec
    tx.execute(
        """INSERT INTO pipeline_versions
            (tenant_id, pipeline_id, version, spec, spec_hash, source, created_at)
        SELECT tenant_id, pipeline_id, 2, spec, spec_hash, source, created_at FROM pipeline_versions
        WHERE pipeline_id = 'q'"""
    )
    assert pipelines.get(tx, TENANT, "q", 2).spec == parse_spec({"id": "q", "steps": steps})
