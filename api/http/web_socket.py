"""The frames of a WebSocket (RFC 6455), as far as a server needs them that only sends."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Mapping

from werkzeug.datastructures import Headers

from pipeweave.errors import FieldError, UpgradeRequired

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
NORMAL, GOING_AWAY, POLICY_VIOLATION, TRY_AGAIN_LATER = 1000, 1001, 1008, 1013
# A client has nothing to say: what it sends is dropped, and may have this many bytes.
MAX_RECEIVED = 4_096

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL = 0x80


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
    """Reads the frames of a client: answers pings and its close, and drops its messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_closed = False

    def take(self, data: bytes) -> bytes | None:
        """What to answer to these bytes. None: the connection is at its end."""
        if self._is_closed:
            return b""
        self._buffer += data
        answers = b""
        while (whole_frame := self._next()) is not None:
            kind, content = whole_frame
            if kind == CLOSE:
                self._is_closed = True
                # The answer to a close says the same, and ends the connection.
                return None
            if kind == PING:
                answers += frame(PONG, content)
        return None if self._is_closed else answers

    def _next(self) -> tuple[int, bytes] | None:
        """The next whole frame, unmasked; None while it is not whole."""
        if len(self._buffer) < 2:
            return None
        size, start = self._buffer[1] & 0x7F, 2
        is_masked = bool(self._buffer[1] & 0x80)
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(self._buffer) < 2 + width:
                return None
            size, start = int.from_bytes(self._buffer[2 : 2 + width]), 2 + width
        if size > MAX_RECEIVED or not is_masked:
            self._is_closed = True
            return None
        end = start + 4 + size
        if len(self._buffer) < end:
            return None
        kind, mask = self._buffer[0] & 0x0F, self._buffer[start : start + 4]
        content = bytes(each ^ mask[index % 4] for index, each in enumerate(self._buffer[start + 4 : end]))
        del self._buffer[:end]
        return kind, content
