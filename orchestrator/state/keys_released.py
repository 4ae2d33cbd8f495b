"""Task runs that end badly and had an idempotency key: somebody may wait for that."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from uuid import UUID

from pipeweave.orchestrator.domain.facts import Name
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Transaction


def note(tx: Transaction, ended: Sequence[TaskRun]) -> None:
    """Free the keys of task runs that this transaction ended badly, when it is durable.

    Not in it: their rows are locked by now, and keys are locked first.
    """
    names = {(each.task_id, each.idempotency_key) for each in ended if each.idempotency_key is not None}
    if names:
        tx.afterwards(functools.partial(_free, run_id=ended[0].run_id, names=sorted(names)))


def _free(tx: Transaction, *, run_id: UUID, names: Sequence[Name]) -> None:
    # Waking goes through the very verbs that note who ended.
    from pipeweave.orchestrator.engine import key_waiters

    key_waiters.free(tx, run_id, names)
