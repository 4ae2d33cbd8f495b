"""Documents of the deployment as a whole: its settings, its checkup, its history."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, RunId
from pipeweave.orchestrator.documents.run_questions import RunVerification


class SettingAnswer(AnswerModel):
    """One setting of the API process."""

    name: str
    value: str | None = Field(description="Secrets are masked; null: not set.")
    source: str = Field(
        description="The environment variable; `default`; `program`: the code that embeds it."
    )
    about: str


class ConfigAnswer(AnswerModel):
    """The effective settings of the API process that answers."""

    settings: list[SettingAnswer]


class CheckAnswer(AnswerModel):
    """What one check found."""

    name: str
    level: Literal["ok", "warning", "error"]
    detail: str
    hint: str | None


class DeploymentLimit(AnswerModel):
    """How many task runs of all tenants may be at work: queued for a worker, or running."""

    max_running_task_runs: int | None = Field(description="null: there is no limit.")
    running_task_runs: int = Field(description="How many are at work.")


class DoctorAnswer(AnswerModel):
    """What all checks found."""

    status: Literal["ok", "warning", "error"] = Field(description="The worst of all.")
    is_complete: bool = Field(description="False: the time was up before the last check.")
    checks: list[CheckAnswer]


class SampleAnswer(AnswerModel):
    """Whether the newest runs agree with their events."""

    verified: int
    skipped: int = Field(description="Runs with too many events for a request, or dropped meanwhile.")
    differing: list[RunVerification] = Field(description="Those that do not agree.")
    is_complete: bool = Field(description="False: the time was up before the last run.")
    oldest_run_id: RunId | None = Field(description="The oldest run of the sample; null: there is none.")
    verified_at: AwareDatetime


class MonthAnswer(AnswerModel):
    """A month of history in the tables."""

    month: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$")]
    runs: int = Field(description="As all numbers of rows here, PostgreSQL's estimate.")
    task_runs: int
    attempts: int
    events: int
    bytes: int = Field(description="On disk, with indexes.")
    policy: Literal["kept", "due", "active", "leaving"] = Field(
        description="`active`: due, but a run of it is open; `leaving`: dropping it has begun."
    )
    due_at: AwareDatetime | None = Field(description="When it may be dropped; null: never.")


class MonthsAnswer(AnswerModel):
    """The months of history in the tables."""

    months: list[MonthAnswer] = Field(description="Oldest first.")
    retention_days: int | None = Field(description="Null: history is kept for ever.")
    is_archived: bool = Field(description="Whether a month is written to storage before it is dropped.")
