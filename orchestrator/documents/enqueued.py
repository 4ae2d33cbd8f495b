"""Documents of enqueued runs."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId


class EnqueuedRun(AnswerModel):
    """A run that a transaction of a program has put into PipeWeave's database, and that has not started."""

    id: RunId = Field(description="The run has it as soon as it starts.")
    pipeline_id: str
    run_token: str | None
    priority: int | None
    enqueued_by: str = Field(description="The database role.")
    enqueued_at: AwareDatetime
    due_at: AwareDatetime = Field(description="When it is started, or tried again.")
    tries: int
    error_code: str | None = Field(description="Of the last try.")
    error: str | None
    settled_at: AwareDatetime | None
    first_run_id: RunId | None = Field(description="The run that has its token.")


class EnqueuedList(Paged):
    """Enqueued runs: what waits in the order in which it was enqueued, the others newest first."""

    enqueued_runs: list[EnqueuedRun]
    waiting: int = Field(description="Among the 10,000 of all tenants that are due first.")
    waiting_is_capped: bool = Field(description="Whether more than these wait, of whichever tenant.")
    oldest: AwareDatetime | None = Field(description="When the oldest of those that wait was enqueued.")
    refused: int = Field(description="Counted up to 10,000.")
    refused_is_capped: bool


class DebouncedRun(AnswerModel):
    """A run that is put off until no other request of its key comes."""

    id: RunId = Field(description="The run has it as soon as it starts.")
    pipeline_id: str
    key: str
    due_at: AwareDatetime = Field(description="When it starts if no other request of its key comes.")
    latest_at: AwareDatetime = Field(description="When it starts at the latest.")
    requests: int = Field(description="For how many requests it stands; it has the input of the last one.")
