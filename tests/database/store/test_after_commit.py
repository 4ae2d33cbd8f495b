"""What follows a commit: the transaction's own messages, then its follow-up transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest

from pipeweave.orchestrator.domain.outbox import JoinCheck, Outgoing
from pipeweave.orchestrator.store.database import Database, Transaction

FIRST, SECOND = (JoinCheck(uuid4(), number, "queue") for number in (1, 2))


@pytest.fixture
def sent(database: Database) -> Iterator[list[Outgoing]]:
    """The messages that left, in their order."""
    left: list[Outgoing] = []
    database.sender = left.extend
    yield left


def test_messages_leave_before_follow_up_transactions_begin(database: Database, sent: list[Outgoing]) -> None:
    seen: list[Sequence[Outgoing]] = []

    def follow(tx: Transaction) -> None:
        seen.append(list(sent))
        tx.send(SECOND)

    with database.transaction() as tx:
        tx.afterwards(follow)
        tx.send(FIRST)
    assert seen == [[FIRST]]
    assert sent == [FIRST, SECOND]


def test_follow_up_transactions_run_though_the_broker_is_away(database: Database) -> None:
    followed: list[int] = []

    def refuse(_: Sequence[Outgoing]) -> None:
        raise ConnectionError

    database.sender = refuse
    with database.transaction() as tx:
        tx.send(FIRST)
        tx.afterwards(lambda after: followed.append(after.execute("SELECT 1").scalar_one()))
    assert followed == [1]
