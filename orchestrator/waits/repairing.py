"""What people do to a wait that does not end by itself: decide its result, wake it, or give it more time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import CHILD, TIMER, Wait
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.state import run_headers, waits
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.waits import looking, open_waits
from pipeweave.orchestrator.waits.ending import REPAIR, Completes, Ending, Fails


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result that a person gives a step that waits.

    Args:
        output: of the step, stored.
        error: its code and message, if it fails instead.
    """

    output: KeptValue | None = None
    error: tuple[str, str] | None = None

    def ending(self, by: str | None) -> Ending:
        if self.error is not None:
            code, message = self.error
            return Fails(Failure(code, message, "Resolved", retryable=False, details={"by": by}))
        return Completes(None, REPAIR, by, kept=self.output)


def resolve(
    tx: Transaction, tenant: str, task_run_id: UUID, resolution: Resolution, *, by: str | None
) -> None:
    """End a wait with this result, whatever it waits for.

    Raises:
        NotFound: the tenant has no such wait.
        WaitOver: it has ended.
        Conflict: it waits for a run, which is to be repaired instead.
        Unavailable: maintenance has begun.
    """

    def decide(wait: Wait) -> Ending:
        if wait.kind == CHILD:
            shown = ids.show(ids.TASK_RUN, task_run_id)
            raise Conflict(f"{shown} waits for a run", hint="cancel that run, or retry its dead letter")
        return resolution.ending(by)

    _end(tx, tenant, task_run_id, decide)


def wake(tx: Transaction, tenant: str, task_run_id: UUID, *, by: str | None) -> None:
    """End a sleep now.

    Raises:
        NotFound, WaitOver, Unavailable: as `resolve`.
        Conflict: it is no sleep.
    """

    def decide(wait: Wait) -> Ending:
        if wait.kind != TIMER:
            shown = ids.show(ids.TASK_RUN, task_run_id)
            raise Conflict(
                f"{shown} waits for a {wait.kind}: it does not sleep", hint="`resolve` gives it a result"
            )
        return Completes(None, REPAIR, by)

    _end(tx, tenant, task_run_id, decide)


def _end(tx: Transaction, tenant: str, task_run_id: UUID, decide: Callable[[Wait], Ending]) -> None:
    maintenance_mode.check_open(tx)
    waiting = open_waits.find(tx, tenant, task_run_id)
    ending, touched = decide(waiting.wait), TouchedLimits()
    looking.lock_keys(tx, [waiting])
    run = run_headers.load(tx, waiting.wait.run_id)
    if run is not None and looking.end_waits(tx, run, [(waiting, ending)], touched):
        touched.fill(tx)
        return
    # Another look was faster: this says how it ended.
    open_waits.find(tx, tenant, task_run_id)


def extend(
    tx: Transaction, tenant: str, task_run_id: UUID, timeout: timedelta, *, by: str | None
) -> datetime:
    """Let a wait end so long from now on, if nothing comes before. Returns when that is.

    Raises:
        NotFound, WaitOver: as `resolve`.
    """
    wait = open_waits.find(tx, tenant, task_run_id).wait
    timeout_at = tx.now + timeout
    # A signal that came before the look after this stays: the look is due at once.
    due_at = timeout_at if wait.kind == TIMER else tx.now
    if not waits.extend(tx, wait, timeout_at=timeout_at, due_at=due_at, by=by):
        open_waits.find(tx, tenant, task_run_id)
    return timeout_at
