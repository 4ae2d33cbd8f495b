"""A database in which time stands still, or goes on only as a story needs it: for pages that must look alike
each time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest.mock import patch

import psycopg2

from pipeweave import ids

# A Monday noon of the past, so that no month of it is to come.
FROZEN = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)

# What the statements of the product call `now()` is found in this schema first. Defaults of columns, which
# were bound when the tables were made, keep the true clock.
_FREEZE = """
CREATE SCHEMA frozen;
CREATE TABLE frozen.clock (at timestamptz NOT NULL);
INSERT INTO frozen.clock VALUES (%(at)s);
CREATE FUNCTION frozen.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM frozen.clock';
CREATE FUNCTION frozen.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT at FROM frozen.clock';
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %%I SET search_path = frozen, pg_catalog, public', current_database());
END $$
"""


class FrozenClock:
    """The clock of a database, for its statements and for `Database(now=…)`.

    Args:
        url: of a database of this clock's own; only sessions that begin later see the clock.
        at: when it stands.
    """

    def __init__(self, url: str, at: datetime = FROZEN) -> None:
        self.began = self._at = at
        # Moves on at each look by a time drawn from here (ms), while there is one.
        self.pace: tuple[int, int] | None = None
        self._chance = random.Random(14)
        self._connection = psycopg2.connect(url)
        self._connection.autocommit = True
        with self._connection.cursor() as cursor:
            cursor.execute(_FREEZE, {"at": at})

    def __call__(self) -> datetime:
        if self.pace is not None:
            self.at += timedelta(milliseconds=self._chance.randint(*self.pace))
        return self._at

    @property
    def at(self) -> datetime:
        """Its time."""
        return self._at

    @at.setter
    def at(self, moment: datetime) -> None:
        self._at = moment
        with self._connection.cursor() as cursor:
            cursor.execute("UPDATE frozen.clock SET at = %s", [moment])

    def close(self) -> None:
        self._connection.close()


@contextmanager
def same_ids() -> Iterator[None]:
    """Within the block, new ids are the same each time."""
    chance = random.Random(14)
    with patch.object(ids, "chance", SimpleNamespace(bits=chance.getrandbits)), _no_newest():
        yield


@contextmanager
def _no_newest() -> Iterator[None]:
    # An id is higher than the one before it, which another test may have made in the same millisecond.
    with patch.object(ids, "_newest", 0):
        yield
