"""Define the interface of a storage backend, and what its methods take and return."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Literal, Protocol

from pipeweave.errors import InvalidInput, NotFound, ObjectTooLarge

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# How much of an object the streaming methods hold in memory (bytes).
PIECE_BYTES = 1024 * 1024
# The longest path (bytes of UTF-8): the limit of S3 and of Google Cloud Storage.
MAX_PATH_BYTES = 1024
# The longest part of a path (bytes of UTF-8): the limit of most file systems.
MAX_PART_BYTES = 255
# Most paths: no part of them begins with a dot, and each character is a byte.
_PLAIN_PART = f"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_PART_BYTES - 1}}}"
_PLAIN_PATH = re.compile(f"{_PLAIN_PART}(?:/{_PLAIN_PART})*")
# How long (s) the stores let a signed URL be valid.
MAX_SIGNED_S = 604_800
BINARY = "application/octet-stream"

Method = Literal["GET", "PUT"]


class Readable(Protocol):
    """What an object is written from: a file that is open for reading bytes, or the body of a request."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, `size` at most; none at the end."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """A stored object: its path, its size (bytes) and when it was last written, by the storage's clock."""

    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class WrittenContent:
    """What was written: its size (bytes) and the lower-case hex SHA-256 of its content."""

    size: int
    sha256: str


class Storage(Protocol):
    """Stores objects by path. A path is relative, has forward slashes, and cannot leave the backend's folder.

    An object appears complete or not at all: a writer that fails or is killed leaves nothing visible.

    Every method may raise `InvalidInput` for an invalid path, `Unavailable` if the backend cannot be reached,
    and `InvalidSetting` if the backend refuses the configured credentials or bucket.
    """

    def put(self, path: str, content: bytes, *, content_type: str = BINARY, is_durable: bool = True) -> None:
        """Write the object, or replace it; it is complete when this returns.

        Args:
            is_durable: whether it must survive a power cut from then on. What is written again and again,
                such as a log, need not be: a disk takes its time to make sure.
        """

    def put_stream(
        self, path: str, file: Readable, *, limit: int, content_type: str = BINARY
    ) -> WrittenContent:
        """Write the object from a file, piece by piece; it is complete and durable when this returns.

        Args:
            limit: the largest size (bytes).

        Raises:
            ObjectTooLarge: the file is larger; the object is as it was before.
        """

    def get(self, path: str, *, limit: int | None = None) -> bytes:
        """Read the object.

        Raises:
            NotFound: there is no such object.
            ObjectTooLarge: it is larger than `limit` (bytes).
        """

    def open(
        self, path: str, *, start: int = 0, length: int | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Read the object, or `length` bytes of it from `start` on, piece by piece.

        There are no pieces behind its end.

        Raises:
            NotFound: there is no such object; raised when the context is entered.
        """

    def stat(self, path: str) -> ObjectInfo | None:
        """Size and time of the object; None if it does not exist."""

    def exists(self, path: str) -> bool:
        """True if the object exists."""

    def delete(self, path: str) -> None:
        """Delete the object; do nothing if it does not exist."""

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        """The first objects whose paths begin with `prefix`, in the order of their paths.

        Args:
            after: only paths behind this one; the last path of the page before.
            limit: how many at most.
        """

    def presign(self, path: str, *, method: Method, seconds: int) -> str | None:
        """A URL that reads or writes the object without credentials, for so many seconds, at most 7 days.

        None if this backend has no such URLs.
        """


def checked_path(path: str) -> str:
    """Return the path if it is valid.

    Raises:
        InvalidInput: it is empty, absolute, too long or has a NUL; or a part of it is empty, too long, `.` or
            `..`.
    """
    is_plain = _PLAIN_PATH.fullmatch(path) is not None and len(path) <= MAX_PATH_BYTES
    if not is_plain and not (_is_text(path) and all(map(_is_part, path.split("/")))):
        raise InvalidInput(f"{path[:MAX_PATH_BYTES]!r} is not a path inside the storage")
    return path


def checked_prefix(prefix: str) -> str:
    """Return the beginning of paths if it is valid; it may be empty, and may end inside of a name.

    Raises:
        InvalidInput: no valid path begins like this.
    """
    *folders, _ = prefix.split("/")
    if not (_is_text(prefix) and all(map(_is_part, folders))):
        raise InvalidInput(f"{prefix[:MAX_PATH_BYTES]!r} is not the beginning of a path inside the storage")
    return prefix


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and len(part.encode()) <= MAX_PART_BYTES


def _is_text(path: str) -> bool:
    try:
        return "\0" not in path and len(path.encode()) <= MAX_PATH_BYTES
    except UnicodeEncodeError:
        return False


def too_large(path: str, limit: int) -> ObjectTooLarge:
    """The error of an object that is larger than it may be."""
    return ObjectTooLarge(f"the object {path!r} is larger than {limit:,} bytes", path=path, limit=limit)


def missing(path: str) -> NotFound:
    """The error of an object that does not exist."""
    return NotFound(f"there is no stored object {path!r}", path=path)


class Bounded(BytesIO):
    """Takes in an object up to a limit (bytes; None for no limit); `write` raises ObjectTooLarge."""

    def __init__(self, path: str, limit: int | None) -> None:
        super().__init__()
        self._path = path
        self._limit = limit

    def write(self, content: Buffer, /) -> int:
        if self._limit is not None and self.tell() + memoryview(content).nbytes > self._limit:
            raise too_large(self._path, self._limit)
        return super().write(content)


class Measured:
    """Reads a file in parts, counts its bytes and hashes them.

    Args:
        limit: the largest size (bytes).

    Attributes:
        failure: what the file raised when it was read.
    """

    def __init__(self, path: str, file: Readable, limit: int) -> None:
        self.failure: Exception | None = None
        self._path = path
        self._file = file
        self._limit = limit
        self._digest = hashlib.sha256()
        self._size = 0
        self._ahead = b""

    def fits(self, size: int) -> bool:
        """Whether the file has less than `size` bytes; call it before anything is read.

        Raises:
            ObjectTooLarge: the file is larger than the limit.
        """
        self._ahead = self._read(size)
        return len(self._ahead) < size

    def parts(self, size: int) -> Iterator[bytes]:
        """The file in parts of `size` bytes; the last one may have less, and an empty file has none.

        Raises:
            ObjectTooLarge: the file is larger than the limit.
        """
        # No variable keeps a part while the next one is read.
        while part := self._take_ahead() or self._read(size):
            yield part
            del part

    def _take_ahead(self) -> bytes:
        part, self._ahead = self._ahead, b""
        return part

    def _read(self, size: int) -> bytes:
        # Its content is handed out without a copy.
        part = BytesIO()
        while (left := size - part.tell()) and (piece := self._piece(min(left, PIECE_BYTES))):
            part.write(piece)
            self._digest.update(piece)
            self._size += len(piece)
            if self._size > self._limit:
                raise too_large(self._path, self._limit)
        return part.getvalue()

    def _piece(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except Exception as error:
            self.failure = error
            raise

    @property
    def written(self) -> WrittenContent:
        """What was read so far."""
        return WrittenContent(self._size, self._digest.hexdigest())
