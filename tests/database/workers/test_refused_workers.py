"""A worker that is refused at its start says why in one line, and was never registered."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeweave.errors import InvalidInput, NotFound, PortInUse
from pipeweave.orchestrator.registry import ensure_tenant
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.workers.process.health_server import HealthAddress
from pipeweave.workers.process.launch import run_worker


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def settings_of(url: str, tenant: str = "default") -> Settings:
    return Settings(database_url=url, broker_url="redis://127.0.0.1:1/0", tenant=tenant)


def registered(database: Database) -> list[str]:
    with database.transaction() as tx:
        return list(tx.execute("SELECT name FROM workers").scalars())


def test_a_dispatcher_for_a_tenant_that_does_not_exist_is_told_which_one_was_meant(
    fresh_database: Database, fresh_database_url: str
) -> None:
    with fresh_database.transaction() as tx:
        ensure_tenant(tx, "orders")
    with pytest.raises(NotFound, match="there is no tenant 'order'") as refused:
        run_worker(settings_of(fresh_database_url, "order"), [])
    assert refused.value.hint == "did you mean 'orders'?"
    with pytest.raises(NotFound) as refused:
        run_worker(settings_of(fresh_database_url, "xyz"), [])
    assert "an HTTP service registers for it" in (refused.value.hint or "")
    assert registered(fresh_database) == []


def test_a_worker_that_is_refused_its_health_port_has_not_registered(
    fresh_database: Database, fresh_database_url: str, used_port: int
) -> None:
    with pytest.raises(PortInUse, match=f"port {used_port} on 127.0.0.1 is in use"):
        run_worker(settings_of(fresh_database_url), [], health=HealthAddress(used_port))
    assert registered(fresh_database) == []


def test_a_worker_with_too_many_labels_for_its_queues_has_not_registered(
    fresh_database: Database, fresh_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests of this process have defined tasks, too.
    definitions = sys.modules["pipeweave.authoring.task"]
    monkeypatch.setattr(definitions, "_registry", {})
    monkeypatch.setattr(definitions, "_duplicates", {})
    monkeypatch.setattr(sys.modules["pipeweave.authoring.pipeline"], "_registry", {})
    app = tmp_path / "labelled_tasks.py"
    app.write_text("from pipeweave import task\n\n\n@task\ndef labelled() -> None: ...\n")
    of_machine = tuple(f"l{number}=x" for number in range(6))
    settings = replace(settings_of(fresh_database_url), worker_labels=of_machine)
    names = [f"q{number}" for number in range(5)]
    with pytest.raises(InvalidInput, match="5 queues with 6 labels make 320"):
        run_worker(settings, [str(app)], queues=names)
    of_option = {f"l{number}": "x" for number in range(5)}
    with pytest.raises(InvalidInput, match="9 queues with 5 labels make 288"):
        run_worker(settings, [str(app)], queues=[*names, "a", "b", "c", "d"], labels=of_option)
    assert registered(fresh_database) == []
