"""Stores files and objects by their content, whatever their size: what rows name is then never written again.

The hash is ours: the content is read to its end, then copied to the path of its hash, and the copy appears
only if it is the content that was read before. Nothing is held in memory but pieces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeweave.errors import CorruptValue, NotFound, ObjectTooLarge
from pipeweave.orchestrator.store.values import ARTIFACTS, Values
from pipeweave.storage import ObjectRef, Storage, WrittenContent
from pipeweave.storage.base import BINARY
from pipeweave.storage.streams import PieceReader, checked, measured

# An object of less is read once, as a whole (bytes).
READ_AT_ONCE = 4 * 1024 * 1024
# How often an object is read that is written anew while it is read.
TRIES = 3

Pieces = AbstractContextManager[Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class KeptObject:
    """Content in storage.

    Args:
        reference: where it is, by its hash.
        size: bytes.
        sha256: lower-case hex.
    """

    reference: str
    size: int
    sha256: str


def keep_file(values: Values, file: Path, backend: str, content_type: str, limit: int) -> KeptObject:
    """Store a file that nobody writes to any more.

    Raises:
        ObjectTooLarge: it is larger than `limit` (bytes).
        InvalidSetting, Unavailable: as of `Values.keep`.
    """
    return _keep(values, str(file.name), lambda: _pieces_of(file), backend, content_type, limit)


def keep_object(
    values: Values,
    where: ObjectRef,
    *,
    limit: int,
    content_type: str = BINARY,
    alive: Callable[[], None] = lambda: None,
) -> KeptObject:
    """Store the content of an object that somebody else may write to at any time, as it is now.

    Args:
        limit: the largest size (bytes).
        alive: called for each piece that is read, of 1 to 8 MiB.

    Raises:
        NotFound: there is no such object.
        ObjectTooLarge: it is larger than the limit.
        CorruptValue: it was written anew whenever it was read.
        InvalidSetting, Unavailable: as of `Values.keep`.
    """
    try:
        content = values.backends.get(where.backend).get(where.path, limit=min(limit, READ_AT_ONCE))
    except ObjectTooLarge:
        return keep_large(values, where, limit=limit, content_type=content_type, alive=alive)
    reference = values.keep_bytes(content, where.backend, content_type)
    return KeptObject(str(reference), len(content), hashlib.sha256(content).hexdigest())


def keep_large(
    values: Values,
    where: ObjectRef,
    *,
    limit: int,
    content_type: str = BINARY,
    alive: Callable[[], None] = lambda: None,
) -> KeptObject:
    """As `keep_object`, of one that was seen to have more than READ_AT_ONCE."""
    storage = values.backends.get(where.backend)
    check_size(storage, where.path, limit)

    def source() -> Pieces:
        return _watched(storage, where.path, alive)

    for tries_left in reversed(range(TRIES)):
        try:
            return _keep(values, where.path, source, where.backend, content_type, limit)
        except CorruptValue:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


def check_size(storage: Storage, path: str, limit: int) -> int:
    """The size of an object (bytes).

    Raises:
        NotFound: there is no such object.
        ObjectTooLarge: it is larger than `limit`; its size is in the message.
    """
    entry = storage.stat(path)
    if entry is None:
        raise NotFound(f"there is no stored object {path!r}", path=path)
    if entry.size > limit:
        detail = f"the object {path!r} has {entry.size:,} bytes; at most {limit:,} are possible"
        raise ObjectTooLarge(detail, path=path, limit=limit)
    return entry.size


@contextmanager
def opened(values: Values, reference: str) -> Iterator[Iterable[bytes]]:
    """Read an object piece by piece; of one that lies by its content, the last piece comes if all are right.

    Raises:
        NotFound: there is no such object.
        CorruptValue: after the last piece: it is not the content that its path is the hash of.
        InvalidSetting, Unavailable: as of `Values.load`.
    """
    storage, path = values.backends.locate(reference)
    with storage.open(path) as pieces:
        yield checked(path, pieces, path.rpartition("/")[2]) if path.startswith(ARTIFACTS) else pieces


def _keep(
    values: Values,
    name: str,
    source: Callable[[], Pieces],
    backend: str,
    content_type: str,
    limit: int,
) -> KeptObject:
    with source() as pieces:
        content = measured(name, PieceReader(pieces), limit)

    def write(storage: Storage, path: str) -> None:
        with source() as pieces:
            _copy(storage, path, checked(name, pieces, content.sha256), content, content_type)

    reference = values.keep_content(content, backend, write)
    return KeptObject(str(reference), content.size, content.sha256)


def _copy(
    storage: Storage, path: str, pieces: Iterable[bytes], content: WrittenContent, content_type: str
) -> None:
    try:
        storage.put_stream(path, PieceReader(pieces), limit=content.size, content_type=content_type)
    except ObjectTooLarge:
        raise CorruptValue(f"the content of {path!r} has become larger while it was read") from None


@contextmanager
def _watched(storage: Storage, path: str, alive: Callable[[], None]) -> Iterator[Iterable[bytes]]:
    with storage.open(path) as pieces:
        yield _telling(pieces, alive)


def _telling(pieces: Iterable[bytes], alive: Callable[[], None]) -> Iterator[bytes]:
    for each in pieces:
        alive()
        yield each


@contextmanager
def _pieces_of(file: Path) -> Iterator[Iterable[bytes]]:
    with file.open("rb") as opened_file:
        yield iter(lambda: opened_file.read(READ_AT_ONCE), b"")
