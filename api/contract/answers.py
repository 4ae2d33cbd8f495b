"""Models of problems, and of the answers about the deployment and about registrations."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash
from pipeweave.orchestrator.documents.maintenance import MaintenanceMode
from pipeweave.orchestrator.documents.parts import Fault

# --- errors -----------------------------------------------------------------------------------------------


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
