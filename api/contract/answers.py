"""Models of the answers of the API. Tests check every real answer against them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pipeweave import ids
from pipeweave.authoring import Backoff

HASH_PATTERN = "^[0-9a-f]{16,64}$"


def _type_id(prefix: str) -> Any:
    return Field(pattern=type_id_pattern(prefix))


def type_id_pattern(prefix: str) -> str:
    """The pattern of a TypeID: the prefix and 26 characters of Crockford's base 32."""
    return f"^{prefix}_[0-7][0-9abcdefghjkmnpqrstvwxyz]{{25}}$"


RunId = Annotated[str, _type_id(ids.RUN)]
TaskRunId = Annotated[str, _type_id(ids.TASK_RUN)]
CodeHash = Annotated[str, Field(pattern=HASH_PATTERN)]
Percent = Annotated[float, Field(ge=0, le=100)]
FailureMode = Literal["fail-fast", "continue", "partial-merge"]
Source = Literal["decorator", "document", "derived", "api"]


class AnswerModel(BaseModel):
    """Base of all answers: names in camelCase, every field always present."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class Paged(AnswerModel):
    """One page of a list."""

    next_cursor: str | None = Field(
        description="Send it as `cursor` to get the next page; null on the last page."
    )


# --- errors -----------------------------------------------------------------------------------------------


class Fault(AnswerModel):
    """One error in one field."""

    field: str = Field(description="Path into the request, e.g. `tasks[0].id`; empty: the whole request.")
    message: str
    code: str
    expected: str = Field("", description="What the field should be, if known.")


class Problem(BaseModel):
    """A problem document (RFC 9457). Some problems have further members, e.g. `incident` or `taskId`."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str = Field(description="A stable word for this kind of problem.")
    detail: str
    error: str = Field(description="Repeats `title`, for clients of the worker protocol.")
    errors: list[Fault] = Field([], description="One entry for each wrong field.")
    hint: str = ""


# --- system -----------------------------------------------------------------------------------------------


class MaintenanceMode(AnswerModel):
    """The maintenance mode."""

    mode: Literal["running", "waiting_for_maintenance", "maintenance"]
    mode_changed_at: AwareDatetime
    reason: str | None
    message: str


class Maintenance(MaintenanceMode):
    """The maintenance mode, and how much work is open in all tenants."""

    can_enter_maintenance: bool
    pending_tasks: int = Field(
        description="Task runs that wait for a worker, a limit, their next attempt or something external."
    )
    running_tasks: int = Field(description="Task runs that a worker has claimed.")


class OpenTaskRuns(AnswerModel):
    """Counts the unfinished task runs of an open run, by status."""

    running: int
    queued: int
    ready: int
    waiting: int
    pending: int


class BlockingRun(AnswerModel):
    """An open run for which maintenance waits."""

    id: RunId | TaskRunId = Field(
        description="The id to cancel: the run, or the task run of a standalone task."
    )
    tenant: str
    pipeline_id: str | None = Field(description="null for a standalone task.")
    task_id: str | None = Field(description="The task of a standalone task; null for a run of a pipeline.")
    status: Literal["pending", "running", "paused", "error_handling"]
    created_at: AwareDatetime
    age: float = Field(description="Seconds since it was created.")
    task_runs: OpenTaskRuns


class MaintenanceState(Maintenance):
    """The maintenance mode and the open runs."""

    blocking: list[BlockingRun] = Field(description="The oldest 20 open runs of all tenants.")
    blocking_total: int
    empty_in_ms: float | None = Field(
        description="About when the last of them ends, if it goes on as in the last minute; null: nobody "
        "knows, because nothing ended or a run is paused."
    )


class TickAnswer(AnswerModel):
    """The work that one tick did."""

    status: Literal["ok"]
    processed: int
    did: dict[str, int] = Field(description="`processed` by kind of work.")
    failed_chores: list[str] = Field(
        description="Chores that failed, wholly or for some runs; the next tick tries them again."
    )
    message: str
    timestamp: AwareDatetime


class HealthMaintenance(MaintenanceMode):
    """The maintenance mode as everyone may see it; more with a token that may read every tenant."""

    reason: str | None = Field(description="null without such a token.")
    can_enter_maintenance: bool | None = Field(None, description="Absent without such a token.")
    pending_tasks: int | None = Field(
        None,
        description="Task runs of all tenants that wait for a worker, a limit, their next attempt or "
        "something external. Absent without such a token.",
    )
    running_tasks: int | None = Field(
        None, description="Task runs of all tenants that a worker has claimed. Absent without such a token."
    )


class Health(AnswerModel):
    """The health of the deployment, while PostgreSQL answers."""

    status: Literal["ok", "degraded"]
    degraded: str | None = Field(
        description="The fault, if requests are answered and something else is wrong."
    )
    last_tick_at: AwareDatetime | None
    database: Literal["connected"]
    failing_chores: list[str] = Field(
        description="Chores of the tick that failed at several ticks in a row; `pipeweave doctor` says more."
    )
    maintenance: HealthMaintenance
    can_accept_tasks: bool
    maintenance_mode: str
    running_tasks: int | None = Field(
        None, description="As in `maintenance`. Absent without a token that may read every tenant."
    )
    timestamp: AwareDatetime


class Unhealthy(AnswerModel):
    """The health of the deployment, while PostgreSQL does not answer."""

    status: Literal["error"]
    error: str
    timestamp: AwareDatetime


class Info(AnswerModel):
    """The version and configuration of this API process."""

    version: str
    mode: Literal["standalone", "serverless"]
    max_concurrency: int
    poll_interval_ms: int
    storage_backends: list[str]
    default_storage_backend: str
    uptime: float = Field(description="Seconds since this process started.")
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
    last_seen: AwareDatetime = Field(
        description="When it last registered or answered, or a worker was alive."
    )
    task_count: int
    worker_count: int
    instance_count: int = Field(description="Processes of an HTTP service that have registered.")
    ready_instances: int = Field(description="How many of them take dispatches.")
    storage_access: Literal["token", "urls"] = Field(
        description="How its dispatches say where values are: in an encrypted token, or as signed URLs."
    )
    token_format: Literal["sdk", "pbkdf2"]
    base_url_override: str | None = Field(
        description="The URL that replaces what instances register; `peer`: the address that they register"
        " from; null: what they register."
    )
    disabled_at: AwareDatetime | None = Field(description="When it was switched off; null: it is not.")


class Instance(AnswerModel):
    """A process of an HTTP service."""

    base_url: str = Field(description="Where dispatches to it go.")
    registered_url: str = Field(description="The URL that it registered.")
    version: str
    registered_at: AwareDatetime
    last_seen_at: AwareDatetime = Field(
        description="When it last registered, took a dispatch after it was set aside, or answered a probe."
    )
    set_aside_at: AwareDatetime | None = Field(
        description="Since when it takes no dispatches, because it refused one or did not answer; null: it"
        " takes them."
    )
    probe_at: AwareDatetime | None = Field(description="When it is asked next, while it is set aside.")
    refusals: int = Field(description="How often in a row it refused or did not answer.")
    last_error: str | None
    tasks: list[str] = Field(description="The tasks that it named when it registered.")


class ServiceDetail(Service):
    """A service with its instances."""

    instances: list[Instance] = Field(
        description="The first 200 instances of an HTTP service: those that take dispatches come first."
    )


class ServiceList(Paged):
    """Services in the order of their ids."""

    services: list[Service]


class ServiceAnswer(AnswerModel):
    """One service."""

    service: ServiceDetail


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


class ValidationAnswer(AnswerModel):
    """The errors that an input schema finds in an input."""

    valid: bool
    errors: list[Fault]


class CodeChange(AnswerModel):
    """A task whose code differs from the code registered before."""

    task_id: str
    old_hash: CodeHash
    new_hash: CodeHash
    old_version: int
    new_version: int


class RegisteredAnswer(AnswerModel):
    """The changes that a registration made."""

    success: Literal[True]
    code_changes: list[CodeChange]
    orphaned_tasks: list[str]
