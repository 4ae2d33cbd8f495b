"""Documents of checkpoints."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId, TaskRunId
from pipeweave.orchestrator.documents.run_questions import RunAt


class Checkpoint(AnswerModel):
    """An event after which a run stood still: what was done by then is durable."""

    checkpoint_id: str = Field(description="Unique in the run: the `seq` of its event.")
    run_id: RunId
    seq: int
    created_at: AwareDatetime
    event: str = Field(description="The type of the event.")
    task_run_id: TaskRunId | None = Field(description="null: of the run, or of many task runs.")
    attempt: int | None
    href: str = Field(description="Where it is shown with its state.")


class CheckpointList(Paged):
    """A run's checkpoints, oldest first."""

    checkpoints: list[Checkpoint]


class CheckpointDetail(Checkpoint):
    """A checkpoint with the state of the run."""

    state: RunAt = Field(description="Rebuilt from the events up to it, as by `/at`.")
