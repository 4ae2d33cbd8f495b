"""Two PostgreSQL servers: a primary, and a standby that streams from it and can be promoted."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from chaos import pair
from chaos.pair import ask
from pipeweave.up import postgres
from pipeweave.up.launch import spawn
from pipeweave.up.ports import LOOPBACK, free_port
from pipeweave.up.postgres import Postgres
from support.servers import administer, running, wait_until


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
        pair.be_synchronous(self.primary)
        wait_until(lambda: pair.is_synchronous(self.primary))

    def catch_up(self) -> None:
        """Wait until the standby has all that was written up to now."""
        written = ask(self.primary, "SELECT pg_current_wal_insert_lsn()")
        wait_until(
            lambda: (
                ask(self.standby, f"SELECT pg_last_wal_replay_lsn() >= CAST('{written}' AS pg_lsn)") is True
            )
        )

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
        pair.promote(self.standby)


@contextmanager
def replicated(folder: Path) -> Iterator[Pair]:
    """Two servers for the block; the primary can be killed in it."""
    passwords = secrets.token_hex(16), secrets.token_hex(16)
    primary = Postgres(folder / "primary", free_port(), *passwords, is_durable=False)
    primary.prepare()
    pair.allow_replication(primary)
    with (folder / "primary.log").open("wb") as log:
        process = spawn(primary.launch(), log)
    try:
        wait_until(primary.is_ready, what="the primary is not ready")
        # The servers of tests do without; here it counts what a commit is.
        administer(primary, f"ALTER ROLE {postgres.ROLE} SET synchronous_commit = on")
        standby = replace(primary, folder=folder / "standby", port=free_port())
        pair.copy(primary, standby)
        # Asked for a password it is ready, and it reads.
        with running(standby.launch(), folder / "standby.log", standby.is_ready, postgres.STOP_SIGNAL):
            wait_until(lambda: pair.is_streaming(primary))
            yield Pair(primary, standby, process)
    finally:
        process.kill()
        process.wait()
