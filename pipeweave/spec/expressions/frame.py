"""Hold what one evaluation knows, and count its work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipeweave.spec.expressions.bounds import MADE_PER_UNIT, MAX_WORK, READ_PER_UNIT
from pipeweave.spec.expressions.faults import Unfit


class Frame:
    """One evaluation.

    Args:
        scope: values by root.
        now: the time that `now()` gives, aware; None if it has none.

    Attributes:
        left: units of work that may still be done.
    """

    __slots__ = ("left", "now", "scope")

    def __init__(self, scope: Mapping[str, Any], now: datetime | None) -> None:
        self.scope = scope
        self.now = now
        self.left = MAX_WORK

    def charge(self, units: int) -> None:
        """Count work before it is done. Raises Unfit when it is more than MAX_WORK."""
        self.left -= units
        if self.left < 0:
            raise Unfit(
                f"it takes more than {MAX_WORK:,} units of work",
                "let a task do what takes so many elements or characters",
            )

    def charge_made(self, chars: int) -> None:
        """Count a text that is about to be made."""
        self.charge(chars // MADE_PER_UNIT + 1)

    def charge_read(self, chars: int) -> None:
        """Count a text that is about to be read."""
        self.charge(chars // READ_PER_UNIT + 1)
