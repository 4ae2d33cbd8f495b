"""Asks PostgreSQL, on a connection of its own, what it is doing for other sessions of this process.

It is asked because a session does not answer. So nothing here waits without a limit.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from enum import Enum
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ

# A question with its connection takes so long (s) at most; the resolver of host names may take longer.
ANSWER_WITHIN_S = 2.0
# The server waits so long (ms) for a session to be gone that it was told to end.
GONE_WITHIN_MS = 500

# A pooler gives its clients numbers of its own, which mean nothing to the server.
_ASK = """
SELECT asked.pid, s.state, extract(epoch FROM clock_timestamp() - s.backend_start),
       pg_backend_pid() = %(own)s AS is_direct
FROM unnest(%(pids)s) AS asked (pid) LEFT JOIN pg_stat_activity AS s ON s.pid = asked.pid
"""

# A session that began since has the number of one that is gone.
_END = f"""
SELECT pg_terminate_backend(s.pid, {GONE_WITHIN_MS})
FROM pg_stat_activity AS s JOIN unnest(%(pids)s, %(seconds)s) AS silent (pid, seconds) ON silent.pid = s.pid
WHERE s.usename = current_user AND s.datname = current_database()
  AND clock_timestamp() - s.backend_start >= make_interval(secs => silent.seconds)
"""

_WAITING_FOR_CLIENT = ("idle", "idle in transaction", "idle in transaction (aborted)")
_EXECUTING = ("active", "fastpath function call")


class ServerActivity(Enum):
    """What the server does for a session whose client waits for an answer."""

    EXECUTING = "executing"
    # It waits for its client, or is gone: nobody will answer.
    SILENT = "silent"
    # The server could not be asked, or does not tell.
    UNKNOWN = "unknown"


# A session by the number of its server process, and how long (s) its client has waited.
Waiting = tuple[int, float]


def ask(dsn: str, waiting: Sequence[Waiting]) -> list[ServerActivity]:
    """What the server does for each of these sessions."""
    try:
        answers = {row[0]: row[1:] for row in _answer(dsn, _ASK, waiting)}
    except (psycopg2.Error, TimeoutError):
        return [ServerActivity.UNKNOWN] * len(waiting)
    return [finding_of(seconds, *answers[pid]) for pid, seconds in waiting]


def end(dsn: str, silent: Sequence[Waiting]) -> None:
    """End these sessions on the server, so that what they hold is free and what they did is certain."""
    # Without an answer, the server finds out by itself, if later.
    with suppress(psycopg2.Error, TimeoutError):
        _answer(dsn, _END, silent)


def finding_of(seconds: float, state: str | None, age: float | None, is_direct: bool) -> ServerActivity:
    """Judge what was found of a session.

    Args:
        seconds: for how long its client has waited.
        state: of the session; None if there is none, or if it is another user's.
        age: how long it exists (s); None like `state`.
        is_direct: whether there is no pooler in between.
    """
    if not is_direct:
        return ServerActivity.UNKNOWN
    if age is None or age < seconds or state in _WAITING_FOR_CLIENT:
        return ServerActivity.SILENT
    return ServerActivity.EXECUTING if state in _EXECUTING else ServerActivity.UNKNOWN


def _answer(dsn: str, question: str, sessions: Sequence[Waiting]) -> list[tuple[Any, ...]]:
    """Raises: psycopg2.Error, TimeoutError: there was no answer."""
    until = time.monotonic() + ANSWER_WITHIN_S
    with closing(psycopg2.connect(dsn, async_=1)) as connection:
        _wait(connection, until)
        parameters = {
            "own": connection.info.backend_pid,
            "pids": [pid for pid, _ in sessions],
            "seconds": [seconds for _, seconds in sessions],
        }
        cursor = connection.cursor()
        cursor.execute(question, parameters)
        _wait(connection, until)
        return list(cursor.fetchall())


def _wait(connection: Any, until: float) -> None:
    while (state := connection.poll()) != POLL_OK:
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLIN if state == POLL_READ else select.POLLOUT)
        if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimeoutError("PostgreSQL did not answer")
