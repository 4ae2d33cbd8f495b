"""Dispatches claimed task runs to the HTTP service of their task.

The task runs are running before their dispatches leave, in the name of the process that dispatches. What
follows is an outcome like that of a call: the service has taken the dispatch, or the attempt failed. The turn
stores it. If the process dies in between, its attempts are lost and tried again under new dispatch ids, so
that a report of the lost attempt changes nothing.

All that is read from storage and from services is read while no transaction is open.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import signatures
from pipeweave.errors import PipeWeaveError, TargetRefused
from pipeweave.orchestrator.dispatch import answers, tokens
from pipeweave.orchestrator.dispatch.answers import AnswerVerdict
from pipeweave.orchestrator.dispatch.database_away import DatabaseAway, database_needed
from pipeweave.orchestrator.dispatch.payload import PreparedDispatch
from pipeweave.orchestrator.dispatch.preparing import Preparing
from pipeweave.orchestrator.dispatch.secret_params import require_private
from pipeweave.orchestrator.dispatch.services import DispatchService, Services
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Dispatched, Postponed, TaskRun
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.registry import instances
from pipeweave.orchestrator.registry.instances import Instance
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.sending import Networks, NoReply, Reply, Sender
from pipeweave.settings import Settings

# Requests of one process that are under way at the same time.
AT_ONCE = 16
# How often a process notes that an instance has taken dispatches (s).
SEEN_EVERY_S = 15.0
# Dispatches that PostgreSQL's absence has prevented wait for so long (s), at least.
AWAY_S = 1.0
# How often the connections whose time is up are looked for (s).
LOOK_EVERY_S = 0.5
# What may go to instances that drain alone waits for so long (s), at least.
DRAINED_S = 2.0


# What each instance said that was set aside meanwhile, or has no room, by its URL.
Refused = dict[str, answers.Judged]


@dataclass(frozen=True, slots=True)
class InstanceReplies:
    """What the instances said that were asked.

    Args:
        failure: of the attempt, unless one has taken the dispatch.
        busy_s: for how long (s) the last one has no room, if that is why.
        is_over: whether no other instance may be asked.
        taken: the service and the instance that has taken it, for people.
        worker: the process that dispatched.
    """

    failure: Failure | None = None
    busy_s: float | None = None
    is_over: bool = False
    taken: str | None = None
    worker: str = ""

    def outcome(self, task_run: TaskRun) -> CallOutcome:
        """The outcome of the dispatch."""
        if self.failure is None:
            return Dispatched(task_run, self.taken or "", self.worker)
        if self.busy_s is not None and not self.is_over:
            # All of them come back, and not at the same time.
            return Postponed(task_run, self.busy_s * random.uniform(1, 2), self.failure.message)
        return task_run, self.failure


class Dispatcher:
    """Dispatches task runs. Make it in the process that uses it: threads and connections survive no fork.

    Args:
        worker: the name with which the process has claimed the task runs.
    """

    def __init__(self, database: Database, values: Values, settings: Settings, *, worker: str) -> None:
        self._database = database
        self._settings = settings
        self._worker = worker
        self._services = Services(database)
        self._preparing = Preparing(database, values, settings)
        self._networks = Networks(settings.dispatch_networks)
        self._sender = Sender()
        self._seen: dict[tuple[str, str, str], float] = {}
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
        prepared = self._try(lambda: self._preparing.all(run, service, task_runs))
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
            self._threads.submit(self._outcome, each, refused): each.task_run.id for each in waiting
        }
        outcomes: dict[UUID, CallOutcome] = {}
        left = set(running)
        while left:
            done, left = wait(left, timeout=LOOK_EVERY_S, return_when=FIRST_COMPLETED)
            outcomes |= {running[each]: each.result() for each in done}
            self._sender.end_late()
        return outcomes

    def _outcome(self, prepared: PreparedDispatch, refused: Refused) -> CallOutcome:
        """Send one dispatch to one instance after the other, until one has taken or may have taken it.

        Args:
            refused: the instances that get none any more, by URL; this dispatch may add some.
        """
        task_run, service = prepared.task_run, prepared.service
        candidates = service.candidates(task_run.task_id, self._services.chance)
        asked = self._ask(prepared, candidates, refused)
        if asked.is_over:
            return asked.outcome(task_run)
        # What this process knows of the service may be a second old: an instance may have taken the place of
        # one that has stopped.
        newer = self._try(lambda: self._services.of_task(service.tenant, task_run.task_id, is_new=True))
        known = {each.base_url for each in candidates}
        others = []
        if isinstance(newer, DispatchService):
            listed = newer.candidates(task_run.task_id, self._services.chance)
            others = [each for each in listed if each.base_url not in known]
        return (self._ask(prepared, others, refused) if others else asked).outcome(task_run)

    def _ask(
        self, prepared: PreparedDispatch, candidates: Sequence[Instance], refused: Refused
    ) -> InstanceReplies:
        """Send a dispatch to one of these instances after the other, while none may have taken it."""
        service, task_id = prepared.service, prepared.task_run.task_id
        drains = service.only_drains(task_id)
        lacks = "only draining instances" if drains else "no instance"
        failure = answers.unreachable(f"service {service.id!r} has {lacks} with task {task_id!r}")
        busy_s = DRAINED_S if drains else None
        for instance in candidates:
            if (known := refused.get(instance.base_url)) is not None:
                failure, busy_s = known.failure or failure, known.busy_s or busy_s
                continue
            reply = self._try(lambda url=instance.base_url: self._post(url, prepared))  # type: ignore[misc]
            if isinstance(reply, Failure):
                failure = reply
                continue
            judged = answers.judge(reply, instance.base_url, self._database.now())
            self._record(service, instance.base_url, judged, was_aside=instance.set_aside_at is not None)
            if judged.verdict is AnswerVerdict.TAKEN:
                return InstanceReplies(
                    is_over=True, taken=f"{service.id} {instance.base_url}", worker=self._worker
                )
            failure = judged.failure or failure
            if judged.sets_aside or judged.busy_s is not None:
                refused[instance.base_url] = judged
            busy_s = judged.busy_s or busy_s
            if judged.verdict is not AnswerVerdict.ELSEWHERE:
                return InstanceReplies(failure, is_over=True)
        return InstanceReplies(failure, busy_s)

    def _post(self, url: str, prepared: PreparedDispatch) -> Reply | NoReply:
        try:
            target = self._networks.resolve(url, prepared.run.tenant)
        except TargetRefused as error:
            return NoReply(str(error.detail), is_certain=True)
        except (OSError, UnicodeError) as error:
            return NoReply(f"its host cannot be resolved ({error})", is_certain=True)
        if prepared.secrets is not None:
            require_private(target)
        path = f"{target.path}/tasks/{prepared.task_run.task_id}"
        body = prepared.body()
        tenant, service = prepared.run.tenant, prepared.service.id
        secret = tokens.worker_secret(self._settings, tenant, service)
        at = int(self._database.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "pipeweave",
            "traceparent": prepared.traceparent,
            "X-PipeWeave-Tenant": tenant,
            signatures.HEADER: signatures.sign(secret, at, path, body),
        }
        return self._sender.post(target, path, body, headers)

    def _record(self, service: DispatchService, url: str, judged: answers.Judged, *, was_aside: bool) -> None:
        """Set an instance aside, or bring it back. What cannot be stored is noted by the next dispatch."""

        def note(tx: Transaction) -> None:
            if judged.sets_aside and judged.failure is not None:
                said = judged.failure.message
                instances.set_aside(tx, service.tenant, service.id, url, said, answered=judged.answered)
            else:
                instances.bring_back(tx, service.tenant, service.id, url)

        if judged.verdict is AnswerVerdict.TAKEN and not was_aside:
            self._record_seen(service, url)
        if judged.sets_aside or was_aside:
            self._try(lambda: self._database.run(note, is_one=False))
            self._services.forget()

    def _record_seen(self, service: DispatchService, url: str) -> None:
        """Note that an instance is there, at most once in SEEN_EVERY_S."""
        key, now = (service.tenant, service.id, url), time.monotonic()
        if now < self._seen.get(key, 0.0):
            return
        self._seen[key] = now + SEEN_EVERY_S
        self._try(lambda: self._database.run(lambda tx: instances.seen(tx, *key), is_one=False))

    @staticmethod
    def _try(step: Callable[[], Any]) -> Any:
        """The result of a step, or the failure of the attempts that needed it."""
        try:
            return step()
        except PipeWeaveError as error:
            return failure_of(error)


def _unusable(service: DispatchService | None, task_id: str) -> Failure | None:
    if service is None:
        return _gone(task_id)
    if service.is_disabled:
        return answers.unreachable(f"service {service.id!r} is switched off")
    return None


def _gone(task_id: str) -> Failure:
    return answers.unreachable(f"task {task_id!r} is not registered any more")
