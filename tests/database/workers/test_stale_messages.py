"""Messages that find nothing to do are removed from a queue many at once, and no other message is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from support.redis_inspection import redis
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import UNCOUNTED
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.messaging.envelope import JOIN_TASK, RUN_TASK, Envelope, decode, encode, list_key
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.store.database import Database
from pipeweave.workers.consumer.stale_messages import EMPTY_RUN, LOOK_S, SUSPICIOUS, StaleMessages

# Eight steps that a join gathers, as ordinals 1 to 8 and 9.
WIDE = [f"a{number}" for number in range(8)]
NEEDS = {**{each: [] for each in WIDE}, "join": WIDE}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def queue(driver: RunDriver) -> str:
    return f"pipeweave.{driver.tenant}.python"


@pytest.fixture
def stale(driver: RunDriver, publisher: Publisher) -> StaleMessages:
    return StaleMessages(driver.database, publisher, driver.tenant)


def run_message(
    run_id: UUID, ordinals: list[int], joins: tuple[int, ...] = (), attempt: int = 1
) -> list[Any]:
    return [run_id.hex, ordinals, attempt, 0 if joins else UNCOUNTED, list(joins)]


Put = Callable[..., None]


@pytest.fixture
def put(publisher: Publisher, queue: str) -> Put:
    """Puts messages with these arguments into the queue, the first one in front."""

    def put(*messages: list[Any], level: int = 6) -> None:
        for arguments in messages:
            task = RUN_TASK if len(arguments) == 5 else JOIN_TASK
            redis(publisher).lpush(list_key(queue, level), encode(task, "x", arguments, queue, level, 1.0))

    return put


def left(publisher: Publisher, queue: str, level: int = 6) -> list[list[Any]]:
    found = [decode(each) for each in publisher.peek(queue, level, 10_000)]
    return [each.arguments for each in found if isinstance(each, Envelope)]


def test_messages_with_something_to_do_stay_in_their_order(
    driver: RunDriver, publisher: Publisher, stale: StaleMessages, put: Put, queue: str
) -> None:
    run_id, over = driver.begin(NEEDS), driver.begin({"only": []})
    driver.finish(over, "only")
    driver.finish(run_id, "a0", "a1")
    alive = [run_message(run_id, [1, 2, 3]), run_message(run_id, [4]), [run_id.hex, 9], [run_id.hex, END]]
    put(
        run_message(over, [1]),
        alive[0],
        run_message(run_id, [1, 2]),
        run_message(run_id, [3], attempt=2),
        alive[1],
        [over.hex, END],
        [over.hex, 1],
        alive[2],
        [run_id.hex, 1],
        [ids.new_id().hex, END],
        run_message(ids.new_id(), [1]),
        alive[3],
        run_message(run_id, [99]),
    )
    redis(publisher).lpush(list_key(queue, 6), "junk")
    assert stale.drop(queue) == 10
    assert left(publisher, queue) == alive
    assert stale.drop(queue) == 0


def test_of_copies_one_stays(
    driver: RunDriver, publisher: Publisher, stale: StaleMessages, put: Put, queue: str
) -> None:
    run_id = driver.begin(NEEDS)
    alive = [run_message(run_id, [3]), [run_id.hex, 9]]
    for _ in range(10):
        put(*alive)
    assert stale.drop(queue) == 18
    assert left(publisher, queue) == alive


def test_messages_of_other_queues_and_tenants_go(
    driver: RunDriver, publisher: Publisher, stale: StaleMessages, put: Put, queue: str
) -> None:
    foreign = RunDriver(driver.database).begin(NEEDS)
    put(run_message(foreign, [1]), [foreign.hex, 9], [foreign.hex, END], run_message(foreign, [1], (9,)))
    assert stale.drop(queue) == 4
    assert left(publisher, queue) == left(publisher, queue, 0) == []


def test_joins_for_which_a_removed_message_counted_are_asked_about_once(
    driver: RunDriver, publisher: Publisher, stale: StaleMessages, put: Put, queue: str
) -> None:
    """Its task runs may have ended by other messages, which count for nothing."""
    run_id, over = driver.begin(NEEDS), driver.begin(NEEDS)
    driver.finish(run_id, *WIDE[:4])
    driver.finish(over, *WIDE)
    driver.check(over, 9)
    driver.finish(over, "join")
    for ordinal in (1, 2, 3):
        put(run_message(run_id, [ordinal], (9, 7, 4_000)), run_message(over, [ordinal], (9,)))
    assert stale.drop(queue) == 6
    assert left(publisher, queue, 0) == [[run_id.hex, 9]]


def test_a_queue_is_looked_at_when_several_messages_in_a_row_found_nothing(
    driver: RunDriver, publisher: Publisher, stale: StaleMessages, put: Put, queue: str
) -> None:
    over = driver.begin({"only": []})
    driver.finish(over, "only")
    put(*[run_message(over, [1])] * 5)
    for _ in range(100):
        stale.record(queue, False)
        stale.record(queue, True)
    for _ in range(SUSPICIOUS // EMPTY_RUN - 1):
        stale.record(queue, False)
    assert len(left(publisher, queue)) == 5
    stale.record(queue, False)
    assert left(publisher, queue) == []
    # Where some were, more may be.
    put(*[run_message(over, [1])] * 5)
    stale.record(queue, False)
    assert left(publisher, queue) == []


def test_one_process_looks_at_a_queue_at_a_time(
    publisher: Publisher, stale: StaleMessages, queue: str
) -> None:
    assert publisher.begin_look(queue, LOOK_S)
    assert not publisher.begin_look(queue, LOOK_S)
    assert publisher.begin_look("another", LOOK_S)
    publisher.end_look(queue)
    assert stale.drop(queue) == 0
    assert publisher.begin_look(queue, LOOK_S)


def test_thousands_are_removed_in_one_look(
    driver: RunDriver, publisher: Publisher, stale: StaleMessages, put: Put, queue: str
) -> None:
    over, run_id = driver.begin({"only": []}), driver.begin(NEEDS)
    driver.finish(over, "only")
    messages = [encode(RUN_TASK, "x", run_message(over, [1]), queue, 6, 1.0) for _ in range(5_000)]
    redis(publisher).lpush(list_key(queue, 6), *messages)
    put(run_message(run_id, [1]))
    dropped = stale.drop(queue)
    while left(publisher, queue) != [run_message(run_id, [1])]:
        more = stale.drop(queue)
        assert more, "a look removed nothing"
        dropped += more
    assert dropped == 5_000
