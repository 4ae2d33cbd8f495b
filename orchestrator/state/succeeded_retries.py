"""Logs which task runs completed after another attempt of theirs had failed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pipeweave.orchestrator.domain.log_names import names_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)


def log_after_commit(tx: Transaction, run: RunHeader, completed: Iterable[tuple[TaskRun, int]]) -> None:
    """Log those after the commit.

    Args:
        completed: task runs that complete in this transaction, each with how many attempts it may have.
    """
    again = [
        {**names_of(run, task_run), "max_attempts": most}
        for task_run, most in completed
        if task_run.attempt > 1
    ]
    if again and log.isEnabledFor(logging.INFO):
        tx.after_commit(lambda: _log(again))


def _log(succeeded: Iterable[dict[str, Any]]) -> None:
    for each in succeeded:
        log.info("task_run.retry_succeeded", extra=each)
