"""Ends runs: at once, or by way of what follows their last steps.

Whoever ends a run ends all its task runs first, in the same transaction. Where something follows, the run is
not final yet: it begins its ending, with the status that it will have. Each part of the ending is a run of
its own; `waits/run_endings.py` starts them one after the other, and calls `finish_ending` behind the last
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.domain.facts import ChildrenLeft
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_ending import RunEnding, parts_of, result_of
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state import cancelling, run_endings, run_transitions, waits
from pipeweave.orchestrator.state.run_endings import EndingRun
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """The end of a run that has open task runs.

    Args:
        status: failed or cancelled.
        error: of the run: {code, message, …}.
        code: of the task runs that it cancels.
        why: the message of their error.
    """

    status: RunStatus
    error: Mapping[str, Any]
    code: str
    why: str


def end_early(
    tx: Transaction, run: RunHeader, end: EarlyEnd, *, at_once: bool = False
) -> list[TaskRun] | None:
    """End a run, and cancel its open task runs.

    Args:
        at_once: nothing follows, whatever its pipeline says.

    Returns:
        The task runs that it cancelled; None when the run has ended, or is in its ending.
    """
    if not run.plan.has_ending:
        return _end_at_once(tx, run, end)
    match run_transitions.lock_status(tx, run.id):
        case RunStatus.RUNNING | RunStatus.PAUSED if not at_once:
            cancelled = cancelling.cancel_all(tx, run.id, code=end.code, message=end.why)
            parts = parts_of(run.plan, end.status, run_endings.to_take_back(tx, run))
            if parts:
                run_transitions.begin_ending(tx, run, RunEnding(end.status, end.error, parts))
            elif (event := run_transitions.end_early(tx, run.id, end.status, dict(end.error))) is not None:
                append(tx, [event])
            return cancelled
        case RunStatus.PENDING | RunStatus.RUNNING | RunStatus.PAUSED:
            # Of a pending run nothing has started: there is nothing to follow.
            return _end_at_once(tx, run, end)
        case _:
            return None


def _end_at_once(tx: Transaction, run: RunHeader, end: EarlyEnd) -> list[TaskRun] | None:
    event: Event | None = run_transitions.end_early(tx, run.id, end.status, dict(end.error))
    if event is None:
        return None
    return cancelling.cancel_all(tx, run.id, code=end.code, message=end.why, end=event)


def finish(tx: Transaction, run: RunHeader) -> bool:
    """End a run whose end steps are all final, or begin its ending. False when it has ended, is paused, or is
    reopened and not over.
    """
    if not run.plan.has_ending:
        return run_transitions.finish(tx, run)
    if run_transitions.lock_status(tx, run.id) is not RunStatus.RUNNING:
        return False
    result = run_transitions.result_of(tx, run)
    if result is None:
        return False
    status, error = result
    back = run_endings.to_take_back(tx, run) if status is RunStatus.FAILED else []
    if parts := parts_of(run.plan, status, back):
        return run_transitions.begin_ending(tx, run, RunEnding(status, error, parts))
    return run_transitions.finish(tx, run)


def finish_ending(tx: Transaction, run: RunHeader, ending_run: EndingRun, errors: Mapping[str, Any]) -> bool:
    """End a run whose ending is over. False when another transaction did.

    Args:
        errors: why parts failed, by their names.
    """
    if run_transitions.lock_status(tx, run.id) is not RunStatus.ERROR_HANDLING:
        return False
    status, error = result_of(ending_run.ending, errors)
    waits.forget(tx, ending_run.wait)
    return run_transitions.finish_ending(tx, run.id, status, error)


def stop(tx: Transaction, run: RunHeader, error: Mapping[str, Any]) -> bool:
    """End a run in its ending at once: what is under way is cancelled, what follows does not run. False when
    it is not in its ending.

    Args:
        error: why: {code, message}. A run that would have ended well is cancelled by it.
    """
    if run_transitions.lock_status(tx, run.id) is not RunStatus.ERROR_HANDLING:
        return False
    for each in run_endings.find(tx, [run.id]):
        waits.forget(tx, each.wait)
        tx.announce(ChildrenLeft(run.id))
        if each.ending.error is None:
            return run_transitions.finish_ending(tx, run.id, RunStatus.CANCELLED, dict(error))
        cut = {part: dict(error) for part in each.ending.parts[each.wait.data["part"] :]}
        status, shown = result_of(each.ending, {**each.wait.data["errors"], **cut})
        return run_transitions.finish_ending(tx, run.id, status, shown)
    return False
