"""Pages through lists by keyset: a page begins after the last key of the page before."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from pipeweave.errors import FieldError, InvalidInput

DEFAULT_LIMIT = 50
MAX_LIMIT = 1_000

Document = dict[str, Any]


class Int32(int):
    """The kind of a key's part that is compared with a column of 32 bits; `int` goes with 64 bits."""


Kind = type[str] | type[int] | type[UUID]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A requested page of a list: how many rows, and after which key.

    Args:
        limit: rows, 1 to 1,000 (default 50).
        cursor: the `nextCursor` of the page before; None for the first page.
    """

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.limit, int) and not isinstance(self.limit, bool)
        if not whole or not 1 <= self.limit <= MAX_LIMIT:
            message = f"must be a whole number from 1 to {MAX_LIMIT}"
            raise InvalidInput(f"limit {message}", errors=[FieldError("limit", message, "out_of_range")])

    def after(self, name: str, *kinds: Kind) -> tuple[Any, ...] | None:
        """The key after which the page begins; None for the first page.

        Args:
            name: the list's name; a cursor of another list is refused.
            kinds: the types of the key's parts.

        Raises:
            InvalidInput: the cursor was not made by this list.
        """
        if self.cursor is None:
            return None
        try:
            return read_cursor(self.cursor, name, *kinds)
        except ValueError as error:
            raise InvalidInput(
                "cursor is not a cursor of this list",
                errors=[FieldError("cursor", "is not a cursor of this list", "invalid_cursor")],
                hint="pass the cursor that the page before gave, with the same filters",
            ) from error

    def after_id(self, name: str) -> UUID | None:
        """The id after which the page begins, in a list whose key is an id; None for the first page.

        Raises:
            InvalidInput: the cursor was not made by this list.
        """
        key = self.after(name, UUID)
        return None if key is None else key[0]

    def cut(
        self,
        rows: Sequence[Any],
        name: str,
        key: Callable[[Any], tuple[Any, ...]],
        show: Callable[[Any], Document],
    ) -> Document:
        """The answer {items, nextCursor} from `limit + 1` rows: the extra row tells that more follow."""
        kept = rows[: self.limit]
        more = len(rows) > self.limit
        return {
            "items": [show(row) for row in kept],
            "nextCursor": cursor_of(name, *key(kept[-1])) if more else None,
        }


def cursor_of(name: str, *key: Any) -> str:
    """The opaque cursor of the page after this key."""
    content = orjson.dumps([name, *(str(part) if isinstance(part, UUID) else part for part in key)])
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def read_cursor(cursor: str, name: str, *kinds: Kind) -> tuple[Any, ...]:
    """The key in a cursor that `cursor_of` made under this name.

    Raises:
        ValueError: it was not made so, or its parts are of other types.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        cursor_name, *parts = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error) as error:
        raise ValueError(cursor) from error
    if cursor_name != name or len(parts) != len(kinds):
        raise ValueError(name)
    return tuple(_read(part, kind) for part, kind in zip(parts, kinds, strict=True))


def _read(part: Any, kind: Kind) -> Any:
    if kind is UUID and isinstance(part, str):
        return UUID(part)
    if issubclass(kind, int):
        return _whole(part, 32 if kind is Int32 else 64)
    if not isinstance(part, kind):
        raise ValueError(part)
    if isinstance(part, str) and "\0" in part:
        raise ValueError(part)
    return part


def _whole(part: Any, bits: int) -> int:
    if not isinstance(part, int) or isinstance(part, bool) or not -(1 << bits - 1) <= part < 1 << bits - 1:
        raise ValueError(part)
    return part
