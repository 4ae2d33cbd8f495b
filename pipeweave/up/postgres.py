"""Prepare and launch an embedded PostgreSQL: loopback address only, password login only, never as root."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from pipeweave.errors import StartFailed
from pipeweave.up.binaries import PostgresPrograms, postgres_programs
from pipeweave.up.launch import FOLDER, Account, Launch, run, server_account
from pipeweave.up.ports import LOOPBACK

DATABASE = "pipeweave"
ROLE = "pipeweave"
ADMIN = "postgres"
# Fast shutdown: PostgreSQL ends all sessions and writes everything. SIGTERM would wait for the sessions.
STOP_SIGNAL = signal.SIGINT

_ACCESS = f"host all all {LOOPBACK}/32 scram-sha-256\n"
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
_SETTINGS = {
    "max_connections": "200",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # It visits each database as often, and the process that it starts for that costs the more where nothing
    # happens. The default is a minute.
    "autovacuum_naptime": "2min",
    # What writes old pages, and what flushes commits that nobody waits for, look so often whether there is
    # anything. By default they do five times a second, and write a fifth of these pages each time.
    "bgwriter_delay": "2s",
    "bgwriter_lru_maxpages": "1000",
    "wal_writer_delay": "2s",
    # Our statements are short; compiling them takes longer than it saves.
    "jit": "off",
}
# Without autovacuum a test finds the same plans whether or not a statistic was made a moment before.
_NOT_DURABLE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}
_PROBE_TIMEOUT_S = 2.0
_PROTOCOL_3 = 196_608


@dataclass(frozen=True, slots=True)
class Postgres:
    """One server and its data.

    Args:
        folder: the data folder; `prepare` makes it if it does not exist.
        port: its port on the loopback address.
        password: the password of the role that owns the database `pipeweave`.
        admin_password: the password of the superuser `postgres`.
        is_durable: False turns durability off for speed, in tests.
        programs: the PostgreSQL to run; None finds one.
    """

    folder: Path
    port: int
    password: str
    admin_password: str
    is_durable: bool = True
    programs: PostgresPrograms | None = None

    @property
    def url(self) -> str:
        """The database URL for PipeWeave's role."""
        return f"postgresql://{ROLE}:{self.password}@{LOOPBACK}:{self.port}/{DATABASE}"

    @property
    def admin_url(self) -> str:
        """The database URL for the superuser."""
        return f"postgresql://{ADMIN}:{self.admin_password}@{LOOPBACK}:{self.port}/postgres"

    def prepare(self) -> None:
        """Make the data folder with the roles and the database, if it does not exist.

        Raises:
            StartFailed: the folder cannot be made, or belongs to another user.
            Unavailable: no PostgreSQL of the data's version is installed.
        """
        try:
            if (self.folder / "PG_VERSION").exists():
                self._remove_stale_lock()
                return
            fresh = self.folder.with_name(self.folder.name + ".new")
            account = server_account(fresh)
            programs = self.programs or postgres_programs(account)
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(mode=0o700, parents=True)
            if account:
                os.chown(fresh, account.uid, account.gid)
            self._fill(fresh, programs, account)
            fresh.rename(self.folder)
        except OSError as error:
            raise StartFailed(
                f"PostgreSQL's folder {self.folder} cannot be used: {error.strerror}"
            ) from error

    def launch(self) -> Launch:
        """The Launch that starts the server."""
        account = server_account(self.folder)
        programs = self.installed(account)
        settings = _SETTINGS if self.is_durable else {**_SETTINGS, **_NOT_DURABLE}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        program = str(programs.folder / "postgres")
        server = (program, "-D", FOLDER, "-h", LOOPBACK, "-p", str(self.port), *arguments)
        return Launch(server, _ENVIRONMENT, account=account, folder=self.folder)

    def installed(self, account: Account | None) -> PostgresPrograms:
        """The programs that fit the data.

        Raises:
            Unavailable: no PostgreSQL of the data's version is installed.
        """
        return self.programs or postgres_programs(account, self._major())

    def is_ready(self) -> bool:
        """True if the server answers a client's startup message with a request for the password."""
        names = f"user\0{ROLE}\0database\0{DATABASE}\0\0".encode()
        try:
            with socket.create_connection((LOOPBACK, self.port), _PROBE_TIMEOUT_S) as client:
                client.sendall(struct.pack("!ii", len(names) + 8, _PROTOCOL_3) + names)
                return client.recv(1024)[:1] == b"R"
        except OSError:
            return False

    def _major(self) -> int:
        return int((self.folder / "PG_VERSION").read_text())

    def _fill(self, fresh: Path, programs: PostgresPrograms, account: Account | None) -> None:
        def call(program: str, *arguments: str, sent: str = "") -> None:
            argv = (str(programs.folder / program), *arguments)
            run(Launch(argv, _ENVIRONMENT, account=account, folder=fresh), sent)

        unsynced = () if self.is_durable else ("--no-sync",)
        layout = ("-D", FOLDER, "-U", ADMIN, "--no-locale", "-E", "UTF8")
        call("initdb", *layout, "--auth=reject", "--no-instructions", *unsynced)
        (fresh / "pg_hba.conf").write_text(_ACCESS)
        # The single-user server reads the statements from stdin, so passwords are in no file and no command
        # line.
        statements = (
            f"ALTER ROLE {ADMIN} PASSWORD '{self.admin_password}'",
            f"CREATE ROLE {ROLE} LOGIN PASSWORD '{self.password}'",
            f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
        )
        not_durable = () if self.is_durable else ("-c", "fsync=off")
        sent = "".join(f"{each};\n" for each in statements)
        call("postgres", "--single", *not_durable, "-D", FOLDER, "postgres", sent=sent)

    def _remove_stale_lock(self) -> None:
        """Delete the lock file of a dead server if its process id now belongs to another program.

        PostgreSQL would refuse to start: after a crash of a container or a machine, process ids repeat.
        """
        lock = self.folder / "postmaster.pid"
        if not lock.exists():
            return
        number = lock.read_text().split("\n", 1)[0].strip()
        command = Path("/proc") / number / "comm"
        if number.isdigit() and command.exists() and command.read_text().strip() != "postgres":
            lock.unlink()
