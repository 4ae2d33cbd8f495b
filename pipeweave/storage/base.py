"""What every storage backend can do."""

from __future__ import annotations

from typing import Protocol


class Storage(Protocol):
    """Objects by path: relative, with forward slashes, never leaving the backend's own room."""

    def put(self, path: str, content: bytes) -> None:
        """Write the object; it is durable and whole when this returns."""

    def get(self, path: str) -> bytes:
        """Read the object.

        Raises:
            NotFound: there is no such object.
        """

    def exists(self, path: str) -> bool:
        """Whether there is such an object."""

    def delete(self, path: str) -> None:
        """Remove the object; nothing happens when there is none."""
