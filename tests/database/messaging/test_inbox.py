"""How a worker's main process takes messages: those that it did not begin go back, but not for ever."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection
from kombu.asynchronous import Hub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from support.redis_inspection import QUEUE, messages, redis, released, run

from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.envelope import list_key
from pipeweave.orchestrator.messaging.inbox import MOST_PUT_BACK, REST_WITHIN_S
from pipeweave.orchestrator.messaging.intake import INTAKE
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.settings import Settings


class Inbox:
    """A worker's connection that takes messages and does nothing with them."""

    def __init__(self, broker_url: str) -> None:
        app = make_celery(Settings(broker_url=broker_url), queues=(QUEUE,), is_worker=True)
        self.connection: Connection = app.connection_for_read()
        self.taken: list[Any] = []
        self.connection.connect()
        channel = self.connection.default_channel
        channel.basic_qos(0, 1, False)
        self.consumer = app.amqp.TaskConsumer(channel, on_message=self.taken.append)
        self.consumer.consume()

    def take(self) -> Any:
        """The next message."""
        while not self.taken:
            self.connection.drain_events(timeout=5)
        return self.taken.pop()


@pytest.fixture
def inbox(publisher: Publisher) -> Iterator[Inbox]:
    made = Inbox(str(publisher.app.conf.broker_url))
    yield made
    made.connection.release()


def waiting(publisher: Publisher, level: int = 6) -> list[Any]:
    """The messages of a level, the next one first."""
    return [json.loads(each) for each in reversed(redis(publisher).lrange(list_key(QUEUE, level), 0, -1))]


def test_a_message_that_was_not_begun_goes_back_as_it_was_to_where_it_was(
    publisher: Publisher, inbox: Inbox
) -> None:
    publisher.publish([*released(run(), 1), *released(run(), 1)])
    before, sent = messages(publisher), waiting(publisher)
    inbox.take().requeue()
    assert messages(publisher) == before
    first = waiting(publisher)[0]["headers"]
    assert first == sent[0]["headers"] | {"put_back": 1}


def test_a_message_goes_back_when_its_worker_ends(publisher: Publisher, inbox: Inbox) -> None:
    publisher.publish(released(run(), 1))
    before = messages(publisher)
    inbox.take()
    assert messages(publisher) == []
    inbox.connection.default_channel.qos.restore_unacked_once()
    assert messages(publisher) == before


def test_what_a_broker_refuses_to_take_back_is_dropped_without_a_file_or_a_line(
    publisher: Publisher,
    inbox: Inbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PostgreSQL has the truth. kombu by itself pickles such messages to the temporary folder and says so."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    channel = inbox.connection.default_channel
    channel.basic_qos(0, 3, False)
    publisher.publish(released(run(), 3))
    for _ in range(3):
        inbox.take()
    redis(publisher).set(list_key(QUEUE, 6), "no list")
    tries = []
    restore = channel._restore
    monkeypatch.setattr(channel, "_restore", lambda message: (tries.append(message), restore(message)))
    channel.close()
    assert len(tries) == 1, "a broker that hangs would hold its worker for each message"
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.INFO] == []


def test_a_message_that_ends_one_worker_after_the_other_is_dropped(
    publisher: Publisher, inbox: Inbox
) -> None:
    publisher.publish(released(run(), 1))
    for _ in range(MOST_PUT_BACK):
        inbox.take().requeue()
        assert len(waiting(publisher)) == 1
    inbox.take().requeue()
    assert waiting(publisher) == []


def test_copies_of_a_message_are_messages_of_their_own(publisher: Publisher, inbox: Inbox) -> None:
    """Their tags are the same; only those that the channel gives them count what is under way."""
    publisher.publish(released(run(), 1))
    name = list_key(QUEUE, 6)
    redis(publisher).lpush(name, *redis(publisher).lrange(name, 0, 0))
    inbox.connection.default_channel.basic_qos(0, 2, False)
    one, two = inbox.take(), inbox.take()
    assert not inbox.connection.default_channel.qos.can_consume()
    one.ack()
    two.ack()
    assert inbox.connection.default_channel.qos.can_consume()


def test_a_broker_that_refuses_to_hand_out_messages_costs_the_connection_alone(
    publisher: Publisher, inbox: Inbox
) -> None:
    redis(publisher).set(list_key(QUEUE, 6), "no list")
    with pytest.raises(RedisConnectionError, match="refused"):
        inbox.take()
    redis(publisher).delete(list_key(QUEUE, 6))
    publisher.publish(released(run(), 1))
    assert inbox.take().headers["task"] == "pipeweave.run"


def test_a_subscription_without_a_message_never_holds_the_worker(inbox: Inbox) -> None:
    channel = inbox.connection.default_channel
    subscription = channel.subclient
    subscription.psubscribe("nobody.writes.here")
    with suppress(Empty):
        while subscription.connection.can_read(timeout=2):
            channel._receive_one(subscription)
    with pytest.raises(Empty):
        channel._receive_one(subscription)


def test_a_message_whose_rest_never_comes_costs_the_connection_alone(inbox: Inbox) -> None:
    channel = inbox.connection.default_channel
    asked = {}

    class Half:
        connection = SimpleNamespace(can_read=lambda timeout: True)

        def parse_response(self, **options: Any) -> None:
            asked.update(options)
            raise RedisTimeoutError

    channel._in_listen = "something"
    with pytest.raises(channel.connection_errors):
        channel._receive_one(Half())
    assert asked == {"block": False, "timeout": REST_WITHIN_S}
    assert channel._in_listen is None, "it subscribes anew"


def test_a_closed_intake_leaves_messages_in_the_queue_until_it_opens(
    publisher: Publisher, inbox: Inbox
) -> None:
    INTAKE.close()
    try:
        publisher.publish(released(run(), 1))
        before = messages(publisher)
        with suppress(TimeoutError):
            inbox.connection.drain_events(timeout=1.5)
        assert (inbox.taken, messages(publisher)) == ([], before)
    finally:
        INTAKE.open()
    inbox.take()
    assert messages(publisher) == []


def test_an_idle_worker_is_not_waked_up_by_timers_for_what_it_does_not_use(inbox: Inbox) -> None:
    hub = Hub()
    inbox.connection.transport.register_with_event_loop(inbox.connection.connection, hub)
    names = [each.entry.fun.__name__ for each in hub.timer.queue if not each.entry.canceled]
    assert sorted(names) == ["maybe_check_brpop_health", "maybe_check_subclient_health", "maybe_reauth"]
