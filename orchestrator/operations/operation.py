"""An operation that is under way, and what each kind of it does in a way of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

from pipeweave.orchestrator.operations.pace import Outcomes, Pace
from pipeweave.orchestrator.operations.progress import Table
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values


class Object(Protocol):
    """What an operation changes."""

    @property
    def id(self) -> UUID:
        """Its id, by which objects are ordered."""


T = TypeVar("T", bound=Object)


class OperationStopped(Exception):
    """The operation was stopped, or has changed as many objects as it may."""


@dataclass(frozen=True, slots=True)
class ChosenObjects(Generic[T]):
    """The next objects of an operation.

    Args:
        parts: objects that one transaction changes, and the id up to which all is done with them, if any is.
        last_id: the last id that was looked at; None if there was none.
        is_last: nothing comes behind it.
    """

    parts: Sequence[tuple[Sequence[T], UUID | None]] = ()
    last_id: UUID | None = None
    is_last: bool = False


class Operation(ABC, Generic[T]):
    """An operation that is under way. Each kind is a subclass: it says which objects come next, changes them
    by the verb for one of them, and judges what became of them.

    Args:
        row: as `progress.under_way` reads it.
    """

    table: ClassVar[Table]
    # In the log: the kind, and what its objects are.
    name: ClassVar[str]
    object_name: ClassVar[str]

    def __init__(self, row: Any) -> None:
        self.id: UUID = row.id
        self.tenant: str = row.tenant_id
        self.pace = Pace(row.most, row.canary, row.per_second, row.stop_percent)
        self.done: int = row.done
        self.last_id: UUID | None = row.last_id
        self.next_at: datetime | None = row.next_at
        self.is_canary_over = row.canary_ended_at is not None

    @abstractmethod
    def choose(self, tx: Transaction, room: int) -> ChosenObjects[T]:
        """The next objects, of which this many may be changed."""

    @abstractmethod
    def change(self, database: Database, values: Values, objects: Sequence[T]) -> Iterator[int]:
        """Change these objects, and count them in the same transaction; the number after each commit.

        Raises:
            Conflict, NotFound, InvalidInput: one of them does not allow it.
            Stopped: the operation goes no further.
        """

    @abstractmethod
    def skip(self, database: Database, skipped: T, code: str, error: str) -> int:
        """Leave an object as it is, for this reason; how many the record of the batch has to count."""

    def judge(self, tx: Transaction) -> Outcomes:
        """What became of the objects that were changed."""
        return Outcomes()
