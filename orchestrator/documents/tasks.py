"""Documents of tasks, of their code, and of the workers that have it."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from pipeweave.authoring import Backoff, OnExhausted
from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, Paged


class Task(AnswerModel):
    """A registered unit of work."""

    id: str
    service_id: str
    code_hash: CodeHash
    code_version: int
    allowed_next: list[str]
    timeout: float = Field(description="Seconds that an attempt may take.")
    retries: int
    max_attempts: int
    retry_backoff: Backoff
    retry_delay_ms: int
    max_retry_delay_ms: int
    retry_multiplier: float = Field(description="The factor by which an exponential delay grows.")
    retry_jitter: float = Field(description="The random part of each delay, from 0 to 1.")
    retry_on: list[str] | None = Field(
        description="Error codes that are retried; null: every retryable error."
    )
    on_exhausted: OnExhausted = Field(description="What follows the last attempt: `pause` pauses its run.")
    heartbeat_interval_ms: int
    concurrency: int = Field(description="How many may run at once; 0 is unlimited.")
    rate_limit: str | None = Field(description="How often it may start over all workers, e.g. `100/m`.")
    declared_concurrency: int = Field(description="As its code has it.")
    declared_rate_limit: str | None = Field(description="As its code has it.")
    concurrency_override: int | None = Field(
        description="What an operator has set, which holds instead; 0 is unlimited."
    )
    rate_limit_override: str | None = Field(
        description="What an operator has set, which holds instead; empty: no limit."
    )
    limits_set_at: AwareDatetime | None
    limits_set_by: str | None
    limits_reason: str | None
    paused_at: AwareDatetime | None = Field(description="When it was paused; null: it is not paused.")
    pause_reason: str | None
    priority: int
    idempotency_ttl: int = Field(
        alias="idempotencyTTL", description="Seconds for which a result is returned for its idempotency key."
    )
    description: str | None
    has_input_schema: bool
    registered_at: AwareDatetime
    updated_at: AwareDatetime
    queue: str = Field(description="The name of its queue; `default`: that of its service.")
    requires: dict[str, str] | None = Field(
        description="Labels of the workers that may call it; null: of any worker."
    )
    worker_count: int = Field(
        description="How many live worker processes have it; of an HTTP task, instances that take dispatches."
    )
    last_seen: AwareDatetime | None = Field(
        description="When the last worker with it was alive, as far as is known; null: nobody knows."
    )
    orphaned_at: AwareDatetime | None = Field(description="When it was removed; null: it was not.")


class RemovedTaskAnswer(AnswerModel):
    """A task that was removed."""

    task_id: str
    removed_at: AwareDatetime
    cancelled: int = Field(description="How many task runs were cancelled that had not started.")


class Deploy(AnswerModel):
    """A task in one code, as live worker processes have it."""

    task_id: str
    service_id: str
    code_version: int | None = Field(description="The newest version with this hash.")
    code_hash: CodeHash
    is_newest: bool = Field(description="Whether this is the code that was registered last.")
    worker_count: int = Field(description="How many live worker processes have it.")
    stopping: int = Field(description="How many of them were asked to stop, and take nothing more.")
    idle: int = Field(description="How many of them do not serve the task's queue.")
    since: AwareDatetime = Field(description="When the first of them started.")
    workers: list[str] = Field(description="The oldest 20 of them.")


class DeployList(Paged):
    """Tasks in the codes that live workers have, by task."""

    deploys: list[Deploy]


class PauseState(AnswerModel):
    """Whether a task or a whole tenant is paused."""

    task_id: str | None = Field(description="null: all tasks of the tenant.")
    paused_at: AwareDatetime | None = Field(description="null: it is not paused.")
    reason: str | None


class TaskList(Paged):
    """Tasks in the order of their ids."""

    tasks: list[Task]


class TaskAnswer(AnswerModel):
    """One task."""

    task: Task


class CodeVersion(AnswerModel):
    """One version of a task's code."""

    code_version: int
    code_hash: CodeHash
    service_version: str
    recorded_at: AwareDatetime


class HistoryAnswer(Paged):
    """A task's code versions, newest first."""

    task_id: str
    history: list[CodeVersion]


class InputSchemaAnswer(AnswerModel):
    """A task's input schema."""

    task_id: str
    has_schema: bool
    schema_: dict[str, Any] | None = Field(alias="schema")
