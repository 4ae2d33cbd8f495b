"""Task runs as values: what the verbs take and return."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.states import TaskStatus


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A task run as the verbs return it."""

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

    @property
    def ordinal(self) -> int:
        return ids.ordinal_of(self.id)


@dataclass(frozen=True, slots=True)
class Completion:
    """A task run's result, put away: `selected_next` None means every successor.

    Args:
        key: the idempotency key that its result answers for from now on.
        cached_from: the task run whose result this is, under the same key; its function was not called.
    """

    task_run: TaskRun
    output: Kept
    selected_next: tuple[str, ...] | None = None
    key: str | None = None
    cached_from: UUID | None = None


@dataclass(frozen=True, slots=True)
class Awaits:
    """A task run whose function was not called: another one, still open, executes under its key.

    Args:
        holder: that one.
        since: when it took the key.
    """

    task_run: TaskRun
    key: str
    holder: UUID
    since: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    """A value that was put away: its JSON inline or its path in storage, never both.

    `hash` is the lower-case hex SHA-256 of the canonical JSON (sorted keys), `size` its length in bytes.
    """

    inline: str | None
    path: str | None
    size: int
    hash: str
