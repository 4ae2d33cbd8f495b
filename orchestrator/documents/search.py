"""Documents of a search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeweave.orchestrator.documents.base import AnswerModel


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
