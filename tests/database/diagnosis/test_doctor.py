"""The checks of `pipeweave doctor` on real servers: a deployment that holds, and how it may not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import time_machine
from click.testing import CliRunner
from support.run_driver import PERMANENT, RunDriver
from support.servers import new_database, wait_until

from pipeweave.cli import main
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.diagnosis import check_broker, check_database, check_processes
from pipeweave.orchestrator.diagnosis.checks import checks
from pipeweave.orchestrator.diagnosis.doctor import Severity, Verdict
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.recovery.tick_status import ChoreResult
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.storage import Backends
from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey

OK, WARNING, ERROR = Severity.OK, Severity.WARNING, Severity.ERROR


@pytest.fixture
def driver(fresh_database: Database) -> Iterator[RunDriver]:
    yield RunDriver(fresh_database)


@pytest.fixture
def settings(driver: RunDriver, fresh_broker_url: str, tmp_path: Path) -> Settings:
    """A deployment that holds: a worker lives, the tick came a moment ago."""
    with driver.database.transaction() as tx:
        worker_processes.register(tx, driver.tenant, WorkerStart("python", "w@host", "host", 4, 3))
    beat(driver)
    return Settings(
        database_url=driver.database.url,
        broker_url=fresh_broker_url,
        tenant=driver.tenant,
        data_dir=str(tmp_path),
    )


def beat(driver: RunDriver) -> None:
    """Let the worker and the tick have been heard of a moment ago."""
    change(driver, "UPDATE workers SET heartbeat_at = now()")
    change(driver, "UPDATE orchestrator_state SET last_tick_at = now()")


def change(driver: RunDriver, statement: str) -> None:
    with driver.database.transaction() as tx:
        tx.execute(statement)


def saw(verdict: Verdict) -> tuple[Severity, str]:
    """How bad it is, and the line; whatever is not fine says what to do."""
    assert (verdict.level is OK) == (verdict.hint is None)
    return verdict.level, verdict.line


# --- all together -----------------------------------------------------------------------------------------


def test_a_deployment_that_holds_is_fine(settings: Settings, driver: RunDriver) -> None:
    verdicts: dict[str, Verdict] = {}
    for check in checks():
        # However long the checks before took.
        beat(driver)
        verdicts[check.name] = check.run(settings)
    assert {name: each.line for name, each in verdicts.items() if each.level is not OK} == {}
    assert len(verdicts) == 35


def test_the_command_shows_a_line_for_each_check(settings: Settings, driver: RunDriver) -> None:
    variables = {
        "DATABASE_URL": settings.database_url or "",
        "BROKER_URL": settings.broker_url or "",
        "PIPEWEAVE_DATA_DIR": settings.data_dir,
    }

    def is_well() -> bool:
        beat(driver)
        good = CliRunner().invoke(main, ["doctor"], env=variables)
        assert good.exit_code == 0, good.output
        return {line.split()[0] for line in good.stdout.splitlines()} == {"ok"}

    # On a machine that stands still for a while, the tick may be late.
    wait_until(is_well, what="the doctor goes on finding something")
    change(driver, "UPDATE orchestrator_state SET mode = 'maintenance'")
    limping = CliRunner().invoke(main, ["doctor", "--json"], env=variables)
    assert (limping.exit_code, json.loads(limping.stdout)["status"]) == (0, "warning")
    change(driver, "UPDATE orchestrator_state SET last_tick_at = NULL")
    bad = CliRunner().invoke(main, ["doctor"], env=variables)
    assert bad.exit_code == 1
    assert "error    tick                there was no tick yet; is `pipeweave beat` running?" in bad.stdout


# --- PostgreSQL -------------------------------------------------------------------------------------------


def test_the_server_and_its_version_are_named_without_the_password(settings: Settings) -> None:
    level, line = saw(check_database.reachable(settings))
    assert (level, line.startswith("PostgreSQL 1")) == (OK, True)
    assert "127.0.0.1" in line
    assert ":" + (settings.database_url or "").split(":")[2].split("@")[0] not in line


def test_a_server_that_is_too_old_is_an_error(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_database, "MIN_MAJOR", 99)
    level, line = saw(check_database.reachable(settings))
    assert (level, "too old" in line) == (ERROR, True)


def test_a_schema_that_is_behind_or_ahead_is_an_error(settings: Settings, driver: RunDriver) -> None:
    change(driver, "UPDATE schema_migrations SET version_num = '0001'")
    level, line = saw(check_database.schema(settings))
    assert (level, line.startswith("the schema is at 0001; pending: 0002")) == (ERROR, True)
    change(driver, "UPDATE schema_migrations SET version_num = '9999'")
    assert saw(check_database.schema(settings)) == (
        ERROR,
        "the schema is newer than this version of PipeWeave",
    )


def test_a_database_without_schema_is_an_error(settings: Settings, postgres_server: Postgres) -> None:
    with new_database(postgres_server, "bare_for_doctor") as url:
        level, line = saw(check_database.schema(replace(settings, database_url=url)))
    assert (level, line.startswith("the schema is at no version")) == (ERROR, True)


def test_missing_partitions_are_a_warning_and_this_months_an_error(
    settings: Settings, driver: RunDriver
) -> None:
    names = "SELECT relname FROM pg_class WHERE relname ~ '^events_[0-9]{4}_[0-9]{2}$' ORDER BY relname"
    this, *_, last = [row.relname for row in driver.rows(names)]
    change(driver, f"DROP TABLE {last}")
    level, line = saw(check_database.partitions_ahead(settings))
    assert (level, line) == (WARNING, f"partitions are missing: {last[7:].replace('_', '-')}")
    change(driver, f"DROP TABLE {this}")
    assert saw(check_database.partitions_ahead(settings))[0] is ERROR


def test_rows_in_a_default_partition_are_a_warning(settings: Settings, driver: RunDriver) -> None:
    change(
        driver,
        """INSERT INTO events (run_id, at, type)
        VALUES ('00000000-0000-7000-8000-000000000000', now(), 'run.created')""",
    )
    level, line = saw(check_database.default_partitions(settings))
    assert (level, line) == (WARNING, "the default partitions hold rows: 1 events of 1970-01")


@pytest.mark.parametrize(
    ("ahead", "level", "line"),
    [
        (timedelta(), OK, "agree"),
        (timedelta(seconds=2), WARNING, "2.0 s ahead of"),
        (timedelta(seconds=-3), WARNING, "3.0 s behind"),
        (timedelta(minutes=1), ERROR, "60.0 s ahead of"),
    ],
)
def test_a_clock_that_differs_is_told(
    settings: Settings, ahead: timedelta, level: Severity, line: str
) -> None:
    with time_machine.travel(datetime.now(UTC) + ahead):
        found = saw(check_database.clock(settings))
    assert found[0] is level
    assert line.split()[-1] in found[1]


def test_more_connections_than_the_server_takes_are_a_warning(settings: Settings) -> None:
    level, line = saw(check_database.connections(replace(settings, db_pool_max=900)))
    assert (level, "may use 1386" in line) == (WARNING, True)


# --- broker, storage, API ---------------------------------------------------------------------------------


@contextmanager
def configured(settings: Settings, **values: str) -> Iterator[None]:
    """A broker whose configuration says so for a while."""
    app = make_celery(settings)
    backend: Any = app.backend
    before = {name: backend.client.config_get(name)[name] for name in map(_dashed, values)}
    try:
        for name, value in values.items():
            backend.client.config_set(_dashed(name), value)
        yield
    finally:
        for name, value in before.items():
            backend.client.config_set(name, value)
        app.close()


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def test_the_broker_is_named(settings: Settings, valkey_server: Valkey) -> None:
    level, line = saw(check_broker.broker(settings))
    assert (level, line.startswith("Valkey ")) == (OK, True)


def test_an_old_redis_is_a_warning(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_broker, "_info", lambda *_: {"redis_version": "5.0.14"})
    assert saw(check_broker.broker(settings)) == (WARNING, "Redis 5.0.14")
    monkeypatch.setattr(check_broker, "_info", lambda *_: {"redis_version": "7.2.4"})
    assert saw(check_broker.broker(settings)) == (OK, "Redis 7.2.4")


def test_a_broker_that_throws_keys_away_is_told(settings: Settings) -> None:
    assert saw(check_broker.memory(settings))[0] is OK
    with configured(settings, maxmemory_policy="allkeys-lru"):
        assert saw(check_broker.memory(settings))[0] is WARNING
    with configured(settings, maxmemory="100mb", maxmemory_policy="allkeys-lru"):
        assert saw(check_broker.memory(settings))[0] is ERROR


def test_doctor_says_what_a_restart_of_the_broker_loses(settings: Settings) -> None:
    level, line = saw(check_broker.persistence(settings))
    assert (level, "no append-only file" in line) == (OK, True)


def test_the_probe_in_storage_is_gone_afterwards(settings: Settings, tmp_path: Path) -> None:
    assert saw(check_broker.storage(settings))[0] is OK
    assert [path for path in (tmp_path / "storage").rglob("*") if path.is_file()] == []


def test_a_folder_that_is_not_there_yet_is_not_made(settings: Settings, tmp_path: Path) -> None:
    nowhere = replace(settings, data_dir=str(tmp_path / "nowhere"))
    assert saw(check_broker.storage(nowhere))[0] is OK
    assert not (tmp_path / "nowhere").exists()


def test_every_backend_is_tried(settings: Settings, tmp_path: Path) -> None:
    entries = tuple(
        {"id": name, "provider": "local", "credentials": {"basePath": str(tmp_path / name)}} for name in "ab"
    )
    several = replace(settings, storage_backends=entries)
    expected = "backend a (local), backend b (local): written, read and deleted"
    assert saw(check_broker.storage(several)) == (OK, expected)
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").touch()
    with pytest.raises(Unavailable):
        check_broker.storage(several)


def test_storage_that_keeps_something_else_is_an_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful:
        def put(self, path: str, content: bytes) -> None: ...
        def delete(self, path: str) -> None: ...
        def get(self, path: str) -> bytes:
            return b"else"

    monkeypatch.setattr(Backends, "get", lambda *_: Forgetful())
    assert saw(check_broker.storage(settings))[0] is ERROR


class Api(BaseHTTPRequestHandler):
    """Answers /health, and everything else to whoever has the token."""

    degraded: str | None = None

    def do_GET(self) -> None:
        if self.path == "/health":
            status = "degraded" if self.degraded else "ok"
            self._answer(200, {"status": status, "degraded": self.degraded})
        elif self.headers.get("Authorization") == "Bearer pw_right":
            self._answer(200, {"runs": [], "nextCursor": None})
        else:
            problem = {"title": "A valid bearer token is required.", "status": 401, "code": "UNAUTHENTICATED"}
            self._answer(401, problem | {"detail": "the token is unknown"}, "application/problem+json")

    def _answer(self, status: int, document: Any, kind: str = "application/json") -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def api_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_api_that_is_configured_must_answer_and_take_the_token(
    settings: Settings, api_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saw(check_broker.api(settings)) == (OK, "not checked: PIPEWEAVE_ORCHESTRATOR_URL is not set")
    right = replace(settings, orchestrator_url=api_url, api_token="pw_right")
    assert saw(check_broker.api(right)) == (OK, f"{api_url} answers")
    level, line = saw(check_broker.api(replace(right, api_token="pw_wrong")))
    assert (level, "refuses the token" in line, "pw_wrong" in line) == (ERROR, True, False)
    monkeypatch.setattr(Api, "degraded", "the last tick was 60 min ago")
    assert saw(check_broker.api(right)) == (WARNING, f"{api_url} is degraded")


# --- work -------------------------------------------------------------------------------------------------


def test_workers_are_counted_by_service(settings: Settings, driver: RunDriver) -> None:
    level, line = saw(check_processes.workers_alive(settings))
    assert (level, line) == (OK, f"workers: 1 of python ({driver.tenant}), 4 task runs at once")
    change(driver, "UPDATE services SET status = 'disconnected'")
    level, line = saw(check_processes.workers_alive(settings))
    assert (level, f"lost the last worker of: python ({driver.tenant})" in line) == (WARNING, True)
    change(driver, "UPDATE workers SET heartbeat_at = now() - interval '1 minute'")
    assert saw(check_processes.workers_alive(settings)) == (WARNING, "no worker is running")


def test_files_of_several_hosts_are_a_warning(settings: Settings, driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        worker_processes.register(tx, driver.tenant, WorkerStart("python", "w@other", "other", 1, 1))
    assert saw(check_processes.one_storage(settings)) == (
        WARNING,
        "a local folder, but workers run on 2 hosts",
    )
    bucket = replace(settings, storage_backends=({"id": "main", "provider": "aws-s3"},))
    assert saw(check_processes.one_storage(bucket)) == (OK, "a bucket")
    both = replace(bucket, storage_backends=(*bucket.storage_backends, {"id": "b", "provider": "local"}))
    assert saw(check_processes.one_storage(both))[0] is WARNING


def test_a_tick_that_does_not_come_is_an_error(settings: Settings, driver: RunDriver) -> None:
    change(driver, "UPDATE orchestrator_state SET last_tick_at = now() - interval '1 hour'")
    assert saw(check_processes.tick(settings)) == (ERROR, "the last tick was 60 min ago")
    assert saw(check_processes.tick(replace(settings, mode="serverless")))[0] is OK


def note(driver: RunDriver, *results: ChoreResult) -> None:
    with driver.database.transaction() as tx:
        tick_status.record(tx, results)


def test_a_chore_that_fails_is_told_with_its_error(settings: Settings, driver: RunDriver) -> None:
    assert saw(check_processes.chores(settings)) == (OK, "no chore of the tick ran yet")
    failed = ChoreResult.of("redrives", 0, timedelta(), Unavailable("at 10.0.0.7"))
    note(driver, failed, ChoreResult("limits", 3, timedelta()))
    level, line = saw(check_processes.chores(settings))
    assert (level, "redrives failed at the last tick (UNAVAILABLE)" in line) == (WARNING, True)
    assert "10.0.0.7" not in line
    for _ in range(tick_status.REPEATED):
        note(driver, failed)
    level, line = saw(check_processes.chores(settings))
    assert (level, "at the last 4 ticks" in line) == (ERROR, True)


def test_a_chore_that_failed_a_moment_ago_is_a_warning(settings: Settings, driver: RunDriver) -> None:
    note(driver, ChoreResult.of("limits", 0, timedelta(), ValueError("no")))
    note(driver, ChoreResult("limits", 0, timedelta()))
    level, line = saw(check_processes.chores(settings))
    assert (level, line) == (WARNING, "chores of the tick failed recently: limits (ValueError)")
    change(driver, "UPDATE tick_chores SET failed_at = now() - interval '1 hour'")
    assert saw(check_processes.chores(settings)) == (OK, "the chores of the tick succeed")


def test_a_chore_that_takes_long_is_a_warning(settings: Settings, driver: RunDriver) -> None:
    note(driver, ChoreResult("expiry", 9, timedelta(seconds=12)))
    assert saw(check_processes.chores(settings)) == (WARNING, "chores of the tick are slow: expiry 12 s")


def test_maintenance_is_a_warning(settings: Settings, driver: RunDriver) -> None:
    change(driver, "UPDATE orchestrator_state SET mode = 'waiting_for_maintenance'")
    level, line = saw(check_processes.mode(settings))
    assert (level, "waiting_for_maintenance" in line) == (WARNING, True)


def test_work_that_nobody_consumes_is_an_error(settings: Settings, driver: RunDriver) -> None:
    driver.begin({"a": [], "b": []})
    assert saw(check_processes.queues(settings))[0] is OK
    change(driver, "UPDATE task_runs SET queue = 'pipeweave.x.lonely' WHERE step_id = 'b'")
    level, line = saw(check_processes.queues(settings))
    assert (level, line) == (ERROR, "task runs wait in queues without a worker: pipeweave.x.lonely")
    change(driver, "UPDATE task_runs SET queue = 'pipeweave.x.lonely+gpu=a100+zone=eu' WHERE step_id = 'b'")
    assert "zone=eu (no worker has gpu=a100, zone=eu)" in saw(check_processes.queues(settings))[1]
    change(driver, "UPDATE workers SET stopped_at = now()")
    assert f"pipeweave.{driver.tenant}.python, pipeweave.x.lonely" in saw(check_processes.queues(settings))[1]


def test_open_dead_letters_are_a_warning(settings: Settings, driver: RunDriver) -> None:
    driver.finish(driver.begin({"a": []}), "a", failure=PERMANENT)
    assert saw(check_processes.dead_letters(settings)) == (WARNING, "1 open dead letter")
    change(driver, "UPDATE dead_letters SET discarded_at = now()")
    assert saw(check_processes.dead_letters(settings))[0] is OK


def test_stalled_work_is_a_warning(settings: Settings, driver: RunDriver) -> None:
    driver.begin({"a": []})
    change(driver, "UPDATE runs SET deadline_at = now() - interval '1 minute'")
    assert saw(check_processes.stuck_work(settings)) == (WARNING, "1 stuck: run_overdue")
