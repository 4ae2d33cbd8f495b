"""Callers, and the beat that starts their runs, behind a PgBouncer in transaction mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import psycopg2
import pytest
from support.pgbouncer import pooled
from support.stored_values import VALUES

import pipeweave
from pipeweave.orchestrator.starts.enqueued import starting
from pipeweave.orchestrator.store.database import Database
from pipeweave.up.postgres import Postgres

from .conftest import Caller


@pytest.fixture
def pooled_url(caller: Caller, postgres_server: Postgres, tmp_path: Path) -> Iterator[str]:
    url = caller.driver.database.url
    with pooled(postgres_server, url, tmp_path / "pgbouncer") as made:
        yield made


def test_runs_are_enqueued_and_started_through_it(caller: Caller, pooled_url: str) -> None:
    runs = []
    with psycopg.connect(pooled_url, prepare_threshold=None) as connection:
        for number in range(8):
            runs.append(pipeweave.enqueue(connection, "files", number, tenant=caller.tenant))
            connection.commit()
    connection = psycopg2.connect(pooled_url)
    for number in range(8):
        with connection:
            runs.append(pipeweave.enqueue(connection, "files", number, tenant=caller.tenant))
    connection.close()
    through = Database(pooled_url, pool_size=1)
    for _ in range(8):
        with through.statements() as tx:
            assert starting.has_due(tx)
            # The session may be another one in a moment: nobody could rely on being notified.
            assert not starting.alarm(tx).set()
    starting.run_once(through, VALUES)
    through.dispose()
    assert caller.runs() == runs
