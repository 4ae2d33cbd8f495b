"""`pipeweave.Orchestrator`: an orchestrator inside a program, with PostgreSQL alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import urllib3
from support.http_service import http_service
from support.otlp_receiver import receiving
from support.pages import ROOT
from support.servers import new_database, wait_until

from pipeweave import Client, Orchestrator, enqueue
from pipeweave.errors import Conflict, InvalidSetting, SchemaOutdated
from pipeweave.orchestrator.deployment import migrate
from pipeweave.settings import Settings, environment
from pipeweave.up.postgres import Postgres

SECRET = "s" * 40
DEADLINE_S = 120
# No tick comes a second time during a test.
SELDOM_MS = 3_600_000


@pytest.fixture(scope="module")
def database_url(postgres_server: Postgres) -> Iterator[str]:
    with new_database(postgres_server, "embedding") as url:
        migrate.upgrade(url)
        yield url


def test_the_example_runs_a_pipeline_in_one_process(database_url: str, tmp_path: Path) -> None:
    variables = {name: text for name, text in environment().items() if not name.endswith("_URL")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/embedded_orchestrator.py")],
        cwd=tmp_path,
        env={**variables, "DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["orchestrate"]), done.stderr
    assert "still running" not in done.stderr, "a stream kept its thread when the server stopped"


def embedded(database_url: str, tmp_path: Path, *, serverless: bool = False, **more: Any) -> Orchestrator:
    settings: dict[str, Any] = {"poll_interval_ms": 100, "data_dir": str(tmp_path), **more}
    return Orchestrator(
        database_url=database_url,
        secret_key=SECRET,
        dispatch_networks="loopback",
        serverless=serverless,
        **settings,
    )


def test_a_serverless_orchestrator_does_nothing_until_it_is_told_to_tick(
    database_url: str, tmp_path: Path
) -> None:
    with embedded(database_url, tmp_path, serverless=True) as orchestrator:
        server = orchestrator.create_server(port=0).start()
        token = orchestrator.create_token("test", scopes=["write", "worker"])
        url = f"{server.url}/w/default/{token}"
        with (
            http_service(
                url, SECRET, {"twice": lambda each: each.input * 2}, service_id="embedded"
            ) as service,
            Client(server.url, token) as client,
        ):
            assert service.register()[0] == 200
            client.put_pipeline("doubling", {"steps": [{"task": "twice"}]})
            run = client.trigger("doubling", 21)
            assert not service.dispatches
            # A tick does not wait for a chore that takes long; it goes on beside.
            orchestrator.tick()
            wait_until(lambda: client.run(run.id).is_final, DEADLINE_S, "the run does not end")
            assert client.run(run.id).output == 42
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", f"{server.url}/health", retries=False)


def test_it_says_what_it_is_asked(database_url: str, tmp_path: Path) -> None:
    orchestrator = embedded(database_url, tmp_path)
    with pytest.raises(Conflict, match="not started"):
        orchestrator.can_accept_tasks()
    with orchestrator:
        with pytest.raises(Conflict, match="started already"):
            orchestrator.start()
        assert orchestrator.can_accept_tasks()
        storage = orchestrator.get_storage_backend()
        assert storage is orchestrator.get_storage_backend("local")
        with pytest.raises(InvalidSetting):
            orchestrator.get_storage_backend("elsewhere")
        token = orchestrator.create_token("operator", tenant="*", scopes=["admin"])
        found = orchestrator.wsgi_app().test_client()
        headers = {"Authorization": f"Bearer {token}", "X-Tenant": "default"}
        asked = found.post("/api/maintenance/request", json={}, headers=headers)
        assert asked.status_code == 200, asked.json
        assert not orchestrator.can_accept_tasks()
        assert found.post("/api/maintenance/exit", json={}, headers=headers).status_code == 200
    with orchestrator:
        assert orchestrator.can_accept_tasks()


def test_it_ticks_by_itself(database_url: str, tmp_path: Path) -> None:
    with embedded(database_url, tmp_path) as orchestrator:
        client = orchestrator.wsgi_app().test_client()
        before = client.get("/health").json["lastTickAt"]  # type: ignore[index]
        wait_until(
            lambda: client.get("/health").json["lastTickAt"] != before,  # type: ignore[index]
            DEADLINE_S,
            "it does not tick",
        )


def test_it_sends_traces_and_starts_enqueued_runs_before_the_next_tick(
    database_url: str, tmp_path: Path
) -> None:
    with (
        receiving() as collector,
        embedded(
            database_url, tmp_path, otlp_endpoint=collector.url, poll_interval_ms=SELDOM_MS
        ) as orchestrator,
        orchestrator.create_server(port=0) as server,
    ):
        token = orchestrator.create_token("test", scopes=["write", "worker"])
        url = f"{server.url}/w/default/{token}"
        with (
            http_service(url, SECRET, {"seldom": lambda each: each.input}, service_id="seldom") as service,
            Client(server.url, token) as client,
            closing(psycopg2.connect(database_url)) as connection,
        ):
            assert service.register()[0] == 200
            client.put_pipeline("seldom", {"steps": [{"task": "seldom"}]})
            wait_until(lambda: has_begun_to_send(connection), DEADLINE_S, "it sends no spans")
            run_id = enqueue(connection, "seldom")
            connection.commit()
            wait_until(lambda: client.runs(pipeline_id="seldom").items != [], DEADLINE_S, "it does not start")
            client.cancel(run_id)
            wait_until(lambda: bool(collector.of_run(run_id)), DEADLINE_S, "its span does not arrive")


def has_begun_to_send(connection: Any) -> bool:
    """Whether it is noted from where on spans are sent."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM trace_place)")
        return bool(cursor.fetchone()[0])


def test_an_empty_database_is_told_before_anything_starts(postgres_server: Postgres, tmp_path: Path) -> None:
    with new_database(postgres_server, "embedding_empty") as url:
        orchestrator = embedded(url, tmp_path)
        with pytest.raises(SchemaOutdated):
            orchestrator.start()
        orchestrator.migrate()
        with orchestrator:
            assert orchestrator.can_accept_tasks()


def test_wrong_settings_are_named() -> None:
    with pytest.raises(InvalidSetting) as raised:
        Orchestrator(databse_url="postgresql://x/y")
    assert raised.value.errors[0].message == "is no setting; did you mean 'database_url'?"
    with pytest.raises(InvalidSetting) as raised:
        Orchestrator(database_url="mysql://x/y", max_concurrency=0)
    assert {each.field for each in raised.value.errors} == {"DATABASE_URL", "MAX_CONCURRENCY"}


def test_settings_may_have_their_own_types(tmp_path: Path) -> None:
    backends = [{"id": "files", "provider": "local", "credentials": {"basePath": str(tmp_path)}}]
    found = Orchestrator(
        database_url="postgresql://user@host/name",
        storage_backends=backends,
        dispatch_networks=["loopback", "private"],
        archive_runs=False,
    ).settings
    assert [each["id"] for each in found.storage_backends] == ["files"]
    assert (found.archive_runs, found.mode) == (False, "serverless")
    given = Settings(database_url="postgresql://user@host/name", broker_url="redis://host/0")
    assert Orchestrator(given).settings.mode == "standalone"
