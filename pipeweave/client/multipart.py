"""Write a form with one file piece by piece, so that a large file is never in memory as a whole."""

from __future__ import annotations

import mimetypes
import secrets
from collections.abc import Iterator
from pathlib import Path

PIECE_BYTES = 256 * 1024


class FileForm:
    """The body of a request: a form with the file in the field `file`.

    Args:
        path: the file.
        name: the file name that is sent; by default its own.

    Attributes:
        size: bytes of the file.

    Raises:
        OSError: there is no such file.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._path = path
        self.size = path.stat().st_size
        boundary = secrets.token_hex(16)
        sent = (name or path.name).replace("\\", "\\\\").replace('"', "%22")
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self._head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_line(sent)}"\r\n'
            f"Content-Type: {kind}\r\n\r\n"
        ).encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(self._head) + self.size + len(self._tail)),
        }

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        with self._path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
        yield self._tail


def _line(name: str) -> str:
    return "".join(letter if letter.isprintable() else "_" for letter in name)
