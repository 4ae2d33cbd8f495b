"""Sends one prepared dispatch to one instance of its service after the other, until one has taken it.

All who dispatch use it: the children of workers, the tick, and the API after a report.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave import signatures
from pipeweave.errors import PipeWeaveError, TargetRefused
from pipeweave.orchestrator.dispatch import answers, tokens
from pipeweave.orchestrator.dispatch.answers import AnswerVerdict
from pipeweave.orchestrator.dispatch.payload import PreparedDispatch
from pipeweave.orchestrator.dispatch.secret_params import require_private
from pipeweave.orchestrator.dispatch.services import DispatchService, Services
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.task_run import Dispatched, Postponed, TaskRun
from pipeweave.orchestrator.registry import instances
from pipeweave.orchestrator.registry.instances import Instance
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.sending import Networks, NoReply, Reply, Sender
from pipeweave.settings import Settings

# How often a process notes that an instance has taken dispatches (s).
SEEN_EVERY_S = 15.0
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
        is_unreached: certainly no instance has got it, which says more of this process than of them.
    """

    failure: Failure | None = None
    busy_s: float | None = None
    is_over: bool = False
    taken: str | None = None
    worker: str = ""
    is_unreached: bool = False

    def outcome(self, task_run: TaskRun) -> CallOutcome:
        """The outcome of the dispatch."""
        if self.failure is None:
            return Dispatched(task_run, self.taken or "", self.worker)
        if self.busy_s is not None and not self.is_over:
            # All of them come back, and not at the same time.
            return Postponed(task_run, self.busy_s * random.uniform(1, 2), self.failure.message)
        return task_run, self.failure


class Posting:
    """Sends the dispatches of one process. Several threads may use it.

    Args:
        services: what this process knows of the services.
        sender: sends, and cuts what takes too long.
        worker: the name with which the process has claimed the task runs.
    """

    def __init__(
        self, database: Database, settings: Settings, services: Services, sender: Sender, *, worker: str
    ) -> None:
        self._database = database
        self._settings = settings
        self._services = services
        self._sender = sender
        self._worker = worker
        self._networks = Networks(settings.dispatch_networks)
        self._seen: dict[tuple[str, str, str], float] = {}

    def outcome(self, prepared: PreparedDispatch, refused: Refused) -> CallOutcome:
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
        newer = attempted(lambda: self._services.of_task(service.tenant, task_run.task_id, is_new=True))
        known = {each.base_url for each in candidates}
        others = []
        if isinstance(newer, DispatchService):
            listed = newer.candidates(task_run.task_id, self._services.chance)
            others = [each for each in listed if each.base_url not in known]
        return (self._ask(prepared, others, refused) if others else asked).outcome(task_run)

    def alone(self, prepared: PreparedDispatch, until: float) -> CallOutcome | None:
        """Send one dispatch as `outcome` does, for a process that may be unable to reach the service.

        Args:
            until: no request is sent later (s, monotonic clock).

        Returns:
            None: certainly no instance has got it.
        """
        task_run = prepared.task_run
        candidates = prepared.service.candidates(task_run.task_id, self._services.chance)
        asked = self._ask(prepared, candidates, {}, until)
        if asked.is_unreached or (not asked.is_over and asked.busy_s is None):
            return None
        return asked.outcome(task_run)

    def _ask(
        self,
        prepared: PreparedDispatch,
        candidates: Sequence[Instance],
        refused: Refused,
        until: float | None = None,
    ) -> InstanceReplies:
        """Send a dispatch to one of these instances after the other, while none may have taken it.

        Args:
            until: as for `alone`; None for a process that others rely on to reach the service.
        """
        service, task_id = prepared.service, prepared.task_run.task_id
        drains = service.only_drains(task_id)
        lacks = "only draining instances" if drains else "no instance"
        failure = answers.unreachable(f"service {service.id!r} has {lacks} with task {task_id!r}")
        busy_s = DRAINED_S if drains else None
        for instance in candidates:
            if (known := refused.get(instance.base_url)) is not None:
                failure, busy_s = known.failure or failure, known.busy_s or busy_s
                continue
            if until is not None and time.monotonic() > until:
                return InstanceReplies(failure, is_unreached=True)
            reply = attempted(lambda url=instance.base_url: self._post(url, prepared))  # type: ignore[misc]
            if isinstance(reply, Failure):
                failure = reply
                continue
            if until is not None and isinstance(reply, NoReply) and reply.is_certain:
                # The instance may be well, and this process behind a wall: who relies on it finds out.
                return InstanceReplies(failure, is_unreached=True)
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
            attempted(lambda: self._database.run(note, is_one=False))
            self._services.forget()

    def _record_seen(self, service: DispatchService, url: str) -> None:
        """Note that an instance is there, at most once in SEEN_EVERY_S."""
        key, now = (service.tenant, service.id, url), time.monotonic()
        if now < self._seen.get(key, 0.0):
            return
        self._seen[key] = now + SEEN_EVERY_S
        attempted(lambda: self._database.run(lambda tx: instances.seen(tx, *key), is_one=False))


def attempted(step: Callable[[], Any]) -> Any:
    """The result of a step, or the failure of the attempts that needed it."""
    try:
        return step()
    except PipeWeaveError as error:
        return failure_of(error)
