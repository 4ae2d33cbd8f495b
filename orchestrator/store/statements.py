"""SQL text with named parameters as PostgreSQL likes it best: parsed and planned once per connection.

Planning a statement on a partitioned table costs more than executing it. What a process sends often is
prepared on the server, and such a plan looks at the partitions only when it runs.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.pool import PoolProxiedConnection

from pipeweave.orchestrator.store.rows import Result

# Sent this often by this process, a statement is worth a round trip for its preparation.
PREPARE_AFTER = 3

# `:name`, but not the second colon of a cast, nor a colon inside a word.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_PREPARABLE = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")

_TYPES = {UUID: "uuid", datetime: "timestamptz", timedelta: "interval"}

_numbers = itertools.count(1)


class Statement:
    """One SQL text: as it is sent plainly, and as it is prepared."""

    def __init__(self, sql: str) -> None:
        self.names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
        self.is_preparable = _PREPARABLE.match(sql) is not None
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
        connection: PoolProxiedConnection,
        parameters: Mapping[str, Any],
        opening: str = "",
        before: Statement | None = None,
    ) -> Result:
        """Execute it, prepared once it was sent often enough. `opening` travels in front of it, and so does
        the statement `before`, whose parameters are among these.
        """
        self.sent += 1
        cursor: Any = connection.cursor()
        if self.sent <= PREPARE_AFTER or not self.is_preparable:
            first = f"{before._plain}; " if before else ""
            cursor.execute(opening + first + self._plain, parameters)
            return Result(cursor)
        values, text = [], ""
        for each in (before, self) if before else (self,):
            own = [parameters[name] for name in each.names]
            # The info belongs to the connection to the server, and so do its prepared statements.
            if each._name not in connection.info:
                cursor.execute(opening + each._prepare(own))
                connection.info[each._name] = True
                opening = ""
            values += own
            text += each._execute if each is self else f"{each._execute}; "
        cursor.execute(opening + text, values)
        return Result(cursor)

    def _prepare(self, values: Sequence[Any]) -> str:
        """Where the statement leaves a parameter's type open, the value decides."""
        types = ", ".join(_TYPES.get(type(value), "unknown") for value in values)
        return f"PREPARE {self._name}{f' ({types})' if types else ''} AS {self._body}"


# More than there are: a text that is forgotten would be prepared anew under another name.
@functools.lru_cache(maxsize=4096)
def statement(sql: str) -> Statement:
    """The statement of an SQL text."""
    return Statement(sql)
