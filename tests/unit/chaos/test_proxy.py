"""What the fault test's proxy does to connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from chaos.proxy import Proxy, proxy_to

ANSWER_S = 10.0
# Nothing comes for so long (s) where nothing is to come.
NOTHING_S = 0.2


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(ANSWER_S)
        yield listening


@pytest.fixture
def proxy(server: socket.socket) -> Iterator[Proxy]:
    with proxy_to(server.getsockname()[1]) as running:
        yield running


def connected(server: socket.socket, proxy: Proxy) -> tuple[socket.socket, socket.socket]:
    """A client's connection through the proxy, and the server's end of it."""
    client = socket.create_connection(("127.0.0.1", proxy.port), ANSWER_S)
    other, _ = server.accept()
    other.settimeout(ANSWER_S)
    # What passes is of a connection that the proxy knows: it connects to the server a moment before.
    client.sendall(b"!")
    assert other.recv(1) == b"!"
    return client, other


def hears_nothing(end: socket.socket) -> bool:
    end.settimeout(NOTHING_S)
    with suppress(TimeoutError):
        return end.recv(1) is None
    return True


def test_what_was_sent_during_a_cut_arrives_when_it_is_mended(server: socket.socket, proxy: Proxy) -> None:
    client, other = connected(server, proxy)
    with closing(client), closing(other):
        proxy.cut()
        client.sendall(b"late")
        assert hears_nothing(other)
        proxy.mend(delivers=True)
        other.settimeout(ANSWER_S)
        assert other.recv(4) == b"late"


def test_a_cut_may_lose_connections_while_new_ones_work(server: socket.socket, proxy: Proxy) -> None:
    client, other = connected(server, proxy)
    with closing(client), closing(other):
        proxy.cut()
        client.sendall(b"lost")
        proxy.mend(delivers=False)
        assert hears_nothing(other)
        fresh, far = connected(server, proxy)
        with closing(fresh), closing(far):
            fresh.sendall(b"new")
            assert far.recv(3) == b"new"


def test_the_server_does_not_learn_that_a_silent_client_ended(server: socket.socket, proxy: Proxy) -> None:
    client, other = connected(server, proxy)
    with closing(other):
        assert proxy.silence() == 1
        client.close()
        assert hears_nothing(other)
        proxy.forget(0)
        other.settimeout(ANSWER_S)
        assert other.recv(1) == b""


def test_a_host_can_vanish_when_the_server_says_something_which_is_not_heard(
    server: socket.socket, proxy: Proxy
) -> None:
    client, other = connected(server, proxy)
    with closing(client), closing(other):
        came: list[bool] = []
        wait = threading.Thread(
            target=lambda: came.append(proxy.silence_when(lambda said: said == b"now", ANSWER_S))
        )
        wait.start()
        other.sendall(b"yet")
        assert client.recv(3) == b"yet"
        other.sendall(b"now")
        wait.join()
        assert came == [True]
        assert hears_nothing(client)
