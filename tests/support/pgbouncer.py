"""A real PgBouncer in front of a PostgreSQL, in transaction mode."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeweave.up.launch import FOLDER, Launch, server_account
from pipeweave.up.ports import free_port
from pipeweave.up.postgres import ROLE, Postgres
from support.servers import running

# Sessions of PostgreSQL that all clients share.
SESSIONS = 3

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server_port} user={user} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 500
{more}
"""


def program() -> str:
    """The program, or skip: the build script installs it where it may."""
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("there is no PgBouncer on this machine (Debian: apt-get install pgbouncer)")
    return found


@contextmanager
def pooled(server: Postgres, database_url: str, folder: Path, *, more: str = "") -> Iterator[str]:
    """The URL of a database behind a PgBouncer of this block.

    Args:
        server: the database's server.
        database_url: of the database itself.
        folder: a new one, for the settings.
        more: further lines of its settings.
    """
    name, port = program(), free_port()
    folder.mkdir()
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        _SETTINGS.format(
            server_port=server.port,
            user=ROLE,
            password=server.password,
            port=port,
            sessions=SESSIONS,
            more=more,
        )
    )
    account = server_account(folder)
    if account is not None:
        for each in (folder, settings):
            os.chown(each, account.uid, account.gid)
    launch = Launch(
        (name, f"{FOLDER}/pgbouncer.ini"), {"PATH": os.environ["PATH"]}, account=account, folder=folder
    )
    with running(launch, folder / "pgbouncer.log", lambda: _listens(port)):
        yield f"postgresql://{ROLE}:unused@127.0.0.1:{port}/{database_url.rpartition('/')[2]}"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
