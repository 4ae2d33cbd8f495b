"""Parts that several documents have: references to values, what began a run, the page of a search."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged

TriggerKind = Literal["api", "schedule", "webhook", "event", "rerun", "redrive", "transaction", "parent"]
TraceId = Annotated[
    str,
    Field(
        pattern="^[0-9a-f]{32}$",
        description="The trace of the run: that of the trigger's `traceparent`, else the UUID of the run.",
    ),
]


class Reference(AnswerModel):
    """Where a large value is in storage, its size and its hash."""

    path: str | None = Field(description="null: it is in its row; the answer has too many values to show it.")
    backend: str | None = Field(
        description="The id of its storage backend; null: the default, or it is in its row."
    )
    size: int = Field(description="Bytes of JSON.")
    hash: str


class MapReference(AnswerModel):
    """Replaces a map's output that is too large to show; its task runs of kind `item` have the parts."""

    items: int
    size: int = Field(description="Bytes of JSON.")


class TriggeredByAnswer(AnswerModel):
    """What began a run."""

    kind: TriggerKind
    id: str | None = Field(description="The schedule, webhook, run or dead letter; null for a request.")
    actor: str | None = Field(description="The name of the access token, if one is known.")


class EditsAnswer(AnswerModel):
    """What was edited for a rerun. It holds for this run alone."""

    params: dict[str, dict[str, Any]] = Field(
        description="By step, the params in place of those that the version has."
    )
    other_input: list[str] = Field(
        description="Reused steps that have read another input than this run's: that of a run before."
    )


class Scanned(Paged):
    """One page of a list that may have to look through rows."""

    scanned: int | None = Field(
        description="How many rows were looked at; null: an index gave the page, and no other row was."
    )
    scanned_to: AwareDatetime | None = Field(
        description="How far back the look came, if it ended before the page was full."
    )


class Fault(AnswerModel):
    """One error in one field."""

    field: str = Field(description="Path into the request, e.g. `tasks[0].id`; empty: the whole request.")
    message: str
    code: str
    expected: str = Field("", description="What the field should be, if known.")
