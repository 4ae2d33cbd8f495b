"""Runs whose input belongs into a store that does not answer: counted in requests, not in time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.odd_store import OddStore, odd_store
from support.run_driver import RunDriver

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Backends

LARGE = {"x": "x" * INLINE_BYTES}


@pytest.fixture
def store() -> Iterator[OddStore]:
    with odd_store("hang") as made:
        yield made


def trigger(driver: RunDriver, values: Values, input: object) -> CreatedRun:
    request = StartRequest("driven", input)
    return driver.database.run(lambda tx: triggering.trigger(tx, values, driver.tenant, request))


def test_a_trigger_asks_a_store_that_hangs_once_and_the_next_one_not_at_all(
    database: Database, store: OddStore
) -> None:
    driver, values = RunDriver(database), Values(Backends((store.entry,)))
    driver.store({"a": []})
    assert trigger(driver, values, {"n": 1}).created
    with pytest.raises(Unavailable, match="no answer"):
        trigger(driver, values, LARGE)
    with pytest.raises(Unavailable, match="a moment ago"):
        trigger(driver, values, LARGE)
    assert trigger(driver, values, {"n": 2}).created
    assert store.requests == ["HEAD"]
