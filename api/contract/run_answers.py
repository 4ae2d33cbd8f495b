"""Models of the answers of searches, of the queue of standalone tasks, and of changes of runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeweave.orchestrator.documents.base import AnswerModel, RunId, TaskRunId
from pipeweave.orchestrator.documents.queues import Reason
from pipeweave.orchestrator.domain import TaskStatus

AttemptStatus = Literal[
    "running", "waiting", "completed", "failed", "timeout", "cancelled", "lost", "interrupted"
]


class SearchHit(AnswerModel):
    """One thing that was found."""

    kind: Literal[
        "run",
        "taskRun",
        "deadLetter",
        "redrive",
        "pipeline",
        "task",
        "schedule",
        "trigger",
        "service",
    ]
    id: str
    name: str | None = Field(
        description="Of a run its pipeline, of a task run its step, of a dead letter its task; else a"
        " description."
    )
    status: str | None = Field(description="null for what has no status.")


class SearchAnswer(AnswerModel):
    """What was found: ids first, then names."""

    hits: list[SearchHit]


class ChangedRuns(AnswerModel):
    """What an action did to the runs that match a filter."""

    matched: int = Field(description="Runs that match and that the action concerns, at most `limit`.")
    changed: int = Field(description="Those that it changed; 0 with `dryRun`.")
    runs: list[RunId] = Field(description="The first 20 of those that match, the oldest first.")
    is_dry_run: bool
    is_complete: bool = Field(description="false: more runs match; the same request goes on with them.")


# --- the queue --------------------------------------------------------------------------------------------


class Queued(AnswerModel):
    """A standalone task run that was accepted."""

    run_id: TaskRunId = Field(description="The task run: see `/api/task-runs/{id}`.")
    status: TaskStatus
    task_id: str
    input_path: str | None
    created: bool = Field(description="false: it is an earlier task run with the same idempotency key.")


class QueueBatchAnswer(AnswerModel):
    """Standalone task runs that were accepted."""

    queued: int = Field(description="How many task runs are new.")
    results: list[Queued]


class WhyAnswer(AnswerModel):
    """The reasons why a task run does not run yet. `runId` is null for a standalone task."""

    task_run_id: TaskRunId
    run_id: RunId | None
    status: TaskStatus
    reasons: list[Reason] = Field(description="In the order in which they have to be resolved.")
