"""Runs that are enqueued in a caller's transaction, with a real beat, a real worker and a real API."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg2
import pytest
from support.live_stack import LiveStack
from support.pages import ROOT, blocks
from support.run_driver import RunDriver
from support.servers import new_database, wait_until

import pipeweave
from pipeweave import Client, Orchestrator, ids
from pipeweave.orchestrator.store.database import Database
from pipeweave.up.postgres import Postgres

ONE = {"id": "one", "steps": [{"id": "a", "task": "noop"}]}


def test_beats_that_are_killed_start_each_run_once(stack_with_beat: LiveStack) -> None:
    stack = stack_with_beat
    stack.start_worker("steps.py")
    stack.store(ONE)
    connection = psycopg2.connect(stack.settings.database_url)
    runs: list[str] = []

    def has_started() -> bool:
        known = [ids.read(ids.RUN, each) for each in runs[-20:]]
        return bool(stack.rows("SELECT 1 FROM runs WHERE id = ANY(CAST(:ids AS uuid[])) LIMIT 1", ids=known))

    # The last ones are started by the beat that is left.
    for beat in (stack.start_beat(), stack.start_beat(), None):
        with connection:
            runs += pipeweave.enqueue_many(connection, "one", range(20), tenant=stack.settings.tenant)
        if beat is not None:
            stack.until(has_started, "no beat started a run")
            stack.kill(beat)
    for each in runs:
        assert stack.finished(ids.read(ids.RUN, each)).status == "completed"
    assert not stack.rows("SELECT 1 FROM enqueued_runs")
    found = stack.rows("SELECT count(*) AS n FROM runs WHERE tenant_id = :t", t=stack.settings.tenant)
    assert found[0].n == len(runs)
    connection.close()


# --- an outbox on another server --------------------------------------------------------------------------


class Dying:
    """A client whose process dies when it has triggered: nothing after that happens."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def trigger(self, *arguments: Any, **options: Any) -> None:
        self._client.trigger(*arguments, **options)
        raise KeyboardInterrupt


@pytest.fixture
def relay() -> ModuleType:
    spec = importlib.util.spec_from_file_location("outbox_relay", ROOT / "examples/outbox_relay.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_program_with_an_orchestrator_starts_runs_and_takes_an_outbox(
    postgres_server: Postgres, fresh_database_url: str, relay: ModuleType, tmp_path: Path
) -> None:
    """Its ticks are an hour apart: what starts is started by the thread that looks for it."""
    driver = RunDriver(Database(fresh_database_url), tenant="default")
    driver.store({"a": []}, id="one")
    orchestrator = Orchestrator(
        database_url=fresh_database_url,
        secret_key="s" * 40,
        poll_interval_ms=3_600_000,
        data_dir=str(tmp_path),
    )
    with orchestrator, orchestrator.create_server(port=0) as server:
        client = Client(server.url, orchestrator.create_token("relay"))
        connection = psycopg2.connect(fresh_database_url)
        run = pipeweave.enqueue(connection, "one")
        connection.commit()
        connection.close()
        wait_until(lambda: bool(client.runs().items), what="the run did not start")
        assert client.run(run).document["triggeredBy"]["kind"] == "transaction"

        with new_database(postgres_server, "another_server") as url:
            outbox = psycopg2.connect(url)
            with outbox, outbox.cursor() as cursor:
                cursor.execute(blocks(ROOT / "docs/enqueue.md", "sql")[-1])
                statement = "INSERT INTO outbox (pipeline_id, input) VALUES (%s, '{}')"
                cursor.executemany(statement, [("one",), ("one",), ("unknown",)])
            with pytest.raises(KeyboardInterrupt):
                relay.relay(outbox, Dying(client))
            assert relay.relay(outbox, client) == 3
            assert relay.relay(outbox, client) == 0
            with outbox, outbox.cursor() as cursor:
                cursor.execute("SELECT pipeline_id, error FROM outbox")
                [(pipeline_id, error)] = cursor.fetchall()
            outbox.close()
        assert (pipeline_id, "not found" in error) == ("unknown", True)
        assert len(client.runs().items) == 3
    driver.database.dispose()
