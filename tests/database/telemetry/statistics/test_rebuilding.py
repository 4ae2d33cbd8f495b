"""The past is counted anew, each event once, while the present goes on."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from support.counted_events import expected_runs, expected_tasks, fold_all, stored
from support.run_driver import PERMANENT, RunDriver

from pipeweave.cli import main
from pipeweave.orchestrator.telemetry.statistics import rebuild, rebuilding


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    isolated_driver.store({"a": []}, id="one")
    return isolated_driver


def one(driver: RunDriver, **ending: object) -> None:
    driver.finish(driver.trigger("one"), "a", **ending)  # type: ignore[arg-type]


def check(driver: RunDriver) -> None:
    for grain in ("minute", "hour", "day"):
        assert stored(driver.database, "run_stats", "pipeline", grain) == expected_runs(driver.database)
        assert stored(driver.database, "task_stats", "task", grain) == expected_tasks(driver.database)


def test_the_sums_are_those_of_before(driver: RunDriver) -> None:
    one(driver)
    one(driver, failure=PERMANENT)
    fold_all(driver.database)
    totals = stored(driver.database, "task_stats", "task")
    assert rebuild(driver.database) == 2
    check(driver)
    assert stored(driver.database, "task_stats", "task") == totals


def test_it_counts_what_was_there_before_anything_was_counted(driver: RunDriver) -> None:
    one(driver)
    with driver.database.transaction() as tx:
        tx.execute("UPDATE events SET txid = NULL")
        tx.execute("UPDATE feed_consumers SET before = pg_snapshot_xmax(pg_current_snapshot())")
    one(driver)
    fold_all(driver.database)
    rebuild(driver.database)
    check(driver)
    assert stored(driver.database, "run_stats", "pipeline", "day")["one"]["completed"] == 2


def test_what_happens_meanwhile_is_counted_once(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "RUNS", 1)
    for _ in range(4):
        one(driver)
    fold_all(driver.database)
    one(driver)
    driver.database.run(rebuilding.begin)
    assert driver.database.run(rebuilding.count_some)[0] > 0
    one(driver)
    fold_all(driver.database)
    assert rebuild(driver.database) >= 0
    check(driver)


def test_days_of_dropped_months_stay(driver: RunDriver) -> None:
    one(driver)
    fold_all(driver.database)
    with driver.database.transaction() as tx:
        tx.execute("INSERT INTO dropped_months VALUES ('2020-01', now())")
        for table in ("run_stats", "task_stats"):
            tx.execute(f"UPDATE {table} SET at = '2020-01-10' WHERE grain = 'day'")
    rebuild(driver.database)
    assert stored(driver.database, "run_stats", "tenant", "day")[""]["completed"] == 2
    assert stored(driver.database, "run_stats", "tenant", "hour")[""]["completed"] == 1


def test_the_command_counts_anew_and_says_since_when(driver: RunDriver) -> None:
    one(driver)
    arguments = ["db", "stats", "--json", "--database-url", driver.database.url]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output + repr(shown.exception)
    before = json.loads(shown.stdout)
    after = json.loads(CliRunner().invoke(main, [*arguments, "--rebuild"]).stdout)
    assert (before["runs"], after["runs"], after["isRebuilding"]) == (None, 1, False)
    plain = CliRunner().invoke(main, [each for each in arguments if each != "--json"])
    assert "counted since (UTC)" in plain.stdout
