"""Models of the requests of the dead letter endpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

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
from pipeweave.durations import DURATION_EXPECTED, DURATION_PATTERN, milliseconds
from pipeweave.orchestrator.deadletters import LetterFilter
from pipeweave.orchestrator.documents.base import RunId, TaskRunId
from pipeweave.orchestrator.documents.dead_letters import Fingerprint
from pipeweave.orchestrator.operations import Pace
from pipeweave.orchestrator.store import DEFAULT_LIMIT, MAX_LIMIT

MAX_CANARY = 1_000
ErrorCode = Annotated[str, Field(min_length=1, max_length=200)]
Status = Literal["open", "retried", "discarded", "all"]


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


class _FilteredLetters(Query):
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
        return LetterFilter(**{name: getattr(self, name) for name in _FilteredLetters.model_fields})


class DeadLettersQuery(PageQuery, _FilteredLetters):
    """Parameters of the list of dead letters."""

    status: Status = "open"
    id_prefix: DeadLetterIdBeginning | None = Field(None, description=BEGINNING.format(ids.DEAD_LETTER))


class RedrivesQuery(PageQuery):
    """Parameters of the list of redrives."""

    id_prefix: RedriveIdBeginning | None = Field(None, description=BEGINNING.format(ids.REDRIVE))


class GroupsQuery(_FilteredLetters):
    """Parameters of the groups of dead letters."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), DIGITS] = Field(
        DEFAULT_LIMIT, description="The largest number of groups."
    )
    status: Status = "open"


class _FilteredBody(Request, _FilteredLetters):
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
