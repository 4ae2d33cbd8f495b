"""GET /metrics: whom it tells what, in which format, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from support.api_samples import OTHER_TENANT, TENANT
from support.scrapes import OPENMETRICS, of, read_openmetrics, read_prometheus, scrape, values
from support.sent_statements import sent_statements

from pipeweave.api import create_app
from pipeweave.api.http.metrics_text import Format, written
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.metrics import Samples, catalogue, machine
from pipeweave.orchestrator.metrics.reading import PARTS
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.security.access_tokens import READ, TICK, WRITE
from pipeweave.orchestrator.store.database import Database, Transaction

if TYPE_CHECKING:
    from conftest import Api, Tokens

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.fixture(autouse=True)
def few_tenants(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first tenants are shown; tests before these made hundreds, and a parser needs seconds for them."""
    with deployment.database.transaction() as tx:
        tx.execute(
            "UPDATE tenants SET created_at = '2000-01-02' WHERE id = ANY(CAST(:ids AS text[]))",
            {"ids": [TENANT, OTHER_TENANT]},
        )
    monkeypatch.setattr(machine, "MOST_TENANTS", 10)


@pytest.fixture
def new_app(deployment: Deployment) -> Callable[..., Flask]:
    """An application that has kept nothing yet: another process of the API."""
    return lambda **settings: create_app(replace(deployment.settings, **settings), deployment)


@pytest.fixture
def everyone(tokens: Tokens) -> str:
    """A token for every tenant."""
    return tokens.make(READ, tenants=("*",))


@pytest.mark.usefixtures("run_id")
def test_both_formats_say_the_same(new_app: Callable[..., Flask], everyone: str) -> None:
    app = new_app()
    plain, modern = scrape(app, everyone), scrape(app, everyone, PROMETHEUS)
    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert modern.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert plain.headers["Vary"] == "Accept"
    shown = {name for name, _ in values(plain)} | {"orchestrator_http_requests_total"}
    assert shown == {name for name, _ in values(modern)}
    assert of(values(plain), "queue_depth", task="list_files", status="queued") >= 1
    assert of(values(plain), "queue_depth") == of(values(modern), "queue_depth")
    assert of(values(plain), "database_up") == 1


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", "text/plain"),
        ("*/*", "text/plain"),
        ("text/html, */*;q=0.1", "text/plain"),
        ("application/json", "text/plain"),
        ("application/openmetrics-text;q=0.1, text/plain", "text/plain"),
        ("application/openmetrics-text; version=0.0.0.x\t;escaping=äöü", OPENMETRICS),
        (";;;,,,q=;/", "text/plain"),
        (OPENMETRICS.upper(), OPENMETRICS),
    ],
)
def test_the_accept_header_chooses_the_format(app: Flask, everyone: str, accept: str, wanted: str) -> None:
    assert scrape(app, everyone, accept).mimetype == wanted


@pytest.mark.usefixtures("run_id")
def test_a_token_of_a_tenant_sees_that_tenant_alone(
    new_app: Callable[..., Flask], tokens: Tokens, everyone: str
) -> None:
    app = new_app()
    mine = values(scrape(app, tokens.make(READ)))
    assert of(mine, "queue_depth", tenant=TENANT) >= 1
    assert {dict(labels).get("tenant") for _, labels in mine} == {TENANT}
    its = values(scrape(app, tokens.make(READ, tenants=(OTHER_TENANT,))))
    assert of(its, "queue_depth", tenant=TENANT) == 0
    both = values(scrape(app, tokens.make(READ, tenants=(TENANT, OTHER_TENANT))))
    assert both.keys() == mine.keys() | its.keys()
    narrowed = values(scrape(app, everyone, tenant=TENANT))
    assert {dict(labels).get("tenant") for _, labels in narrowed} == {TENANT}
    everything = values(scrape(app, everyone))
    assert everything.keys() > both.keys()
    assert of(everything, "metrics_part_up") == len(PARTS)


def test_who_may_not_read_gets_no_metrics(app: Flask, tokens: Tokens) -> None:
    assert scrape(app).status_code == 401
    assert scrape(app, "pw_nonsense").status_code == 401
    assert scrape(app, tokens.make(TICK, tenants=("*",))).status_code == 403
    assert scrape(app, tokens.make(READ, WRITE), tenant=OTHER_TENANT).status_code == 404
    assert scrape(app, tokens.make(READ), tenant="not a name").status_code == 400


def test_the_setting_opens_the_metrics_or_switches_them_off(
    new_app: Callable[..., Flask], everyone: str
) -> None:
    is_open = values(scrape(new_app(metrics_access="open")))
    assert of(is_open, "database_up") == 1
    off = new_app(metrics_access="off")
    assert scrape(off, everyone).status_code == 404
    assert "/metrics" not in off.extensions["pipeweave.openapi"]()["paths"]


def test_fifty_scrapes_cost_one_reading(new_app: Callable[..., Flask], everyone: str) -> None:
    app = new_app()
    with sent_statements() as first:
        scrape(app, everyone)
    with sent_statements() as later:
        texts = {scrape(app, everyone).text for _ in range(50)}
    assert len(first) <= 26
    # A token is looked up again after two seconds, so that it can be revoked.
    assert [each for each in later if "FROM access_tokens" not in each] == []
    assert len(texts) == 1


@pytest.mark.usefixtures("run_id")
def test_two_processes_answer_the_same(new_app: Callable[..., Flask], everyone: str) -> None:
    """But for what is the matter of one process. Some samples move with the clock, which moves between two
    scrapes: so a third process is asked last, and all three again if it does not agree with the first.
    """

    def shared(app: Flask) -> dict[Any, float]:
        return {
            (name, labels): value
            for (name, labels), value in values(scrape(app, everyone)).items()
            if "process" not in dict(labels)
            and not name.endswith(("_seconds", "_uptime_ratio"))
            and "connections" not in name
        }

    for _ in range(10):
        first, second, third = shared(new_app()), shared(new_app()), shared(new_app())
        if first == third:
            break
    assert first == second == third


def test_a_request_is_counted_by_its_operation_and_not_by_its_address(
    new_app: Callable[..., Flask], api: Api
) -> None:
    app = new_app(metrics_access="open")
    client = app.test_client()
    for path in ("/api/runs", "/api/runs", "/nowhere/a", '/nowhere/"\n', "/api/runs/prun_x"):
        client.get(path, headers=api.headers)
    found = values(scrape(app))
    assert of(found, "http_requests_total", operation="runs.list_runs", status="200") == 2
    assert of(found, "http_requests_total", operation="none", status="404") == 2
    assert of(found, "http_requests_total") == 5
    assert of(found, "http_request_duration_seconds_count") == 5
    assert of(found, "pool_connections_max", pool="verbs") >= 1


def test_every_documented_metric_is_there_while_nothing_happens(
    new_app: Callable[..., Flask], deployment: Deployment, everyone: str, tokens: Tokens
) -> None:
    with deployment.database.transaction() as tx:
        tenants.ensure_tenant(tx, "idle-metrics")
        # The first tenants are shown; tests before this one made others.
        tx.execute("UPDATE tenants SET created_at = '2000-01-01' WHERE id = 'idle-metrics'")
    app = new_app()
    for accept in ("", OPENMETRICS):
        answer = scrape(app, everyone, accept)
        read: Callable[[str], Any] = read_openmetrics if accept else read_prometheus
        shown = {each.name: each for each in read(answer.text)}
        assert [each.name for each in catalogue.FAMILIES if each.name not in shown] == []
        for family in catalogue.FAMILIES:
            assert (shown[family.name].documentation, shown[family.name].type) == (family.about, family.kind)
    found = values(scrape(app, tokens.make(READ, tenants=("idle-metrics",))))
    ends = {
        catalogue.MetricKind.HISTOGRAM: "_count",
        catalogue.MetricKind.COUNTER: "_total",
        catalogue.MetricKind.GAUGE: "",
    }
    for family in catalogue.FAMILIES:
        if family.is_of_tenants:
            name = family.name + ends[family.kind]
            mine = [value for (each, labels), value in found.items() if each == name]
            assert mine, f"{name} says nothing"
            assert not any(mine)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """PostgreSQL goes away."""

    def refuse(database: Database) -> Any:
        raise Unavailable("PostgreSQL cannot be used")

    def leave() -> None:
        monkeypatch.setattr(Database, "reading", refuse)

    yield leave


def test_with_postgresql_away_the_metrics_say_so(
    new_app: Callable[..., Flask], away: Callable[[], None]
) -> None:
    app = new_app(metrics_access="open")
    away()
    found = values(scrape(app))
    assert found["orchestrator_database_up", frozenset()] == 0
    assert of(found, "pool_connections_max") > 0
    assert not of(found, "metrics_part_up")


@pytest.mark.parametrize(
    "statement", ["SELECT 1 / 0", "SELECT no_such_column", "SET statement_timeout = 1; SELECT pg_sleep(9)"]
)
def test_a_part_that_fails_is_missing_and_the_others_are_there(
    new_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    def broken(tx: Transaction) -> Samples:
        return tx.execute(statement)  # type: ignore[return-value]

    parts = tuple((name, broken if name == "queues" else read) for name, read in PARTS)
    monkeypatch.setattr("pipeweave.orchestrator.metrics.reading.PARTS", parts)
    found = values(scrape(new_app(metrics_access="open")))
    assert of(found, "metrics_part_up") == len(PARTS) - 1
    assert found["orchestrator_metrics_part_up", frozenset({("part", "queues")})] == 0
    # What could not be read is not 0.
    assert not [1 for name, _ in found if name == "orchestrator_workers"]
    assert not [1 for name, labels in found if "queue_depth" in name and ("status", "queued") in labels]
    assert of(found, "database_up") == 1


@pytest.mark.parametrize("wanted", Format)
def test_hostile_names_are_escaped(wanted: Format) -> None:
    hostile = 'a"b\\c\nd} 1\n# TYPE x counter\n{é\u2028'
    made = Samples()
    made.add(catalogue.QUEUE_DEPTH, 7, "t", hostile, "ready")
    read: Callable[[str], Any] = read_openmetrics if wanted is Format.OPENMETRICS else read_prometheus
    [family] = read(written(made, wanted).decode())
    [sample] = family.samples
    assert (sample.labels["task"], sample.value) == (hostile, 7)
