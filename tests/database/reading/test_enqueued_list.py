"""The list of enqueued runs: what waits, what was refused, and what had its token taken."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from pipeweave import ids
from pipeweave.orchestrator.reading import enqueued_list
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_numbers = itertools.count(1)


@pytest.fixture
def tenant() -> str:
    return f"enqueued-list-{next(_numbers)}"


def enqueue(tx: Transaction, tenant: str, **columns: Any) -> str:
    row = {"tenant_id": tenant, "pipeline_id": "charge", "input": '{"order": 12}', **columns}
    names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
    id = tx.execute(f"INSERT INTO enqueued_runs ({names}) VALUES ({values}) RETURNING id", row).scalar_one()
    return ids.show(ids.RUN, id)


def listed(tx: Transaction, tenant: str, status: str = "waiting", **page: Any) -> Document:
    return enqueued_list(tx, tenant, PageRequest(**page), status)


def test_each_is_in_the_list_of_its_status(tx: Transaction, tenant: str) -> None:
    first = ids.new_id()
    waiting = enqueue(tx, tenant, tries=2, error_code="NOT_FOUND", error="pipeline 'charge' not found")
    refused = enqueue(tx, tenant, settled_at=tx.now, error_code="INVALID_INPUT", error="order is required")
    repeated = enqueue(tx, tenant, settled_at=tx.now, first_run_id=first, run_token="o12")
    enqueue(tx, "another", pipeline_id="charge")
    found = listed(tx, tenant)
    [row] = found["items"]
    assert (row["id"], row["tries"], row["errorCode"]) == (waiting, 2, "NOT_FOUND")
    assert (found["waiting"], found["waitingIsCapped"], found["refused"]) == (1, False, 1)
    assert found["oldest"] == row["enqueuedAt"]
    [row] = listed(tx, tenant, "refused")["items"]
    assert (row["id"], row["error"], row["firstRunId"]) == (refused, "order is required", None)
    [row] = listed(tx, tenant, "repeated")["items"]
    assert (row["id"], row["firstRunId"], row["runToken"]) == (repeated, ids.show(ids.RUN, first), "o12")


@pytest.mark.parametrize("status", ["waiting", "refused", "repeated"])
def test_pages_follow_each_other(tx: Transaction, tenant: str, status: str) -> None:
    settled: dict[str, Any] = {"settled_at": tx.now}
    columns = {
        "waiting": {},
        "refused": {**settled, "error_code": "X"},
        "repeated": {**settled, "first_run_id": ids.new_id()},
    }[status]
    made = [enqueue(tx, tenant, **columns) for _ in range(3)]
    first = listed(tx, tenant, status, limit=2)
    rest = listed(tx, tenant, status, limit=2, cursor=first["nextCursor"])
    found = [each["id"] for each in first["items"] + rest["items"]]
    assert found == (sorted(made) if status == "waiting" else sorted(made, reverse=True))
    assert rest["nextCursor"] is None


def test_it_looks_at_those_that_are_due_first(
    tx: Transaction, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeweave.orchestrator.reading.list_of_enqueued_runs.MOST_LOOKED_AT", 2)
    long_ago = tx.now - timedelta(days=3_000)
    made = [enqueue(tx, tenant, due_at=long_ago + timedelta(days=number)) for number in range(3)]
    found = listed(tx, tenant)
    assert {each["id"] for each in found["items"]} == set(made[:2])
    assert (found["waiting"], found["waitingIsCapped"]) == (2, True)
