"""Announces the idempotency keys of task runs that ended badly: other task runs may wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.orchestrator.domain.facts import KeysReleased
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Transaction


def announce(tx: Transaction, ended: Sequence[TaskRun]) -> None:
    """Announce the keys of task runs of one run that this transaction ended badly.

    The keys are freed after the commit, because keys must be locked before task runs (store/lock_order.py),
    and the rows of these task runs are locked by now.
    """
    names = {(each.task_id, each.idempotency_key) for each in ended if each.idempotency_key is not None}
    if names:
        tx.announce(KeysReleased(ended[0].run_id, tuple(sorted(names))))
