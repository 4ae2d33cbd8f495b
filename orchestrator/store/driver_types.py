"""Tells the driver how ids are written and read, in fewer calls than it takes by itself.

A statement names and returns several ids: what the driver calls for each of them is a good part of what a
short statement takes.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg2 import extensions

# The types uuid and uuid[] of PostgreSQL.
_UUID, _UUIDS = 2950, 2951


def _written(value: UUID) -> extensions.AsIs:
    """An id as SQL, in the form in which people read it."""
    text = f"{value.int:032x}"
    return extensions.AsIs(f"'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'::uuid")


def _read(text: str | bytes | None, _cursor: Any) -> UUID | None:
    # PostgreSQL writes them in one form, and never with braces or words around them.
    return UUID(int=int(text.replace("-", ""), 16)) if isinstance(text, str) else None


_ONE = extensions.new_type((_UUID,), "UUID", _read)
_SEVERAL = extensions.new_array_type((_UUIDS,), "UUID[]", _ONE)


def register(connection: extensions.connection) -> None:
    """Write and read ids on a connection. Whoever else uses the driver in this process writes ids alike."""
    extensions.register_adapter(UUID, _written)
    extensions.register_type(_ONE, connection)
    extensions.register_type(_SEVERAL, connection)
