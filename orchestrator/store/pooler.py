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

import psycopg2
from sqlalchemy import Engine, event

from pipeweave.orchestrator.store.hosts import Hosts
from pipeweave.orchestrator.store.timeline import TIMELINE, Timeline

# The key of the settings for each transaction in a connection's `info`; only connections of a pooler have it.
LOCAL = "local"

# What a pooler says that does not take options of the server (PgBouncer takes none, or only some).
_REFUSED = "unsupported startup parameter"

# Which session this is, and of which server.
_WHO = f"SELECT pg_backend_pid(), {TIMELINE}"

# No plan is kept where no statement is prepared.
_WITHOUT_EFFECT = "plan_cache_mode"
# Settings of later transactions, and their names for the transaction that has begun.
_OF_THIS = {"default_transaction_read_only": "transaction_read_only"}


class Pooler:
    """Looks at each new connection of an engine.

    Args:
        engine: of psycopg2.
        settings: of the server for its sessions.
        hosts: of the servers that a connection may be made to.
        timeline: takes in that of the server of each connection.
    """

    def __init__(
        self, engine: Engine, settings: Mapping[str, object], hosts: Hosts, timeline: Timeline
    ) -> None:
        self._hosts = hosts
        self._timeline = timeline
        self._local = local_settings(settings)
        self._takes_options = True
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "connect", self._find_out)

    def _connect(self, dialect: Any, record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        connection = self._open(dialect, arguments, {**parameters, **self._hosts.arguments()})
        self._hosts.record(connection)
        return connection

    def _open(self, dialect: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        if self._takes_options:
            try:
                return dialect.connect(*arguments, **parameters)
            except psycopg2.OperationalError as error:
                if _REFUSED not in str(error):
                    raise
                self._takes_options = False
        return dialect.connect(
            *arguments, **{name: parameters[name] for name in parameters if name != "options"}
        )

    def _find_out(self, connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_WHO)
            pid, timeline = cursor.fetchone()
        self._timeline.record(timeline)
        if pid != connection.get_backend_pid() or not self._takes_options:
            record.info[LOCAL] = self._local


def local_settings(settings: Mapping[str, object]) -> str:
    """The statements that give one transaction these settings of the server."""
    return "".join(
        f"SET LOCAL {_OF_THIS.get(name, name)} = '{value}'; "
        for name, value in settings.items()
        if name != _WITHOUT_EFFECT
    )
