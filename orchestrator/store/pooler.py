"""Finds a connection pooler between this process and PostgreSQL, and does without what it would lose.

A pooler in transaction mode, such as PgBouncer, may give each transaction another session of PostgreSQL. So
nothing may be left in a session: no prepared statement, no setting, no lock that outlives its transaction.
Settings then travel with each transaction, or with a statement that is one.

A pooler gives its clients process numbers of its own: where PostgreSQL's number of the session is another
one, there is a pooler. Its mode cannot be told, so one in session mode is used in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import psycopg2
from psycopg2.extras import register_default_json, register_default_jsonb

from pipeweave.orchestrator.store import driver_types
from pipeweave.orchestrator.store.hosts import Hosts
from pipeweave.orchestrator.store.silence import Cursor, WatchedConnection
from pipeweave.orchestrator.store.timeline import TIMELINE, Timeline

# What a pooler says that does not take options of the server (PgBouncer takes none, or only some).
_REFUSED = "unsupported startup parameter"

# Which session this is, and of which server.
_WHO = f"SELECT pg_backend_pid(), {TIMELINE}"

# No plan is kept where no statement is prepared.
_WITHOUT_EFFECT = "plan_cache_mode"
# Settings of later transactions, and their names for the transaction that has begun.
_OF_THIS = {"default_transaction_read_only": "transaction_read_only"}


class Pooler:
    """Opens connections, and looks at each whether it leads to a pooler.

    Args:
        arguments: of the driver's `connect`.
        settings: of the server for its sessions.
        hosts: of the servers that a connection may be made to.
        timeline: takes in that of the server of each connection.
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        settings: Mapping[str, object],
        hosts: Hosts,
        timeline: Timeline,
    ) -> None:
        self._arguments = arguments
        self._hosts = hosts
        self._timeline = timeline
        self._local = local_settings(settings)
        self._takes_options = True

    def connect(self) -> WatchedConnection:
        """Open a connection; each of its statements is a transaction until a BEGIN.

        Raises:
            psycopg2.Error: it cannot be opened.
        """
        connection = self._open({**self._arguments, **self._hosts.arguments()})
        try:
            self._hosts.record(connection)
            connection.autocommit = True
            driver_types.register(connection)
            register_default_json(connection, loads=orjson.loads)
            register_default_jsonb(connection, loads=orjson.loads)
            self._find_out(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, arguments: Mapping[str, Any]) -> WatchedConnection:
        if self._takes_options:
            try:
                return _connected(self._hosts.url, arguments)
            except psycopg2.OperationalError as error:
                if _REFUSED not in str(error):
                    raise
                self._takes_options = False
        without = {name: arguments[name] for name in arguments if name != "options"}
        return _connected(self._hosts.url, without)

    def _find_out(self, connection: WatchedConnection) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_WHO)
            pid, timeline = cursor.fetchone() or (None, None)
        self._timeline.record(timeline)
        if pid != connection.pid or not self._takes_options:
            connection.local = self._local


def _connected(url: str, arguments: Mapping[str, Any]) -> WatchedConnection:
    return psycopg2.connect(url, connection_factory=WatchedConnection, cursor_factory=Cursor, **arguments)


def local_settings(settings: Mapping[str, object]) -> str:
    """The statements that give one transaction these settings of the server."""
    return "".join(
        f"SET LOCAL {_OF_THIS.get(name, name)} = '{value}'; "
        for name, value in settings.items()
        if name != _WITHOUT_EFFECT
    )
