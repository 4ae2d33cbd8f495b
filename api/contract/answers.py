"""What is answered: the shapes of the OpenAPI document. Tests hold every real answer against them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pipeweave import ids
from pipeweave.authoring.retry import Backoff

HASH_PATTERN = "^[0-9a-f]{16,64}$"


def _type_id(prefix: str) -> Any:
    return Field(pattern=type_id_pattern(prefix))


def type_id_pattern(prefix: str) -> str:
    """The pattern of a TypeID: its prefix and 26 letters of Crockford's base 32."""
    return f"^{prefix}_[0-7][0-9abcdefghjkmnpqrstvwxyz]{{25}}$"


RunId = Annotated[str, _type_id(ids.RUN)]
TaskRunId = Annotated[str, _type_id(ids.TASK_RUN)]
CodeHash = Annotated[str, Field(pattern=HASH_PATTERN)]
Percent = Annotated[float, Field(ge=0, le=100)]
FailureMode = Literal["fail-fast", "continue", "partial-merge"]
Source = Literal["decorator", "document", "derived", "api"]


class AnswerModel(BaseModel):
    """camelCase, every field always there."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class Paged(AnswerModel):
    """A page of a list."""

    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last.")


# --- problems ---------------------------------------------------------------------------------------------


class Fault(AnswerModel):
    """One thing that is wrong with one field."""

    field: str = Field(description="Dotted path into what was sent, e.g. `tasks[0].id`; empty for all of it.")
    message: str
    code: str
    expected: str = Field("", description="What would be right, where that can be said.")


class Problem(BaseModel):
    """A problem document (RFC 9457). Further members say more, e.g. `incident` or what was not found."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str = Field(description="A stable word for this kind of problem.")
    detail: str
    error: str = Field(description="The title again, for clients of the worker protocol.")
    errors: list[Fault] = Field([], description="One entry for each wrong field.")
    hint: str = ""


# --- system -----------------------------------------------------------------------------------------------


class Maintenance(AnswerModel):
    """Whether new work is accepted, and what is still under way in all tenants."""

    mode: Literal["running", "waiting_for_maintenance", "maintenance"]
    can_enter_maintenance: bool
    pending_tasks: int = Field(
        description="Wait for a worker, a limit, their next attempt or the world outside."
    )
    running_tasks: int = Field(description="Are with a worker.")
    mode_changed_at: AwareDatetime
    reason: str | None
    message: str


class OpenTaskRuns(AnswerModel):
    """Task runs of an open run that are not final, by status."""

    running: int
    queued: int
    ready: int
    waiting: int
    pending: int


class BlockingRun(AnswerModel):
    """An open run, for which maintenance waits."""

    id: RunId | TaskRunId = Field(description="What to cancel: a run, or a standalone task's task run.")
    tenant: str
    pipeline_id: str | None = Field(description="null: a standalone task.")
    task_id: str | None = Field(description="Of a standalone task.")
    status: Literal["pending", "running", "paused", "error_handling"]
    created_at: AwareDatetime
    age: float = Field(description="Seconds.")
    task_runs: OpenTaskRuns


class MaintenanceState(Maintenance):
    """The mode, and the runs that are open."""

    blocking: list[BlockingRun] = Field(description="The oldest 20, of all tenants.")
    blocking_total: int


class TickAnswer(AnswerModel):
    """What a tick did."""

    status: Literal["ok"]
    processed: int
    did: dict[str, int] = Field(description="The same by kind.")
    message: str
    timestamp: AwareDatetime


class Health(AnswerModel):
    """PostgreSQL answers."""

    status: Literal["ok", "degraded"]
    degraded: str | None = Field(description="What is not as it should be, though requests are answered.")
    last_tick_at: AwareDatetime | None
    database: Literal["connected"]
    maintenance: Maintenance
    can_accept_tasks: bool
    maintenance_mode: str
    running_tasks: int
    timestamp: AwareDatetime


class Unhealthy(AnswerModel):
    """PostgreSQL does not answer."""

    status: Literal["error"]
    error: str
    timestamp: AwareDatetime


class Info(AnswerModel):
    """What this process is and how it is set up."""

    version: str
    mode: Literal["standalone", "serverless"]
    max_concurrency: int
    poll_interval_ms: int
    storage_backends: list[str]
    default_storage_backend: str
    uptime: float = Field(description="Seconds.")
    timestamp: AwareDatetime


# --- services and tasks -----------------------------------------------------------------------------------


class Service(AnswerModel):
    """A registered worker program."""

    id: str
    kind: Literal["python", "http"]
    version: str
    base_url: str | None
    queue: str = Field(description="The Celery queue of its tasks.")
    status: Literal["active", "inactive", "disconnected"]
    registered_at: AwareDatetime
    last_heartbeat: AwareDatetime
    task_count: int
    worker_count: int


class ServiceList(Paged):
    """Services in the order of their ids."""

    services: list[Service]


class ServiceAnswer(AnswerModel):
    """One service."""

    service: Service


class Task(AnswerModel):
    """A registered unit of work."""

    id: str
    service_id: str
    code_hash: CodeHash
    code_version: int
    allowed_next: list[str]
    timeout: float = Field(description="Seconds.")
    retries: int
    max_attempts: int
    retry_backoff: Backoff
    retry_delay_ms: int
    max_retry_delay_ms: int
    retry_multiplier: float = Field(description="What an exponential delay grows by.")
    retry_jitter: float = Field(description="The part of each delay that is left to chance.")
    retry_on: list[str] | None = Field(description="Error codes that earn another attempt; null: every one.")
    heartbeat_interval_ms: int
    concurrency: int = Field(description="At once; 0 is unlimited.")
    rate_limit: str | None = Field(description="Starts per time over all workers, as `100/m`.")
    paused_at: AwareDatetime | None = Field(description="Since when nothing of it starts; null: it does.")
    pause_reason: str | None
    priority: int
    idempotency_ttl: int = Field(alias="idempotencyTTL", description="Seconds.")
    description: str | None
    has_input_schema: bool
    registered_at: AwareDatetime
    updated_at: AwareDatetime
    orphaned_at: AwareDatetime | None = Field(description="When its service came without it.")


class PauseState(AnswerModel):
    """Whether a task, or a whole tenant, is paused."""

    task_id: str | None = Field(description="null: all tasks of the tenant.")
    paused_at: AwareDatetime | None = Field(description="null: it is not.")
    reason: str | None


class TaskList(Paged):
    """Tasks in the order of their ids."""

    tasks: list[Task]


class TaskAnswer(AnswerModel):
    """One task."""

    task: Task


class CodeVersion(AnswerModel):
    """What a task's code was from then on."""

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


class ValidationAnswer(AnswerModel):
    """What an input schema finds wrong with an input."""

    valid: bool
    errors: list[Fault]


class CodeChange(AnswerModel):
    """A task whose code differs from what was registered before."""

    task_id: str
    old_hash: CodeHash
    new_hash: CodeHash
    old_version: int
    new_version: int


class RegisteredAnswer(AnswerModel):
    """What a registration changed."""

    success: Literal[True]
    code_changes: list[CodeChange]
    orphaned_tasks: list[str]
