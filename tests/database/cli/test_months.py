"""`pipeweave db partitions | cleanup | archive` on a real database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.aged_rows import bury, past_run
from support.servers import new_database

from pipeweave import ids
from pipeweave.cli import main
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import drop_months, month_status, partitions
from pipeweave.orchestrator.store.database import Database
from pipeweave.up.postgres import Postgres

# These commands judge age by the real clock: the month is one of last year's.
LONG_AGO = datetime.now(UTC).replace(day=15) - timedelta(days=400)
MONTH = str(Month.of(LONG_AGO))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where local storage is."""
    monkeypatch.setenv("PIPEWEAVE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(drop_months, "TRIES", 1)
    return tmp_path


@pytest.fixture
def database(fresh_database: Database) -> Database:
    with fresh_database.transaction() as tx:
        partitions.ensure(tx, LONG_AGO, months_ahead=0)
    return fresh_database


def call(database: Database, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["db", *arguments, "--database-url", database.url])


def said(database: Database, *arguments: str) -> dict[str, Any]:
    result = call(database, *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def put(database: Database, moment: datetime = LONG_AGO, **options: Any) -> str:
    with database.transaction() as tx:
        return ids.show(ids.RUN, past_run(tx, moment, **options))


def test_the_months_are_listed_with_what_the_policy_says(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(database, status="running")
    assert said(database, "partitions")["retentionDays"] is None
    monkeypatch.setenv("RUN_RETENTION_DAYS", "30")
    found = said(database, "partitions")
    old, *others = found["months"]
    assert (old["month"], old["activeRuns"], old["policy"]) == (MONTH, 1, "active")
    assert old["bytes"] > 0
    assert {each["policy"] for each in others} == {"kept"}
    assert len(others) == 3
    shown = call(database, "partitions").output
    assert MONTH in shown
    assert "kept until" in shown


def test_few_rows_are_counted_and_many_are_estimated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        put(database)
    old = said(database, "partitions")["months"][0]
    assert (old["runs"], old["estimated"]) == (3, [])
    monkeypatch.setattr(month_status, "MOST_COUNTED", 1)
    with database.transaction() as tx:
        tx.execute("ANALYZE runs")
    old = said(database, "partitions")["months"][0]
    assert (old["runs"], "runs" in old["estimated"]) == (3, True)
    assert "about 3" in call(database, "partitions").stdout


def test_rows_without_a_month_are_reported_with_what_mends_it(database: Database) -> None:
    stray = LONG_AGO - timedelta(days=100)
    put(database, stray)
    named = [(each["month"], each["table"], each["rows"]) for each in said(database, "partitions")["default"]]
    assert (str(Month.of(stray)), "runs", 1) in named
    assert "pipeweave db migrate" in call(database, "partitions").stderr
    assert call(database, "migrate").exit_code == 0
    found = said(database, "partitions")
    assert found["default"] == []
    assert found["months"][0]["month"] == str(Month.of(stray))


def test_a_cleanup_says_what_it_did_and_is_done(database: Database, folder: Path) -> None:
    put(database)
    with database.transaction() as tx:
        bury(tx, tx.now - timedelta(days=40))
    would = said(database, "cleanup", "--older-than", "30d", "--dry-run")
    assert [(each["month"], each["outcome"], each["runs"]) for each in would["months"]] == [(MONTH, "due", 1)]
    assert would["deleted"]["deadLetters"] == 1
    did = said(database, "cleanup", "--older-than", "30d")
    assert did == {
        "dryRun": False,
        "storage": str(folder / "storage"),
        "months": [
            {
                "month": MONTH,
                "outcome": "dropped",
                "runs": 1,
                "taskRuns": 2,
                "attempts": 2,
                "events": 2,
                "signals": 1,
                "archive": f"archive/runs/{MONTH}/manifest.json",
                "activeRuns": [],
            }
        ],
        "deleted": {
            "deadLetters": 1,
            "idempotencyClaims": 0,
            "workers": 0,
            "redrives": 0,
            "uploads": 0,
            "scheduleFires": 0,
            "triggerFires": 0,
            "enqueuedRuns": 0,
            "sessions": 0,
            "loginLinks": 0,
            "audit": 0,
        },
    }
    assert (folder / "storage" / did["months"][0]["archive"]).exists()
    assert said(database, "cleanup", "--older-than", "30d")["months"] == []


def test_without_a_retention_a_cleanup_keeps_runs_and_says_so(database: Database) -> None:
    put(database)
    result = call(database, "cleanup")
    assert "kept forever" in result.stdout
    assert "Deleted 0 dead letters" in result.stdout
    assert MONTH in call(database, "partitions").output


def test_the_setting_is_the_age_without_the_option(
    database: Database, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    put(database)
    monkeypatch.setenv("RUN_RETENTION_DAYS", "30")
    monkeypatch.setenv("ARCHIVE_RUNS", "false")
    assert "not archived" in call(database, "cleanup").stdout
    assert not (folder / "storage" / "archive").exists()


def test_dead_letters_go_by_the_age_that_is_given(database: Database) -> None:
    with database.transaction() as tx:
        bury(tx, tx.now - timedelta(days=10))
    assert said(database, "cleanup")["deleted"]["deadLetters"] == 0
    assert said(database, "cleanup", "--dlq-retention-days", "7")["deleted"]["deadLetters"] == 1


def test_a_month_with_an_active_run_stays_and_the_run_is_named(database: Database) -> None:
    run_id = put(database, status="paused")
    result = call(database, "cleanup", "--older-than", "30d", "--no-archive")
    assert result.exit_code == 0
    assert f"{MONTH}  kept: active runs {run_id}" in result.stdout


def test_a_month_in_use_stays_and_the_command_fails(database: Database) -> None:
    put(database)
    with database.transaction() as reader:
        # The command tries for longer than a session of ours may be silent in a transaction.
        reader.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        reader.execute("SELECT count(*) FROM runs")
        result = call(database, "cleanup", "--older-than", "30d")
    assert (result.exit_code, "in use" in result.stdout) == (1, True)
    assert call(database, "cleanup", "--older-than", "30d").exit_code == 0


def test_a_month_can_be_archived_and_kept(database: Database) -> None:
    put(database)
    assert said(database, "archive", MONTH)["runs"] == 1
    assert [each["month"] for each in said(database, "archive", "--list")["archives"]] == [MONTH]
    assert MONTH in call(database, "archive", "--list").stdout
    assert MONTH in call(database, "partitions").output


def test_a_month_that_cannot_be_archived_is_refused_with_the_reason(database: Database) -> None:
    run_id = put(database, status="running")
    active = call(database, "archive", MONTH)
    unknown = call(database, "archive", "1999-12")
    unfinished = call(database, "archive", str(Month.of(datetime.now(UTC))))
    nonsense = call(database, "archive", "march")
    assert [each.exit_code for each in (active, unknown, unfinished, nonsense)] == [1, 1, 1, 1]
    assert run_id in active.stderr
    assert f"months: {MONTH}" in unknown.stderr
    assert "not over yet" in unfinished.stderr
    assert "2026-03" in nonsense.stderr
    assert call(database, "archive").exit_code == 2


@pytest.mark.parametrize("age", ["2999-01-01T00:00:00Z", "soon"])
def test_an_age_that_is_none_is_refused(database: Database, age: str) -> None:
    assert call(database, "cleanup", "--older-than", age).exit_code in (1, 2)


def test_while_another_process_is_at_it_a_cleanup_does_nothing(database: Database) -> None:
    put(database)
    with drop_months.alone(database):
        result = call(database, "cleanup", "--older-than", "30d")
    assert (result.exit_code, "CONFLICT" in result.stderr) == (1, True)


def test_a_database_without_the_schema_says_so(postgres_server: Postgres) -> None:
    with new_database(postgres_server, "bare_for_history") as url:
        result = CliRunner().invoke(main, ["db", "partitions", "--database-url", url])
    assert (result.exit_code, "pipeweave db migrate" in result.stderr) == (1, True)
