"""How a worker's main process takes a message of our tasks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from celery import Celery, signals
from celery.worker import state, strategy
from kombu.transport.virtual import Message

from pipeweave.orchestrator.messaging import RUN_TASK, Envelope
from pipeweave.orchestrator.messaging.inbox import _for_celery
from pipeweave.workers.consumer.celery_tasks import define

_CHANNEL = Mock(decode_body=lambda body, *_: body)
ARGUMENTS = ["0" * 32, [1, 2], 1, -1, []]


class Taking:
    """The part of a Celery worker that takes messages.

    Attributes:
        received: the requests of which the signal `task_received` told.
        handed: the requests that go to a child.
    """

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.handed: list[Any] = []
        self.app = Celery("taking", broker="memory://", set_as_current=False)
        define(self.app, Mock())
        self.consumer = Mock(
            hostname="w@host",
            connection_errors=(),
            event_dispatcher=None,
            disable_rate_limits=True,
            task_buckets={RUN_TASK: None},
            on_task_request=self.handed.append,
            controller=SimpleNamespace(state=state),
        )
        self.handle = self.app.tasks[RUN_TASK].start_strategy(self.app, self.consumer)

    def take(self, message: Message) -> None:
        self.handle(message, None, Mock(), Mock(), [])

    def note(self, request: Any, **_: Any) -> None:
        self.received.append(request)


@pytest.fixture
def taking() -> Iterator[Taking]:
    made = Taking()
    signals.task_received.connect(made.note, sender=made.consumer)
    yield made
    signals.task_received.disconnect(made.note, sender=made.consumer)
    state.reset_state()


def message(id: str = "4711", arguments: list[Any] = ARGUMENTS) -> Message:
    envelope = Envelope(RUN_TASK, id, arguments, 0.0, shown="greet")
    return Message(_for_celery(envelope, "tenant.python", 3, 1), channel=_CHANNEL)


def test_its_arguments_go_to_a_child_as_they_were_read(taking: Taking) -> None:
    named = [*ARGUMENTS]
    taking.take(message(arguments=named))
    [request] = taking.handed
    body, kind, encoding = request.body, request.content_type, request.content_encoding
    assert body[0] is named
    assert (kind, encoding) == (None, None), "a child has nothing to decode"
    assert (request.args, request.kwargs) == (ARGUMENTS, {})


def test_who_listens_to_celery_sees_what_it_always_did(taking: Taking) -> None:
    theirs = Taking()
    theirs.app.tasks[RUN_TASK].Strategy = "celery.worker.strategy:default"
    theirs.handle = theirs.app.tasks[RUN_TASK].start_strategy(theirs.app, theirs.consumer)
    taking.take(message())
    theirs.take(message())
    assert taking.received == taking.handed
    ours, celerys = taking.handed[0].info(), theirs.handed[0].info()
    assert orjson.dumps(ours) == orjson.dumps(celerys)
    assert {each.id for each in state.reserved_requests} == {"4711"}


def test_a_message_that_was_revoked_is_not_handed_on(taking: Taking) -> None:
    state.revoked.add("revoked")
    taking.take(message("revoked"))
    assert (taking.received, taking.handed) == ([], [])


def test_a_message_that_the_guard_has_not_read_goes_celerys_way(taking: Taking) -> None:
    raw = _for_celery(Envelope(RUN_TASK, "4711", ARGUMENTS, 0.0), "tenant.python", 3, 1)
    del raw["read"]
    taking.take(Message(raw, channel=_CHANNEL))
    [request] = taking.handed
    assert (request.args, request.content_type) == (ARGUMENTS, "application/json")


def test_with_a_line_for_each_message_in_the_log_it_is_celerys_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strategy.logger, "isEnabledFor", lambda _: True)
    assert Taking().handle.__module__ == "celery.worker.strategy"
