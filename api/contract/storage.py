"""Models of queries, requests and answers about stored objects, uploads and stored logs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, Field

from pipeweave.api.contract.query_parameters import DIGITS, Query, truth
from pipeweave.api.contract.requests import MAX_INT32, Request
from pipeweave.orchestrator.documents.base import AnswerModel, TaskRunId
from pipeweave.orchestrator.documents.uploads import UploadId

MAX_TAIL = 10_000
MAX_FIND = 200
MAX_REFERENCE = 2_000
_BACKEND_ID = Annotated[str, Field(min_length=1, max_length=200)]

Truth = Annotated[bool, BeforeValidator(truth)]


class PreviewQuery(Query):
    """Which backend has an object, and what it is called."""

    backend: _BACKEND_ID | None = Field(None, description="The id of a backend; absent: the default backend.")
    name: Annotated[str, Field(pattern=r"^[^/\\\x00-\x1f]{1,200}$")] | None = Field(
        None,
        description="The name of the file, such as the key of an asset: its ending tells the media type. What"
        " lies by its content has none in its path, and is JSON without it.",
    )


class ObjectQuery(PreviewQuery):
    """Which backend has an object, what it is called, and in which form it is wanted."""

    raw: Truth = Field(False, description="`true`: the bytes of an object that is JSON, too.")


class LogsQuery(Query):
    """Which part of a stored log is wanted."""

    attempt: Annotated[int, Field(ge=1, le=MAX_INT32), DIGITS] | None = Field(
        None, description="The number of the attempt; absent: the present one."
    )
    offset: Annotated[int, Field(ge=0, le=2**53), DIGITS] | None = Field(
        None, description="`nextOffset` of the answer before: only what was logged since."
    )
    tail: Annotated[int, Field(ge=1, le=MAX_TAIL), DIGITS] | None = Field(
        None, description="Only so many last lines. Not with `offset`."
    )
    find: Annotated[str, Field(min_length=1, max_length=MAX_FIND)] | None = Field(
        None,
        description="Only lines that have this text, in whatever case. It looks through 50 MB for 0.3 s at"
        " most, and stops at 1,000 lines. Not with `offset` or `tail`.",
    )


class SweepRequest(Request):
    """Look for objects that no row refers to, and delete them."""

    dry_run: bool = Field(False, description="Only report what would be deleted.")
    backend: _BACKEND_ID | None = Field(None, description="Only this backend; absent: each of them.")
    after: Annotated[str, Field(min_length=1, max_length=MAX_REFERENCE)] | None = Field(
        None, description="`next` of the answer before: go on there."
    )
    adopt: bool = Field(
        False,
        description="The objects of a backend without the mark of this deployment are its own: mark it, and "
        "delete what this database does not know.",
    )


class StorageBackend(AnswerModel):
    """A storage backend, without its credentials."""

    id: str
    provider: str
    endpoint: str | None
    bucket: str | None
    region: str | None
    is_default: bool


class StorageBackends(AnswerModel):
    """The storage backends of the deployment."""

    backends: list[StorageBackend]
    default: str


class StoredObject(AnswerModel):
    """A stored object that is JSON."""

    path: str
    backend: str
    content: Any


class ObjectPreview(AnswerModel):
    """What a stored object holds, as data; only the member that `kind` names is not null."""

    path: str
    backend: str
    size: int = Field(description="Bytes.")
    modified_at: AwareDatetime = Field(description="When it was written, by the storage's clock.")
    kind: Literal["json", "text", "table", "image", "none"] = Field(
        description="`image`: a PNG, JPEG, GIF or WebP of at most 1 MB. `none`: something that is no text, or"
        " a larger image. `raw=true` of the object itself answers the bytes of these."
    )
    media_type: str
    content: Any = Field(description="Of JSON of at most 1 MB.")
    text: str | None = Field(description="Of other text in UTF-8, its first 256,000 bytes.")
    rows: list[list[str]] | None = Field(
        description="Of a table (`.csv`, `.tsv`), at most 200 rows of 50 cells of 300 characters. The first"
        " row has the names of the columns."
    )
    is_cut: bool = Field(description="There is more than is shown.")


class UsageQuery(Query):
    """What is measured."""

    backend: _BACKEND_ID | None = Field(None, description="The id of a backend; absent: the default backend.")
    prefix: Annotated[str, Field(min_length=1, max_length=MAX_REFERENCE)] | None = Field(
        None, description="Only paths that begin with it, such as `runs/`."
    )


class PrefixUsage(AnswerModel):
    """What was found of one beginning of paths."""

    prefix: str
    objects: int
    bytes: int
    newest: AwareDatetime | None = Field(description="When the newest one was written that was looked at.")
    is_estimate: bool = Field(description="About so many, from some of their folders.")
    is_capped: bool = Field(description="At least so many: not all of them were looked at.")


class SeenObject(AnswerModel):
    """An object that was looked at."""

    path: str
    size: int = Field(description="Bytes.")
    modified_at: AwareDatetime


class StorageUsage(AnswerModel):
    """What lies in a backend, by the beginnings of paths, from a sample."""

    backend: str
    prefixes: list[PrefixUsage]
    seen: int = Field(description="The number of objects that were looked at.")
    largest: list[SeenObject] = Field(description="The largest of them, at most 10.")


class SweepReport(AnswerModel):
    """What a sweep found and did. With a dry run, `deleted` and `bytes` are what would be deleted."""

    dry_run: bool
    seen: int = Field(description="Objects that were looked at.")
    kept: int = Field(description="Objects that rows refer to.")
    deleted: int
    bytes: int = Field(description="Bytes of the deleted objects.")
    young: int = Field(description="Objects that are too young to be looked up.")
    unknown: int = Field(description="Objects with paths that are not ours; they are never deleted.")
    examples: list[str] = Field(description="Some of the deleted objects: `<backend>//<path>`.")
    next: str | None = Field(description="Send it as `after` to go on; null: the pass is complete.")


class UploadedAnswer(AnswerModel):
    """A stored upload. Name its id in the input of a run within a day, or it is deleted."""

    upload_id: UploadId
    storage_path: str
    filename: str
    size: int
    mime_type: str
    sha256: str
    expires_at: AwareDatetime


class DeletedUpload(AnswerModel):
    """A deleted upload."""

    success: bool
    upload_id: UploadId


class TaskRunLogs(AnswerModel):
    """A part of the stored log of one attempt."""

    task_run_id: TaskRunId
    attempt: int
    logs: list[dict[str, Any]] = Field(
        description="Lines: {timestamp, level, runId, message, …}. A line that is not JSON is {message}."
    )
    is_complete: bool = Field(
        description="The attempt ended, and this answer has its last line. With `find`: all that is stored"
        " was searched."
    )
    next_offset: int = Field(
        description="Send it as `offset` to get what is logged next. With `find`: how far it was searched."
    )
    line_numbers: list[int] | None = Field(
        description="With `find`: the numbers of the lines in the log, from 1; otherwise null."
    )
