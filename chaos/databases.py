"""The PostgreSQL of the stack: one server, or a primary and a standby for which each commit waits."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg2

from chaos import pair
from chaos.processes import Process, Supervisor
from chaos.proxies import Proxies
from chaos.waiting import waited
from pipeweave.errors import PipeWeaveError
from pipeweave.up import postgres
from pipeweave.up.launch import Launch
from pipeweave.up.ports import LOOPBACK, free_port
from pipeweave.up.postgres import Postgres

# The kinds of databases that a trial may have.
ALONE, PAIR = "alone", "pair"
# The names of the processes.
NAMES = ("postgres", "postgres-standby")
START_S = 60.0
# A new standby that could not be made is tried again after so long (s).
AGAIN_S = 0.5


class Databases:
    """The servers.

    Args:
        folder: the folder of the trial.
        has_standby: whether there are two.

    Attributes:
        promotions: how often the standby took over.
    """

    def __init__(self, folder: Path, *, has_standby: bool) -> None:
        first = Postgres(folder / "postgres", free_port(), secrets.token_hex(16), secrets.token_hex(16))
        self.promotions = 0
        self._servers = [first]
        if has_standby:
            self._servers.append(replace(first, folder=folder / "postgres-standby", port=free_port()))
        self._primary = 0
        self._processes: list[Process] = []
        self._over = threading.Event()
        self._making: threading.Thread | None = None

    @property
    def primary(self) -> Postgres:
        """The server that takes writes."""
        return self._servers[self._primary]

    @property
    def has_standby(self) -> bool:
        return len(self._servers) > 1

    @property
    def standby(self) -> Postgres:
        return self._servers[1 - self._primary]

    @property
    def process(self) -> Process:
        """The process of the primary."""
        return self._processes[self._primary]

    def start(self, supervisor: Supervisor, logs: Path) -> dict[str, Process]:
        """Start the servers; gives their processes by name.

        Raises:
            PipeWeaveError: a server cannot be made.
        """
        self.primary.prepare()
        if self.has_standby:
            pair.allow_replication(self.primary)
        for name, server in zip(NAMES, self._servers, strict=False):
            process = Process(name, partial(_again, server), logs / f"{name}.log", postgres.STOP_SIGNAL)
            self._processes.append(process)
        supervisor.keep(self._processes[0])
        if self.has_standby and waited(self.primary.is_ready, START_S):
            pair.copy(self.primary, self.standby)
            supervisor.keep(self._processes[1])
            waited(lambda: _is(pair.is_streaming, self.primary), START_S)
            pair.be_synchronous(self.primary)
        return {each.name: each for each in self._processes}

    def lines(self) -> Proxies:
        """The connections of one process to the servers."""
        return Proxies([each.port for each in self._servers])

    def url_through(self, lines: Proxies) -> str:
        """The database URL that leads through these connections to whichever server is the primary."""
        account = self.primary.url.rpartition("@")[0]
        hosts = ",".join(f"{LOOPBACK}:{port}" for port in lines.ports)
        wanted = "?target_session_attrs=primary" if self.has_standby else ""
        return f"{account}@{hosts}/{postgres.DATABASE}{wanted}"

    def is_in_sync(self) -> bool:
        """Whether the standby has all that was accepted, so that a promotion loses nothing."""
        return self.has_standby and self._making is None and _is(pair.is_synchronous, self.primary)

    @contextmanager
    def promoting(self) -> Iterator[Process]:
        """For the block, in which the primary is killed, it stays down. Then the standby takes over, and a
        new standby is made of the old primary beside that. Gives the process of the primary.
        """
        old = self._primary
        process = self._processes[old]
        process.hold_down()
        try:
            yield process
            # Counted first: who meets the new timeline knows then why.
            self.promotions += 1
            pair.promote(self.standby)
        except BaseException:
            process.release()
            raise
        self._primary = 1 - old
        self._making = threading.Thread(target=self._make_standby, name="standby", daemon=True)
        self._making.start()

    def close(self) -> None:
        """Make no standby any more."""
        self._over.set()
        if (making := self._making) is not None:
            making.join()

    def _make_standby(self) -> None:
        """Make a standby of the server that is down, however often the primary goes away meanwhile."""
        process = self._processes[1 - self._primary]
        is_copied = False
        while not self._over.is_set():
            with suppress(PipeWeaveError, psycopg2.Error, OSError):
                if not is_copied:
                    pair.copy(self.primary, self.standby)
                    is_copied = True
                    process.release()
                if pair.is_streaming(self.primary):
                    pair.be_synchronous(self.primary)
                    self._making = None
                    return
            self._over.wait(AGAIN_S)


def _again(server: Postgres) -> Launch:
    server.prepare()  # removes the lock file of a killed server
    return server.launch()


def _is(question: Callable[[Postgres], bool], server: Postgres) -> bool:
    try:
        return question(server)
    except psycopg2.Error:
        return False
