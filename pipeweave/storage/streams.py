"""Reads content that is on its way: pieces as a file, and content that must have a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from pipeweave.errors import CorruptValue
from pipeweave.storage.base import PIECE_BYTES, Measured, Readable, WrittenContent


class PieceReader:
    """Reads pieces, as `Storage.open` gives them, as a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        """The next bytes, `size` at most; none at the end."""
        while not self._rest:
            try:
                self._rest = next(self._pieces)
            except StopIteration:
                return b""
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def measured(path: str, file: Readable, limit: int) -> WrittenContent:
    """The size and the hash of a file, which is read to its end piece by piece.

    Raises:
        ObjectTooLarge: it is larger than `limit` (bytes).
    """
    content = Measured(path, file, limit)
    for _ in content.parts(PIECE_BYTES):
        pass
    return content.written


def checked(path: str, pieces: Iterable[bytes], sha256: str) -> Iterator[bytes]:
    """The pieces; after the last one, an error unless they were the content with this hash.

    So whoever writes an object from them leaves none that has other content: an object appears when its
    source has ended.

    Args:
        sha256: lower-case hex.

    Raises:
        CorruptValue: they were other content.
    """
    digest = hashlib.sha256()
    for each in pieces:
        digest.update(each)
        yield each
    if digest.hexdigest() != sha256:
        raise CorruptValue(f"the stored object {path!r} has another content than was stored")
