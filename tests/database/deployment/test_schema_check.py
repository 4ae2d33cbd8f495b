"""Whether the database has the schema that a starting process needs."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from alembic.script import ScriptDirectory

from pipeweave.authoring.task_loading import Loaded
from pipeweave.errors import SchemaOutdated
from pipeweave.orchestrator.deployment import json_logs, schema_check
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.workers.process import launch
from pipeweave.workers.process.launch import run_beat, run_worker


def at(database: Database, version: str) -> None:
    with database.transaction() as tx:
        tx.execute("UPDATE schema_migrations SET version_num = :version", {"version": version})


def test_the_revisions_are_those_of_alembic() -> None:
    script = ScriptDirectory("migrations")
    assert schema_check.shipped() == {each.revision for each in script.walk_revisions()}
    assert max(schema_check.shipped()) == script.get_current_head()


def test_a_database_without_tables_or_with_older_ones_needs_a_migration(fresh_database: Database) -> None:
    schema_check.require_current(fresh_database)
    at(fresh_database, "0001")
    with pytest.raises(SchemaOutdated, match=r"is at 0001, and this version of PipeWeave needs \d{4}") as old:
        schema_check.require_current(fresh_database)
    with fresh_database.transaction() as tx:
        tx.execute("DROP TABLE schema_migrations")
    with pytest.raises(SchemaOutdated, match="the database has no schema yet") as none:
        schema_check.require_current_if_reachable(fresh_database)
    assert old.value.hint == none.value.hint == "run `pipeweave db migrate`"


def test_a_newer_schema_is_fine_since_migrations_only_add(
    fresh_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    at(fresh_database, "9999")
    with caplog.at_level(logging.WARNING):
        schema_check.require_current(fresh_database)
    assert caplog.messages == ["schema.newer"]


def test_a_database_that_is_away_is_left_to_the_process(caplog: pytest.LogCaptureFixture) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", pool_size=0)
    with caplog.at_level(logging.WARNING):
        schema_check.require_current_if_reachable(away)
    assert caplog.messages == ["schema.unknown"]


@pytest.mark.parametrize("start", [run_beat, lambda settings: run_worker(settings, [])])
def test_worker_and_beat_do_not_start_without_the_schema(
    fresh_database: Database,
    broker_url: str,
    start: Callable[[Settings], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_logs, "configure", lambda *levels: None)
    monkeypatch.setattr(launch, "load", lambda apps: Loaded({}, []))
    at(fresh_database, "0001")
    with pytest.raises(SchemaOutdated, match="is at 0001"):
        start(Settings(database_url=fresh_database.url, broker_url=broker_url))
