"""A TCP proxy whose connections can be made to go silent, as a firewall does that forgets them, or a host
that vanishes.

It goes on to acknowledge what either end sends, so that no probe of the network finds out. New connections
work, unless the network is cut.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_LOOPBACK = "127.0.0.1"
_CHUNK = 64 * 1024
# Between two bytes of a proxy that drips (s).
_DRIP_EVERY_S = 0.2

# Whether something that a server sends is what was waited for.
Recognise = Callable[[bytes], bool]


class _Pair:
    """A client's connection, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.ends = client, server
        self.silent_since: float | None = None
        self._proxy = proxy

    @property
    def is_silent(self) -> bool:
        return self.silent_since is not None

    def forward(self) -> None:
        """Pass on what each end sends, until both have ended."""
        client, server = self.ends
        back = threading.Thread(target=self._pump, args=(server, client, self._proxy.look), daemon=True)
        back.start()
        self._pump(client, server, lambda _: None)
        back.join()
        self.close()

    def _pump(self, source: socket.socket, target: socket.socket, look: Callable[[bytes], None]) -> None:
        with suppress(OSError):
            while content := source.recv(_CHUNK):
                look(content)
                self._proxy.passes.wait()
                if not self.is_silent:
                    target.sendall(
                        self._proxy.dripped(content, target) if source is self.ends[1] else content
                    )
        self._proxy.passes.wait()
        # The end of a silent connection is not heard at the other end either.
        if not self.is_silent:
            self.end()

    def end(self) -> None:
        """Let both ends hear that the connection has ended."""
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in self.ends:
            end.close()


@dataclass(slots=True)
class Trap:
    """Goes off when a server says something."""

    recognise: Recognise
    is_off: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Forwards connections to a port of this host.

    Args:
        target: the port of the server.

    Attributes:
        passes: cleared while the network is cut.
        drips: whether answers of the server arrive byte by byte.
    """

    def __init__(self, target: int) -> None:
        self.passes = threading.Event()
        self.passes.set()
        self.drips = False
        self._refuses = False
        self._target = target
        self._pairs: list[_Pair] = []
        self._trap: Trap | None = None
        self._listener = socket.create_server((_LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def silence(self) -> int:
        """Swallow from now on whatever the present connections carry; how many there are."""
        silenced = [each for each in list(self._pairs) if not each.is_silent]
        for each in silenced:
            each.silent_since = time.monotonic()
        return len(silenced)

    def silence_when(self, recognise: Recognise, seconds: float) -> bool:
        """Silence the present connections when a server says something, before that is heard; after so many
        seconds anyway. True if it was said.
        """
        trap = Trap(recognise)
        self.arm(trap)
        was_said = trap.is_off.wait(seconds)
        self.arm(None)
        self.silence()
        return was_said

    def arm(self, trap: Trap | None) -> None:
        """Set a trap: it silences the present connections before what sets it off is heard."""
        self._trap = trap

    def look(self, content: bytes) -> None:
        """Look at something that a server says."""
        trap = self._trap
        if trap is not None and trap.recognise(content):
            self._trap = None
            self.silence()
            trap.is_off.set()

    def cut(self) -> None:
        """Let nothing pass. New connections are not answered."""
        self.passes.clear()

    def mend(self, *, delivers: bool) -> None:
        """End a cut.

        Args:
            delivers: whether what was sent meanwhile arrives now; if not, the connections stay silent.
        """
        if not delivers:
            self.silence()
        self.passes.set()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """End all connections, and each new one at once, for the block."""
        self._refuses = True
        for pair in list(self._pairs):
            pair.end()
        try:
            yield
        finally:
            self._refuses = False

    @contextmanager
    def dripping(self) -> Iterator[None]:
        """Let answers of the server arrive byte by byte for the block."""
        self.drips = True
        try:
            yield
        finally:
            self.drips = False

    def dripped(self, content: bytes, target: socket.socket) -> bytes:
        """Pass on a byte now and then while the proxy drips; what is left afterwards."""
        while self.drips and content:
            target.sendall(content[:1])
            content = content[1:]
            time.sleep(_DRIP_EVERY_S)
        return content

    def forget(self, seconds: float) -> None:
        """End the connections that are silent for so long, as probes would if nobody acknowledged them."""
        until = time.monotonic() - seconds
        for pair in list(self._pairs):
            if pair.silent_since is not None and pair.silent_since <= until:
                pair.end()

    def close(self) -> None:
        """End all connections and take no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.passes.set()
        for pair in list(self._pairs):
            pair.end()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                self.passes.wait()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            try:
                server = socket.create_connection((_LOOPBACK, self._target))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(self, client, server)
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
