"""What expires row by row goes in batches, and nothing else does."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from support.aged_rows import bury

from pipeweave import ids
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.expiry import Purged
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Unfinished

MONTH = Policy(dead_letters=timedelta(days=30))


def claim(tx: Transaction, key: str, expires_at: datetime | None) -> None:
    """Write an idempotency claim."""
    tx.execute(
        """INSERT INTO idempotency_claims (tenant_id, task_id, key, task_run_id, claimed_at, expires_at)
        VALUES ('default', 't', :key, :id, :now, :expires_at)""",
        {"key": key, "id": ids.new_id(), "now": tx.now, "expires_at": expires_at},
    )


def worker(tx: Transaction, name: str, stopped_at: datetime | None) -> None:
    """Write a worker."""
    tx.execute(
        """INSERT INTO workers (id, tenant_id, service_id, name, hostname, pid, concurrency, task_count,
            started_at, heartbeat_at, stopped_at)
        VALUES (:name, 'default', 's', :name, 'host', 1, 1, 1, :now, :now, :stopped_at)""",
        {"name": name, "now": tx.now - timedelta(days=100), "stopped_at": stopped_at},
    )


def test_dead_letters_of_every_status_expire_by_their_age(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        old, young = tx.now - timedelta(days=31), tx.now - timedelta(days=29)
        for failed_at in (old, young):
            bury(tx, failed_at)
            bury(tx, failed_at, retried_at=tx.now)
            bury(tx, failed_at, discarded_at=tx.now)
        assert expiry.run_once(tx, MONTH) == Purged(dead_letters=3)
        assert tx.execute("SELECT DISTINCT failed_at FROM dead_letters").scalars() == [young]
        assert expiry.run_once(tx, MONTH) == Purged()


def test_expired_claims_are_deleted_and_claims_of_open_runs_stay(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        claim(tx, "expired", tx.now - timedelta(seconds=1))
        claim(tx, "valid", tx.now + timedelta(seconds=60))
        claim(tx, "open", None)
        assert expiry.run_once(tx, MONTH) == Purged(idempotency_claims=1)
        assert sorted(tx.execute("SELECT key FROM idempotency_claims").scalars()) == ["open", "valid"]


def test_workers_go_when_the_month_of_their_uptime_is_over(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        worker(tx, "long gone", tx.now - timedelta(days=32))
        worker(tx, "gone", tx.now - timedelta(days=30))
        worker(tx, "alive", None)
        assert expiry.run_once(tx, MONTH) == Purged(workers=1)
        assert sorted(tx.execute("SELECT id FROM workers").scalars()) == ["alive", "gone"]


def test_redrives_go_with_the_dead_letters_of_their_time_and_never_while_they_run(
    fresh_database: Database,
) -> None:
    with fresh_database.transaction() as tx:
        ends = [tx.now - timedelta(days=31), tx.now - timedelta(days=29), None]
        for finished_at in ends:
            tx.execute(
                """INSERT INTO redrives (id, tenant_id, filter, status, total, created_at, finished_at)
                VALUES (:id, 'default', '{}', CASE WHEN CAST(:finished_at AS timestamptz) IS NULL
                    THEN 'running' ELSE 'completed' END, 1, :created_at, :finished_at)""",
                {"id": ids.new_id(), "created_at": tx.now - timedelta(days=60), "finished_at": finished_at},
            )
        assert expiry.run_once(tx, MONTH) == Purged(redrives=1)
        assert set(tx.execute("SELECT finished_at FROM redrives").scalars()) == set(ends[1:])


def test_a_pass_deletes_a_batch_the_oldest_first_and_says_that_there_is_more(
    fresh_database: Database,
) -> None:
    with fresh_database.transaction() as tx:
        for days in (40, 60, 50):
            bury(tx, tx.now - timedelta(days=days))
        assert expiry.run_once(tx, MONTH, batch=2) == Purged(dead_letters=2, is_full=True)
        (left,) = tx.execute("SELECT failed_at FROM dead_letters").scalars()
        assert left == tx.now - timedelta(days=40)


def test_a_letter_that_somebody_holds_is_left_for_later(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        bury(tx, tx.now - timedelta(days=40))
    with fresh_database.transaction() as holder:
        holder.execute("SELECT id FROM dead_letters FOR UPDATE")
        with fresh_database.transaction() as tx:
            assert expiry.run_once(tx, MONTH) == Purged()
    assert expiry.purge_all(fresh_database, MONTH) == Purged(dead_letters=1)


def test_everything_goes_at_once_when_someone_asks_for_it(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH", 2)
    with fresh_database.transaction() as tx:
        for _ in range(5):
            bury(tx, tx.now - timedelta(days=40))
    assert expiry.purge_all(fresh_database, MONTH) == Purged(dead_letters=5)


def test_a_batch_of_the_tick_says_whether_there_is_more(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH", 2)
    with fresh_database.transaction() as tx:
        for _ in range(3):
            bury(tx, tx.now - timedelta(days=40))
    purged = [expiry.purge_batch(fresh_database, MONTH) for _ in range(3)]
    assert purged == [2, 1, 0]
    assert [isinstance(each, Unfinished) for each in purged] == [True, False, False]
