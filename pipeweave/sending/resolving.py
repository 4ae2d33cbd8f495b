"""Resolves names of hosts within a deadline: the system's resolver may take half a minute for one.

A name is looked up once at a time, by a thread of its own: who asks for it meanwhile waits for the same
look-up, and a name that hangs holds that thread and nobody else's.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, field
from ipaddress import ip_address

# How long (s) somebody waits for a look-up, from its beginning on: who comes later does not wait anew.
WITHIN_S = 3.0
# Names that are looked up at the same time, and of them for one tenant; further ones are refused until one of
# them ends.
AT_ONCE, OF_ONE = 64, 16


@dataclass(slots=True)
class _LookUp:
    tenant: str
    began: float = field(default_factory=time.monotonic)
    answer: Future[list[str]] = field(default_factory=Future)


_lock = threading.Lock()
_under_way: dict[tuple[str, int], _LookUp] = {}
# Threads survive no fork, and neither does what waits for them.
os.register_at_fork(after_in_child=_under_way.clear)


def addresses(host: str, port: int, tenant: str = "", within_s: float | None = None) -> list[str]:
    """The addresses of a host, in the order of the resolver.

    Args:
        tenant: whose host it is: names of one tenant that hang hold up no other's.
        within_s: how long (s) the look-up may take; None for WITHIN_S.

    Raises:
        OSError: it cannot be resolved, or not in time.
    """
    if is_address(host):
        return [host] if "%" not in host else _ask(host, port)
    within_s = WITHIN_S if within_s is None else within_s
    look_up = _look_up_of(host, port, tenant)
    try:
        return look_up.answer.result(max(0.0, look_up.began + within_s - time.monotonic()))
    except TooLate:
        raise OSError(f"no answer within {within_s:g} s") from None


def _look_up_of(host: str, port: int, tenant: str) -> _LookUp:
    """The look-up of a name that is under way, or a new one."""
    with _lock:
        if (known := _under_way.get((host, port))) is not None:
            return known
        of_one = sum(each.tenant == tenant for each in _under_way.values())
        if of_one >= OF_ONE or len(_under_way) >= AT_ONCE:
            raise OSError(
                f"{len(_under_way)} other names are being looked up, {of_one} of them of its tenant"
            )
        look_up = _under_way[host, port] = _LookUp(tenant)
    threading.Thread(target=_look_up, args=(host, port, look_up.answer), daemon=True).start()
    return look_up


def is_address(host: str) -> bool:
    """Whether a host is an address, and no name."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _look_up(host: str, port: int, future: Future[list[str]]) -> None:
    try:
        answer = _ask(host, port)
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(answer)
    finally:
        with _lock:
            _under_way.pop((host, port), None)


def _ask(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in entries))
