"""Models of what the time of a run was spent on."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipeweave.api.contract.answers import AnswerModel, RunId
from pipeweave.orchestrator.domain import RunStatus, TaskStatus

WaitKind = Literal[
    "work",
    "failedWork",
    "items",
    "outside",
    "queue",
    "taskLimit",
    "tenantLimit",
    "pause",
    "retryDelay",
    "sameKey",
    "predecessors",
    "ended",
]


class LedgerSum(AnswerModel):
    """What one kind of work or wait took together."""

    kind: WaitKind
    label: str = Field(description="The same in words.", examples=["waiting for a slot of resize (limit 4)"])
    task_id: str | None = Field(description="The task whose limit it waited for; null for any other kind.")
    limit: int | None = Field(description="The task's limit as it is now; null without one.")
    ms: float
    steps: int = Field(description="In how many steps of the critical path.")


class LedgerStep(AnswerModel):
    """A step of the critical path."""

    step_id: str
    task_id: str
    status: TaskStatus
    ms: float = Field(description="Its share of the run: from the end of the step before it to its own.")
    map_index: int | None = Field(description="Of a map: the item that ended last, which is the one told.")
    kinds: dict[WaitKind, float] = Field(description="ms by kind; they add up to `ms`.")
    text: str = Field(description="The same in words.")


class LedgerAnswer(AnswerModel):
    """What the duration of a run was spent on, along its critical path. The sums add up to the total."""

    run_id: RunId
    pipeline_id: str
    status: RunStatus
    is_open: bool = Field(description="true: it is told up to `until`, which is now.")
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    until: AwareDatetime
    total_ms: float = Field(description="From `createdAt` to `until`.")
    sums: list[LedgerSum] = Field(description="The longest first.")
    steps: list[LedgerStep] = Field(description="In their order; the 100 that took the longest.")
    path_length: int = Field(description="Steps of the critical path.")
    text: str = Field(description="The same in words.")
