"""Documents of triggers: what they are, and what they fired for."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId
from pipeweave.orchestrator.documents.parts import Fault
from pipeweave.orchestrator.documents.waits import SignalId
from pipeweave.orchestrator.domain import RunStatus

Kind = Literal["webhook", "event"]
On = Literal["pipeline-completed", "task-completed"]
Scheme = Literal["pipeweave", "github", "stripe"]


class TriggerError(AnswerModel):
    """Why the last fire of a trigger failed."""

    code: str
    message: str
    at: AwareDatetime


class SignalOfTrigger(AnswerModel):
    """What the deliveries of a webhook are sent as."""

    name: str
    run_token: str
    payload: Any = Field(description="Null: what `input` makes of the delivery.")
    or_start: bool


class Trigger(AnswerModel):
    """A trigger."""

    id: str
    kind: Kind
    pipeline_id: str
    filter: dict[str, Any]
    input: Any
    paused: bool
    on: On | None = Field(description="Of an event.")
    allow_self: bool
    scheme: Scheme | None = Field(description="Of a webhook, as the three that follow.")
    headers: list[str]
    max_per_minute: int | None
    signal: SignalOfTrigger | None = Field(description="Null: each delivery starts a run.")
    path: str | None = Field(description="Of a webhook: where deliveries are sent to.")
    reused_ids: int = Field(
        description="Of a webhook: so many deliveries came with the id of one before and another body, and"
        " were refused."
    )
    old_secret_until: AwareDatetime | None = Field(description="Until then, the secret before is valid, too.")
    last_fire_at: AwareDatetime | None = Field(description="When a run of it last started, or failed to.")
    last_error: TriggerError | None = Field(description="Null when its last fire started a run.")
    created_at: AwareDatetime
    updated_at: AwareDatetime


class TriggerFire(AnswerModel):
    """What a trigger fired for, and what came of it."""

    key: str = Field(description="The id of the delivery, or of the run that ended.")
    fired_at: AwareDatetime = Field(description="When it was decided; until then, when it was read.")
    outcome: Literal["fired", "failed", "skipped", "waiting"]
    reason: str | None = Field(
        description="Why it was skipped: `LOOP`, when runs began each other 10 times, or `paused`."
    )
    run_id: RunId | None = Field(description="The run that it started.")
    run_status: RunStatus | None = Field(description="Of the run now; null: none started, or it was deleted.")
    error: TriggerError | None


class TriggerDetail(Trigger):
    """A trigger with its last fires."""

    last_fires: list[TriggerFire] = Field(description="The newest first, at most 10.")


class TriggerStored(TriggerDetail):
    """A trigger that was stored, or has a new secret."""

    secret: str | None = Field(description="The secret that was made: it is shown this once.")
    warnings: list[Fault] = Field(
        [], description="Of the input of its runs: what the pipeline will refuse, whatever comes."
    )


class TriggerList(Paged):
    """One page of triggers, in the order of their ids."""

    triggers: list[Trigger]


class DeletedTrigger(AnswerModel):
    """A trigger was deleted."""

    id: str
    deleted: Literal[True]


class DeliveryAnswer(AnswerModel):
    """What became of a delivery."""

    trigger_id: str
    delivery_id: str = Field(description="As the sender named it, else made of its signature.")
    outcome: Literal["started", "signalled", "filtered", "ping"] = Field(
        description="`signalled`: the run has got a signal; with `orStart`, it may have started for it."
        " `filtered`: the filter of the trigger does not fit, so nothing happened. `ping`: GitHub"
        " asked whether the webhook is there; nothing started, unless the filter asks for pings."
    )
    pipeline_run_id: RunId | None
    signal_id: SignalId | None = Field(description="The signal that it sent.")
    status: str | None = Field(description="Of the run, as far as it is known.")
    is_repeated: bool = Field(
        description="The delivery came before; the run is the one that it started or signalled."
    )
