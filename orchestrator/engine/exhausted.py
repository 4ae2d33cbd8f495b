"""Pauses a run of which a step has no attempt left, where the step, its pipeline or its task says so.

The step has further attempts by then (state/attempts.py), and becomes `ready`: the resume of the run tries it
again, as it starts all else that the pause has held. Nothing has failed, so nothing follows: no dead letter,
no hook, and no end of the run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pipeweave.orchestrator.domain.facts import RunPaused
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.log_names import names_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.step_failures import without_attempts
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state import run_transitions
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)


def pause(tx: Transaction, run: RunHeader, exhausted: Sequence[tuple[TaskRun, Failure]]) -> None:
    """Pause a run, unless it is paused: then that pause keeps its reason, and its resume is enough.

    Args:
        exhausted: the task runs without an attempt left, and how their last ones failed; the run's row is
            locked since they were found.
    """
    first, failure = exhausted[0]
    reason = without_attempts(first.step_id, failure.code, failure.message, others=len(exhausted) - 1)
    if run_transitions.pause(tx, run.id, by=None, reason=reason):
        tx.announce(RunPaused(run.id))
        tx.after_commit(lambda: log.error("run.paused", extra={**names_of(run, first), "reason": reason}))
