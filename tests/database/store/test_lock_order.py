"""Transactions lock rows in the one order that store/lock_order.py states, also when many meet."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from support.concurrency import call_concurrently
from support.factories import a_service, a_task
from support.history_generator import RandomHistory
from support.lock_watch import LockWatch, tables_locked
from support.run_driver import TASKS, RunDriver

from pipeweave.errors import Deadlocked, PipeWeaveError
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import admission, service_registration, task_removal
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.lock_order import may_wait
from pipeweave.orchestrator.telemetry.statistics import fold
from pipeweave.spec.document import parse_spec

THREADS = 5
HISTORIES = 4
# Each thread does so many things, and goes on until all has been seen that is to be watched.
STEPS, MOST_STEPS = 60, 1_500
WATCHED = {
    *("services", "tenants", "runs", "dead_letters", "task_runs", "tasks", "pipelines"),
    *("feed_consumers", "run_stats", "task_stats"),
}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1 FROM runs AS r WHERE r.id = :id FOR UPDATE", [("runs", True)]),
        ("SELECT 1 FROM task_runs AS t LIMIT 5 FOR UPDATE OF t SKIP LOCKED", [("task_runs", False)]),
        ("WITH m AS (UPDATE task_runs AS t SET x = 1), r AS (UPDATE runs SET y = 2) SELECT 1",
         [("task_runs", True), ("runs", True)]),
        ("SELECT 1 FROM task_runs AS t JOIN tasks AS k ON true FOR NO KEY UPDATE OF k", [("tasks", True)]),
        ("INSERT INTO tenants AS n (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET x = 1",
         [("tenants", True)]),
        ("INSERT INTO tenants (id) VALUES (1) ON CONFLICT DO NOTHING", []),
        ("SELECT * FROM runs", []),
    ],
)  # fmt: skip
def test_the_watch_knows_which_tables_a_statement_locks(
    statement: str, expected: list[tuple[str, bool]]
) -> None:
    assert list(tables_locked(statement)) == expected


def test_a_wait_against_the_order_is_seen(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = LockWatch(monkeypatch)
    with database.transaction() as tx:
        tx.execute("SELECT 1 FROM tasks AS k FOR NO KEY UPDATE")
        tx.execute("SELECT 1 FROM runs AS r FOR UPDATE")
    assert [pair for pair in watch.waits if not may_wait(*pair)] == [("tasks", "runs")]


def test_transactions_that_meet_wait_only_in_the_order(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers, ticks, cancels, retries, registrations and limits work on the same runs at once."""
    driver = RunDriver(fresh_database)
    histories = [RandomHistory(driver, seed) for seed in range(HISTORIES)]
    watch = LockWatch(monkeypatch)
    ended = call_concurrently(
        *[lambda seed=seed: _meddle(driver, histories, seed, watch) for seed in range(THREADS)]
    )
    assert min(each.result for each in ended) >= STEPS
    assert {pair for pair in watch.waits if not may_wait(*pair)} == set()
    # An order of locks that no transaction took would prove nothing.
    assert _has_seen_enough(watch), watch.waits


def test_a_removed_task_of_several_runs_frees_its_slots_behind_all_runs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = RunDriver(database)
    driver.store({"a": []}, tasks={"a": "limited"})
    runs = [driver.trigger() for _ in range(2)]
    watch = LockWatch(monkeypatch)
    with database.transaction() as tx:
        assert task_removal.remove(tx, driver.tenant, "limited").cancelled == 2
    assert [driver.run(run_id).status for run_id in runs] == ["failed", "failed"]
    assert watch.sequence[watch.sequence.index("tasks") :].count("runs") == 0


def _has_seen_enough(watch: LockWatch) -> bool:
    return {table for pair in watch.waits for table in pair} >= WATCHED and (
        "task_runs",
        "runs",
    ) in watch.waits


def _meddle(driver: RunDriver, histories: list[RandomHistory], seed: int, watch: LockWatch) -> int:
    """Do one thing after the other to runs that other threads work on, too. How many things were done."""
    chance = random.Random(seed)
    moves: list[tuple[Callable[[], object], int]] = [
        (lambda: chance.choice(histories).step(), 30),
        (lambda: chance.choice(histories).retry(), 4),
        (lambda: histories.append(RandomHistory(driver, chance.randint(100, 10_000))), 1),
        (lambda: driver.trigger(chance.choice(histories).pipeline_id), 2),
        (lambda: _register(driver, chance), 1),
        (lambda: _limit(driver, chance), 2),
        (lambda: fold.run_once(driver.database), 2),
    ]
    works, weights = zip(*moves, strict=True)
    for done in range(MOST_STEPS):
        if done >= STEPS and _has_seen_enough(watch):
            return done
        (work,) = chance.choices(works, weights)
        # A cancel met the end of a run, or the run had moved on: `Database.run` and callers try again.
        with suppress(Deadlocked, PipeWeaveError):
            work()
    return MOST_STEPS


def _register(driver: RunDriver, chance: random.Random) -> None:
    """A new version of the service comes, and a task is removed that this or a later one has again."""
    tasks = ["noop", *(each for each in TASKS[1:] if chance.random() < 0.7)]
    named = [a_task(each) if isinstance(each, str) else each for each in tasks]
    with driver.database.transaction() as tx:
        service_registration.register(
            tx, driver.tenant, a_service(*named, version=f"1.0.{chance.randint(0, 99)}")
        )
        pipelines.store(tx, driver.tenant, parse_spec(_version(chance)), source="decorator")
    if chance.random() < 0.5:
        removed = chance.choice(TASKS)
        name = removed if isinstance(removed, str) else removed.id
        driver.database.run(lambda tx: task_removal.remove(tx, driver.tenant, name))


def _version(chance: random.Random) -> dict[str, object]:
    """One of three versions of a pipeline."""
    return {"id": "registered", "steps": [{"id": f"s{chance.randint(0, 2)}", "task": "noop"}]}


def _limit(driver: RunDriver, chance: random.Random) -> None:
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, chance.choice([None, 1, 3]))
    driver.database.run(lambda tx: admission.admit_pending_runs(tx, driver.tenant))
