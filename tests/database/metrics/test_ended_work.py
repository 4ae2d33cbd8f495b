"""What a scrape says of ended work agrees with the rows, which are counted here in another way."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from flask import Flask
from support.counted_events import fold_all
from support.empty_broker import NOWHERE, EmptyBroker
from support.run_driver import PERMANENT, TRANSIENT, Clock, RunDriver, claim, finish_next_attempt
from support.scrapes import Found, of, scrape, values
from support.stored_values import VALUES

from pipeweave.api import create_app
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.failure import Failure, overdue
from pipeweave.orchestrator.metrics import Histogram, ended_work
from pipeweave.orchestrator.metrics.catalogue import DURATION_BOUNDS
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.telemetry.statistics.histogram import of_durations
from pipeweave.settings import Settings

ENDS = ("completed", "partial", "failed", "cancelled")
NOT_TAKEN = Failure("DISPATCH_FAILED", "nobody took it", "DispatchFailed", False, "")


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    """Alone in its database: metrics are of all tenants."""
    isolated_driver.store({"a": []}, id="one")
    isolated_driver.store({"a": [], "b": []}, id="two", failureMode="partial-merge", tasks={"b": "limited"})
    return isolated_driver


def app_of(driver: RunDriver) -> Flask:
    """A process of the API that has kept nothing yet. No broker is there."""
    settings = Settings(database_url=driver.database.url, broker_url=NOWHERE, metrics_access="open")
    return create_app(settings, Deployment(settings, driver.database, VALUES, EmptyBroker(settings)))


def runs_of_every_end(driver: RunDriver, clock: Clock) -> None:
    for _ in range(3):
        driver.finish(driver.trigger("one"), "a")
    for failure in (PERMANENT, overdue(3), NOT_TAKEN):
        driver.finish(driver.trigger("one"), "a", failure=failure)
    partial = driver.trigger("two")
    driver.finish(partial, "a")
    driver.finish(partial, "b", failure=PERMANENT)
    cancelled = driver.trigger("two")
    with driver.database.transaction() as tx:
        assert claim(tx, cancelled, 1) is not None
        clock.ahead += timedelta(seconds=7)
        triggering.cancel(tx, driver.tenant, cancelled)
    again = driver.trigger("one")
    driver.finish(again, "a", failure=TRANSIENT)
    clock.ahead += timedelta(minutes=10)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, again, 1)
    driver.trigger("one")  # it stays open, and so does the one whose attempt took too long


def ended_runs(driver: RunDriver) -> Counter[tuple[str, str]]:
    rows = driver.rows(
        "SELECT r.pipeline_id, r.status FROM runs AS r WHERE r.finished_at IS NOT NULL ORDER BY r.id"
    )
    return Counter((row.pipeline_id, row.status) for row in rows)


def ended_attempts(driver: RunDriver) -> Counter[tuple[str, str]]:
    """Task and status of each attempt that ended: those that failed have a row, the last ones a task run."""
    failed = driver.rows(
        """SELECT t.task_id, a.status FROM attempts AS a
        JOIN task_runs AS t ON t.run_id = a.run_id AND t.id = a.task_run_id"""
    )
    last = driver.rows(
        """SELECT t.task_id, t.status FROM task_runs AS t WHERE t.status = 'completed'
        OR (t.status = 'cancelled' AND t.started_at IS NOT NULL)"""
    )
    return Counter((row.task_id, row.status) for row in (*failed, *last))


def test_a_scrape_agrees_with_the_rows(driver: RunDriver, clock: Clock) -> None:
    runs_of_every_end(driver, clock)
    fold_all(driver.database)
    found = values(scrape(app_of(driver)))
    runs, attempts = ended_runs(driver), ended_attempts(driver)
    assert {status for _, status in runs} == set(ENDS)
    for pipeline in ("one", "two"):
        mine = sum(runs[pipeline, status] for status in ENDS)
        for status in ENDS:
            assert of(found, "runs_total", pipeline=pipeline, status=status) == runs[pipeline, status]
        assert of(found, "run_duration_seconds_count", pipeline=pipeline) == mine
    for status in ENDS:
        all_of_it = sum(number for (_, its), number in runs.items() if its == status)
        assert of(found, "flow_executions_total", status=status) == all_of_it
    ended = sum(number for (_, status), number in runs.items() if status in ENDS)
    assert of(found, "flow_steps_count") == ended
    counted = driver.rows("SELECT sum(task_run_count) AS n FROM runs WHERE finished_at IS NOT NULL")
    assert of(found, "flow_steps_sum") == counted[0].n
    assert of(found, "flow_steps_bucket", le="1.0") == sum(n for (id, _), n in runs.items() if id == "one")
    assert of(found, "created_runs_total") == len(driver.rows("SELECT 1 FROM runs"))
    still_open = driver.rows("SELECT 1 FROM runs WHERE finished_at IS NULL")
    assert of(found, "runs_open", pipeline="one", status="running") == len(still_open) == 2

    shown = {
        (dict(labels)["task"], dict(labels)["status"]): value
        for (name, labels), value in found.items()
        if name == "orchestrator_step_executions_total" and value
    }
    assert shown == attempts
    assert of(found, "step_duration_seconds_count") == sum(attempts.values())
    assert of(found, "retries_total") == 2
    assert of(found, "dispatch_failures_total", task="noop") == 1
    assert of(found, "attempt_failures_total", status="failed", code="WEAK") == 1
    assert of(found, "attempt_failures_total", status="timeout") == 1
    letters = driver.rows("SELECT 1 FROM dead_letters")
    assert of(found, "dead_letters_added_total") == of(found, "dead_letters") == len(letters) == 3
    assert durations_agree(driver, found)


def durations_agree(driver: RunDriver, found: Found) -> bool:
    """The sum of the durations of runs is exact; each bucket holds those that are not longer."""
    rows = driver.rows(
        "SELECT extract(epoch FROM finished_at - started_at) AS s FROM runs WHERE finished_at > created_at"
    )
    seconds = [float(row.s) for row in rows]
    assert of(found, "flow_duration_seconds_sum") == pytest.approx(sum(seconds), abs=0.1)
    for (name, labels), number in found.items():
        is_mine = ("tenant", driver.tenant) in labels
        if is_mine and name == "orchestrator_flow_duration_seconds_bucket":
            bound = float(dict(labels)["le"])
            assert number == pytest.approx(sum(each <= bound for each in seconds), abs=1)
    return True


def test_counters_never_go_back_and_begin_at_zero(driver: RunDriver, clock: Clock) -> None:
    driver.finish(driver.trigger("one"), "a")
    fold_all(driver.database)
    before = values(scrape(app_of(driver)))
    assert of(before, "runs_total", pipeline="one", status="failed") == 0
    assert (
        "orchestrator_runs_total",
        frozenset({("tenant", driver.tenant), ("pipeline", "one"), ("status", "failed")}),
    ) in before
    runs_of_every_end(driver, clock)
    fold_all(driver.database)
    after = values(scrape(app_of(driver)))
    counters = {key for key in before if key[0].endswith(("_total", "_bucket", "_count", "_sum"))}
    of_deployment = {key for key in counters if "process" not in dict(key[1])}
    assert len(of_deployment) > 50
    assert not [key for key in of_deployment if after[key] < before[key]]


def test_what_is_not_counted_yet_shows_as_lag(driver: RunDriver) -> None:
    fold_all(driver.database)
    assert of(values(scrape(app_of(driver))), "statistics_lag_seconds") < 60
    driver.rows("UPDATE feed_consumers SET read_at = now() - interval '1 hour' RETURNING 1")
    driver.finish(driver.trigger("one"), "a")
    assert of(values(scrape(app_of(driver))), "statistics_lag_seconds") == pytest.approx(3600, abs=600)


@pytest.mark.parametrize(
    ("ms", "bound"), [(0.2, 0.001995), (1.9, 0.001995), (2.1, 0.005012), (999.0, 1.0), (1001.0, 1.995)]
)
def test_a_duration_falls_into_the_bucket_of_its_bound(ms: float, bound: float) -> None:
    found = ended_work.of_durations(of_durations([ms]))
    place = DURATION_BOUNDS.index(bound)
    assert found.counts == (0,) * place + (1,) * (len(DURATION_BOUNDS) + 1 - place)
    assert found.total == pytest.approx(ms / 1000)


def test_the_longest_durations_are_in_the_last_bucket() -> None:
    assert ended_work.of_durations(of_durations([1e9])) == Histogram((0,) * len(DURATION_BOUNDS) + (1,), 1e6)


def test_where_there_are_too_many_tasks_those_that_came_first_are_shown(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_work, "MOST_NAMES", 1)
    monkeypatch.setattr("pipeweave.orchestrator.metrics.samples.MOST_NAMES", 1)
    driver.store({"a": []}, id="later", tasks={"a": "limited"})
    driver.finish(driver.trigger("one"), "a")
    fold_all(driver.database)
    driver.rows("UPDATE task_stats SET at = at - interval '3 days' WHERE grain = 'day' RETURNING 1")
    for _ in range(5):
        driver.finish(driver.trigger("later"), "a")
    fold_all(driver.database)
    found = values(scrape(app_of(driver)))
    assert of(found, "step_executions_total", task="noop", status="completed") == 1
    assert of(found, "step_executions_total", task="other", status="completed") == 5
    assert of(found, "step_executions_total", task="limited") == 0
