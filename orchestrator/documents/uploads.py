"""Documents of temp uploads."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from pipeweave import ids
from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId, TypeId

UploadId = Annotated[str, TypeId(ids.UPLOAD)]


class Upload(AnswerModel):
    """A temp upload."""

    upload_id: UploadId
    storage_path: str
    storage_backend_id: str
    filename: str
    mime_type: str
    size: int = Field(description="Bytes.")
    sha256: str
    uploaded_by: str
    uploaded_at: AwareDatetime
    expires_at: AwareDatetime
    claimed_by_run_id: RunId | None = Field(description="The first run whose input named it.")
    deleted_at: AwareDatetime | None
    expired: bool = Field(description="It expired before a run claimed it.")
    claimed: bool
    deleted: bool


class UploadList(Paged):
    """Uploads, newest first."""

    uploads: list[Upload]


class UploadStats(AnswerModel):
    """Numbers of the tenant's uploads."""

    total: int
    expired: int = Field(description="Those that expired unclaimed, and are deleted next.")
    claimed: int
    deleted: int
    bytes: int = Field(description="Of those that are not deleted.")
