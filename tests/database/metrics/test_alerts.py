"""The alerts of docs/monitoring, evaluated over real scrapes: each fires in its trouble, and none without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from flask import Flask
from support.counted_events import fold_all
from support.empty_broker import NOWHERE, EmptyBroker
from support.factories import a_worker
from support.pages import text_of
from support.promql import Scrapes
from support.run_driver import PERMANENT, TASKS, RunDriver
from support.scrapes import Found, scrape, values
from support.stored_values import VALUES

from pipeweave.api import create_app
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.recovery import tick
from pipeweave.settings import Settings

RULES: list[dict[str, Any]] = yaml.safe_load(text_of("docs/monitoring/pipeweave-rules.yml"))["groups"][0][
    "rules"
]
NOT_TAKEN = Failure("DISPATCH_FAILED", "nobody took it", "DispatchFailed", False, "")


@dataclass(slots=True)
class Watched:
    """A deployment with a worker, whose two API processes are scraped."""

    driver: RunDriver
    deployment: Deployment
    worker: str = ""

    def app(self) -> Flask:
        return create_app(self.deployment.settings, self.deployment)

    def scraped(self) -> Found:
        """What Prometheus has after it has scraped both."""
        found = {
            ("up", frozenset({("job", "pipeweave"), ("instance", name)})): 1.0 for name in ("one", "two")
        }
        for name in ("one", "two"):
            for (metric, labels), value in values(scrape(self.app())).items():
                found[metric, labels | {("instance", name)}] = value
        return found

    def sql(self, statement: str, **parameters: Any) -> None:
        with self.driver.database.transaction() as tx:
            tx.execute(statement, parameters)

    def live(self) -> None:
        """The worker sends its heartbeat, and the tick runs: for longer than any test takes."""
        tick.run_once(self.deployment)
        self.sql("UPDATE orchestrator_state SET last_tick_at = now() + interval '1 hour'")
        self.sql(
            """UPDATE workers SET heartbeat_at = now() + interval '1 hour', busy = 0, suspected_at = NULL,
                last_fetch_at = now() + interval '1 hour', started_at = now(),
                stopped_at = NULL, lost_at = NULL
            WHERE id = :id""",
            id=self.worker,
        )
        self.sql("DELETE FROM workers WHERE id <> :id", id=self.worker)
        self.sql("UPDATE services SET status = 'active'")
        fold_all(self.driver.database)


@pytest.fixture
def watched(isolated_driver: RunDriver) -> Watched:
    settings = Settings(database_url=isolated_driver.database.url, broker_url=NOWHERE, metrics_access="open")
    deployment = Deployment(settings, isolated_driver.database, VALUES, EmptyBroker(settings))
    made = Watched(isolated_driver, deployment)
    with isolated_driver.database.transaction() as tx:
        made.worker = a_worker(tx, isolated_driver.tenant, *TASKS)
    isolated_driver.store({"a": []}, id="one")
    isolated_driver.finish(isolated_driver.trigger("one"), "a")
    made.live()
    return made


def alerts(before: Found, now: Found) -> dict[str, set[float]]:
    """The alerts that fire, or would if it lasted, with their values."""
    scrapes = Scrapes(before, now)
    found = {rule["alert"]: scrapes.value(rule["expr"]) for rule in RULES}
    return {name: set(vector.values()) for name, vector in found.items() if vector}


def many_fail(watched: Watched) -> None:
    for failure in (PERMANENT, *[NOT_TAKEN] * 6):
        watched.driver.finish(watched.driver.trigger("one"), "a", failure=failure)


def a_schedule(watched: Watched) -> None:
    watched.sql(
        """INSERT INTO schedules (tenant_id, id, pipeline_id, every_ms, enabled, created_at, updated_at,
            next_fire_at, last_error_code, last_error)
        VALUES (:tenant, 'late', 'one', 60000, true, now(), now(), now() - interval '5 minutes', 'X', 'y')""",
        tenant=watched.driver.tenant,
    )


def without_a_worker_for_a_tenth(watched: Watched) -> None:
    with watched.driver.database.transaction() as tx:
        a_worker(tx, watched.driver.tenant, *TASKS)
    watched.sql(
        "UPDATE workers SET started_at = now() - interval '9 hours', heartbeat_at = now() WHERE id = :id",
        id=watched.worker,
    )
    watched.sql(
        """UPDATE workers SET started_at = now() - interval '20 hours',
            stopped_at = now() - interval '11 hours' WHERE id <> :id""",
        id=watched.worker,
    )


def work_waits(watched: Watched) -> None:
    for _ in range(3):
        watched.driver.trigger("one")
    watched.sql("UPDATE task_runs SET queued_at = now() - interval '20 minutes' WHERE status = 'queued'")


def very_much_waits(watched: Watched) -> None:
    """More than is counted of one queue: rows like that of one task run, as far as counting goes."""
    run_id = watched.driver.trigger("one")
    watched.sql(
        """INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts,
            priority, queue, is_limited, code_version, code_hash, created_at, queued_at)
        SELECT t.run_id, gen_random_uuid(), t.tenant_id, t.step_id, t.task_id, t.kind, t.status,
            t.max_attempts, t.priority, t.queue, t.is_limited, t.code_version, t.code_hash, now(), now()
        FROM task_runs AS t CROSS JOIN generate_series(1, 10001) WHERE t.run_id = :run_id""",
        run_id=run_id,
    )


def a_trigger_that_fails(watched: Watched) -> None:
    watched.sql(
        """INSERT INTO triggers (tenant_id, id, kind, pipeline_id, filter, event, enabled_at, last_error_at,
            last_error_code, last_error, created_at, updated_at)
        VALUES (:tenant, 'broken', 'event', 'one', '{}', 'pipeline-completed', now(), now(), 'X', 'y', now(),
            now())""",
        tenant=watched.driver.tenant,
    )


def an_instance_that_does_not_answer(watched: Watched) -> None:
    watched.sql(
        """WITH s AS (INSERT INTO services (tenant_id, id, kind, version, base_url, queue, status,
            registered_at, last_heartbeat)
            VALUES (:tenant, 'shop', 'http', '1', 'http://shop', 'q', 'active', now(), now()) RETURNING *)
        INSERT INTO service_instances (tenant_id, service_id, base_url, registered_url, version, tasks,
            digest, registered_at, last_seen_at, set_aside_at, refusals, probe_at, last_error)
        SELECT s.tenant_id, s.id, s.base_url, s.base_url, '1', '{}', 'd', now(), now(), now(), 3,
            now() + interval '1 hour', 'refused' FROM s""",
        tenant=watched.driver.tenant,
    )


def work_waits_beside_an_idle_worker(watched: Watched) -> None:
    work_waits(watched)
    watched.sql("UPDATE workers SET last_fetch_at = now() - interval '10 minutes', busy = 0")


def a_wait(watched: Watched, kind: str, began: str, due: str) -> None:
    """A wait that began and is due so long from now; no look ends it, as its run is not there."""
    watched.sql(
        """INSERT INTO waits (run_id, task_run_id, tenant_id, root_run_id, attempt, kind, due_at, timeout_at,
            data, created_at)
        SELECT n.id, n.id, :tenant, n.id, 1, :kind, now() + CAST(:due AS interval),
            now() + CAST(:due AS interval), '{}', now() + CAST(:began AS interval)
        FROM (SELECT gen_random_uuid() AS id) AS n""",
        tenant=watched.driver.tenant,
        kind=kind,
        began=began,
        due=due,
    )


# What goes wrong -> how, and the alerts it must bring, with a value where it is sure.
TROUBLES: dict[str, tuple[Callable[[Watched], None], dict[str, float | None]]] = {
    "failures": (
        many_fail,
        {
            "PipeWeaveRunsFail": 1.0,
            "PipeWeaveAttemptsFail": 1.0,
            "PipeWeaveDeadLetters": 7.0,
            "PipeWeaveDispatchesFail": 6.0,
        },
    ),
    "a late tick": (
        lambda each: each.sql("UPDATE orchestrator_state SET last_tick_at = now() - interval '2 minutes'"),
        {"PipeWeaveTickLate": None},
    ),
    "a chore that fails and is slow": (
        lambda each: each.sql(
            """UPDATE tick_chores SET failures = 5, errors = 5, failed_at = now(), error_code = 'X',
                took_ms = 9000 WHERE name = 'limits'"""
        ),
        {"PipeWeaveChoreFails": 5.0, "PipeWeaveChoreSlow": 9.0},
    ),
    "a late schedule that fails": (
        a_schedule,
        {"PipeWeaveScheduleLate": None, "PipeWeaveSchedulesFail": 1.0},
    ),
    "no worker": (
        lambda each: (each.sql("UPDATE workers SET stopped_at = now()"), work_waits(each))[0],
        {"PipeWeaveNoWorkers": 3.0, "PipeWeaveQueueUnserved": 3.0, "PipeWeaveQueueOld": None},
    ),
    "an idle worker": (
        work_waits_beside_an_idle_worker,
        {"PipeWeaveWorkersStalled": 1.0, "PipeWeaveQueueOld": None},
    ),
    "a silent worker": (
        lambda each: each.sql("UPDATE workers SET heartbeat_at = now() - interval '1 minute'"),
        {"PipeWeaveWorkersSilent": 1.0},
    ),
    "a worker and messages that were lost": (
        lambda each: each.sql(
            "UPDATE tick_chores SET done = done + 2 WHERE name IN ('lost_workers', 'lost_messages')"
        ),
        {"PipeWeaveWorkersLost": 2.0, "PipeWeaveMessagesLost": 2.0},
    ),
    "a service that was without a worker for a tenth of its time": (
        without_a_worker_for_a_tenth,
        {"PipeWeaveWorkersBelowObjective": None},
    ),
    "a service without workers": (
        lambda each: each.sql("UPDATE services SET status = 'disconnected'"),
        {"PipeWeaveServiceDisconnected": 1.0},
    ),
    "a rest of many dead letters": (
        lambda each: each.sql(
            """INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, step_id, task_id, code_version,
                code_hash, attempts, error, error_code, fingerprint, failed_at)
            SELECT gen_random_uuid(), :tenant, gen_random_uuid(), gen_random_uuid(), 's', 'noop', 1,
                repeat('0', 64), 1, '{}', 'X', repeat('1', 64), now() FROM generate_series(1, 101)""",
            tenant=each.driver.tenant,
        ),
        {"PipeWeaveDeadLettersOpen": 101.0},
    ),
    "maintenance": (
        lambda each: each.sql("UPDATE orchestrator_state SET mode = 'maintenance'"),
        {"PipeWeaveMaintenanceLong": 1.0},
    ),
    "an enqueued run that waits": (
        lambda each: each.sql(
            """INSERT INTO enqueued_runs (tenant_id, pipeline_id, due_at)
            VALUES (:tenant, 'one', now() - interval '5 minutes')""",
            tenant=each.driver.tenant,
        ),
        {"PipeWeaveEnqueuedRunsWait": None},
    ),
    "a timer that is late": (
        lambda each: a_wait(each, "timer", "-1 hour", "-1 minute"),
        {"PipeWeaveWaitsLate": None},
    ),
    "an approval that nobody decides": (
        lambda each: a_wait(each, "approval", "-9 hours", "1 hour"),
        {"PipeWeaveApprovalsExpire": 1.0},
    ),
    "a queue with more than is counted": (very_much_waits, {"PipeWeaveQueueDeep": 10_000.0}),
    "a trigger that fails": (a_trigger_that_fails, {"PipeWeaveTriggersFail": 1.0}),
    "an instance that does not answer": (
        an_instance_that_does_not_answer,
        {"PipeWeaveInstancesSetAside": 1.0},
    ),
}
# What concerns one process of the API, and is brought about below.
OF_PROCESSES = {
    "PipeWeaveApiDown",
    "PipeWeaveDatabaseAway",
    "PipeWeaveMetricsIncomplete",
    "PipeWeaveDatabaseCrowded",
    "PipeWeavePoolUsedUp",
    "PipeWeavePublishingFails",
    "PipeWeaveStatisticsLate",
    "PipeWeaveApiErrors",
}
# What puts it right again, beside `live`.
AFTERWARDS = (
    "DELETE FROM schedules",
    "DELETE FROM enqueued_runs",
    "DELETE FROM waits",
    "DELETE FROM triggers",
    "DELETE FROM service_instances",
    "DELETE FROM services WHERE kind = 'http'",
    "DELETE FROM dead_letters",
    "UPDATE orchestrator_state SET mode = 'running'",
    "UPDATE tick_chores SET failures = 0, took_ms = 0",
    """UPDATE task_runs SET status = 'cancelled', finished_at = now() WHERE status = 'queued'""",
)


def test_each_trouble_brings_its_alerts_and_no_others(watched: Watched) -> None:
    before = watched.scraped()
    assert alerts(before, before) == {}
    for trouble, (happen, expected) in TROUBLES.items():
        happen(watched)
        fold_all(watched.driver.database)
        now = watched.scraped()
        fired = alerts(before, now)
        assert fired.keys() == expected.keys(), trouble
        for name, value in expected.items():
            assert value is None or fired[name] == {value}, f"{trouble}: {name}"
        for statement in AFTERWARDS:
            watched.sql(statement)
        watched.live()
        before = watched.scraped()
        assert alerts(before, before) == {}, f"after {trouble}"


def test_every_alert_is_made_to_fire() -> None:
    fired = {name for _, expected in TROUBLES.values() for name in expected} | OF_PROCESSES
    assert fired == {rule["alert"] for rule in RULES}


def test_errors_of_the_api_bring_an_alert(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two scrapes of one process, with real answers before and in between."""
    for name in ("KEPT_S", "KEPT_PER_COST"):
        monkeypatch.setattr(f"pipeweave.orchestrator.metrics.kept.{name}", 0)
    app = watched.app()
    client = app.test_client()

    def fails(*_: Any) -> None:
        raise RuntimeError("broken")

    def scraped() -> Found:
        found = values(scrape(app)).items()
        return {(name, labels | {("instance", "one")}): value for (name, labels), value in found}

    def ask(good: int, bad: int) -> None:
        for _ in range(good):
            assert client.get("/health").status_code == 200
        with monkeypatch.context() as patched:
            patched.setitem(app.extensions, "pipeweave.openapi", fails)
            for _ in range(bad):
                assert client.get("/api/openapi.json").status_code == 500

    ask(good=40, bad=1)
    before = scraped()
    ask(good=40, bad=1)
    few = scraped()
    assert "PipeWeaveApiErrors" not in alerts(before, few)
    ask(good=40, bad=10)
    (share,) = alerts(few, scraped())["PipeWeaveApiErrors"]
    assert share == pytest.approx(10 / 51, abs=0.01)


def test_what_happens_to_a_process_brings_an_alert(watched: Watched) -> None:
    """Its samples are changed here: the counters themselves are tested where they are."""
    before = watched.scraped()

    def changed(metric: str, value: float, **labels: str) -> Found:
        name = metric if metric == "up" else f"orchestrator_{metric}"
        return {
            (its, given): value if its == name and labels.items() <= set(given) else number
            for (its, given), number in before.items()
        }

    def fired(metric: str, value: float, **labels: str) -> set[str]:
        return set(alerts(before, changed(metric, value, **labels)))

    assert fired("up", 0, instance="one") == {"PipeWeaveApiDown"}
    assert fired("database_up", 0, instance="one") == {"PipeWeaveDatabaseAway"}
    assert fired("metrics_part_up", 0, part="queues") == {"PipeWeaveMetricsIncomplete"}
    assert fired("database_connections", 200) == {"PipeWeaveDatabaseCrowded"}
    assert fired("pool_connections", 10, pool="verbs", state="in_use") == {"PipeWeavePoolUsedUp"}
    assert fired("publish_failures_total", 3, instance="one") == {"PipeWeavePublishingFails"}
    assert fired("statistics_lag_seconds", 900) == {"PipeWeaveStatisticsLate"}
