"""Leases: the right of one process to a chore. A lease ends by PostgreSQL's clock, unless it is renewed.

An advisory lock would end with its holder's connection. A host that vanishes leaves that connection open, for
hours by PostgreSQL's defaults; a lease ends within seconds, and a process that was frozen finds that it lost
it. Each taking has a number, one higher than the last (fencing): who lost a lease finds no row any more.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pipeweave.errors import Conflict, PipeWeaveError
from pipeweave.orchestrator.store.database import Database, Transaction

log = logging.getLogger(__name__)

# One process ticks at a time.
TICK = "tick"
# One process archives and drops months at a time.
RETENTION = "retention"
# One process deletes objects that no row refers to.
SWEEP = "sweep"
# One process starts enqueued runs at a time.
ENQUEUED = "enqueued"
ENQUEUED_LARGE = "enqueued_large"
# One process looks at due waits at a time.
WAITS = "waits"
STORED_WAITS = "stored_waits"


def this_thread() -> str:
    """A holder's name that no other thread of any process has."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}:{_TOKEN}"


# A process id may come again on the same host.
_TOKEN = secrets.token_hex(4)


@dataclass(slots=True)
class Lease:
    """A lease that this process took.

    Args:
        name: what it is for.
        number: which taking this is; it fences what the holder writes.
        holder: who took it. After a failover that lost the last commits, two may hold the same number.
        lasts: how long it lasts after it was taken or renewed.
        renewed_at: when that was (s, monotonic clock).
    """

    name: str
    number: int
    holder: str
    lasts: timedelta
    renewed_at: float = field(default_factory=time.monotonic)

    @property
    def fence(self) -> dict[str, Any]:
        """The parameters of a guard: it is this taking, by this holder."""
        return {"name": self.name, "number": self.number, "holder": self.holder}

    @property
    def is_fresh(self) -> bool:
        """Whether most of its time is left."""
        return time.monotonic() - self.renewed_at < self.lasts.total_seconds() / 3


def taking(ends_at: str = "clock_timestamp() + CAST(:lasts AS interval)", source: str = "") -> str:
    """SQL that takes a lease and returns its number; no row while another holder has it.

    Args:
        ends_at: SQL: until when.
        source: SQL: the FROM clause of `ends_at`, with one row.
    """
    # A holder takes its own lease again: what ended it may be lost with a connection.
    return f"""
INSERT INTO leases AS l (name, number, holder, ends_at) SELECT :name, 1, :holder, {ends_at} {source}
ON CONFLICT (name) DO UPDATE SET number = l.number + 1, holder = EXCLUDED.holder, ends_at = EXCLUDED.ends_at
WHERE l.ends_at <= clock_timestamp() OR l.holder = EXCLUDED.holder
RETURNING number
"""


# SQL: whether another holder has the lease of this name.
IS_ELSEWHERE = """EXISTS (SELECT 1 FROM leases AS o
    WHERE o.name = :name AND o.holder <> :holder AND o.ends_at > clock_timestamp())"""

_TAKE = taking()


def take(database: Database, name: str, lasts: timedelta, holder: str | None = None) -> Lease | None:
    """Take a lease; None while another holder has it.

    Args:
        name: what it is for.
        lasts: how long it lasts, unless it is renewed.
        holder: takes its own lease again, even if it has not ended; by default nobody was the holder before.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    began = time.monotonic()
    holder = holder or secrets.token_hex(16)
    with database.statements() as tx:
        parameters = {"name": name, "holder": holder, "lasts": lasts}
        number = tx.execute(_TAKE, parameters).scalar_one_or_none()
    return None if number is None else Lease(name, number, holder, lasts, began)


_RENEW = """
UPDATE leases SET ends_at = clock_timestamp() + CAST(:lasts AS interval)
WHERE name = :name AND number = :number AND holder = :holder
"""


def renew(database: Database, lease: Lease) -> bool:
    """Let a lease last on. False when it is lost: it had ended, and another process took it.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    began = time.monotonic()
    parameters = {**lease.fence, "lasts": lease.lasts}
    with database.statements() as tx:
        is_mine = tx.execute(_RENEW, parameters).rowcount > 0
    if is_mine:
        lease.renewed_at = began
    return is_mine


_END = """
UPDATE leases SET ends_at = clock_timestamp() WHERE name = :name AND number = :number AND holder = :holder
"""


def end(database: Database, lease: Lease) -> None:
    """Give a lease back before it ends, if PostgreSQL can be reached."""
    with suppress(PipeWeaveError), database.statements() as tx:
        tx.execute(_END, lease.fence)


_CHECK = "SELECT 1 FROM leases WHERE name = :name AND number = :number AND holder = :holder FOR SHARE"


def check(tx: Transaction, lease: Lease) -> None:
    """Make sure that nobody takes a lease before the transaction ends.

    Raises:
        Conflict: it is lost.
    """
    if tx.execute(_CHECK, lease.fence).first() is None:
        raise Conflict(f"the lease {lease.name!r} ended, and another process took it")


@contextmanager
def held(database: Database, name: str, lasts: timedelta) -> Iterator[Lease | None]:
    """Hold a lease during the block, renewed by a thread beside it. Yields None while another holder has it.

    What two processes must not do at once calls `check` in its transaction.

    Args:
        database: with two connections, one of them for the thread.
        name: what the lease is for.
        lasts: for how long it is held when this process vanishes.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    lease = take(database, name, lasts)
    if lease is None:
        yield None
        return
    over = threading.Event()
    renewing = threading.Thread(
        target=_keep_renewing, args=(database, lease, over), name=f"lease {name}", daemon=True
    )
    renewing.start()
    try:
        yield lease
    finally:
        over.set()
        renewing.join()
        end(database, lease)


def _keep_renewing(database: Database, lease: Lease, over: threading.Event) -> None:
    while not over.wait(lease.lasts.total_seconds() / 3):
        try:
            if not renew(database, lease):
                log.warning("lease.lost", extra={"lease": lease.name})
                return
        except PipeWeaveError as error:
            log.warning("lease.not_renewed", extra={"lease": lease.name, "reason": error.detail})
