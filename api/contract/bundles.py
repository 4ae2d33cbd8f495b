"""Models of requests about bundles and their keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from pipeweave.api.contract.query_parameters import Query, truth
from pipeweave.api.contract.requests import MAX_REASON, Request

# One line that neither begins nor ends with a space.
KeyName = Annotated[
    str, Field(pattern=r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$", max_length=200)
]


class InstallQuery(Query):
    """How to install a bundle."""

    allow_downgrade: Annotated[bool, BeforeValidator(truth)] = Field(
        False, description="Whether an older version than the newest may follow."
    )


class BundleKeyRequest(Request):
    """Trust a key."""

    name: KeyName = Field(description="For people, unique among the trusted keys.")
    public_key: str = Field(
        max_length=4_096, description="Ed25519 in PEM: the `.pub` file of `pipeweave bundle keygen`."
    )


class RevokeKeyRequest(Request):
    """Trust a key no more."""

    reason: str | None = Field(None, max_length=MAX_REASON)


class RevokeBundleRequest(Request):
    """Let a version of a bundle count no more."""

    version: str | None = Field(
        None, max_length=50, description="By default the one that counts, else the newest."
    )
    reason: str | None = Field(None, max_length=MAX_REASON)


class SignedPipelinesRequest(Request):
    """Say which pipelines a tenant takes."""

    only_signed: bool = Field(description="Whether it takes only pipelines that signed bundles bring.")
