"""Makes a standby of a PostgreSQL, lets commits wait for it, and promotes it."""

from __future__ import annotations

import os
import shutil

import psycopg2

from pipeweave.up import postgres
from pipeweave.up.launch import FOLDER, Launch, run, server_account
from pipeweave.up.ports import LOOPBACK
from pipeweave.up.postgres import Postgres

STANDBY = "standby1"
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
# A standby that lost its primary looks again after so long; PostgreSQL's 5 s would keep commits waiting.
_LOOKS_AGAIN = "wal_retrieve_retry_interval = '200ms'\n"
_CONNECT_S = 5


def ask(server: Postgres, question: str) -> object:
    """The first value of an answer, to the superuser; None: there is no row.

    Raises:
        psycopg2.Error: the server is away, or refuses.
    """
    connection = psycopg2.connect(server.admin_url, connect_timeout=_CONNECT_S)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(question)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None
    finally:
        connection.close()


def allow_replication(server: Postgres) -> None:
    """Let standbys log in. Call it before the server starts."""
    with (server.folder / "pg_hba.conf").open("a") as access:
        access.write(f"host replication all {LOOPBACK}/32 scram-sha-256\n")


def copy(primary: Postgres, standby: Postgres) -> None:
    """Fill the folder of a standby, which must not run, with a copy of the running primary.

    Raises:
        PipeWeaveError: the copy failed.
    """
    account = server_account(primary.folder)
    programs = primary.installed(account)
    shutil.rmtree(standby.folder, ignore_errors=True)
    standby.folder.mkdir(mode=0o700)
    if account:
        os.chown(standby.folder, account.uid, account.gid)
    source = f"host={LOOPBACK} port={primary.port} user={postgres.ADMIN} application_name={STANDBY}"
    # -R notes in the copy what it streams from; with the password, and with the name.
    argv = (str(programs.folder / "pg_basebackup"), "-D", FOLDER, "-d", source, "-R", "-c", "fast")
    environment = {**_ENVIRONMENT, "PGPASSWORD": primary.admin_password}
    run(Launch(argv, environment, account=account, folder=standby.folder))
    with (standby.folder / "postgresql.auto.conf").open("a") as settings:
        settings.write(_LOOKS_AGAIN)


def is_streaming(primary: Postgres) -> bool:
    """Whether a standby gets what the primary writes, at once."""
    return ask(primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1


def be_synchronous(primary: Postgres) -> None:
    """From now on a commit returns when the standby has it, too; `is_synchronous` says when that is so."""
    ask(primary, f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
    ask(primary, "SELECT pg_reload_conf()")


def is_synchronous(primary: Postgres) -> bool:
    """Whether all that the primary has accepted is on the standby."""
    return ask(primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1


def promote(standby: Postgres) -> None:
    """Let the standby take over; it takes writes when this returns."""
    ask(standby, "SELECT pg_promote()")
