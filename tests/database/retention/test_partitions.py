"""Partitions are there before they are needed, whatever the clock does and whatever lies astray."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from support.aged_rows import at, count, past_run
from support.concurrency import call_concurrently

from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import default_partition, partitions
from pipeweave.orchestrator.retention.default_partition import MisplacedRows
from pipeweave.orchestrator.retention.partitions import PARTITIONED
from pipeweave.orchestrator.store.database import Database

MAY = at("2031-05-20")


def names(database: Database) -> set[str]:
    with database.transaction() as tx:
        return {each.name for each in partitions.list_partitions(tx)}


def made(database: Database, now: datetime) -> list[str]:
    with database.transaction() as tx:
        return partitions.ensure(tx, now)


def of(*months: str) -> set[str]:
    return {f"{table}_{month}" for table in PARTITIONED for month in months}


def put_astray(database: Database, *moments: datetime, status: str = "completed") -> None:
    with database.transaction() as tx:
        for moment in moments:
            past_run(tx, moment, status=status)


def astray(database: Database) -> int:
    with database.transaction() as tx:
        return sum(count(tx, f"{table}_default") for table in PARTITIONED)


def test_this_month_and_the_two_after_it_have_partitions(fresh_database: Database) -> None:
    assert set(made(fresh_database, MAY)) == of("2031_05", "2031_06", "2031_07")
    assert made(fresh_database, MAY) == []


def test_a_year_ends_with_the_month_of_the_next(fresh_database: Database) -> None:
    assert set(made(fresh_database, at("2031-12-31"))) == of("2031_12", "2032_01", "2032_02")


def test_a_clock_that_jumps_gets_its_months_and_leaves_the_others(fresh_database: Database) -> None:
    before = names(fresh_database)
    assert set(made(fresh_database, at("2040-01-01"))) == of("2040_01", "2040_02", "2040_03")
    assert set(made(fresh_database, at("2024-02-29"))) == of("2024_02", "2024_03", "2024_04")
    assert before < names(fresh_database)
    assert made(fresh_database, at("2040-01-31")) == []


def test_a_tick_makes_them_too_and_only_once_when_two_are_at_it(fresh_database: Database) -> None:
    both = call_concurrently(*[lambda: partitions.ensure_without_waiting(fresh_database, MAY)] * 2)
    assert sorted(name for each in both for name in each.result) == sorted(
        of("2031_05", "2031_06", "2031_07")
    )


def test_a_month_whose_rows_lie_astray_gets_them(fresh_database: Database) -> None:
    put_astray(fresh_database, MAY, MAY + timedelta(days=30))
    assert astray(fresh_database) == 2 * 8
    assert set(partitions.ensure_without_waiting(fresh_database, MAY)) == of("2031_05", "2031_06", "2031_07")
    assert astray(fresh_database) == 0
    with fresh_database.transaction() as tx:
        assert [count(tx, Month(2031, 5).table(each)) for each in PARTITIONED] == [1, 2, 2, 2, 1]
        assert [count(tx, each) for each in PARTITIONED] == [2, 4, 4, 4, 2]


def test_a_moved_row_meets_the_rules_and_indexes_of_its_table(fresh_database: Database) -> None:
    put_astray(fresh_database, MAY)
    made(fresh_database, MAY)
    statement = "SELECT count(*) FROM pg_index WHERE indrelid = CAST(:name AS regclass)"
    with fresh_database.transaction() as tx:
        indexes = [
            tx.execute(statement, {"name": name}).scalar_one()
            for name in ("task_runs_2031_05", "task_runs_2031_06")
        ]
        options = tx.execute("SELECT reloptions FROM pg_class WHERE relname = 'task_runs_2031_05'")
        assert options.scalar_one() == ["fillfactor=70"]
    assert indexes[0] == indexes[1] > 1


def test_months_that_passed_without_partitions_get_them_later(fresh_database: Database) -> None:
    """The tick stood still from May to August."""
    put_astray(fresh_database, MAY, at("2031-07-01"))
    assert set(made(fresh_database, at("2031-08-02"))) == of(
        "2031_05", "2031_07", "2031_08", "2031_09", "2031_10"
    )
    assert astray(fresh_database) == 0


def test_rows_of_a_run_that_goes_on_stay_where_they_are_and_hold_up_nothing_else(
    fresh_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    put_astray(fresh_database, MAY, status="running")
    assert set(partitions.ensure_without_waiting(fresh_database, MAY)) == of("2031_06", "2031_07")
    assert "partition.not_made" in caplog.text
    assert astray(fresh_database) == 8
    with fresh_database.transaction() as tx:
        tx.execute("UPDATE runs SET status = 'completed', finished_at = started_at")
    assert set(partitions.ensure_without_waiting(fresh_database, MAY)) == of("2031_05")


def test_many_rows_are_moved_by_a_migration_and_not_by_the_tick(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_partition, "MOVED_AT_ONCE", 6)
    put_astray(fresh_database, MAY)
    assert set(partitions.ensure_without_waiting(fresh_database, MAY)) == of("2031_06", "2031_07")
    assert set(made(fresh_database, MAY)) == of("2031_05")


def test_ids_of_a_future_that_has_no_partition_yet_stay_astray(fresh_database: Database) -> None:
    put_astray(fresh_database, at("2044-04-04"), at("9000-01-01"))
    made(fresh_database, MAY)
    assert astray(fresh_database) == 2 * 8
    with fresh_database.transaction() as tx:
        found = default_partition.count_misplaced(tx, PARTITIONED)
    assert MisplacedRows(Month(2044, 4), "task_runs", 2) in found


def test_a_table_in_use_is_left_for_later(fresh_database: Database) -> None:
    with fresh_database.transaction() as reader:
        reader.execute("SELECT count(*) FROM attempts")
        first = partitions.ensure_without_waiting(fresh_database, MAY)
        assert set(first) == {each for each in of("2031_05", "2031_06", "2031_07") if "attempts" not in each}
    later = partitions.ensure_without_waiting(fresh_database, MAY)
    assert set(first) | set(later) == of("2031_05", "2031_06", "2031_07")
