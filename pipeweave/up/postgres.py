"""A PostgreSQL of our own: one folder, the loopback address, passwords only, never as root."""

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
# Fast shutdown: sessions end, everything is written. The default would wait for every session to leave.
STOP_SIGNAL = signal.SIGINT

_ACCESS = f"host all all {LOOPBACK}/32 scram-sha-256\n"
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
_SETTINGS = {
    "max_connections": "200",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements here are short; compiling them costs more than it saves.
    "jit": "off",
}
_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_PROBE_TIMEOUT_S = 2.0
_PROTOCOL_3 = 196_608


@dataclass(frozen=True, slots=True)
class Postgres:
    """One server and its data.

    Args:
        folder: the data folder; made by `prepare` when it is not there.
        port: on the loopback address.
        password: of the role that owns the database `pipeweave`.
        admin_password: of the superuser `postgres`.
        is_durable: False gives up durability for speed: for tests.
    """

    folder: Path
    port: int
    password: str
    admin_password: str
    is_durable: bool = True

    @property
    def url(self) -> str:
        """Where PipeWeave's role finds its database."""
        return f"postgresql://{ROLE}:{self.password}@{LOOPBACK}:{self.port}/{DATABASE}"

    @property
    def admin_url(self) -> str:
        """Where the superuser finds the server."""
        return f"postgresql://{ADMIN}:{self.admin_password}@{LOOPBACK}:{self.port}/postgres"

    def prepare(self) -> None:
        """Make the data folder, with the roles and the database, unless it is there already.

        Raises:
            StartFailed: the folder cannot be made, or belongs to somebody else.
            Unavailable: there is no PostgreSQL of the data's version.
        """
        try:
            if (self.folder / "PG_VERSION").exists():
                self._forget_dead_server()
                return
            fresh = self.folder.with_name(self.folder.name + ".new")
            account = server_account(fresh)
            programs = postgres_programs(account)
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
        """How to start the server."""
        account = server_account(self.folder)
        programs = postgres_programs(account, self._major())
        settings = _SETTINGS if self.is_durable else {**_SETTINGS, **_FORGETFUL}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        program = str(programs.folder / "postgres")
        server = (program, "-D", FOLDER, "-h", LOOPBACK, "-p", str(self.port), *arguments)
        return Launch(server, _ENVIRONMENT, account=account, folder=self.folder)

    def is_ready(self) -> bool:
        """Whether the server answers a client's first message by asking for its password."""
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
        # The single-user server takes passwords on its standard input: they are in no file or command line.
        statements = (
            f"ALTER ROLE {ADMIN} PASSWORD '{self.admin_password}'",
            f"CREATE ROLE {ROLE} LOGIN PASSWORD '{self.password}'",
            f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
        )
        forgetful = () if self.is_durable else ("-c", "fsync=off")
        sent = "".join(f"{each};\n" for each in statements)
        call("postgres", "--single", *forgetful, "-D", FOLDER, "postgres", sent=sent)

    def _forget_dead_server(self) -> None:
        """Remove the lock file of a server that is gone, where its process id belongs to another program now.

        PostgreSQL itself cannot tell, and would refuse to start: after a crash of a container or a machine,
        process ids repeat.
        """
        lock = self.folder / "postmaster.pid"
        if not lock.exists():
            return
        number = lock.read_text().split("\n", 1)[0].strip()
        command = Path("/proc") / number / "comm"
        if number.isdigit() and command.exists() and command.read_text().strip() != "postgres":
            lock.unlink()
