"""A loop does turn after turn until it is stopped, whatever a turn raises."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.settings import Settings
from pipeweave.workers.loops import table
from pipeweave.workers.loops.loop import LoopSpec, Turn
from pipeweave.workers.loops.table import TICK, Loops

URL = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    """Nothing is asked of it."""
    opened = Deployment.open(Settings(database_url=URL, mode="serverless"))
    yield opened
    opened.close()


def a_row(turn: Turn | None, name: str = "odd", **more: float) -> LoopSpec:
    return LoopSpec(name, lambda _: turn, again_after_s=0.0, **more)  # type: ignore[arg-type]


def test_a_turn_that_fails_is_logged_and_tried_again(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    through = threading.Event()
    outcomes = [Unavailable("away"), ZeroDivisionError()]

    def turn(end: threading.Event) -> float:
        if outcomes:
            raise outcomes.pop(0)
        through.set()
        return 3_600.0

    with Loops(deployment, specs=[a_row(turn)]):
        assert through.wait(60)
    assert [each.levelname for each in caplog.records if each.message == "odd.failed"] == ["WARNING", "ERROR"]


def test_ticks_are_noted_only_when_they_do_not_fail(deployment: Deployment) -> None:
    noted = threading.Semaphore(0)
    outcomes: list[Exception] = [Unavailable("away")]
    turns = threading.Semaphore(0)

    def turn(end: threading.Event) -> float:
        turns.release()
        if outcomes:
            raise outcomes.pop()
        return 3_600.0

    with Loops(deployment, noted.release, [a_row(turn, TICK), a_row(turn)]):
        for _ in range(3):
            assert turns.acquire(timeout=60)
        assert noted.acquire(timeout=60) or outcomes
    assert not noted.acquire(blocking=False)


def test_stopping_waits_for_the_turn_under_way_and_closes_its_connections(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, order = threading.Event(), []
    opened: list[Deployment] = []

    def turns(own: Deployment) -> Turn:
        opened.append(own)
        monkeypatch.setattr(own.database, "dispose", lambda: order.append("closed"))
        return turn

    def turn(end: threading.Event) -> float:
        begun.set()
        assert end.wait(60), "nobody ends it"
        order.append("turned")
        return 0.0

    loops = Loops(deployment, specs=[LoopSpec("odd", turns, again_after_s=0.0, connections=1)])
    loops.start()
    assert begun.wait(60)
    loops.stop()
    assert order == ["turned", "closed"]
    assert opened[0].database is not deployment.database


def test_stopping_does_not_wait_for_ever(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "STOP_WITHIN_S", 0.0)
    begun, goes_on = threading.Event(), threading.Event()

    def turn(end: threading.Event) -> float:
        begun.set()
        goes_on.wait(60)
        return 0.0

    loops = Loops(deployment, specs=[a_row(turn)])
    loops.start()
    assert begun.wait(60)
    loops.stop()
    goes_on.set()


def test_what_the_settings_ask_for_none_of_has_no_thread(deployment: Deployment) -> None:
    with Loops(deployment, specs=[a_row(None, "unwanted")]):
        assert "pipeweave-unwanted" not in [each.name for each in threading.enumerate()]
