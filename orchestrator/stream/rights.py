"""Looks whether those who watch may still do so: once for all who have the same right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pipeweave.errors import PipeWeaveError, Unavailable


class Entitled(Protocol):
    """Who watches by a right."""

    @property
    def check(self) -> Callable[[], object]:
        """Raises an error when the right is lost. Equal ones are one right."""

    def end(self, error: PipeWeaveError | None) -> None:
        """Nothing follows."""


def end_without_right(sinks: Iterable[Entitled]) -> None:
    """End those who have lost the right to watch; nobody while that cannot be known."""
    holders: dict[Callable[[], object], list[Entitled]] = {}
    for each in sinks:
        holders.setdefault(each.check, []).append(each)
    for check, having in holders.items():
        if (fault := _fault(check)) is not None:
            for each in having:
                each.end(fault)


def _fault(check: Callable[[], object]) -> PipeWeaveError | None:
    try:
        check()
    except Unavailable:
        return None
    except PipeWeaveError as error:
        return error
    return None
