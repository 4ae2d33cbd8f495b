"""Describes a bucket of Google Cloud Storage, as an entry of STORAGE_BACKENDS names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class GcsBucket:
    """A bucket and the service account that uses it; the repr shows no key.

    Args:
        backend: the backend's id in STORAGE_BACKENDS.
        name: the bucket's name.
        project: the id of the Google Cloud project.
        client_email: the service account; None for an emulator, which knows no accounts.
        private_key: the account's key (PEM).
        endpoint: the store's URL.
        region: where `make_bucket` creates the bucket; None for Google's default.
    """

    backend: str
    name: str
    project: str
    client_email: str | None = None
    private_key: str = field(default="", repr=False)
    endpoint: str = GOOGLE
    region: str | None = None

    @classmethod
    def of(cls, backend: Mapping[str, Any]) -> GcsBucket:
        """Make the GcsBucket of an entry of STORAGE_BACKENDS with provider `gcs`."""
        credentials = backend.get("credentials") or {}
        return cls(
            backend=backend["id"],
            name=backend["bucket"],
            project=credentials.get("projectId") or "none",
            client_email=credentials.get("clientEmail"),
            # Texts of an environment often hold the two characters \n for the end of a line.
            private_key=(credentials.get("privateKey") or "").replace("\\n", "\n"),
            endpoint=(backend.get("endpoint") or GOOGLE).rstrip("/"),
            region=backend.get("region"),
        )
