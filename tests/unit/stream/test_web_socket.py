"""The frames of a WebSocket: what a client may send, and what it gets for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


class Heard:
    """A receiver, and what it has handed on."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.receiver = web_socket.Receiver(self.messages.append)

    def take(self, *frames: bytes) -> tuple[bytes, bool]:
        return self.receiver.take(b"".join(frames))


def begun(content: bytes, kind: int = web_socket.TEXT) -> bytes:
    """A frame that is not the last of its message."""
    whole = masked(kind, content)
    return bytes([kind]) + whole[1:]


def test_messages_and_pings_are_understood_however_their_bytes_arrive() -> None:
    heard = Heard()
    sent = masked(web_socket.TEXT, b"one" * 60) + masked(web_socket.PING, b"hello") + begun(b"tw")
    sent += masked(web_socket.PONG, b"") + masked(web_socket.MORE, b"o") + masked(web_socket.TEXT, b"")
    answers = [heard.receiver.take(sent[index : index + 1]) for index in range(len(sent))]
    assert b"".join(each for each, _ in answers) == web_socket.frame(web_socket.PONG, b"hello")
    assert not any(is_last for _, is_last in answers)
    assert heard.messages == [b"one" * 60, b"two", b""]


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=300).filter(lambda each: each.isascii()), max_size=5), st.data())
def test_each_message_comes_as_it_was_sent(messages: list[bytes], data: st.DataObject) -> None:
    heard, sent = Heard(), b""
    for each in messages:
        cut = data.draw(st.integers(0, len(each)))
        sent += begun(each[:cut]) + masked(web_socket.MORE, each[cut:])
    cut = data.draw(st.integers(0, len(sent)))
    assert [heard.take(sent[:cut]), heard.take(sent[cut:])] == [(b"", False)] * 2
    assert heard.messages == messages


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (masked(web_socket.CLOSE, b"\x03\xe8"), web_socket.NORMAL),
        (web_socket.frame(web_socket.TEXT, b"not masked"), web_socket.PROTOCOL_ERROR),
        (b"\xc1" + masked(web_socket.TEXT, b"reserved")[1:], web_socket.PROTOCOL_ERROR),
        (masked(web_socket.MORE, b"of nothing"), web_socket.PROTOCOL_ERROR),
        (masked(0x3, b"unknown"), web_socket.PROTOCOL_ERROR),
        (begun(b"one") + masked(web_socket.TEXT, b"another"), web_socket.PROTOCOL_ERROR),
        (begun(b"", web_socket.PING), web_socket.PROTOCOL_ERROR),
        (masked(web_socket.PING, b"x" * 126), web_socket.PROTOCOL_ERROR),
        (masked(web_socket.BINARY, b"{}"), web_socket.UNSUPPORTED),
        (masked(web_socket.TEXT, b"\xff"), web_socket.NOT_TEXT),
        (b"\x81\xff" + (1 << 40).to_bytes(8), web_socket.TOO_LARGE),
        (begun(b"x" * 60_000) * 1 + begun(b"x" * 60_000, web_socket.MORE) * 4, web_socket.TOO_LARGE),
    ],
)
def test_it_ends_with_a_close_and_with_what_no_client_may_send(sent: bytes, status: int) -> None:
    heard = Heard()
    answer, is_last = heard.take(masked(web_socket.PING, b"") + sent)
    pong = web_socket.frame(web_socket.PONG, b"")
    assert is_last and answer.startswith(pong)
    assert answer.removeprefix(pong)[2:4] == status.to_bytes(2)
    assert heard.take(masked(web_socket.TEXT, b"more")) == (b"", False)
    assert heard.messages == []
