"""Dispatches claimed task runs to the HTTP service of their task.

The task runs are running before their dispatches leave, in the name of the process that dispatches. What
follows is an outcome like that of a call: the service has taken the dispatch, or the attempt failed. The turn
stores it. If the process dies in between, its attempts are lost and tried again under new dispatch ids, so
that a report of the lost attempt changes nothing.

All that is read from storage and from services is read while no transaction is open.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from uuid import UUID

from pipeweave.orchestrator.dispatch import answers
from pipeweave.orchestrator.dispatch.database_away import DatabaseAway, database_needed
from pipeweave.orchestrator.dispatch.known_outputs import KnownOutputs
from pipeweave.orchestrator.dispatch.payload import PreparedDispatch
from pipeweave.orchestrator.dispatch.posting import Posting, Refused, attempted
from pipeweave.orchestrator.dispatch.preparing import Preparing
from pipeweave.orchestrator.dispatch.services import DispatchService, Services
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Postponed, TaskRun
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.sending import Sender
from pipeweave.settings import Settings

# Requests of one process that are under way at the same time.
AT_ONCE = 16
# Dispatches that PostgreSQL's absence has prevented wait for so long (s), at least.
AWAY_S = 1.0
# How often the connections whose time is up are looked for (s).
LOOK_EVERY_S = 0.5


class Dispatcher:
    """Dispatches task runs. Make it in the process that uses it: threads and connections survive no fork.

    Args:
        worker: the name with which the process has claimed the task runs.
        known: outputs of steps that need not be read; None where every one is read.
    """

    def __init__(
        self,
        database: Database,
        values: Values,
        settings: Settings,
        *,
        worker: str,
        known: KnownOutputs | None = None,
    ) -> None:
        self._database = database
        self._services = Services(database)
        self._preparing = Preparing(database, values, settings, known)
        self._sender = Sender()
        self._posting = Posting(database, settings, self._services, self._sender, worker=worker)
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="dispatch")

    def dispatch(self, run: RunHeader, task_runs: Sequence[TaskRun]) -> list[CallOutcome]:
        """Dispatch running task runs of one run and one task. Never raises for one of them: its outcome is
        then the failure of its attempt, or that it is tried again later.

        Returns:
            The outcome of each, in their order.
        """
        try:
            return self._dispatch(run, task_runs)
        except DatabaseAway as error:
            return [Postponed(each, AWAY_S * random.uniform(1, 2), str(error)) for each in task_runs]

    def dispatch_alone(self, run: RunHeader, task_run: TaskRun, until: float) -> CallOutcome | None:
        """Dispatch a running task run from the calling thread. Who has many threads for it calls `end_late`.

        Args:
            until: no request is sent later (s, monotonic clock).

        Returns:
            The outcome; None when certainly no instance has got the dispatch, and who else can reach one
            should try it.
        """
        try:
            with database_needed():
                service = self._services.of_task(run.tenant, task_run.task_id)
            if service is None or service.is_disabled:
                return None
            if (held := self._held_by_key(run, task_run)) is not None:
                return held
            prepared = attempted(lambda: self._preparing.all(run, service, [task_run])[0][1])
        except DatabaseAway:
            return None
        if isinstance(prepared, Failure):
            return task_run, prepared
        return self._posting.alone(prepared, until)

    def is_ready(self, tenant: str, task_id: str) -> bool:
        """Whether nothing speaks against a dispatch of a task, as far as is known without asking."""
        service = self._services.known(tenant, task_id)
        return service is None or service.is_ready(task_id)

    def end_late(self) -> None:
        """Cut the requests whose time is up."""
        self._sender.end_late()

    def _dispatch(self, run: RunHeader, task_runs: Sequence[TaskRun]) -> list[CallOutcome]:
        outcomes: dict[UUID, CallOutcome] = {}
        with database_needed():
            service = self._services.of_task(run.tenant, task_runs[0].task_id)
        if (failure := _unusable(service, task_runs[0].task_id)) is not None or service is None:
            return [(each, failure or _gone(task_runs[0].task_id)) for each in task_runs]
        ready = []
        for each in task_runs:
            held = self._held_by_key(run, each)
            if held is None:
                ready.append(each)
            else:
                outcomes[each.id] = held
        outcomes |= self._send_all(run, service, ready)
        return [outcomes[each.id] for each in task_runs]

    def close(self) -> None:
        """Close connections and threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._sender.close()

    def _held_by_key(self, run: RunHeader, task_run: TaskRun) -> CallOutcome | None:
        """The result, or the wait for it, of another task run with the same idempotency key."""
        key = task_run.idempotency_key
        if key is None:
            return None

        def claim(tx: Transaction) -> CallOutcome | None:
            return idempotency.claim(tx, run.tenant, task_run, key)

        with database_needed():
            return self._database.run(claim, is_one=False)

    def _send_all(
        self, run: RunHeader, service: DispatchService, task_runs: Sequence[TaskRun]
    ) -> dict[UUID, CallOutcome]:
        if not task_runs:
            return {}
        prepared = attempted(lambda: self._preparing.all(run, service, task_runs))
        if isinstance(prepared, Failure):
            return {each.id: (each, prepared) for each in task_runs}
        outcomes: dict[UUID, CallOutcome] = {}
        waiting: list[PreparedDispatch] = []
        for task_run, each in prepared:
            if isinstance(each, Failure):
                outcomes[task_run.id] = (task_run, each)
            else:
                waiting.append(each)
        # What refused one of these dispatches gets no other: each of them might wait as long.
        refused: Refused = {}
        if waiting and not any(each.set_aside_at is None for each in service.instances):
            # One dispatch finds out whether the service is back.
            first = waiting.pop(0)
            outcomes |= self._together([first], refused)
        return outcomes | self._together(waiting, refused)

    def _together(self, waiting: Sequence[PreparedDispatch], refused: Refused) -> dict[UUID, CallOutcome]:
        running: dict[Future[CallOutcome], UUID] = {
            self._threads.submit(self._posting.outcome, each, refused): each.task_run.id for each in waiting
        }
        outcomes: dict[UUID, CallOutcome] = {}
        left = set(running)
        while left:
            done, left = wait(left, timeout=LOOK_EVERY_S, return_when=FIRST_COMPLETED)
            outcomes |= {running[each]: each.result() for each in done}
            self._sender.end_late()
        return outcomes


def _unusable(service: DispatchService | None, task_id: str) -> Failure | None:
    if service is None:
        return _gone(task_id)
    if service.is_disabled:
        return answers.unreachable(f"service {service.id!r} is switched off")
    return None


def _gone(task_id: str) -> Failure:
    return answers.unreachable(f"task {task_id!r} is not registered any more")
