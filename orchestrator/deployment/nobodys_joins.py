"""Checks joins of runs in which no step has a task: no worker takes messages about them.

Whoever would send such a message does what it asks for, after its commit. What fails here, the tick asks for
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeweave.orchestrator.deployment.without_broker import WithoutBroker
from pipeweave.orchestrator.domain.outbox import ChordPart, JoinCheck, Outgoing
from pipeweave.orchestrator.domain.queue_names import NOBODY
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values

Send = Callable[[Sequence[Outgoing]], None]


def sender_of(publisher: Publisher, database: Database, values: Values) -> Send:
    """The sender of a database: the publisher, but for what no worker would take."""
    checker = WithoutBroker(database, values)

    def send(outbox: Sequence[Outgoing]) -> None:
        own = [each for each in outbox if _is_nobodys(each)]
        publisher.publish([each for each in outbox if not _is_nobodys(each)] if own else outbox)
        if own:
            checker.publish(own)

    return send


def _is_nobodys(each: Outgoing) -> bool:
    return isinstance(each, (JoinCheck, ChordPart)) and each.queue == NOBODY
