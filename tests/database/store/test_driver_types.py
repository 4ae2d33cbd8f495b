"""Ids go through the driver unchanged."""

from __future__ import annotations

from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.store.database import Database

LOWEST, HIGHEST, USUAL = UUID(int=0), UUID(int=(1 << 128) - 1), ids.new_id()


def test_ids_are_read_as_they_were_written(database: Database) -> None:
    with database.transaction() as tx:
        row = tx.execute(
            "SELECT :one AS one, CAST(:none AS uuid) AS none, CAST(:several AS uuid[]) AS several, "
            "CAST(:no AS uuid[]) AS no, ARRAY[:one, NULL] AS gaps, CAST(:one AS text) AS shown",
            {"one": USUAL, "none": None, "several": [LOWEST, HIGHEST, USUAL], "no": []},
        ).one()
    assert row == (USUAL, None, [LOWEST, HIGHEST, USUAL], [], [USUAL, None], str(USUAL))
