"""The socket of a client: how a thread waits that writes a large answer."""

from __future__ import annotations

import socket
import threading

import pytest

from pipeweave.api.server import client_socket
from pipeweave.api.server.client_socket import ClientSocket

CONTENT = b"x" * 5_000_000


@pytest.fixture
def ends() -> tuple[ClientSocket, socket.socket]:
    """The server's end with an answer that is not taken yet, and the client's."""
    ours, theirs = socket.socketpair()
    made = ClientSocket.of(ours)
    made.add(CONTENT)
    return made, theirs


def test_a_thread_waits_until_the_client_has_taken_enough(ends: tuple[ClientSocket, socket.socket]) -> None:
    ours, theirs = ends
    taken = bytearray()

    def take() -> None:
        while len(taken) < len(CONTENT):
            taken.extend(theirs.recv(65_536))

    reader = threading.Thread(target=take)
    with ours, theirs:
        reader.start()
        ours.wait_until_taken(1_000_000)
        assert ours.left <= 1_000_000
        ours.wait_until_taken(0)
        reader.join()
    assert bytes(taken) == CONTENT


def test_a_client_that_takes_nothing_is_not_waited_for(
    ends: tuple[ClientSocket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_socket, "STALL_S", 0.05)
    ours, theirs = ends
    with ours, theirs, pytest.raises(TimeoutError):
        ours.wait_until_taken(1_000_000)
