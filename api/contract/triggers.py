"""Models of the requests and answers about triggers and webhooks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field

from pipeweave.api.contract.answers import AnswerModel, Paged, RunId
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import WHOLE, Name, Request
from pipeweave.orchestrator.triggers import TriggerSpec, storing, webhooks

MAX_HEADERS = 20
MAX_OVERLAP_S = 30 * 86_400
DEFAULT_OVERLAP_S = 86_400

HEADER_PATTERN = "^[A-Za-z0-9-]{1,100}$"


def _may_be_given(name: str) -> str:
    if name.lower() in webhooks.SECRET_HEADERS:
        raise ValueError("names a header that is not given to runs")
    return name.lower()


HeaderName = Annotated[str, Field(pattern=HEADER_PATTERN), AfterValidator(_may_be_given)]
Kind = Literal["webhook"]
Scheme = Literal["pipeweave", "github", "stripe"]
Secret = Annotated[
    str,
    Field(
        pattern="^[!-~]*$",
        min_length=storing.MIN_SECRET_CHARS,
        max_length=storing.MAX_SECRET_CHARS,
        description="32 to 500 visible ASCII characters. It is stored encrypted and never shown.",
    ),
]


class PutTriggerRequest(Request):
    """What a trigger is to be, as a whole: what is not given has its default, but its secret stays."""

    kind: Kind
    pipeline_id: Name
    filter: dict[str, Any] = Field(
        default_factory=dict,
        description="Path -> the value, or the list of values, that must stand there, such as"
        ' `{"body.action": ["opened", "reopened"]}`. Without one, each delivery starts a run.',
    )
    input: Any = Field(
        None,
        description="The input of its runs, with references such as `${input.body.order}`. Absent: all of"
        " `{body, headers, deliveryId}`.",
    )
    scheme: Scheme = Field("pipeweave", description="How the sender signs: see docs/triggers.md.")
    secret: Secret | None = Field(
        None, description="Absent: it keeps its secret; a new trigger gets one, which the answer shows once."
    )
    headers: Annotated[list[HeaderName], Field(max_length=MAX_HEADERS)] = Field(
        default_factory=list, description="Headers of the delivery that the run gets."
    )
    max_per_minute: Annotated[int, Field(ge=1, le=60_000), WHOLE] = Field(
        storing.DEFAULT_PER_MINUTE, description="So many deliveries are taken in a minute."
    )
    paused: bool | None = Field(None, description="Absent: a stored trigger stays as it is.")

    def spec(self) -> TriggerSpec:
        """The same for the verbs."""
        return TriggerSpec(
            self.kind,
            self.pipeline_id,
            self.filter,
            self.input,
            self.scheme,
            self.secret,
            tuple(dict.fromkeys(self.headers)),
            self.max_per_minute,
            self.paused,
        )


class TriggerVerbRequest(Request):
    """Pause or resume a trigger."""


class RotateRequest(Request):
    """Give a webhook a new secret."""

    secret: Secret | None = Field(None, description="Absent: one is made, which the answer shows once.")
    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP_S), WHOLE] = Field(
        DEFAULT_OVERLAP_S, description="For so long, the secret before it is valid, too."
    )


class TriggersQuery(PageQuery):
    """Parameters of the list of triggers."""

    pipeline_id: Name | None = Field(None, description="Only triggers of this pipeline.")
    kind: Kind | None = Field(None, description="Only triggers of this kind.")


# --- answers ----------------------------------------------------------------------------------------------


class TriggerError(AnswerModel):
    """Why the last fire of a trigger failed."""

    code: str
    message: str
    at: AwareDatetime


class Trigger(AnswerModel):
    """A trigger."""

    id: str
    kind: Kind
    pipeline_id: str
    filter: dict[str, Any]
    input: Any
    paused: bool
    scheme: Scheme
    headers: list[str]
    max_per_minute: int
    old_secret_until: AwareDatetime | None = Field(description="Until then, the secret before is valid, too.")
    last_fire_at: AwareDatetime | None = Field(description="When a run of it last started, or failed to.")
    last_error: TriggerError | None = Field(description="Null when its last fire started a run.")
    created_at: AwareDatetime
    updated_at: AwareDatetime


class TriggerFire(AnswerModel):
    """What a trigger fired for, and the run that it started."""

    key: str = Field(description="The id of the delivery.")
    fired_at: AwareDatetime
    run_id: RunId


class TriggerDetail(Trigger):
    """A trigger with its last fires."""

    last_fires: list[TriggerFire] = Field(description="The newest first, at most 10.")


class TriggerStored(TriggerDetail):
    """A trigger that was stored, or has a new secret."""

    secret: str | None = Field(description="The secret that was made: it is shown this once.")


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
    outcome: Literal["started", "filtered"] = Field(
        description="`filtered`: the filter of the trigger does not fit, so nothing started."
    )
    pipeline_run_id: RunId | None
    status: str | None = Field(description="Of the run; null when it is not known any more.")
    is_repeated: bool = Field(description="The delivery came before; the run is the one that it started.")
