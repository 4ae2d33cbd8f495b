"""Rows that nobody can start are refused with their reason, and hold up nobody else's."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import RunRefused
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.starts.enqueued import starting
from pipeweave.size_limits import MAX_JSON_DEPTH

from .conftest import Caller

# What PostgreSQL takes as `json`, and no reader of JSON or no table of ours.
ODD = (
    '{"x": 1e400}',
    '{"x": "\\ud800"}',
    '{"x": "\\u0000"}',
    f'{{"x": {"9" * 5_000}}}',
    '{"x": 18446744073709551616}',
    "[" * 2_000 + "]" * 2_000,
)


def write(caller: Caller, column: str, text: str) -> str:
    """Write a row as a program in another language may; the id of its run."""
    with caller.connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO enqueued_runs (tenant_id, pipeline_id, {column}) VALUES (%s, 'files', %s)"
            " RETURNING id",
            (caller.tenant, text),
        )
        return ids.show(ids.RUN, ids.UUID(str(cursor.fetchone()[0])))


@pytest.mark.parametrize("text", ODD, ids=lambda text: text[:12])
@pytest.mark.parametrize("column", ["input", "metadata"])
def test_json_that_nobody_can_read_is_refused_and_others_start(
    caller: Caller, column: str, text: str
) -> None:
    if column == "metadata" and not text.startswith("{"):
        text = f'{{"x": {text}}}'
    odd = write(caller, column, text)
    run = caller.enqueue()
    caller.commit()
    neighbour = RunDriver(caller.driver.database)
    neighbour.store({"a": []}, id="files")
    caller.start()
    assert caller.runs() == [run]
    (left,) = caller.rows()
    assert (left.error_code, left.tries) == ("INVALID_INPUT", 0)
    assert left.settled_at is not None and left.error.startswith(column)
    with caller.driver.database.reading() as tx, pytest.raises(RunRefused, match=column):
        reading.run(tx, caller.tenant, ids.read(ids.RUN, odd))
    with caller.driver.database.reading() as tx:
        (shown,) = reading.enqueued_list(tx, caller.tenant, reading.PageRequest(10), "refused")["items"]
    assert shown["errorCode"] == "INVALID_INPUT"


@pytest.mark.parametrize("column", ["input", "metadata"])
def test_an_enqueued_value_may_be_nested_as_deep_as_one_of_a_trigger(caller: Caller, column: str) -> None:
    inner = MAX_JSON_DEPTH - 1
    write(caller, column, '{"x": ' + "[" * inner + "]" * inner + "}")
    write(caller, column, '{"x": ' + "[" * (inner + 1) + "]" * (inner + 1) + "}")
    caller.commit()
    caller.start()
    assert len(caller.runs()) == 1
    (left,) = caller.rows()
    assert left.error_code == "INVALID_INPUT" and left.error.endswith("deeper than 200 levels")


@pytest.mark.parametrize("year", [1975, 2015, 2400])
def test_an_id_of_another_time_is_refused_and_makes_no_partition(caller: Caller, year: int) -> None:
    moment = datetime(year, 3, 4, tzinfo=UTC)
    forged = ids.new_id(int(moment.timestamp() * 1000))
    with caller.connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO enqueued_runs (id, tenant_id, pipeline_id) VALUES (%s, %s, 'files')",
            (str(forged), caller.tenant),
        )
    run = caller.enqueue()
    caller.commit()
    starting.run_once(caller.driver.database, VALUES)
    assert caller.runs() == [run]
    (left,) = caller.rows()
    assert (left.error_code, left.error[:28]) == ("INVALID_INPUT", "id is of another time than t")
    with caller.driver.database.transaction() as tx:
        partitions.ensure(tx, tx.now)
        assert not [each for each in partitions.list_partitions(tx) if f"_{year}_" in each.name]
