"""Random pipelines with conditions, choices, join rules and tolerated failures end as a simple model says.

Messages come in any order. Some stories lose all of them after some commit, as when processes die there: then
only what the tick finds in PostgreSQL goes on.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from support.branches import Branches, Outcome, outcome_of, random_branches
from support.factories import a_task, register
from support.inline_worker import InlineWorker, failing
from support.run_driver import RunDriver, header

from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.store.database import Database

# A release tries far more of them.
STORIES = int(os.environ.get("RANDOM_BRANCHES", "120"))
MODES = ("continue", "partial-merge", "fail-fast")
FINAL = ("completed", "partial", "failed", "cancelled")


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, "act", a_task("act_limited", concurrency=2), id="acting")
    yield made


@pytest.mark.parametrize("part", range(4))
def test_runs_with_branches_end_as_the_model_says(driver: RunDriver, part: int) -> None:
    for seed in range(part, STORIES, 4):
        try:
            _tell(driver, seed)
        except BaseException:
            print(f"seed {seed}")
            raise


def _tell(driver: RunDriver, seed: int) -> None:
    chance, mode = random.Random(seed), MODES[seed // 4 % len(MODES)]
    branches = random_branches(chance, f"branches-{seed}")
    driver.store_steps(*branches.spec.steps, id=branches.spec.id)
    worker = InlineWorker(
        driver, chance=chance, chooses=dict(branches.chooses), fails=failing(*branches.fails)
    )
    run_id = driver.trigger(branches.spec.id, branches.input, failure_mode=mode)
    forgets = chance.random() < 0.4
    for _ in range(600):
        if driver.run(run_id).status in FINAL:
            break
        worker.consume_all(most=chance.randint(1, 4))
        if forgets and chance.random() < 0.3:
            _lose_messages(worker)
        if not worker.waiting:
            _tick(driver, worker, run_id, forgets=forgets)
    worker.consume_all()
    _compare(driver, worker, run_id, outcome_of(branches, mode), branches, mode)


@pytest.mark.parametrize("part", range(2))
def test_retried_dead_letters_of_runs_with_branches_lead_to_an_end(driver: RunDriver, part: int) -> None:
    for seed in range(part, STORIES // 2, 2):
        try:
            _tell_of_retries(driver, seed)
        except BaseException:
            print(f"seed {seed}")
            raise


_LETTERS = "SELECT id FROM dead_letters WHERE run_id = :id AND retried_at IS NULL ORDER BY id"


def _tell_of_retries(driver: RunDriver, seed: int) -> None:
    """Each dead letter is retried; a task is mended before, what the engine cannot evaluate fails again."""
    chance, mode = random.Random(f"retries {seed}"), MODES[seed // 2 % len(MODES)]
    branches = random_branches(chance, f"retries-{seed}")
    driver.store_steps(*branches.spec.steps, id=branches.spec.id)
    worker = InlineWorker(
        driver, chance=chance, chooses=dict(branches.chooses), fails=failing(*branches.fails)
    )
    run_id = driver.trigger(branches.spec.id, branches.input, failure_mode=mode)
    for _ in range(12):
        _come_to_an_end(driver, worker, run_id)
        letters = driver.rows(_LETTERS, id=run_id)
        if not letters:
            break
        worker.fails.clear()
        with driver.database.transaction() as tx:
            dead_letters.retry(tx, driver.tenant, chance.choice(letters).id)
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []
    if not driver.rows(_LETTERS, id=run_id):
        assert driver.run(run_id).status == "completed"


def _come_to_an_end(driver: RunDriver, worker: InlineWorker, run_id: UUID) -> None:
    for _ in range(600):
        worker.consume_all()
        if driver.run(run_id).status in FINAL:
            break
        _tick(driver, worker, run_id, forgets=False)
    assert driver.run(run_id).status in FINAL
    assert set(driver.statuses(run_id).values()) <= {"completed", "skipped", "failed", "cancelled"}


def _lose_messages(worker: InlineWorker) -> None:
    worker.waiting.clear()
    worker.forget_chords()


def _tick(driver: RunDriver, worker: InlineWorker, run_id: UUID, *, forgets: bool) -> None:
    """What the tick finds: limits with room, joins that nobody has decided, and messages that were lost."""
    if driver.run(run_id).status in FINAL:
        return
    with driver.database.transaction() as tx:
        limits.fill(tx, driver.tenant, ["act_limited"])
    with driver.database.transaction() as tx:
        checks = closed_joins(tx, {run_id: header(tx, run_id).plan})
    if not forgets and not worker.waiting:
        assert not checks, "nothing was lost, and yet a join is closed that nobody has decided"
    for each in checks:
        driver.check(run_id, each.join)
    if forgets:
        worker.send_queued(run_id)


def _compare(
    driver: RunDriver, worker: InlineWorker, run_id: UUID, outcome: Outcome, branches: Branches, mode: str
) -> None:
    status = driver.run(run_id).status
    assert status == outcome.run_status
    calls = Counter[str]()
    for (step, _), number in worker.calls.items():
        calls[step] += number
    if status == "failed" and mode == "fail-fast":
        assert calls <= outcome.calls
    else:
        assert driver.statuses(run_id) == {id: end.status for id, end in outcome.ends.items()}
        assert calls == +outcome.calls
        _compare_rows(driver, run_id, outcome, branches)
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []


def _compare_rows(driver: RunDriver, run_id: UUID, outcome: Outcome, branches: Branches) -> None:
    codes: dict[Any, str | None] = {
        "condition": "CONDITION_FALSE",
        "failure": "PREDECESSOR_FAILED",
        None: None,
    }
    for row in driver.task_runs(run_id):
        if row.kind == "item":
            continue
        end = outcome.ends[row.step_id]
        if row.status == "skipped":
            assert row.error_code == codes[end.cause]
        if row.status == "completed" and row.kind in ("choice", "transform"):
            assert row.output == end.output
    letters = driver.rows("SELECT step_id FROM dead_letters WHERE run_id = :id", id=run_id)
    assert not {each.step_id for each in letters} & {
        each.id for each in branches.spec.steps if each.continue_on_error
    }
