"""The pool lends a connection to one user at a time, and never more than it may have."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator

import psycopg2
import pytest
from support.concurrency import BackgroundCall
from support.servers import wait_until

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.pool import Pool
from pipeweave.orchestrator.store.silence import WatchedConnection

# Longer than any test; nobody waits so long for what comes.
PATIENT_S = 60.0

Open = Callable[[int], Pool]


@pytest.fixture
def connect(database_url: str) -> Callable[[], WatchedConnection]:
    return lambda: psycopg2.connect(database_url, connection_factory=WatchedConnection)


@pytest.fixture
def open_pool(connect: Callable[[], WatchedConnection]) -> Iterator[Open]:
    """Makes pools of a size."""
    opened: list[Pool] = []

    def open_one(size: int) -> Pool:
        opened.append(Pool(connect, size, PATIENT_S))
        return opened[-1]

    yield open_one
    for pool in opened:
        pool.close()


def wait_for_users(pool: Pool, count: int) -> None:
    """Wait until so many others wait for a connection."""
    wait_until(lambda: len(pool._changed._waiters) == count, what="nobody waits")  # type: ignore[attr-defined]


def test_at_the_limit_who_comes_waits_for_the_connection_of_another(open_pool: Open) -> None:
    pool = open_pool(1)
    first = pool.take()
    with BackgroundCall(pool.take) as waiting:
        wait_for_users(pool, 1)
        assert (pool.in_use, pool.idle) == (1, 0)
        pool.give_back(first)
    assert waiting.result is first
    pool.give_back(first)
    assert (pool.in_use, pool.idle) == (0, 1)


def test_who_waited_too_long_is_told_why(connect: Callable[[], WatchedConnection]) -> None:
    pool = Pool(connect, 1, timeout_s=0.01)
    held = pool.take()
    with pytest.raises(Unavailable, match="every database connection is in use") as refused:
        pool.take()
    assert refused.value.hint == "raise DB_POOL_MAX"
    pool.give_back(held)
    assert pool.take() is held
    pool.drop(held)


def test_a_dropped_connection_is_closed_and_makes_room_for_who_waits(open_pool: Open) -> None:
    pool = open_pool(1)
    broken = pool.take()
    with BackgroundCall(pool.take) as waiting:
        wait_for_users(pool, 1)
        pool.drop(broken)
    assert broken.closed
    assert not waiting.result.closed
    pool.drop(waiting.result)


def test_a_connection_that_cannot_be_opened_leaves_its_place_to_who_waits(
    connect: Callable[[], WatchedConnection],
) -> None:
    may_fail = threading.Event()
    tries = iter([True, False])

    def fail_first() -> WatchedConnection:
        if next(tries):
            may_fail.wait(PATIENT_S)
            raise psycopg2.OperationalError("nobody there")
        return connect()

    pool = Pool(fail_first, 1, PATIENT_S)
    with BackgroundCall(pool.take) as failing:
        wait_until(lambda: pool.in_use == 1, what="nobody connects")
        with BackgroundCall(pool.take) as waiting:
            wait_for_users(pool, 1)
            may_fail.set()
    assert isinstance(failing.error, psycopg2.OperationalError)
    assert pool.in_use == 1
    pool.drop(waiting.result)
    assert pool.in_use == 0


def test_the_connection_that_was_not_used_for_longest_is_next(open_pool: Open) -> None:
    pool = open_pool(2)
    one, other = pool.take(), pool.take()
    pool.give_back(other)
    pool.give_back(one)
    assert [pool.take(), pool.take()] == [other, one]
    pool.drop(one)
    pool.drop(other)


def test_a_closed_pool_keeps_nothing_that_was_open_and_opens_anew(open_pool: Open) -> None:
    pool = open_pool(2)
    used, idle = pool.take(), pool.take()
    pool.give_back(idle)
    pool.close()
    assert (idle.closed, used.closed) == (1, 0)
    pool.give_back(used)
    assert used.closed
    assert pool.take() not in (used, idle)


def test_a_pool_without_a_size_opens_one_for_each_use(open_pool: Open) -> None:
    pool = open_pool(0)
    one, other = pool.take(), pool.take()
    assert one is not other
    for each in (one, other):
        pool.give_back(each)
        assert each.closed
    assert (pool.in_use, pool.idle) == (0, 0)


def test_many_threads_never_have_more_than_the_limit(open_pool: Open) -> None:
    pool = open_pool(3)
    seen: set[WatchedConnection] = set()
    at_once: list[int] = []
    held: set[WatchedConnection] = set()
    lock = threading.Lock()

    def work() -> None:
        for turn in range(50):
            connection = pool.take()
            with lock:
                assert connection not in held
                held.add(connection)
                seen.add(connection)
                at_once.append(len(held))
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            with lock:
                held.remove(connection)
            if turn % 25 == 24:
                pool.drop(connection)
            else:
                pool.give_back(connection)

    calls = [BackgroundCall(work) for _ in range(8)]
    for call in calls:
        call.__enter__()
    for call in calls:
        call.__exit__(None, None, None)
    assert [call.error for call in calls] == [None] * 8
    assert max(at_once) <= 3
    assert pool.in_use == 0
    assert pool.idle <= 3 < len(seen)


def _backend_of(database: Database) -> int:
    with database.statements() as tx:
        return int(tx.execute("SELECT pg_backend_pid()").scalar_one())


def test_a_forked_process_opens_its_own_and_leaves_those_of_its_parent_open(database_url: str) -> None:
    database = Database(database_url, pool_size=1)
    own = _backend_of(database)
    fork = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[int] = fork.SimpleQueue()
    child = fork.Process(target=lambda: answers.put(_backend_of(database)), daemon=True)
    child.start()
    child.join(PATIENT_S)
    assert child.exitcode == 0
    assert answers.get() != own
    assert _backend_of(database) == own
    database.dispose()


@pytest.mark.parametrize("end", [Pool.give_back, Pool.drop])
def test_a_process_forked_meanwhile_does_not_end_the_session(
    open_pool: Open, end: Callable[[Pool, WatchedConnection], None]
) -> None:
    pool = open_pool(1)
    connection = pool.take()
    child = multiprocessing.get_context("fork").Process(target=lambda: end(pool, connection), daemon=True)
    child.start()
    child.join(PATIENT_S)
    assert child.exitcode == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
    pool.drop(connection)


def test_the_use_of_a_pool_is_told(database_url: str) -> None:
    database = Database(database_url, pool_size=3)
    with database.transaction(), database.transaction():
        use = database.pools()["verbs"]
        assert (use.in_use, use.idle, use.most) == (2, 0, 3)
    use = database.pools()["verbs"]
    assert (use.in_use, use.idle, use.most) == (0, 2, 3)
    database.dispose()
    assert Database(database_url, pool_size=0).pools().keys() == {"reads"}
