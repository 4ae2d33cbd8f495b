"""The parent hands a message to an idle child at once, and knows what became of it when the child dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from billiard.exceptions import WorkerLostError
from billiard.pool import MaybeEncodingError
from support.running_pool import RunningPool

# More than a pipe takes at once.
LONG = "x" * 300_000


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningPool]:
    made = RunningPool(tmp_path / "nobody is stuck")
    made.until(lambda: len(made.ready()) == 1, "no child")
    yield made
    made.stop()


class Sent:
    """A message of the pool, and what became of it."""

    def __init__(self, running: RunningPool, function: Any, *arguments: Any) -> None:
        self.accepted: list[int] = []
        self.results: list[Any] = []
        self.errors: list[BaseException] = []
        running.pool.apply_async(
            function,
            arguments,
            accept_callback=lambda pid, _: self.accepted.append(pid),
            callback=self.results.append,
            error_callback=lambda info: self.errors.append(info.exception),
        )


def _note(file: str, held_while: str) -> int:
    """Note the call in a file, and wait while another file is there; the length of what was noted."""
    with open(file, "a", encoding="utf-8") as calls:
        calls.write(f"{os.getpid()}\n")
    while os.path.exists(held_while):
        time.sleep(0.01)
    return os.getpid()


def test_a_message_is_handed_out_at_once(running: RunningPool) -> None:
    (child,) = running.ready()
    sent = Sent(running, len, "four")
    assert sent.accepted == [child]
    running.until(lambda: sent.results == [4], "no result")


def test_a_child_gets_the_next_message_when_it_has_worked_off_the_one_before(running: RunningPool) -> None:
    sent = [Sent(running, len, "x" * number) for number in range(20)]
    assert [bool(each.accepted) for each in sent] == [True] + 19 * [False]
    running.until(lambda: all(each.results for each in sent), "messages are left")
    assert [each.results for each in sent] == [[number] for number in range(20)]
    assert [len(each.accepted) for each in sent] == 20 * [1]


def test_a_message_that_a_pipe_does_not_take_whole_arrives(running: RunningPool) -> None:
    (child,) = running.ready()
    os.kill(child, signal.SIGSTOP)
    long, short = Sent(running, len, LONG), Sent(running, len, "four")
    assert (long.accepted, short.accepted) == ([child], [])
    os.kill(child, signal.SIGCONT)
    running.until(lambda: short.results == [4], "no result")
    assert long.results == [len(LONG)]


@pytest.mark.parametrize("text", ["four", LONG])
def test_a_message_that_a_dead_child_had_not_begun_goes_to_its_successor(
    running: RunningPool, text: str
) -> None:
    (child,) = running.ready()
    os.kill(child, signal.SIGSTOP)
    sent = Sent(running, len, text)
    os.kill(child, signal.SIGKILL)
    running.until(lambda: bool(sent.results), "the message was lost")
    assert (sent.results, sent.errors) == ([len(text)], [])
    assert sent.accepted[0] == child
    assert sent.accepted[1:] == running.ready()


def test_a_message_that_a_dead_child_had_begun_is_lost_with_it(running: RunningPool, tmp_path: Path) -> None:
    calls, held = tmp_path / "calls", tmp_path / "held"
    held.touch()
    (child,) = running.ready()
    sent = Sent(running, _note, str(calls), str(held))
    running.until(calls.exists, "the message was not begun")
    os.kill(child, signal.SIGKILL)
    running.until(lambda: bool(sent.errors), "nobody noticed")
    assert isinstance(sent.errors[0].exc, WorkerLostError)
    held.unlink()
    after = Sent(running, len, "four")
    running.until(lambda: after.results == [4], "the successor takes no messages")
    assert calls.read_text().split() == [str(child)]


def test_a_message_under_way_is_not_handed_out_again_when_the_broker_is_lost(
    running: RunningPool, tmp_path: Path
) -> None:
    calls, held = tmp_path / "calls", tmp_path / "held"
    held.touch()
    (child,) = running.ready()
    sent = Sent(running, _note, str(calls), str(held))
    running.until(calls.exists, "the message was not begun")
    running.lose_broker()
    after = Sent(running, len, "four")
    assert after.accepted == [], "the child has a message"
    held.unlink()
    running.until(lambda: after.results == [4], "no result")
    assert sent.results == [child]
    assert calls.read_text().split() == [str(child)]


@pytest.mark.parametrize(
    ("function", "argument", "kind"),
    [(int, "no number", ValueError), (open, os.devnull, MaybeEncodingError)],
)
def test_what_goes_wrong_in_a_child_is_told(
    running: RunningPool, function: Any, argument: str, kind: type[Exception]
) -> None:
    sent = Sent(running, function, argument)
    running.until(lambda: bool(sent.errors), "nothing was told")
    error: Any = sent.errors[0]
    assert kind in {type(error), type(getattr(error, "exc", None))}
    after = Sent(running, len, "four")
    running.until(lambda: after.results == [4], "the child takes no messages")
