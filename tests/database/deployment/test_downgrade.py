"""Migrations are taken back one by one, from a database with rows that only the newest schema can hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from support.run_driver import RunDriver
from support.schemas import described, steps_up
from support.servers import new_database

from pipeweave.cli import main
from pipeweave.errors import Conflict
from pipeweave.orchestrator.deployment import downgrade, migrate, schema_check
from pipeweave.orchestrator.deployment.schema_history import SchemaHistory
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec import StepSpec
from pipeweave.up.postgres import Postgres

HISTORY = SchemaHistory()
NEWEST = HISTORY.revisions[-1]

# Rows that an older schema cannot hold as they are, in the tables whose constraints migrations widened.
_ONLY_NOW = (
    "INSERT INTO pipelines (tenant_id, id, latest_version, created_at, updated_at)"
    " VALUES (:tenant, 'p', 1, now(), now())",
    "INSERT INTO schedules (tenant_id, id, pipeline_id, every_ms, source, created_at, updated_at)"
    " VALUES (:tenant, 'often', 'p', 60000, 'celery', now(), now())",
    "INSERT INTO schedules (tenant_id, id, pipeline_id, cron, created_at, updated_at)"
    " VALUES (:tenant, 'daily', 'p', '0 0 * * *', now(), now())",
    "INSERT INTO triggers (tenant_id, id, kind, pipeline_id, filter, event, enabled_at, created_at,"
    " updated_at) VALUES (:tenant, 'after', 'event', 'p', '{}', 'pipeline-completed', now(), now(), now())",
    "INSERT INTO hook_fires (id, tenant_id, pipeline_id, run_id, seq, hook, place, target_pipeline, event,"
    " depth, outcome, created_at, due_at)"
    " VALUES (:run, :tenant, 'p', :run, 1, 'onWaiting', 0, 'p', '{}', 1, 'waiting', now(), now())",
    "INSERT INTO task_stats (tenant_id, scope, id, grain, at, completed, cached, failed, timed_out, lost,"
    " interrupted, cancelled, retried, again, dead, dead_timed_out, redriven, codes, took, took_sum, wait,"
    " wait_sum)"
    " VALUES (:tenant, 'wait', 'p', 'day', now(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '[]', 0,"
    " '[]', 0)",
    "INSERT INTO redrives (id, tenant_id, filter, status, total, stopped_because, created_at, finished_at)"
    " VALUES (:run, :tenant, '{}', 'stopped', 1, 'too many failed', now(), now())",
    "INSERT INTO attempts (run_id, task_run_id, number, status, code_version, finished_at)"
    " VALUES (:run, :run, 1, 'interrupted', 1, now())",
)


@pytest.fixture
def empty(postgres_server: Postgres) -> Iterator[Database]:
    with new_database(postgres_server, "steps_of_schemas") as url:
        opened = Database(url, pool_size=1)
        yield opened
        opened.dispose()


def fill(database: Database) -> RunDriver:
    driver = RunDriver(database)
    driver.store_steps(StepSpec("a", "noop"), StepSpec("b", "limited", ("a",)))
    run_id = driver.trigger()
    with database.transaction() as tx:
        for statement in _ONLY_NOW:
            tx.execute(statement, {"tenant": driver.tenant, "run": run_id})
    return driver


def test_every_migration_is_taken_back_to_the_schema_before_it_and_all_can_be_applied_again(
    empty: Database,
) -> None:
    """One walk up, one down with a look at each schema, and one up again."""
    before: dict[str, list[str]] = {}
    for revision in HISTORY.revisions:
        with empty.transaction() as tx:
            before[revision] = described(tx)
            steps_up(tx, revision)
    with empty.transaction() as tx:
        partitions.ensure(tx, tx.now)
        newest, months = described(tx), _months(tx)
    fill(empty)
    for revision in reversed(HISTORY.revisions):
        migrate.step_down(empty, HISTORY, revision)
        with empty.transaction() as tx:
            assert described(tx) == before[revision], f"what {revision} leaves behind"
    assert schema_check.status(empty.url).pending == HISTORY.revisions
    migrate.upgrade(empty.url)
    with empty.transaction() as tx:
        assert (described(tx), _months(tx)) == (newest, months)
    fill(empty)


def _months(tx: Transaction) -> list[str]:
    return [each.name for each in partitions.list_partitions(tx)]


def test_rows_that_both_schemas_hold_outlive_a_downgrade(fresh_database: Database) -> None:
    driver = fill(fresh_database)
    whole = downgrade.plan(fresh_database.url, "base")
    assert [each.revision for each in whole] == list(reversed(HISTORY.revisions))
    downgrade.take(fresh_database.url, whole[: -HISTORY.revisions.index("0008") - 1])
    migrate.upgrade(fresh_database.url)
    with fresh_database.transaction() as tx:
        schedules = tx.execute("SELECT id FROM schedules").scalars()
        statuses = tx.execute("SELECT status FROM redrives").scalars()
        assert (schedules, statuses) == (["daily"], ["cancelled"])
        assert tx.execute("SELECT count(*) FROM task_runs").scalar_one() == 2
    driver.trigger()


def test_a_migration_that_fails_leaves_the_ones_before_it_applied(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_up = SchemaHistory.step_up
    first, second = HISTORY.revisions[-2:]
    migrate.step_down(fresh_database, HISTORY, second)
    with fresh_database.transaction() as tx:
        before = described(tx)
    migrate.step_down(fresh_database, HISTORY, first)

    def broken(history: SchemaHistory, tx: Transaction, revision: str) -> None:
        step_up(history, tx, revision)
        if revision == second:
            raise RuntimeError("the power is gone")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(SchemaHistory, "step_up", broken)
        migrate.upgrade(fresh_database.url)
    with fresh_database.transaction() as tx:
        assert (HISTORY.applied(tx)[-1], described(tx)) == (first, before)
    assert migrate.upgrade(fresh_database.url).is_current


def call(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["db", "downgrade", *arguments, "--database-url", url])


def test_a_dry_run_says_what_is_lost_and_changes_nothing(fresh_database: Database) -> None:
    driver = fill(fresh_database)
    shown = call(fresh_database.url, "--to", "0008", "--dry-run")
    assert shown.exit_code == 0
    for said in (
        "drops table triggers (1 rows)",
        "drops column runs.quiet_since",
        "deletes from schedules WHERE cron IS NULL",
        "0009: takes back «Adds what schedules need",
    ):
        assert said in shown.stdout
    (step,) = json.loads(call(fresh_database.url, "--to", "-1", "--dry-run", "--json").stdout)["steps"]
    assert step["revision"] == NEWEST
    assert step["sql"] in call(fresh_database.url, "--to", "-1", "--dry-run", "--sql").stdout
    assert schema_check.status(fresh_database.url).is_current
    driver.trigger()


def test_a_downgrade_is_meant_and_says_each_step(fresh_database_url: str) -> None:
    refused = call(fresh_database_url, "--to", "-2")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    done = call(fresh_database_url, "--to", "-2", "--yes")
    assert done.stdout.splitlines() == [f"Took back {each}" for each in HISTORY.revisions[:-3:-1]]
    assert schema_check.status(fresh_database_url).pending == HISTORY.revisions[-2:]
    assert (
        call(fresh_database_url, "--to", HISTORY.revisions[-3], "--yes").stdout == "Nothing to take back.\n"
    )


def test_a_downgrade_is_refused_while_a_process_is_connected(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        tx.execute("SELECT 1")
        refused = call(fresh_database.url, "--to", "-1", "--yes")
        assert (refused.exit_code, "1 sessions of PipeWeave" in refused.stderr) == (1, True)
    assert schema_check.status(fresh_database.url).is_current
    assert call(fresh_database.url, "--to", "-1", "--yes", "--force").exit_code == 0
    assert schema_check.status(fresh_database.url).pending == (NEWEST,)


@pytest.mark.parametrize(
    ("target", "said"), [("0099", "0001"), ("soon", "base"), ("--1", "base")], ids=["none", "word", "sign"]
)
def test_a_target_that_is_no_migration_is_refused(fresh_database_url: str, target: str, said: str) -> None:
    refused = call(fresh_database_url, f"--to={target}", "--yes")
    assert (refused.exit_code, "INVALID_INPUT" in refused.stderr, said in refused.stderr) == (1, True, True)
    assert schema_check.status(fresh_database_url).is_current


def test_a_schema_below_the_target_or_of_a_newer_version_is_refused(fresh_database: Database) -> None:
    before = HISTORY.revisions[-2]
    call(fresh_database.url, "--to", before, "--yes", "--force")
    assert f"below {NEWEST}" in call(fresh_database.url, "--to", NEWEST, "--yes").stderr
    with fresh_database.transaction() as tx:
        tx.execute("UPDATE schema_migrations SET version_num = '9999'")
    for command in ("migrate", "status"):
        newer = CliRunner().invoke(main, ["db", command, "--database-url", fresh_database.url])
        assert (newer.exit_code, "does not know" in newer.stderr) == (1, True)


def test_one_of_two_who_take_the_same_step_is_refused(fresh_database: Database) -> None:
    migrate.step_down(fresh_database, HISTORY, NEWEST)
    with pytest.raises(Conflict):
        migrate.step_down(fresh_database, HISTORY, NEWEST)
    assert schema_check.status(fresh_database.url).pending == (NEWEST,)
