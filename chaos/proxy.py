"""A TCP proxy whose connections can be made to go silent, as a firewall does that forgets them.

It goes on to acknowledge what either end sends, so that no probe of the network finds out. New connections
work.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOOPBACK = "127.0.0.1"
_CHUNK = 64 * 1024


class _Pair:
    """A client's connection, and the one to the server that belongs to it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = client, server
        self.is_silent = False

    def forward(self) -> None:
        """Pass on what each end sends, until both have ended."""
        client, server = self.ends
        back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        self.close()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(_CHUNK):
                if not self.is_silent:
                    target.sendall(content)
        # The end of a silent connection is not heard at the other end either.
        if not self.is_silent:
            for end in self.ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in self.ends:
            end.close()


class Proxy:
    """Forwards connections to a port of this host.

    Args:
        target: the port of the server.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._pairs: list[_Pair] = []
        self._listener = socket.create_server((_LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def silence(self) -> int:
        """Swallow from now on whatever the present connections carry; how many there are."""
        silenced = [each for each in self._pairs if not each.is_silent]
        for each in silenced:
            each.is_silent = True
        return len(silenced)

    def close(self) -> None:
        """End all connections and take no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pair in self._pairs:
            for end in pair.ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((_LOOPBACK, self._target))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            self._pairs.append(pair)
            threading.Thread(target=self._serve, args=(pair,), daemon=True).start()

    def _serve(self, pair: _Pair) -> None:
        pair.forward()
        self._pairs.remove(pair)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """A proxy to a port for the block."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
