"""While two versions of the code run side by side, places of the version before move with the consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import pytest
from support.concurrency import call_concurrently
from support.consumed_events import SEQS, TYPES, Consumer, History, Killed
from support.schemas import steps_up
from support.servers import new_database

from pipeweave.orchestrator.deployment.schema_history import SchemaHistory
from pipeweave.orchestrator.feed import Place, SeenTransactions, consumers, feed, place_text, stretch
from pipeweave.orchestrator.feed.place import texts
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.up.postgres import Postgres

STEPS = 300

# What the version before sends.
_COLUMNS = "CAST(p.before AS text) AS before, CAST(p.open AS text[]) AS open"
_LOCK = f"SELECT {_COLUMNS} FROM stats_place AS p FOR NO KEY UPDATE OF p SKIP LOCKED"
_FOLDED = """
UPDATE stats_place SET before = CAST(CAST(:before AS text) AS xid8),
    open = CAST(CAST(:open AS text[]) AS xid8[]), folded_at = :at
"""
_READ = f"SELECT {_COLUMNS} FROM trace_place AS p"
_SENT = """
UPDATE trace_place SET before = CAST(CAST(:before AS text) AS xid8),
    open = CAST(CAST(:open AS text[]) AS xid8[]), sent_at = statement_timestamp()
WHERE before = CAST(CAST(:old AS text) AS xid8) AND open = CAST(CAST(:old_open AS text[]) AS xid8[])
"""


class Before(Consumer):
    """A consumer of the version before."""

    names: ClassVar[tuple[str, ...]] = ("statistics", "traces")

    def consume(self, *, may_die: bool = True) -> bool:
        with suppress(Killed):
            if self.name == "traces":
                return self._send(may_die)
            return self.database.run(lambda tx: self._consume(tx, may_die))
        return False

    def _consume(self, tx: Transaction, may_die: bool) -> bool:
        row = tx.execute(_LOCK).one_or_none()
        if row is None:
            return False
        span = self._ahead(tx, row)
        seqs = self._seqs(tx, span)
        self._live(may_die)
        if not span.is_empty:
            tx.execute(_FOLDED, {**_after(span), "at": span.at})
        tx.after_commit(lambda: self.consumed.update(seqs))
        return span.more

    def _send(self, may_die: bool) -> bool:
        with self.database.reading() as tx:
            row = tx.execute(_READ).one()
            span = self._ahead(tx, row)
            seqs = self._seqs(tx, span)
        self._live(may_die)
        with self.database.statements() as tx:
            moved = tx.execute(_SENT, {**_after(span), "old": row.before, "old_open": row.open}).rowcount
        if moved:
            self.consumed.update(seqs)
        return span.more

    def _ahead(self, tx: Transaction, row: Any) -> stretch.EventStretch:
        seen = SeenTransactions(int(row.before), tuple(int(each) for each in row.open))
        return stretch.ahead(tx, seen, limit=self._chance.randrange(1, 20))


def _after(span: stretch.EventStretch) -> dict[str, Any]:
    return {"before": str(span.after.before), "open": texts(span.after.open)}


@pytest.mark.parametrize("seed", range(2))
def test_what_both_versions_consume_in_turns_is_consumed_once(fresh_database: Database, seed: int) -> None:
    with History(fresh_database, seed, Before) as made:
        made.go_on(2 * STEPS, drops=False)
        made.check()


def test_what_both_versions_count_at_once_is_counted_once(fresh_database: Database) -> None:
    with History(fresh_database, 0, Before) as made:
        for _ in range(STEPS):
            made.programs.move()
        made.programs.commit_all()
        counting = [each for each in made.consumers if each.name == "statistics"]
        call_concurrently(*(partial(_drain, each) for each in counting))
        made.check()


def _drain(consumer: Consumer) -> None:
    for _ in range(STEPS):
        with suppress(AssertionError):
            # The other one holds the place.
            consumer.consume(may_die=False)


def test_the_version_before_reads_on_where_triggers_were_read(fresh_database: Database) -> None:
    with History(fresh_database, 0) as made:
        made.go_on(STEPS, drops=False)
        made.check()
        made.programs.move()
        with fresh_database.transaction() as tx:
            row = tx.execute("SELECT CAST(since AS text) AS since, place FROM event_reader").one()
            unread = stretch.ahead(tx, SeenTransactions(int(row.since)), limit=1_000)
            left = set(tx.execute(SEQS, {**unread.parameters, "types": TYPES}).scalars())
        assert (row.place, left) == (None, set())


@pytest.fixture
def database(postgres_server: Postgres) -> Iterator[Database]:
    with new_database(postgres_server, "consumers_migrated") as url:
        opened = Database(url, pool_size=1)
        with opened.transaction() as tx:
            steps_up(tx, "0047")
        yield opened
        opened.dispose()


SEEN = SeenTransactions(900, (700, 850))


@pytest.mark.parametrize(
    "next", [None, SeenTransactions(1_000, (950,))], ids=["between batches", "within a batch"]
)
def test_the_places_of_the_version_before_are_those_of_the_consumers(
    database: Database, next: SeenTransactions | None
) -> None:
    with database.transaction() as tx:
        place = place_text.write(Place(SEEN, next, 7, at=5), feed.identity(tx))
        tx.execute("INSERT INTO event_reader VALUES (true, '1', :place, now())", {"place": place})
        tx.execute("UPDATE stats_place SET before = '901', open = '{800}', server = 'other'")
        tx.execute("INSERT INTO trace_place VALUES (true, '902', '{801}', 'other', now())")
        SchemaHistory().step_up(tx, "0048")
        rows = tx.execute(
            "SELECT name, CAST(before AS text), CAST(open AS text[]), server FROM feed_consumers"
        )
        assert sorted(map(tuple, rows)) == [
            ("statistics", "901", ["800"], "other"),
            ("traces", "902", ["801"], "other"),
            ("triggers", "900", ["700", "850"], "other"),
        ]


def test_where_nothing_fired_for_events_reading_begins_with_the_migration(database: Database) -> None:
    with database.transaction() as tx:
        SchemaHistory().step_up(tx, "0048")
        held = consumers.read(tx, "triggers")
        assert held is not None and not held.is_moved
        assert held.seen.before > 1
        assert consumers.read(tx, "traces") is None
        SchemaHistory().step_down(tx, "0048")
