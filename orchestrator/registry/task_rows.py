"""Reads registered tasks together with their services, for creating and dispatching task runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, cast

from pipeweave.authoring import RetryPolicy
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.labels import MAX_LABELS, Labels, in_words
from pipeweave.option_checks import Backoff
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.registry.code_versions import CodeChange as CodeChange
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import StepRetry

# The kind of services that tasks are dispatched to.
HTTP = "http"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A registered task with the columns of its service that creating and dispatching task runs need."""

    id: str
    service_id: str
    service_kind: str
    base_url: str | None
    queue: str
    code_hash: str
    code_version: int
    allowed_next: list[str]
    timeout_seconds: float
    max_attempts: int
    retry_backoff: str
    retry_delay_ms: int
    max_retry_delay_ms: int
    retry_multiplier: float
    retry_jitter: float
    retry_on: list[str] | None
    heartbeat_interval_ms: int
    concurrency: int
    rate_limit: int | None
    rate_seconds: float | None
    priority: int
    idempotency_ttl_seconds: int
    description: str | None
    input_schema: dict[str, Any] | None
    orphaned_at: datetime | None
    queue_name: str | None
    requires: Labels | None

    def queue_for(self, tenant: str, name: str | None, requires: Labels | None) -> str:
        """Its queue for a task run that has chosen something in place of what it says itself.

        Args:
            name: of the queue; None for its own.
            requires: labels of the worker, beside its own ones; None for none.

        Raises:
            InvalidInput: with its own labels, they are more than a worker can have.
        """
        if name is None and requires is None:
            return self.queue
        base = queue_name(tenant, self.service_id, self.service_kind)
        required = {**(self.requires or {}), **(requires or {})}
        if len(required) > MAX_LABELS:
            raise _too_many(self.id, required)
        return queue_names.labelled(queue_names.named_queue(base, name or self.queue_name), required)


def _too_many(task: str, required: Labels) -> InvalidInput:
    problem = f"task {task} would require {len(required)} labels, and a worker has at most {MAX_LABELS}"
    return InvalidInput(
        f"{problem}: {in_words(required)}",
        errors=[FieldError("requires", problem, "limit_exceeded", f"at most {MAX_LABELS}")],
        hint="leave some of them out of the task, the step or the trigger",
    )


class RetryColumns(Protocol):
    """The retry columns of a task, of a TaskRow or of any other row."""

    @property
    def retry_backoff(self) -> Any: ...
    @property
    def retry_delay_ms(self) -> int: ...
    @property
    def max_retry_delay_ms(self) -> int: ...
    @property
    def retry_multiplier(self) -> float: ...
    @property
    def retry_jitter(self) -> float: ...
    @property
    def retry_on(self) -> list[str] | None: ...


def policy_of(row: RetryColumns, cap_ms: int | None = None) -> RetryPolicy:
    """The retry policy of a task; no delay is longer than `cap_ms` (setting MAX_RETRY_DELAY_MS)."""
    return RetryPolicy(
        row.retry_backoff,
        row.retry_delay_ms,
        row.max_retry_delay_ms,
        row.retry_multiplier,
        row.retry_jitter,
        None if row.retry_on is None else frozenset(row.retry_on),
        cap_ms,
    )


def policy_of_step(retry: StepRetry, cap_ms: int | None = None) -> RetryPolicy:
    """The retry policy of a step that has its own, in place of its task's; `cap_ms` as for `policy_of`."""
    return RetryPolicy(
        cast("Backoff", retry.backoff),
        retry.delay_ms,
        retry.max_delay_ms,
        retry.multiplier,
        retry.jitter,
        None if retry.retry_on is None else frozenset(retry.retry_on),
        cap_ms,
    )


def queue_name(tenant: str, service_id: str, kind: str = "python") -> str:
    """The Celery queue of a service's tasks that name none."""
    if kind == HTTP:
        return queue_names.dispatch_queue(tenant)
    return queue_names.service_queue(tenant, service_id)


# SQL: the queue of the task `t` of the service `s`.
QUEUE = queue_names.queue_sql(None, task="t")

# The columns of a TaskRow, in its order.
TASK_COLUMNS = f"""t.id, t.service_id, s.kind AS service_kind, s.base_url, {QUEUE} AS queue, t.code_hash,
    t.code_version, t.allowed_next, t.timeout_seconds, t.max_attempts, t.retry_backoff, t.retry_delay_ms,
    t.max_retry_delay_ms, t.retry_multiplier, t.retry_jitter, t.retry_on, t.heartbeat_interval_ms,
    t.concurrency, t.rate_limit, t.rate_seconds, t.priority, t.idempotency_ttl_seconds, t.description,
    t.input_schema, t.orphaned_at, t.queue AS queue_name, t.requires"""

_TASKS = f"""
SELECT {TASK_COLUMNS}
FROM tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id
WHERE t.tenant_id = :tenant AND t.id = ANY(CAST(:ids AS text[]))
"""


def tasks(tx: Transaction, tenant: str, task_ids: Iterable[str]) -> dict[str, TaskRow]:
    """The rows of these tasks by id, orphaned tasks included; unknown ids are left out."""
    wanted = sorted(set(task_ids))
    if not wanted:
        return {}
    rows = tx.execute(_TASKS, {"tenant": tenant, "ids": wanted})
    return {row.id: task_row(row) for row in rows}


def task_row(row: Iterable[Any]) -> TaskRow:
    """Make a TaskRow from a row of TASK_COLUMNS."""
    return TaskRow(*row)
