"""Whatever a dying process leaves undone after a commit, a tree of runs comes to its end."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

import pytest
from support.child_runs import child, children, loop, task_run
from support.forgetful import Forgetful, heal, look_at_all, work_on
from support.run_driver import RunDriver, settle

from pipeweave.errors import Conflict
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec import MapSpec, StepSpec


def store(driver: RunDriver) -> None:
    """A tree: a step that runs a loop, beside a map of pipelines."""
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    driver.store_steps(loop("try", "inner", 3, until="last.n >= 2"), id="middle")
    driver.store_steps(
        child("down", "middle"),
        child("each", "inner", map=MapSpec([1, 2, 3], max_parallel=2)),
        StepSpec("end", "noop", ("down", "each")),
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_tree_ends_though_half_of_what_should_follow_is_lost(database: Database, seed: int) -> None:
    chance = random.Random(seed)
    driver = RunDriver(database)
    store(driver)
    kept, database.react = database.react, Forgetful(chance)
    try:
        root = driver.trigger()
        while not driver.run(root).finished_at:
            if not work_on(driver, chance, root):
                look_at_all(driver, root)
                driver.check(root, 0)
        assert driver.run(root).status in ("completed", "failed")
        heal(driver, root)
    finally:
        database.react = kept


@pytest.mark.parametrize("seed", range(6))
def test_a_cancelled_tree_ends_whenever_it_is_cancelled(database: Database, seed: int) -> None:
    chance = random.Random(seed)
    driver = RunDriver(database)
    store(driver)
    kept, database.react = database.react, Forgetful(chance)
    try:
        root = driver.trigger()
        for _ in range(chance.randrange(8)):
            if not work_on(driver, chance, root):
                look_at_all(driver, root)
        with driver.database.transaction() as tx:
            triggering.cancel(tx, driver.tenant, root)
        heal(driver, root)
    finally:
        database.react = kept


def test_a_child_ends_once_whoever_cancels_it_meanwhile(database: Database) -> None:
    driver = RunDriver(database)
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    driver.store_steps(child("call", "inner"))
    for _ in range(3):
        root = driver.trigger()
        [inner] = children(driver, root)

        def cancel(run_id: UUID) -> None:
            with suppress(Conflict):
                driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

        def work(run_id: UUID) -> None:
            driver.database.run(lambda tx: finish(tx, run_id))

        with ThreadPoolExecutor(8) as threads:
            chosen = [(work, inner.id), (cancel, inner.id), (cancel, root), (cancel, root)] * 2
            for done in [threads.submit(verb, run_id) for verb, run_id in chosen]:
                done.result()
        heal(driver, root)
        assert driver.run(root).status in ("completed", "cancelled", "failed")
        assert task_run(driver, root, "call").status in ("completed", "cancelled", "failed")


def finish(tx: Transaction, run_id: UUID) -> None:
    for each in claiming.start(tx, run_id, [1], 1, worker="w1"):
        settle(tx, each, output=1)
