"""Runs SQL text with named parameters, and prepares a statement that a process sends often.

Planning a statement on a partitioned table costs more than executing it. A prepared statement is planned once
per connection, and its plan prunes partitions when it runs.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from pipeweave.orchestrator.store.rows import Result
from pipeweave.orchestrator.store.silence import WatchedConnection

# A statement that this process has sent more often is prepared; that costs a round trip.
PREPARE_AFTER = 3

# A statement that names rows by a list (`state/named_rows.py`) looks up each name by the key, in nested
# loops, as all verbs do (`session_settings.VERBS`). With more names than this PostgreSQL may turn the loops
# around: it expects a single row of a run that is new to it, and would go through the whole list for each of
# its rows. So such a statement is planned as a hash join: one look at the run, and one at the list.
MANY_NAMES = 200
_NAMES_ROWS = re.compile(r"\((\w+\.\w+) = \1\) IS TRUE")
_BY_HASH = "SET LOCAL enable_nestloop = off; SET LOCAL enable_hashjoin = on; "
_AS_BEFORE = "SET LOCAL enable_nestloop TO DEFAULT; SET LOCAL enable_hashjoin TO DEFAULT; "

# `:name`, but not the second colon of a cast, nor a colon inside a word.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_PREPARABLE = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")

_TYPES = {UUID: "uuid", datetime: "timestamptz", timedelta: "interval"}


def _list_text(values: list[Any]) -> Any:
    """A list of ids or numbers as PostgreSQL writes an array; others are left to the driver."""
    if not values or type(values[0]) not in (UUID, int):
        return values
    return f"{{{','.join(['NULL' if each is None else str(each) for each in values])}}}"


# How the values of a prepared statement are sent, whose types PostgreSQL knows. The driver names the type of
# each id and each time, also of a hundred in a list, and PostgreSQL would look it up as often.
_TEXTS: Mapping[type, Callable[[Any], Any]] = {UUID: str, datetime: datetime.isoformat, list: _list_text}

_numbers = itertools.count(1)


class Statement:
    """One SQL text, in its plain and its prepared form."""

    def __init__(self, sql: str) -> None:
        self.names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
        self.is_preparable = _PREPARABLE.match(sql) is not None
        self.names_rows = _NAMES_ROWS.search(sql) is not None
        self.sent = 0
        # The driver reads a percent sign as a parameter of its own.
        self._plain = _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
        places = {name: f"${number}" for number, name in enumerate(self.names, start=1)}
        self._name = f"pw_{next(_numbers)}"
        self._body = _PARAMETER.sub(lambda match: places[match[1]], sql)
        arguments = ", ".join(["%s"] * len(self.names))
        self._execute = f"EXECUTE {self._name}({arguments})" if arguments else f"EXECUTE {self._name}"

    def run(
        self,
        connection: WatchedConnection,
        parameters: Mapping[str, Any],
        opening: str = "",
        before: Statement | None = None,
    ) -> Result:
        """Execute the statement, prepared if it was sent often enough and the session is this process's own.

        Args:
            opening: SQL text that is sent in front.
            before: a statement that is sent in front; its parameters are among `parameters`.
        """
        self.sent += 1
        cursor = connection.cursor()
        local = connection.local
        if local is not None and (opening or _begins_a_transaction(connection)):
            opening += local
        if self.names_rows and _longest(parameters) > MANY_NAMES:
            return self._run_by_hash(connection, parameters, opening, before)
        if local is not None or self.sent <= PREPARE_AFTER or not self.is_preparable:
            first = f"{before._plain}; " if before else ""
            cursor.execute(opening + first + self._plain, parameters)
            return Result(cursor)
        values, text = [], ""
        for each in (before, self) if before else (self,):
            own = [parameters[name] for name in each.names]
            if each._name not in connection.prepared:
                cursor.execute(opening + each._prepare(own))
                connection.prepared.add(each._name)
                opening = ""
            values += [_TEXTS[type(value)](value) if type(value) in _TEXTS else value for value in own]
            text += each._execute if each is self else f"{each._execute}; "
        cursor.execute(opening + text, values)
        return Result(cursor)

    def _run_by_hash(
        self,
        connection: WatchedConnection,
        parameters: Mapping[str, Any],
        opening: str,
        before: Statement | None,
    ) -> Result:
        """Execute the statement as a hash join; what follows in the transaction is planned as before."""
        first = f"{before._plain}; " if before else ""
        cursor = connection.cursor()
        cursor.execute(opening + first + _BY_HASH + self._plain, parameters)
        if not _begins_a_transaction(connection):
            connection.cursor().execute(_AS_BEFORE + (connection.local or ""))
        return Result(cursor)

    def _prepare(self, values: Sequence[Any]) -> str:
        """The PREPARE command; where the text leaves a parameter's type open, the value decides."""
        types = ", ".join(_TYPES.get(type(value), "unknown") for value in values)
        return f"PREPARE {self._name}{f' ({types})' if types else ''} AS {self._body}"


def _longest(parameters: Mapping[str, Any]) -> int:
    """How many names the longest list of the parameters has."""
    longest = 0
    for each in parameters.values():
        if isinstance(each, list) and len(each) > longest:
            longest = len(each)
    return longest


def _begins_a_transaction(connection: WatchedConnection) -> bool:
    """Whether the next statement begins a transaction, or is one."""
    return connection.get_transaction_status() == TRANSACTION_STATUS_IDLE


# Larger than the number of texts: an evicted text would be prepared anew under another name.
@functools.lru_cache(maxsize=4096)
def statement(sql: str) -> Statement:
    """The statement of an SQL text."""
    return Statement(sql)
