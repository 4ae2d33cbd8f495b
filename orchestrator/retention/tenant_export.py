"""Hands out everything that rows say of a tenant as lines of JSON, all of one moment.

    {"export": {"format": 1, "tenant": "shop", "at": …, "schema": "0080"}}
    {"table": "runs", "row": {…}}                  table after table, each row as it is stored
    {"table": "objects", "row": {"path": …, "sha256": …, "size": …, "of": "runs"}}
    {"manifest": {…, "tables": {"runs": {"rows": 12, "sha256": …}, …}, "leftOut": [{"what": …, "why": …}]}}

One snapshot serves all tables, so that what refers to a row finds it; whoever is interrupted begins anew. The
tables are those of `tenant_rows`: a new table is exported because it is deleted.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeweave.errors import NotFound
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.export import ExportPart
from pipeweave.orchestrator.retention.tenant_objects import OBJECTS, OBJECTS_OF
from pipeweave.orchestrator.retention.tenant_rows import OF_RUNS, OF_TENANT
from pipeweave.orchestrator.security.rewrapping import SealedColumn
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document

log = logging.getLogger(__name__)

FORMAT = 1
# Rows of a part. A row may hold a value of 100 KB.
FETCHED = 200
AUDIT = "audit"

LEFT_OUT = (
    ("the contents of objects", "values that are not in rows lie in storage; `objects` lists them"),
    ("access_tokens, ui_sessions, ui_links", "tokens and sessions of people"),
    ("archives", "months of history that were dropped lie in storage, below archive/runs"),
)
"""What no export has, and why."""

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# The transaction is idle while the client takes what was read.
_LONGEST_WAIT = "SET LOCAL idle_in_transaction_session_timeout = '10min'"
_SCHEMA = "SELECT max(version_num) FROM schema_migrations"
_IS_THERE = "SELECT 1 FROM tenants AS n WHERE n.id = :tenant"

# As JSON it is made by PostgreSQL, so that nothing of a value is lost on the way.
_ROW = "CAST(row_to_json(t) AS text)"
_OPEN_ROW = "CAST(to_jsonb(t) - CAST(:hidden AS text[]) AS text)"
_DECLARE = """
DECLARE exported NO SCROLL CURSOR FOR SELECT {row} AS line FROM {table} AS t WHERE t.{key} = :tenant
"""
_DECLARE_OF_RUNS = """
DECLARE exported NO SCROLL CURSOR FOR SELECT {row} AS line
FROM runs AS r JOIN {table} AS t ON t.run_id = r.id WHERE r.tenant_id = :tenant
"""
_DECLARE_OBJECTS = f"""
DECLARE exported NO SCROLL CURSOR FOR SELECT {_ROW} AS line FROM ({OBJECTS_OF}) AS t
"""
_FETCH = f"FETCH {FETCHED} FROM exported"
_CLOSE = "CLOSE exported"


@dataclass(frozen=True, slots=True)
class TenantExport:
    """An export of a whole tenant.

    Args:
        sealed: the columns of all tables that hold sealed texts; they are left out.
    """

    database: Database
    tenant: str
    sealed: Sequence[SealedColumn]

    def parts(self) -> Iterator[ExportPart]:
        """All parts, each in as much memory as FETCHED rows need. No part has a cursor to go on from.

        Raises:
            NotFound: there is no such tenant.
            Unavailable, Busy: PostgreSQL does not answer.
        """
        with self.database.transaction() as tx:
            tx.execute(_SNAPSHOT)
            tx.execute(_LONGEST_WAIT)
            if tx.execute(_IS_THERE, {"tenant": self.tenant}).one_or_none() is None:
                raise NotFound(f"tenant {self.tenant!r} not found")
            head = self._head(tx)
            log.info("tenant.export_began", extra={"tenant": self.tenant})
            yield _part([orjson.dumps({"export": head})])
            files: dict[str, _TableSum] = {}
            for table in exported_tables():
                yield from self._table(tx, table, files.setdefault(table, _TableSum()))
            yield _part([orjson.dumps({"manifest": self._manifest(head, files)})], is_last=True)
            log.info("tenant.exported", extra={"tenant": self.tenant})

    def _head(self, tx: Transaction) -> Document:
        schema = tx.execute(_SCHEMA).scalar_one()
        return {"format": FORMAT, "tenant": self.tenant, "at": iso(tx.now), "schema": schema}

    def _table(self, tx: Transaction, table: str, summed: _TableSum) -> Iterator[ExportPart]:
        _declare(tx, table, self.tenant, [each.column for each in self.sealed if each.table == table])
        while rows := list(tx.execute(_FETCH).scalars()):
            lines = [each.encode() for each in rows]
            summed.add(lines)
            yield _part([b'{"table":"%s","row":%s}' % (table.encode(), each) for each in lines])
        tx.execute(_CLOSE)

    def _manifest(self, head: Document, files: dict[str, _TableSum]) -> Document:
        sealed = [f"{each.table}.{each.column}" for each in self.sealed if each.table in files]
        left_out = [(", ".join(sealed), "sealed secrets"), *LEFT_OUT]
        return {
            **head,
            "tables": {name: each.to_json() for name, each in files.items()},
            "leftOut": [{"what": what, "why": why} for what, why in left_out if what],
        }


def exported_tables() -> tuple[str, ...]:
    """The tables of an export in their order: what is referred to by runs stands before what refers to it."""
    return ("tenants", *reversed(OF_TENANT), "runs", *reversed(OF_RUNS), AUDIT, OBJECTS)


def _declare(tx: Transaction, table: str, tenant: str, hidden: Sequence[str]) -> None:
    """Begin to read a table, without its hidden columns."""
    row = _OPEN_ROW if hidden else _ROW
    if table == OBJECTS:
        statement = _DECLARE_OBJECTS
    elif table in OF_RUNS:
        statement = _DECLARE_OF_RUNS.format(row=row, table=table)
    else:
        statement = _DECLARE.format(row=row, table=table, key="id" if table == "tenants" else "tenant_id")
    tx.execute(statement, {"tenant": tenant, "hidden": list(hidden)})


@dataclass(slots=True)
class _TableSum:
    """How many rows of a table were handed out, and the hash of the file that they make."""

    rows: int = 0
    hash: Any = field(default_factory=hashlib.sha256)

    def add(self, lines: Sequence[bytes]) -> None:
        self.rows += len(lines)
        for each in lines:
            self.hash.update(each + b"\n")

    def to_json(self) -> Document:
        return {"rows": self.rows, "sha256": self.hash.hexdigest()}


def _part(lines: Sequence[bytes], *, is_last: bool = False) -> ExportPart:
    return ExportPart(b"".join(each + b"\n" for each in lines), len(lines), "", is_last)
