"""Two PostgreSQL servers: a primary, and a standby that streams from it and can be promoted."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg2

from pipeweave.up import postgres
from pipeweave.up.launch import FOLDER, Launch, run, server_account, spawn
from pipeweave.up.ports import LOOPBACK, free_port
from pipeweave.up.postgres import Postgres
from support.servers import administer, running, wait_until

STANDBY = "standby1"
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}


@dataclass(slots=True)
class Pair:
    """A primary and its standby.

    Args:
        primary: until `promote`.
        standby: streams from the primary, with the same passwords.
    """

    primary: Postgres
    standby: Postgres
    _primary_process: subprocess.Popen[bytes]

    def url(self, database: str = postgres.DATABASE) -> str:
        """The database URL that names both, the primary of the beginning first."""
        first = self.primary.url.rpartition("/")[0]
        return f"{first},{LOOPBACK}:{self.standby.port}/{database}?target_session_attrs=primary"

    def be_synchronous(self) -> None:
        """From now on a commit returns when the standby has it, too."""
        administer(self.primary, f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        administer(self.primary, "SELECT pg_reload_conf()")
        wait_until(lambda: ask(self.primary, "SELECT sync_state FROM pg_stat_replication") == "sync")

    def cut(self) -> None:
        """The standby gets nothing any more, and the primary does not know."""
        administer(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        administer(self.standby, "SELECT pg_reload_conf()")
        wait_until(lambda: ask(self.standby, "SELECT count(*) FROM pg_stat_wal_receiver") == 0)

    def kill_primary(self) -> None:
        """The primary ends at once, with all its sessions."""
        self._primary_process.kill()
        self._primary_process.wait()

    def promote(self) -> None:
        """The standby takes over."""
        administer(self.standby, "SELECT pg_promote()")
        wait_until(lambda: not ask(self.standby, "SELECT pg_is_in_recovery()"))


def ask(server: Postgres, question: str) -> object:
    """The first value of an answer, to the superuser; None: there is no row."""
    connection = psycopg2.connect(server.admin_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(question)
            row = cursor.fetchone()
            return row[0] if row else None
    finally:
        connection.close()


@contextmanager
def replicated(folder: Path) -> Iterator[Pair]:
    """Two servers for the block; the primary can be killed in it."""
    passwords = secrets.token_hex(16), secrets.token_hex(16)
    primary = Postgres(folder / "primary", free_port(), *passwords, is_durable=False)
    primary.prepare()
    with (primary.folder / "pg_hba.conf").open("a") as access:
        access.write(f"host replication all {LOOPBACK}/32 scram-sha-256\n")
    with (folder / "primary.log").open("wb") as log:
        process = spawn(primary.launch(), log)
    try:
        wait_until(primary.is_ready, what="the primary is not ready")
        # The servers of tests do without; here it counts what a commit is.
        administer(primary, f"ALTER ROLE {postgres.ROLE} SET synchronous_commit = on")
        standby = replace(primary, folder=folder / "standby", port=free_port())
        _copy(primary, standby)
        # Asked for a password it is ready, and it reads.
        with running(standby.launch(), folder / "standby.log", standby.is_ready, postgres.STOP_SIGNAL):
            wait_until(lambda: ask(primary, "SELECT count(*) FROM pg_stat_replication") == 1)
            yield Pair(primary, standby, process)
    finally:
        process.kill()
        process.wait()


def _copy(primary: Postgres, standby: Postgres) -> None:
    account = server_account(standby.folder)
    programs = primary.installed(account)
    standby.folder.mkdir(mode=0o700)
    if account:
        os.chown(standby.folder, account.uid, account.gid)
    source = f"host={LOOPBACK} port={primary.port} user={postgres.ADMIN} application_name={STANDBY}"
    # -R notes in the copy what it streams from; with the password, and with the name.
    argv = (str(programs.folder / "pg_basebackup"), "-D", FOLDER, "-d", source, "-R", "-c", "fast")
    environment = {**_ENVIRONMENT, "PGPASSWORD": primary.admin_password}
    run(Launch(argv, environment, account=account, folder=standby.folder))
