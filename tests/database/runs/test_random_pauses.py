"""Random pauses, resumes and cancels while a run goes through the engine: it ends as a simple model says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, register
from support.inline_worker import InlineWorker
from support.oracle import Expected, random_graph, reference
from support.run_driver import PERMANENT, RunDriver

from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.queueing import limits, paused_runs
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import pausing, triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec.document import parse_spec

SEEDS = range(12)
MODES = ("continue", "partial-merge", "fail-fast")
# Moves after which the run is left alone, to come to its end.
MOST_MOVES = 60


class Model:
    """What the run must look like from outside: whether it is paused, cancelled, and what was called."""

    def __init__(self) -> None:
        self.is_paused = False
        self.is_cancelled = False


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, "act", a_task("act_limited", concurrency=2), id="acting")
    yield made
    made.rows("DELETE FROM run_pauses WHERE tenant_id = :id RETURNING 1", id=made.tenant)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_paused_at_random_ends_as_one_that_is_not(driver: RunDriver, seed: int) -> None:
    chance, mode = random.Random(seed), MODES[seed % len(MODES)]
    document, wishes = random_graph(chance, "paused")
    worker = InlineWorker(driver, chance=chance, chooses=wishes["choose"], fails=_failures(wishes))
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, parse_spec(document | {"failureMode": mode}), source="api")
    run_id = driver.trigger("paused", wishes)
    model = Model()
    for _ in range(MOST_MOVES):
        if str(driver.run(run_id).status) in ("completed", "partial", "failed", "cancelled"):
            break
        _move(driver, worker, run_id, model, chance)
    _end(driver, worker, run_id, model)
    _compare(driver, worker, run_id, model, reference(document, wishes, mode), mode)


def _failures(wishes: dict[str, Any]) -> dict[Any, Any]:
    steps = [step for step in wishes["fail"] if step not in wishes["lists"]]
    items = [(step, each) for step in wishes["lists"] for each in wishes["fail"].get(step, ())]
    return dict.fromkeys([*steps, *items], PERMANENT)


def _move(driver: RunDriver, worker: InlineWorker, run_id: UUID, model: Model, chance: random.Random) -> None:
    before = Counter(worker.calls)
    match chance.choices(("work", "pause", "resume", "tick", "cancel"), (10, 3, 3, 2, 0.1))[0]:
        case "pause":
            changed = driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, run_id))
            assert changed is not model.is_paused
            model.is_paused = True
        case "resume":
            assert _resume(driver, run_id) is model.is_paused
            model.is_paused = False
        case "cancel":
            driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))
            model.is_cancelled, model.is_paused = True, False
        case "tick":
            paused_runs.take_back_waiting(driver.database)
            with driver.database.transaction() as tx:
                limits.fill(tx, driver.tenant, ["act", "act_limited"])
        case _:
            worker.consume_all(most=chance.randint(1, 3))
    if model.is_paused:
        assert worker.calls == before, "something of a paused run was called"
        assert driver.run(run_id).status == "paused"


def _resume(driver: RunDriver, run_id: UUID) -> bool:
    return driver.database.run(lambda tx: pausing.resume(tx, driver.tenant, run_id))


def _end(driver: RunDriver, worker: InlineWorker, run_id: UUID, model: Model) -> None:
    if model.is_paused:
        assert _resume(driver, run_id)
    worker.consume_all()
    # What a dropped message would have counted for a wide join, the tick finds out.
    for _ in range(40):
        if driver.run(run_id).finished_at is not None:
            return
        for ordinal in range(1, len(driver.statuses(run_id)) + 1):
            driver.check(run_id, ordinal)
        driver.check(run_id, 0)
        worker.consume_all()


def _compare(
    driver: RunDriver, worker: InlineWorker, run_id: UUID, model: Model, expected: Expected, mode: str
) -> None:
    status = driver.run(run_id).status
    if model.is_cancelled:
        assert status == "cancelled"
    else:
        assert status == expected.run_status
    calls = Counter[str]()
    for (step, _), number in worker.calls.items():
        calls[step] += number
    if model.is_cancelled or (mode == "fail-fast" and status == "failed"):
        assert calls <= expected.calls, "something was called twice, or should not have been called"
    else:
        assert calls == expected.calls
        assert driver.statuses(run_id) == expected.statuses
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []
    assert driver.rows("SELECT 1 FROM run_pauses WHERE run_id = :id", id=run_id) == []
