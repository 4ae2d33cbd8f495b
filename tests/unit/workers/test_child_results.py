"""The parent reads what a child tells it, in whatever pieces that comes."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from billiard.compat import setblocking
from billiard.connection import Pipe
from kombu.asynchronous import Hub

from pipeweave.workers.process.child_results import ChildResults


class Told:
    """A pipe from a child in an event loop, and what its parent has heard through it."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.reader, self.writer = Pipe(duplex=False)
        setblocking(self.reader, 0)
        self.hub = Hub()
        made: Any = ChildResults.__new__(ChildResults)
        made.fileno_to_outq = {self.reader.fileno(): SimpleNamespace()}
        made.on_state_change = self._hear
        made.register_with_event_loop(self.hub)
        self.hub.add_reader(self.reader.fileno(), made.handle_event, self.reader.fileno())
        self._loop = self.hub.create_loop()

    def _hear(self, told: Any) -> None:
        self.heard.append(told)
        if told == "bad":
            raise ValueError(told)

    def write(self, content: bytes) -> None:
        os.write(self.writer.fileno(), content)
        next(self._loop)

    def is_listened_to(self) -> bool:
        return self.reader.fileno() in self.hub.readers


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.hub.close()
    made.reader.close()
    made.writer.close()


def message(value: Any) -> bytes:
    content = pickle.dumps(value)
    return struct.pack(">i", len(content)) + content


def test_messages_that_came_together_are_heard_in_their_order(told: Told) -> None:
    told.write(message("one") + message("two") + message("three"))
    assert told.heard == ["one", "two", "three"]


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 20])
def test_a_message_that_comes_in_parts_is_heard_once_it_is_whole(told: Told, cut: int) -> None:
    second = message("x" * 50)
    told.write(message("one") + second[:cut])
    assert told.heard == ["one"]
    told.write(second[cut:] + message("three"))
    told.write(message("four"))
    assert told.heard == ["one", "x" * 50, "three", "four"]


def test_a_message_longer_than_a_pipe_is_heard(told: Told) -> None:
    content = message("x" * 150_000)
    for at in range(0, len(content), 50_000):
        told.write(content[at : at + 50_000])
    told.write(message("after"))
    assert told.heard == ["x" * 150_000, "after"]


def test_what_goes_wrong_with_a_message_hides_none_behind_it(told: Told) -> None:
    with pytest.raises(ValueError, match="bad"):
        told.write(message("bad") + message("after"))
    assert told.heard == ["bad", "after"]


def test_a_pipe_that_ended_is_listened_to_no_more(told: Told) -> None:
    told.writer.close()
    told.hub.call_soon(lambda: None)
    assert told.is_listened_to()
    told.hub.run_once()
    assert not told.is_listened_to()
