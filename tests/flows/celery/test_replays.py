"""Messages that come again, by the thousands: workers wade through them quickly, and new runs do not wait."""

from __future__ import annotations

import json
import random
from uuid import uuid4

import pytest
from support.live_stack import LiveStack

from pipeweave.orchestrator.messaging.envelope import list_key

WIDE = {
    "id": "wide",
    "steps": [
        *({"id": f"a{number}", "task": "noop", "needs": []} for number in range(40)),
        {"id": "join", "task": "noop", "needs": [f"a{number}" for number in range(40)]},
        {"id": "each", "task": "double", "needs": ["join"], "map": {"over": "${input.list}"}},
    ],
}
REPLAYED = 20_000


@pytest.fixture(scope="module")
def stack(own_stack: LiveStack) -> LiveStack:
    own_stack.store(WIDE)
    return own_stack


def taken(stack: LiveStack) -> int:
    """How many messages workers have asked for, one at a time."""
    return int(stack.redis.info("commandstats")["cmdstat_brpop"]["calls"])


def recorded(stack: LiveStack, count: int) -> list[bytes]:
    """So many messages of runs that are over, as a broker has them that was restored."""
    [worker] = stack.processes
    stack.stop(worker.pid)
    run_ids = [stack.trigger("wide", {"list": [1]}) for _ in range(3)]
    keys = [list_key(stack.queue(), level) for level in (0, 3, 6, 9)]
    found = [each for key in keys for each in stack.redis.lrange(key, 0, -1)]
    assert len(found) >= 120
    stack.start_worker("steps.py", concurrency=2)
    for run_id in run_ids:
        assert stack.finished(run_id).status == "completed"
    return [again(random.choice(found)) for _ in range(count)]


def again(message: bytes) -> bytes:
    """The same message, sent an hour before by another publisher."""
    content = json.loads(message)
    content["headers"]["sent"] -= 3_600_000
    content["properties"]["delivery_tag"] = str(uuid4())
    return json.dumps(content).encode()


def test_replayed_messages_are_removed_in_bulk_and_new_runs_go_on(stack: LiveStack) -> None:
    messages = recorded(stack, REPLAYED)
    before = taken(stack)
    stack.redis.rpush(list_key(stack.queue(), 6), *messages)
    run_id = stack.trigger("wide", {"list": list(range(50))})
    assert stack.finished(run_id).status == "completed"
    stack.settle()
    assert taken(stack) - before < REPLAYED / 4
    assert "stale_messages.dropped" in stack.logs()
    assert stack.called(run_id) == {**{f"a{number}": 1 for number in range(40)}, "join": 1, "each": 50}


def test_every_message_ten_times_and_in_any_order_calls_everything_once(stack: LiveStack) -> None:
    [worker] = stack.processes
    stack.stop(worker.pid)
    run_ids = [stack.trigger("wide", {"list": list(range(20))}) for _ in range(5)]
    for level in (0, 3, 6, 9):
        key = list_key(stack.queue(), level)
        waiting = [again(each) for each in stack.redis.lrange(key, 0, -1) for _ in range(10)]
        if waiting:
            random.shuffle(waiting)
            stack.redis.lpush(key, *waiting)
    stack.start_worker("steps.py", concurrency=2)
    for run_id in run_ids:
        assert stack.finished(run_id).status == "completed"
    stack.settle()
    expected = {**{f"a{number}": 1 for number in range(40)}, "join": 1, "each": 20}
    assert [stack.called(run_id) for run_id in run_ids] == [expected] * 5
