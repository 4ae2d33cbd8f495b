"""Crashes between archive and drop, and two processes that drop at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from support.concurrency import call_concurrently
from support.retired_months import (
    IN_MARCH,
    MARCH,
    NOW,
    Crash,
    assert_not_found,
    crash,
    fill,
    lines_of,
    manifest_of,
    retire,
    rows,
    tables,
)

from pipeweave.errors import Conflict, Unavailable
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import (
    archive,
    archive_format,
    default_partition,
    drop_months,
    partitions,
)
from pipeweave.orchestrator.retention.archive import RowCounts
from pipeweave.orchestrator.retention.drop_months import MonthOutcome, MonthResult
from pipeweave.orchestrator.retention.partitions import PARTITIONED
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.storage.local import LocalStorage


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("part-*") if path.is_file()}


def test_a_crash_between_archive_and_drop_is_made_good_by_the_next_pass(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH, IN_MARCH)
    with monkeypatch.context() as patch:
        patch.setattr(drop_months, "_detach", crash)
        with pytest.raises(Crash):
            retire(database)
    before = contents(storage.root)
    assert before
    assert rows(database) == [2, 4, 4, 4, 2]
    assert retire(database)[0].counts == RowCounts(2, 4, 4, 4, 2)
    assert contents(storage.root) == before
    assert len(archive.list_archives(storage)) == 1


def test_a_crash_while_the_archive_is_written_leaves_no_manifest(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 20)
    fill(database, *[IN_MARCH] * 40, steps=40)
    put = LocalStorage.put

    def put_one(self: LocalStorage, path: str, content: bytes) -> None:
        if "part-00002" in path:
            raise Unavailable("the store is away")
        put(self, path, content)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put", put_one)
        with pytest.raises(Unavailable):
            retire(database)
    assert not storage.exists("archive/runs/2031-03/manifest.json")
    assert rows(database)[0] == 40
    assert retire(database)[0].outcome is MonthOutcome.DROPPED
    assert len(lines_of(storage)) == 40


def test_a_crash_while_an_archive_is_written_again_leaves_none_that_names_parts_of_both(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH)
    archive.archive_month(database, storage, MARCH)
    fill(database, IN_MARCH)
    with monkeypatch.context() as patch:
        patch.setattr(archive_format, "lines", crash)
        with pytest.raises(Crash):
            archive.archive_month(database, storage, MARCH)
    assert not storage.exists("archive/runs/2031-03/manifest.json")
    assert archive.list_archives(storage) == []
    archive.archive_month(database, storage, MARCH)
    assert len(lines_of(storage)) == 2


def test_a_table_that_another_process_has_just_detached_is_left_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH)
    lock = default_partition.lock_tables

    def lock_after_another(tx: Transaction, parents: Sequence[str]) -> None:
        with database.transaction() as other:
            other.execute(f"ALTER TABLE {parents[0]} DETACH PARTITION {MARCH.table(parents[0])}")
        lock(tx, parents)

    monkeypatch.setattr(default_partition, "lock_tables", lock_after_another)
    assert drop_months._detach_from(database, "events", MARCH) == []
    assert drop_months._detach_from(database, "runs", MARCH) == []


@pytest.mark.parametrize("parent", PARTITIONED)
def test_a_month_that_is_half_gone_goes_on_from_there(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, parent: str
) -> None:
    fill(database, IN_MARCH)
    detach = drop_months._detach_from

    def detach_until(database: Database, each: str, month: Month) -> list[UUID]:
        if each == parent:
            raise Crash
        return detach(database, each, month)

    with monkeypatch.context() as patch:
        patch.setattr(drop_months, "_detach_from", detach_until)
        with pytest.raises(Crash):
            retire(database)
    assert tables(database, MARCH) == set(PARTITIONED)
    assert retire(database)[0].counts == RowCounts(1, 2, 2, 2, 1)
    assert tables(database, MARCH) == set()
    assert len(lines_of(storage)) == 1


def test_a_month_that_was_detached_and_not_dropped_is_dropped_by_the_next_pass(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH)
    with monkeypatch.context() as patch:
        patch.setattr(drop_months, "_drop", crash)
        with pytest.raises(Crash):
            retire(database)
    assert rows(database) == [0, 0, 0, 0, 0]
    assert tables(database, MARCH) == set(PARTITIONED)
    assert [each.outcome for each in retire(database)] == [MonthOutcome.DROPPED]
    assert tables(database, MARCH) == set()


def test_a_run_that_changed_after_the_archive_is_archived_as_it_is_now(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dead letter was retried, and it ended again, while the archive was being written."""
    (run_id,) = fill(database, IN_MARCH)
    detach = drop_months._detach

    def change_and_detach(database: Database, month: Month, tries: int) -> list[UUID]:
        with database.transaction() as tx:
            tx.execute(
                "INSERT INTO events (run_id, at, type) VALUES (:id, :now, 'run.reopened')",
                {"id": run_id, "now": tx.now},
            )
        return detach(database, month, tries)

    monkeypatch.setattr(drop_months, "_detach", change_and_detach)
    assert retire(database)[0].counts == RowCounts(1, 2, 2, 3, 1)
    (line,) = lines_of(storage)
    assert line["events"][-1]["type"] == "run.reopened"
    assert manifest_of(storage)["events"] == 3


def test_a_run_that_was_opened_again_after_the_archive_keeps_its_month(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_id,) = fill(database, IN_MARCH)
    detach = drop_months._detach

    def reopen_and_detach(database: Database, month: Month, tries: int) -> list[UUID]:
        with database.transaction() as tx:
            tx.execute(
                "UPDATE runs SET status = 'running', finished_at = NULL WHERE id = :id", {"id": run_id}
            )
        return detach(database, month, tries)

    monkeypatch.setattr(drop_months, "_detach", reopen_and_detach)
    assert retire(database) == [MonthResult(MARCH, MonthOutcome.ACTIVE, active_runs=(run_id,))]
    assert rows(database) == [1, 2, 2, 2, 1]


def test_runs_that_turn_up_in_a_month_that_was_dropped_do_not_write_over_its_archive(
    database: Database, storage: LocalStorage
) -> None:
    """A clock went wrong, and a month that was gone came back."""
    fill(database, IN_MARCH)
    retire(database)
    fill(database, IN_MARCH + timedelta(days=2), IN_MARCH + timedelta(days=2))
    with database.transaction() as tx:
        partitions.ensure(tx, NOW)
    assert retire(database)[0].archive == "archive/runs/2031-03.2/manifest.json"
    assert [len(lines_of(storage, tail=each)) for each in ("", ".2")] == [1, 2]
    assert [each.counts.runs for each in archive.list_archives(storage)] == [1, 2]


def test_of_two_at_once_one_does_it(database: Database, storage: LocalStorage) -> None:
    fill(database, *[IN_MARCH] * 50)
    first, second = call_concurrently(lambda: retire(database), lambda: retire(database))
    errors = [each.error for each in (first, second) if each.error is not None]
    assert all(isinstance(each, Conflict) for each in errors)
    done = [outcome for each in (first, second) if each.error is None for outcome in each.result]
    assert [each.counts for each in done if each.counts and each.counts.runs] == [
        RowCounts(50, 100, 100, 100, 50)
    ]
    assert len(lines_of(storage)) == 50


def test_two_that_do_not_know_of_each_other_do_no_harm(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that held the lease was silent for so long that it ended."""
    fill(database, *[IN_MARCH] * 20)
    lease = Lease("mine", 1, "me", timedelta(minutes=1))
    monkeypatch.setattr(drop_months, "alone", lambda _: nullcontext(lease))
    monkeypatch.setattr(leases, "check", lambda *_: None)
    both = call_concurrently(*[lambda: retire(database, tries=20)] * 2)
    assert any(each.error is None for each in both)
    retire(database)
    assert tables(database, MARCH) == set()
    assert len(lines_of(storage)) == 20
    assert rows(database) == [0, 0, 0, 0, 0]


def test_a_table_in_use_is_left_for_later_without_a_wait(database: Database) -> None:
    fill(database, IN_MARCH)
    with database.transaction() as reader:
        reader.execute("SELECT count(*) FROM runs")
        assert retire(database) == [MonthResult(MARCH, MonthOutcome.IN_USE)]
        assert rows(database) == [1, 2, 2, 2, 1]
    assert retire(database)[0].outcome is MonthOutcome.DROPPED


def test_a_month_of_which_one_table_is_in_use_shows_no_run_of_it_any_more(database: Database) -> None:
    (run_id,) = fill(database, IN_MARCH)
    with database.transaction() as reader:
        reader.execute("SELECT count(*) FROM attempts")
        assert retire(database)[0].outcome is MonthOutcome.IN_USE
        with database.transaction() as tx:
            assert_not_found(tx, run_id)
    assert retire(database)[0].counts == RowCounts(1, 2, 2, 2, 1)
