"""A tenant is exported as a whole: every table, of one moment, without secrets, nothing of another one."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.run_driver import RunDriver
from support.stored_values import values_in
from support.uploads import an_upload

from pipeweave.errors import NotFound
from pipeweave.orchestrator.deployment.sealed_columns import SEALED
from pipeweave.orchestrator.export import ExportPart
from pipeweave.orchestrator.objects import owners
from pipeweave.orchestrator.retention import tenant_export, tenant_objects, tenant_rows
from pipeweave.orchestrator.retention.tenant_export import TenantExport, exported_tables
from pipeweave.orchestrator.security.audit import Actor, Note, write
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec
from pipeweave.orchestrator.store.database import Database
from pipeweave.storage.local import LocalStorage

_names = itertools.count(1)
# Its rows name a tenant, and stay when it is deleted.
OF_THE_DEPLOYMENT = {"tenant_deletions"}


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    yield filled(database)


def filled(database: Database) -> RunDriver:
    """A tenant with a run that ended, one that is open, a schedule, an upload and a row of the audit."""
    driver = RunDriver(database, f"exported-{next(_names)}")
    driver.store({"a": [], "b": ["a"]}, id="two")
    ended = driver.trigger("two", {"order": "ünï\u2028"}, run_token="once")
    driver.trigger("two")
    driver.finish(ended, "a")
    driver.finish(ended, "b")
    an_upload(database, driver.tenant)
    with database.transaction() as tx:
        storing.put(tx, driver.tenant, "nightly", ScheduleSpec("two", cron="0 3 * * *"))
        write(tx, Note(Actor("token", "ops"), "queue.pause", "tenant", driver.tenant), {}, {})
    return driver


def parts_of(driver: RunDriver) -> Iterator[ExportPart]:
    return TenantExport(driver.database, driver.tenant, SEALED).parts()


def lines_of(parts: Iterable[ExportPart]) -> list[Any]:
    return [orjson.loads(line) for part in parts for line in part.content.splitlines()]


def test_each_table_with_rows_of_tenants_is_exported(database: Database) -> None:
    driver = RunDriver(database, "nobody")
    named = driver.rows(
        """SELECT c.relname AS name FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attname = 'tenant_id'
            AND c.relnamespace = 'public'::regnamespace"""
    )
    tables = set(exported_tables())
    assert {row.name for row in named} - tables == OF_THE_DEPLOYMENT
    assert tables >= {*tenant_rows.OF_RUNS, *tenant_rows.OF_TENANT, "runs", "tenants", "audit"}


def test_an_export_has_every_row_of_the_tenant_once_and_none_of_another(driver: RunDriver) -> None:
    other = filled(driver.database)
    head, *rows, end = lines_of(parts_of(driver))
    assert head["export"]["tenant"] == driver.tenant and head["export"]["format"] == tenant_export.FORMAT
    by_table: dict[str, list[Any]] = defaultdict(list)
    for each in rows:
        by_table[each["table"]].append(each["row"])
    for table in (
        "runs",
        "task_runs",
        "pipelines",
        "pipeline_versions",
        "schedules",
        "temp_uploads",
        "tasks",
    ):
        [counted] = driver.rows(f"SELECT count(*) FROM {table} WHERE tenant_id = :id", id=driver.tenant)
        assert len(by_table[table]) == counted[0] > 0, table
    events = "SELECT count(*) FROM events AS e JOIN runs AS r ON r.id = e.run_id WHERE r.tenant_id = :id"
    assert len(by_table["events"]) == driver.rows(events, id=driver.tenant)[0][0] > 0
    assert len(by_table["audit"]) == len(by_table["run_tokens"]) == len(by_table["tenants"]) == 1
    assert {"order": "ünï\u2028"} in [each["input"] for each in by_table["runs"]]
    assert other.tenant not in orjson.dumps(rows).decode()
    listed = end["manifest"]["tables"]
    assert {name: each["rows"] for name, each in listed.items()} == {
        name: len(by_table[name]) for name in exported_tables()
    }


def test_the_manifest_has_the_hash_of_the_file_that_the_rows_of_a_table_make(driver: RunDriver) -> None:
    content = b"".join(part.content for part in parts_of(driver))
    files: dict[str, bytes] = defaultdict(bytes)
    for line in content.splitlines():
        if line.startswith(b'{"table":'):
            name, _, row = line.partition(b',"row":')
            files[orjson.loads(name + b"}")["table"]] += row[:-1] + b"\n"
    tables = orjson.loads(content.splitlines()[-1])["manifest"]["tables"]
    for name, each in tables.items():
        assert each["sha256"] == hashlib.sha256(files[name]).hexdigest(), name


def test_an_export_shows_one_moment_however_long_it_takes(driver: RunDriver) -> None:
    parts = parts_of(driver)
    first = lines_of([next(parts)])
    later = driver.trigger("two")
    rest = lines_of(parts)
    assert "export" in first[0]
    assert str(later) not in orjson.dumps(rest).decode()
    assert str(later) in orjson.dumps(lines_of(parts_of(driver))).decode()


def test_a_part_is_a_bounded_number_of_rows(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_export, "_FETCH", "FETCH 2 FROM exported")
    parts = list(parts_of(driver))
    assert max(part.rows for part in parts) == 2
    assert parts[-1].is_last and not any(part.is_last or part.cursor for part in parts[:-1])
    assert lines_of(parts)[-1]["manifest"]["tables"]["events"]["rows"] > 4


def test_no_sealed_text_and_no_token_is_exported(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        tx.execute(
            "INSERT INTO triggers (tenant_id, id, kind, pipeline_id, enabled, filter, scheme, secret,"
            " max_per_minute, created_at, updated_at) VALUES (:tenant, 'shop', 'webhook', 'two', true, '{}',"
            " 'pipeweave', 'sealed:x', 60, :now, :now)",
            {"tenant": driver.tenant, "now": tx.now},
        )
    lines = lines_of(parts_of(driver))
    [trigger] = [each["row"] for each in lines if each.get("table") == "triggers"]
    assert trigger["id"] == "shop" and not {"secret", "old_secret"} & trigger.keys()
    left_out = lines[-1]["manifest"]["leftOut"]
    assert left_out[0] == {"what": "triggers.secret, triggers.old_secret", "why": "sealed secrets"}
    exported = set(exported_tables())
    assert not exported & {"access_tokens", "ui_sessions", "ui_links"}


def test_columns_that_sound_like_secrets_are_sealed_or_names(database: Database) -> None:
    tables = list(exported_tables())
    columns = RunDriver(database, "nobody").rows(
        """SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name = ANY(:tables)
            AND column_name ~ 'secret|password|passphrase|private|credential|token_hash'""",
        tables=tables,
    )
    sealed = {(each.table, each.column) for each in SEALED}
    # A hook names the secret that signs its calls; `old_secret_until` is a time.
    names = {("hook_fires", "secret"), ("triggers", "old_secret_until")}
    assert {tuple(row) for row in columns} - sealed == names


def test_objects_are_listed_with_the_hash_of_their_bytes(driver: RunDriver, tmp_path: Path) -> None:
    named = {(table, column) for table, column, *_ in tenant_objects.SOURCES}
    assert set(owners.NAMING) <= named
    values = values_in(LocalStorage(tmp_path))
    content = b"a large input"
    place = str(values.keep_bytes(content, values.backends.default_id, "application/octet-stream"))
    with driver.database.transaction() as tx:
        tx.execute(
            "UPDATE runs SET input_path = :path, input_size = 13, input = NULL WHERE tenant_id = :tenant"
            " AND run_token = 'once'",
            {"path": place, "tenant": driver.tenant},
        )
    objects = [each["row"] for each in lines_of(parts_of(driver)) if each.get("table") == "objects"]
    digest = hashlib.sha256(content).hexdigest()
    assert {"of": "runs", "path": place, "sha256": digest, "size": 13} in objects
    assert [each["of"] for each in objects].count("temp_uploads") == 1


def test_who_leaves_in_the_middle_holds_no_snapshot(driver: RunDriver) -> None:
    parts = parts_of(driver)
    next(parts)
    mine = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    assert driver.rows(mine)[0][0] == 1
    parts.close()  # type: ignore[attr-defined]
    assert driver.rows(mine)[0][0] == 0


def test_a_tenant_that_is_not_there_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        next(TenantExport(database, "nobody-here", SEALED).parts())
