"""Readers of the feed see each event exactly once, however the transactions that write them overlap."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from uuid import UUID

import psycopg2
import pytest
from psycopg2.extensions import connection as Connection
from support.run_driver import RunDriver

from pipeweave.errors import CursorExpired, InvalidInput
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.feed import Batch, Place, feed, place_text
from pipeweave.orchestrator.store import event_log
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    return driver.begin({"a": []})


class Reader:
    """Follows the events of one run; after each batch it may be a new process that knows only the text."""

    def __init__(self, driver: RunDriver, run_id: UUID, limit: int = 1_000) -> None:
        self.driver, self.run_id, self.limit = driver, run_id, limit
        self.seen: list[str] = []
        with driver.database.reading() as tx:
            self.place = feed.latest(tx)

    def read(self) -> list[str]:
        """Read all there is; what was new."""
        new: list[str] = []
        more = True
        while more:
            batch = self._batch()
            new += [each.type for each in batch.events]
            self.place, more = batch.place, batch.more
        self.seen += new
        return new

    def read_one(self) -> list[str]:
        """Read a batch, and go on after its first event."""
        batch = self._batch()
        if batch.events:
            self.place = batch.place_after(0)
            self.seen.append(batch.events[0].type)
        else:
            self.place = batch.place
        return [each.type for each in batch.events[:1]]

    def _batch(self) -> Batch:
        with self.driver.database.reading() as tx:
            return feed.read_after(tx, self.resumed(), run_id=self.run_id, limit=self.limit)

    def resumed(self) -> Place:
        with self.driver.database.reading() as tx:
            text = place_text.write(self.place, feed.identity(tx), self.driver.tenant)
            return feed.resume(tx, text, self.driver.tenant)


@pytest.fixture
def reader(driver: RunDriver, run_id: UUID) -> Reader:
    return Reader(driver, run_id)


def write(driver: RunDriver, run_id: UUID, *types: str) -> None:
    with driver.database.transaction() as tx:
        event_log.append(tx, [Event(run_id, each) for each in types])


class Session:
    """A program's own transaction on the same database."""

    def __init__(self, url: str) -> None:
        self.raw: Connection = psycopg2.connect(url)

    def write(self, run_id: UUID, type: str) -> None:
        self.execute("INSERT INTO events (run_id, at, type) VALUES (%s, now(), %s)", str(run_id), type)

    def execute(self, statement: str, *parameters: str) -> None:
        with self.raw.cursor() as cursor:
            cursor.execute(statement, parameters or None)


@contextmanager
def opened(driver: RunDriver) -> Iterator[Session]:
    session = Session(driver.database.url)
    yield session
    session.raw.close()


def test_events_come_once_and_in_their_order(driver: RunDriver, run_id: UUID, reader: Reader) -> None:
    assert reader.read() == []
    write(driver, run_id, "test.a", "test.b")
    write(driver, run_id, "test.c")
    assert reader.read() == ["test.a", "test.b", "test.c"]
    assert reader.read() == []


def test_a_transaction_that_stays_open_holds_back_nothing_and_loses_nothing(
    driver: RunDriver, run_id: UUID, reader: Reader
) -> None:
    with opened(driver) as long:
        long.write(run_id, "test.long")
        write(driver, run_id, "test.short")
        assert reader.read() == ["test.short"]
        write(driver, run_id, "test.next")
        assert reader.read() == ["test.next"]
        long.raw.commit()
        assert reader.read() == ["test.long"]
    assert reader.read() == []


def test_a_transaction_that_wrote_elsewhere_before_the_reader_began_is_not_missed(
    driver: RunDriver, run_id: UUID
) -> None:
    with opened(driver) as long:
        long.execute("CREATE TEMP TABLE mine (id int)")
        write(driver, run_id, "test.before")
        reader = Reader(driver, run_id)
        long.write(run_id, "test.long")
        long.raw.commit()
    assert reader.read() == ["test.long"]


def test_what_is_rolled_back_is_never_seen(driver: RunDriver, run_id: UUID, reader: Reader) -> None:
    with opened(driver) as long:
        long.write(run_id, "test.gone")
        write(driver, run_id, "test.kept")
        assert reader.read() == ["test.kept"]
        long.raw.rollback()
    assert reader.read() == []


def test_of_savepoints_only_what_is_kept_is_seen(driver: RunDriver, run_id: UUID, reader: Reader) -> None:
    with opened(driver) as long:
        long.execute("SAVEPOINT one")
        long.write(run_id, "test.gone")
        long.execute("ROLLBACK TO SAVEPOINT one")
        long.execute("SAVEPOINT two")
        long.write(run_id, "test.kept")
        write(driver, run_id, "test.other")
        assert reader.read() == ["test.other"]
        long.execute("RELEASE SAVEPOINT two")
        assert reader.read() == []
        long.raw.commit()
    assert reader.read() == ["test.kept"]


def test_batches_are_cut_anywhere(driver: RunDriver, run_id: UUID) -> None:
    reader = Reader(driver, run_id, limit=2)
    write(driver, run_id, *[f"test.{number}" for number in range(5)])
    for number in range(5, 9):
        write(driver, run_id, f"test.{number}")
    assert reader.read() == [f"test.{number}" for number in range(9)]


def test_a_reader_goes_on_after_any_event(driver: RunDriver, run_id: UUID, reader: Reader) -> None:
    write(driver, run_id, "test.0", "test.1")
    write(driver, run_id, "test.2", "test.3")
    while reader.read_one():
        write(driver, run_id, f"test.{len(reader.seen) + 3}") if len(reader.seen) < 3 else None
    assert reader.seen == [f"test.{number}" for number in range(len(reader.seen))]
    assert len(reader.seen) == 6


def test_types_tenant_and_pipeline_are_filters(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.reading() as tx:
        place = feed.latest(tx)
    write(driver, run_id, "test.a", "test.b")
    with driver.database.reading() as tx:
        found = feed.read_after(tx, place, types=["test.b", "test.c"], tenant=driver.tenant).events
        other = feed.read_after(tx, place, tenant="someone-else").events
        driven = feed.read_after(tx, place, tenant=driver.tenant, pipeline="driven").events
    assert [(each.type, each.run_id, each.pipeline_id) for each in found] == [("test.b", run_id, "driven")]
    assert not other
    assert [each.type for each in driven] == ["test.a", "test.b"]


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history_is_read_exactly_once(driver: RunDriver, run_id: UUID, seed: int) -> None:
    """Transactions of all lengths, with savepoints, some rolled back; readers with batches of all sizes."""
    chance = random.Random(seed)
    committed: list[str] = []
    with ExitStack() as stack:
        sessions = [stack.enter_context(opened(driver)) for _ in range(6)]
        waiting: list[list[str]] = [[] for _ in sessions]
        readers = [Reader(driver, run_id, limit) for limit in (1, 3, 1_000)]
        for step in range(400):
            number = chance.randrange(len(sessions))
            session, mine = sessions[number], waiting[number]
            move = chance.random()
            if move < 0.5:
                session.write(run_id, f"test.{step}")
                mine.append(f"test.{step}")
            elif move < 0.6:
                session.execute("SAVEPOINT here")
                session.write(run_id, f"test.gone-{step}")
                session.execute("ROLLBACK TO SAVEPOINT here")
            elif move < 0.65:
                session.raw.rollback()
                mine.clear()
            elif move < 0.8:
                session.raw.commit()
                committed += mine
                mine.clear()
            else:
                chance.choice((Reader.read, Reader.read_one))(chance.choice(readers))
        for reader in readers:
            reader.read()
            assert sorted(reader.seen) == sorted(committed)


# --- cursors that cannot be used --------------------------------------------------------------------------


def resume(driver: RunDriver, place: Place, tenant: str | None = None) -> Place:
    with driver.database.reading() as tx:
        text = place_text.write(place, feed.identity(tx), driver.tenant)
        return feed.resume(tx, text, tenant or driver.tenant)


def test_a_cursor_of_another_tenant_is_refused(driver: RunDriver, reader: Reader) -> None:
    with pytest.raises(InvalidInput):
        resume(driver, reader.place, "someone-else")


def test_a_cursor_of_another_database_has_expired(driver: RunDriver, reader: Reader) -> None:
    text = place_text.write(reader.place, "another", driver.tenant)
    with driver.database.reading() as tx, pytest.raises(CursorExpired):
        feed.resume(tx, text, driver.tenant)


def test_a_cursor_from_a_future_that_was_undone_has_expired(driver: RunDriver, reader: Reader) -> None:
    later = Place(reader.place.seen.__class__(reader.place.seen.before + 1_000_000), at=reader.place.at)
    with pytest.raises(CursorExpired):
        resume(driver, later)
    with driver.database.reading() as tx, pytest.raises(CursorExpired):
        feed.read_after(tx, later)


def note_dropped(driver: RunDriver, month: str, last: str | None) -> None:
    """Note that a month was dropped a moment later; `last` wrote the last event of it."""
    with driver.database.transaction() as tx:
        tx.execute(
            "INSERT INTO dropped_months (month, dropped_at, last_txid)"
            " VALUES (:month, now() + interval '1 s', CAST(CAST(:last AS text) AS xid8))",
            {"month": month, "last": last},
        )


def test_a_cursor_has_expired_when_history_was_dropped_that_came_after_it(
    isolated_driver: RunDriver,
) -> None:
    reader = Reader(isolated_driver, isolated_driver.begin({"a": []}))
    note_dropped(isolated_driver, "2020-01", "7")
    note_dropped(isolated_driver, "2020-02", "0")
    note_dropped(isolated_driver, "2020-03", None)
    assert resume(isolated_driver, reader.place) == reader.place
    note_dropped(isolated_driver, "2020-04", str(reader.place.seen.before))
    with pytest.raises(CursorExpired, match="2020-04"):
        resume(isolated_driver, reader.place)


def test_a_month_of_which_nobody_noted_the_last_event_was_missed_by_who_was_there_before_it_ended(
    isolated_driver: RunDriver,
) -> None:
    reader = Reader(isolated_driver, isolated_driver.begin({"a": []}))
    note_dropped(isolated_driver, "2999-01", None)
    with pytest.raises(CursorExpired, match="2999-01"):
        resume(isolated_driver, reader.place)


def test_a_cursor_has_expired_after_a_promotion(
    driver: RunDriver, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver.database.reading() as tx:
        here = feed.identity(tx)
        given = place_text.write(reader.place, here, driver.tenant)
        promoted = f"{here.rpartition('/')[0]}/{int(here.rpartition('/')[2], 16) + 3:08X}"
        monkeypatch.setattr(feed, "identity", lambda tx: promoted)
        with pytest.raises(CursorExpired):
            feed.resume(tx, given, driver.tenant)


def test_events_of_a_restored_dump_are_never_new(driver: RunDriver, run_id: UUID, reader: Reader) -> None:
    """A dump holds the numbers of another server's transactions; they may be ahead of this one's."""
    with driver.database.transaction() as tx:
        tx.execute(
            "INSERT INTO events (run_id, at, type, txid) SELECT :run_id, now(), 'test.restored', "
            "CAST(CAST(CAST(CAST(pg_current_xact_id() AS text) AS bigint) + n AS text) AS xid8) "
            "FROM generate_series(1, 5) AS n",
            {"run_id": run_id},
        )
    for number in range(6):
        write(driver, run_id, f"test.{number}")
        reader.read()
    assert reader.seen == [f"test.{number}" for number in range(6)]
