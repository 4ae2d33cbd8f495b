"""Models of the request bodies. They are strict: a value of the wrong type is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from pipeweave.api.contract import pipeline_schema
from pipeweave.authoring import (
    KEY_CHARACTERS,
    MAX_CODE,
    MAX_CODES,
    MAX_MULTIPLIER,
    MAX_RETRIES,
    QUEUE_PATTERN,
    Backoff,
    OnExhausted,
)
from pipeweave.errors import FieldError
from pipeweave.ids import MAX_NAME_LENGTH, NAME_PATTERN
from pipeweave.labels import LABEL_NAME_PATTERN, LABEL_PATTERN, MAX_LABELS
from pipeweave.orchestrator.registry import MAX_TASKS, MAX_VERSION
from pipeweave.orchestrator.runs import MAX_PRIORITY, MIN_PRIORITY, admission
from pipeweave.rates import RATE_EXPECTED, RATE_PATTERN, is_rate
from pipeweave.size_limits import MAX_BATCH, MAX_DESCRIPTION, MAX_KEY_CHARS, MAX_METADATA_BYTES

# No user:password, no query, no fragment, because task paths are appended to it.
BASE_URL_PATTERN = (
    r"^https?://([A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?"
    r"(/[A-Za-z0-9._~%!$&'()*+,;=:@/-]{0,1400})?$"
)
CODE_HASH_PATTERN = "^(sha256:)?[0-9a-f]{16,64}$"

MAX_TOKEN = 200
LONGEST_DEBOUNCE_MS = 12 * 3_600_000
# The longest suffix that makes a batch's idempotency key into the key of an entry: `[1000]`.
PLACE_CHARS = len(f"[{MAX_BATCH}]")
MAX_INT32 = 2**31 - 1
TEN_YEARS_S = 315_360_000
TEN_YEARS_MS = TEN_YEARS_S * 1_000
MAX_REASON = 1_000


def _whole(value: Any) -> Any:
    """Turn 5.0 into 5, because JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _reachable(url: str) -> str:
    """Check the port (at most 65535) and an IPv6 address, which the pattern cannot."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        raise ValueError("Input should be a URL such as http://host:port") from None
    return url


Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME_LENGTH)]
# Stands after the bounds, because pydantic leaves bounds that follow it out of the JSON schema.
WHOLE = BeforeValidator(_whole)
Queue = Annotated[str, Field(pattern=QUEUE_PATTERN)]
Requires = Annotated[
    dict[Annotated[str, Field(pattern=LABEL_NAME_PATTERN)], Annotated[str, Field(pattern=LABEL_PATTERN)]],
    Field(min_length=1, max_length=MAX_LABELS),
]
Priority = Annotated[int, Field(ge=MIN_PRIORITY, le=MAX_PRIORITY, description="Lower runs first."), WHOLE]


def _storable_metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Check the size. What cannot be written as JSON at all is refused later, with its place."""
    try:
        size = len(orjson.dumps(value))
    except TypeError:
        return value
    if size > MAX_METADATA_BYTES:
        message = f"takes {size:,} bytes of JSON, at most {MAX_METADATA_BYTES:,} are stored"
        raise PydanticCustomError("too_long", "{message}", {"message": message})
    return value


Metadata = Annotated[
    dict[str, Any],
    AfterValidator(_storable_metadata),
    Field(description=f"Kept as it is, for people; at most {MAX_METADATA_BYTES:,} bytes of JSON."),
]
FailureMode = Literal["fail-fast", "continue", "partial-merge"]


class Request(BaseModel):
    """Base of all request bodies: strict types, names in camelCase, unknown fields are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel, frozen=True)

    @classmethod
    def mistakes_between_fields(cls, body: Mapping[str, Any]) -> Iterable[FieldError]:
        """The mistakes of a body with other mistakes that concern several fields; none by default.

        pydantic looks at several fields together only when each of them is right.
        """
        return ()


ValidationMode = Annotated[
    Literal["strict", "warn", "none"],
    Field(
        description="If the input does not fit an entry task's input schema: `strict` refuses the run, "
        "`warn` starts it with warnings, `none` does not check."
    ),
]


class RunRequest(Request):
    """The input and options of one run."""

    input: Any = Field(default_factory=dict, description="Any JSON value; {} when absent.")
    failure_mode: FailureMode | None = Field(None, description="Absent: the failure mode of the pipeline.")
    priority: Priority | None = Field(
        None, description="Absent: the priority of the pipeline, else of each task."
    )
    queue: Queue | None = Field(
        None,
        description="Of all steps without a queue of their own, also in the runs inside of it. Absent: those "
        "of the tasks. Tasks of HTTP services have no queues.",
    )
    requires: Requires | None = Field(
        None,
        description="Labels of the workers that may call its steps, also in the runs inside of it, beside "
        "those that the steps and the tasks require. Of one label, the step's value counts, then this one. "
        "Tasks of HTTP services are not concerned.",
    )
    metadata: Metadata | None = None
    run_token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)] | None = Field(
        None,
        description="A second trigger with the same token, pipeline and input returns the run of the first.",
    )


_VERSION = "Of the pipeline. Absent: the current one, which was promoted or is the newest."
_MODE = (
    "What errors in the input do. Absent: errors of the pipeline's `inputSchema` refuse the run, those of the"
    " entry tasks' input schemas are warnings. `strict`: both refuse; `warn`: both are warnings; `none`: no"
    " check."
)


Version = Annotated[int, Field(ge=1, le=MAX_INT32), WHOLE]


class TriggerRequest(RunRequest):
    """Start a run."""

    version: Version | None = Field(None, description=_VERSION)
    validation_mode: ValidationMode | None = Field(None, description=_MODE)


class TriggerBatchRequest(Request):
    """Start several runs of a pipeline: all of them, or none."""

    runs: Annotated[list[RunRequest], Field(min_length=1, max_length=MAX_BATCH)]
    version: Version | None = Field(None, description=_VERSION)
    validation_mode: ValidationMode | None = Field(None, description=_MODE)


_Milliseconds = Annotated[int, Field(ge=1, le=LONGEST_DEBOUNCE_MS), WHOLE]


class DebounceRequest(Request):
    """Put a run off until no other request of its key comes."""

    key: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN, pattern=r"^[^\x00]*$")] = Field(
        description="Requests with the same key and pipeline are one run, with the input of the last one."
    )
    wait_ms: _Milliseconds = Field(description="Without another request, the run starts after this time.")
    longest_ms: _Milliseconds = Field(
        3_600_000, description="It starts at the latest this long after the first request."
    )
    input: Any = Field(default_factory=dict, description="Any JSON value; {} when absent.")
    failure_mode: FailureMode | None = Field(None, description="Absent: the failure mode of the pipeline.")
    priority: Priority | None = Field(
        None, description="Absent: the priority of the pipeline, else of each task."
    )
    metadata: Metadata | None = None


class DryRunRequest(Request):
    """Plan a run without starting it."""

    input: Any = Field(
        None, description="Checked against the pipeline's and the entry tasks' input schemas, when given."
    )
    spec: dict[str, Any] | None = Field(None, description="The document to plan. Absent: the stored version.")


class RollbackRequest(Request):
    """Go back to the version that was current before."""

    expected_version: Version | None = Field(
        None, description="The version that is to be left: if another one is current by now, nothing happens."
    )
    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = Field(None, description="For the audit.")


class PromoteRequest(RollbackRequest):
    """Make a version the current one."""

    version: Version | None = Field(description="null: follow the newest version from now on.")


class CancelRequest(Request):
    """Cancel a standalone task."""

    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = None


class CancelRunRequest(CancelRequest):
    """Cancel a run."""

    now: bool = Field(
        False, description="Nothing follows: no step is taken back, and `finally` does not run."
    )


class PauseRequest(Request):
    """Pause a task or a tenant: none of its task runs start until it is resumed."""

    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = Field(
        None, description="Shown with everything that waits for the end of the pause."
    )


class RemoveTaskRequest(Request):
    """Remove a task that no live worker has: its task runs that have not started are cancelled."""

    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = Field(
        None, description="Stands in the error of the cancelled task runs."
    )


class ResumeRequest(Request):
    """Resume a paused task or tenant."""


class LimitsRequest(Request):
    """Limit the active runs of a tenant."""

    max_active_runs: Annotated[int, Field(ge=1, le=admission.MAX_LIMIT), WHOLE] | None = Field(
        description="Runs that may be active at a time; null: no limit."
    )


class TaskLimitsRequest(Request):
    """What holds of a task instead of what its code declares, as a whole."""

    concurrency: Annotated[int, Field(ge=0, le=MAX_INT32), WHOLE] | None = Field(
        None, description="Task runs at once; 0: no limit; null: what the code declares."
    )
    rate_limit: Annotated[str, Field(pattern=f"{RATE_PATTERN}|^none$")] | None = Field(
        None, description="Starts in a time, as `100/m`; `none`: no limit; null: what the code declares."
    )
    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = None


class MaintenanceRequest(Request):
    """Change the maintenance mode."""

    reason: (
        Annotated[
            str,
            Field(max_length=MAX_REASON, description="Told to each refused caller; on exit, logged only."),
        ]
        | None
    ) = None


IdempotencyKey = Annotated[str, Field(max_length=MAX_KEY_CHARS, pattern=f"^{KEY_CHARACTERS}+$")]


class QueueTaskRequest(Request):
    """Queue one task outside any pipeline."""

    task_id: Name
    input: Any = Field(default_factory=dict, description="Any JSON value; {} when absent.")
    priority: Priority | None = Field(None, description="Absent: the priority of the task.")
    metadata: Metadata | None = None
    idempotency_key: IdempotencyKey | None = Field(
        None,
        description="If another task run of the task has this key and is open, or has a result that has not "
        "expired, the answer is that task run, whatever the input.",
    )


class QueueBatchRequest(Request):
    """Queue several tasks: all of them, or none."""

    tasks: Annotated[list[QueueTaskRequest], Field(min_length=1, max_length=MAX_BATCH)]


class ValidateInputRequest(Request):
    """Check an input against a task's input schema."""

    input: Any


class PipelineDocument(RootModel[dict[str, Any]]):
    """A pipeline as a document: steps in order; a step without `needs` follows the one before it."""

    model_config = ConfigDict(strict=True, json_schema_extra=pipeline_schema.PIPELINE)


# --- registration (the worker protocol) -------------------------------------------------------------------


def _rate(text: str) -> str:
    """Check a rate. Unlike the error of a pattern, this error explains the format."""
    if not is_rate(text):
        raise ValueError(f"Input should be {RATE_EXPECTED}")
    return text


RateLimit = Annotated[str, AfterValidator(_rate), WithJsonSchema({"type": "string", "pattern": RATE_PATTERN})]
ErrorCode = Annotated[str, Field(min_length=1, max_length=MAX_CODE)]


class TaskOptions(Request):
    """The options of a task. Defaults are those of the worker protocol."""

    allowed_next: list[Name] = Field(default_factory=list, max_length=MAX_TASKS)
    timeout: Annotated[float, Field(gt=0, le=TEN_YEARS_S)] = Field(
        300, description="Seconds that an attempt may take."
    )
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES), WHOLE] = Field(
        3, description="Attempts after the first."
    )
    retry_backoff: Backoff = "exponential"
    retry_delay_ms: Annotated[int, Field(ge=0, le=TEN_YEARS_MS), WHOLE] = 1_000
    max_retry_delay_ms: Annotated[int, Field(ge=0, le=TEN_YEARS_MS), WHOLE] = 86_400_000
    retry_multiplier: Annotated[float, Field(ge=1, le=MAX_MULTIPLIER)] = Field(
        2, description="The factor by which an exponential delay grows."
    )
    retry_jitter: Annotated[float, Field(ge=0, le=1)] = Field(0, description="The random part of each delay.")
    retry_on: Annotated[list[ErrorCode], Field(min_length=1, max_length=MAX_CODES)] | None = Field(
        None, description="Error codes that are retried; absent: every retryable error."
    )
    on_exhausted: OnExhausted = Field(
        "fail", description="What follows the last attempt: `pause` pauses its run."
    )
    heartbeat_interval_ms: Annotated[int, Field(gt=0, le=TEN_YEARS_MS), WHOLE] = 60_000
    concurrency: Annotated[int, Field(ge=0, le=MAX_INT32), WHOLE] = Field(
        0, description="How many may run at once; 0 is unlimited."
    )
    rate_limit: RateLimit | None = Field(
        None,
        description="How often it may start per second, minute, hour or day over all workers, e.g. `100/m`.",
    )
    priority: Annotated[int, Field(ge=-MAX_INT32, le=MAX_INT32), WHOLE] = Field(
        100, description="Lower runs first."
    )
    queue: Queue | None = Field(
        None, description="The name of the queue that its task runs wait in; absent: that of its service."
    )
    requires: Requires | None = Field(
        None, description="Labels of the workers that may call it; absent: of any worker."
    )
    idempotency_ttl: Annotated[int, Field(gt=0, le=TEN_YEARS_S), WHOLE] | None = Field(
        None,
        alias="idempotencyTTL",
        description="Seconds for which a result is returned for its idempotency key; absent: the default.",
    )
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION)] | None = None
    input_schema: Annotated[dict[str, Any], WithJsonSchema(pipeline_schema.INPUT_SCHEMA)] | None = None
    parameters: Annotated[dict[str, Any], WithJsonSchema(pipeline_schema.INPUT_SCHEMA)] | None = Field(
        None,
        description="The parameters that the task takes: steps with other or missing `params` are refused."
        " Not `strict`: it takes any further ones. Absent: not checked.",
    )


CodeHash = Annotated[str, Field(pattern=CODE_HASH_PATTERN)]


class FlatTask(TaskOptions):
    """A task with its options next to its id, as SDKs send it."""

    id: Name
    code_hash: CodeHash


class NestedTask(Request):
    """A task with its options under `config`."""

    task_id: Name
    code_hash: CodeHash
    config: TaskOptions = Field(default_factory=lambda: TaskOptions.model_validate({}))


def _spelling(task: Any) -> str:
    return "<nested>" if isinstance(task, dict) and "taskId" in task else "<flat>"


RegisteredTask = Annotated[
    Annotated[FlatTask, Tag("<flat>")] | Annotated[NestedTask, Tag("<nested>")], Discriminator(_spelling)
]


class RegisterRequest(Request):
    """Register a service: its id, its address and its tasks."""

    service_id: Name
    kind: Literal["http", "python"] | None = Field(
        None, description="Absent: http if there is a baseUrl, else python."
    )
    version: Annotated[str, Field(min_length=1, max_length=MAX_VERSION)] = "0.1.0"
    base_url: Annotated[str, Field(pattern=BASE_URL_PATTERN), AfterValidator(_reachable)] | None = Field(
        None, description="Where an HTTP service listens."
    )
    token_format: Literal["sdk", "pbkdf2"] = Field(
        "sdk", description="The format of the storage tokens that it can read."
    )
    storage_access: Literal["token", "urls"] = Field(
        "token",
        description="How it reaches values: `token`: dispatches carry a storage token with credentials; "
        "`urls`: they carry signed URLs, and the worker needs no credentials.",
    )
    tasks: Annotated[list[RegisteredTask], Field(max_length=MAX_TASKS)]
