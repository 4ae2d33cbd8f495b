"""Servers for tests: real ones, on free ports, in a folder of the test's, without the cost of durability."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import redis

from pipeweave.up import postgres, valkey
from pipeweave.up.binaries import OLDEST_MAJOR, PostgresPrograms
from pipeweave.up.launch import Launch, spawn
from pipeweave.up.ports import free_port
from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey

# How long a test waits for what should come. Costs nothing when it comes, so it is far beyond what a machine
# busy with other things needs; pytest's own timeout is beyond it.
WAIT_DEADLINE_S = 180.0
STOP_DEADLINE_S = 60.0
# The memory that must be free before servers of tests take some: those of five processes took a fifth of it.
ROOM_BYTES = 3 << 30

_IN_MEMORY = Path("/dev/shm")
_PREFIX = "pipeweave-test-"


def wait_until(is_so: Callable[[], bool], deadline_s: float = WAIT_DEADLINE_S, what: str = "") -> None:
    """Look again and again until a condition holds: often at first, ten times a second in the end.

    Args:
        is_so: the condition.
        deadline_s: how long to wait, in seconds.
        what: what to say of it when it does not hold in time.

    Raises:
        AssertionError: the condition did not hold in time.
    """
    began = time.monotonic()
    while not is_so():
        waited = time.monotonic() - began
        assert waited < deadline_s, what or f"still not so after {deadline_s:g} s"
        # A look costs a statement or a process, and other tests want the processor, too.
        time.sleep(min(max(waited / 10, 0.01), 0.1))


@contextmanager
def server_folder(otherwise: Path) -> Iterator[Path]:
    """A folder for the data of a server that keeps nothing: in memory if there is room, else this one.

    Tests make and drop hundreds of databases of a thousand files each. Before ext4 makes a file, it looks at
    all that were deleted in the last seconds, which took a third of the processor.
    """
    if not _IN_MEMORY.is_dir() or shutil.disk_usage(_IN_MEMORY).free < ROOM_BYTES:
        yield otherwise
        return
    _remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_IN_MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers() -> None:
    """Remove the folders of test processes that were killed."""
    for folder in _IN_MEMORY.glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX).partition('-')[0]}").exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_postgres(folder: Path, programs: PostgresPrograms | None = None) -> Iterator[Postgres]:
    """A PostgreSQL that forgets everything in a crash; None for the one that `pipeweave up` takes."""
    passwords = secrets.token_hex(16), secrets.token_hex(16)
    server = Postgres(folder / "postgres", free_port(), *passwords, is_durable=False, programs=programs)
    server.prepare()
    with running(server.launch(), folder / "postgres.log", server.is_ready, postgres.STOP_SIGNAL):
        _shorten_proofs(server)
        yield server


def _shorten_proofs(server: Postgres) -> None:
    """Let clients prove at once that they know the passwords: the proof is made to take a while, which was a
    third of what a connection costs, and tests open thousands.
    """
    connection = psycopg2.connect(server.admin_url)
    try:
        connection.autocommit = True
        # Before PostgreSQL 16, its length is fixed.
        if connection.server_version >= 160_000:
            with connection.cursor() as cursor:
                cursor.execute("SET scram_iterations = 1")
                for role, password in (
                    (postgres.ROLE, server.password),
                    (postgres.ADMIN, server.admin_password),
                ):
                    cursor.execute(f"ALTER ROLE {role} PASSWORD %s", [password])
    finally:
        connection.close()


def oldest_postgres() -> PostgresPrograms | None:
    """The oldest supported PostgreSQL of the system's packages; None if there is none."""
    found = (
        PostgresPrograms(path, int(path.parent.name))
        for path in Path("/usr/lib/postgresql").glob("*/bin")
        if (path / "initdb").exists() and path.parent.name.isdigit()
    )
    supported = [each for each in found if each.major >= OLDEST_MAJOR]
    return min(supported, key=lambda each: each.major, default=None)


@contextmanager
def running_valkey(folder: Path) -> Iterator[Valkey]:
    """A Valkey that keeps nothing on disk."""
    server = Valkey(folder / "valkey", free_port(), secrets.token_hex(16), is_durable=False)
    server.prepare()
    with running(server.launch(), folder / "valkey.log", server.is_ready, valkey.STOP_SIGNAL):
        yield server


class BrokerDatabases:
    """The databases of a Valkey, handed to one user at a time; database 0 is left to those who share it.

    Args:
        server: the Valkey.
    """

    def __init__(self, server: Valkey) -> None:
        self._server = server
        # Database 255 is for a test of the connection.
        self._free = deque(range(1, valkey.DATABASES - 1))

    @contextmanager
    def one(self) -> Iterator[str]:
        """An empty database for the block; its URL."""
        number = self._free.popleft()
        url = self._server.url_of(number)
        try:
            yield url
        finally:
            with redis.Redis.from_url(url) as client:
                client.flushdb()
            self._free.append(number)


@contextmanager
def running(
    launch: Launch, log: Path, is_ready: Callable[[], bool], stop_signal: int = signal.SIGTERM
) -> Iterator[None]:
    """Run a server for the block; the block begins when it is ready."""
    with log.open("wb") as output:
        process = spawn(launch, output)
    try:
        wait_until(lambda: process.poll() is not None or is_ready(), what=f"not ready: {launch.argv[0]}")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        _stop(process, stop_signal)


def _stop(process: subprocess.Popen[bytes], stop_signal: int) -> None:
    process.send_signal(stop_signal)
    try:
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def new_database(server: Postgres, name: str, template: str | None = None) -> Iterator[str]:
    """A database of PipeWeave's role, a copy of the template when one is named; its URL."""
    statement = f'CREATE DATABASE "{name}" OWNER {postgres.ROLE}'
    # PostgreSQL copies page by page through its own memory by default, and looks through that memory again
    # when the database is dropped. To copy the files costs half.
    administer(server, statement + (f' TEMPLATE "{template}" STRATEGY FILE_COPY' if template else ""))
    try:
        yield server.url.rsplit("/", 1)[0] + f"/{name}"
    finally:
        administer(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def away(server: Postgres, url: str) -> Iterator[None]:
    """For the block, the server lets nobody into this database, and those who were in it are out."""
    name = url.rpartition("/")[2]
    administer(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    try:
        administer(server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        yield
    finally:
        administer(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@contextmanager
def read_only(server: Postgres, url: str) -> Iterator[None]:
    """For the block, this database takes no writes, as after a failover. Sessions from before have ended;
    those that begin in the block stay read-only after it.
    """
    name = url.rpartition("/")[2]
    administer(server, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    try:
        administer(server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        yield
    finally:
        administer(server, f'ALTER DATABASE "{name}" RESET default_transaction_read_only')


def administer(server: Postgres, statement: str) -> None:
    """Run a statement as the superuser, outside of any transaction."""
    connection = psycopg2.connect(server.admin_url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()
