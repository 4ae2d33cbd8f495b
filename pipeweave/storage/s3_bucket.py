"""Describes a bucket of S3 or of a store with the same protocol, as an entry of STORAGE_BACKENDS names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_REGION = "us-east-1"
AMAZON = "https://s3.amazonaws.com"


@dataclass(frozen=True, slots=True)
class S3Bucket:
    """A bucket, its endpoint and its credentials; the repr shows no credentials.

    Args:
        backend: the backend's id in STORAGE_BACKENDS.
        name: the bucket's name.
        access_key: the access key's id.
        secret_key: the secret of the access key.
        session_token: the token of temporary credentials; None for permanent credentials.
        region: the bucket's region.
        endpoint: the store's URL; None for Amazon's endpoint of the region.
        is_path_style: true if URLs hold the bucket's name in the path, false if in the host.
    """

    backend: str
    name: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str = DEFAULT_REGION
    endpoint: str | None = None
    is_path_style: bool = False

    @classmethod
    def of(cls, backend: Mapping[str, Any]) -> S3Bucket:
        """Make the Bucket of an entry of STORAGE_BACKENDS with provider `aws-s3` or `minio`."""
        is_amazon, credentials = backend["provider"] == "aws-s3", backend["credentials"]
        endpoint = backend.get("endpoint")
        return cls(
            backend=backend["id"],
            name=backend["bucket"],
            access_key=credentials["accessKeyId" if is_amazon else "accessKey"],
            secret_key=credentials["secretAccessKey" if is_amazon else "secretKey"],
            session_token=credentials.get("sessionToken") if is_amazon else None,
            region=backend.get("region") or DEFAULT_REGION,
            endpoint=None if endpoint in (AMAZON, "") else endpoint,
            is_path_style=not is_amazon,
        )
