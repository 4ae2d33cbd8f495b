"""Sends the heartbeats of the calls of a child process, and claims again what a promotion of PostgreSQL lost.

A standby that takes over may lack the last commits of the old primary, and with them the claim of a call that
is under way: its row is queued again, at the same attempt. If no other worker has claimed it since, this
process does, so that the call need not be repeated. What is another's, or is gone, is fenced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import TaskRun
from pipeweave.orchestrator.state import claiming, heartbeats
from pipeweave.orchestrator.store import Database, Transaction

log = logging.getLogger(__name__)


class LifeSigns:
    """The heartbeats of one process.

    Args:
        promotions: how many promotions are known here.
        is_keyed: whether a task run executes under an idempotency key. What is lost is then the key, too:
            another task run may hold it, so the claim is not made again.
    """

    def __init__(
        self, database: Database, promotions: Callable[[], int], is_keyed: Callable[[TaskRun], bool]
    ) -> None:
        self._database = database
        self.promotions = promotions
        self._is_keyed = is_keyed

    def send(self, task_runs: Sequence[TaskRun], known: int) -> set[UUID]:
        """Send the heartbeats of calls of one run; the ids of those that are not fenced.

        Args:
            known: how many promotions were known when the calls were last certain to be this process's.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        return self._database.run(lambda tx: self._send(tx, task_runs, known), is_one=False)

    def _send(self, tx: Transaction, task_runs: Sequence[TaskRun], known: int) -> set[UUID]:
        if len(task_runs) == 1:
            mine = {each.id for each in task_runs if heartbeats.beat(tx, each)}
        else:
            mine = heartbeats.beat_together(tx, task_runs)
        if known < self.promotions():
            mine.update(self._claim_again(tx, [each for each in task_runs if each.id not in mine]))
        return mine

    def _claim_again(self, tx: Transaction, lost: Sequence[TaskRun]) -> Iterator[UUID]:
        for each in lost:
            if each.worker is None or self._is_keyed(each):
                continue
            if claiming.start(tx, each.run_id, [each.ordinal], each.attempt, worker=each.worker):
                names = {"task_run_id": ids.show(ids.TASK_RUN, each.id), "attempt": each.attempt}
                log.warning("attempt.claimed_again", extra=names)
                yield each.id
