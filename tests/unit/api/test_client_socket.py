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


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


def test_the_head_of_an_answer_leaves_with_its_body() -> None:
    accepted, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ClientSocket.of(accepted) as ours, theirs:
        ours.sendall(HEAD)
        with pytest.raises(BlockingIOError):
            theirs.recv(100)
        ours.sendall(b"{}")
        assert theirs.recv(100) == HEAD + b"{}"
        assert not ours.unsent


def test_a_head_without_a_body_leaves_with_the_next_flush_and_an_invitation_to_go_on_at_once() -> None:
    accepted, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ClientSocket.of(accepted) as ours, theirs:
        ours.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert theirs.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        ours.sendall(HEAD)
        assert ours.flush() == len(HEAD)
        assert theirs.recv(100) == HEAD


def test_parts_that_the_client_takes_in_pieces_arrive_in_their_order() -> None:
    accepted, theirs = socket.socketpair()
    parts = [HEAD, *(bytes([65 + number % 26]) * (1 + 7 * number) for number in range(200)), CONTENT]
    taken = bytearray()
    with ClientSocket.of(accepted) as ours, theirs:
        for part in parts:
            ours.add(part)
        while ours.unsent:
            ours.flush()
            taken.extend(theirs.recv(50_000))
        theirs.setblocking(False)
        while len(taken) < len(b"".join(parts)):
            taken.extend(theirs.recv(500_000))
    assert bytes(taken) == b"".join(parts)
