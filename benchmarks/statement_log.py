"""Measure statement times from PostgreSQL's log: the server's time, without network and client.

The wheel's PostgreSQL has no pg_stat_statements, and that would keep no percentiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2

# "LOG:  duration: 0.071 ms  statement: EXECUTE ..." and, after it, the prepared statement.
_ENTRY = re.compile(
    r"^\S+ \S+ \S+ \[(\d+)\] (LOG|DETAIL|STATEMENT|ERROR|FATAL|WARNING|HINT|CONTEXT):  ", re.M
)
_DURATION = re.compile(r"duration: ([\d.]+) ms  (?:statement|execute [^:]*): ")

Entry = tuple[int, str, float]


@dataclass(slots=True)
class Recorded:
    """The statements of a recording; empty until the recording ends.

    Args:
        statements: the process id of the session, the text and its milliseconds, as they ended.
    """

    statements: list[Entry] = field(default_factory=list)

    def of(self, pattern: str) -> list[float]:
        """The milliseconds of the statements that contain this pattern."""
        wanted = re.compile(pattern, re.S)
        return [took for _, text, took in self.statements if wanted.search(text)]


@dataclass(frozen=True, slots=True)
class StatementLog:
    """A server that logs to a file.

    Args:
        admin_url: the URL of its superuser.
        file: the file of its standard error.
    """

    admin_url: str
    file: Path

    @contextmanager
    def recording(self) -> Iterator[Recorded]:
        """Log every statement while the block works, in all sessions."""
        recorded = Recorded()
        self._set("0")
        start = self.file.stat().st_size
        try:
            yield recorded
        finally:
            self._set("-1")
        with self.file.open("rb") as log:
            log.seek(start)
            recorded.statements = list(_statements(log.read().decode(errors="replace")))

    def _set(self, least_ms: str) -> None:
        with closing(psycopg2.connect(self.admin_url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f"ALTER SYSTEM SET log_min_duration_statement = {least_ms}")
                cursor.execute("SELECT pg_reload_conf()")


def _statements(text: str) -> Iterator[Entry]:
    """Every logged statement; a prepared one with its text."""
    parts = _ENTRY.split(text)
    last: Entry | None = None
    for session, kind, said in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if kind == "DETAIL" and last is not None:
            last = (last[0], f"{last[1]}\n{said}", last[2])
        elif kind == "LOG" and (found := _DURATION.match(said)):
            if last is not None:
                yield last
            last = (int(session), said[found.end() :], float(found[1]))
    if last is not None:
        yield last
