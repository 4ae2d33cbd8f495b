"""Asks PostgreSQL which indexes a statement's plan reads.

Plans are generic, for any parameters, and made in a database that holds nothing, as those are that a process
prepares and keeps (store/statements.py). The session has the options of every connection that writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store.database import Transaction
from sql_pages.composed import MONTH

# The PostgreSQL whose plans the pages show.
MAJOR = 18

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_PLANNED = re.compile(r"[\s(]*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b")
_CURSOR = re.compile(r"\s*DECLARE .*? CURSOR FOR\s", re.DOTALL)
# Where a statement leaves a parameter's type open, its value decides; here its name does.
_TYPES = {
    "now": "timestamptz",
}

_PARENTS = """
SELECT c.relname AS part, p.relname AS whole FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
"""


class Plans:
    """Plans of statements in one database.

    Args:
        tx: in a migrated database without rows.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        for parent in partitions.PARTITIONED:
            partitions._create(tx, parent, MONTH.table(parent), partitions.bounds_of(MONTH))
        self._parents = {row.part: row.whole for row in tx.execute(_PARENTS)}

    def indexes(self, sql: str) -> list[str]:
        """The indexes that the plan of a statement reads, those of partitions by their parents' names, and
        the tables that it reads as a whole. Nothing for a statement that has no plan.
        """
        text = _CURSOR.sub("", sql)
        if not _PLANNED.match(text):
            return []
        names = list(dict.fromkeys(_PARAMETER.findall(text)))
        numbered = _PARAMETER.sub(lambda match: _numbered(match[1], names), text)
        answer: Any = self._tx.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered}").scalar_one()
        return sorted({each for node in _nodes(answer[0]["Plan"]) for each in self._used(node)})

    def _used(self, node: dict[str, Any]) -> Iterator[str]:
        for name in (node.get("Index Name"), *node.get("Conflict Arbiter Indexes", ())):
            if name:
                yield f"`{self._parents.get(name, name)}`"
        if node["Node Type"] == "Seq Scan":
            name = node["Relation Name"]
            yield f"all of `{self._parents.get(name, name)}`"


def _numbered(name: str, names: list[str]) -> str:
    place = f"${names.index(name) + 1}"
    return f"CAST({place} AS {_TYPES[name]})" if name in _TYPES else place


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)
