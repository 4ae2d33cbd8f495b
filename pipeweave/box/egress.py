"""Lets libraries connect to the addresses that a box may reach: its parent connects, and relays the bytes.

A box cannot make a socket of the internet. What the module `socket` gives instead is one end of a pair; when
it is to be connected to an address of the list, the parent puts a stream to that address in its place.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from pipeweave.box.channel import Channel
from pipeweave.errors import PipeWeaveError

# Of TEST-NET-1: stands for the first address of the list, and so on.
_PLACEHOLDER = "192.0.2."
_STREAM = socket.SOCK_STREAM
_plain_socket = socket.socket


class _Addresses:
    """The addresses of a box, each with a number that stands for it."""

    def __init__(self, channel: Channel, hosts: Sequence[str]) -> None:
        self.channel = channel
        self._hosts = [each.rpartition(":")[::2] for each in hosts]
        self._names = list(dict.fromkeys(name for name, _ in self._hosts))

    def number_of(self, host: Any) -> str | None:
        """What stands for a host; None if it is not on the list."""
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
        name = name.lower().rstrip(".")
        if name.startswith(_PLACEHOLDER) and self.name_of(name) is not None:
            return name
        return f"{_PLACEHOLDER}{self._names.index(name) + 1}" if name in self._names else None

    def name_of(self, number: str) -> str | None:
        place = number.removeprefix(_PLACEHOLDER)
        is_known = place.isdigit() and 1 <= int(place) <= len(self._names)
        return self._names[int(place) - 1] if is_known else None


_addresses: _Addresses | None = None


class RelayedSocket(_plain_socket):
    """A socket of the internet as far as libraries can tell; its other end is the parent."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        self._peer: tuple[str, int] | None = None
        if fileno is None and family in (-1, socket.AF_INET, socket.AF_INET6) and _of_stream(type):
            mine, other = _plain_pair()
            other.close()
            super().__init__(socket.AF_INET, socket.SOCK_STREAM, 0, mine.detach())
        else:
            super().__init__(family, type, proto, fileno)

    def connect(self, address: Any) -> None:
        """Ask the parent for a stream to the address, whatever this socket's own time limit is."""
        assert _addresses is not None
        host, port = address[0], int(address[1])
        number = _addresses.number_of(host)
        name = None if number is None else _addresses.name_of(number)
        if name is None:
            raise PermissionError(1, f"the sandbox of this task does not allow connections to {host}:{port}")
        try:
            stream = _addresses.channel.ask_for_descriptor("connect", host=name, port=port)
        except PipeWeaveError as error:
            raise OSError(error.detail) from None
        os.dup2(stream, self.fileno(), inheritable=False)
        os.close(stream)
        self._peer = (number or "", port)
        self.settimeout(self.gettimeout())  # the descriptor is another one: it must be as (non-)blocking

    def connect_ex(self, address: Any) -> int:
        try:
            self.connect(address)
        except OSError as error:
            return error.errno or 111
        return 0

    def getpeername(self) -> Any:
        return super().getpeername() if self._peer is None else self._peer

    def getsockname(self) -> Any:
        return super().getsockname() if self._peer is None else ("127.0.0.1", 0)

    def setsockopt(self, *arguments: Any) -> None:
        """Options of TCP concern the parent's connection."""
        if arguments[0] == socket.SOL_SOCKET:
            super().setsockopt(*arguments)


def _of_stream(kind: int) -> bool:
    return kind == -1 or kind & 0xF == _STREAM


_plain_pair = socket.socketpair


def _getaddrinfo(host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
    """What stands for a host of the list: names are resolved by the parent alone."""
    assert _addresses is not None
    number = None if host is None else _addresses.number_of(host)
    if number is None:
        raise socket.gaierror(
            socket.EAI_NONAME, f"the sandbox of this task does not allow connections to {host}"
        )
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (number, int(port or 0)))]


def install(channel: Channel, hosts: Sequence[str]) -> None:
    """Have the module `socket` reach these addresses; without any, it reaches none by itself."""
    global _addresses
    if not hosts:
        return
    _addresses = _Addresses(channel, hosts)
    socket.socket = RelayedSocket  # type: ignore[misc]
    socket.getaddrinfo = _getaddrinfo
