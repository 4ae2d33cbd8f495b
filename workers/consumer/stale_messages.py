"""Drops messages that find nothing to do, many at once.

Messages are doubled when their publisher is in doubt, and sent again when an old state of the broker is
restored. Each of them would cost a claim that finds no row, and new runs would wait behind them. So a child
that meets several of them in a row looks at the front of its queue: it reads some hundred messages, asks
PostgreSQL in two statements which of them still find something to do, and removes the others. A message
leaves the queue only then, so that nothing is lost when this process dies.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain import InvalidChord, JoinCheck
from pipeweave.orchestrator.messaging import LEVELS, RUN_TASK, Envelope, Publisher, decode
from pipeweave.orchestrator.state import message_checks
from pipeweave.orchestrator.store import Database

log = logging.getLogger(__name__)

# Each message that finds nothing to do adds to a suspicion: one for task runs that finds none to claim adds
# EMPTY_RUN, a join message that releases nothing adds EMPTY_JOIN (less: that is usual in good times, too). A
# message that finds work sets it back to 0. At SUSPICIOUS the queue is searched for stale messages.
EMPTY_RUN = 4
EMPTY_JOIN = 1
SUSPICIOUS = 20
# Messages that are read at a time, and how long one search goes on (s) while it finds stale messages.
AT_ONCE = 500
LOOK_S = 1.0


@dataclass(slots=True)
class _Sorted:
    """The messages at the front of a list that are removed, and the joins to check instead.

    Args:
        stale: as they are in Redis.
        asks: joins for which one of them would have counted.
    """

    stale: list[bytes] = field(default_factory=list)
    asks: set[tuple[UUID, int]] = field(default_factory=set)


class StaleMessages:
    """Finds out when a queue has messages that find nothing to do, and removes them.

    Args:
        tenant: whose runs messages may name.
    """

    def __init__(self, database: Database, publisher: Publisher, tenant: str) -> None:
        self._database = database
        self._publisher = publisher
        self._tenant = tenant
        self._suspicion = 0

    def record(self, queue: str, is_something: bool, weight: int = EMPTY_RUN) -> None:
        """Record whether a message of a queue found something to do; when too many did not, search it."""
        if is_something:
            self._suspicion = 0
            return
        self._suspicion += weight
        if self._suspicion < SUSPICIOUS:
            return
        self._suspicion = 0
        try:
            dropped = self.drop(queue)
        except Unavailable as error:
            log.info("stale_messages.kept", extra={"reason": error.detail})
            return
        if dropped:
            # There may be more: the next message that finds nothing leads to the next search.
            self._suspicion = SUSPICIOUS - EMPTY_JOIN

    def drop(self, queue: str) -> int:
        """Remove stale messages from the front of a queue; how many they were.

        Raises:
            Unavailable: PostgreSQL or the broker cannot be used; nothing is lost.
        """
        # One process searches at a time: the others would see the same messages.
        if not self._publisher.begin_look(queue, LOOK_S):
            return 0
        until = time.monotonic() + LOOK_S
        dropped = sum(self._drop(queue, level, until) for level in LEVELS)
        self._publisher.end_look(queue)
        if dropped:
            log.warning("stale_messages.dropped", extra={"queue": queue, "count": dropped})
        return dropped

    def _drop(self, queue: str, level: int, until: float) -> int:
        dropped = 0
        while time.monotonic() < until:
            messages = self._publisher.peek(queue, level, AT_ONCE)
            front = self._sort(queue, messages)
            asks = [(InvalidChord(*each), JoinCheck(*each, queue)) for each in sorted(front.asks)]
            # Asked first: a process that dies in between asks once too often.
            self._publisher.publish([each for pair in asks for each in pair])
            self._publisher.remove(queue, level, front.stale)
            dropped += len(front.stale)
            if 2 * len(front.stale) < AT_ONCE:
                break
        return dropped

    def _sort(self, queue: str, messages: Sequence[bytes]) -> _Sorted:
        front = _Sorted()
        runs: list[tuple[bytes, tuple[UUID, Sequence[int], int], Envelope]] = []
        checks: list[tuple[bytes, tuple[UUID, int]]] = []
        seen: set[str] = set()
        for raw in messages:
            envelope = decode(raw)
            if not isinstance(envelope, Envelope) or (name := f"{envelope.task}{envelope.arguments}") in seen:
                front.stale.append(raw)
                continue
            seen.add(name)
            run_id = UUID(hex=envelope.arguments[0])
            if envelope.task == RUN_TASK:
                runs.append((raw, (run_id, envelope.arguments[1], envelope.arguments[2]), envelope))
            else:
                checks.append((raw, (run_id, envelope.arguments[1])))
        with self._database.statements() as tx:
            alive = message_checks.claimable(tx, [named for _, named, _ in runs], queue)
            empty = [each for number, each in enumerate(runs) if number not in alive]
            counted = {
                (run_id, join) for _, (run_id, _, _), envelope in empty for join in envelope.arguments[4]
            }
            is_open = message_checks.open_joins(tx, counted.union(join for _, join in checks), self._tenant)
        front.stale += [raw for raw, _, _ in empty]
        front.stale += [raw for raw, join in checks if join not in is_open]
        front.asks = counted & is_open
        return front
