"""The place of a reader in the event log: which transactions' events it has seen (pure).

Neither the numbers of events nor the time tell what is new: an event draws its number long before its
transaction commits. PostgreSQL's own account of visibility does: a transaction is numbered, too, and a
snapshot says which numbers have ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """PostgreSQL's snapshot: which transactions have not ended at a moment.

    Args:
        before: every transaction with this number or a higher one.
        open: and these with lower numbers.
    """

    before: int
    open: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Read `xmin:xmax:open,open`, as PostgreSQL writes a snapshot."""
        _, before, listed = text.split(":")
        return cls(int(before), frozenset(int(each) for each in listed.split(",") if each))

    def is_open(self, transaction: int) -> bool:
        """Whether the transaction had not ended."""
        return transaction >= self.before or transaction in self.open


@dataclass(frozen=True, slots=True)
class SeenTransactions:
    """The transactions whose events a reader has seen.

    Args:
        before: all with lower numbers. Not beyond the last one that wrote an event and committed: after a
            crash, PostgreSQL gives higher numbers a second time.
        open: except these, in ascending order, which had not ended.
    """

    before: int
    open: tuple[int, ...] = ()

    def up_to(self, last: int, snapshot: Snapshot) -> SeenTransactions:
        """What was seen when the reader has also seen all that `snapshot` shows of the transactions up to and
        including `last`, a transaction that wrote an event and committed.
        """
        kept = (each for each in self.open if each > last or snapshot.is_open(each))
        begun = (each for each in snapshot.open if self.before <= each < last)
        return SeenTransactions(max(self.before, last + 1), tuple(sorted({*kept, *begun})))

    def has(self, transaction: int) -> bool:
        """Whether the events of the transaction were seen, if it has written any."""
        return transaction < self.before and transaction not in self.open

    def ended(self, later: SeenTransactions) -> tuple[int, ...]:
        """Of the transactions that were open, those that a later reader has seen."""
        return tuple(each for each in self.open if later.has(each))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader goes on.

    Args:
        seen: what it has seen entirely.
        next: what it will have seen at the end of the batch that it is in the middle of; None: it is between
            two batches.
        seq: the number of the last event that it has seen of that batch; a batch is in the order of numbers.
        at: when it was there, in seconds since 1970 by PostgreSQL's clock.
    """

    seen: SeenTransactions
    next: SeenTransactions | None = None
    seq: int = 0
    at: int = 0


def lowest(seen: SeenTransactions) -> int:
    """The lowest number of a transaction whose events a reader may not have seen."""
    return min((seen.before, *seen.open))


def texts(transactions: Iterable[int]) -> list[str]:
    """Numbers of transactions as parameters of a statement, which has no integer type for them."""
    return [str(each) for each in transactions]
