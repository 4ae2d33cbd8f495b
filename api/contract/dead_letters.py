"""Models of the requests and answers of the dead letter endpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, WithJsonSchema

from pipeweave import ids
from pipeweave.api.contract.query_parameters import (
    BEGINNING,
    DIGITS,
    DeadLetterIdBeginning,
    Moment,
    PageQuery,
    Query,
    RedriveIdBeginning,
)
from pipeweave.api.contract.requests import MAX_INT32, MAX_REASON, WHOLE, Name, Request
from pipeweave.api.contract.run_answers import Kind
from pipeweave.durations import DURATION_EXPECTED, DURATION_PATTERN, milliseconds
from pipeweave.orchestrator.deadletters import LetterFilter
from pipeweave.orchestrator.documents.base import (
    AnswerModel,
    CodeHash,
    Paged,
    RunId,
    TaskRunId,
    type_id_pattern,
)
from pipeweave.orchestrator.domain import RunStatus, TaskStatus
from pipeweave.orchestrator.operations import Pace
from pipeweave.orchestrator.store import DEFAULT_LIMIT, MAX_LIMIT

MAX_CANARY = 1_000
DeadLetterId = Annotated[str, Field(pattern=type_id_pattern(ids.DEAD_LETTER))]
RedriveId = Annotated[str, Field(pattern=type_id_pattern(ids.REDRIVE))]
Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
ErrorCode = Annotated[str, Field(min_length=1, max_length=200)]
Status = Literal["open", "retried", "discarded", "all"]
Outcome = Literal["failed", "timeout"]


def _duration(text: str) -> str:
    """Check a duration. Unlike the error of a pattern, this error explains the format."""
    if milliseconds(text) is None:
        raise ValueError(f"Input should be {DURATION_EXPECTED}")
    return text


Duration = Annotated[
    str, AfterValidator(_duration), WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN})
]


def _text(value: Any) -> Any:
    """Refuse a time that is not text. A query parameter is always text, but a JSON body may hold a number."""
    if not isinstance(value, str):
        raise ValueError("Input should be a time such as 2026-11-20T12:00:00Z")
    return value


Time = Annotated[Moment, BeforeValidator(_text)]


# --- requests ---------------------------------------------------------------------------------------------


class _Filtered(Query):
    pipeline_id: Name | None = None
    task_id: Name | None = None
    error_code: ErrorCode | None = None
    fingerprint: Fingerprint | None = Field(None, description="Similar errors have the same fingerprint.")
    since: Moment | None = Field(None, description="Failed at this time or later.")
    until: Moment | None = Field(None, description="Failed before this time.")
    pipeline_run_id: RunId | None = Field(None, description="Only those of this run.")
    task_run_id: TaskRunId | None = Field(None, description="Only that of this task run.")

    def filter(self) -> LetterFilter:
        """The filter in the form that the verbs and queries of the orchestrator take."""
        return LetterFilter(**{name: getattr(self, name) for name in _Filtered.model_fields})


class DeadLettersQuery(PageQuery, _Filtered):
    """Parameters of the list of dead letters."""

    status: Status = "open"
    id_prefix: DeadLetterIdBeginning | None = Field(None, description=BEGINNING.format(ids.DEAD_LETTER))


class RedrivesQuery(PageQuery):
    """Parameters of the list of redrives."""

    id_prefix: RedriveIdBeginning | None = Field(None, description=BEGINNING.format(ids.REDRIVE))


class GroupsQuery(_Filtered):
    """Parameters of the groups of dead letters."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), DIGITS] = Field(
        DEFAULT_LIMIT, description="The largest number of groups."
    )
    status: Status = "open"


class _FilteredBody(Request, _Filtered):
    since: Time | None = Field(None, description="Failed at this time or later.")
    until: Time | None = Field(None, description="Failed before this time.")


class RetryAllRequest(_FilteredBody):
    """Retry every open dead letter that matches all given filters; `{}` retries every open one."""

    limit: Annotated[int, Field(ge=1, le=MAX_INT32), WHOLE] | None = Field(
        None, description="The largest number that is retried."
    )
    canary: Annotated[int, Field(ge=1, le=MAX_CANARY), WHOLE] | None = Field(
        None, description="Retry so many first, and the others only when these have ended well enough."
    )
    per_second: Annotated[float, Field(gt=0, le=1_000)] | None = Field(
        None, description="Retries in a second, at most."
    )
    stop_on_same_fingerprint: Annotated[float, Field(ge=0, le=100)] | None = Field(
        None,
        description="Stop when more than this share of the retries that ended (percent) failed again with"
        " the same fingerprint: after the canary, and of five retries or more. Absent: 50 after a canary, and"
        " never without one.",
    )

    def pace(self) -> Pace:
        """How the redrive proceeds."""
        return Pace(self.limit, self.canary, self.per_second, self.stop_on_same_fingerprint)


class DiscardRequest(Request):
    """Discard one dead letter."""

    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = Field(
        None, description="Shown with the dead letter."
    )


class DiscardMatchingRequest(_FilteredBody):
    """Discard every open dead letter that matches all given filters; at least one filter is required."""

    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = None


class PurgeRequest(Request):
    """Delete old dead letters, whether open, retried or discarded."""

    older_than: Duration = Field(description="Age since the failure, e.g. 30d, 12h or 90s.")


# --- answers ----------------------------------------------------------------------------------------------


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
    kind: Kind
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


class RedriveOutcomes(AnswerModel):
    """What became of the retries of a redrive, of the newest 2,000."""

    completed: int
    failed_again: int
    same_again: int = Field(description="Of those that failed again: with the same fingerprint.")
    ended_otherwise: int = Field(description="Cancelled or skipped, or their history is gone.")
    unended: int


class RetriedAnswer(AnswerModel):
    """A dead letter was retried."""

    new_run_id: RunId | TaskRunId = Field(
        description="The run that continues, or the new task run of a standalone task."
    )
    task_run_id: TaskRunId
    status: Literal["queued"]
    code_version: int = Field(description="The code version that the retry runs.")


class Redrive(AnswerModel):
    """The retry of many dead letters."""

    id: RedriveId
    status: Literal["running", "completed", "cancelled", "stopped"] = Field(
        description="`completed`: everything was retried, or skipped. `stopped`: it stopped by itself."
    )
    filter: dict[str, Any]
    total: int = Field(description="Dead letters that were open when the redrive was created.")
    retried: int
    skipped: int = Field(description="Dead letters that could not be retried and are still open.")
    created_at: AwareDatetime
    finished_at: AwareDatetime | None
    duration_ms: float | None
    created_by: str | None
    limit: int | None
    canary: int | None
    canary_ended_at: AwareDatetime | None = Field(description="Since then the others follow.")
    per_second: float | None
    stop_on_same_fingerprint: float | None
    stopped_because: str | None
    outcomes: RedriveOutcomes | None = Field(description="null in lists.")


class RedriveList(Paged):
    """Redrives, newest first."""

    redrives: list[Redrive]


_MORE: Any = Field(description="Whether more may be left: send the request again.")


class DiscardedAnswer(AnswerModel):
    """How many dead letters were discarded."""

    discarded: int
    more: bool = _MORE


class PurgedAnswer(AnswerModel):
    """How many dead letters were deleted."""

    purged: int
    more: bool = _MORE
