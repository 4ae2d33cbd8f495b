"""Frames between a box and its parent: a length, a kind, and JSON or bytes.

Neither side believes the other: a frame that is too long, of no kind or no JSON ends the conversation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import orjson

JSON, RAW = b"J", b"R"
_HEADER = struct.Struct("!IB")
HEADER_BYTES = _HEADER.size

MAX_FRAME = 128 * 1024 * 1024
"""Bytes of one frame: an output of the largest size fits."""

PIECE = 256 * 1024
"""Bytes of one piece of a file."""


class BadFrame(Exception):
    """What came is no frame."""


def json_frame(message: Any) -> bytes:
    """A message as a frame."""
    return _frame(JSON, orjson.dumps(message))


def raw_frame(content: bytes) -> bytes:
    """Bytes as a frame."""
    return _frame(RAW, content)


def _frame(kind: bytes, content: bytes) -> bytes:
    if len(content) > MAX_FRAME:
        raise BadFrame(f"a frame of {len(content)} bytes is longer than {MAX_FRAME}")
    return _HEADER.pack(len(content), kind[0]) + content


class FrameReader:
    """Puts frames together from pieces as they arrive.

    Args:
        longest: bytes that a frame may have.
    """

    def __init__(self, longest: int = MAX_FRAME) -> None:
        self._longest = longest
        self._buffer = bytearray()

    def feed(self, content: bytes) -> None:
        """Take bytes that have arrived.

        Raises:
            BadFrame: they begin a frame that is too long or of no kind.
        """
        self._buffer += content

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """The frames that are whole, each with its kind.

        Raises:
            BadFrame: the next frame is too long, or of no kind.
        """
        while (frame := self.next()) is not None:
            yield frame

    def next(self) -> tuple[bytes, bytes] | None:
        """The next whole frame with its kind; None if it has not arrived yet."""
        if len(self._buffer) < HEADER_BYTES:
            return None
        length, code = _HEADER.unpack_from(self._buffer)
        kind = bytes((code,))
        if length > self._longest or kind not in (JSON, RAW):
            raise BadFrame(
                "the bytes are no frame" if kind not in (JSON, RAW) else f"{length} bytes are too long"
            )
        if len(self._buffer) < HEADER_BYTES + length:
            return None
        content = bytes(memoryview(self._buffer)[HEADER_BYTES : HEADER_BYTES + length])
        del self._buffer[: HEADER_BYTES + length]
        return kind, content

    @property
    def is_empty(self) -> bool:
        """Whether no part of a frame is left."""
        return not self._buffer


def read_json(kind: bytes, content: bytes) -> dict[str, Any]:
    """The object of a JSON frame.

    Raises:
        BadFrame: it is none.
    """
    if kind != JSON:
        raise BadFrame("bytes came where a message was due")
    try:
        message = orjson.loads(content)
    except ValueError:
        raise BadFrame("the frame is not JSON") from None
    if not isinstance(message, dict):
        raise BadFrame("the message is no object")
    return message
