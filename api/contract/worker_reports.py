"""Models of what HTTP workers send and get: reports, upstream pages, URLs, settings of a service.

Unlike other requests, a report may have members that are not named here: workers of other versions send them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from pipeweave.api.contract.query_parameters import DIGITS, Query
from pipeweave.api.contract.requests import BASE_URL_PATTERN, Request
from pipeweave.orchestrator.documents.base import AnswerModel
from pipeweave.size_limits import MAX_ASSETS

MAX_PATH = 1_024

RunId = Annotated[str, Field(max_length=200, description="The `runId` of the dispatch, unchanged.")]
AssetKey = Annotated[str, Field(min_length=1, max_length=200)]
Path = Annotated[str, Field(max_length=MAX_PATH)]


class ReportModel(BaseModel):
    """The base of reports."""

    model_config = ConfigDict(strict=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class HeartbeatReport(ReportModel):
    """An attempt is alive, and maybe how far it is."""

    progress: Annotated[float, Field(ge=0, le=100)] | None = Field(None, description="0 to 100.")
    message: Annotated[str, Field(max_length=10_000)] | None = None


class NamedHeartbeatReport(HeartbeatReport):
    """A heartbeat that names its attempt in the body."""

    run_id: RunId


class ReportedAsset(ReportModel):
    """A file that an attempt stored."""

    path: Path
    size: Annotated[int, Field(ge=0)]
    type: Annotated[str, Field(max_length=200)]


class CompletionReport(ReportModel):
    """How an attempt ended, or that its work goes on elsewhere."""

    status: Literal["success", "failed", "pending"]
    output: Any = Field(None, description="The result itself, instead of `outputPath`.")
    output_path: Path | None = Field(None, description="Where the worker stored the result.")
    output_size: Annotated[float, Field(ge=0)] | None = Field(None, description="Not used: it is measured.")
    assets: Annotated[dict[str, ReportedAsset], Field(max_length=MAX_ASSETS)] | None = None
    logs_path: Path | None = None
    duration: Any = Field(None, description="Not used: it is measured.")
    selected_next: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=5_000)] | None = (
        Field(None, description="The steps behind this one that may run; absent: all; []: none.")
    )
    error: Annotated[str, Field(max_length=1_000_000)] | None = None
    error_code: Annotated[str, Field(max_length=1_000)] | None = None
    retryable: bool = Field(True, description="False: another attempt would end the same way.")
    begun: bool = Field(
        True, description="False: the task was not called, for its input could not be loaded; not counted."
    )
    details: Any = None
    stack: Annotated[str, Field(max_length=1_000_000)] | None = None
    callback_url: Any = Field(
        None, description="Of `pending`: somebody reports the result to the `callbackUrl` of the dispatch."
    )
    poll_url: Any = Field(None, description="Of `pending`: the orchestrator asks this URL for the result.")
    interval_ms: Any = Field(None, description="Between two polls, ms.")
    max_attempts: Any = Field(None, description="How often is polled at most.")
    timeout_ms: Any = Field(None, description="How long the result may take, ms.")

    def suspend(self) -> dict[str, Any] | None:
        """What a pending attempt waits for; None for another status."""
        if self.status != "pending":
            return None
        return {
            "callbackUrl": self.callback_url,
            "pollUrl": self.poll_url,
            "intervalMs": self.interval_ms,
            "maxAttempts": self.max_attempts,
            "timeoutMs": self.timeout_ms,
        }

    @model_validator(mode="after")
    def _has_result(self) -> CompletionReport:
        if self.status == "success" and self.output_path is None and "output" not in self.model_fields_set:
            raise PydanticCustomError("missing", "a success needs outputPath, or output: the result itself")
        return self


class HeartbeatAnswer(AnswerModel):
    """A heartbeat was stored, or came too late."""

    acknowledged: bool
    should_cancel: bool = Field(description="The attempt is over: stop the work; no report is needed.")


class CompletionAnswer(AnswerModel):
    """The end of an attempt is stored."""

    acknowledged: bool
    is_repeated: bool = Field(description="It was reported before; nothing was changed.")
    retrying: bool = Field(description="Another attempt follows.")


class UpstreamQuery(Query):
    """Which page of the steps before."""

    start: Annotated[int, Field(ge=0, le=1_000_000), DIGITS] = 0


class UpstreamAnswer(AnswerModel):
    """Further outputs of steps before a step."""

    upstream_refs: dict[str, Any]
    upstream_next: str | None = Field(description="The path of the next page; null: this was the last.")


class UrlsRequest(Request):
    """Objects of an attempt to which it needs URLs."""

    get: Annotated[list[Path], Field(max_length=MAX_ASSETS)] = Field(
        default_factory=list, description="Paths that its dispatch names, or that it has written."
    )
    put: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=MAX_ASSETS)
    ] = Field(default_factory=list, description="Keys of the assets that it is going to write.")


class UploadUrl(AnswerModel):
    """Where an asset is written to, and the path that the report names."""

    path: str
    url: str


class UrlsAnswer(AnswerModel):
    """Signed URLs; one that begins with a slash is below the orchestrator's URL."""

    get: dict[str, str]
    put: dict[str, UploadUrl]
    expires_at: AwareDatetime


class SignedObjectQuery(Query):
    """A signed URL of an object. Its length is bounded as that of any address."""

    backend: str
    path: str
    expires: Annotated[int, Field(ge=0), DIGITS]
    signature: str


class WrittenObject(AnswerModel):
    """An object that was written."""

    path: str
    size: int
    sha256: str


class InstanceQuery(Query):
    """Which instance of a service."""

    base_url: Annotated[str, Field(max_length=2_000)]


class ServiceSettings(Request):
    """What an operator decides about an HTTP service; a member that is left out stays as it is."""

    base_url: Annotated[str, Field(pattern=BASE_URL_PATTERN)] | Literal["peer", "registered"] | None = Field(
        None,
        description="Where dispatches go, instead of the URL that its instances register: a URL; `peer`: the "
        "address that they register from; `registered`: their own URL again.",
    )
    is_disabled: bool | None = Field(None, description="True: nothing is dispatched to it.")


class RemovedInstance(AnswerModel):
    """An instance was taken away."""

    service_id: str
    base_url: str
