"""Ids and names of columns go through the driver unchanged, in few calls."""

from __future__ import annotations

from uuid import UUID

from support.counted_calls import counted_calls

from pipeweave import ids
from pipeweave.orchestrator.store.database import Database, Transaction

LOWEST, HIGHEST, USUAL = UUID(int=0), UUID(int=(1 << 128) - 1), ids.new_id()


def test_ids_are_read_as_they_were_written(database: Database) -> None:
    with database.transaction() as tx:
        row = tx.execute(
            "SELECT :one AS one, CAST(:none AS uuid) AS none, CAST(:several AS uuid[]) AS several, "
            "CAST(:no AS uuid[]) AS no, ARRAY[:one, NULL] AS gaps, CAST(:one AS text) AS shown",
            {"one": USUAL, "none": None, "several": [LOWEST, HIGHEST, USUAL], "no": []},
        ).one()
    assert row == (USUAL, None, [LOWEST, HIGHEST, USUAL], [], [USUAL, None], str(USUAL))


def test_names_of_columns_may_be_of_any_script(database: Database) -> None:
    with database.transaction() as tx:
        assert tx.execute('SELECT 1 AS "größe", 2 AS "数"').one()._fields == ("größe", "数")


def test_a_column_more_costs_no_call_of_a_function_written_in_python(database: Database) -> None:
    def calls_of(tx: Transaction, width: int) -> int:
        statement = "SELECT " + ", ".join(f"{each} AS c{each}" for each in range(width))
        tx.execute(statement).one()
        with counted_calls() as calls:
            tx.execute(statement).one()
        # The names of functions written in Python begin with their file.
        return sum(count for name, count in calls.items() if ":" in name)

    with database.transaction() as tx:
        assert calls_of(tx, 30) == calls_of(tx, 1)
