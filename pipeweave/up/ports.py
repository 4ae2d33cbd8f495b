"""Choose free ports on the loopback address, each for one process at a time."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence

from pipeweave.errors import Unavailable

LOOPBACK = "127.0.0.1"
# Below the ephemeral ports of outgoing connections. Otherwise such a connection could take a server's port
# while the server restarts, or a retrying client could connect to itself.
_CHOICE = range(15_000, 32_000)


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """True if a server could listen on this port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(preferred: int | None = None, among: Sequence[int] = _CHOICE) -> int:
    """Return the preferred port if it is free, else a random free port; nobody else gets it from here until
    this process ends.

    Args:
        preferred: None for any.
        among: the ports to choose from.

    Raises:
        Unavailable: none of the ports is free.
    """
    if preferred is not None and is_free(preferred) and take(preferred):
        return preferred
    first = secrets.randbelow(len(among))
    for place in range(len(among)):
        port = among[(first + place) % len(among)]
        if is_free(port) and take(port):
            return port
    raise Unavailable(f"no free port between {min(among)} and {max(among)}")


def take(port: int) -> bool:
    """Keep `free_port` of every process from choosing this port, until this process ends. False if somebody,
    maybe this process, has taken it before.

    A server begins to listen long after its port was chosen, and listens to TCP. A UDP socket on the same
    number says meanwhile, and while the server restarts, that the port is somebody's; however this process
    ends, the kernel closes it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sign:
        try:
            sign.bind((LOOPBACK, port))
        except OSError:
            return False
        sign.detach()
    return True
