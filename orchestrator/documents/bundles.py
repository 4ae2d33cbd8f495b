"""Documents of bundles and of the keys that sign them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel

KeyId = Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="Of the SHA-256 of the public key.")]


class BundleKey(AnswerModel):
    """A key that a tenant trusts, or has revoked."""

    id: KeyId
    name: str
    added_at: AwareDatetime
    added_by: str = Field(description="The name of the token.")
    revoked_at: AwareDatetime | None
    revoke_reason: str | None


class BundleKeyList(AnswerModel):
    """All keys of a tenant, those that are trusted first, by name."""

    keys: list[BundleKey]


class RevokedBundleKey(AnswerModel):
    """A key that is trusted no more."""

    id: KeyId
    parked_bundles: list[str] = Field(description="Installed bundles that no other trusted key has signed.")


class BundleVersion(AnswerModel):
    """One version of a bundle."""

    id: str
    version: str
    state: Literal["installed", "superseded", "revoked", "untrusted"] = Field(
        description="`installed`: the one that counts; `untrusted`: it is, and every key that signed it is"
        " revoked."
    )
    content_hash: str = Field(description="SHA-256 of its manifest: the same for the same content.")
    key_ids: list[KeyId] = Field(description="The keys that have signed it.")
    key_names: list[str] = Field(description="The names of those that the tenant trusts.")
    size: int = Field(description="Bytes.")
    files: int
    python: str = Field(description="The versions of Python that it runs on.")
    tasks: list[str]
    pipelines: list[str]
    installed_at: AwareDatetime
    installed_by: str = Field(description="The name of the token.")
    revoked_at: AwareDatetime | None
    revoke_reason: str | None


class BundleList(AnswerModel):
    """The bundles of a tenant by id, each in the version that counts, else in its newest."""

    bundles: list[BundleVersion]


class LoadingWorker(AnswerModel):
    """A worker process that lives and has loaded tasks of a bundle."""

    id: str
    name: str
    task_count: int = Field(description="Tasks of the version that counts, in its code.")
    started_at: AwareDatetime


class BundleVersions(AnswerModel):
    """The versions of a bundle, newest first, at most 200."""

    versions: list[BundleVersion]
    workers: list[LoadingWorker] = Field(
        description="Those that have loaded the version that counts, the oldest first: 100 at most."
    )


class BroughtPipeline(AnswerModel):
    """A version of a pipeline that a bundle has brought."""

    id: str
    version: int
    is_new: bool = Field(description="False: the version before was the same.")


class InstalledAnswer(AnswerModel):
    """A bundle that is installed."""

    id: str
    version: str
    is_new: bool = Field(description="False: it was installed before, with these signatures.")
    key_ids: list[KeyId] = Field(description="The trusted keys that have signed it.")
    replaced: str | None = Field(description="The version that counted before.")
    tasks: list[str]
    pipelines: list[BroughtPipeline]


class RevokedBundleVersion(AnswerModel):
    """A version of a bundle that counts no more."""

    id: str
    version: str
    parked_tasks: list[str] = Field(description="They wait until another version is installed.")


class BundleOrigin(AnswerModel):
    """The bundle that vouches for a version of a pipeline: the newest, if there are several."""

    id: str
    version: str
    key_ids: list[KeyId]
