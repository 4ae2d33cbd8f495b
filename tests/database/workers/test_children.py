"""A worker's parent ends children that take too long, and tells of those that died."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, register
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave import ids
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.engine.losses import ChildActivity
from pipeweave.orchestrator.registry.worker_processes import child_of
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.workers.consumer.child_slots import KillReason, Slot, Slots, SlotState
from pipeweave.workers.process import child_exits
from pipeweave.workers.process.children import TRY_AGAIN_S, Children

WORKER = "w@host:1:ab"
LATER_S = 600.0


@pytest.fixture
def driver(database: Database) -> RunDriver:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, a_task("quick", retries=2, retry_delay_ms=3_600_000), id="quick")
    made.store({each: [] for each in "abc"}, tasks=dict.fromkeys("abc", "quick"))
    return made


@pytest.fixture
def start() -> Iterator[Callable[[], int]]:
    """Starts processes that wait for nothing; their ids."""
    started: list[subprocess.Popen[bytes]] = []

    def one() -> int:
        started.append(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]))
        return started[-1].pid

    yield one
    for each in started:
        each.kill()
        each.wait()


@pytest.fixture
def children(database: Database) -> Children:
    return Children(database, Slots(2), max_retry_delay_ms=None)


def at_work(driver: RunDriver, children: Children, pid: int, *, until: float) -> tuple[UUID, Slot]:
    """A child that claimed two of three steps and calls the first of them."""
    run_id = driver.trigger()
    slot = children.slots.take(0, pid)
    assert slot is not None
    with driver.database.transaction() as tx:
        assert len(claiming.start(tx, run_id, [1, 2], 1, worker=child_of(WORKER, pid))) == 2
    slot.begin(run_id, (1, 2, 3), 1)
    slot.call(ids.task_run_id(run_id, 1), until, 10.0)
    return run_id, slot


def end(children: Children) -> None:
    """Look until no slot is taken."""

    def is_over() -> bool:
        children.look(WORKER)
        return not list(children.slots.taken())

    wait_until(is_over, what="the child is not buried")


def kept(driver: RunDriver, run_id: UUID) -> list[tuple[int, str, str]]:
    rows = driver.rows("SELECT * FROM attempts WHERE run_id = :id", id=run_id)
    return [(row.number, row.status, row.error_code) for row in rows]


def test_a_call_far_beyond_its_time_limit_ends_with_its_process(
    driver: RunDriver, children: Children, start: Callable[[], int]
) -> None:
    run_id, _ = at_work(driver, children, start(), until=time.monotonic() - 1)
    driver.sent.clear()
    end(children)
    assert kept(driver, run_id) == [(1, "timeout", "TIMEOUT")]
    rows = driver.task_runs(run_id)
    assert [(row.status, row.attempt) for row in rows] == [("pending", 2), ("queued", 1), ("queued", 1)]
    assert {2, 3} <= set(driver.released(run_id))


def test_of_several_calls_at_once_only_the_one_that_took_too_long_is_overdue(
    driver: RunDriver, children: Children, start: Callable[[], int]
) -> None:
    run_id, slot = at_work(driver, children, start(), until=time.monotonic() + LATER_S)
    slot.record(ids.task_run_id(run_id, 2))
    slot.watch(ids.task_run_id(run_id, 2), time.monotonic() - 1, 10.0)
    end(children)
    rows = driver.rows("SELECT * FROM attempts WHERE run_id = :id ORDER BY task_run_id", id=run_id)
    assert [(row.status, row.error_code) for row in rows] == [("lost", "WORKER_LOST"), ("timeout", "TIMEOUT")]


def test_a_child_in_time_or_without_a_call_is_left_alone(
    driver: RunDriver, children: Children, start: Callable[[], int]
) -> None:
    run_id, slot = at_work(driver, children, start(), until=time.monotonic() + LATER_S)
    idle = children.slots.take(1, start())
    children.look(WORKER)
    slot.returned()
    children.look(WORKER)
    assert idle is not None
    assert [each.pid for each in children.slots.taken()] == [slot.pid, idle.pid]
    assert kept(driver, run_id) == []


def test_a_child_that_died_is_told_of_once_and_its_slot_is_another_s(
    driver: RunDriver, children: Children
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    run_id, slot = at_work(driver, children, dead.pid, until=time.monotonic() + LATER_S)
    # It is not waited for: that it still has an id does not mean that it lives.
    end(children)
    assert kept(driver, run_id) == [(1, "lost", "WORKER_LOST")]
    children.look(WORKER)
    assert kept(driver, run_id) == [(1, "lost", "WORKER_LOST")]
    assert slot.pid == 0
    dead.wait()


def test_a_worker_that_cannot_wait_kills_busy_children(
    driver: RunDriver, children: Children, start: Callable[[], int]
) -> None:
    idle = children.slots.take(1, start())
    run_id, _ = at_work(driver, children, start(), until=time.monotonic() + LATER_S)
    children.stop()

    def is_over() -> bool:
        children.look(WORKER)
        return len(list(children.slots.taken())) == 1

    wait_until(is_over, what="the child is not buried")
    assert idle is not None
    assert [each.pid for each in children.slots.taken()] == [idle.pid]
    assert kept(driver, run_id) == [(1, "interrupted", "WORKER_STOPPED")]
    assert driver.task_runs(run_id)[0].max_attempts == 4, "it was not used up"


def test_a_call_that_returns_just_before_the_kill_leaves_the_next_call_alone(
    driver: RunDriver, children: Children, start: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, slot = at_work(driver, children, start(), until=time.monotonic() - 1)
    seen = Slot.state

    def seen_before_the_next_call(self: Slot) -> SlotState:
        state = seen(self)
        slot.returned()
        slot.call(ids.task_run_id(run_id, 2), time.monotonic() + LATER_S, 10.0)
        return state

    monkeypatch.setattr(Slot, "state", seen_before_the_next_call)
    children.look(WORKER)
    monkeypatch.undo()
    children.look(WORKER)
    assert [each.pid for each in children.slots.taken()] == [slot.pid], "it is not buried"
    assert slot.state().ending is KillReason.UNKNOWN
    assert kept(driver, run_id) == []


def test_a_child_whose_end_cannot_be_stored_keeps_no_other_from_its_end(
    driver: RunDriver, children: Children, start: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    lost, _ = at_work(driver, children, dead.pid, until=time.monotonic() + LATER_S)
    overdue = driver.trigger()
    slot = children.slots.take(1, start())
    assert slot is not None
    with driver.database.transaction() as tx:
        claiming.start(tx, overdue, [1], 1, worker=child_of(WORKER, slot.pid))
    slot.begin(overdue, (1,), 1)
    slot.call(ids.task_run_id(overdue, 1), time.monotonic() - 1, 10.0)
    of_child = losses.of_child

    def refuse_the_dead(database: Database, activity: ChildActivity, ending: Failure, **options: Any) -> int:
        if activity.run_id == lost:
            raise ValueError("it cannot be stored")
        return of_child(database, activity, ending, **options)

    monkeypatch.setattr(losses, "of_child", refuse_the_dead)

    def is_ended() -> bool:
        children.look(WORKER)
        return bool(kept(driver, overdue))

    wait_until(is_ended, what="the other child is not ended")
    assert kept(driver, overdue) == [(1, "timeout", "TIMEOUT")]
    assert kept(driver, lost) == []
    monkeypatch.undo()
    end(children)
    assert kept(driver, lost) == [(1, "lost", "WORKER_LOST")]
    dead.wait()


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("signal.raise_signal(signal.SIGKILL)", "was killed by signal 9 (SIGKILL), as the kernel does when"),
        ("signal.raise_signal(signal.SIGSEGV)", "was killed by signal 11 (SIGSEGV)"),
        ("os._exit(3)", "exited with code 3"),
    ],
)
@pytest.mark.parametrize("is_waited_for", [False, True])
def test_a_lost_attempt_says_how_its_process_ended(
    driver: RunDriver, children: Children, program: str, how: str, is_waited_for: bool
) -> None:
    child = subprocess.Popen([sys.executable, "-c", f"import os, signal; {program}"])
    run_id, _ = at_work(driver, children, child.pid, until=time.monotonic() + LATER_S)
    if is_waited_for:
        # As the pool does, which may be faster than the look.
        child_exits.record(child.pid, child.wait())
    end(children)
    child.wait()
    [attempt] = driver.rows("SELECT error FROM attempts WHERE run_id = :id", id=run_id)
    assert attempt.error["message"].startswith(f"its process ({child.pid}) {how}")


def test_a_dead_child_whose_end_cannot_be_stored_is_tried_again_after_a_pause(
    driver: RunDriver, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    run_id, _ = at_work(driver, children, dead.pid, until=time.monotonic() + LATER_S)

    def is_away(*_: object, **__: object) -> int:
        raise Unavailable("PostgreSQL is away")

    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(losses, "of_child", is_away)
    children.look(WORKER)
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    children.wait(LATER_S)
    assert pauses == [TRY_AGAIN_S]
    monkeypatch.undo()
    end(children)
    assert kept(driver, run_id) == [(1, "lost", "WORKER_LOST")]
    dead.wait()
