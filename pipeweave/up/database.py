"""What `up` does in its database before anything else runs: the schema, and a token to come in with."""

from __future__ import annotations

import time

_SCOPES = ("orchestrator:read", "orchestrator:write", "orchestrator:admin")
_TOKEN_NAME = "pipeweave up"


def migrate(url: str) -> None:
    """Bring the schema up."""
    from pipeweave.orchestrator.deployment import migrate

    migrate.upgrade(url)


def admit(url: str, tenant: str, known: str | None) -> str:
    """The token of an earlier `up` while it is good, else a new one: for every tenant, since whoever runs the
    deployment may also bring it to rest.
    """
    from pipeweave.orchestrator.registry.tenants import ensure_tenant
    from pipeweave.orchestrator.security import access_tokens
    from pipeweave.orchestrator.store.database import Database

    with Database(url, pool_size=0).transaction() as tx:
        ensure_tenant(tx, tenant)
        allowed = access_tokens.verify(tx, known) if known else None
        if (
            known
            and allowed
            and allowed.may_enter(access_tokens.EVERY_TENANT)
            and all(map(allowed.allows, _SCOPES))
        ):
            return known
        return access_tokens.create_token(
            tx, name=_TOKEN_NAME, tenants=[access_tokens.EVERY_TENANT], scopes=_SCOPES
        )


class WorkerCount:
    """Counts living workers; not before those that a crash left behind are sure to be taken for lost."""

    def __init__(self, url: str) -> None:
        from pipeweave.orchestrator.registry import worker_processes

        self._url = url
        left_behind = worker_processes.count_alive_at(url) > 0
        self._trusted_from = time.monotonic() + (
            worker_processes.LOST_AFTER.total_seconds() if left_behind else 0
        )

    def __call__(self) -> int:
        from pipeweave.orchestrator.registry import worker_processes

        return worker_processes.count_alive_at(self._url) if time.monotonic() >= self._trusted_from else 0


class Ticks:
    """Whether the tick goes on: it has gone through since this was made."""

    def __init__(self, url: str) -> None:
        from pipeweave.orchestrator.recovery import tick_status

        self._url = url
        self._before = tick_status.at(url)

    def __call__(self) -> bool:
        from pipeweave.orchestrator.recovery import tick_status

        return tick_status.at(self._url) != self._before
