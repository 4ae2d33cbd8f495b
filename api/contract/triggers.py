"""Models of the requests about triggers and webhooks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import WHOLE, Name, Request
from pipeweave.orchestrator.documents.triggers import Kind, On, Scheme
from pipeweave.orchestrator.starts.triggers import TriggerSignal, TriggerSpec, storing, webhooks

MAX_HEADERS = 20
MAX_OVERLAP_S = 30 * 86_400
DEFAULT_OVERLAP_S = 86_400
MAX_TEMPLATE_CHARS = 1_000

HEADER_PATTERN = "^[A-Za-z0-9-]{1,100}$"
# No control characters; a space at an end was copied by mistake.
SECRET_PATTERN = "^[^\\x00-\\x20\\x7f]([^\\x00-\\x1f\\x7f]*[^\\x00-\\x20\\x7f])?$"


def _may_be_given(name: str) -> str:
    if name.lower() in webhooks.SECRET_HEADERS:
        raise ValueError("names a header that is not given to runs")
    return name.lower()


HeaderName = Annotated[str, Field(pattern=HEADER_PATTERN), AfterValidator(_may_be_given)]
Secret = Annotated[
    str,
    Field(
        pattern=SECRET_PATTERN,
        min_length=storing.MIN_SECRET_CHARS,
        max_length=storing.MAX_SECRET_CHARS,
        description="16 to 500 characters, better 32 or more at random: no line breaks or other control"
        " characters, and no space at its ends. Its UTF-8 signs. It is stored encrypted and never shown.",
    ),
]


Template = Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE_CHARS)]


class TriggerSignalRequest(Request):
    """What the deliveries of a webhook are sent as, in place of starting a run for each."""

    name: Template = Field(description="Of the signal: a text, or a template such as `${input.body.kind}`.")
    run_token: Template = Field(
        description="A template of the `runToken` of the run that gets it: `${input.body.order}`."
    )
    payload: Any = Field(
        None, description="A template of the payload. Absent: what `input` makes of the delivery."
    )
    or_start: bool = Field(
        False, description="Start a run with this token first, if the pipeline has none: then signal it, too."
    )


class PutTriggerRequest(Request):
    """What a trigger is to be, as a whole: what is not given has its default, but its secret stays."""

    kind: Kind
    pipeline_id: Name
    on: On | None = Field(
        None, description="Of an event: what it fires for. The end of a run counts, however it ended."
    )
    filter: dict[str, Any] = Field(
        default_factory=dict,
        description="Path -> the value, or the list of values, that must stand there, such as"
        ' `{"body.action": ["opened", "reopened"]}` of a webhook, or `{"pipelineId": "orders", "status":'
        ' ["failed", "partial"]}` of an event. Without one, each delivery or event starts a run.',
    )
    input: Any = Field(
        None,
        description="The input of its runs, with references such as `${input.body.order}` or"
        " `${input.event.runId}`. Absent: all of `{body, headers, deliveryId}`, or `{event}`.",
    )
    allow_self: bool = Field(
        False, description="Of an event: runs of the pipeline that it starts fire it, too."
    )
    scheme: Scheme | None = Field(
        None, description="Of a webhook: how the sender signs (docs/triggers.md). Absent: `pipeweave`."
    )
    secret: Secret | None = Field(
        None, description="Absent: it keeps its secret; a new trigger gets one, which the answer shows once."
    )
    headers: Annotated[list[HeaderName], Field(max_length=MAX_HEADERS)] = Field(
        default_factory=list, description="Headers of the delivery that the run gets."
    )
    max_per_minute: Annotated[int, Field(ge=1, le=60_000), WHOLE] | None = Field(
        None, description="Of a webhook: so many deliveries are taken in a minute. Absent: 600."
    )
    paused: bool | None = Field(None, description="Absent: a stored trigger stays as it is.")
    signal: TriggerSignalRequest | None = Field(
        None, description="Of a webhook: signal a run that is there. Absent: each delivery starts a run."
    )

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
            self.on,
            self.allow_self,
            self.paused,
            signal=None if self.signal is None else TriggerSignal(**dict(self.signal)),
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
