"""Threads that answer requests: who is woken, and that nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from support.servers import wait_until

from pipeweave.api.server.request_threads import RequestThreads

WAIT_S = 30


@pytest.fixture
def threads() -> Iterator[RequestThreads]:
    made = RequestThreads(2, "test")
    yield made
    made.shutdown()


def done_by(threads: RequestThreads, work: Callable[[], object] = lambda: None) -> str:
    """The name of the thread that did this, which is idle again."""
    names: list[str] = []

    def noted() -> None:
        names.append(threading.current_thread().name)
        work()

    threads.submit(noted)
    wait_until(lambda: bool(threads._idle), what="the thread did not become idle")
    return names[0]


def test_work_that_comes_one_by_one_is_done_by_one_thread(threads: RequestThreads) -> None:
    assert {done_by(threads) for _ in range(20)} == {"test-1"}


def test_what_finds_no_thread_waits_for_one(threads: RequestThreads) -> None:
    gate = threading.Event()
    done: list[int] = []
    for _ in range(2):
        threads.submit(lambda: gate.wait(WAIT_S))
    for number in range(50):
        threads.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    assert threads.is_behind and done == []
    gate.set()
    wait_until(lambda: len(done) == 50, what="something was lost")
    assert sorted(done) == list(range(50)) and not threads.is_behind


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1)])
def test_a_thread_outlives_what_fails(threads: RequestThreads, error: BaseException) -> None:
    def fail() -> None:
        raise error

    assert done_by(threads, fail) == done_by(threads) == "test-1"


def test_threads_end_when_they_have_done_what_waits(threads: RequestThreads) -> None:
    gate, done = threading.Event(), threading.Event()
    for _ in range(2):
        threads.submit(lambda: gate.wait(WAIT_S))
    threads.submit(done.set)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(done.set)
    gate.set()
    assert done.wait(WAIT_S)
    mine = [each for each in threading.enumerate() if each.name.startswith("test-")]
    for each in mine:
        each.join(WAIT_S)
    assert not any(each.is_alive() for each in mine)
