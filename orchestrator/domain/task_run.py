"""Defines task runs and their results as values, which the verbs take and return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from pipeweave import ids
from pipeweave.authoring import Suspend
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.spec.kinds import CALLED


class TaskRun(NamedTuple):
    """A task run as the verbs return it.

    A tuple, because wide runs make many, and a dataclass takes longer.
    """

    id: UUID
    run_id: UUID
    step_id: str
    task_id: str
    kind: str
    status: TaskStatus
    attempt: int
    map_index: int | None
    map_parent: int | None
    item: Any
    priority: int
    queue: str
    is_limited: bool
    code_version: int
    code_hash: str
    idempotency_key: str | None = None
    worker: str | None = None

    @property
    def ordinal(self) -> int:
        return self.id.int & ids.ORDINAL_MASK

    @property
    def takes_slot(self) -> bool:
        """Whether its task's concurrency limit counts it while it is live."""
        return self.is_limited and self.kind in CALLED

    @property
    def is_dispatched(self) -> bool:
        """Whether it is dispatched to an HTTP service."""
        return queue_names.is_dispatch(self.queue)

    @property
    def ends_on_its_own(self) -> bool:
        """Whether it ends on its own time, whatever message it was in: it has a limit or runs elsewhere."""
        return self.is_limited or self.is_dispatched


@dataclass(frozen=True, slots=True)
class Completion:
    """The stored result of a task run; `selected_next` None selects every successor.

    Args:
        key: the idempotency key whose other task runs reuse the result from now on.
        cached_from: the task run whose result was reused under the key, instead of a call.
        assets: the files beside the result, by key: {path, size, type}.
        logs_path: where the log of the attempt is in storage; None where its path follows from its ids.
    """

    task_run: TaskRun
    output: KeptValue
    selected_next: tuple[str, ...] | None = None
    key: str | None = None
    cached_from: UUID | None = None
    assets: Mapping[str, Any] | None = None
    logs_path: str | None = None


@dataclass(frozen=True, slots=True)
class KeyWait:
    """A task run whose function was not called, because another task run executes under its key.

    Args:
        holder: the task run that executes under the key.
        since: when the holder took the key.
    """

    task_run: TaskRun
    key: str
    holder: UUID
    since: datetime


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A task run whose dispatch an HTTP service has taken: its result comes as a report.

    Args:
        service: the service and its instance, for people.
        worker: the process that dispatched.
    """

    task_run: TaskRun
    service: str
    worker: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """A task run whose dispatch no instance of its service has room for now: it is tried again later.

    Args:
        delay_s: how much later (s).
        reason: for people.
    """

    task_run: TaskRun
    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """A call that has suspended itself: its work goes on elsewhere, and its result comes later.

    Args:
        suspend: what it waits for.
        assets, logs_path: as of a Completion.
    """

    task_run: TaskRun
    suspend: Suspend
    assets: Mapping[str, Any] | None = None
    logs_path: str | None = None


@dataclass(frozen=True, slots=True)
class KeptValue:
    """A stored value: its JSON inline or its path in storage, never both.

    `hash` is the lower-case hex SHA-256 of the canonical JSON (sorted keys), `size` its length in bytes.
    `upload_ids` are the texts of the value that look like ids of uploads.
    """

    inline: str | None
    path: str | None
    size: int
    hash: str
    upload_ids: tuple[UUID, ...] = ()
