"""Inject faults into the broker: double, delay, lose or replay messages, add junk, and delete the counters of
chords.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from redis.exceptions import RedisError

from chaos.stack import QUEUE, Stack

# The priorities of a queue's lists, the best one first, as kombu names them.
_LEVELS = ("", *(f"\x06\x16{level}" for level in (3, 6, 9)))
_OWN_QUEUES = "SELECT DISTINCT own_queue FROM workers WHERE own_queue IS NOT NULL AND stopped_at IS NULL"
_WAIT_S = 0.1
_RUN, _JOIN = "pipeweave.run", "pipeweave.join"
# How many messages are replayed at most, how often each, and how much older it says it is (ms).
_MOST_REPLAYED, _TIMES, _OLDER_MS = 500, 10, 3_600_000
# No messages: not JSON, not UTF-8, deep, without content, for an unknown task, for a task that is a list.
_JUNK = (
    b"junk",
    b"\xff\xfe",
    b"[" * 20_000,
    b"{}",
    b'{"body": "W10=", "headers": {"task": "unknown", "id": "x"}, "properties": {"delivery_tag": "x"}}',
    b'{"body": "W10=", "headers": {"task": [], "id": "x"}, "properties": {"delivery_tag": "x"}}',
)


def double(up: Stack, seconds: float) -> Counter[str]:
    """Copy all waiting messages, and all that arrive during this time; count them by kind."""
    found: Counter[str] = Counter()
    redis = up.redis()
    for name in _lists(up):
        waiting = list(map(_bytes, redis.lrange(name, 0, -1)))
        if waiting:
            redis.lpush(name, *reversed(waiting))
            found.update(map(_kind, waiting))
    doubled: set[bytes] = set()
    for place, message in _passing(up, seconds):
        redis.rpush(place, message)
        if message in doubled:
            time.sleep(0.01)  # our own copy: let a worker have it
            continue
        doubled.add(message)
        redis.lpush(place, message)
        found[_kind(message)] += 1
    return found


def delay(up: Stack, seconds: float, by: float) -> Counter[str]:
    """Take the messages that arrive during this time and put them back later; count them by kind."""
    taken = list(_passing(up, seconds))

    def put_back() -> None:
        with suppress(RedisError):  # the broker was wiped meanwhile: they are lost
            redis = up.redis()
            for name, message in taken:
                redis.lpush(name, message)

    timer = threading.Timer(by, put_back)
    timer.daemon = True
    timer.start()
    return Counter(_kind(message) for _, message in taken)


def lose(up: Stack, seconds: float) -> Counter[str]:
    """Delete the messages that arrive during this time; count them by kind."""
    return Counter(_kind(message) for _, message in _passing(up, seconds))


def replay(up: Stack, seconds: float) -> Counter[str]:
    """Put the messages that arrive during this time back, and some of them ten times more, in reverse order
    and an hour old; count these by kind.
    """
    redis = up.redis()
    taken: dict[bytes, bytes] = {}
    for name, message in _passing(up, seconds):
        redis.lpush(name, message)
        if message in taken:
            time.sleep(0.01)  # it is our own: let a worker have it
        taken[message] = name
    replayed = list(taken.items())[:_MOST_REPLAYED]
    for message, name in replayed * _TIMES:
        redis.rpush(name, _older(message))
    return Counter(_kind(message) for message, _ in replayed)


def add_junk(up: Stack, count: int) -> Counter[str]:
    """Put so many things into each list that are no messages, in front of those that wait."""
    redis = up.redis()
    junk = [_JUNK[number % len(_JUNK)] for number in range(count)]
    lists = _lists(up)
    for name in lists:
        redis.rpush(name, *junk)
    return Counter(junk=count * len(lists))


def forget_chords(up: Stack, seconds: float) -> Counter[str]:
    """Delete the counters of chords repeatedly during this time; return the number of keys."""
    found: Counter[str] = Counter()
    redis = up.redis()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        keys = list(redis.scan_iter("*celery-taskset-meta-*", count=1_000))
        if keys:
            found["key"] += int(redis.delete(*keys))
        time.sleep(_WAIT_S)
    return found


def depth(up: Stack) -> int:
    """Count the waiting messages."""
    redis = up.redis()
    return sum(int(redis.llen(name)) for name in _lists(up))


def _lists(up: Stack) -> list[str]:
    """The lists of the service's queue, and those of the queues that only workers with the same code consume.

    Raises:
        psycopg2.Error: PostgreSQL is away.
    """
    queues = [QUEUE, *(row[0] for row in up.rows(_OWN_QUEUES))]
    return [f"{queue}{level}" for level in _LEVELS for queue in queues]


def _passing(up: Stack, seconds: float) -> Iterator[tuple[bytes, bytes]]:
    """Yield the messages that the test takes from the queues for this many seconds, ahead of the workers."""
    redis, lists = up.redis(), _lists(up)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        taken = redis.brpop(lists, timeout=_WAIT_S)
        if taken is not None:
            yield _bytes(taken[0]), _bytes(taken[1])


def _bytes(given: bytes | str) -> bytes:
    return given.encode() if isinstance(given, str) else given


def _older(message: bytes) -> bytes:
    """The same message, sent earlier; junk as it is."""
    try:
        content = json.loads(message)
        content["headers"]["sent"] -= _OLDER_MS
    except (ValueError, TypeError, LookupError, RecursionError):
        return message
    return json.dumps(content).encode()


def _kind(message: bytes) -> str:
    try:
        task = json.loads(message)["headers"]["task"]
        return {_RUN: "run", _JOIN: "join"}.get(task, "other")
    except (ValueError, TypeError, LookupError, RecursionError):
        return "junk"
