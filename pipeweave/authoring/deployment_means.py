"""Define DeploymentMeans: what a worker lends of its deployment to the actions that PipeWeave brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A value that was stored under a name: its size (bytes of JSON) and when it was written."""

    name: str
    size: int
    modified_at: datetime


class NamedValues(Protocol):
    """The values that a tenant has stored under names."""

    def put(self, name: str, content: bytes) -> None:
        """Write a value, or replace it; it is durable when this returns."""

    def get(self, name: str) -> bytes | None:
        """Read a value; None if there is none of this name."""

    def delete(self, name: str) -> bool:
        """Delete a value; whether there was one."""

    def list(self, prefix: str, after: str, limit: int) -> Sequence[NamedValue]:
        """The first values whose names begin with `prefix`, behind the name `after`."""


class DeploymentMeans(Protocol):
    """What an action may use of the deployment that its worker belongs to."""

    @property
    def networks(self) -> Sequence[str]:
        """The networks besides public addresses that requests may reach (DISPATCH_NETWORKS)."""

    def named_values(self, tenant: str) -> NamedValues:
        """The named values of a tenant."""
