"""Logs, after the commit, what became of polls and of the tries of steps that run pipelines.

What another system or another run said is no part of these lines: it is in the error alone.
"""

from __future__ import annotations

import logging
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.log_names import names_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.waits import CHILD
from pipeweave.orchestrator.state.waits import Waiting
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.waits.children import CHILD_FAILED
from pipeweave.orchestrator.waits.ending import GoesOn

log = logging.getLogger(__name__)


def poll_failed(
    tx: Transaction, run: RunHeader, waiting: Waiting, failure: Failure, *, is_final: bool
) -> None:
    """Log that a poll came to no result.

    Args:
        is_final: whether no other attempt follows, and nothing takes care of the error.
    """
    data = waiting.wait.data
    numbers = {"error_code": failure.code, "tries": data["tries"], "max_tries": data["maxTries"]}
    limit = {} if failure.timeout_ms is None else {"timeout_ms": failure.timeout_ms}
    extra = {**names_of(run, waiting.task_run), **numbers, **limit}
    tx.after_commit(
        lambda: log.log(logging.ERROR if is_final else logging.WARNING, "poll.failed", extra=extra)
    )


def child_goes_on(tx: Transaction, run: RunHeader, waiting: Waiting, end: GoesOn) -> None:
    """Log that a step runs its pipeline again because it failed, or that a round succeeded after it had."""
    before = waiting.wait.data["try"]
    if end.data["try"] <= before:
        child_succeeded(tx, run, waiting)
        return
    extra = {
        **_tries(run, waiting),
        "retry_in_ms": round((end.due_at - tx.now).total_seconds() * 1000),
        "error_code": CHILD_FAILED,
        "child_run_id": ids.show(ids.RUN, waiting.wait.child),
    }
    tx.after_commit(lambda: log.warning("task_run.retrying", extra=extra))


def child_succeeded(tx: Transaction, run: RunHeader, waiting: Waiting) -> None:
    """Log that the pipeline of a step succeeded, if it had failed before."""
    wait = waiting.wait
    # What takes care of an error is tried once.
    if wait.kind == CHILD and wait.rule is None and wait.data["try"] > 1:
        extra = _tries(run, waiting)
        tx.after_commit(lambda: log.info("task_run.retry_succeeded", extra=extra))


def _tries(run: RunHeader, waiting: Waiting) -> dict[str, Any]:
    """The names of a task run, with the number of the try in place of that of the attempt, which is one."""
    step_id = waiting.task_run.step_id
    retry = run.plan[run.plan.ordinals[step_id]].step.retry
    most = {} if retry is None else {"max_attempts": retry.attempts}
    return {**names_of(run, waiting.task_run), "attempt": waiting.wait.data["try"], **most}
