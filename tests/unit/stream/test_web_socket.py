"""The frames of a WebSocket: what a client may send, and what it gets for it."""

from __future__ import annotations

import pytest
from werkzeug.datastructures import Headers

from pipeweave.api.http import web_socket
from pipeweave.errors import UpgradeRequired


def masked(kind: int, content: bytes) -> bytes:
    mask = b"\x01\x02\x03\x04"
    body = bytes(each ^ mask[index % 4] for index, each in enumerate(content))
    size = bytes([0x80 | len(content)]) if len(content) < 126 else b"\xfe" + len(content).to_bytes(2)
    return bytes([0x80 | kind]) + size + mask + body


def test_the_upgrade_is_that_of_the_standard() -> None:
    headers = Headers(
        {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
    )
    assert web_socket.upgrade(headers)["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    del headers["Sec-WebSocket-Key"]
    headers["Sec-WebSocket-Version"] = "8"
    with pytest.raises(UpgradeRequired) as caught:
        web_socket.upgrade(headers)
    assert [each.field for each in caught.value.errors] == ["Sec-WebSocket-Version", "Sec-WebSocket-Key"]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_a_frame_tells_its_size(size: int) -> None:
    found = web_socket.frame(web_socket.TEXT, b"x" * size)
    assert found[0] == 0x81
    assert found.endswith(b"x" * size)
    assert len(found) == size + (2 if size < 126 else 4 if size < 65_536 else 10)


def test_a_ping_is_answered_however_its_bytes_arrive() -> None:
    receiver = web_socket.Receiver()
    sent = masked(0x1, b"dropped" * 20) + masked(web_socket.PING, b"hello") + masked(web_socket.PONG, b"")
    answers = [receiver.take(sent[index : index + 1]) for index in range(len(sent))]
    assert b"".join(each or b"" for each in answers) == web_socket.frame(web_socket.PONG, b"hello")
    assert None not in answers


@pytest.mark.parametrize(
    "sent",
    [
        masked(web_socket.CLOSE, b"\x03\xe8"),
        web_socket.frame(web_socket.TEXT, b"not masked"),
        b"\x81\xff" + (1 << 40).to_bytes(8),
    ],
    ids=["close", "not masked", "too large"],
)
def test_it_ends_with_a_close_and_with_what_no_client_may_send(sent: bytes) -> None:
    receiver = web_socket.Receiver()
    assert receiver.take(sent) is None
    assert receiver.take(b"more") == b""
