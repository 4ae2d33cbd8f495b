"""Which months are dropped, which stay, and what is found of a run that is gone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from support.aged_rows import at, bury, count
from support.retired_months import (
    APRIL,
    IN_APRIL,
    IN_MARCH,
    MARCH,
    NOW,
    THIRTY_DAYS,
    Clock,
    Crash,
    assert_not_found,
    crash,
    fill,
    lines_of,
    retire,
    rows,
    tables,
)
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave.errors import Conflict
from pipeweave.orchestrator.retention import (
    drop_months,
)
from pipeweave.orchestrator.retention.archive import RowCounts
from pipeweave.orchestrator.retention.drop_months import MonthOutcome, MonthResult
from pipeweave.orchestrator.retention.month_status import MonthOnDisk
from pipeweave.orchestrator.retention.partitions import PARTITIONED
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.storage.local import LocalStorage

NO_ARCHIVE = Policy(timedelta(days=30), is_archived=False)


# --- what goes, and what stays ----------------------------------------------------------------------------


def test_a_month_that_is_due_is_archived_and_dropped_and_the_next_one_stays(
    database: Database, storage: LocalStorage
) -> None:
    fill(database, IN_MARCH, IN_MARCH, steps=3)
    fill(database, IN_APRIL)
    (march,) = retire(database)
    assert march == MonthResult(
        MARCH, MonthOutcome.DROPPED, RowCounts(2, 6, 6, 6, 2), "archive/runs/2031-03/manifest.json"
    )
    assert rows(database) == [1, 2, 2, 2, 1]
    assert (tables(database, MARCH), tables(database, APRIL)) == (set(), set(PARTITIONED))
    assert retire(database) == []


def test_without_a_retention_nothing_is_ever_due(database: Database, clock: Clock) -> None:
    fill(database, IN_MARCH)
    clock.now = at("2040-01-01")
    assert retire(database, Policy()) == []
    assert rows(database)[0] == 1


def test_without_an_archive_a_month_is_only_dropped(database: Database, storage: LocalStorage) -> None:
    fill(database, IN_MARCH)
    assert retire(database, NO_ARCHIVE) == [
        MonthResult(MARCH, MonthOutcome.DROPPED, RowCounts(1, 2, 2, 2, 1), None)
    ]
    assert not (storage.root / "archive").exists()


def test_a_rehearsal_says_what_would_go_and_changes_nothing(
    database: Database, storage: LocalStorage
) -> None:
    fill(database, IN_MARCH)
    assert retire(database, is_rehearsal=True) == [
        MonthResult(MARCH, MonthOutcome.DUE, RowCounts(1, 2, 2, 2, 1))
    ]
    assert rows(database) == [1, 2, 2, 2, 1]
    assert not (storage.root / "archive").exists()


@pytest.mark.parametrize("status", ["pending", "running", "paused", "error_handling"])
def test_a_month_with_an_active_run_stays(database: Database, storage: LocalStorage, status: str) -> None:
    fill(database, IN_MARCH)
    (going_on,) = fill(database, IN_MARCH, status=status)
    assert retire(database) == [MonthResult(MARCH, MonthOutcome.ACTIVE, active_runs=(going_on,))]
    assert rows(database) == [2, 4, 4, 4, 2]
    assert not (storage.root / "archive").exists()
    with database.transaction() as tx:
        tx.execute(
            "UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = :id", {"id": going_on}
        )
    assert retire(database)[0].counts == RowCounts(2, 4, 4, 4, 2)


def test_an_empty_month_is_dropped_too(database: Database) -> None:
    assert [each.outcome for each in retire(database)] == [MonthOutcome.DROPPED]
    assert tables(database, MARCH) == set()


def test_the_default_partition_is_never_dropped_and_old_rows_in_it_are_reported(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    fill(database, at("2030-12-24"))
    retire(database)
    assert rows(database) == [1, 2, 2, 2, 1]
    assert [each.message for each in caplog.records].count("month.astray") == 5
    with database.transaction() as tx:
        assert count(tx, "runs_default") == 1


def test_a_month_that_lacks_a_partition_gets_it_before_it_goes(
    database: Database, storage: LocalStorage
) -> None:
    """A table was in use whenever the tick came by."""
    with database.transaction() as tx:
        tx.execute("DROP TABLE attempts_2031_03")
    fill(database, IN_MARCH)
    assert retire(database, is_rehearsal=True)[0].counts == RowCounts(1, 2, 0, 2, 1)
    assert retire(database)[0].counts == RowCounts(1, 2, 2, 2, 1)
    assert rows(database) == [0, 0, 0, 0, 0]
    assert len(lines_of(storage)[0]["attempts"]) == 2


def test_run_tokens_go_with_their_runs(database: Database) -> None:
    for moment, token in ((IN_MARCH, "old"), (IN_APRIL, "young")):
        (run_id,) = fill(database, moment)
        with database.transaction() as tx:
            tx.execute(
                """INSERT INTO run_tokens (tenant_id, run_token, pipeline_id, inputs_hash, run_id, created_at)
                VALUES ('default', :token, 'past', 'x', :id, :now)""",
                {"token": token, "id": run_id, "now": moment},
            )
    retire(database)
    with database.transaction() as tx:
        assert tx.execute("SELECT run_token FROM run_tokens").scalars() == ["young"]


def test_run_tokens_of_an_older_month_that_stays_stay_too(database: Database) -> None:
    (run_id,) = fill(database, IN_MARCH)
    with database.transaction() as tx:
        tx.execute(
            """INSERT INTO run_tokens (tenant_id, run_token, pipeline_id, inputs_hash, run_id, created_at)
            VALUES ('default', 'old', 'past', 'x', :id, :now)""",
            {"id": run_id, "now": IN_MARCH},
        )
    with database.transaction() as tx:
        drop_months._drop_tables(tx, APRIL)
    with database.transaction() as tx:
        assert tx.execute("SELECT run_token FROM run_tokens").scalars() == ["old"]


def test_a_month_on_its_way_out_stays_where_all_is_to_be_kept() -> None:
    leaving = MonthOnDisk(APRIL, is_leaving=True)
    assert drop_months.is_due(leaving, THIRTY_DAYS, NOW)
    assert not drop_months.is_due(leaving, Policy(None), NOW)


def test_dead_letters_outlive_their_runs(database: Database) -> None:
    fill(database, IN_MARCH)
    with database.transaction() as tx:
        bury(tx, IN_MARCH)
    retire(database)
    with database.transaction() as tx:
        assert count(tx, "dead_letters") == 1


# --- what is gone -----------------------------------------------------------------------------------------


def test_a_run_that_is_gone_is_not_found(database: Database) -> None:
    (run_id,) = fill(database, IN_MARCH)
    retire(database)
    with database.transaction() as tx:
        assert_not_found(tx, run_id)


def test_a_run_token_of_a_run_that_is_gone_starts_a_new_one(
    database: Database, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Its month is on the way out: the run is gone, its token not yet."""
    clock.now = IN_MARCH
    driver = RunDriver(database)
    driver.store({"a": []})

    def trigger() -> triggering.CreatedRun:
        with database.transaction() as tx:
            return triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven", run_token="again"))

    first = trigger()
    assert trigger().id == first.id
    driver.finish(first.id, "a")
    clock.now = NOW
    monkeypatch.setattr(drop_months, "_drop", crash)
    with pytest.raises(Crash):
        retire(database)
    second = trigger()
    assert (second.created, second.id != first.id) == (True, True)
    assert (trigger().created, trigger().id) == (False, second.id)


def test_a_clock_that_is_far_from_the_databases_is_not_trusted(database: Database, clock: Clock) -> None:
    with pytest.raises(Conflict, match="differ by"):
        drop_months.check_clock(database)
    clock.now = datetime.now(IN_MARCH.tzinfo)
    drop_months.check_clock(database)
