"""One statement tells the tick which chores have anything to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.run_driver import PERMANENT, Clock, RunDriver
from support.sent_statements import sent_statements
from support.servers import wait_until

from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.operations import redrives
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.recovery import look, tick, tick_status
from pipeweave.orchestrator.recovery.chores import CHORES, Chore
from pipeweave.orchestrator.recovery.tick import Ticked
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.loaded_tasks import LoadedTask
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.store import leases

pytestmark = pytest.mark.every_postgres


@pytest.mark.parametrize("runs", [0, 1])
def test_a_tick_that_finds_nothing_to_do_sends_and_commits_one_statement(
    deployment: Deployment, driver: RunDriver, runs: int
) -> None:
    """It looks, and when the last note is old it takes the lease, notes that there was a tick, and gives the
    lease back; also while a run is open, of which nothing is late.
    """
    with driver.database.transaction() as tx:
        for number in range(80):
            start = WorkerStart("python", f"w{number}@host", "host", 1, 1)
            worker_processes.register(tx, driver.tenant, start, now=tx.now + timedelta(hours=1))
    for _ in range(runs):
        driver.begin({"a": []})
    # Once an hour the first ticks sweep the storage, a page each.
    for _ in range(4):
        tick.run_once(deployment)

    with driver.database.transaction() as tx:
        assert {each.name for each in tick_status.chores(tx)} == {each.name for each in CHORES}

    def sends_one() -> bool:
        noted_at(driver, "now() - interval '3 seconds'")
        with sent_statements() as sent:
            ticked = tick.run_once(deployment)
        return ticked == Ticked() and sent.cost == (1, 1)

    # On a machine that stands still for a while, a chore is due again, or a message is late.
    wait_until(sends_one, what="each tick sends more")
    assert last_note(driver) < timedelta(seconds=3)
    assert leases.take(deployment.database, leases.TICK, timedelta(minutes=1), "another") is not None


def noted_at(driver: RunDriver, moment: str) -> None:
    """Let the last tick be one that was noted at this moment, an SQL expression."""
    driver.rows(f"UPDATE orchestrator_state SET last_tick_at = {moment} RETURNING 1")


def last_note(driver: RunDriver) -> timedelta:
    """How long ago the last tick was noted."""
    with driver.database.transaction() as tx:
        age = tick_status.find(tx).age
    assert age is not None
    return age


IDLE = Chore("idle", lambda _: 0, None, is_due="false")


def test_a_tick_without_work_writes_nothing_soon_after_the_last_note(
    deployment: Deployment, driver: RunDriver
) -> None:
    rows = "SELECT s.xmin, l.number FROM orchestrator_state AS s, leases AS l WHERE l.name = 'tick'"

    def leaves_all_as_it_was() -> bool:
        tick.run_once(deployment, [IDLE])
        before = driver.rows(rows)
        return tick.run_once(deployment, [IDLE]) == Ticked() and driver.rows(rows) == before

    # On a machine that stands still for a while, the last note is old.
    wait_until(leaves_all_as_it_was, what="each tick writes")


def test_a_note_that_lies_ahead_is_corrected(deployment: Deployment, driver: RunDriver) -> None:
    """PostgreSQL's clock was wrong: nobody must believe for a day that the tick goes on."""
    tick.run_once(deployment, [IDLE])
    noted_at(driver, "now() + interval '1 day'")
    tick.run_once(deployment, [IDLE])
    assert last_note(driver) >= timedelta()


def test_the_lease_is_free_after_a_tick(deployment: Deployment) -> None:
    tick.run_once(deployment)
    assert leases.take(deployment.database, leases.TICK, timedelta(minutes=1), "another") is not None


def test_a_chore_for_which_there_is_work_is_not_left_out(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    """Those that no other test of the tick brings about."""
    moved, parked = driver.begin({"a": []}), driver.trigger()
    failed = driver.trigger()
    driver.finish(failed, "a", failure=PERMANENT)
    with driver.database.transaction() as tx:
        placement.place(tx, parked, [driver.task_runs(parked)[0].id])
        worker_processes.register(
            tx,
            driver.tenant,
            WorkerStart(
                *("python", "w@host", "host", 1, 1),
                loaded=(LoadedTask("noop", "hash", is_served=True),),
                own_queue="pipeweave.a.b#own",
            ),
        )
        tx.execute("UPDATE services SET queue = 'pipeweave.a.moved'")
        tx.execute("UPDATE tasks SET follow_at = now(), follow_until = now() WHERE id = 'noop'")
        redrives.create(tx, driver.tenant, LetterFilter())
    ticked = tick.run_once(deployment)
    assert (ticked.placed, ticked.redriven, ticked.failed_chores) == (1, 1, ())
    assert driver.task_runs(moved)[0].queue == "pipeweave.a.moved"
    assert driver.task_runs(parked)[0].queue == "pipeweave.a.b#own"


def test_a_tick_without_work_is_not_over_while_a_failure_is_noted(deployment: Deployment) -> None:
    """Also one that another process noted: nobody must believe that the chore still fails."""
    fails = Chore("fails", lambda _: 1 // 0, None, is_due="true")
    tick.run_once(deployment, [fails])
    tick.run_once(deployment, [replace(fails, is_due="false")])
    with deployment.database.transaction() as tx:
        assert [each.failures for each in tick_status.chores(tx)] == [0]


def test_a_tick_without_work_is_over_only_when_nothing_else_may_be_due(deployment: Deployment) -> None:
    ran: list[str] = []
    idle = Chore("idle", lambda _: ran.append("idle") or 0, None, is_due="false")  # type: ignore[func-returns-value]
    knows = Chore("knows", lambda _: ran.append("knows") or 0, None, has_news=lambda _: bool(news))  # type: ignore[func-returns-value]
    news: list[str] = []
    tick.run_once(deployment, [idle, knows])
    assert ran == []
    news.append("a promotion")
    tick.run_once(deployment, [idle, knows])
    assert ran == ["knows"]


def test_what_is_behind_a_gate_is_asked_in_the_tick_in_which_the_gate_opens(deployment: Deployment) -> None:
    ran: list[str] = []
    due = Chore("due", lambda _: ran.append("due") or 0, None, is_due="true", only_while="(SELECT false)")  # type: ignore[func-returns-value]
    idle = replace(due, name="idle", is_due="false")
    tick.run_once(deployment, [due, idle])
    assert ran == []
    opened = [replace(each, only_while="(SELECT true)") for each in (due, idle)]
    for times in (1, 2):
        tick.run_once(deployment, opened)
        assert ran == ["due"] * times


@pytest.mark.parametrize("noted", ["now() - interval '1 hour'", "now()"])
def test_a_tick_without_work_does_nothing_while_another_process_ticks(
    deployment: Deployment, driver: RunDriver, noted: str
) -> None:
    tick.run_once(deployment, [IDLE])
    noted_at(driver, noted)
    with driver.database.transaction() as tx:
        before = tick_status.find(tx).at
    with leases.held(deployment.database, leases.TICK, timedelta(minutes=1)):
        assert tick.run_once(deployment, [IDLE]).is_elsewhere
    with driver.database.transaction() as tx:
        assert tick_status.find(tx).at == before


def test_what_an_earlier_chore_did_is_work_for_the_later_ones(deployment: Deployment) -> None:
    ran: list[str] = []

    def chore(name: str, done: int, is_due: str | None = "false") -> Chore:
        def run_once(_: Deployment) -> int:
            ran.append(name)
            return done

        return Chore(name, run_once, None, is_due=is_due)

    tick.run_once(deployment, [chore("idle", 1), chore("due", 1, "true"), chore("behind", 0)])
    assert ran == ["due", "behind"]
    ran.clear()
    tick.run_once(deployment, [chore("due", 0, "true"), chore("behind", 0), chore("unasked", 0, None)])
    assert ran == ["due", "unasked"]


def test_when_the_look_fails_each_chore_looks_for_itself(deployment: Deployment, driver: RunDriver) -> None:
    broken = Chore("broken", lambda _: 0, None, is_due="no_such_column")
    driver.rows("UPDATE task_runs SET status = status RETURNING 1")
    driver.begin({"a": []})
    driver.rows("UPDATE task_runs SET status = 'pending', due_at = now(), queued_at = NULL RETURNING 1")
    assert tick.run_once(deployment, (*CHORES, broken)).retries_released == 1


def test_during_maintenance_a_look_finds_the_mode(deployment: Deployment, driver: RunDriver) -> None:
    driver.rows("UPDATE orchestrator_state SET mode = 'maintenance' RETURNING 1")
    ran: list[str] = []
    chore = Chore("sends", lambda _: ran.append("it ran") or 0, None, is_due="true")  # type: ignore[func-returns-value]
    tick.run_once(deployment, [chore])
    assert ran == []
    tick.run_once(deployment, [replace(chore, runs_in_maintenance=True)])
    assert ran == ["it ran"]


def test_the_statement_of_a_look_is_made_once(deployment: Deployment) -> None:
    """What is due is asked each second, mostly of the same chores: their conditions are put together once."""
    for _ in range(2):
        tick.run_once(deployment, [IDLE])
    made = look.compose.cache_info().misses
    tick.run_once(deployment, [IDLE])
    assert look.compose.cache_info().misses == made
