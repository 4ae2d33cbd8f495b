"""The frames of a WebSocket (RFC 6455), as far as a server of text messages needs them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Callable, Mapping

from werkzeug.datastructures import Headers

from pipeweave.errors import FieldError, UpgradeRequired

MORE, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED, NOT_TEXT = 1000, 1001, 1002, 1003, 1007
POLICY_VIOLATION, TOO_LARGE, TRY_AGAIN_LATER = 1008, 1009, 1013
# Bytes of a message of a client, in however many frames it comes; and of a ping or another sign.
MAX_RECEIVED = 262_144
MAX_SIGN = 125

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL, _RESERVED = 0x80, 0x70


def upgrade(headers: Headers) -> Mapping[str, str]:
    """The headers of the answer that accepts a WebSocket.

    Raises:
        UpgradeRequired: the request does not ask for one; all that is missing is told.
    """
    wrong = [
        FieldError(name, message, "required")
        for name, message, is_right in (
            ("Upgrade", "must be websocket", headers.get("Upgrade", "").lower() == "websocket"),
            ("Connection", "must have Upgrade", "upgrade" in headers.get("Connection", "").lower()),
            ("Sec-WebSocket-Version", "must be 13", headers.get("Sec-WebSocket-Version", "") == "13"),
            (
                "Sec-WebSocket-Key",
                "must be 16 bytes as base64",
                _is_key(headers.get("Sec-WebSocket-Key", "")),
            ),
        )
        if not is_right
    ]
    if wrong:
        raise UpgradeRequired(
            "this address is for WebSockets only",
            errors=wrong,
            hint="connect with a WebSocket client, or use GET /api/stream",
        )
    digest = hashlib.sha1(headers.get("Sec-WebSocket-Key", "").encode() + _GUID, usedforsecurity=False)
    accepted = base64.b64encode(digest.digest()).decode()
    return {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accepted}


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def frame(kind: int, content: bytes) -> bytes:
    """One whole message from the server: not masked."""
    size = len(content)
    if size < 126:
        head = struct.pack("!BB", _FINAL | kind, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FINAL | kind, 126, size)
    else:
        head = struct.pack("!BBQ", _FINAL | kind, 127, size)
    return head + content


def close(status: int, reason: str) -> bytes:
    """The frame that closes, with a reason of at most 123 bytes."""
    return frame(CLOSE, struct.pack("!H", status) + reason.encode()[:123])


class Receiver:
    """Reads the frames of a client: hands its messages on, and answers its pings and its close.

    Args:
        message: takes the text of a whole message.
    """

    def __init__(self, message: Callable[[bytes], None]) -> None:
        self._message = message
        self._buffer = bytearray()
        # The frames of a message that is not whole yet.
        self._begun: bytearray | None = None
        self._is_closed = False

    def take(self, data: bytes) -> tuple[bytes, bool]:
        """What to answer to these bytes, and whether nothing follows it."""
        if self._is_closed:
            return b"", False
        self._buffer += data
        answers = b""
        try:
            while (whole_frame := self._next()) is not None:
                answers += self._answer(*whole_frame)
        except _Over as over:
            self._is_closed = True
            return answers + close(over.status, over.reason), True
        return answers, False

    def _next(self) -> tuple[int, bool, bytes] | None:
        """The next frame: what it is, whether it is the last of its message, and its content unmasked; None
        while it is not whole.
        """
        if len(self._buffer) < 2:
            return None
        first, second = self._buffer[0], self._buffer[1]
        if first & _RESERVED or not second & _FINAL:
            raise _Over(PROTOCOL_ERROR, "a client masks its frames, and has no extension")
        size, start = second & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(self._buffer) < 2 + width:
                return None
            size, start = int.from_bytes(self._buffer[2 : 2 + width]), 2 + width
        if size + len(self._begun or b"") > MAX_RECEIVED:
            raise _Over(TOO_LARGE, f"a message has at most {MAX_RECEIVED} bytes")
        end = start + 4 + size
        if len(self._buffer) < end:
            return None
        content = _unmasked(bytes(self._buffer[start + 4 : end]), bytes(self._buffer[start : start + 4]))
        del self._buffer[:end]
        return first & 0x0F, bool(first & _FINAL), content

    def _answer(self, kind: int, is_last: bool, content: bytes) -> bytes:
        if kind in (CLOSE, PING, PONG):
            if not is_last or len(content) > MAX_SIGN:
                raise _Over(PROTOCOL_ERROR, "a sign is one short frame")
            if kind == CLOSE:
                raise _Over(NORMAL, "")
            return frame(PONG, content) if kind == PING else b""
        if kind == BINARY:
            raise _Over(UNSUPPORTED, "a message is text")
        if kind not in (TEXT, MORE) or (kind == TEXT) != (self._begun is None):
            raise _Over(PROTOCOL_ERROR, "the frame is of no message")
        begun = bytearray() if self._begun is None else self._begun
        begun += content
        self._begun = None if is_last else begun
        if is_last:
            self._message(_text(bytes(begun)))
        return b""


class _Over(Exception):
    """The connection is at its end, with this status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def _unmasked(content: bytes, mask: bytes) -> bytes:
    size = len(content)
    whole = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(content) ^ int.from_bytes(whole)).to_bytes(size)


def _text(content: bytes) -> bytes:
    try:
        content.decode()
    except UnicodeDecodeError:
        raise _Over(NOT_TEXT, "a message is UTF-8") from None
    return content
