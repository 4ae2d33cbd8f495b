"""An HTTP worker is given the secrets of its params, apart from its input, and over a private way alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.run_driver import header
from support.stub_http_server import Served, serving

from pipeweave.errors import InvalidSpec
from pipeweave.orchestrator.dispatch import secret_params
from pipeweave.orchestrator.dispatch.dispatcher import Dispatcher
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Dispatched, TaskRun
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration, triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.sending import Target
from pipeweave.settings import Settings
from pipeweave.spec.document import parse_spec
from pipeweave.storage import Backends

TENANT, WORKER, VALUE = "dispatched-secrets", "worker@host:1:ab", "hunter2-hunter2"
PARAMS = {"password": "${secret.DB}", "host": "${input.host}", "again": "${secret.DB}"}


@pytest.fixture
def values(tmp_path: Path) -> Values:
    folder = {"basePath": str(tmp_path / "objects")}
    return Values(Backends([{"id": "local", "provider": "local", "credentials": folder}]))


@pytest.fixture
def service() -> Iterator[Served]:
    with serving() as served:
        served.put("POST /tasks/login", (202, {}))
        yield served


@pytest.fixture
def dispatcher(database: Database, values: Values, tmp_path: Path) -> Iterator[Dispatcher]:
    (tmp_path / "secrets" / TENANT).mkdir(parents=True)
    (tmp_path / "secrets" / TENANT / "DB").write_text(VALUE)
    settings = Settings(
        secret_key="5e" * 32,
        dispatch_networks=("loopback",),
        data_dir=str(tmp_path),
        secrets=({"provider": "file", "path": str(tmp_path / "secrets")},),
    )
    made = Dispatcher(database, values, settings, worker=WORKER)
    yield made
    made.close()


def store(tx: Transaction, url: str, params: Any, **step: Any) -> None:
    # The instances of earlier tests are gone, and what they do not answer would count.
    tx.execute("DELETE FROM service_instances WHERE tenant_id = :tenant", {"tenant": TENANT})
    task = TaskRegistration("login", "a" * 16, retries=0)
    service_registration.register(tx, TENANT, Registration("shop", "1", "http", url, [task]))
    document = {"id": "p", "steps": [{"id": "a", "task": "login", "params": params, **step}]}
    pipelines.store(tx, TENANT, parse_spec(document), source="api")


def claimed(
    database: Database, values: Values, url: str, params: Any = PARAMS
) -> tuple[RunHeader, list[TaskRun]]:
    with database.transaction() as tx:
        store(tx, url, params)
        given = {"host": "db.example ${secret.DB}"}
        run_id = triggering.trigger(tx, values, TENANT, StartRequest("p", given)).id
        task_runs = claiming.start(tx, run_id, [1], 1, worker=WORKER)
        return header(tx, run_id), task_runs


def input_of(values: Values, sent: Any) -> Any:
    return orjson.loads(values.backends.default.get(sent["inputPath"]))


def test_secrets_come_in_a_member_of_their_own_and_not_in_the_stored_input(
    database: Database, values: Values, service: Served, dispatcher: Dispatcher
) -> None:
    run, task_runs = claimed(database, values, service.url)
    [outcome] = dispatcher.dispatch(run, task_runs)
    assert isinstance(outcome, Dispatched)
    [(_, _, sent)] = service.asked
    assert sent["secrets"] == {"DB": VALUE}
    assert sent["secretParams"] == {"password": "DB", "again": "DB"}
    # What a caller writes is a text, and never a reference.
    assert input_of(values, sent) == {"host": "db.example ${secret.DB}"}
    stored = [each for each in Path(values.backends.entry("local")["credentials"]["basePath"]).rglob("*")]
    assert all(VALUE.encode() not in each.read_bytes() for each in stored if each.is_file())


def test_a_dispatch_without_secrets_has_no_such_members(
    database: Database, values: Values, service: Served, dispatcher: Dispatcher
) -> None:
    run, task_runs = claimed(database, values, service.url, {"host": "h"})
    dispatcher.dispatch(run, task_runs)
    [(_, _, sent)] = service.asked
    assert not {"secrets", "secretParams"} & sent.keys()


def test_a_missing_secret_fails_the_attempt_before_anything_is_sent(
    database: Database, values: Values, service: Served, dispatcher: Dispatcher
) -> None:
    run, task_runs = claimed(database, values, service.url, {"password": "${secret.ABSENT}"})
    [outcome] = dispatcher.dispatch(run, task_runs)
    assert isinstance(outcome, tuple)
    failure: Failure = outcome[1]
    assert (failure.code, failure.retryable) == ("SECRET_NOT_FOUND", True)
    assert service.asked == []


@pytest.mark.parametrize(
    ("url", "params"),
    [
        ("http://shop.example:3001", {"password": "${secret.DB}"}),
        ("http://10.1.2.3", {"password": "${secret.DB}"}),
        ("https://shop.example", {"password": "Bearer ${secret.DB}"}),
        ("http://127.0.0.1:3001", {"password": {"inner": "${secret.DB}"}}),
    ],
)
def test_a_pipeline_that_would_show_a_secret_on_its_way_is_not_stored(
    database: Database, url: str, params: Any
) -> None:
    with pytest.raises(InvalidSpec) as refused, database.transaction() as tx:
        store(tx, url, params)
    [fault] = refused.value.errors
    assert (fault.field, fault.code) == ("steps[0].params.password", "secret_not_private")


@pytest.mark.parametrize(
    "url", ["https://shop.example", "http://127.0.0.1:3001", "http://localhost", "http://[::1]"]
)
def test_a_pipeline_whose_secrets_stay_private_is_stored(database: Database, url: str) -> None:
    with database.transaction() as tx:
        store(tx, url, {"password": "${secret.DB}", "other": "x"})


def test_at_the_dispatch_the_address_counts_that_is_connected_to(
    database: Database,
    values: Values,
    service: Served,
    dispatcher: Dispatcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, task_runs = claimed(database, values, service.url)
    asked: list[Target] = []

    def elsewhere(target: Target) -> None:
        asked.append(target)
        original(replace(target, address="10.1.2.3"))

    original = secret_params.require_private
    monkeypatch.setattr("pipeweave.orchestrator.dispatch.posting.require_private", elsewhere)
    [outcome] = dispatcher.dispatch(run, task_runs)
    assert isinstance(outcome, tuple) and asked
    assert (outcome[1].code, outcome[1].retryable) == ("SECRET_DENIED", False)
    assert service.asked == []
