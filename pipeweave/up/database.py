"""Prepare the database of `up` (schema and token), and watch its workers and ticks."""

from __future__ import annotations

import time
from datetime import timedelta

_SCOPES = ("orchestrator:read", "orchestrator:write", "orchestrator:admin")
_TOKEN_NAME = "pipeweave up"
# A start makes a new token when less than half of it is left.
_TOKEN_LIFE = timedelta(days=365)


def migrate(url: str) -> None:
    """Migrate the schema to the newest version."""
    from pipeweave.orchestrator.deployment import migrate

    migrate.upgrade(url)


def issue_token(url: str, tenant: str, known: str | None) -> str:
    """Return the token of an earlier `up` if it is valid for long enough, else create a new token.

    The token is valid for every tenant, because the operator of the stack may also put it into maintenance.
    """
    from pipeweave.orchestrator.registry import ensure_tenant
    from pipeweave.orchestrator.security import access_tokens
    from pipeweave.orchestrator.store import Database

    with Database(url, pool_size=0).transaction() as tx:
        ensure_tenant(tx, tenant)
        allowed = access_tokens.verify(tx, known, until=tx.now + _TOKEN_LIFE / 2) if known else None
        if (
            known
            and allowed
            and allowed.may_enter(access_tokens.EVERY_TENANT)
            and all(map(allowed.allows, _SCOPES))
        ):
            return known
        return access_tokens.create_token(
            tx,
            name=_TOKEN_NAME,
            tenants=[access_tokens.EVERY_TENANT],
            scopes=_SCOPES,
            expires_at=tx.now + _TOKEN_LIFE,
        )


class LiveWorkers:
    """Tells whether a worker of this machine is registered and alive.

    If workers of a crashed stack are still registered, none is until they are declared lost: a new process
    may have the process id of one of them.
    """

    def __init__(self, url: str) -> None:
        from pipeweave.orchestrator.registry import worker_processes

        self._url = url
        left_behind = worker_processes.count_alive_at(url) > 0
        self._trusted_from = time.monotonic() + (
            worker_processes.LOST_AFTER.total_seconds() if left_behind else 0
        )

    def __call__(self, pid: int) -> bool:
        from pipeweave.orchestrator.registry import worker_processes

        return time.monotonic() >= self._trusted_from and worker_processes.is_alive_at(self._url, pid)


class Ticks:
    """Tells whether a tick has completed since it was first asked about a process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._before: dict[int, object] = {}

    def __call__(self, pid: int) -> bool:
        from pipeweave.orchestrator.recovery import tick_status

        now = tick_status.at(self._url)
        return self._before.setdefault(pid, now) != now
