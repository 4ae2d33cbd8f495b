"""Statistics count each event once, however transactions overlap and whoever dies in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.concurrency import call_concurrently
from support.counted_events import expected_runs, expected_tasks, fold_all, stored
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, claim, finish_task_run, settle
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.domain.failure import overdue
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.telemetry.statistics import ageing, fold, place, totals
from pipeweave.orchestrator.telemetry.statistics.grains import Grain


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    """Alone in its database: statistics are of all tenants."""
    isolated_driver.store({"a": []}, id="one")
    return isolated_driver


def one(driver: RunDriver, **ending: Any) -> UUID:
    run_id = driver.trigger("one")
    driver.finish(run_id, "a", **ending)
    return run_id


def check(driver: RunDriver) -> None:
    """The rows of each grain say what the events say."""
    for grain in ("minute", "hour", "day", "ever"):
        assert stored(driver.database, "run_stats", "pipeline", grain) == expected_runs(driver.database)
        assert stored(driver.database, "task_stats", "task", grain) == expected_tasks(driver.database)


def test_runs_and_attempts_are_counted_by_how_they_ended(driver: RunDriver) -> None:
    one(driver)
    one(driver, failure=PERMANENT)
    one(driver, failure=overdue(3))
    again = one(driver, failure=TRANSIENT)
    assert fold_all(driver.database) == 1
    check(driver)
    runs = stored(driver.database, "run_stats", "pipeline")["one"]
    assert (runs["created"], runs["started"], runs["completed"], runs["failed"]) == (4, 4, 1, 1)
    tasks = stored(driver.database, "task_stats", "task")["noop"]
    assert (tasks["completed"], tasks["failed"], tasks["retried"], tasks["dead"]) == (1, 2, 2, 1)
    assert (tasks["timed_out"], tasks["code failed/WEAK"]) == (1, 1)
    assert driver.run(again).status == "running"


def test_rows_of_the_tenant_and_of_the_service_are_sums(driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"]}, id="two", tasks={"b": "limited"})
    one(driver)
    driver.finish(driver.trigger("two"), "a", "b")
    fold_all(driver.database)
    for scope, id in (("tenant", ""), ("service", "python")):
        assert stored(driver.database, "task_stats", scope)[id]["completed"] == 3
    assert stored(driver.database, "run_stats", "tenant")[""]["completed"] == 2


def test_items_count_and_their_map_does_not(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "m": ["a"]}, maps={"m": "${steps.a}"})
    driver.finish(run_id, "a", output=[1, 2, 3])
    for ordinal in (3, 4, 5):
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ordinal)
    fold_all(driver.database)
    check(driver)
    assert stored(driver.database, "task_stats", "task")["noop"]["completed"] == 4
    assert driver.statuses(run_id)["m"] == "completed"


def test_a_cancelled_attempt_counts_if_it_had_begun(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": []})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        claim(tx, run_id, 2)
    with driver.database.transaction() as tx:
        settle(tx, started, failure=PERMANENT)
    fold_all(driver.database)
    check(driver)
    tasks = stored(driver.database, "task_stats", "task")["noop"]
    assert (tasks["failed"], tasks["cancelled"]) == (1, 1)


def test_standalone_tasks_are_counted_as_tasks_only(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        request = standalone_tasks.QueueRequest("noop", {})
        queued = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [request])[0]
    with driver.database.transaction() as tx:
        finish_task_run(tx, ids.run_id_of(queued.task_run_id), 1)
    fold_all(driver.database)
    assert stored(driver.database, "run_stats", "tenant") == {}
    assert stored(driver.database, "task_stats", "task")["noop"]["completed"] == 1


def test_nothing_new_costs_a_look(driver: RunDriver) -> None:
    one(driver)
    assert is_due(driver.database)
    assert fold_all(driver.database) == 1
    assert not is_due(driver.database)
    assert fold_all(driver.database) == 0


def is_due(database: Database) -> bool:
    with database.transaction() as tx:
        return bool(tx.execute(f"SELECT {fold.IS_DUE}").scalar_one())


def test_an_event_whose_transaction_commits_late_is_counted_then(driver: RunDriver) -> None:
    run_id = driver.trigger("one")
    with session(driver) as late:
        late(
            "INSERT INTO events (run_id, at, type, data) VALUES (%s, now(), 'run.failed', NULL)", str(run_id)
        )
        one(driver)
        fold_all(driver.database)
        assert "failed" not in stored(driver.database, "run_stats", "pipeline")["one"]
        assert is_due(driver.database)
    one(driver)
    fold_all(driver.database)
    assert stored(driver.database, "run_stats", "pipeline")["one"]["failed"] == 1
    assert not is_due(driver.database)
    check(driver)


@contextmanager
def session(driver: RunDriver) -> Any:
    """A program's own transaction on the same database, committed at the end of the block."""
    raw = psycopg2.connect(driver.database.url)

    def execute(statement: str, *parameters: str) -> None:
        with raw.cursor() as cursor:
            cursor.execute(statement, parameters or None)

    try:
        yield execute
        raw.commit()
    finally:
        raw.close()


class Killed(BaseException):
    """The process dies before this statement."""


def test_a_process_that_dies_has_counted_nothing_or_everything(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(driver)
    one(driver, failure=PERMANENT)
    survived = 0
    for dies_before in range(1, 20):
        try:
            driver.database.run(dying(monkeypatch, dies_before))
            survived = dies_before
            break
        except Killed:
            monkeypatch.undo()
            assert stored(driver.database, "run_stats", "tenant") == {}
    monkeypatch.undo()
    # The place, the span, the groups, rows of runs, codes, rows of attempts, the place.
    assert survived == 8
    fold_all(driver.database)
    check(driver)


def dying(monkeypatch: pytest.MonkeyPatch, before: int) -> Callable[[Any], None]:
    """Count a batch, and die before this statement of it."""

    def work(tx: Any) -> None:
        execute, sent = tx.execute, iter(range(1, before))

        def count(*args: Any, **options: Any) -> Any:
            if next(sent, None) is None:
                raise Killed
            return execute(*args, **options)

        monkeypatch.setattr(tx, "execute", count)
        fold.fold(tx)

    return work


def test_processes_that_count_at_the_same_time_count_once(driver: RunDriver) -> None:
    for _ in range(6):
        one(driver)
    databases = [Database(driver.database.url) for _ in range(3)]
    for call in call_concurrently(*(partial(fold_all, each, 5) for each in databases)):
        assert call.result >= 0
    for each in databases:
        each.dispose()
    fold_all(driver.database)
    check(driver)


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["complete", "fail", "weak", "late", "trigger"]),
        st.tuples(st.just("fold"), st.integers(1, 12)),
    ),
    max_size=25,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_whatever_happens_the_sums_are_those_of_the_events(isolated_driver: RunDriver, steps: Any) -> None:
    driver = isolated_driver
    driver.store({"a": [], "b": ["a"]}, id="two", tasks={"b": "limited"})
    for step in steps:
        if isinstance(step, tuple):
            fold_all(driver.database, step[1])
        elif step == "trigger":
            driver.trigger("two")
        else:
            failure = {"fail": PERMANENT, "weak": TRANSIENT, "late": overdue(1)}.get(step)
            driver.finish(driver.trigger("two"), "a", **({"failure": failure} if failure else {}))
    fold_all(driver.database)
    check(driver)


def test_rows_expire_by_their_grain(driver: RunDriver) -> None:
    one(driver)
    fold_all(driver.database)
    for days, left in ((1, 3), (3, 2), (91, 1)):
        with driver.database.transaction() as tx:
            tx.now += timedelta(days=days)
            for grain in ageing.EXPIRING:
                ageing.delete(tx, grain)
        rows = driver.rows("SELECT DISTINCT grain FROM run_stats WHERE grain <> 'ever'")
        assert len(rows) == left, days
    assert stored(driver.database, "run_stats", "tenant", Grain.DAY)[""]["completed"] == 1


def test_totals_tell_pipelines_and_tasks(driver: RunDriver) -> None:
    one(driver)
    one(driver, failure=PERMANENT)
    fold_all(driver.database)
    with driver.database.transaction() as tx:
        found = totals(tx)
        cut = totals(tx, most=0)
    [runs], [tasks] = found.runs, found.tasks
    assert (runs.pipeline_id, dict(runs.ended)) == (
        "one",
        {"completed": 1, "partial": 0, "failed": 1, "cancelled": 0},
    )
    assert runs.took.count == 2
    assert tasks.codes == {("failed", "BOOM"): 1}
    assert tasks.attempts["completed"] == tasks.attempts["failed"] == 1
    assert not found.is_cut
    assert cut.is_cut
    assert not cut.runs


def test_a_dead_letter_that_is_retried_counts(driver: RunDriver) -> None:
    one(driver, failure=PERMANENT)
    letter = driver.rows("SELECT id FROM dead_letters")[0].id
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter)
    fold_all(driver.database)
    check(driver)
    assert stored(driver.database, "task_stats", "task")["noop"]["redriven"] == 1


# --- restores ---------------------------------------------------------------------------------------------

# What a dump brings from another server, whose transactions had numbers so much higher (or lower, to 100).
FROM_HIGHER = ("CAST(CAST(CAST({0} AS text) AS bigint) + 1000000000 AS text)", "'other'")
FROM_LOWER = ("'100'", "'other'")
# The same server again, which gives out numbers a second time.
REPEATED = (FROM_HIGHER[0], "server")


def restore(driver: RunDriver, numbers: str, server: str) -> None:
    """Every row is written by one transaction, as by pg_restore, with the numbers that it had elsewhere."""
    driver.rows(f"UPDATE events SET txid = CAST({numbers.format('txid')} AS xid8) RETURNING 1")
    driver.rows(
        f"""UPDATE feed_consumers SET before = CAST({numbers.format("before")} AS xid8), open = '{{}}',
            server = {server}, read_at = read_at - interval '10 minutes' RETURNING 1"""
    )
    # 100 is below the place, as every number of an event that was counted is.
    driver.rows("UPDATE feed_consumers SET before = '101' WHERE before = '100' RETURNING 1")


def behind(driver: RunDriver) -> timedelta:
    with driver.database.transaction() as tx:
        return tx.now - place.as_of(tx).at


@pytest.mark.parametrize(
    "elsewhere", [FROM_HIGHER, FROM_LOWER, REPEATED], ids=["higher-numbers", "lower-numbers", "same-server"]
)
def test_a_restored_database_goes_on_to_count(driver: RunDriver, elsewhere: tuple[str, str]) -> None:
    one(driver)
    fold_all(driver.database)
    restore(driver, *elsewhere)
    assert is_due(driver.database), "the chore must not wait for an hour"
    assert behind(driver) > timedelta(minutes=9), "what nobody has looked for is not called counted"
    one(driver, failure=PERMANENT)
    fold_all(driver.database)
    one(driver)
    fold_all(driver.database)
    runs = stored(driver.database, "run_stats", "pipeline")["one"]
    assert (runs["created"], runs["completed"], runs["failed"]) == (3, 2, 1)
    check(driver)
    assert not is_due(driver.database)
    driver.rows("UPDATE feed_consumers SET read_at = read_at - interval '10 minutes' RETURNING 1")
    assert behind(driver) < timedelta(minutes=1), "numbers of elsewhere are nothing new"
