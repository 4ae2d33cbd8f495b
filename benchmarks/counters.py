"""Read what running processes have cost so far: processor time, bytes sent, instructions, transaction log.

A machine's noise moves milliseconds, and hardly these. What a machine does not count is None, never 0.
"""

from __future__ import annotations

import functools
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil
import psycopg2

from benchmarks.usage import family

# A process, by name -> what it cost; None when the machine does not count it.
ByProcess = Mapping[str, float | None]

_SOCKET = re.compile(r"^\S+ +\d+ +\d+ +(\S+) +(\S+) .*?\bpid=(\d+).*\bbytes_sent:(\d+)", re.M)
_SESSIONS = "SELECT pid, client_port FROM pg_stat_activity WHERE client_port > 0"


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of PostgreSQL, by the id of their process on the server.

    Args:
        holders: the client's process id, of the sessions of the processes that are measured.
        others: the sessions of everybody else, such as the benchmarks themselves.
    """

    holders: Mapping[int, int]
    others: frozenset[int]

    @classmethod
    def read(cls, admin_url: str, roots: Iterable[int]) -> Sessions:
        """Those that are open now; these processes and their children are measured."""
        ports = {
            each.laddr.port: root
            for root in roots
            for process in family(root)
            for each in _connections(process)
            if each.laddr
        }
        with closing(psycopg2.connect(admin_url)) as connection, connection.cursor() as cursor:
            cursor.execute(_SESSIONS)
            sessions = dict(cursor.fetchall())
        holders = {pid: ports[port] for pid, port in sessions.items() if port in ports}
        return cls(holders, frozenset(sessions.keys() - holders.keys()))


def _connections(process: psutil.Process) -> list[Any]:
    with suppress(psutil.NoSuchProcess):
        return process.net_connections("tcp")
    return []


def cpu_ms(roots: Mapping[str, int], without: Set[int]) -> dict[str, float]:
    """Processor time so far of processes and their children, those that have ended among them (ms).

    Args:
        roots: name -> process id.
        without: children that do not count: sessions of others.
    """
    return {name: sum(map(_cpu_ms, _counted(root, without))) for name, root in roots.items()}


def _counted(root: int, without: Set[int]) -> list[psutil.Process]:
    return [each for each in family(root) if each.pid not in without]


def _cpu_ms(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        return 1000 * sum(process.cpu_times()[:4])
    return 0.0


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes that were sent so far, by process id and connection (its two addresses); None without `ss`."""

    by_connection: Mapping[tuple[int, str, str], int] | None

    @classmethod
    def read(cls) -> Sent:
        """Of all TCP connections of this machine that are open now."""
        if shutil.which("ss") is None:
            return cls(None)
        return cls.of(subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout)

    @classmethod
    def of(cls, listed: str) -> Sent:
        """Read what `ss -tinpHO` lists."""
        return cls({(int(pid), here, there): int(sent) for here, there, pid, sent in _SOCKET.findall(listed)})

    def since(self, before: Sent, roots: Mapping[str, int], without: Set[int]) -> dict[str, float | None]:
        """Bytes that processes and their children have sent since, over connections that are still open."""
        if self.by_connection is None or before.by_connection is None:
            return dict.fromkeys(roots)
        grown: dict[int, float] = {}
        for key, sent in self.by_connection.items():
            grown[key[0]] = grown.get(key[0], 0) + sent - before.by_connection.get(key, 0)
        return {
            name: sum(grown.get(each.pid, 0) for each in _counted(root, without))
            for name, root in roots.items()
        }


def wal_bytes(admin_url: str) -> int:
    """How long PostgreSQL's transaction log is so far."""
    with closing(psycopg2.connect(admin_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT CAST(pg_current_wal_insert_lsn() - '0/0' AS bigint)")
        return int(cursor.fetchall()[0][0])


@contextmanager
def instructions(roots: Mapping[str, int]) -> Iterator[dict[str, float | None]]:
    """Instructions that processes and their children retire in the block (`perf stat`); filled at its end."""
    counted: dict[str, float | None] = dict.fromkeys(roots)
    if not _counts_instructions():
        yield counted
        return
    counting = {name: _perf("-p", _ids(root)) for name, root in roots.items()}
    try:
        yield counted
    finally:
        for name, perf in counting.items():
            perf.send_signal(signal.SIGINT)
            counted[name] = retired(perf.communicate()[1])


def _ids(root: int) -> str:
    return ",".join(str(each.pid) for each in family(root))


def _perf(*arguments: str) -> subprocess.Popen[str]:
    command = ["perf", "stat", "-x", ",", "-e", "instructions", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@functools.cache
def _counts_instructions() -> bool:
    """Whether this machine counts them: many virtual ones do not."""
    if shutil.which("perf") is None:
        return False
    with _perf("true") as perf:
        return retired(perf.communicate()[1]) is not None


def retired(said: str) -> float | None:
    """The instructions in what `perf` said; None where it says `<not supported>` or `<not counted>`."""
    numbers = re.findall(r"^(\d+),[^,]*,instructions", said, re.M)
    return float(numbers[0]) if numbers else None
