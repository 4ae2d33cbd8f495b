"""Ports on the loopback address."""

from __future__ import annotations

import secrets
import socket

from pipeweave.errors import Unavailable

LOOPBACK = "127.0.0.1"
# Below the ports that systems give to outgoing connections: one of those could take a server's port while the
# server restarts, or a client that retries could connect to itself.
_FIRST, _LAST = 15_000, 31_999
_TRIES = 200


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(preferred: int | None = None) -> int:
    """The preferred port when it is free, else another one that is.

    Raises:
        Unavailable: none was found.
    """
    if preferred is not None and is_free(preferred):
        return preferred
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST + 1)
        if is_free(port):
            return port
    raise Unavailable(f"no free port between {_FIRST} and {_LAST}")
