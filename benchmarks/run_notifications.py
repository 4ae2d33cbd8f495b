"""Notify the benchmark's client when a run ends, as plain Celery notifies its clients.

PipeWeave's clients poll. Polling every millisecond would take a good part of a core from the measured system,
and would see the end late. So a trigger, which exists only in the measured database, sends a notification
when a run of a pipeline whose name begins with `told-` ends. PipeWeave's figures include the trigger's cost.
"""

from __future__ import annotations

import select
import time

import psycopg2

from benchmarks.systems import BenchmarkFailed

PREFIX = "told-"
# A run ends within milliseconds; a later end is an error.
LATE_S = 60.0

_SET_UP = """
CREATE FUNCTION tell_end() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('ended', NEW.id || ' ' || NEW.status); RETURN NULL; END $$;
CREATE TRIGGER tell_end AFTER UPDATE ON runs FOR EACH ROW
WHEN (NEW.finished_at IS NOT NULL AND NEW.pipeline_id LIKE 'told-%') EXECUTE FUNCTION tell_end();
LISTEN ended
"""


class Listener:
    """A connection that PostgreSQL notifies of the end of each such run, after the commit."""

    def __init__(self, database_url: str) -> None:
        self._connection = psycopg2.connect(database_url)
        self._connection.autocommit = True
        self._connection.cursor().execute(_SET_UP)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def wait(self, run_id: str) -> None:
        """Return when this run (a UUID) is completed.

        Raises:
            BenchmarkFailed: the run ended with another status, or not in time.
        """
        until = time.monotonic() + LATE_S
        while True:
            self._connection.poll()
            for notification in self._connection.notifies:
                ended, status = notification.payload.split()
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
