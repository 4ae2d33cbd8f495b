"""Which queues a worker process serves, and what it tells of the tasks that it has loaded."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from pipeweave.authoring import QUEUE_EXPECTED, is_queue
from pipeweave.authoring.task_loading import Loaded
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.labels import Labels
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.registry import LoadedTask

log = logging.getLogger(__name__)

# A fetch takes longer with each queue, for each message that this worker takes.
MAX_QUEUES = 256
NO_LABELS: Labels = {}


@dataclass(frozen=True, slots=True)
class ServedQueues:
    """The queues of one worker process, by their full names.

    Args:
        tasks: the queues of tasks, the service's own queue first if it is served, those of labels last.
        own: the queue of the processes with the same code and labels that serve the same queues.
        loaded: every loaded task, and whether its queue is served.
        dispatches: the queue of the task runs of HTTP services, if it is served.
    """

    tasks: tuple[str, ...]
    own: str
    loaded: tuple[LoadedTask, ...]
    dispatches: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.tasks, self.own, *self.dispatches)

    @classmethod
    def of(
        cls, tenant: str, service: str, loaded: Loaded, names: Sequence[str] = (), labels: Labels = NO_LABELS
    ) -> ServedQueues:
        """The queues of a worker.

        Args:
            names: of the queues to serve, as users write them; none: `default`, those of all loaded tasks,
                and the dispatches to HTTP services.
            labels: of the worker: each queue has one more for each set of them that something may require.

        Raises:
            InvalidInput: a name is not valid, or there are more than MAX_QUEUES.
        """
        _check(names)
        base = queue_names.service_queue(tenant, service)
        of_tasks = {each.spec.id: each.spec.queue or queue_names.DEFAULT for each in loaded.tasks.values()}
        of_specs = {each.spec.id: each.spec for each in loaded.tasks.values()}
        chosen = set(names) or {queue_names.DEFAULT, *of_tasks.values()}
        if idle := chosen - {queue_names.DEFAULT, *of_tasks.values()}:
            log.warning("queue.no_task", extra={"queues": sorted(idle)})
        ordered = sorted(chosen, key=lambda name: (name != queue_names.DEFAULT, name))
        named = [queue_names.named_queue(base, name) for name in ordered]
        _check_number(len(named), labels)
        identity = [loaded.version, *ordered, *(f"{name}={each}" for name, each in sorted(labels.items()))]
        code_set = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:12]
        return cls(
            tuple(queue_names.labelled(each, required) for required in sets_of(labels) for each in named),
            queue_names.own_queue(base, code_set),
            tuple(
                LoadedTask(id, spec.code_hash, is_served=of_tasks[id] in chosen, concurrent=spec.concurrent)
                for id, spec in sorted(of_specs.items())
            ),
            () if names else (queue_names.dispatch_queue(tenant),),
        )


def sets_of(labels: Labels) -> Iterator[dict[str, str]]:
    """Every set of these labels that something may require: none of them first, all of them last."""
    for number in range(len(labels) + 1):
        yield from map(dict, combinations(sorted(labels.items()), number))


def _check_number(named: int, labels: Labels) -> None:
    queues = named * 2 ** len(labels)
    if labels and queues > MAX_QUEUES:
        problem = f"{named} queues with {len(labels)} labels make {queues}, and a worker serves {MAX_QUEUES}"
        raise InvalidInput(
            problem,
            errors=[FieldError("labels", problem, "limit_exceeded", f"at most {MAX_QUEUES} queues")],
            hint="give the worker fewer labels, or name its queues with --queues",
        )


def _check(names: Sequence[str]) -> None:
    wrong = [each for each in names if not is_queue(each)]
    if wrong:
        raise InvalidInput(
            f"{wrong[0]!r} is not the name of a queue",
            errors=[FieldError("queues", f"{each!r}: use {QUEUE_EXPECTED}", "invalid") for each in wrong],
            hint=f"a name has {QUEUE_EXPECTED}",
        )
