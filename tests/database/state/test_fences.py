"""Two processes that hold the same attempt, or the same lease, as after a failover that lost what was last:
the one whose name stands in the row goes on, and the other one changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.attempts import first
from support.run_driver import TRANSIENT, RunDriver, header

from pipeweave.errors import AttemptFenced, Conflict
from pipeweave.orchestrator.domain import KeyWait
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine import idempotency, key_waiters
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.state import attempts, claiming, completing, heartbeats
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.orchestrator.store.values import keep_inline

MINUTE = timedelta(minutes=1)
Claims = tuple[TaskRun, TaskRun]


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def claims(driver: RunDriver) -> Claims:
    """The claim that a failover lost, and the one that another process made since, with the same number."""
    run_id = driver.begin({"a": [], "b": ["a"]})
    with driver.database.transaction() as tx:
        [lost] = claiming.start(tx, run_id, [1], 1, worker="before")
    driver.rows(
        "UPDATE task_runs SET status = 'queued', worker = NULL WHERE run_id = :id AND worker = 'before'"
        " RETURNING id",
        id=run_id,
    )
    with driver.database.transaction() as tx:
        [held] = claiming.start(tx, run_id, [1], 1, worker="since")
    assert (lost.id, lost.attempt, lost.worker, held.worker) == (held.id, held.attempt, "before", "since")
    return lost, held


def complete(tx: Transaction, claim: TaskRun) -> bool:
    return bool(completing.complete(tx, [Completion(claim, keep_inline("done"), None)]))


def fail(tx: Transaction, claim: TaskRun) -> bool:
    ended = attempts.end(tx, header(tx, claim.run_id), [(claim, TRANSIENT)], max_retry_delay_ms=None)
    return bool(ended.final or ended.retried)


def beat(tx: Transaction, claim: TaskRun) -> bool:
    return heartbeats.beat(tx, claim)


def beat_together(tx: Transaction, claim: TaskRun) -> bool:
    return bool(heartbeats.beat_together(tx, [claim]))


def progress(tx: Transaction, claim: TaskRun) -> bool:
    return heartbeats.progress(tx, claim, 50.0, None)


def take_key(tx: Transaction, claim: TaskRun) -> bool:
    try:
        return idempotency.claim(tx, tenant_of(tx, claim.run_id), claim, "order-12") is None
    except AttemptFenced:
        return False


def step_back(tx: Transaction, claim: TaskRun) -> bool:
    wait = KeyWait(claim, "order-12", claim.id, tx.now)
    return bool(key_waiters.step_back(tx, claim.run_id, [wait]))


def tenant_of(tx: Transaction, run_id: UUID) -> str:
    return str(tx.execute("SELECT tenant_id FROM runs WHERE id = :id", {"id": run_id}).scalar_one())


@pytest.mark.parametrize(
    "write",
    [complete, fail, beat, beat_together, progress, take_key, step_back],
    ids=lambda each: each.__name__,
)
def test_an_attempt_with_the_same_number_is_that_of_the_process_whose_name_it_has(
    driver: RunDriver, claims: Claims, write: Callable[[Transaction, TaskRun], bool]
) -> None:
    lost, held = claims
    before = first(driver, lost.run_id)
    with driver.database.transaction() as tx:
        assert not write(tx, lost)
    after = first(driver, lost.run_id)
    assert (after.status, after.attempt, after.worker) == (before.status, before.attempt, "since")
    with driver.database.transaction() as tx:
        assert write(tx, held)


def test_what_is_known_by_its_ids_alone_names_no_worker(driver: RunDriver, claims: Claims) -> None:
    _, held = claims
    with driver.database.transaction() as tx:
        assert heartbeats.beat_of(tx, held.id, held.attempt)
        assert complete(tx, held._replace(worker=None))


def test_a_lease_with_the_same_number_is_that_of_its_holder(fresh_database: Database) -> None:
    held = leases.take(fresh_database, leases.TICK, MINUTE, "since")
    assert held is not None
    lost = Lease(held.name, held.number, "before", held.lasts)

    def noted(lease: Lease) -> Any:
        with fresh_database.transaction() as tx:
            return tick_status.record(tx, (), lease)

    assert not leases.renew(fresh_database, lost)
    with pytest.raises(Conflict), fresh_database.transaction() as tx:
        leases.check(tx, lost)
    assert noted(lost) is None
    leases.end(fresh_database, lost)
    assert leases.take(fresh_database, leases.TICK, MINUTE, "third") is None, "the lost one ended it"
    assert leases.renew(fresh_database, held)
    with fresh_database.transaction() as tx:
        leases.check(tx, held)
    assert noted(held) is not None
