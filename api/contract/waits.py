"""Models of the requests and answers about waits and signals."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel, model_validator

from pipeweave.api.contract.query_parameters import PageQuery, Query
from pipeweave.api.contract.requests import MAX_INT32, MAX_REASON, MAX_TOKEN, WHOLE, Name, Request
from pipeweave.durations import DURATION_PATTERN, milliseconds
from pipeweave.orchestrator.documents.base import AnswerModel, RunId, TaskRunId
from pipeweave.orchestrator.documents.waits import SignalId
from pipeweave.orchestrator.domain import TaskStatus, WaitKind
from pipeweave.orchestrator.waits import MAX_COMMENT_CHARS

MAX_CODE_CHARS = 100
Reason = Annotated[str, Field(max_length=MAX_REASON)]
Comment = Annotated[str, Field(max_length=MAX_COMMENT_CHARS)]


class SignalPayload(RootModel[Any]):
    """Any JSON value of at most 262,144 bytes: what the waiting step gets as `payload`."""

    model_config = ConfigDict(strict=True)


class SignalByTokenQuery(Query):
    """Which run of the pipeline."""

    run_token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)] = Field(
        description="The `runToken` with which the run was triggered."
    )


class WaitsQuery(PageQuery):
    """Filters of the list of open waits."""

    kind: WaitKind | None = None
    assignee: Literal["me"] | None = Field(
        None, description="`me`: only approvals that the token may decide, by its name or its groups."
    )
    pipeline_id: Name | None = None
    run_id: RunId | None = Field(None, description="Only waits of this run.")
    older_than: Annotated[str, Field(pattern=DURATION_PATTERN)] | None = Field(
        None, description="Only waits that began so long ago: `30m`, `2d`."
    )

    def age(self) -> timedelta | None:
        """How long ago they began at least."""
        ms = None if self.older_than is None else milliseconds(self.older_than)
        return None if ms is None else timedelta(milliseconds=ms)


class DecisionRequest(Request):
    """A vote on an approval."""

    form: Any = Field(None, description="The fields of the approval's form.")
    comment: Comment | None = None


class ApproveRequest(DecisionRequest):
    """A yes, or the choice of an option."""

    choice: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Of an approval with options: one of them."
    )


class RejectRequest(DecisionRequest):
    """A no."""


class Failing(Request):
    """Why a step fails."""

    code: Annotated[str, Field(min_length=1, max_length=MAX_CODE_CHARS, pattern=r"^[A-Za-z0-9_.:-]+$")]
    message: Annotated[str, Field(min_length=1, max_length=2_000)]


class ResolveRequest(Request):
    """The result of a step that waits: `output`, or `error`."""

    output: Any = None
    error: Failing | None = None
    reason: Reason | None = Field(None, description="Stored in the audit.")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> ResolveRequest:
        if (self.error is not None) == ("output" in self.model_fields_set):
            raise ValueError("Give either output or error")
        return self


class WakeRequest(Request):
    """End a sleep now."""

    reason: Reason | None = Field(None, description="Stored in the audit.")


class ExtendRequest(Request):
    """Give a wait more time, or less."""

    timeout_ms: Annotated[int, Field(ge=1, le=366 * 86_400_000), WHOLE] = Field(
        description="It ends so long from now on, if nothing comes before (ms)."
    )
    reason: Reason | None = Field(None, description="Stored in the audit.")

    @property
    def timeout(self) -> timedelta:
        return timedelta(milliseconds=self.timeout_ms)


class SentSignal(AnswerModel):
    """A signal was taken in."""

    signal_id: SignalId
    taken: bool = Field(description="Whether a step that waited for it has taken it already.")
    is_repeated: bool = Field(description="Whether it came before, with the same Idempotency-Key.")


class WaitState(AnswerModel):
    """The step behind a wait, after it was changed."""

    task_run_id: TaskRunId
    status: TaskStatus = Field(description="`waiting` while further people must agree.")
    attempt: Annotated[int, Field(ge=1, le=MAX_INT32)]
