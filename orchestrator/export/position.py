"""Says where an export stands, as a text that a caller sends to go on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.store.keyset import cursor_of, read_cursor

_NAME = "export"
_NO_RUN = UUID(int=0)
# Greater than the number of any row.
END = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class Position:
    """After which row an export goes on.

    Args:
        run: the row's run; the export goes on with this run.
        key: the ordinal of its task run, or the number of an event; END: the run is over.
        attempt, offset: of a log, the attempt and the bytes of it that were handed out.
    """

    run: UUID = _NO_RUN
    key: int = END
    attempt: int = 0
    offset: int = 0

    def cursor(self, kind: str, filters: str) -> str:
        """The text.

        Args:
            kind: of the export.
            filters: the digest of its filters, as `digest` makes it.
        """
        return cursor_of(_NAME, kind, filters, self.run, self.key, self.attempt, self.offset)

    @classmethod
    def read(cls, cursor: str, kind: str, filters: str) -> Position:
        """The position that a cursor says.

        Raises:
            InvalidInput: the cursor was made by no export, or by one of another kind or with other filters.
        """
        parts = _parts(cursor)
        if parts is None:
            raise _refused("is not a cursor of an export")
        made_by, made_with, *where = parts
        if made_by != kind:
            raise _refused(f"is the cursor of an export of {made_by[:20]}")
        if made_with != filters:
            raise _refused("is the cursor of an export with other filters")
        return cls(*where)

    @staticmethod
    def is_cursor(text: str) -> bool:
        """Whether some export made it."""
        return _parts(text) is not None


def _parts(cursor: str) -> tuple[Any, ...] | None:
    try:
        parts = read_cursor(cursor, _NAME, str, str, UUID, int, int, int)
    except ValueError:
        return None
    return parts if all(0 <= each <= END for each in parts[3:]) else None


def digest(filters: Any) -> str:
    """A short digest of the filters of an export."""
    content = orjson.dumps(filters, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(content).hexdigest()[:12]


def _refused(what: str) -> InvalidInput:
    return InvalidInput(
        f"after {what}",
        errors=[FieldError("after", what, "invalid_cursor")],
        hint="send the last cursor of the same export, with the same filters",
    )
