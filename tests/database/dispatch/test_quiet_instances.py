"""An instance of an HTTP service that died idle is found by asking it, and is listed as crashed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.servers import wait_until
from support.stub_http_server import Served, serving

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.dispatch import probes
from pipeweave.orchestrator.reading import PageRequest
from pipeweave.orchestrator.registry import instances
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.store.database import Database
from pipeweave.up.ports import free_port

TENANT = "quiet-instances"


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as here:
        here.put("GET /health", (200, {}))
        yield here


def register(database: Database, url: str) -> None:
    found = Registration("mailer", "1", "http", url, [TaskRegistration("mail", "a" * 16)])
    database.run(lambda tx: service_registration.register(tx, TENANT, found))


def be_quiet(database: Database) -> None:
    """As if nothing had been heard of the instances for long, so that it is time to ask them."""
    with database.transaction() as tx:
        tx.execute(
            "UPDATE service_instances SET last_seen_at = now() - interval '2 minutes', "
            "set_aside_at = set_aside_at - interval '1 minute', "
            "probe_at = CASE WHEN set_aside_at IS NOT NULL THEN now() END"
        )


def the_one(database: Database) -> dict[str, Any]:
    with database.transaction() as tx:
        [found] = reading.workers(tx, TENANT, PageRequest())["items"]
        return dict(found)


def ask(database: Database) -> dict[str, Any]:
    """Ask the quiet instances, and wait until it is noted what was found."""
    be_quiet(database)

    def is_noted() -> bool:
        with database.transaction() as tx:
            row: Any = tx.execute(
                "SELECT last_seen_at > now() - interval '1 minute' AS heard, refusals FROM service_instances"
            ).one()
            return bool(row.heard or row.refusals > 0)

    assert probes.run_once(database, ["loopback"]) == 1
    wait_until(is_noted, what="the probe is noted")
    return the_one(database)


def test_an_instance_that_is_heard_of_is_not_asked(fresh_database: Database, served: Served) -> None:
    register(fresh_database, served.url)
    assert probes.run_once(fresh_database, ["loopback"]) == 0
    be_quiet(fresh_database)
    register(fresh_database, served.url)
    assert probes.run_once(fresh_database, ["loopback"]) == 0
    assert served.asked == []


def test_a_dead_idle_instance_crashed_and_one_that_answers_runs(
    fresh_database: Database, served: Served
) -> None:
    register(fresh_database, served.url)
    assert ask(fresh_database)["state"] == "running"
    served.put("GET /health", (503, {}))
    assert ask(fresh_database)["state"] == "stalled", "it answers, and takes nothing"
    register(fresh_database, served.url)
    assert the_one(fresh_database)["state"] == "running"


def test_an_instance_that_does_not_answer_takes_no_dispatches_and_crashed(fresh_database: Database) -> None:
    register(fresh_database, f"http://127.0.0.1:{free_port()}")
    found = ask(fresh_database)
    assert (found["state"], "refused" in found["lastError"]) == ("crashed", True)
    with fresh_database.transaction() as tx:
        assert reading.worker_counts(tx, TENANT)["crashed"] == 1
        [instance] = instances.of_service(tx, TENANT, "mailer")
        assert instance.set_aside_at is not None


def test_an_instance_that_refuses_a_dispatch_is_stalled_until_it_falls_silent(
    fresh_database: Database,
) -> None:
    register(fresh_database, "http://10.0.0.1:3001")
    fresh_database.run(
        lambda tx: instances.set_aside(tx, TENANT, "mailer", "http://10.0.0.1:3001", "503", answered=True)
    )
    assert the_one(fresh_database)["state"] == "stalled"
    be_quiet(fresh_database)
    assert the_one(fresh_database)["state"] == "crashed"
