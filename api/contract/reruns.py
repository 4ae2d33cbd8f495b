"""Models of reruns: a run that ended, again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pipeweave.api.contract.dead_letters import Time
from pipeweave.api.contract.requests import MAX_INT32, MAX_TOKEN, WHOLE, Name, Request, ValidationMode
from pipeweave.orchestrator.documents.base import AnswerModel, RunId
from pipeweave.orchestrator.documents.parts import EditsAnswer, Fault
from pipeweave.orchestrator.domain import RunStatus

# Runs that one request runs again at most: each is written in a transaction of its own.
MAX_RERUNS = 100

Version = (
    Annotated[Literal["same", "latest"], Field(description="That of the run, or the newest.")]
    | Annotated[int, Field(ge=1, le=MAX_INT32), WHOLE]
)
RunToken = Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)]


class RerunRequest(Request):
    """Run a run again, that has ended."""

    from_step: Name | None = Field(
        None, description="The step to begin at. Absent: every step runs, and nothing is reused."
    )
    input: Any = Field(None, description="Another input. Absent: that of the run.")
    params: dict[str, Any] | None = Field(
        None,
        description="Other params of the step to begin at, for the new run alone; they may hold expressions."
        " Absent: those that it had in the run. null: those of the version.",
    )
    version: Version = Field("same", description="`same`, `latest`, or the number of a version.")
    run_token: RunToken | None = Field(
        None,
        description="A second rerun of the run with the same token, step, input, params and version is the"
        " first.",
    )
    validation_mode: ValidationMode | None = Field(
        None, description="What errors in the input do, as for a trigger."
    )


class RerunAnswer(AnswerModel):
    """A rerun that was accepted."""

    pipeline_run_id: RunId = Field(description="The new run.")
    tenant: str
    pipeline_id: str
    pipeline_version: int
    status: RunStatus
    rerun_of: RunId
    from_step: str | None
    reused_steps: list[str] = Field(description="Steps that do not run: they have the results of the run.")
    edits: EditsAnswer | None = Field(description="What is edited for the new run alone; null: nothing.")
    created: bool = Field(description="false: an earlier request with this run token created the rerun.")
    validation_warnings: dict[str, list[Fault]] = Field(
        {}, description="Errors of the input by pipeline and entry task."
    )


class RerunAllRequest(Request):
    """Run many runs again: those that match all given filters, newest first."""

    status: Annotated[
        Literal["completed", "partial", "failed", "cancelled"], Field(description="How the runs ended.")
    ]
    pipeline_id: Name | None = None
    created_after: Time | None = Field(None, description="Created at this time or later.")
    created_before: Time | None = Field(None, description="Created before this time.")
    from_step: Name | None = Field(None, description="The step to begin at, in each of them.")
    version: Version = Field("same", description="`same`, `latest`, or the number of a version.")
    dry_run: bool = Field(False, description="Only list the runs: nothing is started.")
    limit: Annotated[int, Field(ge=1, le=MAX_RERUNS), WHOLE] = Field(
        MAX_RERUNS, description="The largest number of runs that this request looks at."
    )
    cursor: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,400}$")] | None = Field(
        None, description="`nextCursor` of the answer before, sent with the same filters."
    )
    run_token: RunToken | None = Field(
        None, description="A second request with the same token finds the reruns of the first."
    )


class RerunOutcome(AnswerModel):
    """What became of one run of many."""

    run_id: RunId
    pipeline_run_id: RunId | None = Field(description="Its rerun; null in a dry run, and if it was refused.")
    created: bool
    error_code: str | None = Field(description="Why it was refused.")
    error: str | None


class RerunAllAnswer(AnswerModel):
    """The runs of one request, newest first."""

    dry_run: bool
    runs: list[RerunOutcome]
    next_cursor: str | None = Field(description="Send it as `cursor` for older runs; null: no more.")
