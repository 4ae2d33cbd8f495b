"""Runs that are enqueued in the caller's own transaction, over every kind of connection."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest
from support.run_driver import RunDriver
from support.stored_values import VALUES

import pipeweave
from pipeweave import ids
from pipeweave.orchestrator.enqueued import starting


@pytest.fixture
def driver(isolated_driver: RunDriver) -> Iterator[RunDriver]:
    isolated_driver.store({"a": []}, id="files")
    yield isolated_driver


def start(driver: RunDriver) -> int:
    return starting.run_once(driver.database, VALUES)


def test_first(driver: RunDriver) -> None:
    connection = psycopg2.connect(driver.database.url)
    run = pipeweave.enqueue(connection, "files", {"x": 1.0}, tenant=driver.tenant)
    assert start(driver) == 0
    connection.commit()
    assert start(driver) == 1
    (row,) = driver.rows("SELECT * FROM runs")
    assert ids.show(ids.RUN, row.id) == run
    print(row)
    many = pipeweave.enqueue_many(connection, "files", range(5), tenant=driver.tenant)
    connection.commit()
    assert start(driver) == 5
    assert many == sorted(many)
    assert not driver.rows("SELECT * FROM enqueued_runs")
