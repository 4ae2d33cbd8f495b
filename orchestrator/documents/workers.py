"""Documents of workers."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, Percent, RunId, TaskRunId
from pipeweave.orchestrator.domain import TaskStatus

State = Literal["running", "stalled", "draining", "stopped", "crashed"]


class Worker(AnswerModel):
    """A Celery worker process, or an instance of an HTTP service."""

    id: str
    kind: Literal["celery", "http"]
    state: State = Field(
        description="`stalled`: it lives and takes nothing, though work has waited for half a minute."
        " `draining`: it takes nothing more, because somebody drains it or because it is about to stop."
        " `crashed`: it fell silent and did not sign off."
    )
    service_id: str
    name: str
    hostname: str | None
    pid: int | None
    version: str | None = Field(description="Of the code that it has loaded.")
    labels: dict[str, str] = Field(description="Of its machine: what requires some of them it may call.")
    queues: list[str] = Field(
        description="Full names of the queues that it consumes, but for those of what requires labels."
    )
    places: int | None = Field(description="Messages that it works off at a time; null for an HTTP service.")
    busy: int | None = Field(description="Places in use, at its last heartbeat.")
    task_count: int
    started_at: AwareDatetime
    heartbeat_at: AwareDatetime = Field(description="Of an HTTP service: when it was last heard of.")
    heartbeat_age_ms: float
    stopped_at: AwareDatetime | None
    uptime_ms: float = Field(description="Since it started, until it ended.")
    lost_at: AwareDatetime | None = Field(description="When it was found silent.")
    last_fetch_at: AwareDatetime | None = Field(description="When it last took a message.")
    rss_bytes: int | None = Field(
        description="Memory of its processes together; pages that they share count in each."
    )
    memory_replacements: int | None = Field(
        description="Processes that it replaced because of WORKER_MAX_MEMORY, since it started."
    )
    cpu_percent: float | None = Field(description="Of one processor, by its processes together.")
    starts_last_hour: int | None = Field(description="Calls that it began in the last hour.")
    drain_requested_at: AwareDatetime | None
    drain_reason: str | None
    last_error: str | None = Field(description="Why dispatches to an instance are held back.")


class WorkerCounts(AnswerModel):
    """How many workers are in each state."""

    running: int
    stalled: int
    draining: int
    stopped: int = Field(description="In the last week.")
    crashed: int = Field(description="In the last week.")


class ServiceUptime(AnswerModel):
    """For how long a service had a worker that was heard, in the last 30 days."""

    service_id: str
    since: AwareDatetime = Field(description="30 days ago, or when its first worker since then began.")
    up_ms: float
    share: float = Field(
        ge=0, le=1, description="Of the time since, or until its last worker stopped in order."
    )


class WorkerList(Paged):
    """Workers, those that live first, then those that ended, the last first."""

    workers: list[Worker]
    counts: WorkerCounts = Field(description="Of all workers, whatever the filters.")
    uptime: list[ServiceUptime] = Field(description="Of each service with Celery workers.")


class RunningTaskRun(AnswerModel):
    """A task run that a worker runs now."""

    id: TaskRunId
    run_id: RunId | None = Field(description="null for a standalone task.")
    pipeline_id: str | None
    task_id: str
    step_id: str
    map_index: int | None
    attempt: int
    progress: Percent | None
    progress_message: str | None
    started_at: AwareDatetime


class LostAttempt(AnswerModel):
    """An attempt that was lost with a worker."""

    id: TaskRunId
    run_id: RunId | None = Field(description="null for a standalone task.")
    pipeline_id: str | None
    task_id: str
    step_id: str
    map_index: int | None
    attempt: int
    started_at: AwareDatetime | None
    lost_at: AwareDatetime
    status: TaskStatus = Field(description="Of the task run now.")
    worker: str | None = Field(description="Who made a later attempt; null: nobody yet.")


class WorkerDetail(Worker):
    """A worker with what it has loaded, what it runs, and what was lost with it."""

    tasks: list[str] = Field(description="The first 100.")
    task_runs: list[RunningTaskRun] = Field(description="The longest-running 100.")
    lost_attempts: list[LostAttempt] = Field(description="The last 100.")


class WorkerAnswer(AnswerModel):
    """One worker."""

    worker: WorkerDetail
