"""Connects to the addresses that a sandbox lists, in place of its box, and relays the bytes.

The box has one end of a pair and never a socket of the internet: it cannot reach another address with it.
"""

from __future__ import annotations

import selectors
import socket
from dataclasses import dataclass, field

from pipeweave.errors import SandboxRefused, TargetRefused
from pipeweave.sending import Networks
from pipeweave.workers.boxes.box_spec import BoxSpec

MAX_CONNECTIONS = 64
"""Connections of one box at once."""

_CONNECTED_WITHIN_S = 10.0
# Bytes that wait for the one side while the other one sends.
_BUFFER = 256 * 1024


@dataclass(slots=True, eq=False)
class _Side:
    """One of the two sockets of a relay.

    Args:
        waiting: bytes that this side has not taken yet.
        has_ended: whether this side sends nothing more.
    """

    socket: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    other: _Side = field(init=False)


class Relays:
    """The connections of one box.

    Args:
        spec: with the addresses that may be reached, and the tenant whose names are resolved.
        networks: the networks that requests of the deployment may reach.
        selector: tells which of the sockets is ready; see `go_on`.
    """

    def __init__(self, spec: BoxSpec, networks: Networks, selector: selectors.BaseSelector) -> None:
        self._hosts = frozenset(spec.sandbox.hosts)
        self._tenant = spec.tenant
        self._networks = networks
        self._selector = selector
        self._sides: set[_Side] = set()

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to an address; returns the box's end.

        Raises:
            SandboxRefused: the sandbox does not list it, or requests of the deployment may not reach it.
        """
        if f"{host}:{port}" not in self._hosts:
            raise SandboxRefused(f"the sandbox of this task does not allow connections to {host:.200}:{port}")
        if len(self._sides) >= 2 * MAX_CONNECTIONS:
            raise SandboxRefused(f"a sandbox has at most {MAX_CONNECTIONS} connections at once")
        try:
            target = self._networks.resolve(f"tcp://{host}:{port}", self._tenant, _CONNECTED_WITHIN_S)
            outside = socket.create_connection((target.address, port), _CONNECTED_WITHIN_S)
        except TargetRefused as error:
            raise SandboxRefused(error.detail, hint=error.hint) from None
        except (OSError, UnicodeError) as error:
            raise SandboxRefused(f"{host}:{port} cannot be reached: {error}"[:300]) from None
        mine, its = socket.socketpair()
        self._relay(_Side(outside), _Side(mine))
        return its

    def _relay(self, one: _Side, other: _Side) -> None:
        one.other, other.other = other, one
        for each in (one, other):
            each.socket.setblocking(False)
            self._sides.add(each)
            self._selector.register(each.socket, selectors.EVENT_READ, each)

    def go_on(self, key: selectors.SelectorKey, events: int) -> None:
        """Relay what one of the sockets is ready for."""
        side: _Side = key.data
        if side not in self._sides:
            return
        try:
            if events & selectors.EVENT_READ:
                self._read(side)
            if events & selectors.EVENT_WRITE:
                self._write(side)
        except BlockingIOError:
            pass
        except OSError:
            self._end(side)
            return
        if side.has_ended and side.other.has_ended and not side.waiting and not side.other.waiting:
            self._end(side)
            return
        self._watch(side)
        self._watch(side.other)

    def _read(self, side: _Side) -> None:
        content = side.socket.recv(_BUFFER)
        if not content:
            side.has_ended = True
        side.other.waiting += content
        self._write(side.other)

    @staticmethod
    def _write(side: _Side) -> None:
        if side.waiting:
            try:
                del side.waiting[: side.socket.send(side.waiting)]
            except BlockingIOError:
                return
        if side.other.has_ended and not side.waiting:
            side.socket.shutdown(socket.SHUT_WR)

    def _watch(self, side: _Side) -> None:
        reads = not side.has_ended and len(side.other.waiting) < _BUFFER
        events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if side.waiting else 0)
        is_watched = side.socket in self._selector.get_map()
        if events and is_watched:
            self._selector.modify(side.socket, events, side)
        elif events:
            self._selector.register(side.socket, events, side)
        elif is_watched:
            self._selector.unregister(side.socket)

    def _end(self, side: _Side) -> None:
        for each in (side, side.other):
            self._sides.discard(each)
            if each.socket in self._selector.get_map():
                self._selector.unregister(each.socket)
            each.socket.close()

    def close(self) -> None:
        """End all connections: those of a call do not outlive it."""
        while self._sides:
            self._end(next(iter(self._sides)))
