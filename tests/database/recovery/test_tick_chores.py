"""A chore, a run or a tenant in trouble does not keep the others waiting, and what failed can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.empty_broker import EmptyBroker, broker_that_is_away
from support.factories import a_task, register
from support.run_driver import Clock, RunDriver, claim
from support.servers import away

from pipeweave.errors import PartlyFailed, Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.recovery import due_attempts, tick, tick_status
from pipeweave.orchestrator.recovery.chores import CHORES, Chore
from pipeweave.orchestrator.recovery.tick import Ticked
from pipeweave.orchestrator.recovery.tick_status import ChoreResult, ChoreStatus
from pipeweave.orchestrator.runs import admission, deadlines
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database, to_json
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

LATER = timedelta(seconds=6)


@pytest.fixture
def broker() -> Publisher:
    return broker_that_is_away()


@pytest.fixture
def newcomer(driver: RunDriver, clock: Clock) -> Iterator[Database]:
    """The same database, as a process sees it that remembers no pipeline."""
    opened = Database(driver.database.url, react=reactions_to, now=clock)
    yield opened
    opened.dispose()


def failing(error: Exception, name: str = "broken") -> Chore:
    def run_once(deployment: Deployment) -> int:
        raise error

    return Chore(name, run_once, None)


def status_of(driver: RunDriver, name: str) -> ChoreStatus:
    with driver.database.transaction() as tx:
        [found] = [chore for chore in tick_status.chores(tx) if chore.name == name]
    return found


def statuses(driver: RunDriver, *runs: UUID) -> list[str]:
    return [driver.run(run_id).status for run_id in runs]


def unlimited(driver: RunDriver) -> None:
    """Whoever lifted the limit died before it let the pending runs start."""
    driver.rows("UPDATE tenants SET max_active_runs = NULL RETURNING 1")


def limit(driver: RunDriver, most: int) -> None:
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, most))


@contextmanager
def spoiled(driver: RunDriver, pipeline: str) -> Iterator[None]:
    """For the block, the running version refuses a specification."""
    steps = driver.rows("SELECT spec -> 'steps' FROM pipeline_versions WHERE pipeline_id = :id", id=pipeline)
    set_steps(driver, pipeline, 42)
    yield
    set_steps(driver, pipeline, steps[0][0])


def set_steps(driver: RunDriver, pipeline: str, steps: Any) -> None:
    with driver.database.transaction() as tx:
        tx.execute("ALTER TABLE pipeline_versions DISABLE TRIGGER USER")
        tx.execute(
            "UPDATE pipeline_versions SET spec = jsonb_set(spec, '{steps}', CAST(:steps AS jsonb))"
            " WHERE pipeline_id = :id",
            {"id": pipeline, "steps": to_json(steps)},
        )


# --- chores -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("a bug"), Unavailable("storage is away")])
def test_a_chore_that_fails_does_not_keep_the_others_from_their_work(
    deployment: Deployment, driver: RunDriver, clock: Clock, error: Exception
) -> None:
    driver.begin({"a": []})
    clock.ahead += LATER

    settings = deployment.settings
    healthy = Deployment(settings, driver.database, deployment.values, EmptyBroker(settings))
    ticked = tick.run_once(healthy, (failing(error), *CHORES))
    assert (ticked.failed_chores, ticked.republished) == (("broken",), 1)


def test_a_chore_that_failed_is_tried_again_by_the_next_tick(
    deployment: Deployment, driver: RunDriver
) -> None:
    for _ in range(3):
        tick.run_once(deployment, (failing(RuntimeError("a bug")),))
    found = status_of(driver, "broken")
    assert (found.failures, found.errors, found.error_code) == (3, 3, "RuntimeError")
    tick.run_once(deployment, (Chore("broken", lambda each: 0, None),))
    found = status_of(driver, "broken")
    assert (found.failures, found.errors, found.error_code) == (0, 3, "RuntimeError")
    assert found.failed_at is not None
    assert found.ran_at > found.failed_at


def test_every_chore_says_when_it_ran_and_for_how_long(deployment: Deployment, driver: RunDriver) -> None:
    assert tick.run_once(deployment) == Ticked()
    with driver.database.transaction() as tx:
        found = tick_status.chores(tx)
        at = tick_status.find(tx).at
    assert {chore.name for chore in found} == {chore.name for chore in CHORES}
    assert {chore.ran_at for chore in found} == {at}
    assert all(chore.took >= timedelta() and chore.errors == 0 for chore in found)


def test_during_maintenance_only_lost_workers_are_noted(deployment: Deployment, driver: RunDriver) -> None:
    driver.rows("UPDATE orchestrator_state SET mode = 'maintenance' RETURNING 1")
    assert tick.run_once(deployment) == Ticked()
    with driver.database.transaction() as tx:
        assert [chore.name for chore in tick_status.chores(tx)] == ["lost_workers"]


_WAITS = """UPDATE task_runs SET status = 'pending', due_at = now() + CAST(:delay AS interval)
    WHERE run_id = :id RETURNING id"""


def test_due_attempts_are_there_for_whoever_looks_between_two_ticks_except_during_maintenance(
    driver: RunDriver,
) -> None:
    def due_in() -> float | None:
        with driver.database.statements() as tx:
            [seconds] = enqueued.has_due(tx, due_attempts.DUE_IN_S).also
        assert seconds is None or isinstance(seconds, float)
        return seconds

    def has_due() -> bool:
        seconds = due_in()
        return seconds is not None and seconds <= 0

    run_id = driver.begin({"a": []})
    assert not has_due()
    driver.rows(
        "UPDATE task_runs SET status = 'pending', due_at = now() WHERE run_id = :id RETURNING id", id=run_id
    )
    assert has_due()
    driver.rows("UPDATE orchestrator_state SET mode = 'maintenance' RETURNING 1")
    assert not has_due()
    driver.rows("UPDATE orchestrator_state SET mode = 'running' RETURNING 1")
    assert due_attempts.release_due(driver.database) == 1
    assert due_in() is None
    driver.rows(_WAITS, id=run_id, delay=timedelta(seconds=0.25))
    assert 0 < (due_in() or 0) <= 0.25
    driver.rows(_WAITS, id=run_id, delay=timedelta(minutes=1))
    assert due_in() is None


def test_a_stored_chore_error_names_no_host(deployment: Deployment, driver: RunDriver) -> None:
    tick.run_once(deployment, (failing(Unavailable("PostgreSQL at 10.0.0.7 refuses user admin")),))
    found = status_of(driver, "broken")
    assert (found.error_code, found.error) == ("UNAVAILABLE", Unavailable().title)
    assert ChoreResult.of("x", 0, timedelta(), ValueError("postgres://u:secret@h")).error == (
        "ValueError was raised."
    )


def test_only_chores_that_fail_again_and_again_are_failing(deployment: Deployment, driver: RunDriver) -> None:
    def found() -> tuple[str, ...]:
        with driver.database.transaction() as tx:
            return tick_status.find(tx).failing

    for _ in range(tick_status.REPEATED - 1):
        tick.run_once(deployment, (failing(RuntimeError("a bug")),))
    assert found() == ()
    tick.run_once(deployment, (failing(RuntimeError("a bug")),))
    assert found() == ("broken",)


def test_without_postgresql_the_tick_ends_at_once(
    deployment: Deployment, driver: RunDriver, postgres_server: Postgres
) -> None:
    """The chores behind it would each wait for a connection."""
    begun: list[str] = []

    def lose_the_server(each: Deployment) -> int:
        stack.enter_context(away(postgres_server, driver.database.url))
        return each.database.run(lambda tx: int(tx.execute("SELECT 1").scalar_one()))

    def note(each: Deployment) -> int:
        begun.append("another")
        return 0

    with ExitStack() as stack, pytest.raises(Unavailable):
        tick.run_once(deployment, (Chore("first", lose_the_server, None), Chore("another", note, None)))
    assert begun == []


# --- runs and tenants within a chore ----------------------------------------------------------------------


def test_a_specification_that_is_refused_keeps_no_other_run_or_tenant_waiting(
    deployment: Deployment, driver: RunDriver, newcomer: Database
) -> None:
    other = RunDriver(driver.database)
    for each in (driver, other):
        each.store({"a": []}, id="refused")
        each.store({"a": []}, id="plain")
        limit(each, 1)
        each.trigger("plain")
    stuck = driver.trigger("refused")
    mine = [driver.trigger("plain") for _ in range(3)]
    theirs = other.trigger("plain")
    unlimited(driver)
    with spoiled(driver, "refused"):
        ticked = tick.run_once(replace(deployment, database=newcomer))
        assert statuses(driver, stuck, *mine, theirs) == ["pending", *["running"] * 4]
        assert ("admission" in ticked.failed_chores, ticked.runs_admitted) == (True, 4)
        assert status_of(driver, "admission").error_code is not None
    # A version that reads it is deployed.
    assert tick.run_once(deployment).runs_admitted == 1
    assert statuses(driver, stuck) == ["running"]


def test_a_run_that_cannot_start_does_not_take_the_only_place(driver: RunDriver, newcomer: Database) -> None:
    driver.store({"a": []}, id="refused")
    driver.store({"a": []}, id="plain")
    limit(driver, 1)
    first = driver.trigger("plain")
    stuck, behind = driver.trigger("refused"), driver.trigger("plain")
    driver.rows("UPDATE tenants SET max_active_runs = 2 RETURNING 1")
    with spoiled(driver, "refused"), pytest.raises(PartlyFailed):
        admission.admit_waiting(newcomer)
    assert statuses(driver, first, stuck, behind) == ["running", "pending", "running"]


def unreadable(monkeypatch: pytest.MonkeyPatch, bad: UUID) -> None:
    """One run's plan cannot be read."""
    load: Callable[..., Any] = run_headers.load

    def load_others(tx: Any, run_id: UUID, *args: Any, **options: Any) -> Any:
        if run_id == bad:
            raise ValueError("the plan cannot be read")
        return load(tx, run_id, *args, **options)

    monkeypatch.setattr(run_headers, "load", load_others)


def test_a_run_that_cannot_be_read_keeps_no_other_retry_waiting(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [driver.begin({"a": []}) for _ in range(3)]
    driver.rows("UPDATE task_runs SET status = 'pending', due_at = now(), queued_at = NULL RETURNING 1")
    unreadable(monkeypatch, runs[0])
    with pytest.raises(PartlyFailed) as failed:
        due_attempts.release_due(driver.database)
    assert (failed.value.done, len(failed.value.failures)) == (2, 1)
    assert [driver.statuses(run_id)["a"] for run_id in runs] == ["pending", "queued", "queued"]


def test_a_run_that_cannot_be_read_keeps_no_other_lost_attempt_waiting(
    deployment: Deployment, driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [driver.begin({"a": []}) for _ in range(3)]
    for run_id in runs:
        with driver.database.transaction() as tx:
            claim(tx, run_id, 1, worker="gone@host:1:ab#1")
    unreadable(monkeypatch, runs[0])
    ticked = tick.run_once(deployment)
    assert (ticked.attempts_ended, "lost_attempts" in ticked.failed_chores) == (2, True)


def test_a_run_that_cannot_be_ended_keeps_no_other_deadline_waiting(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [driver.begin({"a": []}) for _ in range(3)]
    driver.rows("UPDATE runs SET deadline_at = now() - interval '1 minute' RETURNING 1")
    end = deadlines.time_out_run

    def end_others(tx: Any, tenant: str, run_id: UUID, *args: Any) -> bool:
        if run_id == runs[0]:
            raise ValueError("the run cannot be ended")
        return end(tx, tenant, run_id, *args)

    monkeypatch.setattr(deadlines, "time_out_run", end_others)
    with pytest.raises(PartlyFailed) as failed:
        deadlines.enforce(driver.database, None)
    assert failed.value.done == 2
    assert statuses(driver, *runs) == ["running", "failed", "failed"]


def test_a_task_whose_limit_cannot_be_filled_keeps_no_other_task_waiting(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("single", "limited"):
        driver.store({"a": []}, id=task, tasks={"a": task})
    bad = [driver.trigger("limited") for _ in range(3)][-1]
    good = [driver.trigger("single") for _ in range(2)][-1]
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop", a_task("limited", concurrency=9), a_task("single", concurrency=9))
    driver.rows(
        "UPDATE task_runs SET status = 'ready', queued_at = NULL WHERE run_id = :id RETURNING 1", id=good
    )
    read = limits.limits_of

    def limits_of_others(tx: Any, tenant: str, task: str) -> Any:
        if task == "limited":
            raise ValueError("the limit cannot be read")
        return read(tx, tenant, task)

    monkeypatch.setattr(limits, "limits_of", limits_of_others)
    with pytest.raises(PartlyFailed):
        limits.fill_waiting(driver.database)
    assert [driver.statuses(run_id)["a"] for run_id in (bad, good)] == ["ready", "queued"]
