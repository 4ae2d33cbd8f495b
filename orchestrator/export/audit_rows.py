"""Hands out the audit part by part, the oldest row first, as `Export` does with what belongs to runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

import orjson

from pipeweave.orchestrator.export.exporting import ExportPart
from pipeweave.orchestrator.export.position import Position, digest
from pipeweave.orchestrator.reading.audit_list import AuditFilter, audit_after
from pipeweave.orchestrator.store.database import Database

AUDIT = "audit"
ROWS = 1_000


@dataclass(frozen=True, slots=True)
class AuditExport:
    """An export of the audit.

    Args:
        tenants: whose rows; None: of every tenant.
        chosen: which of them.
        sees_deployment: also rows of what concerns the whole deployment.
    """

    database: Database
    tenants: Sequence[str] | None
    chosen: AuditFilter
    sees_deployment: bool = False

    def position(self, cursor: str) -> Position:
        """The position that a cursor says.

        Raises:
            InvalidInput: it is not a cursor of this export.
        """
        return Position.read(cursor, AUDIT, self._digest())

    def parts(self, position: Position) -> Iterator[ExportPart]:
        """The parts behind a position; the last one is empty.

        Raises:
            Unavailable, Busy: PostgreSQL does not answer. What was handed out stays good.
        """
        after = position.run
        while True:
            with self.database.reading() as tx:
                entries = audit_after(
                    tx, self.tenants, self.chosen, after, ROWS, sees_deployment=self.sees_deployment
                )
            if not entries:
                yield ExportPart(b"", 0, self._cursor(after), is_last=True)
                return
            after = entries[-1][0]
            content = b"".join(orjson.dumps(each) + b"\n" for _, each in entries)
            yield ExportPart(content, len(entries), self._cursor(after))

    def _cursor(self, after: UUID) -> str:
        return Position(after).cursor(AUDIT, self._digest())

    def _digest(self) -> str:
        return digest(asdict(self.chosen))
