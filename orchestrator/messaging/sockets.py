"""Options of the sockets to Redis: the operating system ends a connection whose other side is gone."""

from __future__ import annotations

import socket

# After so many seconds without traffic the system asks whether the other side is there, then each second; it
# gives up when no answer came three times, or when sent bytes were not acknowledged for _GONE_AFTER_S.
_IDLE_S = 2
_ASK_EVERY_S = 1
_ASKED = 3
_GONE_AFTER_S = 5


def socket_options() -> dict[int, int]:
    """The options of a TCP socket by their numbers; those that this system has."""
    wanted = {
        "TCP_KEEPIDLE": _IDLE_S,
        "TCP_KEEPINTVL": _ASK_EVERY_S,
        "TCP_KEEPCNT": _ASKED,
        "TCP_USER_TIMEOUT": _GONE_AFTER_S * 1000,
    }
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}
