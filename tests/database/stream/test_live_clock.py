"""Pages hear that what they show may have changed; nobody watching costs nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from uuid import UUID, uuid4

import orjson
import pytest
from support.run_driver import RunDriver
from support.sent_statements import sent_statements
from support.servers import wait_until

from pipeweave import ids
from pipeweave.errors import Forbidden, PipeWeaveError, TooManyStreams
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.store import event_log
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.stream import Holder, LiveClock, LiveWanted, live_clock


def somebody() -> Holder:
    """Somebody with a token of their own, in a tenant of their own."""
    token = uuid4()
    return Holder(token, f"tenant-{token}")


@dataclass
class Heard:
    """A sink that keeps what was announced."""

    news: list[dict[str, dict[str, object]]] = field(default_factory=list)
    ended: list[PipeWeaveError | None] = field(default_factory=list)
    is_open: bool = True
    refusal: PipeWeaveError | None = None
    pings: int = 0
    checks: int = 0
    holder: Holder = field(default_factory=somebody)

    def begin(self, cursor: str) -> None:
        pass

    def change(self, cursor: str | None, content: bytes) -> None:
        self.news.append(orjson.loads(content))

    def ping(self) -> None:
        self.pings += 1

    def end(self, error: PipeWeaveError | None) -> None:
        self.ended.append(error)
        self.is_open = False

    def check(self) -> None:
        self.checks += 1
        if self.refusal is not None:
            raise self.refusal

    def numbers(self, run_id: UUID) -> list[object]:
        """What was announced of a run."""
        name = ids.show(ids.RUN, run_id)
        return [each["runs"][name] for each in self.news if name in each.get("runs", {})]

    def tags(self, name: str) -> list[object]:
        """What was announced of a view."""
        return [each["views"][name] for each in self.news if name in each.get("views", {})]


class Counted:
    """A view that counts how often it is computed. Its tag is what the test sets."""

    name, every_s = "/runs", 0.0

    def __init__(self) -> None:
        self.rest_s = 0.02
        self.tag, self.computed = "one", 0

    def compute(self) -> str:
        self.computed += 1
        return self.tag


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def clock(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveClock]:
    for name, value in (("EVERY_S", 0.01), ("IDLE_S", 0.1), ("CHECK_S", 0.05)):
        monkeypatch.setattr(live_clock, name, value)
    made = LiveClock(database, 3)
    yield made
    made.close()


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    driver.store({"a": []})
    return driver.trigger("driven")


def write(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        event_log.append(tx, [Event(run_id, "run.paused")])


def test_an_event_of_a_watched_run_is_announced(clock: LiveClock, driver: RunDriver, run_id: UUID) -> None:
    heard = Heard()
    clock.watch(LiveWanted((run_id,)), heard)
    wait_until(lambda: len(heard.numbers(run_id)) == 1, 30, what="nothing came")
    write(driver, run_id)
    wait_until(lambda: len(heard.numbers(run_id)) == 2, 30, what="nothing came")
    assert heard.numbers(run_id) == sorted(heard.numbers(run_id), key=str)


def test_nobody_is_told_that_nothing_is_new_while_the_database_is_away(
    clock: LiveClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWAY_S", "PING_S", "CHECK_S"):
        monkeypatch.setattr(live_clock, name, 0.01)
    heard, in_the_dark = Heard(), Heard()
    clock.watch(LiveWanted(), heard)
    wait_until(lambda: heard.pings > 0, 30, what="no sign of life came")
    away = Database("postgresql://nobody@127.0.0.1:1/nothing")
    with closing(LiveClock(away, 1)) as blind:
        blind.watch(LiveWanted(), in_the_dark)
        wait_until(lambda: in_the_dark.checks > 3, 30, what="nobody looked")
        assert in_the_dark.pings == 0


def test_all_who_look_at_a_view_cost_one_computing(clock: LiveClock, driver: RunDriver, run_id: UUID) -> None:
    view, first, second = Counted(), Heard(), Heard()
    clock.watch(LiveWanted(views=(view,)), first)
    clock.watch(LiveWanted(views=(view,)), second)
    wait_until(lambda: first.tags("/runs") and second.tags("/runs"), 30, what="nothing came")
    view.tag = "two"
    write(driver, run_id)
    wait_until(lambda: "two" in second.tags("/runs") and "two" in first.tags("/runs"), 30, what="no news")
    assert first.tags("/runs") == second.tags("/runs") == ["one", "two"]


def test_a_view_that_stays_equal_is_not_announced_again(
    clock: LiveClock, driver: RunDriver, run_id: UUID
) -> None:
    view, heard = Counted(), Heard()
    clock.watch(LiveWanted(views=(view,)), heard)
    wait_until(lambda: heard.tags("/runs"), 30, what="nothing came")
    computed = view.computed
    write(driver, run_id)
    wait_until(lambda: view.computed > computed + 1, 30, what="it was not computed again")
    assert heard.tags("/runs") == ["one"]


def test_what_appears_while_a_view_rests_for_long_is_announced(
    clock: LiveClock, driver: RunDriver, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_clock, "LATE_S", 0.2)
    view, heard = Counted(), Heard()
    view.rest_s = 0.5
    clock.watch(LiveWanted(views=(view,)), heard)
    write(driver, run_id)
    wait_until(lambda: heard.tags("/runs"), 30, what="nothing came")
    # Its number was drawn before the view was computed, and its commit came after.
    view.tag = "two"
    wait_until(lambda: heard.tags("/runs") == ["one", "two"], 30, what="it was missed")


def test_the_page_of_a_run_is_computed_when_the_run_ends_however_long_it_would_rest(
    clock: LiveClock, driver: RunDriver, run_id: UUID
) -> None:
    view, heard = Counted(), Heard()
    view.rest_s = 600
    clock.watch(LiveWanted((run_id,), (view,)), heard)
    wait_until(lambda: view.computed == 1 and len(heard.numbers(run_id)) == 1, 30, what="nothing came")
    write(driver, run_id)
    wait_until(lambda: len(heard.numbers(run_id)) == 2, 30, what="the event was not announced")
    assert view.computed == 1
    view.tag = "over"
    driver.finish(run_id, "a")
    wait_until(lambda: heard.tags(view.name) == ["one", "over"], 30, what="the end was not shown")


def test_a_view_rests_when_those_who_watched_it_have_left(
    clock: LiveClock, driver: RunDriver, run_id: UUID
) -> None:
    left, stays, leaving, staying = Counted(), Counted(), Heard(), Heard()
    clock.watch(LiveWanted(views=(left,)), leaving)
    clock.watch(LiveWanted(views=(stays,)), staying)
    wait_until(lambda: left.computed and stays.computed, 30, what="they were not computed")
    leaving.is_open = False
    wait_until(lambda: len(clock._watchers) == 1, 30, what="nobody was forgotten")
    # A look that is under way may compute it once more.
    wait_until(lambda: len(clock._views) == 1, 30, what="its view is still known")
    computed, before = left.computed, stays.computed
    write(driver, run_id)
    wait_until(lambda: stays.computed > before + 2, 30, what="the other is not computed again")
    assert left.computed <= computed + 1


def test_while_nobody_watches_there_is_no_thread_and_no_statement(clock: LiveClock, run_id: UUID) -> None:
    heard = Heard()
    clock.watch(LiveWanted((run_id,)), heard)
    wait_until(lambda: heard.numbers(run_id), 30, what="nothing came")
    heard.is_open = False
    wait_until(lambda: not clock._threads, 30, what="the threads go on")
    with sent_statements() as sent:
        assert clock.count == 0
    assert sent == []


def test_who_comes_after_a_silence_is_served(clock: LiveClock, driver: RunDriver, run_id: UUID) -> None:
    gone, heard = Heard(), Heard()
    clock.watch(LiveWanted((run_id,)), gone)
    gone.is_open = False
    wait_until(lambda: not clock._threads, 30, what="the threads go on")
    clock.watch(LiveWanted((run_id,)), heard)
    wait_until(lambda: heard.numbers(run_id), 30, what="nothing came")


def test_who_may_not_watch_any_more_is_sent_away(clock: LiveClock, run_id: UUID) -> None:
    heard = Heard(refusal=Forbidden("revoked"))
    clock.watch(LiveWanted((run_id,)), heard)
    wait_until(lambda: heard.ended, 30, what="it still watches")
    assert isinstance(heard.ended[0], Forbidden)


def test_a_right_that_was_lost_is_seen_at_the_first_look_two_seconds_later(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(live_clock, "time", SimpleNamespace(monotonic=lambda: now))
    clock, heard = LiveClock(database, 1), Heard()
    # No thread looks beside the test.
    clock._threads = dict.fromkeys(("live-runs", "live-views"), threading.current_thread())
    clock.watch(LiveWanted(), heard)
    clock._tend()
    heard.refusal = Forbidden("revoked")
    clock._tend()
    assert (heard.checks, heard.ended) == (1, []), "between two looks nobody asks"
    now += 2.0
    clock._tend()
    assert heard.ended == [heard.refusal]


def test_one_watcher_more_than_allowed_is_refused(clock: LiveClock) -> None:
    for _ in range(3):
        clock.check_room(somebody())
        clock.watch(LiveWanted(), Heard())
    with pytest.raises(TooManyStreams):
        clock.check_room(somebody())


def test_the_end_of_the_process_ends_all(clock: LiveClock) -> None:
    heard = Heard()
    clock.watch(LiveWanted(), heard)
    clock.close()
    assert heard.ended == [None]


def test_a_crowd_is_told_less_often_but_everything(
    database: Database, driver: RunDriver, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_clock, "FETCHES_PER_S", 4)
    with closing(LiveClock(database, 3)) as clock:
        first, second = Heard(), Heard()
        clock.watch(LiveWanted((run_id,)), first)
        clock.watch(LiveWanted((run_id,)), second)
        wait_until(lambda: first.news and second.news, 30, what="nothing came")
        for _ in range(20):
            write(driver, run_id)
        [row] = driver.rows("SELECT max(seq) AS last FROM events WHERE run_id = :id", id=run_id)
        both = (first, second)
        wait_until(lambda: all(each.numbers(run_id)[-1] == row.last for each in both), 30, what="no last one")
        assert len(first.numbers(run_id)) + len(second.numbers(run_id)) < 12
