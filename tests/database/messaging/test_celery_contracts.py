"""What Celery and kombu are relied upon for: the same bytes, the same counters, the same addresses."""

from __future__ import annotations

import base64
import functools
import json
import queue
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from celery import _state
from celery.app.task import Context
from celery.contrib.testing.worker import start_worker
from celery.signals import setup_logging
from kombu.transport.redis import Channel
from support.redis_inspection import QUEUE, messages, redis, released, run

from pipeweave.orchestrator.domain.outbox import Chord, ChordPart, Released
from pipeweave.orchestrator.messaging.celery_app import CHORD_LIFE_S, make_celery
from pipeweave.orchestrator.messaging.envelope import JOIN_TASK, KEY_PREFIX, RUN_TASK
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.settings import Settings


def send_by_kombu(publisher: Publisher, ours: dict[str, Any]) -> None:
    """Have kombu's own producer send the content of one of our messages."""
    arguments, keywords, embed = json.loads(base64.b64decode(ours["body"]))
    with publisher.app.producer_pool.acquire(block=True) as producer:
        producer.publish(
            (arguments, keywords, embed),
            exchange="",
            routing_key=ours["properties"]["delivery_info"]["routing_key"],
            serializer="json",
            headers=ours["headers"],
            correlation_id=ours["headers"]["id"],
            priority=ours["properties"]["priority"],
            retry=False,
        )


@pytest.mark.parametrize("priority", [0, 60, 100, 200])
@pytest.mark.parametrize("queue", [QUEUE, 'pipeweave.tenant-ü "1" \\.python'])
def test_a_message_is_byte_for_byte_what_kombu_would_send(
    publisher: Publisher, queue: str, priority: int
) -> None:
    publisher.publish([Released(run(), number, 3, "t", queue, priority, (7, 9)) for number in range(1, 300)])
    [name] = [each for each in redis(publisher).keys("*") if redis(publisher).type(each) == b"list"]
    [ours] = redis(publisher).lrange(name, -1, -1)
    redis(publisher).delete(name)
    send_by_kombu(publisher, json.loads(ours))
    [theirs] = redis(publisher).lrange(name, 0, -1)
    tag = json.loads(theirs)["properties"]["delivery_tag"]
    assert len(UUID(tag).bytes) == 16
    own_tag = json.loads(ours)["properties"]["delivery_tag"]
    assert ours.replace(own_tag.encode(), tag.encode()) == theirs


def chord_keys(publisher: Publisher) -> dict[bytes, tuple[Any, bool]]:
    """What there is of chords: each key's content, and whether it expires."""
    client = redis(publisher)
    found = {}
    for name in client.keys("pipeweave.celery-taskset-meta-*"):
        kind = client.type(name)
        reads = {
            b"string": client.get,
            b"set": client.smembers,
            b"list": lambda key: client.lrange(key, 0, -1),
        }
        found[name] = (reads[kind](name), client.ttl(name) > 0)
    return found


def test_the_size_of_a_chord_is_stored_as_celery_stores_it(publisher: Publisher) -> None:
    run_id, backend = run(), publisher.app.backend
    publisher.publish([Chord(run_id, 7, 5)])
    ours = chord_keys(publisher)
    redis(publisher).flushdb()
    backend.set_chord_size(f"{run_id.hex}.7", 5)
    assert chord_keys(publisher) == ours
    [name] = ours
    assert redis(publisher).ttl(name) == pytest.approx(CHORD_LIFE_S, abs=60)


def counted_by_celery(publisher: Publisher, part: ChordPart) -> None:
    """Count a part as a Celery worker does at the end of a task."""
    group = f"{part.run_id.hex}.{part.join}"
    options = {"queue": part.queue.removeprefix(KEY_PREFIX), "priority": 0, "task_id": f"{group}.join"}
    body = publisher.app.signature(
        JOIN_TASK, args=(part.run_id.hex, part.join), immutable=True, options=options
    )
    context = Context(id=f"{group}.{part.id}", group=group, group_index=part.ordinal, chord=dict(body))
    publisher.app.backend.on_chord_part_return(context, "SUCCESS", None)


def test_a_part_is_counted_as_celery_counts_it(publisher: Publisher) -> None:
    run_id = run()
    states = []
    for count in (publisher.count, functools.partial(counted_by_celery, publisher)):
        redis(publisher).flushdb()
        publisher.publish([Chord(run_id, 7, 3)])
        for number in (1, 2):
            count(ChordPart(run_id, 7, QUEUE, ordinal=number))
        open_ = chord_keys(publisher)
        count(ChordPart(run_id, 7, QUEUE, ordinal=3))
        states.append((open_, chord_keys(publisher), messages(publisher)))
    assert states[0] == states[1]


@pytest.mark.parametrize("ours", [{1}, {3}, {1, 2}, {2, 3}])
def test_parts_counted_by_celery_and_by_us_are_parts_of_one_chord(
    publisher: Publisher, ours: set[int]
) -> None:
    run_id = run()
    publisher.publish([Chord(run_id, 7, 3)])
    for number in (1, 2, 3, 1, 2, 3):
        part = ChordPart(run_id, 7, QUEUE, ordinal=number)
        publisher.count(part) if number in ours else counted_by_celery(publisher, part)
        assert len(messages(publisher)) == (
            1 if redis(publisher).get(f"pipeweave.celery-taskset-meta-{run_id.hex}.7.c") else 0
        )
    assert messages(publisher) == [(JOIN_TASK, [run_id.hex, 7])]


@pytest.fixture
def _logging_is_left_alone() -> Iterator[None]:
    """A worker in this process would set the levels of all loggers."""

    def nothing(**_: object) -> None:
        pass

    setup_logging.connect(nothing)
    yield
    setup_logging.disconnect(nothing)


@pytest.mark.usefixtures("_logging_is_left_alone")
def test_a_celery_worker_takes_what_is_published(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: queue.Queue[list[Any]] = queue.Queue()
    app = make_celery(Settings(broker_url=publisher.app.conf.broker_url), queues=(QUEUE,), is_worker=True)

    @app.task(name=RUN_TASK, shared=False)
    def _run(*arguments: Any) -> None:
        taken.put(list(arguments))

    # This kind of worker, one in a thread for tests, takes its tasks from the default app.
    monkeypatch.setattr(_state, "default_app", app)
    run_id = run()
    publisher.publish(released(run_id, 2))
    with start_worker(app, perform_ping_check=False, shutdown_timeout=120):
        assert sorted(taken.get(timeout=120) for _ in range(2)) == [
            [run_id.hex, [number], 1, -1, []] for number in (1, 2)
        ]
    app.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://broker",
        "redis://broker:6380/3",
        "redis://:secret@broker:6380/4",
        "redis://user:p%40ss%2Fword@broker/5",
        "rediss://:secret@broker:6380/6?ssl_cert_reqs=required",
        "redis+socket:///run/broker.sock?virtual_host=7",
        "redis+socket://:secret@/run/broker.sock?virtual_host=8",
    ],
)
def test_every_url_leads_where_kombu_consumes(url: str) -> None:
    app = make_celery(Settings(broker_url=url))
    pool = Publisher(app, clock=time.time)._redis._pool
    channel: Any = Channel.__new__(Channel)
    channel.connection = SimpleNamespace(client=app.connection_for_read(), default_port=6379)
    theirs = channel._connparams()
    for name in ("host", "port", "db", "username", "password", "path"):
        assert pool.connection_kwargs.get(name) == theirs.get(name), name
    assert issubclass(theirs["connection_class"], pool.connection_class)
    app.close()


def test_publishing_waits_two_seconds_at_most_in_workers_too() -> None:
    for is_worker in (False, True):
        app = make_celery(Settings(broker_url="redis://broker"), is_worker=is_worker)
        options = Publisher(app, clock=time.time)._redis._pool.connection_kwargs
        assert options["socket_timeout"] <= 2
        assert options["socket_connect_timeout"] <= 1
        app.close()
