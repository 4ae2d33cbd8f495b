"""Documents of dead letters and of groups of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave import ids
from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, Paged, RunId, TaskRunId, TypeId
from pipeweave.orchestrator.domain import RunStatus, TaskStatus
from pipeweave.spec import TaskRunKind

DeadLetterId = Annotated[str, TypeId(ids.DEAD_LETTER)]
Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Outcome = Literal["failed", "timeout"]


class DeadLetter(AnswerModel):
    """A task run that failed and has no attempt left.

    `pipelineRunId` and `pipelineId` are null for a standalone task.
    """

    id: DeadLetterId
    dlq_id: DeadLetterId = Field(description="The same as `id`.")
    task_run_id: TaskRunId
    task_id: str
    pipeline_run_id: RunId | None
    pipeline_id: str | None
    step_id: str
    kind: TaskRunKind
    map_index: int | None
    status: Literal["open", "retried", "discarded"]
    outcome: Outcome = Field(description="How the last attempt ended.")
    code_version: int = Field(description="The task's code version when it failed.")
    code_hash: CodeHash
    attempts: int
    input: Any = Field(description="The run's input. In lists, large inputs are left out.")
    input_path: str | None = Field(description="Where an input over 32 KiB lies.")
    error: Any = Field(description="Without its traceback; `GET /api/dlq/{id}` shows that.")
    error_code: str
    fingerprint: Fingerprint
    failed_at: AwareDatetime
    created_at: AwareDatetime = Field(description="The same as `failedAt`.")
    retried_at: AwareDatetime | None
    retry_run_id: RunId | None = Field(description="The run that went on; null for a standalone task.")
    retry_task_run_id: TaskRunId | None
    discarded_at: AwareDatetime | None
    discard_reason: str | None


class DeadLetterList(Paged):
    """Dead letters, newest first."""

    items: list[DeadLetter]
    total: int = Field(description="The number of matching dead letters, counted up to 10,000.")
    total_is_capped: bool = Field(description="Whether there are more than `total`.")


class DeadAttempt(AnswerModel):
    """One attempt that ended badly."""

    attempt: int
    status: str
    worker: str | None
    code_version: int | None
    error: Any = Field(description="With its traceback.")
    error_code: str | None
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None


class DeadLetterDetail(DeadLetter):
    """A dead letter in full."""

    item: Any = Field(description="The item, if the task run is an item of a map.")
    previous_attempts: list[DeadAttempt] = Field(description="Every attempt, oldest first.")
    current_code_version: int | None
    current_code_hash: CodeHash | None
    code_changed: bool = Field(description="Whether the task's code changed since it failed.")
    task_is_registered: bool
    run_status: RunStatus | None = Field(description="null once the run's history was dropped.")
    task_run_status: TaskStatus | None = Field(description="null once the run's history was dropped.")


class DeadLetterGroup(AnswerModel):
    """Dead letters with similar errors."""

    fingerprint: Fingerprint
    count: int
    task_id: str
    error_code: str
    error_type: str | None
    message: str | None = Field(description="The message of the newest error.")
    first_failed_at: AwareDatetime
    last_failed_at: AwareDatetime
    newest: DeadLetterId
    code_version: int = Field(description="The task's code version when the newest failed.")
    current_code_version: int | None = Field(description="null when the task is not registered any more.")
    code_changed: bool = Field(description="Whether the task's code changed since the newest failed.")


class DeadLetterGroups(AnswerModel):
    """Groups, the largest first, of the newest 100,000 dead letters."""

    groups: list[DeadLetterGroup]


class RetriedAnswer(AnswerModel):
    """A dead letter was retried."""

    new_run_id: RunId | TaskRunId = Field(
        description="The run that continues, or the new task run of a standalone task."
    )
    task_run_id: TaskRunId
    status: Literal["queued"]
    code_version: int = Field(description="The code version that the retry runs.")


_MORE: Any = Field(description="Whether more may be left: send the request again.")


class DiscardedAnswer(AnswerModel):
    """How many dead letters were discarded."""

    discarded: int
    more: bool = _MORE


class PurgedAnswer(AnswerModel):
    """How many dead letters were deleted."""

    purged: int
    more: bool = _MORE
