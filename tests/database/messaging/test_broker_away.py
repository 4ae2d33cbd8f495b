"""A broker that hangs or is gone: one timeout for the process, then nothing, and no row is lost.

Tries are counted, and no time is measured: how long a try waits, test_celery_contracts.py says, and how long
the pause after it is, unit tests say.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions as redis_errors
from support.redis_inspection import QUEUE, messages, redis, released, run
from support.servers import running_valkey, wait_until

from chaos.proxy import proxy_to
from pipeweave import afterwards
from pipeweave.circuit_breaker import PAUSE_S, CircuitBreaker
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.outbox import Chord, ChordPart
from pipeweave.orchestrator.messaging import redis_pipeline
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.envelope import JOIN_TASK
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.messaging.redis_pipeline import Command, RedisPipeline
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.up.launch import spawn
from pipeweave.up.valkey import Valkey


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Other tests of this process may have asked for less."""
    with caplog.at_level(logging.INFO):
        yield


@dataclass(slots=True)
class Clock:
    """The clock of the circuit breaker: a pause is over when the test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def end_pause(self) -> None:
        self.now += PAUSE_S


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What circuit breakers that are made from now on take for the time."""
    made = Clock()
    monkeypatch.setattr(redis_pipeline, "CircuitBreaker", functools.partial(CircuitBreaker, clock=made))
    return made


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The errors of all tries to speak with the broker, in the order of the tries."""
    found: list[BaseException] = []
    exchange = RedisPipeline._exchange

    def noted(self: RedisPipeline, commands: Sequence[Command], sent: Any) -> list[Any]:
        try:
            return exchange(self, commands, sent)
        except BaseException as error:
            found.append(error)
            raise

    monkeypatch.setattr(RedisPipeline, "_exchange", noted)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    """A Valkey of the test's own, to be stopped."""
    with running_valkey(tmp_path) as started:
        yield started


@pytest.fixture
def publisher(server: Valkey, clock: Clock, failures: list[BaseException]) -> Iterator[Publisher]:
    made = Publisher(make_celery(Settings(broker_url=server.url)), clock=time.time)
    # So that it has an open connection when the server stops.
    assert made.depth(QUEUE) == 0
    yield made
    made.close()


@pytest.fixture
def process(publisher: Publisher) -> Iterator[int]:
    """The server's process id; it goes on when the test ends."""
    pid = int(redis(publisher).info("server")["process_id"])
    yield pid
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@contextmanager
def answering() -> Iterator[None]:
    """A request to the server: its answer leaves at the end of the block."""
    afterwards.begin()
    try:
        yield
    finally:
        afterwards.finish()


def fail_to_ask(publisher: Publisher) -> None:
    with pytest.raises(Unavailable):
        publisher.depth(QUEUE)
    with pytest.raises(Unavailable):
        publisher.oldest(QUEUE)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.startswith("pipeweave")]


def is_there(publisher: Publisher, clock: Clock) -> bool:
    """Whether the broker answers once the pause is over."""
    clock.end_pause()
    try:
        return publisher.depth(QUEUE) >= 0
    except Unavailable:
        return False


def test_a_broker_that_hangs_costs_one_timeout(
    publisher: Publisher,
    process: int,
    clock: Clock,
    failures: list[BaseException],
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_id = run()
    publisher.publish([Chord(run_id, 7, 1)])
    os.kill(process, signal.SIGSTOP)
    publisher.publish(released(run(), 1))
    assert [type(each) for each in failures] == [redis_errors.TimeoutError]
    for _ in range(100):
        publisher.publish(released(run(), 1))
    publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=1))
    fail_to_ask(publisher)
    assert len(failures) == 1
    assert said(caplog) == ["broker.away"]
    os.kill(process, signal.SIGCONT)
    wait_until(lambda: is_there(publisher, clock))
    assert said(caplog) == ["broker.away", "broker.back"]
    publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=1))
    assert messages(publisher)[0] == (JOIN_TASK, [run_id.hex, 7])


def test_a_broker_that_goes_on_hanging_costs_a_timeout_per_pause(
    publisher: Publisher, process: int, clock: Clock, failures: list[BaseException]
) -> None:
    os.kill(process, signal.SIGSTOP)
    for number in range(1, 4):
        for _ in range(50):
            publisher.publish(released(run(), 1))
        assert [type(each) for each in failures] == [redis_errors.TimeoutError] * number
        clock.end_pause()


def test_a_broker_that_died_costs_nothing_and_is_found_again(
    publisher: Publisher,
    server: Valkey,
    process: int,
    clock: Clock,
    failures: list[BaseException],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher.publish(released(run(), 1))
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not server.is_ready())
    for _ in range(100):
        publisher.publish(released(run(), 1))
    fail_to_ask(publisher)
    assert len(failures) == 1
    assert not isinstance(failures[0], redis_errors.TimeoutError), "it waited"
    with (tmp_path / "again.log").open("wb") as output:
        again = spawn(server.launch(), output)
    try:
        wait_until(lambda: is_there(publisher, clock))
        publisher.publish(released(run(), 2))
        assert publisher.depth(QUEUE) == 2
        assert said(caplog) == ["broker.away", "broker.back"]
    finally:
        again.terminate()
        try:
            again.wait(60)
        except subprocess.TimeoutExpired:
            again.kill()


@pytest.mark.parametrize("surrounding", [nullcontext, answering], ids=["alone", "in a request"])
def test_a_silent_connection_is_replaced_and_nothing_is_lost(
    publisher: Publisher,
    server: Valkey,
    failures: list[BaseException],
    caplog: pytest.LogCaptureFixture,
    surrounding: Callable[[], AbstractContextManager[None]],
) -> None:
    with proxy_to(server.port) as proxy:
        url = server.url.replace(f":{server.port}", f":{proxy.port}")
        behind = Publisher(make_celery(Settings(broker_url=url)), clock=publisher._clock)
        try:
            assert behind.depth(QUEUE) == 0
            for number in range(1, 4):
                assert proxy.silence() >= 1
                with surrounding():
                    behind.publish(released(run(), 1))
                assert publisher.depth(QUEUE) == number
            assert failures == []
            assert said(caplog) == []
        finally:
            behind.close()


def test_a_client_does_not_wait_for_a_broker_that_hangs(
    publisher: Publisher, process: int, failures: list[BaseException]
) -> None:
    os.kill(process, signal.SIGSTOP)
    with answering():
        publisher.publish(released(run(), 1))
        assert failures == []
    assert [type(each) for each in failures] == [redis_errors.TimeoutError]
    assert publisher.failures == 1


def test_a_request_that_publishes_often_holds_one_connection(publisher: Publisher) -> None:
    with answering():
        for _ in range(5):
            publisher.publish(released(run(), 1))
        assert len(redis(publisher).client_list()) <= 3, "the one that waits, the one before it, and this one"
    assert publisher.depth(QUEUE) == 5


def test_the_tick_can_tell_a_broker_that_stores_nothing(publisher: Publisher, clock: Clock) -> None:
    client = redis(publisher)
    publisher.check_writable(QUEUE)
    assert client.keys("*") == []
    client.config_set("maxmemory", "1")
    with pytest.raises(Unavailable):
        publisher.check_writable(QUEUE)
    client.config_set("maxmemory", "0")
    clock.end_pause()
    publisher.check_writable(QUEUE)


def test_a_full_broker_is_away_too(
    publisher: Publisher, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    client = redis(publisher)
    client.config_set("maxmemory", "1")
    for _ in range(20):
        publisher.publish(released(run(), 1))
    assert said(caplog) == ["broker.away"]
    client.config_set("maxmemory", "0")
    wait_until(lambda: is_there(publisher, clock))
    publisher.publish(released(run(), 1))
    assert publisher.depth(QUEUE) == 1


def test_a_commit_does_not_depend_on_the_broker(
    publisher: Publisher, process: int, database: Database, failures: list[BaseException]
) -> None:
    database.sender = publisher.publish
    os.kill(process, signal.SIGSTOP)

    with database.transaction() as tx:
        tx.send(*released(run(), 1))
        tx.execute("CREATE TABLE broker_away_tests_kept (n integer)")
    assert len(failures) == 1
    with database.transaction() as tx:
        assert tx.execute("SELECT count(*) FROM broker_away_tests_kept").scalar_one() == 0
        tx.execute("DROP TABLE broker_away_tests_kept")
