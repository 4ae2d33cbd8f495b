"""Goes on with the step after a report, in the process that has taken the report.

The statement that stores the report claims the next step in the name of this process, and a thread dispatches
it, beside the answer to the report: no message, and no worker between two steps of an HTTP service. It is a
shorter way, and never the only one. What this process has no thread for, or cannot reach, goes to the workers
as ever. A claim whose dispatch waits gets heartbeats: if the process dies, the tick ends its attempts as soon
as those of a worker. A tick of an older version takes the claims for those of its kind, and waits for longer.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.dispatch.dispatcher import Dispatcher
from pipeweave.orchestrator.dispatch.known_outputs import KnownOutputs
from pipeweave.orchestrator.dispatch.note_keeper import NoteKeeper
from pipeweave.orchestrator.dispatch.open_dispatches import OpenDispatches
from pipeweave.orchestrator.dispatch.serverless import BEATING
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Dispatched, Postponed, TaskRun
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_over
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings

log = logging.getLogger(__name__)

# No dispatch of a claim begins later (s): a process that was frozen for longer may have lost it.
CLAIM_LASTS_S = 3.0
# A task whose dispatch was not taken is left to the workers for so long (s).
REST_S = 10.0
MOST_RESTING = 1_000
# While PostgreSQL is away, what may have been claimed is given back: tried so often (s), for so long (s).
DOUBT_S = 0.5
DOUBT_LASTS_S = 20.0


@dataclass(frozen=True, slots=True)
class DispatchPlace:
    """The right to one dispatch of this process, and its claim.

    Args:
        since: when it was given (s, monotonic clock): before the claim.
    """

    claimant: Claimant
    tenant: str
    since: float


class NextSteps:
    """The next steps of one process. Make it in the process that uses it, after any fork."""

    def __init__(self, database: Database, values: Values, settings: Settings) -> None:
        self.worker = f"{BEATING}{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._database = database
        self._settings = settings
        self.outputs = KnownOutputs(database)
        self.open = OpenDispatches(lambda: database.timeline.promotions)
        self._dispatcher = Dispatcher(database, values, settings, worker=self.worker, known=self.outputs)
        self._most = settings.api_dispatches
        self._threads = ThreadPoolExecutor(self._most, thread_name_prefix="next-step")
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()
        self._resting: dict[tuple[str, str], float] = {}
        self._is_stopped = False
        self._notes = NoteKeeper(
            database, self.open, self.worker, self._dispatcher.end_late, lambda: self.is_idle
        )

    @property
    def is_idle(self) -> bool:
        """Whether no dispatch is under way."""
        with self._lock:
            return not self._taken

    # --- called by the thread that takes a report ---------------------------------------------------------

    def place(self, run: RunHeader, done: TaskRun) -> DispatchPlace | None:
        """A place for the step after this one; `go_on` must follow. None where the workers are to dispatch
        it: every thread is busy, or half of them with this tenant.
        """
        tasks = {run.plan[each].step.task for each in self._dispatchable(run, done)}
        if not tasks:
            return None
        with self._lock:
            if self._is_stopped or self._taken.total() >= self._most:
                return None
            if self._taken[run.tenant] >= max(self._most // 2, 1):
                return None
            self._taken[run.tenant] += 1
        queues = (queue_names.dispatch_queue(run.tenant),)
        claimant = Claimant(self.worker, done.queue, queues=queues, tasks=tasks)
        return DispatchPlace(claimant, run.tenant, time.monotonic())

    def go_on(self, place: DispatchPlace, run: RunHeader, claimed: Sequence[TaskRun]) -> None:
        """Dispatch what was claimed at a place, or give the place back if nothing was."""
        if not claimed:
            self._leave(place)
            return
        [task_run] = claimed
        self.open.begin(run, task_run)
        try:
            self._threads.submit(self._work, place, run, task_run)
        except RuntimeError:
            # The process ends.
            self._work(place, run, task_run, is_sent=False)

    def in_doubt(self, place: DispatchPlace, run: RunHeader, done: TaskRun) -> None:
        """PostgreSQL did not say whether it has stored a report: give back what that may have claimed."""
        # Of a task run that is given back, its id and its attempt count.
        claimed = [
            done._replace(id=ids.task_run_id(run.id, each), attempt=1)
            for each in run.plan.successors(done.ordinal)
            if each != END
        ]
        try:
            self._threads.submit(self._give_back_in_doubt, place, run, claimed)
        except RuntimeError:
            self._leave(place)

    def _dispatchable(self, run: RunHeader, done: TaskRun) -> list[int]:
        """The successors that this process may dispatch. Secrets are with the workers."""
        now, plan = time.monotonic(), run.plan
        return [
            each
            for each in plan.successors(done.ordinal)
            if each != END
            and (each not in plan.params or not plan.params[each].secrets)
            and self._resting.get((run.tenant, plan[each].step.task), 0.0) < now
            and self._dispatcher.is_ready(run.tenant, plan[each].step.task)
        ]

    # --- in the threads -----------------------------------------------------------------------------------

    def _work(self, place: DispatchPlace, run: RunHeader, task_run: TaskRun, *, is_sent: bool = True) -> None:
        try:
            if is_sent:
                self._notes.keep()
                self._dispatch(place, run, task_run)
            else:
                self._hand_back(run, task_run)
        except PipeWeaveError as error:
            # The tick ends the attempt, unless the service reports.
            self.open.end(task_run.id, task_run.attempt)
            log.warning("next_step.left", extra={"run_id": str(run.id), "reason": error.detail})
        except Exception:
            self.open.end(task_run.id, task_run.attempt)
            log.exception("next_step.failed", extra={"run_id": str(run.id)})
        finally:
            self._leave(place)

    def _dispatch(self, place: DispatchPlace, run: RunHeader, task_run: TaskRun) -> None:
        outcome = self._dispatcher.dispatch_alone(run, task_run, place.since + CLAIM_LASTS_S)
        if isinstance(outcome, Dispatched):
            self.open.taken(outcome)
            if self._is_stopped:
                self._notes.store(all_of_them=True)
            return
        self.open.end(task_run.id, task_run.attempt)
        if outcome is None or isinstance(outcome, tuple | Postponed):
            # Of many that meet the same trouble at once, the workers send one.
            self._rest(run.tenant, task_run.task_id)
        if outcome is None:
            self._hand_back(run, task_run)
            return
        turn = Turn(
            run,
            [outcome],
            task_run.queue,
            max_retry_delay_ms=self._settings.max_retry_delay_ms,
            counting=Counting.UNCOUNTED,
            worker=self.worker,
        )
        turn.apply(self._database)

    def _give_back_in_doubt(self, place: DispatchPlace, run: RunHeader, claimed: Sequence[TaskRun]) -> None:
        """What this process has begun since, for a repeated report, is not in doubt."""
        try:
            while time.monotonic() < place.since + DOUBT_LASTS_S and not self._is_stopped:
                time.sleep(DOUBT_S)
                mine = [each for each in claimed if self.open.find(each.id, each.attempt) is None]
                with suppress(PipeWeaveError):
                    self._database.run(
                        lambda tx, mine=mine: hand_over(tx, run.id, Unstarted(mine), worker=self.worker)  # type: ignore[misc]
                    )
                    break
        finally:
            self._leave(place)

    def _rest(self, tenant: str, task_id: str) -> None:
        with self._lock:
            if len(self._resting) >= MOST_RESTING:
                self._resting.clear()
            self._resting[tenant, task_id] = time.monotonic() + REST_S

    def _hand_back(self, run: RunHeader, task_run: TaskRun) -> None:
        self.open.end(task_run.id, task_run.attempt)
        unstarted = Unstarted([task_run])
        self._database.run(lambda tx: hand_over(tx, run.id, unstarted, worker=self.worker))

    def _leave(self, place: DispatchPlace) -> None:
        with self._lock:
            self._taken[place.tenant] -= 1
            if self._taken[place.tenant] <= 0:
                del self._taken[place.tenant]

    # --- at the end -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Claim nothing more: the process is about to end. What is under way goes on."""
        self._is_stopped = True
        self._notes.stop()

    def close(self) -> None:
        """Stop, wait for the dispatches that are under way, and note them."""
        self.stop()
        self._threads.shutdown()
        self._notes.store(all_of_them=True)
        self._dispatcher.close()


class _OfDatabase:
    """The next steps of this process for one database, made when they are first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: NextSteps | None = None
        self._is_stopped = False

    def get(self, database: Database, values: Values, settings: Settings) -> NextSteps | None:
        with self._lock:
            if self._made is None and not self._is_stopped:
                self._made = NextSteps(database, values, settings)
            return self._made

    def stop(self) -> None:
        # Called by a signal's handler, too, whose thread may hold the lock.
        self._is_stopped = True
        if self._made is not None:
            self._made.stop()

    def close(self) -> None:
        self.stop()
        if self._made is not None:
            self._made.close()


def of_process(database: Database, values: Values, settings: Settings) -> NextSteps | None:
    """The next steps of this process; None where API_DISPATCHES is 0, or nothing lives between requests."""
    if settings.api_dispatches == 0 or settings.mode == "serverless":
        return None
    return database.caches.own(_OfDatabase).get(database, values, settings)


def stop(database: Database) -> None:
    """This process is about to end: claim no further steps, and let the workers dispatch them."""
    database.caches.own(_OfDatabase).stop()
