"""Telling a client that a run has ended, as plain Celery's clients are told.

PipeWeave's clients look; a look each millisecond takes a good part of a core from what is measured, and sees
the end late. So runs of pipelines whose name begins with `told-` tell PostgreSQL's listeners, by a trigger
that exists in the measured database alone. What it costs is part of PipeWeave's figures.
"""

from __future__ import annotations

import select
import time

import psycopg2

from benchmarks.systems import BenchmarkFailed

PREFIX = "told-"
# Their runs take milliseconds.
LATE_S = 60.0

_SET_UP = """
CREATE FUNCTION tell_end() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('ended', NEW.id || ' ' || NEW.status); RETURN NULL; END $$;
CREATE TRIGGER tell_end AFTER UPDATE ON runs FOR EACH ROW
WHEN (NEW.finished_at IS NOT NULL AND NEW.pipeline_id LIKE 'told-%') EXECUTE FUNCTION tell_end();
LISTEN ended
"""


class Listener:
    """A connection that is told of every such end, after the commit."""

    def __init__(self, database_url: str) -> None:
        self._connection = psycopg2.connect(database_url)
        self._connection.autocommit = True
        self._connection.cursor().execute(_SET_UP)

    def close(self) -> None:
        """Hear no more."""
        self._connection.close()

    def wait(self, run_id: str) -> None:
        """Return when this run (a UUID) is completed.

        Raises:
            BenchmarkFailed: it ended otherwise, or not in time.
        """
        until = time.monotonic() + LATE_S
        while True:
            self._connection.poll()
            for told in self._connection.notifies:
                ended, status = told.payload.split()
                if ended == run_id:
                    self._connection.notifies.clear()
                    if status != "completed":
                        raise BenchmarkFailed(f"the run ended as {status}")
                    return
            self._connection.notifies.clear()
            left = until - time.monotonic()
            if left <= 0:
                raise BenchmarkFailed(f"the run did not end within {LATE_S:g} s")
            select.select([self._connection], [], [], left)
