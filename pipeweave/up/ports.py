"""Find free ports on the loopback address."""

from __future__ import annotations

import secrets
import socket

from pipeweave.errors import Unavailable

LOOPBACK = "127.0.0.1"
# Below the ephemeral ports of outgoing connections. Otherwise such a connection could take a server's port
# while
# the server restarts, or a retrying client could connect to itself.
_FIRST, _LAST = 15_000, 31_999
_TRIES = 200


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


def free_port(preferred: int | None = None) -> int:
    """Return the preferred port if it is free, else a random free port.

    Raises:
        Unavailable: no free port was found.
    """
    if preferred is not None and is_free(preferred):
        return preferred
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST + 1)
        if is_free(port):
            return port
    raise Unavailable(f"no free port between {_FIRST} and {_LAST}")
