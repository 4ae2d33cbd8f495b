"""Tenants that enqueue runs, in the shared database: each test looks only at rows of its own tenant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest
from support.run_driver import RunDriver
from support.stored_values import VALUES

import pipeweave
from pipeweave import ids
from pipeweave.orchestrator.starts.enqueued import starting
from pipeweave.orchestrator.store.database import Database


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant with the pipeline `files`, and a connection of a caller."""

    driver: RunDriver
    connection: Any

    @property
    def tenant(self) -> str:
        return self.driver.tenant

    def enqueue(self, pipeline_id: str = "files", input: Any = None, **options: Any) -> str:
        return pipeweave.enqueue(self.connection, pipeline_id, input, tenant=self.tenant, **options)

    def commit(self) -> None:
        self.connection.commit()

    def start(self) -> None:
        starting.run_once(self.driver.database, VALUES)
        starting.run_large(self.driver.database, VALUES)

    def runs(self) -> list[str]:
        """The ids of the tenant's runs."""
        found = self.driver.rows("SELECT id FROM runs WHERE tenant_id = :t ORDER BY id", t=self.tenant)
        return [ids.show(ids.RUN, each.id) for each in found]

    def rows(self) -> list[Any]:
        """What is left of what the tenant enqueued."""
        # Not every input can be read.
        return self.driver.rows(
            "SELECT id, tries, error_code, error, settled_at, first_run_id, due_at, enqueued_by"
            " FROM enqueued_runs WHERE tenant_id = :t ORDER BY id",
            t=self.tenant,
        )


@pytest.fixture
def caller(database: Database) -> Iterator[Caller]:
    driver = RunDriver(database)
    driver.store({"a": []}, id="files")
    connection = psycopg2.connect(database.url)
    try:
        yield Caller(driver, connection)
    finally:
        connection.close()
