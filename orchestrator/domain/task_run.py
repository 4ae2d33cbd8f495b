"""Task runs as values: what the verbs take and return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.store.values import Kept


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


COLUMNS = """t.id, t.run_id, t.step_id, t.task_id, t.kind, t.status, t.attempt, t.map_index, t.map_parent,
t.item, t.priority, t.queue, t.is_limited, t.code_version, t.code_hash, t.idempotency_key"""


def read(rows: Iterable[Any]) -> list[TaskRun]:
    """Task runs in the order of their ids."""
    return sorted(map(of_row, rows), key=lambda each: each.id)


def of_row(row: Any) -> TaskRun:
    """The task run of a row that starts with COLUMNS."""
    values = list(row[:16])
    values[5] = TaskStatus(values[5])
    return TaskRun(*values)
