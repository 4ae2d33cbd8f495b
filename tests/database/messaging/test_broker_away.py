"""A broker that hangs or is gone: one timeout for the process, then nothing, and no row is lost.

Times are counted in timeouts, with room for a busy machine; how long the pause is, unit tests say.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.redis_inspection import QUEUE, messages, redis, released, run
from support.servers import running_valkey, wait_until

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.outbox import Chord, Part
from pipeweave.orchestrator.messaging.celery_app import PUBLISHER_TIMEOUT_S, make_celery
from pipeweave.orchestrator.messaging.publisher import JOIN_TASK, Publisher
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.up.launch import spawn
from pipeweave.up.valkey import Valkey


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Other tests of this process may have asked for less."""
    with caplog.at_level(logging.INFO):
        yield


# One timeout and no second one.
FIRST_S = 1.95 * PUBLISHER_TIMEOUT_S
# Many calls together, while the broker is known to be away: not one timeout.
NEXT_S = 0.95 * PUBLISHER_TIMEOUT_S


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    """A Valkey of the test's own, to be stopped."""
    with running_valkey(tmp_path) as started:
        yield started


@pytest.fixture
def publisher(server: Valkey) -> Iterator[Publisher]:
    made = Publisher(make_celery(Settings(broker_url=server.url)))
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


def took(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def fail_to_ask(publisher: Publisher) -> None:
    with pytest.raises(Unavailable):
        publisher.depth(QUEUE)
    with pytest.raises(Unavailable):
        publisher.oldest(QUEUE)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.startswith("pipeweave")]


def is_there(publisher: Publisher) -> bool:
    try:
        return publisher.depth(QUEUE) >= 0
    except Unavailable:
        return False


def test_a_broker_that_hangs_costs_one_timeout(
    publisher: Publisher, process: int, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = run()
    publisher.publish([Chord(run_id, 7, 1)])
    os.kill(process, signal.SIGSTOP)
    assert took(lambda: publisher.publish(released(run(), 1))) < FIRST_S
    assert took(lambda: [publisher.publish(released(run(), 1)) for _ in range(100)]) < NEXT_S
    assert took(lambda: publisher.count(Part(run_id, 7, QUEUE, ordinal=1))) < NEXT_S
    assert took(lambda: fail_to_ask(publisher)) < NEXT_S
    assert said(caplog) == ["broker.away"]
    os.kill(process, signal.SIGCONT)
    wait_until(lambda: is_there(publisher))
    assert said(caplog) == ["broker.away", "broker.back"]
    publisher.count(Part(run_id, 7, QUEUE, ordinal=1))
    assert messages(publisher)[0] == (JOIN_TASK, [run_id.hex, 7])


def test_a_broker_that_goes_on_hanging_costs_a_timeout_per_pause(publisher: Publisher, process: int) -> None:
    os.kill(process, signal.SIGSTOP)
    waits = []
    end = time.monotonic() + 8
    while time.monotonic() < end:
        waits.append(took(lambda: publisher.publish(released(run(), 1))))
        time.sleep(0.005)
    assert 1 <= sum(wait > 0.5 for wait in waits) <= 3
    assert max(waits) < FIRST_S


def test_a_broker_that_died_costs_nothing_and_is_found_again(
    publisher: Publisher, server: Valkey, process: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publisher.publish(released(run(), 1))
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not server.is_ready())
    assert took(lambda: [publisher.publish(released(run(), 1)) for _ in range(100)]) < FIRST_S
    assert took(lambda: fail_to_ask(publisher)) < NEXT_S
    with (tmp_path / "again.log").open("wb") as output:
        again = spawn(server.launch(), output)
    try:
        wait_until(lambda: is_there(publisher))
        publisher.publish(released(run(), 2))
        assert publisher.depth(QUEUE) == 2
        assert said(caplog) == ["broker.away", "broker.back"]
    finally:
        again.terminate()
        try:
            again.wait(60)
        except subprocess.TimeoutExpired:
            again.kill()


def test_a_full_broker_is_away_too(publisher: Publisher, caplog: pytest.LogCaptureFixture) -> None:
    client = redis(publisher)
    client.config_set("maxmemory", "1")
    for _ in range(20):
        publisher.publish(released(run(), 1))
    assert said(caplog) == ["broker.away"]
    client.config_set("maxmemory", "0")
    wait_until(lambda: is_there(publisher))
    publisher.publish(released(run(), 1))
    assert publisher.depth(QUEUE) == 1


def test_a_commit_does_not_depend_on_the_broker(
    publisher: Publisher, process: int, database: Database
) -> None:
    database.sender = publisher.publish
    os.kill(process, signal.SIGSTOP)

    def commit() -> None:
        with database.transaction() as tx:
            tx.send(*released(run(), 1))
            tx.execute("CREATE TABLE broker_away_tests_kept (n integer)")

    assert took(commit) < FIRST_S
    with database.transaction() as tx:
        assert tx.execute("SELECT count(*) FROM broker_away_tests_kept").scalar_one() == 0
        tx.execute("DROP TABLE broker_away_tests_kept")
