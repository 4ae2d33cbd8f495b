"""All who watch in a process get what they want to see, once; those who cannot go on are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import orjson
import pytest
from support.child_runs import child, only_child
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave.errors import CursorExpired, Forbidden, PipeWeaveError, TooManyStreams, Unavailable
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.feed import feed
from pipeweave.orchestrator.feed.feed import FeedEvent
from pipeweave.orchestrator.store import event_log
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.stream import Holder, Hub, Told, WantedChanges, changes, hub


def somebody() -> Holder:
    """Somebody with a token of their own, in a tenant of their own."""
    token = uuid4()
    return Holder(token, f"tenant-{token}")


class Watching:
    """A sink that keeps what comes."""

    def __init__(self) -> None:
        self.cursors: list[str] = []
        self.types: list[str] = []
        self.pings = 0
        self.has_room = self.is_open = True
        self.refusal: PipeWeaveError | None = None
        self.ended: list[PipeWeaveError | None] = []
        self.holder = somebody()
        self.is_ready = threading.Event()
        self.check: Callable[[], None] = self._look

    def begin(self, cursor: str) -> None:
        self.cursors.append(cursor)
        self.is_ready.set()

    def change(self, cursor: str | None, content: bytes) -> None:
        self.cursors.append(cursor or "")
        self.types.append(orjson.loads(content)["type"])

    def tell(self, portion: Told) -> None:
        for cursor, content in portion.changes:
            self.change(cursor, content)

    def ping(self) -> None:
        self.pings += 1

    def end(self, error: PipeWeaveError | None) -> None:
        self.ended.append(error)
        self.is_open = False

    def _look(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def has(self, *types: str) -> bool:
        """Whether these came, once each and in this order; waits for them."""
        wait_until(lambda: len(self.types) >= len(types), 30, what=f"only {self.types} came")
        return self.types == list(types)


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    return driver.begin({"a": []})


@pytest.fixture
def watched(driver: RunDriver) -> Iterator[Hub]:
    made = Hub(driver.database, most=3)
    yield made
    made.close()


def write(driver: RunDriver, run_id: UUID, *types: str) -> None:
    with driver.database.transaction() as tx:
        event_log.append(tx, [Event(run_id, each) for each in types])


def watch(
    hub: Hub, wanted: WantedChanges, cursor: str | None = None, driver: RunDriver | None = None
) -> Watching:
    sink, place = Watching(), None
    if cursor is not None and driver is not None:
        with driver.database.reading() as tx:
            place = feed.resume(tx, cursor, wanted.tenant)
    hub.watch(wanted, sink, place)
    assert sink.is_ready.wait(60)
    return sink


def test_who_watches_a_tree_gets_what_happens_in_the_runs_inside(driver: RunDriver, watched: Hub) -> None:
    driver.store({"a": []}, id="inner")
    driver.store_steps(child("call", "inner"), id="outer")
    root = driver.trigger("outer")
    inner = only_child(driver, root)
    of_tree = watch(watched, WantedChanges(driver.tenant, run_id=root, is_tree=True))
    of_run = watch(watched, WantedChanges(driver.tenant, run_id=root))
    write(driver, inner, "run.paused")
    write(driver, root, "run.resumed")
    assert of_tree.has("run.paused", "run.resumed")
    assert of_run.has("run.resumed")
    again = watch(
        watched, WantedChanges(driver.tenant, run_id=root, is_tree=True), of_tree.cursors[0], driver
    )
    assert again.has("run.paused", "run.resumed")


def test_each_watcher_gets_what_it_wants(driver: RunDriver, run_id: UUID, watched: Hub) -> None:
    driver.store({"a": []}, id="other")
    other = driver.trigger("other")
    of_run = watch(watched, WantedChanges(driver.tenant, run_id=run_id))
    of_pipeline = watch(watched, WantedChanges(driver.tenant, pipeline="other"))
    of_type = watch(watched, WantedChanges(driver.tenant, frozenset({"run.paused"})))
    write(driver, run_id, "run.paused", "run.resumed")
    write(driver, other, "run.paused")
    assert of_run.has("run.paused", "run.resumed")
    assert of_pipeline.has("run.paused")
    assert of_type.has("run.paused", "run.paused")


def test_changes_of_the_state_come_by_one_name_beside_those_with_their_own(
    driver: RunDriver, run_id: UUID, watched: Hub
) -> None:
    types = frozenset({"run.paused", "run.resumed"})
    plain = watch(watched, WantedChanges(driver.tenant, types))
    states = watch(watched, WantedChanges(driver.tenant, types, as_state=True))
    write(driver, run_id, "run.paused", "run.signalled", "run.resumed")
    assert plain.has("run.paused", "run.resumed")
    assert states.has("state_updated", "state_updated")


def test_what_a_crowd_watches_is_shown_and_looked_at_once(
    driver: RunDriver, run_id: UUID, watched: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    looks: list[int] = []
    content = changes.content

    def look() -> None:
        looks.append(1)

    def counted(event: FeedEvent, *, as_state: bool = False) -> bytes:
        shown.append(event.type)
        return content(event, as_state=as_state)

    monkeypatch.setattr(changes, "content", counted)
    crowd = [Watching() for _ in range(3)]
    for each in crowd:
        each.check = look
        watched.watch(WantedChanges(driver.tenant, run_id=run_id), each)
        assert each.is_ready.wait(60)
    write(driver, run_id, "run.paused", "run.resumed")
    assert all(each.has("run.paused", "run.resumed") for each in crowd)
    assert crowd[0].cursors[1:] == crowd[1].cursors[1:] == crowd[2].cursors[1:]
    assert shown == ["run.paused", "run.resumed"]
    looks.clear()
    monkeypatch.setattr(hub, "CHECK_S", 60.0)
    monkeypatch.setattr(watched, "_check_at", 0.0)
    monkeypatch.setattr(watched, "_tend_at", 0.0)
    wait_until(lambda: bool(looks))
    write(driver, run_id, "run.cancelled")
    assert crowd[2].has("run.paused", "run.resumed", "run.cancelled")
    assert len(looks) == 1


def test_one_more_than_allowed_is_refused(driver: RunDriver, watched: Hub) -> None:
    sinks = [watch(watched, WantedChanges(driver.tenant)) for _ in range(3)]
    with pytest.raises(TooManyStreams):
        watched.check_room(somebody())
    sinks[0].is_open = False
    wait_until(lambda: watched.count == 2, 30)
    watched.check_room(somebody())


def test_who_has_no_room_goes_on_later_and_misses_nothing(
    driver: RunDriver, run_id: UUID, watched: Hub
) -> None:
    full, other = (watch(watched, WantedChanges(driver.tenant, run_id=run_id)) for _ in range(2))
    full.has_room = False
    write(driver, run_id, "run.paused")
    write(driver, run_id, "run.resumed")
    assert other.has("run.paused", "run.resumed")
    assert not full.types
    full.has_room = True
    assert full.has("run.paused", "run.resumed")
    write(driver, run_id, "run.cancelled")
    assert full.has("run.paused", "run.resumed", "run.cancelled")


def test_who_has_no_room_for_long_is_ended(
    driver: RunDriver, run_id: UUID, watched: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SLOW_S", 0.0)
    slow = watch(watched, WantedChanges(driver.tenant, run_id=run_id))
    slow.has_room = False
    write(driver, run_id, "run.paused")
    wait_until(lambda: bool(slow.ended))
    assert slow.ended[0] is not None and slow.ended[0].code == "SLOW_READER"
    again = watch(watched, WantedChanges(driver.tenant, run_id=run_id), slow.cursors[-1], driver)
    assert again.has("run.paused")


def test_who_may_not_watch_any_more_is_ended(
    driver: RunDriver, watched: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "CHECK_S", 0.0)
    sink = watch(watched, WantedChanges(driver.tenant))
    sink.refusal = Forbidden("no more")
    wait_until(lambda: sink.ended == [sink.refusal])


def break_session(driver: RunDriver) -> None:
    """End the session that the thread reads with: its pool has one."""

    def pid_of_session() -> int:
        try:
            with driver.database.following() as tx:
                return int(tx.execute("SELECT pg_backend_pid()").scalar_one())
        except Unavailable:  # the one that was ended before, which nobody has used since
            return pid_of_session()

    pid = pid_of_session()
    with driver.database.transaction() as tx:
        tx.execute("SELECT pg_terminate_backend(:pid, 5000)", {"pid": pid})


def test_a_session_that_breaks_costs_nobody_anything(driver: RunDriver, run_id: UUID, watched: Hub) -> None:
    sink = watch(watched, WantedChanges(driver.tenant, run_id=run_id))
    for type in ("run.paused", "run.resumed", "run.cancelled"):
        break_session(driver)
        write(driver, run_id, type)
    assert sink.has("run.paused", "run.resumed", "run.cancelled")
    assert sink.is_open


def test_when_another_database_answers_the_streams_end(
    driver: RunDriver, watched: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = watch(watched, WantedChanges(driver.tenant))
    monkeypatch.setattr(feed, "identity", lambda tx: "another")
    break_session(driver)
    wait_until(lambda: bool(sink.ended))
    assert isinstance(sink.ended[0], CursorExpired)


def test_a_process_that_stops_ends_its_streams(driver: RunDriver, watched: Hub) -> None:
    sink = watch(watched, WantedChanges(driver.tenant))
    watched.close()
    late = Watching()
    watched.watch(WantedChanges(driver.tenant), late)
    assert (sink.ended, late.ended) == ([None], [None])
    with pytest.raises(TooManyStreams):
        watched.check_room(somebody())


def test_its_thread_ends_when_nobody_watches(
    driver: RunDriver, run_id: UUID, watched: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "IDLE_S", 0.0)
    before = threading.active_count()
    watch(watched, WantedChanges(driver.tenant)).is_open = False
    wait_until(lambda: threading.active_count() <= before)
    again = watch(watched, WantedChanges(driver.tenant, run_id=run_id))
    write(driver, run_id, "run.paused")
    assert again.has("run.paused")
