"""What every storage backend can do."""

from __future__ import annotations

from typing import Protocol

from pipeweave.errors import InvalidInput


class Storage(Protocol):
    """Objects by path: relative, with forward slashes, never leaving the backend's own room.

    Every method may raise `Unavailable` while the backend cannot be reached, and `InvalidSetting` when it
    refuses what the settings say. Putting the same content at the same path again changes nothing.
    """

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


def checked_path(path: str) -> str:
    """The path itself.

    Raises:
        InvalidInput: it is empty, absolute, has a NUL or a part that is empty, `.` or `..`.
    """
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInput(f"{path!r} is not a path inside the storage")
    return path
