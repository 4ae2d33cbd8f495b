"""Resolves names of hosts within a deadline: the system's resolver may take half a minute for one.

A name is looked up once at a time, by a thread of its own: who asks for it meanwhile waits for the same
look-up, and a name that hangs holds that thread and nobody else's.
"""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from ipaddress import ip_address

# How long (s) somebody waits for a look-up.
WITHIN_S = 3.0
# Names that are looked up at the same time; further ones are refused until one of them ends.
AT_ONCE = 32

_lock = threading.Lock()
_under_way: dict[tuple[str, int], Future[list[str]]] = {}
# Threads survive no fork, and neither does what waits for them.
os.register_at_fork(after_in_child=_under_way.clear)


def addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order of the resolver.

    Raises:
        OSError: it cannot be resolved, or not in time.
    """
    if _is_address(host):
        return _ask(host, port)
    with _lock:
        found = _under_way.get((host, port))
        if found is None:
            if len(_under_way) >= AT_ONCE:
                raise OSError(f"{AT_ONCE} other names are being looked up")
            found = _under_way[host, port] = Future()
            threading.Thread(target=_look_up, args=(host, port, found), daemon=True).start()
    try:
        return found.result(WITHIN_S)
    except TooLate:
        raise OSError(f"no answer within {WITHIN_S:g} s") from None


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _look_up(host: str, port: int, found: Future[list[str]]) -> None:
    try:
        answer = _ask(host, port)
    except Exception as error:
        found.set_exception(error)
    else:
        found.set_result(answer)
    finally:
        with _lock:
            _under_way.pop((host, port), None)


def _ask(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
