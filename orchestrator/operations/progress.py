"""The row of an operation: which are under way, how far each is, and that one was stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.store.database import Database, Transaction

RUNNING, COMPLETED, CANCELLED, STOPPED = "running", "completed", "cancelled", "stopped"


@dataclass(frozen=True, slots=True)
class Table:
    """The table of a kind of operations.

    Args:
        name: in PostgreSQL.
        noun: what people call one of its operations.
        prefix: of their ids.
        columns: SQL of the columns that this kind has and others have not, or by another name.
        records: SQL of what a batch sets besides, with a comma behind it.
    """

    name: str
    noun: str
    prefix: str
    columns: str
    records: str = ""

    @property
    def is_due(self) -> str:
        """SQL: whether an operation is under way."""
        return f"EXISTS (SELECT 1 FROM {self.name} WHERE status = '{RUNNING}')"

    def missing(self, id: UUID) -> NotFound:
        """The error for an operation that does not exist or belongs to another tenant."""
        return NotFound(f"{self.noun} {ids.show(self.prefix, id)} not found")


_UNDER_WAY = f"""
SELECT id, tenant_id, filter, created_by, last_id, next_at, most, per_second, {{columns}}
FROM {{table}}
WHERE status = '{RUNNING}' AND id <> ALL(CAST(:without AS uuid[])) ORDER BY created_at LIMIT :number
"""


def under_way(database: Database, table: Table, without: Sequence[UUID], number: int) -> list[Any]:
    """The rows of the oldest operations that are under way, without these."""
    statement = _UNDER_WAY.format(table=table.name, columns=table.columns)
    with database.statements() as tx:
        return list(tx.execute(statement, {"without": list(without), "number": number}))


# Where another process has recorded its batch of the same objects, this one counts nothing again.
_RECORD = f"""
UPDATE {{table}} SET skipped = skipped + :skipped, last_id = coalesce(:last_id, last_id),
    next_at = coalesce(:next_at, next_at), {{records}} status = :status,
    finished_at = CASE WHEN CAST(:status AS text) <> '{RUNNING}' THEN CAST(:now AS timestamptz) END
WHERE id = :id AND status = '{RUNNING}' AND last_id IS NOT DISTINCT FROM CAST(:before AS uuid)
"""


def record(tx: Transaction, table: Table, brought: Mapping[str, Any]) -> bool:
    """Record what a batch has brought; False where the operation was stopped, or another process did so.

    Args:
        brought: the parameters of the statement.
    """
    return bool(tx.execute(_RECORD.format(table=table.name, records=table.records), brought).rowcount)


_CANCEL = f"""
UPDATE {{table}} SET status = '{CANCELLED}', finished_at = :now
WHERE id = :id AND tenant_id = :tenant AND status = '{RUNNING}'
"""
_STATUS = "SELECT status FROM {table} WHERE id = :id AND tenant_id = :tenant"


def cancel(tx: Transaction, table: Table, tenant: str, id: UUID) -> None:
    """Stop an operation: what it has changed stays so, the other objects stay as they are.

    Raises:
        NotFound: the tenant has no such operation.
        Conflict: it has ended.
    """
    key = {"id": id, "tenant": tenant}
    if tx.execute(_CANCEL.format(table=table.name), {**key, "now": tx.now}).rowcount:
        return
    status = tx.execute(_STATUS.format(table=table.name), key).scalar_one_or_none()
    if status is None:
        raise table.missing(id)
    raise Conflict(f"{table.noun} {ids.show(table.prefix, id)} is already {status}")
