"""Documents of waits and of signals."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from pipeweave import ids
from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId, TaskRunId, TypeId
from pipeweave.orchestrator.domain.waits import WaitKind

SignalId = Annotated[str, TypeId(ids.SIGNAL)]


class Vote(AnswerModel):
    """One person's vote on an approval."""

    choice: str = Field(description="`approve`, `reject`, or one of the options.")
    by: str | None = Field(description="The name of the person's token.")
    at: AwareDatetime
    comment: str | None
    form: Any = Field(description="What the person filled in.")


class Wait(AnswerModel):
    """A step that waits for a time, a signal, people, or another system."""

    task_run_id: TaskRunId = Field(description="The id of the wait, too.")
    run_id: RunId
    pipeline_id: str | None
    step_id: str
    kind: WaitKind
    names: list[str] = Field(description="The signals that end it.")
    since: AwareDatetime
    wakes_at: AwareDatetime | None = Field(description="When a sleep ends.")
    timeout_at: AwareDatetime | None = Field(description="When it ends if nothing comes before.")
    has_default: bool = Field(description="Whether it completes with `default` then; else it fails.")
    default: Any
    title: str | None
    context: Any
    form: Any = Field(description="The schema of the fields that who decides fills in.")
    assignees: list[str] = Field(description="Who may decide; empty: everybody with the scope.")
    needs: int | None = Field(description="How many people must agree.")
    options: list[str] = Field(description="What is chosen from, in place of yes and no.")
    four_eyes: bool = Field(description="Whether who began the run cannot decide.")
    tries: int | None = Field(description="Of a poll: how often its URL was asked.")
    max_tries: int | None = Field(description="Of a poll: how often it is asked at most.")
    last_answer: str | None = Field(description="Of a poll: what the URL answered that was not final.")
    votes: list[Vote]
    is_mine: bool = Field(description="Whether the caller may decide.")


class WaitList(Paged):
    """Open waits, the oldest first."""

    waits: list[Wait]


class Signal(AnswerModel):
    """A signal that was sent to a run. Votes are signals, too, named `approval:` and their task run."""

    id: SignalId
    name: str
    payload: Any = Field(description="null where it is in storage.")
    size: int = Field(description="Of the payload, bytes of JSON.")
    is_stored: bool = Field(description="Whether the payload is in storage, because it is large.")
    sent_by: str | None = Field(description="The name of the access token, if it is known.")
    sent_at: AwareDatetime
    taken_by: TaskRunId | None = Field(description="The step whose wait took it.")
    taken_at: AwareDatetime | None


class SignalList(Paged):
    """The signals of a run, the oldest first."""

    signals: list[Signal]
