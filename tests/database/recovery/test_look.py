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
from pipeweave.orchestrator.recovery import tick, tick_status
from pipeweave.orchestrator.recovery.chores import CHORES, Chore
from pipeweave.orchestrator.recovery.tick import Ticked
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.loaded_tasks import LoadedTask
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.store import leases

pytestmark = pytest.mark.every_postgres


def test_a_tick_of_an_idle_deployment_sends_and_commits_three_statements(
    deployment: Deployment, driver: RunDriver
) -> None:
    """To take the lease, to look, and to note what was found and give the lease back."""
    with driver.database.transaction() as tx:
        for number in range(80):
            worker_processes.register(
                tx, driver.tenant, WorkerStart("python", f"w{number}@host", "host", 1, 1)
            )
    driver.begin({"a": []})
    # Once an hour the first ticks sweep the storage, a page each.
    for _ in range(4):
        tick.run_once(deployment)

    def sends_three() -> bool:
        with sent_statements() as sent:
            assert tick.run_once(deployment) == Ticked()
        return sent.cost == (3, 3)

    # On a machine that stands still for a while, a chore is due again, or the lease is renewed.
    wait_until(sends_three, what="each tick sends more")
    with driver.database.transaction() as tx:
        found = tick_status.chores(tx)
        assert {each.name for each in found} == {each.name for each in CHORES}
        resting = {each.name for each in CHORES if each.every}
        last = tick_status.find(tx).at
        assert {each.ran_at for each in found if each.name not in resting} == {last}


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
