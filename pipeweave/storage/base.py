"""Define the interface of a storage backend."""

from __future__ import annotations

from typing import Protocol

from pipeweave.errors import InvalidInput


class Storage(Protocol):
    """Stores objects by path. A path is relative, has forward slashes, and cannot leave the backend's folder.

    Every method may raise `Unavailable` if the backend cannot be reached, and `InvalidSetting` if the backend
    refuses the configured credentials or bucket. Putting the same content at the same path again changes
    nothing.
    """

    def put(self, path: str, content: bytes) -> None:
        """Write the object; it is complete and durable when this returns."""

    def get(self, path: str) -> bytes:
        """Read the object.

        Raises:
            NotFound: there is no such object.
        """

    def exists(self, path: str) -> bool:
        """True if the object exists."""

    def delete(self, path: str) -> None:
        """Delete the object; do nothing if it does not exist."""


def checked_path(path: str) -> str:
    """Return the path if it is valid.

    Raises:
        InvalidInput: it is empty, absolute, has a NUL or a part that is empty, `.` or `..`.
    """
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInput(f"{path!r} is not a path inside the storage")
    return path
